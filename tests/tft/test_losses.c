/* SPDX-License-Identifier: Apache-2.0
 *
 * The losses alone: likelihoods and quantiles against SciPy's (tests/reference/losses.py), slopes against central
 * differences, forecasts of what the last layer computes, and numbers at the ends of what a float holds.
 */
#include "tests/tft/model_helpers.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/loss.h"
#include "tft/core/model/tft.h"
#include <float.h>

static const char *const words[] = { "quantiles",         "mae",     "mse",      "huber",    "poisson",
                                     "negative-binomial", "tweedie", "gaussian", "student-t" };
enum { WORDS = sizeof words / sizeof *words };

static enum tft_loss loss_named(const char *word)
{
    size_t i = 0;

    while (i < WORDS && strcmp(word, words[i]))
        i++;
    REQUIRE(i < WORDS);
    return (enum tft_loss)i;
}

/* ---- against SciPy ---- */

static void check_slopes(const struct tft_distribution *d, double y)
{
    double slopes[TFT_LOSS_PARAMETERS_MAX], ignored[TFT_LOSS_PARAMETERS_MAX];

    tft_likelihood_loss(d, y, slopes);
    for (size_t k = 0; k < tft_loss_outputs(d->family, 0); k++) {
        struct tft_distribution moved = *d;
        double h = 1e-4 * (fabs(d->at[k]) + d->at[1] * (k == 0 && d->family >= TFT_LOSS_GAUSSIAN)), at[4];
        for (int i = 0; i < 4; i++) {
            moved.at[k] = d->at[k] + h * (i < 2 ? i - 2 : i - 1);
            at[i] = tft_likelihood_loss(&moved, y, ignored);
        }
        double slope = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h);
        double rounding = 1e-12 * fabs(at[0]) / h; /* of the differences */
        CHECK(fabs(slope - slopes[k]) < 1e-6 * fabs(slope) + 100 * rounding + 1e-9,
              "%s of %g, %g, %g at %g: slope %zu is %.9g, the difference %.9g", words[d->family], d->at[0], d->at[1],
              d->at[2], y, k, slopes[k], slope);
    }
}

static void check_line(const char *what, const struct tft_distribution *d, double argument, double expected)
{
    double slopes[TFT_LOSS_PARAMETERS_MAX], is, most;

    if (!strcmp(what, "likelihood")) {
        is = tft_likelihood_loss(d, argument, slopes);
        /* Beyond its series tweedie's density is that of the saddle point. */
        most = d->family == TFT_LOSS_TWEEDIE && argument > 0 ? 1e-3 : 1e-9;
        check_slopes(d, argument);
    } else {
        is = tft_distribution_quantile(d, argument);
        most = d->family == TFT_LOSS_TWEEDIE ? 1e-4 : 1e-7;
    }
    CHECK(fabs(is - expected) <= most * fmax(fabs(expected), d->family >= TFT_LOSS_GAUSSIAN ? d->at[1] : 0),
          "%s of %s %g, %g, %g at %g: %.12g instead of %.12g", what, words[d->family], d->at[0], d->at[1], d->at[2],
          argument, is, expected);
}

static void test_scipy(void)
{
    const char *source = getenv("top_srcdir");
    char path[4096], what[32], word[32];
    struct tft_distribution d = { 0 };
    double argument, expected;
    size_t lines = 0;

    snprintf(path, sizeof path, "%s/tests/reference/losses.txt", source ? source : ".");
    FILE *file = fopen(path, "r");
    REQUIRE(file);
    while (fscanf(file, "%31s %31s %lf %lf %lf %lf %lf %lf", what, word, &d.power, &d.at[0], &d.at[1], &d.at[2],
                  &argument, &expected) == 8) {
        d.family = loss_named(word);
        check_line(what, &d, argument, expected);
        lines++;
    }
    CHECK(lines == 267, "%zu lines", lines);
    fclose(file);
}

/* ---- quantiles ---- */

