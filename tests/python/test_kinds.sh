#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every call with every kind of array and tensor: right, or refused on every rank.
. "$top_srcdir/tests/python/lib.sh"
need numpy
job 2 kinds.py numpy
echo "arrays: as their elements say, or refused"
need numpy torch
KINDS_STORE=$(mktemp -d)/store
export KINDS_STORE
trap 'rm -rf "${KINDS_STORE%/*}"' EXIT
job 2 kinds.py torch
echo "tensors: as their elements say, or refused"
