#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two hosts in a lab, data over TCP: what test_lab.sh does. Needs root.
HALAY_TRANSPORT=tcp
export HALAY_TRANSPORT
exec sh "$top_srcdir/tests/lab/test_lab.sh"