/* Where tweedie's probability changes from the series to the saddle point, and where its density does. */
static void test_tweedie(void)
{
    for (double power = 1.05; power < 2; power += 0.1) {
        double previous = 0;
        for (double expected = 48; expected < 52; expected += 0.05) {
            /* a mean of 1: as many gamma values as expected */
            const struct tft_distribution d = {
                TFT_LOSS_TWEEDIE, power, { 1, 1 / (expected * (2 - power)), 0 }, { 0 }
            };
            double x = tft_distribution_quantile(&d, 0.9), below = tft_distribution_below(&d, x);
            CHECK(fabs(below - 0.9) < 1e-6, "power %g: %g", power, below);
            CHECK(previous == 0 || fabs(x - previous) < 1e-3, "power %g: from %.9g to %.9g", power, previous, x);
            previous = x;
        }
        for (double f = 0.01; f < 100; f *= 7) {
            const struct tft_distribution d = { TFT_LOSS_TWEEDIE, power, { 3, f, 0 }, { 0 } };
            double zero = tft_distribution_below(&d, 0), slopes[TFT_LOSS_PARAMETERS_MAX];
            CHECK(zero == 0 || tft_distribution_quantile(&d, zero * 0.999) == 0);
            CHECK(zero > 0.99 || tft_distribution_quantile(&d, zero + 0.5 * (1 - zero)) > 0);
            for (double q = 0.01; q < 1; q += 0.07)
                CHECK(q <= zero || fabs(tft_distribution_below(&d, tft_distribution_quantile(&d, q)) - q) < 1e-6,
                      "power %g f %g quantile %g", power, f, q);
            double edge = pow(150 * f, 1 / (2 - power)); /* the last y of a series */
            double near = tft_likelihood_loss(&d, edge * (1 - 1e-9), slopes), slope = slopes[1],
                   beyond = tft_likelihood_loss(&d, edge * (1 + 1e-9), slopes);
            CHECK(!(edge < 1e4) || fabs(near - beyond) < 1e-3 + 1e-6 * fabs(near), "power %g f %g: %.9g and %.9g",
                  power, f, near, beyond);
            CHECK(!(edge < 1e4) || fabs(slope - slopes[1]) < 1e-2 / f + 1e-5 * fabs(slope),
                  "power %g f %g: slopes %g %g", power, f, slope, slopes[1]);
        }
    }
}

/* A count is the lowest whose probability reaches the quantile, also where its functions are no longer summed. */
static void test_counts(void)
{
    for (int i = 0; i < 60; i++) {
        double mean = pow(10, -2 + i / 10.0);
        for (double a = 0; a < 10; a = 4 * a + 1e-3)
            for (double q = 0.02; q < 1; q += 0.16) {
                const struct tft_distribution d = {
                    a > 0 ? TFT_LOSS_NEGATIVE_BINOMIAL : TFT_LOSS_POISSON, 0, { mean, a, 0 }, { 0 }
                };
                double x = tft_distribution_quantile(&d, q);
                CHECK(x >= 0 && x == floor(x) && tft_distribution_below(&d, x) >= q &&
                          (x == 0 || tft_distribution_below(&d, x - 1) < q),
                      "mean %g a %g quantile %g: %g", mean, a, q, x);
            }
    }
    for (double q = 0.02; q < 1; q += 0.16) {
        struct tft_distribution few = { TFT_LOSS_NEGATIVE_BINOMIAL, 0, { 999999, 0.02, 0 }, { 0 } }, many = few;
        many.at[0] = 1000001;
        CHECK(fabs(tft_distribution_quantile(&few, q) / tft_distribution_quantile(&many, q) - 1) < 1e-4, "%g", q);
        few.family = many.family = TFT_LOSS_POISSON;
        CHECK(fabs(tft_distribution_quantile(&few, q) - tft_distribution_quantile(&many, q) + 2) < 1.5, "%g", q);
    }
}

/* ---- what the last layer computes ---- */

static struct tft_model_config config_of(enum tft_loss loss)
{
    struct tft_model_config config;

    tft_config_defaults(&config);
    config.loss = loss;
    if (tft_loss_is_point(loss)) {
        config.quantile_count = 1;
        config.quantiles[0] = 0.5;
    }
    return config;
}

static void forecast_of(enum tft_loss loss, const real *o, real offset, real unit, real *forecast)
{
    const struct tft_model_config config = config_of(loss);

    tft_outputs_forecast(&config, o, offset, unit, forecast);
}

static int near(double a, double b)
{
    return fabs(a - b) < 1e-5 * (1 + fabs(b));
}

