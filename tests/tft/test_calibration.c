/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration on made data with known quantiles: values spread evenly over [0, scale), where the scale differs from
 * value to value, so that the quantile q is q * scale; and models that are right, over-confident, or lopsided.
 */
#include "tests/tft/files.h"
#include "tft/core/data/windows.h"
#include "tft/core/score/calibration.h"
#include <math.h>
#include <string.h>

static const double three[] = { 0.1, 0.5, 0.9 };

/* Between 0 and 1, the same in each run. */
static double chance(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 24);
}

static void bands(void)
{
    static const double seven[] = { 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98 }, lopsided[] = { 0.1, 0.5, 0.95 };
    struct tft_band b[TFT_BANDS_MAX];

    CHECK(tft_bands_of(seven, 7, b) == 6 && b[0].low == 0 && b[0].high == 6 && b[2].low == 2 && b[2].high == 4);
    CHECK(!b[2].is_flat && b[3].is_flat && b[3].low == 0 && b[3].high == 6 && b[5].level == b[2].level);
    CHECK(fabs(b[0].level - 0.96) < 1e-12 && fabs(b[1].level - 0.8) < 1e-12);
    CHECK(tft_bands_of(lopsided, 3, b) == 4 && b[0].has_low && !b[0].has_high && b[0].high == 1 &&
          fabs(b[0].level - 0.9) < 1e-12);
    CHECK(!b[1].has_low && b[1].has_high && b[1].low == 1 && fabs(b[1].level - 0.95) < 1e-12);
    CHECK(tft_bands_of((const double[]){ 0.5 }, 1, b) == 0);
}

static void factors(void)
{
    double scores[100];

    for (size_t i = 0; i < 100; i++)
        scores[i] = (double)((i * 37 + 11) % 100); /* 0 to 99, shuffled */
    CHECK(tft_conformal_factor(scores, 100, 0.8) == 80, "the 81st: ceil(101 * .8)");
    CHECK(tft_conformal_factor(scores, 39, 0.8) == 31, "the 32nd of 0 to 38, now in order");
    CHECK(isnan(tft_conformal_factor(scores, TFT_CONFORMAL_LEAST - 1, 0.8)), "too few");
    CHECK(isnan(tft_conformal_factor(scores, 40, 0.98)), "no score of 40 is a bound of 98 %%");
    CHECK(tft_conformal_kept(-.4, 90) == -.4 * 90 / 120 && tft_conformal_kept(.4, 90) == .4, "a narrower one by less");
    CHECK(isnan(tft_conformal_kept(NAN, 90)), "none");
}

/* A model that says [low, high] * scale for 10 % and 90 %: what is held after calibration, and the factor. */
static double held(double low, double high, double *factor)
{
    struct tft_band band[TFT_BANDS_MAX];
    double scores[2000];
    unsigned state = 7;
    size_t inside = 0, n = 20000;

    REQUIRE(tft_bands_of(three, 3, band) == 2);
    for (size_t i = 0; i < 2000; i++) {
        double scale = 1 + 9 * chance(&state), p[] = { low * scale, 0.5 * scale, high * scale };
        scores[i] = tft_band_score(band, p, scale * chance(&state));
    }
    *factor = tft_conformal_factor(scores, 2000, band[0].level);
    for (size_t i = 0; i < n; i++) {
        double scale = 1 + 9 * chance(&state), p[] = { low * scale, 0.5 * scale, high * scale };
        double y = scale * chance(&state);
        tft_bands_widen(band, 1, factor, 1, p, 3);
        inside += y >= p[0] && y <= p[2];
        CHECK(p[1] == 0.5 * scale, "the median moved");
    }
    return (double)inside / (double)n;
}

static void known_quantiles(void)
{
    double factor, share = held(0.1, 0.9, &factor);

    CHECK(fabs(share - 0.8) < 0.02 && fabs(factor) < 0.03, "right: %g, factor %g", share, factor);
    share = held(0.3, 0.7, &factor); /* 40 %: both ends must move by half the width */
    CHECK(fabs(share - 0.8) < 0.02 && fabs(factor - 0.5) < 0.03, "over-confident: %g, factor %g", share, factor);
    share = held(-0.5, 1.5, &factor); /* all: from -.5 to .1 is .3 of the width */
    CHECK(fabs(share - 0.8) < 0.02 && fabs(factor + 0.3) < 0.02, "timid: %g, factor %g", share, factor);
    share = held(0.2, 0.6, &factor); /* half the width reaches 0 and .8 */
    CHECK(fabs(share - 0.8) < 0.02 && fabs(factor - 0.5) < 0.03, "lopsided: %g, factor %g", share, factor);
}

