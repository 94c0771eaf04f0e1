/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduction: the vector versions give the bits of the plain one for every type, operation, number of sources, length and
 * alignment, with NaNs, infinities, zeros of both signs and subnormal numbers among the elements; and the plain one gives
 * what reduce.h says, computed here a second time along the tree.
 */
#include "collectives/reduce.h"
#include "base/half.h"
#include "tests/test.h"
#include <math.h>
#include <string.h>

enum { MOST = 200, SOURCES = 9, GUARD = 64 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Every third element is one where versions could differ. */
static void fill(enum halay_dtype dtype, unsigned char *data, size_t count)
{
    static const float odd[] = { NAN, -NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 65504.0f, 3e38f, 6e-8f };
    size_t size = halay_dtype_size(dtype);

    for (size_t i = 0; i < count; i++, data += size) {
        uint64_t bits = random_bits();
        float x = (float)(int32_t)bits / 1e8f;
        double d;
        uint16_t h;
        if (bits >> 40 & 1)
            x = (float)((int)(bits % 9) - 4); /* small integers: equal operands and exact ties */
        if (bits >> 32 & 3) {
            if (dtype == HALAY_I32 || dtype == HALAY_I64) {
                memcpy(data, &bits, size);
                continue;
            }
        } else {
            x = odd[bits % (sizeof odd / sizeof *odd)];
        }
        switch (dtype) {
        case HALAY_F32:
            memcpy(data, &x, size);
            break;
        case HALAY_F64:
            d = isfinite(x) ? (double)x * 1.000000001 : (double)x;
            memcpy(data, &d, size);
            break;
        case HALAY_F16:
            h = halay_f32_to_f16(x);
            if (bits >> 50 & 1)
                h = (uint16_t)(bits >> 16); /* any pattern: NaNs with payloads, subnormals */
            memcpy(data, &h, size);
            break;
        case HALAY_BF16:
            h = halay_f32_to_bf16(x);
            if (bits >> 50 & 1)
                h = (uint16_t)(bits >> 16);
            memcpy(data, &h, size);
            break;
        default:
            memset(data, 0, size);
            memcpy(data, &(int32_t){ (int)(bits % 5) - 2 }, 4);
            break;
        }
    }
}

struct arrays {
    unsigned char memory[SOURCES][GUARD + (MOST + 1) * 8 + GUARD];
};

static struct arrays source, by_plain, by_vector;

static void compare(const struct halay_reducer *vector, enum halay_dtype dtype, enum halay_op op, int sources,
                    size_t count, size_t shift, int destinations, int in_place)
{
    const struct halay_reducer *reducers[] = { halay_reducer_get(0), vector };
    struct arrays *results[] = { &by_plain, &by_vector };
    int divisor = op == HALAY_AVERAGE ? sources : 1;

    for (int w = 0; w < 2; w++) {
        const void *src[SOURCES];
        void *dst[SOURCES];
        if (in_place)
            memcpy(results[w], &source, sizeof source);
        else
            memset(results[w], 0x5a, sizeof source);
        for (int s = 0; s < sources; s++)
            src[s] = (in_place ? results[w] : &source)->memory[s] + GUARD + (s & 1 ? shift : 0);
        for (int d = 0; d < destinations; d++)
            dst[d] = results[w]->memory[d] + GUARD + (d & 1 ? shift : 0);
        reducers[w]->reduce[dtype][op](dst, destinations, src, sources, count, divisor);
    }
    CHECK(!memcmp(&by_plain, &by_vector, sizeof by_plain), "%s %s %s: %d sources, %d destinations, %zu elements%s",
          vector->name, halay_dtype_name(dtype), halay_op_name(op), sources, destinations, count,
          in_place ? ", in place" : "");
}

static void check_vectors(void)
{
    const struct halay_reducer *vector;

    for (int v = 1; (vector = halay_reducer_get(v)); v++)
        for (int t = 0; t < HALAY_DTYPE_COUNT; t++) {
            size_t size = halay_dtype_size((enum halay_dtype)t);
            for (int s = 0; s < SOURCES; s++)
                fill((enum halay_dtype)t, source.memory[s], sizeof source.memory[s] / size);
            for (int o = 0; o < HALAY_OP_COUNT; o++) {
                if (!halay_op_takes((enum halay_op)o, (enum halay_dtype)t))
                    continue;
                for (size_t count = 0; count <= MOST; count++) {
                    compare(vector, t, o, 2, count, size, 1, 0);
                    compare(vector, t, o, 2, count, 0, 2, 1);
                    compare(vector, t, o, 1 + (int)(count % SOURCES), count, size, 1 + (int)(count % 3) % SOURCES, 0);
                }
                for (int sources = 1; sources <= SOURCES; sources++)
                    compare(vector, t, o, sources, 101, size, sources, 1);
            }
        }
}

static void check_conversions(void)
{
    static uint16_t all[65536], back[2][65536];
    static float wide[2][65536];
    const struct halay_reducer *plain = halay_reducer_get(0), *vector;

    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int v = 1; (vector = halay_reducer_get(v)); v++)
        for (int t = HALAY_F16; t <= HALAY_BF16; t++) {
            plain->widen[t](wide[0], all, 65536 - 3);
            vector->widen[t](wide[1], all, 65536 - 3);
            for (size_t i = 0; i < 65536 - 3; i++) /* a NaN's payload is free on this way: the result is canonical */
                if (isnan(wide[0][i]) ? !isnan(wide[1][i]) : memcmp(&wide[0][i], &wide[1][i], sizeof(float)))
                    CHECK(0, "%s widen %s of %04zx", vector->name, halay_dtype_name(t), i);
            for (size_t i = 0; i < 65536; i++)
                wide[0][i] = halay_f32_from_bits((uint32_t)random_bits());
            plain->narrow[t](back[0], wide[0], 65536 - 5);
            vector->narrow[t](back[1], wide[0], 65536 - 5);
            CHECK(!memcmp(back[0], back[1], sizeof back[0]), "%s narrow %s", vector->name, halay_dtype_name(t));
        }
}