static void test_forecasts(void)
{
    const real o[3] = { 0.5F, -0.25F, 1 };
    real p[3];
    const double z = 1.2815515655446004; /* of .9 */
    double deviation;

    forecast_of(TFT_LOSS_QUANTILES, o, 10, 2, p);
    CHECK(p[0] == 11 && p[1] == 9.5F && p[2] == 12);
    for (int loss = TFT_LOSS_MAE; loss <= TFT_LOSS_HUBER; loss++) {
        forecast_of((enum tft_loss)loss, o, 10, 2, p);
        CHECK(p[0] == 11);
    }
    forecast_of(TFT_LOSS_GAUSSIAN, o, 10, 2, p);
    deviation = 2 * (1e-4 + log1p(exp(-0.25)));
    CHECK(near(p[1], 11) && near(p[0], 11 - z * deviation) && near(p[2], 11 + z * deviation), "%g %g %g", (double)p[0],
          (double)p[1], (double)p[2]);
    forecast_of(TFT_LOSS_STUDENT_T, (const real[]){ 0.5F, -0.25F, -100 }, 10, 2, p); /* 2 degrees of freedom */
    CHECK(near(p[1], 11) && near(p[2], 11 + deviation * 1.8856180831641267), "%g %g", (double)p[1], (double)p[2]);
    forecast_of(TFT_LOSS_POISSON, o, 1000, 20, p); /* a mean of 1010 */
    CHECK(p[0] == 969 && p[1] == 1010 && p[2] == 1051, "%g %g %g", (double)p[0], (double)p[1], (double)p[2]);
    forecast_of(TFT_LOSS_POISSON, (const real[]){ -3 }, 0, 1, p); /* log(1 + e^-3) = .0486 */
    CHECK(p[0] == 0 && p[1] == 0 && p[2] == 0);
    forecast_of(TFT_LOSS_NEGATIVE_BINOMIAL, (const real[]){ 0.5F, -0.25F }, 1000, 20, p);
    CHECK(p[0] == 232 && p[1] == 824 && p[2] == 2032, "%g %g %g", (double)p[0], (double)p[1], (double)p[2]);
    forecast_of(TFT_LOSS_TWEEDIE, (const real[]){ -1, 3 }, 0, 1, p);
    CHECK(p[0] == 0 && p[1] == 0 && p[2] > 0, "%g %g %g", (double)p[0], (double)p[1], (double)p[2]);
}

/* One target's loss and slopes by the kernel. */
static double loss_of(enum tft_loss loss, const real *o, real y, real offset, real unit, real *slopes)
{
    const real weight = 1;
    struct queue *queue;
    double value;
    const struct outputs_run run = { .D = 1,
                                     .B = 1,
                                     .P = tft_loss_outputs(loss, 0),
                                     .O = 1,
                                     .loss = loss,
                                     .power = 1.5,
                                     .scale = 1,
                                     .p = o,
                                     .y = &y,
                                     .w = &weight,
                                     .offsets = &offset,
                                     .units = &unit };

    REQUIRE(tft_kernels_cpu()->open(&(struct queue_needs){ 0 }, &queue) == HALAY_OK);
    kernel_loss(queue, &run, &value, slopes);
    tft_kernels_cpu()->close(queue);
    return value;
}

static void test_points(void)
{
    static const struct {
        enum tft_loss loss;
        double above, value, slope; /* y - o */
    } cases[] = {
        { TFT_LOSS_MAE, 3, 3, -1 },     { TFT_LOSS_MAE, -0.5, 0.5, 1 },       { TFT_LOSS_MAE, 0, 0, 0 },
        { TFT_LOSS_MSE, 3, 9, -6 },     { TFT_LOSS_MSE, -0.5, 0.25, 1 },      { TFT_LOSS_HUBER, 3, 2.5, -1 },
        { TFT_LOSS_HUBER, -2, 1.5, 1 }, { TFT_LOSS_HUBER, 0.5, 0.125, -0.5 }, { TFT_LOSS_HUBER, 1, 0.5, -1 }
    };
    real slope;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const real o = 0.25F;
        double value = loss_of(cases[i].loss, &o, (real)(cases[i].above + 0.25), 0, 1, &slope);
        CHECK(value == cases[i].value && slope == (real)cases[i].slope, "%s at %g: %g, slope %g", words[cases[i].loss],
              cases[i].above, value, (double)slope);
    }
}

/* Whatever the last layer computes, the loss, its slopes and the forecasts are numbers. */
static void test_extremes(void)
{
    static const real numbers[] = { -1e4F, -90, -20, 0, 20, 90, 1e4F };
    enum { COUNT = sizeof numbers / sizeof *numbers };
    static const double targets[] = { 0, 1, 7, 1e5 };

    for (int loss = TFT_LOSS_POISSON; loss < WORDS; loss++)
        for (size_t i = 0; i < COUNT * COUNT * 4; i++) {
            const real o[3] = { numbers[i / 4 % COUNT], numbers[i / 4 / COUNT], numbers[(i / 4 + 3) % COUNT] };
            real slopes[3] = { 0 }, p[3];
            double value = loss_of((enum tft_loss)loss, o, (real)targets[i % 4], 3, 2, slopes);
            forecast_of((enum tft_loss)loss, o, 3, 2, p);
            for (size_t k = 0; k < 3; k++)
                CHECK(isfinite(slopes[k]) && isfinite(p[k]) && (!k || p[k] >= p[k - 1]) && isfinite(value),
                      "%s of %g, %g, target %g: loss %g, slope %zu %g, forecast %g", words[loss], (double)o[0],
                      (double)o[1], targets[i % 4], value, k, (double)slopes[k], (double)p[k]);
        }
}

int main(void)
{
    test_scipy();
    test_tweedie();
    test_counts();
    test_forecasts();
    test_points();
    test_extremes();
    return test_end();
}
