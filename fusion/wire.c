/* SPDX-License-Identifier: Apache-2.0
 *
 * Wire types: the reductions' own conversions, a small array at a time where there is a factor.
 */
#include "fusion/wire.h"
#include "collectives/reduce.h"
#include "fusion/scale.h"
#include <stdint.h>

enum { AT_ONCE = 1024 };

enum halay_dtype halay_wire_dtype(enum halay_wire wire)
{
    return wire == HALAY_WIRE_F16 ? HALAY_F16 : HALAY_BF16;
}

void halay_wire_narrow(void *out, const float *in, size_t count, enum halay_wire wire, double factor)
{
    const struct halay_reducer *reducer = halay_reducer_best();
    enum halay_dtype dtype = halay_wire_dtype(wire);
    float scaled[AT_ONCE];

    if (factor == 1) {
        reducer->narrow[dtype](out, in, count);
        return;
    }
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < AT_ONCE ? count - i : AT_ONCE;
        halay_scale(scaled, in + i, n, HALAY_F32, factor);
        reducer->narrow[dtype]((uint16_t *)out + i, scaled, n);
    }
}

void halay_wire_widen(float *out, const void *in, size_t count, enum halay_wire wire, double factor)
{
    halay_reducer_best()->widen[halay_wire_dtype(wire)](out, in, count);
    if (factor != 1)
        halay_scale(out, out, count, HALAY_F32, factor);
}