/* Whatever the factors, quantiles end in order. */
static void order(void)
{
    static const double seven[] = { 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98 };
    struct tft_band b[TFT_BANDS_MAX];
    size_t n = tft_bands_of(seven, 7, b);
    unsigned state = 3;

    for (int round = 0; round < 1000; round++) {
        double p[7], f[6], before[7];
        for (size_t q = 0; q < 7; q++)
            p[q] = chance(&state);
        for (size_t i = 0; i < n; i++)
            f[i] = round % 5 ? 8 * chance(&state) - 4 : NAN;
        memcpy(before, p, sizeof p);
        tft_quantiles_sort(before, 7);
        tft_bands_widen(b, n, f, 3, p, 7);
        CHECK(p[3] == before[3] && (round % 5 || !memcmp(p, before, sizeof p)));
        for (size_t q = 1; q < 7; q++)
            CHECK(p[q] >= p[q - 1], "round %d: %g after %g", round, p[q], p[q - 1]);
    }
}

/* A series that is mostly 0: where the forecast is flat, what is not 0 counts, and widens such forecasts alone; where
 * it is next to flat, too. The others' factor is theirs. */
static void intermittent(void)
{
    struct tft_band band[TFT_BANDS_MAX];
    double scores[2][2000], factors[2];
    size_t count[2] = { 0, 0 }, inside[2] = { 0, 0 }, n = 20000;
    unsigned state = 9;

    REQUIRE(tft_bands_of(three, 3, band) == 2);
    for (size_t i = 0; i < 2000 + n; i++) {
        int is_flat = i % 2, is_zero = is_flat && chance(&state) < .5;
        double width = is_flat ? 1e-4 * (double)(i % 3) : 1, p[] = { -width / 2, 0, width / 2 };
        double y = is_zero ? 0 : 8 * chance(&state) - 4;
        if (i == 2000)
            for (size_t b = 0; b < 2; b++)
                factors[b] = tft_conformal_factor(scores[b], count[b], band[b].level);
        for (size_t b = 0; b < 2 && i < 2000; b++) {
            double score = tft_band_score(&band[b], p, y);
            CHECK(isnan(score) == (b != (size_t)is_flat));
            if (!isnan(score))
                scores[b][count[b]++] = score;
        }
        if (i >= 2000) {
            tft_bands_widen(band, 2, factors, 1, p, 3);
            inside[is_flat] += y >= p[0] && y <= p[2];
        }
    }
    for (size_t kind = 0; kind < 2; kind++)
        CHECK(fabs(2 * (double)inside[kind] / (double)n - .8) < .03, "kind %zu: %zu of %zu, factor %g", kind,
              inside[kind], n / 2, factors[kind]);
    CHECK(tft_band_score(&band[1], (const double[]){ 1, 1, 1 }, 3) == 2 &&
          isnan(tft_band_score(&band[0], (const double[]){ 1, 1, 1 }, 3)));
}

/* ---- rolling ---- */

enum { ROWS = 400, TRAIN = 100, VALID = 160, HORIZON = 2 };

/* Two series; the second one's values from row `from` on are others if from is not 0. */
static void make_data(int from, struct tft_data *d)
{
    static char csv[2 * ROWS * 32];
    char text[500], *at = csv + sprintf(csv, "id,t,y\n");
    unsigned state = 5;
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;

    for (int e = 0; e < 2; e++)
        for (int t = 0; t < ROWS; t++) {
            double y = chance(&state);
            at += sprintf(at, "%d,%d,%.6f\n", e, t, e && from && t >= from ? 100 * y : y);
        }
    snprintf(text, sizeof text,
             "id: {column: id}\ntime: {column: t, integer: true}\n"
             "inputs:\n  y: {column: y, role: target, scale: none}\n  s: {calendar: steps, role: known}\n"
             "window: {encoder: 4, horizon: %d}\nsplit: {train: \"< %d\", valid: \"< %d\", test: \"< %d\"}\n",
             HORIZON, TRAIN, VALID, ROWS);
    const char *path = write_text("rows.csv", csv);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding) &&
            !tft_data_init(&test_log, &schema, &encoding, &table, d));
    tft_table_fini(&table);
}

