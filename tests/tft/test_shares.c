/* SPDX-License-Identifier: Apache-2.0
 *
 * Percentiles of a histogram of shares are as near to those of the sorted values as its bins are wide, from 2^-16 to 1;
 * rank correlation, also with ties and where there is nothing to compare.
 */
#include "tests/test.h"
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <string.h>

enum { VALUES = 10001 };

static void check_percentiles(void)
{
    static int64_t bins[TFT_SHARE_BINS];

    CHECK(isnan(tft_share_quantile(bins, .5)));
    for (int i = 0; i < VALUES; i++) /* ascending, from 2^-14 to 1 */
        bins[tft_share_bin((float)exp2(-14 + 14. * i / (VALUES - 1)))]++;
    for (int percent = 1; percent < 100; percent++) {
        double right = exp2(-14 + 14 * percent / 100.), is = tft_share_quantile(bins, percent / 100.);
        CHECK(fabs(is / right - 1) < 1. / 64, "p%d is %g, not %g", percent, is, right);
    }
}

static void check_ends(void)
{
    static const float shares[] = { 0, 1e-30f, 0x1p-16f, .5f, 1 };
    static const double low[] = { 0, 0, 0, .5, 1 }, high[] = { 2e-5, 2e-5, 2e-5, .51, 1 };

    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        int64_t bins[TFT_SHARE_BINS] = { 0 };
        bins[tft_share_bin(shares[i])] = 3;
        double p = tft_share_quantile(bins, .5);
        CHECK(p >= low[i] && p <= high[i], "%g: p50 is %g", (double)shares[i], p);
    }
    CHECK(tft_share_bin(1.5f) == TFT_SHARE_BINS - 1 && tft_share_bin(-1) == 0);
    CHECK(tft_share_mean(tft_share_fixed(.25f) + tft_share_fixed(.75f), 2) == .5);
}

static void check_correlation(void)
{
    const double up[] = { 1, 2, 3, 40 }, down[] = { 9, 3, 2, 1 }, tied[] = { 1, 1, 2, 2 }, same[] = { 5, 5, 5, 5 };

    CHECK(tft_rank_correlation(up, up, 4) == 1);
    CHECK(tft_rank_correlation(up, down, 4) == -1);
    CHECK(fabs(tft_rank_correlation(up, tied, 4) - .894427191) < 1e-9);
    CHECK(isnan(tft_rank_correlation(up, same, 4)) && isnan(tft_rank_correlation(up, down, 1)) &&
          isnan(tft_rank_correlation(up, down, 0)));
}

int main(void)
{
    check_percentiles();
    check_ends();
    check_correlation();
    return test_end();
}