/* The tree, as it is defined: cut at the largest power of two below the number of leaves. */
static float tree(const float *leaf, int n)
{
    int half = 1;

    if (n == 1)
        return leaf[0];
    while (2 * half < n)
        half *= 2;
    return tree(leaf, half) + tree(leaf + half, n - half);
}

static void check_tree(void)
{
    float leaf[SOURCES], result;
    const void *src[SOURCES];
    void *dst[1] = { &result };

    for (int v = 0; halay_reducer_get(v); v++)
        for (int n = 1; n <= SOURCES; n++)
            for (int k = 0; k < 100; k++) {
                for (int s = 0; s < n; s++) {
                    leaf[s] = (float)(int32_t)random_bits() * (1.0f / (float)(1 + random_bits() % 1000));
                    src[s] = &leaf[s];
                }
                halay_reducer_get(v)->reduce[HALAY_F32][HALAY_SUM](dst, 1, src, n, 1, 1);
                CHECK(result == tree(leaf, n), "%d sources", n);
                halay_reducer_get(v)->reduce[HALAY_F32][HALAY_AVERAGE](dst, 1, src, n, 1, n);
                CHECK(result == tree(leaf, n) / (float)n, "average of %d", n);
            }
}

static void check_rules(void)
{
    const struct halay_reducer *r;

    for (int v = 0; (r = halay_reducer_get(v)); v++) {
        float a[] = { 0.0f, -0.0f, NAN, 1.0f, -NAN, 2.0f, INFINITY }, b[] = { -0.0f, 0.0f, 1.0f, NAN, NAN, 3.0f, -INFINITY };
        float c[7];
        const void *src[] = { a, b };
        void *dst[] = { c };
        const uint32_t nan = 0x7fc00000;
        r->reduce[HALAY_F32][HALAY_MIN](dst, 1, src, 2, 7, 1);
        CHECK(c[0] == 0 && signbit(c[0]) && c[1] == 0 && signbit(c[1]) && c[5] == 2 && c[6] == -INFINITY, "%s min", r->name);
        CHECK(halay_f32_bits(c[2]) == nan && halay_f32_bits(c[3]) == nan && halay_f32_bits(c[4]) == nan, "%s", r->name);
        r->reduce[HALAY_F32][HALAY_MAX](dst, 1, src, 2, 7, 1);
        CHECK(c[0] == 0 && !signbit(c[0]) && c[1] == 0 && !signbit(c[1]) && c[5] == 3 && c[6] == INFINITY, "%s max", r->name);
        CHECK(halay_f32_bits(c[2]) == nan && halay_f32_bits(c[3]) == nan && halay_f32_bits(c[4]) == nan, "%s", r->name);
        r->reduce[HALAY_F32][HALAY_SUM](dst, 1, src, 2, 7, 1);
        CHECK(halay_f32_bits(c[4]) == nan && halay_f32_bits(c[6]) == nan, "%s: inf - inf", r->name);

        /* One rounding: 2048 + 1 + 1 is 2048 twice rounded in f16, 2050 rounded once. */
        uint16_t h[3] = { halay_f32_to_f16(2048), halay_f32_to_f16(1), halay_f32_to_f16(1) }, sum;
        const void *three[] = { &h[0], &h[1], &h[2] };
        void *one[] = { &sum };
        r->reduce[HALAY_F16][HALAY_SUM](one, 1, three, 3, 1, 1);
        CHECK(halay_f16_to_f32(sum) == 2050, "%s: f16 rounds once", r->name);
        /* The average of three largest numbers does not overflow on the way. */
        h[0] = h[1] = h[2] = halay_f32_to_f16(65504);
        r->reduce[HALAY_F16][HALAY_AVERAGE](one, 1, three, 3, 1, 3);
        CHECK(halay_f16_to_f32(sum) == 65504, "%s: average divides before it rounds", r->name);
        int32_t big[2] = { INT32_MAX, 1 }, wrapped;
        const void *ints[] = { &big[0], &big[1] };
        void *into[] = { &wrapped };
        r->reduce[HALAY_I32][HALAY_SUM](into, 1, ints, 2, 1, 1);
        CHECK(wrapped == INT32_MIN, "%s: integers wrap around", r->name);
    }
}

int main(void)
{
    check_rules();
    check_tree();
    check_vectors();
    check_conversions();
    return test_end();
}
