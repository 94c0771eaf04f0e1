#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine over several nodes, its messages and data over TCP: what test_nodes.sh does, and some of it encrypted.
HALAY_TRANSPORT=tcp
export HALAY_TRANSPORT
for what in programs die leave; do
    HALAY_ENCRYPT=1 "$top_builddir/tests/fusion/job" --spawn 4 --nodes 0011 $what || { echo "$what sealed"; exit 1; }
done
exec sh "$top_srcdir/tests/fusion/test_nodes.sh"
