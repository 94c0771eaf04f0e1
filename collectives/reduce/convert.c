/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion: the reductions' own conversions of halves, a small array at a time where there is a factor.
 */
#include "collectives/reduce/convert.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce/scale.h"
#include <stdint.h>
#include <string.h>

enum { AT_ONCE = 1024 };

static void narrow(uint16_t *to, enum halay_dtype type, const float *from, size_t count, double factor)
{
    const struct halay_reducer *reducer = halay_reducer_best();
    float scaled[AT_ONCE];

    if (factor == 1) {
        reducer->narrow[type](to, from, count);
        return;
    }
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < AT_ONCE ? count - i : AT_ONCE;
        halay_scale(scaled, from + i, n, HALAY_F32, factor);
        reducer->narrow[type](to + i, scaled, n);
    }
}

static void widen(float *to, const uint16_t *from, enum halay_dtype type, size_t count, double factor)
{
    const struct halay_reducer *reducer = halay_reducer_best();

    for (size_t i = 0, n; i < count; i += n) {
        n = factor == 1 || count - i < AT_ONCE ? count - i : AT_ONCE;
        reducer->widen[type](to + i, from + i, n);
        if (factor != 1)
            halay_scale(to + i, to + i, n, HALAY_F32, factor);
    }
}

void halay_convert(void *to, enum halay_dtype to_type, const void *from, enum halay_dtype from_type, size_t count,
                   double factor)
{
    if (to_type != from_type && from_type == HALAY_F32)
        narrow(to, to_type, from, count, factor);
    else if (to_type != from_type)
        widen(to, from, from_type, count, factor);
    else if (factor != 1)
        halay_scale(to, from, count, to_type, factor);
    else
        memcpy(to, from, count * halay_dtype_size(to_type));
}
