/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles by inversion: a bracket around a guess from the first three moments (Cornish and Fisher), which is then
 * halved, or cut where a straight line crosses (the Illinois method).
 *
 * Probabilities. Poisson's and the negative binomial's sums are incomplete gamma and beta functions. Tweedie's are a
 * sum over the number of gamma values, Poisson(n) P(n a, x / scale), while few are expected; from SERIES_MOST on the
 * saddle point's probability (Lugannani and Rice 1980), which is off by less than 1e-4 there (by 3e-4 at a power of
 * 1.95) and ever less beyond.
 * tests/tft/test_losses.c compares with SciPy and with one another.
 *
 * Counts whose mean is above COUNTS_MOST are taken for values of a gamma distribution (negative binomial) or by
 * Cornish and Fisher's expansion (Poisson), since they no longer differ by what a float can hold.
 */
#include "tft/core/model/tft.h"
#include <float.h>

enum { SERIES_MOST = 50, COUNTS_MOST = 1000000, ROUNDS_MOST = 200 };

static const double pi = 3.14159265358979323846, freedom_most = 1e5;

static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

static double normal_below(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

static double normal_density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * pi);
}

/* A guess (Abramowitz and Stegun 26.2.23), and two of Halley's steps. */
static double normal_quantile(double q)
{
    double p = fmin(q, 1 - q), t = sqrt(-2 * log(p));
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;

    for (int i = 0; i < 2; i++) {
        double u = (normal_below(x) - p) / normal_density(x);
        x -= u / (1 + x * u / 2);
    }
    return q < 0.5 ? x : -x;
}

/* ---- incomplete functions ---- */

/* The regularised incomplete gamma function P(a, x): a series, or 1 minus a continued fraction (Lentz's method). */
static double gamma_below(double a, double x)
{
    double factor = x > 0 ? exp(a * log(x) - x - log_gamma(a)) : 0;

    if (x <= 0)
        return 0;
    if (x < a + 1) {
        double term = 1 / a, sum = term;
        for (double n = a + 1; term > sum * DBL_EPSILON; n += 1)
            sum += term *= x / n;
        return factor * sum;
    }
    double b = x + 1 - a, c = 1 / DBL_MIN, d = 1 / b, h = d, step = 0;
    for (double n = 1; fabs(step - 1) > DBL_EPSILON; n += 1) {
        b += 2;
        d = 1 / (n * (a - n) * d + b);
        c = b + n * (a - n) / c;
        h *= step = c * d;
    }
    return 1 - factor * h;
}

/* The continued fraction of the incomplete beta function. */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d, step = 0;

    for (double m = 1; fabs(step - 1) > 4 * DBL_EPSILON && m < 1e6; m += 1) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        h *= c * d;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        h *= step = c * d;
    }
    return h;
}

/* The regularised incomplete beta function I(x; a, b). */
static double beta_below(double a, double b, double x)
{
    double factor =
        x > 0 && x < 1 ? exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x)) : 0;

    if (x <= 0 || x >= 1)
        return x > 0;
    if (x < (a + 1) / (a + b + 2))
        return factor * beta_fraction(a, b, x) / a;
    return 1 - factor * beta_fraction(b, a, 1 - x) / b;
}

/* ---- probabilities ---- */

static double student_below(double n, double t)
{
    double tail = beta_below(n / 2, 0.5, n / (n + t * t)) / 2;

    return t < 0 ? tail : 1 - tail;
}

static double tweedie_expected(const struct tft_distribution *d)
{
    return pow(d->at[0], 2 - d->power) / (d->at[1] * (2 - d->power));
}

static double tweedie_series(const struct tft_distribution *d, double x)
{
    double expected = tweedie_expected(d), p = d->power, reach = 8 * sqrt(expected) + 12, sum = exp(-expected);
    double chance = sum, scale = d->at[1] * (p - 1) * pow(d->at[0], p - 1);

    for (double n = 1; n < expected + reach; n += 1) {
        chance *= expected / n;
        sum += chance * gamma_below(n * (2 - p) / (p - 1), x / scale);
    }
    return sum;
}

