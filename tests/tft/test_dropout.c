/* SPDX-License-Identifier: Apache-2.0
 *
 * The generator against its published answers, masks against the generator's definition element by element, their share
 * and independence, and that no cut into granules, rows or savings changes them.
 */
#include "tests/tft/model_helpers.h"
#include "tft/core/kernels/dropout.h"
#include <string.h>

struct known {
    uint32_t counter[4], key[2], draws[4];
};

static void check_known(const struct known *known)
{
    uint32_t draws[4];

    philox(known->counter, known->key, draws);
    CHECK(!memcmp(draws, known->draws, sizeof draws), "%08x %08x %08x %08x", draws[0], draws[1], draws[2], draws[3]);
}

static int kept(const struct dropout *dropout, uint32_t site, uint64_t e, uint64_t sample)
{
    const uint32_t key[2] = { dropout->seed, site };
    const uint32_t counter[4] = { (uint32_t)(e / 4), (uint32_t)(e / 4 >> 32), dropout->step, (uint32_t)sample };
    uint32_t draws[4];

    philox(counter, key, draws);
    return draws[e % 4] >= dropout->threshold;
}

/* Rows of any width from any element on, the low half of the counter wrapping included. */
static void test_meaning(void)
{
    static const uint64_t begins[] = {
        0, 1, 2, 3, 160, 4001, UINT64_C(0x3fffffff0), UINT64_C(0x3fffffffe), UINT64_C(1) << 40
    };
    static const size_t widths[] = { 1, 2, 3, 5, 40, 63, 64, 65, 160, 255, 256, 257, 700 };
    struct dropout dropout = dropout_of(0.3, 12345, 678, 1000);
    uint8_t keep[704];

    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        for (size_t j = 0; j < sizeof widths / sizeof *widths; j++) {
            size_t W = widths[j], wrong = 0;

            memset(keep, 2, sizeof keep);
            dropout_row(&dropout, 99, begins[i], 5, W, keep);
            for (size_t k = 0; k < W; k++)
                wrong += keep[k] != kept(&dropout, 99, begins[i] + k, 1005);
            CHECK(!wrong && keep[W] == 2, "%zu wrong from %llu, %zu wide", wrong, (unsigned long long)begins[i], W);
        }
}

/* The same element of the same sample, however the batch is cut and whichever rows are made. */
static void test_cuts(void)
{
    enum { T = 6, V = 3, W = 10, BATCH = 12 };
    const struct site site = { .name = 5, .stride = V * W, .first = 2 * W };
    uint8_t whole[T * BATCH * W], part[T * BATCH * W];
    struct dropout all = dropout_of(0.4, 1, 2, 0);

    dropout_rows(&all, &site, 0, T * BATCH, BATCH, W, whole);
    for (size_t B = 1; B <= 5; B += 2)
        for (size_t position = 0; position + B <= BATCH; position += B) {
            struct dropout granule = dropout_of(0.4, 1, 2, position);
            size_t wrong = 0, from = 2; /* a saving leaves out the first steps */

            dropout_rows(&granule, &site, from * B, (T - from) * B, B, W, part);
            for (size_t t = from; t < T; t++)
                for (size_t b = 0; b < B; b++)
                    wrong += memcmp(part + ((t - from) * B + b) * W, whole + (t * BATCH + position + b) * W, W) != 0;
            CHECK(!wrong, "%zu rows differ, granules of %zu at %zu", wrong, B, position);
        }
}

static void test_statistics(void)
{
    enum { N = 1 << 20 };
    uint8_t *keep = malloc(N), *other = malloc(N);
    const double p = 0.1;

    REQUIRE(keep && other);
    for (int what = 0; what < 4; what++) { /* another seed, step, site, sample */
        struct dropout a = dropout_of(p, 1, 1, 0), b = dropout_of(p, 1 + (what == 0), 1 + (what == 1), 0);
        double dropped = 0, both = 0, runs = 0, deviation = sqrt(N * p * (1 - p));

        dropout_row(&a, 7, 0, 0, N, keep);
        dropout_row(&b, 7 + (what == 2), 0, what == 3, N, other);
        for (size_t i = 0; i < N; i++) {
            dropped += !keep[i];
            both += !keep[i] && !other[i];
            runs += i && !keep[i] && !keep[i - 1];
        }
        CHECK(fabs(dropped - N * p) < 5 * deviation, "%g of %d dropped", dropped, N);
        CHECK(fabs(both - N * p * p) < 5 * sqrt(N * p * p), "%g dropped in both", both);
        CHECK(fabs(runs - N * p * p) < 5 * sqrt(N * p * p), "%g neighbours dropped", runs);
    }
    free(keep);
    free(other);
}

int main(void)
{
    struct dropout dropout = dropout_of(0.1, 0, 0, 0);
    real x[3] = { 1, 2, NAN };
    const uint8_t keep[3] = { 1, 1, 0 };

    check_known(&(struct known){ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } });
    check_known(
        &(struct known){ { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } });
    check_known(&(struct known){ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
                                 { 0xa4093822, 0x299f31d0 },
                                 { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } });
    CHECK(fnv1a("") == 0x811c9dc5 && fnv1a("a") == 0xe40c292c && fnv1a("foobar") == 0xbf9cf968);
    CHECK(dropout.threshold == 429496729, "threshold of 0.1 is %u", dropout.threshold);
    CHECK(dropout.scale == (real)(4294967296.0 / (4294967296.0 - 429496729)));
    CHECK(dropout_of(0, 0, 0, 0).threshold == 0 && dropout_of(0, 0, 0, 0).scale == 1);
    dropout_apply(&dropout, keep, x, 3, x);
    CHECK(x[0] == dropout.scale && x[1] == 2 * dropout.scale && x[2] == 0);
    test_meaning();
    test_cuts();
    test_statistics();
    return test_end();
}
