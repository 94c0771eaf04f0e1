#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The same as test_halayrun_end.sh, with the ranks on another host, which fake_ssh plays.
where="--ssh $(realpath "$top_srcdir")/tests/launcher/fake_ssh -H other:9"
export where
. "$top_srcdir/tests/launcher/test_halayrun_end.sh"
