#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The manifests of contrib/kubernetes (tests/build/kubernetes/check.py).
. "${top_srcdir:?}/tests/build/build.sh"
python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "no python3"
exec "$python" "$top_srcdir/tests/build/kubernetes/check.py" "$top_srcdir"/contrib/kubernetes/*.yaml
