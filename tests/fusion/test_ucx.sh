#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine in processes, data over UCX: what test_shm.sh does.
# What MPI or UCX leave allocated is theirs, and the leak checker itself crashes on UCX's threads.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export ASAN_OPTIONS
HALAY_TRANSPORT=ucx
export HALAY_TRANSPORT
exec sh "$top_srcdir/tests/fusion/test_shm.sh"
