#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine over several nodes, its messages and data over TCP: what test_nodes.sh does.
HALAY_TRANSPORT=tcp
export HALAY_TRANSPORT
exec sh "$top_srcdir/tests/fusion/test_nodes.sh"
