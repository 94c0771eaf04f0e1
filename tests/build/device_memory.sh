#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The layers and the passes of the model look at no number in a device's memory: only kernels do. They are compiled with
# a number that can be neither read nor written (tft/core/kernels/real.h: TFT_OPAQUE), while addresses of numbers are
# computed as ever, and they call no function that copies, fills or compares memory of the host.
. "${top_srcdir:?}/tests/build/build.sh"
cc=$(make_variable CC)

# blind FILE: whether it compiles so.
blind() {
    # shellcheck disable=SC2086 # the compiler is a list of words
    $cc -std=gnu11 -fsyntax-only -DNDEBUG -DTFT_OPAQUE -include "$top_builddir/config.h" -I"$top_srcdir" \
        -I"$top_srcdir/include" "$1" >"$scratch/said" 2>&1
}

# made TEXT: a file with that statement.
made() {
    checks=$((checks + 1))
    {
        echo '#include "tft/core/layers/pass.h"'
        echo 'real *f(real *to, const real *from);'
        echo "real *f(real *to, const real *from) { (void)from; $1; return to + 2; }"
    } >"$scratch/made.c"
}

# The check sees these.
for look in 'to[1] = from[1]' '*to += 1' 'if (*from > 0) return to'; do
    made "$look"
    ! blind "$scratch/made.c" || wrong "not seen: $look"
done
made 'to += 1' # an address may be computed
blind "$scratch/made.c" || wrong "an address cannot be computed: $(cat "$scratch/said")"

cd "$top_srcdir"
for path in tft/core/layers/*.c tft/core/model/backward.c tft/core/model/forward.c tft/core/model/gradients.c; do
    checks=$((checks + 1))
    blind "$path" || {
        wrong "$path looks into memory that may be a device's"
        head -n 10 "$scratch/said"
    }
done
for path in tft/core/layers/*.[ch] tft/core/model/backward.c tft/core/model/forward.c tft/core/model/weights.c; do
    checks=$((checks + 1))
    ! grep -nE '\b(mem(cpy|move|set|cmp)|qsort|bzero) *\(|tft/core/kernels/(vector|cpu)\.h' "$path" ||
        wrong "$path treats memory as the host's"
done
build_end
