/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformal bands. References: Romano, Patterson and Candes 2019 for conformalised quantile regression; Kivaranovic,
 * Johnson and Leeb 2020 and Sesia and Candes 2020 for errors relative to the width.
 */
#include "tft/core/score/conformal.h"
#include "tft/core/score/scores.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t tft_bands_of(const double *quantiles, size_t count, struct tft_band bands[TFT_BANDS_MAX])
{
    size_t median = tft_median_of(quantiles, count), n = 0;

    for (size_t q = 0; q < count; q++) {
        int partner = tft_interval_partner(quantiles, count, q);
        if (partner > (int)q)
            bands[n++] = (struct tft_band){ q, (size_t)partner, 1, 1, 0, quantiles[partner] - quantiles[q] };
        else if (partner == TFT_NO_PARTNER && q < median)
            bands[n++] = (struct tft_band){ q, median, 1, 0, 0, 1 - quantiles[q] };
        else if (partner == TFT_NO_PARTNER && q > median)
            bands[n++] = (struct tft_band){ median, q, 0, 1, 0, quantiles[q] };
    }
    for (size_t b = 0; b < n; b++) {
        bands[n + b] = bands[b];
        bands[n + b].is_flat = 1;
    }
    return 2 * n;
}

int tft_band_applies(const struct tft_band *band, const double *p)
{
    return (p[band->high] - p[band->low] <= TFT_FLAT_WIDTH) == band->is_flat;
}

double tft_band_score(const struct tft_band *band, const double *p, double y)
{
    double width = band->is_flat ? 1 : p[band->high] - p[band->low];
    double below = band->has_low ? p[band->low] - y : -INFINITY, above = band->has_high ? y - p[band->high] : -INFINITY;
    double score = fmax(below, above) / width;

    return tft_band_applies(band, p) && isfinite(score) ? score : NAN;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tft_conformal_factor(double *scores, size_t count, double level)
{
    double rank = ceil((double)(count + 1) * level - 1e-9);

    if (count < TFT_CONFORMAL_LEAST || rank > (double)count)
        return NAN;
    qsort(scores, count, sizeof *scores, compare);
    return scores[(size_t)fmax(rank, 1) - 1];
}

double tft_conformal_kept(double factor, size_t count)
{
    return factor < 0 ? factor * (double)count / (double)(count + TFT_CONFORMAL_LEAST) : factor;
}

void tft_quantiles_sort(double *p, size_t count)
{
    for (size_t i = 1; i < count; i++) /* they are few, and nearly always in order */
        for (size_t j = i; j > 0 && p[j] < p[j - 1]; j--) {
            double lower = p[j];
            p[j] = p[j - 1];
            p[j - 1] = lower;
        }
}

double tft_band_least(const struct tft_band *band)
{
    if (band->is_flat)
        return 0;
    return band->has_low && band->has_high ? -0.5 : -1;
}

void tft_bands_widen(const struct tft_band *bands, size_t band_count, const double *factors, size_t median, double *p,
                     size_t count)
{
    double before[TFT_SCORE_QUANTILES_MAX];

    tft_quantiles_sort(p, count);
    memcpy(before, p, count * sizeof *p);
    for (size_t b = 0; b < band_count; b++) {
        const struct tft_band *band = &bands[b];
        double width = band->is_flat ? 1 : before[band->high] - before[band->low];
        double move = fmax(factors[b], tft_band_least(band)) * width;
        if (isnan(factors[b]) || !tft_band_applies(band, before))
            continue;
        if (band->has_low)
            p[band->low] = before[band->low] - move;
        if (band->has_high)
            p[band->high] = before[band->high] + move;
    }
    for (size_t q = median; q-- > 0;)
        p[q] = fmin(p[q], p[q + 1]);
    for (size_t q = median + 1; q < count; q++)
        p[q] = fmax(p[q], p[q - 1]);
}
