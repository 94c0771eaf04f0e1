#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# JAX's collectives over halay: at once and compiled, their gradients, errors, and a context that closes. PYTHON, if it
# is set, is the interpreter, with JAX.
. "$top_srcdir/tests/python/lib.sh"
if [ -n "${PYTHON:-}" ]; then PATH=$(dirname "$PYTHON"):$PATH; fi
need jax
export JAX_PLATFORMS=cpu
way=callback
! "$python" -c 'from jax import ffi' 2>/dev/null || way=handler
for size in 1 2 3; do
    job "$size" jax_operations.py "$way"
    echo "$size ranks: $way"
done
"$top_builddir/launcher/halayrun" -np 2 "$python" "$top_srcdir/examples/python/jax_training.py"
