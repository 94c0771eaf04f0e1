/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of intervals on made data whose quantiles are known: values of the logistic distribution, and forecasts of its
 * quantiles times a factor, which is 1 where they are right. All has a closed form. With z = ln(q / (1 - q)), the
 * quantile q, and L(q, u) = ln(1 + exp(u)) - q u, the mean quantile loss of a forecast u (at u = z the entropy of q):
 *
 *     E|y| = 2 ln 2      interval score of [u1, u2] = (2 / alpha) (L(alpha / 2, u1) + L(1 - alpha / 2, u2))
 *     P(y <= u) = 1 / (1 + exp(-u))      CRPS = 2 * integral of L, which is 1 where forecasts are right
 */
#include "tests/test.h"
#include "tft/core/score/scores.h"
#include <math.h>

enum { VALUES = 600000, HORIZON = 3, QUANTILES = 7, MIDDLE = 3 };

static const double quantiles[QUANTILES] = { .02, .1, .25, .5, .75, .9, .98 };
static const char *const names[QUANTILES] = { "p2", "p10", "p25", "p50", "p75", "p90", "p98" };

static double share_below(double u)
{
    return 1 / (1 + exp(-u));
}

/* Of the quantile number i, forecast `factor` times as far from the median as it is. */
static double forecast(size_t i, double factor)
{
    return factor * log(quantiles[i] / (1 - quantiles[i]));
}

static double loss(size_t i, double factor)
{
    double u = forecast(i, factor);
    return log1p(exp(u)) - quantiles[i] * u;
}

/* Values that lie evenly in the distribution; each step of the horizon has its own scale, and so has its forecast. */
static json_t *scores_of(double factor)
{
    static const char *const ids[] = { "a" };
    struct tft_scores *s = tft_scores_create(NULL, 1, quantiles, QUANTILES, HORIZON, 1);

    REQUIRE(s);
    for (size_t k = 0; k < VALUES * HORIZON; k++) {
        double share = ((double)(k / HORIZON) + .5) / VALUES, scale = exp2((double)(k % HORIZON)), p[QUANTILES];
        for (size_t i = 0; i < QUANTILES; i++)
            p[i] = scale * forecast(i, factor);
        tft_scores_add(s, 0, k % HORIZON, scale * log(share / (1 - share)), p, 1);
    }
    json_t *json = tft_scores_json(s, ids);
    REQUIRE(json);
    free(s);
    return json;
}

/* Is a score what its closed form says, for the mean of the scales 1, 2 and 4? */
static void check(double factor, const char *name, const json_t *score, double right)
{
    CHECK(fabs(json_number_value(score) / right - 1) < 1e-3, "factor %g: %s is %g, not %g", factor, name,
          json_number_value(score), right);
}

static void check_shares(const json_t *json, double factor)
{
    char name[32];
    double below = 0, from = 0;

    for (size_t i = 0; i <= QUANTILES; i++) {
        double share = i < QUANTILES ? share_below(forecast(i, factor)) : 1, to = i < QUANTILES ? quantiles[i] : 1;
        snprintf(name, sizeof name, "%s_%s", i ? names[i - 1] : "p0", i < QUANTILES ? names[i] : "p100");
        check(factor, name, json_object_get(json_object_get(json, "pit"), name), (share - below) / (to - from));
        if (i < QUANTILES)
            check(factor, names[i], json_object_get(json_object_get(json, "reliability"), names[i]), share);
        below = share;
        from = to;
    }
    check(factor, "coverage", json_object_get(json, "coverage_p2_p98"),
          share_below(forecast(QUANTILES - 1, factor)) - share_below(forecast(0, factor)));
}

static void check_sizes(const json_t *json, double factor)
{
    double scale = 7. / HORIZON, alpha = 2 * quantiles[0], crps = 0, wis = loss(MIDDLE, factor);

    for (size_t i = 0; i < QUANTILES; i++) {
        double from = i ? (quantiles[i - 1] + quantiles[i]) / 2 : 0;
        double to = i + 1 < QUANTILES ? (quantiles[i] + quantiles[i + 1]) / 2 : 1;
        crps += 2 * (to - from) * loss(i, factor);
        wis += i == MIDDLE ? 0 : loss(i, factor); /* half of alpha times 2 / alpha */
        check(factor, names[i], json_object_get(json_object_get(json, "q_risk"), names[i]), loss(i, factor) / log(2));
    }
    check(factor, "mae", json_object_get(json, "mae"), scale * 2 * log(2));
    check(factor, "width", json_object_get(json, "width"), scale * 2 * forecast(QUANTILES - 1, factor));
    check(factor, "interval_score", json_object_get(json, "interval_score"),
          scale * 2 / alpha * (loss(0, factor) + loss(QUANTILES - 1, factor)));
    check(factor, "wis", json_object_get(json, "wis"), scale * wis / (MIDDLE + .5));
    check(factor, "crps", json_object_get(json, "crps"), scale * crps);
}

/* Each score, of quantiles that are right, of one that is over-confident, and of one that is timid. */
int main(void)
{
    static const double factors[] = { 1, .5, 1.6 };
    static const char *const proper[] = { "interval_score", "wis", "crps", "wql" };
    json_t *right = scores_of(1);

    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        json_t *json = scores_of(factors[k]);
        check_shares(json, factors[k]);
        check_sizes(json, factors[k]);
        for (size_t i = 0; k && i < sizeof proper / sizeof *proper; i++)
            CHECK(json_number_value(json_object_get(json, proper[i])) >
                      json_number_value(json_object_get(right, proper[i])),
                  "factor %g has a better %s than what is right", factors[k], proper[i]);
        json_decref(json);
    }
    double crps = json_number_value(json_object_get(right, "crps")) * HORIZON / 7;
    CHECK(fabs(crps - 1) < .05, "seven quantiles give a CRPS of %g, not about 1", crps);
    json_decref(right);
    return test_end();
}
