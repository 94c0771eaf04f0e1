/* SPDX-License-Identifier: Apache-2.0
 *
 * Likelihoods, in double: logarithms of gamma functions of near arguments cancel each other's digits.
 *
 * Tweedie's of a y above 0 is a series over j, the number of gamma values that y is the sum of (Dunn and Smyth 2005):
 *
 *     f(y) = exp((y m^(1-p) / (1-p) - m^(2-p) / (2-p)) / f) / y * sum of W_j,   a = (2-p) / (p-1)
 *     log W_j = j (a log(y / (p-1)) - (1+a) log f - log(2-p)) - log j! - log Gamma(j a)
 *
 * whose largest term is near j = y^(2-p) / (f (2-p)); it is added up from there on both sides. Where f y^(p-2), the
 * squared deviation over the squared mean, is below 1 / NARROW, the saddle point's density is near enough: its
 * logarithm is off by less than .001.
 */
#include "tft/core/kernels/kernels.h"

enum { NARROW = 150 };

#define PI 3.14159265358979323846
#define NEGLIGIBLE 40. /* e^-40 */

TFT_ANYWHERE static double log_gamma(double x)
{
#ifdef __CUDA_ARCH__
    return lgamma(x);
#else
    int sign;

    return lgamma_r(x, &sign); /* the other writes to a variable of the process */
#endif
}

/* d log Gamma(x) / dx, x > 0. */
TFT_ANYWHERE static double digamma(double x)
{
    double sum = 0;

    for (; x < 10; x += 1)
        sum -= 1 / x;
    double r = 1 / (x * x);
    return sum + log(x) - 0.5 / x - r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r / 132))));
}

/* log Gamma(x + 1/2) - log Gamma(x), and its slope; x >= 1. */
TFT_ANYWHERE static double log_gamma_half(double x, double *slope)
{
    double r = 1 / x;

    if (x < 200) {
        *slope = digamma(x + 0.5) - digamma(x);
        return log_gamma(x + 0.5) - log_gamma(x);
    }
    *slope = r / 2 + r * r / 8 - r * r * r * r / 64;
    return log(x) / 2 - r / 8 + r * r * r / 192;
}

TFT_ANYWHERE static double gaussian(const double *at, double y, double *slopes)
{
    double r = (y - at[0]) / at[1];

    slopes[0] = -r / at[1];
    slopes[1] = (1 - r * r) / at[1];
    return (r * r + log(2 * PI)) / 2 + log(at[1]);
}

TFT_ANYWHERE static double student_t(const double *at, double y, double *slopes)
{
    double scale = at[1], n = at[2], r = (y - at[0]) / scale, far = log1p(r * r / n), of_n;
    double constant = log_gamma_half(n / 2, &of_n), pull = (n + 1) / (n + r * r);

    slopes[0] = -pull * r / scale;
    slopes[1] = (1 - pull * r * r) / scale;
    slopes[2] = (-of_n + 1 / n + far - pull * r * r / n) / 2;
    return log(PI * n) / 2 - constant + log(scale) + (n + 1) / 2 * far;
}

TFT_ANYWHERE static double poisson(const double *at, double y, double *slopes)
{
    slopes[0] = 1 - y / at[0];
    return at[0] - y * log(at[0]) + log_gamma(y + 1);
}

TFT_ANYWHERE static double negative_binomial(const double *at, double y, double *slopes)
{
    double mean = at[0], a = at[1], n = 1 / a, far = log1p(a * mean);

    slopes[0] = (mean - y) / (mean * (1 + a * mean));
    slopes[1] = n * n * (digamma(y + n) - digamma(n) - far) + (n + y) * mean / (1 + a * mean) - y * n;
    return log_gamma(n) + log_gamma(y + 1) - log_gamma(y + n) + (n + y) * far - y * log(a * mean);
}

/* log of the sum of W_j, and the mean of j that W_j weighs; z: what is multiplied by j in log W_j. */
TFT_ANYWHERE static double log_series(double z, double a, double middle, double *mean)
{
    double j0 = fmax(1., floor(middle)), sum = 0, weighted = 0;
    double top = j0 * z - log_gamma(j0 + 1) - log_gamma(j0 * a);

    for (int step = -1; step <= 1; step += 2)
        for (double j = step < 0 ? j0 : j0 + 1; j >= 1; j += step) {
            double less = j * z - log_gamma(j + 1) - log_gamma(j * a) - top;
            if (less < -NEGLIGIBLE)
                break;
            sum += exp(less);
            weighted += j * exp(less);
        }
    *mean = weighted / sum;
    return top + log(sum);
}

TFT_ANYWHERE static double tweedie(const double *at, double p, double y, double *slopes)
{
    double mean = at[0], f = at[1], a = (2 - p) / (p - 1), none = pow(mean, 2 - p) / (f * (2 - p));
    double middle = pow(y, 2 - p) / (f * (2 - p)), loss;

    slopes[0] = pow(mean, -p) * (mean - y) / f;
    if (y > 0 && middle * (2 - p) <= NARROW) {
        double power = y * pow(mean, 1 - p) / (f * (1 - p)) - none, j;
        loss = log(y) - power - log_series(a * log(y / (p - 1)) - (1 + a) * log(f) - log(2 - p), a, middle, &j);
        slopes[1] = (power + (1 + a) * j) / f;
        return loss;
    }
    if (y > 0) {
        double deviance = 2 * (middle / (1 - p) - y * pow(mean, 1 - p) / (f * (1 - p)) + none);
        slopes[1] = (1 - deviance) / (2 * f);
        return (log(2 * PI * f) + p * log(y) + deviance) / 2;
    }
    slopes[1] = -none / f;
    return none;
}

TFT_ANYWHERE double tft_likelihood_loss(const struct tft_distribution *d, double y, double *slopes)
{
    switch (d->family) {
    case TFT_LOSS_GAUSSIAN:
        return gaussian(d->at, y, slopes);
    case TFT_LOSS_STUDENT_T:
        return student_t(d->at, y, slopes);
    case TFT_LOSS_POISSON:
        return poisson(d->at, y, slopes);
    case TFT_LOSS_NEGATIVE_BINOMIAL:
        return negative_binomial(d->at, y, slopes);
    default:
        return tweedie(d->at, d->power, y, slopes);
    }
}

double tft_target_loss(const struct outputs_run *run, size_t target, size_t unit, const double *o, double *slopes)
{
    const double y = (double)run->y[target];

    if (tft_loss_is_point(run->loss)) {
        *slopes = tft_loss_slope_of_point(run->loss, y - *o);
        return tft_loss_of_point(run->loss, y - *o);
    }
    const struct tft_distribution d =
        tft_distribution_of(run->loss, run->power, o, (double)run->offsets[target], (double)run->units[unit]);
    const double loss = tft_likelihood_loss(&d, y, slopes);
    for (size_t k = 0; k < run->P; k++)
        slopes[k] *= d.slopes[k];
    return loss;
}