/* w is the signed root of the deviance, v the distance of the saddle point in its deviation; where both are 0 their
 * reciprocals' difference is a sixth of the skewness. */
static double tweedie_saddle(const struct tft_distribution *d, double x)
{
    double mean = d->at[0], f = d->at[1], p = d->power, off = x / mean - 1;
    double skewness = p * sqrt(f) * pow(mean, p / 2 - 1);

    if (fabs(off) < 1e-4 * skewness)
        return 0.5 + skewness / 6 / sqrt(2 * pi) + off * mean / sqrt(f * pow(mean, p)) / sqrt(2 * pi);
    double deviance =
        2 * (pow(x, 2 - p) / ((1 - p) * (2 - p)) - x * pow(mean, 1 - p) / (1 - p) + pow(mean, 2 - p) / (2 - p)) / f;
    double w = copysign(sqrt(fmax(deviance, DBL_MIN)), off);
    double v = (pow(x, 1 - p) - pow(mean, 1 - p)) / (1 - p) * sqrt(pow(x, p) / f);
    return normal_below(w) + normal_density(w) * (1 / w - 1 / v);
}

double tft_distribution_below(const struct tft_distribution *d, double x)
{
    const double *at = d->at;

    if (d->family == TFT_LOSS_GAUSSIAN)
        return normal_below((x - at[0]) / at[1]);
    if (d->family == TFT_LOSS_STUDENT_T)
        return student_below(at[2], (x - at[0]) / at[1]);
    if (x < 0)
        return 0;
    if (d->family == TFT_LOSS_POISSON)
        return 1 - gamma_below(floor(x) + 1, at[0]);
    if (d->family == TFT_LOSS_NEGATIVE_BINOMIAL)
        return beta_below(1 / at[1], floor(x) + 1, 1 / (1 + at[0] * at[1]));
    if (x == 0)
        return exp(-tweedie_expected(d));
    return tweedie_expected(d) < SERIES_MOST ? tweedie_series(d, x) : tweedie_saddle(d, x);
}

/* ---- quantiles ---- */

/* In the lower half the probability curves upward, so that Newton's steps from above stay above. */
static double student_quantile(double n, double q)
{
    double p = fmin(q, 1 - q), z = normal_quantile(p), t = z * (1 + (z * z + 1) / (4 * n));
    double constant = exp(log_gamma((n + 1) / 2) - log_gamma(n / 2)) / sqrt(pi * n);

    for (int i = 0; i < ROUNDS_MOST && n < freedom_most; i++) {
        double step = (student_below(n, t) - p) / (constant * pow(1 + t * t / n, -(n + 1) / 2));
        double next = fmin(t - step, 0);
        if (fabs(next - t) <= 1e-12 * (1 + fabs(t)))
            break;
        t = next;
    }
    return q < 0.5 ? t : -t;
}

/* The second and the third cumulant of a distribution that is never below 0. */
static void spread_of(const struct tft_distribution *d, double *variance, double *third)
{
    double mean = d->at[0], a = d->at[1], p = d->power;

    *variance =
        d->family == TFT_LOSS_TWEEDIE ? a * pow(mean, p) : mean * (1 + (d->family == TFT_LOSS_POISSON ? 0 : a * mean));
    *third = d->family == TFT_LOSS_TWEEDIE   ? p * a * a * pow(mean, 2 * p - 1)
             : d->family == TFT_LOSS_POISSON ? mean
                                             : *variance * (1 + 2 * a * mean);
}

