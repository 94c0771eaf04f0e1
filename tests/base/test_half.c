/* SPDX-License-Identifier: Apache-2.0
 *
 * Half precision: every one of the 65,536 values of both types against arithmetic on long doubles, both ways; rounding
 * at and around every half-way point between neighbours; NaN payloads; arrays like scalars.
 */
#include "base/half.h"
#include "tests/test.h"
#include <fenv.h>
#include <math.h>

struct format {
    const char *name;
    int exponent_bits, fraction_bits;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
};

static const struct format formats[] = {
    { "f16", 5, 10, halay_f16_to_f32, halay_f32_to_f16 },
    { "bf16", 8, 7, halay_bf16_to_f32, halay_f32_to_bf16 },
};

static unsigned infinity_bits(const struct format *f)
{
    return ((1u << f->exponent_bits) - 1u) << f->fraction_bits;
}

/* The value by definition; magnitude is not NaN. Infinity stands for "one step past the largest", which is what
 * rounding to nearest compares with. */
static long double reference(const struct format *f, unsigned magnitude)
{
    int exponent = (int)(magnitude >> f->fraction_bits), bias = (1 << (f->exponent_bits - 1)) - 1;
    long double fraction = magnitude & ((1u << f->fraction_bits) - 1u);

    if (exponent == 0)
        return ldexpl(fraction, 1 - bias - f->fraction_bits);
    return ldexpl(fraction + (long double)(1u << f->fraction_bits), exponent - bias - f->fraction_bits);
}

static void check_widening(const struct format *f)
{
    unsigned infinite = infinity_bits(f);

    for (unsigned h = 0; h < 0x10000; h++) {
        float wide = f->widen((uint16_t)h);
        unsigned magnitude = h & 0x7fffu;
        if (magnitude > infinite)
            CHECK(isnan(wide), "%s %04x", f->name, h);
        else if (magnitude == infinite)
            CHECK(isinf(wide) && !signbit(wide) == !(h >> 15), "%s %04x", f->name, h);
        else
            CHECK((long double)fabsf(wide) == reference(f, magnitude) && !signbit(wide) == !(h >> 15), "%s %04x",
                  f->name, h);
        if (magnitude > infinite) /* the payload and the sign stay, the NaN is quiet */
            CHECK(f->narrow(wide) == (h | (1u << (f->fraction_bits - 1))), "%s %04x", f->name, h);
        else
            CHECK(f->narrow(wide) == h, "%s %04x", f->name, h);
    }
}

/* Between each two neighbours: the tie goes to the even one, what is next to the tie to its own side. */
static void check_rounding(const struct format *f)
{
    for (unsigned h = 0; h < infinity_bits(f); h++)
        for (int negative = 0; negative < 2; negative++) {
            uint16_t sign = negative ? 0x8000u : 0, even = (uint16_t)(h + (h & 1u));
            long double tie = (reference(f, h) + reference(f, h + 1)) / 2;
            if (tie != (long double)(float)tie)
                continue; /* bf16's least subnormal halves below those of f32 */
            float at = negative ? (float)-tie : (float)tie;
            float below = nextafterf(at, 0), above = nextafterf(at, negative ? -INFINITY : INFINITY);
            CHECK(f->narrow(at) == (sign | even), "%s %04x tie", f->name, h);
            CHECK(f->narrow(below) == (sign | h), "%s %04x below the tie", f->name, h);
            CHECK(f->narrow(above) == (sign | (h + 1)), "%s %04x above the tie", f->name, h);
        }
}

static void check_extremes(const struct format *f)
{
    CHECK(f->narrow(INFINITY) == infinity_bits(f) && f->narrow(-INFINITY) == (0x8000u | infinity_bits(f)), "%s",
          f->name);
    CHECK(f->narrow(0x1.fffffep127f) == infinity_bits(f), "%s", f->name);
    CHECK(f->narrow(-0x1.fffffep127f) == (0x8000u | infinity_bits(f)), "%s", f->name);
    CHECK(f->narrow(0x1p-149f) == 0 && f->narrow(-0x1p-149f) == 0x8000u, "%s", f->name);
    /* NaNs whose payload lies in the bits that are lost must not become infinite. */
    CHECK(isnan(f->widen(f->narrow(halay_f32_from_bits(0x7f800001u)))), "%s", f->name);
    CHECK(isnan(f->widen(f->narrow(halay_f32_from_bits(0xffffffffu)))), "%s", f->name);
    CHECK(isnan(f->widen(f->narrow(halay_f32_from_bits(0x7fffffffu)))), "%s", f->name);
}

static void check_round_trips(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        const uint16_t half = (uint16_t)(i * 31u);
        for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
            CHECK(formats[f].narrow(formats[f].widen(half)) == half, "%s %u", formats[f].name, i);
    }
}

int main(void)
{
    static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        check_widening(&formats[i]);
        check_rounding(&formats[i]);
        check_extremes(&formats[i]);
    }
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) { /* the processor's mode does not matter */
        fesetround(modes[m]);
        check_extremes(&formats[0]);
        CHECK(halay_f32_to_f16(1.0f + 0x1p-11f) == 0x3c00u && halay_f32_to_bf16(1.0f + 0x1p-8f) == 0x3f80u);
        CHECK(halay_f16_to_f32(1) == 0x1p-24f);
    }
    fesetround(FE_TONEAREST);
    check_round_trips();
    return test_end();
}
