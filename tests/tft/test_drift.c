/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: bins against ranks, distances against their definitions, thresholds against sorting; which stretches of the
 * past are a reference; and that statistics which nothing has moved raise as many alarms as is said, however many there
 * are and however alike.
 */
#include "base/bins.h"
#include "tests/test.h"
#include "tft/tools/drift/findings.h"
#include "tft/tools/drift/spans.h"
#include <math.h>
#include <string.h>

enum { BINS = HALAY_BINS_MAX, VALUES = 5000, SERIES = 12, BLOCKS = 99, ROUNDS = 600, RATE_ROUNDS = 2000 };

static const int64_t day = 86400, year = 31556952;

/* In [0, 1): a sequence that is the same in every run. */
static double draw(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static void check_bins(void)
{
    static double values[VALUES], sorted[VALUES];
    double edges[BINS - 1];
    size_t counts[BINS] = { 0 }, most = 0, least = VALUES;

    for (size_t i = 0; i < VALUES; i++)
        values[i] = sorted[i] = draw() * draw();
    halay_bins_fit(sorted, VALUES, BINS, edges);
    for (size_t i = 0; i < VALUES; i++)
        counts[halay_bins_find(edges, BINS, values[i])]++;
    for (size_t k = 0; k < BINS; k++) {
        most = counts[k] > most ? counts[k] : most;
        least = counts[k] < least ? counts[k] : least;
    }
    CHECK(most == VALUES / BINS && least == VALUES / BINS, "%zu to %zu values", least, most);
    CHECK(halay_bins_find(edges, BINS, -1) == 0 && halay_bins_find(edges, BINS, 2) == BINS - 1);
    CHECK(halay_bins_find(edges, BINS, edges[7]) == 8 && halay_bins_find(edges, BINS, nextafter(edges[7], 0)) == 7);
    for (size_t i = 0; i < VALUES; i++)
        values[i] = 3; /* all in one bin, and what is less or more elsewhere */
    halay_bins_fit(values, VALUES, BINS, edges);
    const size_t of[] = { halay_bins_find(edges, BINS, 2.9), halay_bins_find(edges, BINS, 3),
                          halay_bins_find(edges, BINS, 3.1) };
    CHECK(of[0] == 0 && of[0] < of[1] && of[1] < of[2] && of[2] == BINS - 1, "%zu, %zu, %zu", of[0], of[1], of[2]);
    for (size_t i = 0; i < VALUES; i++)
        values[i] = i % 5 != 0; /* an indicator: both its values have company on one side only */
    halay_bins_fit(values, VALUES, BINS, edges);
    CHECK(halay_bins_find(edges, BINS, -1) < halay_bins_find(edges, BINS, 0) &&
          halay_bins_find(edges, BINS, 0) < halay_bins_find(edges, BINS, .5) &&
          halay_bins_find(edges, BINS, .5) < halay_bins_find(edges, BINS, 1) &&
          halay_bins_find(edges, BINS, 1) < halay_bins_find(edges, BINS, 2));
}

static void check_distances(void)
{
    uint64_t a[BINS] = { 0 }, b[BINS] = { 0 };
    static const uint64_t words[] = { 40, 60, 0 }, other[] = { 5, 4, 1 };
    double right = 0;

    for (size_t k = 0; k < BINS; k++) {
        a[k] = 7;
        b[k] = k >= 30 ? 10 : 0; /* the lowest 30 % are gone */
    }
    CHECK(fabs(halay_bins_ks(a, b, BINS) - .3) < 1e-12 && halay_bins_ks(a, a, BINS) == 0);
    CHECK(halay_bins_ks(b, a, BINS) == halay_bins_ks(a, b, BINS));
    for (int g = 0; g < 10; g++) {
        double p = (70 + .5) / (700 + 5), q = ((g >= 3 ? 100 : 0) + .5) / (700 + 5);
        right += (p - q) * log(p / q);
    }
    CHECK(fabs(halay_bins_psi(a, b, BINS, 1) - right) < 1e-12, "%g", right);
    CHECK(fabs(halay_bins_psi(a, a, BINS, 1)) < 1e-12);
    double p[] = { 40.5 / 101.5, 60.5 / 101.5, .5 / 101.5 }, q[] = { 5.5 / 11.5, 4.5 / 11.5, 1.5 / 11.5 };
    right = 0;
    for (int k = 0; k < 3; k++)
        right += (p[k] - q[k]) * log(p[k] / q[k]);
    CHECK(fabs(halay_bins_psi(words, other, 3, 0) - right) < 1e-12);
}

/* Groups hold a tenth each, whatever the bins do; empty bins belong somewhere. */
static void check_groups(void)
{
    uint64_t counts[BINS] = { 0 };
    size_t group[BINS], groups;
    double share = 0;

    for (size_t k = 40; k < BINS; k++)
        counts[k] = 1 + k % 3;
    groups = halay_bins_group(counts, BINS, group);
    CHECK(groups == HALAY_BIN_GROUPS && group[0] == 0 && group[BINS - 1] == groups - 1);
    for (size_t k = 0; k < BINS; k++)
        share += group[k] == 4 ? (double)counts[k] / 120 : 0;
    CHECK(fabs(share - .1) < .03, "%g", share);
    memset(counts, 0, sizeof counts);
    counts[17] = 5;
    groups = halay_bins_group(counts, BINS, group);
    CHECK(groups >= 1 && group[BINS - 1] == groups - 1 && group[16] <= group[17]);
}

static void check_thresholds(void)
{
    double values[] = { 9, 1, 8, 2, 7, 3, 6, 4, 5 }, few[] = { 3, 1, 2, 4 }, t;
    int above = 0;

    CHECK(tft_threshold(values, 9, 9, .2, &t) && t == 8);
    CHECK(tft_threshold(values, 9, 4, .2, &t) && t == 8);
    CHECK(!tft_threshold(values, 9, 3, .2, &t) && t >= 9);
    CHECK(tft_threshold(values, 9, 9, .5, &t) && t == 5);
    CHECK(!tft_threshold(few, 4, 4, .05, &t) && fabs(t - fmax(4, 3 - .5 * log(.1))) < 1e-12, "%g", t);
    for (int round = 0; round < ROUNDS; round++) { /* of exponential values the tail is known */
        double drawn[15];
        for (int k = 0; k < 15; k++)
            drawn[k] = -log(1 - draw());
        CHECK(!tft_threshold(drawn, 15, 15, .01, &t));
        above += -log(1 - draw()) > t;
    }
    CHECK(above < .04 * ROUNDS, "%d of %d", above, ROUNDS);
}

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static double slot_middle(const struct tft_spans *s, size_t slot)
{
    return (double)s->end - ((double)slot + .5) * (double)s->width;
}

static void check_reference(const struct tft_spans *s, size_t number, double middle)
{
    struct tft_slot_range ranges[TFT_RANGES_MOST];
    size_t count = tft_spans_reference(s, number, ranges), all = 0;
    double length = (double)(s->until - s->since);

    for (size_t k = 0; k < count; k++)
        for (size_t slot = ranges[k].first; slot < ranges[k].end; slot++) {
            double apart = fabs(slot_middle(s, slot) - middle);
            CHECK(slot < s->slots);
            if (s->is_seasonal)
                CHECK(apart >= (double)year / 2 - 1 &&
                          fabs(remainder(apart, (double)year)) <= length / 2 + 45. * (double)day + 1,
                      "block %zu: a slot %g days away", number, apart / (double)day);
            else
                CHECK(apart >= 1.5 * length);
            all++;
        }
    CHECK(all > 0, "block %zu has no reference", number);
}

static void check_spans(void)
{
    struct tft_spans s;

    /* Four years and then two weeks, half a year later. */
    tft_spans_init(0, 0, 4 * year, 4 * year + 180 * day, 4 * year + 194 * day, &s);
    CHECK(s.is_seasonal && s.width == 3 * day + day / 2 && s.block == 4 && s.slots == (size_t)(4 * year / s.width) &&
          s.blocks == s.slots - 3);
    CHECK(tft_spans_slot(&s, 4 * year - 1) == 0 && tft_spans_slot(&s, 4 * year - s.width) == 0 &&
          tft_spans_slot(&s, 4 * year - s.width - 1) == 1 && tft_spans_slot(&s, 4 * year) >= s.slots);
    for (size_t b = 0; b < s.blocks; b++)
        check_reference(&s, b, (double)s.end - ((double)b + 2) * (double)s.width);
    check_reference(&s, s.blocks, (double)(4 * year + 187 * day));

    size_t all = 0, few = 0;
    for (size_t b = 0; b < s.blocks; b++)
        all += tft_spans_counts(&s, b) != 0;
    tft_spans_narrow(&s, .05);
    for (size_t b = 0; b < s.blocks; b++) {
        double apart = remainder((double)s.end - ((double)b + 2) * (double)s.width - (double)(187 * day), (double)year);
        few += tft_spans_counts(&s, b) != 0;
        CHECK(tft_spans_counts(&s, b) == (fabs(apart) <= s.reach));
    }
    CHECK(all == s.blocks && few < all && few / 4 >= 19 && few / 4 < 40, "%zu of %zu", few, all);
    tft_spans_narrow(&s, 1e-6);
    CHECK(tft_spans_counts(&s, 0) && tft_spans_counts(&s, s.blocks / 2));

    /* A year is no season yet; whole numbers have none. */
    tft_spans_init(0, 0, year, year, year + 10 * day, &s);
    CHECK(!s.is_seasonal);
    for (size_t b = 0; b < s.blocks; b++)
        check_reference(&s, b, (double)s.end - ((double)b + (double)s.block / 2) * (double)s.width);
    tft_spans_init(1, 0, 1000000, 1000000, 1000003, &s);
    CHECK(!s.is_seasonal && s.slots <= TFT_SLOTS_MOST && s.block == 1 && s.blocks == s.slots);
    tft_spans_init(1, 0, 5, 5, 100, &s);
    CHECK(s.blocks == 0 && s.slots == 0);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

/* Rounds in which nothing has moved: series of other sizes and a part in common, with heavy tails or none; blocks do
 * not overlap. more: one recent value is so much larger. */
struct round {
    size_t blocks;
    double rate, more;
    int is_heavy;
};

static double one_value(const struct round *r)
{
    return r->is_heavy ? .1 / (draw() + .01) : draw();
}

/* Does it alarm? */
static int alarms(const struct round *r, double *stated)
{
    struct halay_log log;
    struct tft_findings f;
    double common[BLOCKS + 1], in_blocks[BLOCKS], recent;
    size_t count;

    halay_log_init(&log, HALAY_LOG_WARNING);
    REQUIRE(!tft_findings_init(&log, r->rate, r->blocks, 1, r->blocks, &f));
    for (size_t b = 0; b <= r->blocks; b++)
        common[b] = one_value(r);
    for (int k = 0; k < SERIES; k++) {
        for (size_t b = 0; b < r->blocks; b++)
            in_blocks[b] = (k + 1) * (common[b] + one_value(r));
        recent = (k + 1) * (common[r->blocks] + one_value(r)) * (k == 3 ? r->more : 1);
        REQUIRE(!tft_findings_add(&f, "ks", recent, in_blocks, .01, json_object()));
    }
    tft_findings_finish(&f);
    *stated = f.rate;
    size_t drifted = tft_findings_drifted(&f, &count);
    CHECK(count == SERIES && f.used == r->blocks && (drifted > 0) == (f.most > f.threshold));
    if (r->more > 2)
        CHECK(json_is_true(json_object_get(json_array_get(f.rows, 3), "drifted")));
    tft_findings_fini(&f);
    halay_log_fini(&log);
    return drifted > 0;
}

/* Where blocks are just enough for the rate, too. */
static void check_rates(void)
{
    static const struct round rounds[] = {
        { 19, .05, 1, 0 }, { 19, .05, 1, 1 }, { 39, .05, 1, 0 }, { 39, .05, 1, 1 },
        { 99, .05, 1, 1 }, { 4, .2, 1, 1 },   { 99, .2, 1, 0 },
    };
    double stated = 0;

    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        const double expected = rounds[i].rate * RATE_ROUNDS;
        int n = 0;
        for (int k = 0; k < RATE_ROUNDS; k++)
            n += alarms(&rounds[i], &stated);
        CHECK(stated == rounds[i].rate && n < expected + 4 * sqrt(expected) && n > expected / 2,
              "%d of %d alarms at %g with %zu blocks", n, RATE_ROUNDS, rounds[i].rate, rounds[i].blocks);
    }
    CHECK(alarms(&(struct round){ BLOCKS, .05, 3, 0 }, &stated));
    alarms(&(struct round){ BLOCKS, .001, 1, 0 }, &stated);
    CHECK(stated == .001);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The place-th smallest of what does not overlap a block, and of the recent value; or the largest. */
static double plain_scale(const double *in_blocks, size_t blocks, size_t block, size_t b, double recent, double rate)
{
    double others[BLOCKS + 1];
    size_t n = 0;

    for (size_t k = 0; k < blocks; k++)
        if ((k + block <= b || k >= b + block) && !isnan(in_blocks[k]))
            others[n++] = in_blocks[k];
    others[n++] = recent;
    qsort(others, n, sizeof *others, compare_doubles);
    size_t place = tft_threshold_place(n, rate);
    return others[(place < n ? place : n) - 1];
}

/* The largest of each block, also with blocks that overlap, values that are missing and values that are the same. */
static void check_scales(void)
{
    struct halay_log log;
    struct tft_findings f;
    double in_blocks[BLOCKS];

    halay_log_init(&log, HALAY_LOG_WARNING);
    for (int round = 0; round < ROUNDS; round++) {
        size_t blocks = 30 + (size_t)(draw() * (BLOCKS - 30)), block = 1 + (size_t)(draw() * 5);
        double rate = .02 + .3 * draw(), recent = 1 + (double)(int)(10 * draw());
        REQUIRE(!tft_findings_init(&log, rate, blocks, block, blocks / block, &f));
        for (size_t b = 0; b < blocks; b++)
            in_blocks[b] = draw() < .1 ? NAN : 1 + (round % 2 ? (double)(int)(10 * draw()) : 10 * draw());
        REQUIRE(!tft_findings_add(&f, "psi", recent, in_blocks, .01, json_object()));
        for (size_t b = 0; b < blocks; b++) {
            double right = in_blocks[b] / plain_scale(in_blocks, blocks, block, b, recent, rate);
            CHECK(isnan(in_blocks[b]) ? isnan(f.largest[b]) : fabs(f.largest[b] - right) < 1e-12,
                  "%zu blocks, %zu overlap, block %zu: %g, not %g", blocks, block, b, f.largest[b], right);
        }
        tft_findings_fini(&f);
    }
    halay_log_fini(&log);
}

/* What never changed may change by less than the least scale. */
static void check_least(void)
{
    static const double still[BLOCKS];
    struct halay_log log;
    struct tft_findings f;
    size_t count;

    halay_log_init(&log, HALAY_LOG_WARNING);
    REQUIRE(!tft_findings_init(&log, .05, BLOCKS, 1, BLOCKS, &f));
    REQUIRE(!tft_findings_add(&f, "missing", .009, still, .01, json_object()));
    tft_findings_finish(&f);
    CHECK(tft_findings_drifted(&f, &count) == 0 && f.threshold == 1);
    tft_findings_fini(&f);
    halay_log_fini(&log);
}

/* Without a past to compare with, only a psi of a quarter counts. */
static void check_no_past(void)
{
    struct halay_log log;
    struct tft_findings f;
    size_t count;

    halay_log_init(&log, HALAY_LOG_WARNING);
    REQUIRE(!tft_findings_init(&log, .05, 0, 1, 0, &f));
    REQUIRE(!tft_findings_add(&f, "ks", .9, NULL, .01, json_object()));
    REQUIRE(!tft_findings_add(&f, "psi", .24, NULL, .01, json_object()));
    REQUIRE(!tft_findings_add(&f, "psi", .26, NULL, .01, json_object()));
    REQUIRE(!tft_findings_add(&f, "psi", .3, NULL, .01, json_pack("{sf}", "chance", .1)));
    tft_findings_finish(&f);
    CHECK(isnan(f.rate) && isnan(f.threshold) && tft_findings_drifted(&f, &count) == 1 && count == 4);
    CHECK(json_is_null(json_object_get(json_array_get(f.rows, 0), "threshold")));
    tft_findings_fini(&f);
    halay_log_fini(&log);
}

int main(void)
{
    check_bins();
    check_distances();
    check_groups();
    check_thresholds();
    check_spans();
    check_rates();
    check_scales();
    check_least();
    check_no_past();
    return test_end();
}