/* Returns the quantile of a distribution of numbers above 0, by its P(shape, x / scale). */
static double gamma_quantile(double shape, double scale, double q, double guess)
{
    double low = 0, high = fmax(guess, shape * scale);

    while (gamma_below(shape, high / scale) < q)
        high *= 2;
    for (int i = 0; i < ROUNDS_MOST && high - low > 1e-9 * high; i++) {
        double middle = (low + high) / 2;
        if (gamma_below(shape, middle / scale) < q)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* The quantile is in (*low, *high]; low is below 0 where nothing is. */
static void bracket_quantile(const struct tft_distribution *d, double q, double guess, double step, double *low,
                             double *high)
{
    int is_above = tft_distribution_below(d, guess) >= q;

    *low = *high = guess;
    for (; is_above && *low >= 0 && tft_distribution_below(d, *low) >= q; step *= 2) {
        *high = *low;
        *low = *low > 0 ? fmax(0, *low - step) : -1;
    }
    for (; !is_above && tft_distribution_below(d, *high) < q; step *= 2) {
        *low = *high;
        *high += step;
    }
}

static double whole_quantile(const struct tft_distribution *d, double q, double low, double high)
{
    while (high - low > 1) {
        double middle = floor((low + high) / 2);
        if (tft_distribution_below(d, middle) < q)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* To the digits of a float. */
static double smooth_quantile(const struct tft_distribution *d, double q, double low, double high)
{
    double below = tft_distribution_below(d, low) - q, above = tft_distribution_below(d, high) - q;

    for (int i = 0, side = 0; i < ROUNDS_MOST && high - low > 1e-8 * high; i++) {
        double x = i % 8 == 7 ? (low + high) / 2 : low - below * (high - low) / (above - below);
        double at = tft_distribution_below(d, x) - q;
        if (fabs(at) < 1e-12)
            return x;
        if (at < 0) { /* an end that stays twice counts half */
            low = x;
            below = at;
            above /= side < 0 ? 2 : 1;
        } else {
            high = x;
            above = at;
            below /= side > 0 ? 2 : 1;
        }
        side = at < 0 ? -1 : 1;
    }
    return high;
}

static double positive_quantile(const struct tft_distribution *d, double q)
{
    double mean = d->at[0], variance, third, z = normal_quantile(q), low, high;

    spread_of(d, &variance, &third);
    double guess = fmax(0, mean + sqrt(variance) * z + third / variance * (z * z - 1) / 6);
    if (tft_loss_counts(d->family)) {
        if (d->family == TFT_LOSS_POISSON && mean > COUNTS_MOST)
            return ceil(guess - 0.5);
        if (mean > COUNTS_MOST)
            return ceil(gamma_quantile(mean * mean / variance, variance / mean, q, guess));
        bracket_quantile(d, q, floor(guess), ceil(sqrt(variance) / 8), &low, &high);
        return whole_quantile(d, q, low, high);
    }
    if (q <= tft_distribution_below(d, 0))
        return 0;
    bracket_quantile(d, q, guess, sqrt(variance) / 8, &low, &high);
    return smooth_quantile(d, q, low, high);
}

double tft_distribution_quantile(const struct tft_distribution *d, double q)
{
    if (d->family == TFT_LOSS_GAUSSIAN)
        return d->at[0] + d->at[1] * normal_quantile(q);
    if (d->family == TFT_LOSS_STUDENT_T)
        return d->at[0] + d->at[1] * student_quantile(d->at[2], q);
    return positive_quantile(d, q);
}

void tft_outputs_forecast(const struct tft_model_config *config, const real *o, real offset, real unit, real *forecast)
{
    double numbers[TFT_LOSS_PARAMETERS_MAX];

    if (!tft_loss_is_distribution(config->loss)) {
        for (size_t q = 0; q < config->quantile_count; q++)
            forecast[q] = offset + unit * o[q];
        return;
    }
    for (size_t k = 0; k < tft_config_outputs(config); k++)
        numbers[k] = (double)o[k];
    const struct tft_distribution d =
        tft_distribution_of(config->loss, config->tweedie_power, numbers, (double)offset, (double)unit);
    for (size_t q = 0; q < config->quantile_count; q++)
        forecast[q] = (real)tft_distribution_quantile(&d, config->quantiles[q]);
}