static void make_calibrator(const struct tft_data *d, int is_rolling, struct tft_calibrator *c)
{
    const struct tft_list quantiles = { 3, { 0.1, 0.5, 0.9 } };
    struct tft_calibration stored;

    REQUIRE(!tft_calibration_init(&test_log, &quantiles, d, &stored));
    stored.by_horizon[2] = 1; /* of the second step; the first has none */
    REQUIRE(!tft_calibrator_init(&test_log, d, is_rolling, &stored, c));
}

/* Forecasts [.4, .6] of everything, from each row of the test, calibrated: (windows, horizon, quantiles). */
static size_t forecast_all(const struct tft_data *d, struct tft_calibrator *c, float *p)
{
    static const float said[] = { 0.4F, 0.5F, 0.6F, 0.4F, 0.5F, 0.6F };
    struct tft_windows test, before;

    REQUIRE(!tft_windows_init(&test_log, d, TFT_TEST, 1, &test) &&
            !tft_windows_init_preceding(&test_log, &test, TFT_RECENT, &before));
    CHECK(before.count == 2 * (VALID - TRAIN) / HORIZON, "%zu", before.count);
    CHECK(tft_windows_get(&before, 0).origin == TRAIN && tft_windows_get(&before, 29).origin == VALID - HORIZON);
    for (size_t i = 0; i < before.count && c->is_rolling; i++) {
        struct tft_window w = tft_windows_get(&before, i);
        if (w.entity == 0) /* the other one begins without a past */
            REQUIRE(!tft_calibrator_note(c, &w, said));
    }
    for (size_t i = 0; i < test.count; i++) {
        struct tft_window w = tft_windows_get(&test, i);
        memcpy(p + i * 6, said, sizeof said);
        REQUIRE(!tft_calibrator_apply(c, &w, p + i * 6));
    }
    size_t count = test.count;
    tft_windows_fini(&test);
    tft_windows_fini(&before);
    return count;
}

/* Each entity's factors are its own once it has enough windows, and never of what an origin does not know. */
static void rolling(void)
{
    enum { MOST = 2 * ROWS * 6, FROM = 300 };
    static float p[MOST], q[MOST];
    struct tft_data d, other;
    struct tft_calibrator c;

    make_data(0, &d);
    make_calibrator(&d, 1, &c);
    size_t n = forecast_all(&d, &c, p), each = n / 2;
    CHECK(each == ROWS - VALID - HORIZON + 1);
    /* The first entity has 30 windows at once. The second one has 30 that end before the 61st row of the test. */
    size_t late = (TFT_CONFORMAL_LEAST - 1) * HORIZON + HORIZON;
    CHECK(c.by[TFT_BY_NOTHING] == late && c.by[TFT_BY_HORIZON] == late && c.by[TFT_BY_ENTITY] == 0 &&
              c.by[TFT_BY_RECENT] == 2 * (n - late),
          "%zu %zu", c.by[TFT_BY_NOTHING], c.by[TFT_BY_RECENT]);
    const float *second = p + each * 6;
    CHECK(second[0] == 0.4F && second[2] == 0.6F, "no factor: %g %g", (double)second[0], (double)second[2]);
    CHECK(fabsf(second[3] - 0.2F) < 1e-6F && fabsf(second[5] - 0.8F) < 1e-6F, "a horizon's: %g", (double)second[3]);
    CHECK(second[late * 6] < 0.2F && second[late * 6 + 2] > 0.8F, "its own: %g", (double)second[late * 6]);
    tft_calibrator_fini(&c);

    make_data(FROM, &other);
    make_calibrator(&other, 1, &c);
    REQUIRE(forecast_all(&other, &c, q) == n);
    size_t same = (each + FROM - VALID + 1) * 6;
    CHECK(!memcmp(p, q, same * sizeof *p), "a forecast knew what came after its origin");
    CHECK(memcmp(p, q, n * 6 * sizeof *p), "the change made no difference later");
    tft_calibrator_fini(&c);

    make_calibrator(&d, 0, &c);
    REQUIRE(forecast_all(&d, &c, q) == n);
    CHECK(c.by[TFT_BY_HORIZON] == n && c.by[TFT_BY_NOTHING] == n && c.by[TFT_BY_RECENT] == 0);
    tft_calibrator_fini(&c);
    tft_data_fini(&d);
    tft_data_fini(&other);
}

int main(void)
{
    begin_scratch();
    bands();
    factors();
    known_quantiles();
    order();
    intermittent();
    rolling();
    end_scratch();
    return test_end();
}
