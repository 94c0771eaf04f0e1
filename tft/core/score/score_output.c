/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores as a table for people and as one for programs.
 */
#include "tft/core/score/score_output.h"
#include "base/number_text.h"
#include "tft/core/score/calibration.h"
#include "tft/core/score/forecast_file.h"
#include "tft/core/score/naive.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A reader should know: this part of the values has quantiles out of order. */
#define CROSSING_OFTEN .01

static double number_at(const json_t *object, const char *a, const char *b)
{
    const json_t *inner = json_object_get(object, a);
    return json_number_value(b ? json_object_get(inner, b) : inner);
}

/* A row of q-risks; without the line's end. */
static void print_row(FILE *to, const char *name, const json_t *q_risk)
{
    const char *key;
    json_t *value;

    fprintf(to, "%-28s", name);
    json_object_foreach((json_t *)q_risk, key, value) {
        if (key[0] == 'p' && json_is_number(value))
            halay_fprintf(to, " %8.4f", json_number_value(value));
        else if (key[0] == 'p' && json_is_null(value))
            fprintf(to, " %8s", "-");
    }
}

/* A row of naive forecasts; if it is the best, how the median's q-risk compares with it. */
static void print_naive(FILE *to, const json_t *r, const char *key, const char *median, int is_plain)
{
    const json_t *naive = json_object_get(json_object_get(r, "naive"), key), *best = json_object_get(r, "best_naive");
    const char *best_key = json_string_value(json_object_get(best, "forecast"));
    double mine = number_at(r, "q_risk", median), other = number_at(best, "q_risk", NULL);
    char name[64];

    tft_naive_title(key, json_array_size(json_object_get(naive, "by_horizon")), name, sizeof name);
    print_row(to, is_plain ? "  plain" : name, is_plain ? json_object_get(naive, "plain") : naive);
    if (best_key && !strcmp(best_key, key) && json_is_true(json_object_get(best, "plain")) == is_plain && other > 0)
        halay_fprintf(to, "   the best; forecast's %s is %.1f %% %s", median,
                      100 * (mine < other ? 1 - mine / other : mine / other - 1), mine < other ? "below" : "above");
    fprintf(to, "\n");
}

/* Returns nonzero if the key is of a score that is one number. */
static int has_row(const char *key)
{
    static const char *const keys[] = { "mae", "rmse", "smape",    "mase", "wql", "width", "interval_score",
                                        "wis", "crps", "crossing", NULL };
    size_t i = 0;

    while (keys[i] && strcmp(keys[i], key))
        i++;
    return keys[i] || !strncmp(key, "coverage", 8);
}

/* Prints the range of a score over the horizons, or the entities. */
static void print_range(FILE *to, const char *over, const json_t *list, const char *key)
{
    double low = INFINITY, high = -INFINITY;
    size_t n = json_is_array(list) ? json_array_size(list) : 0;
    const char *name;
    json_t *of;

    for (size_t i = 0; i < n; i++) {
        low = fmin(low, number_at(json_array_get(list, i), key, NULL));
        high = fmax(high, number_at(json_array_get(list, i), key, NULL));
    }
    json_object_foreach((json_t *)list, name, of) {
        low = fmin(low, number_at(of, key, NULL));
        high = fmax(high, number_at(of, key, NULL));
        n++;
    }
    if (n > 1)
        halay_fprintf(to, "   by %s %.3g to %.3g", over, low, high);
}

/* A score's name. Two are sums over quantiles: an approximation, which depends on how many there are. */
static void name_score(const json_t *r, const char *key, char *name, size_t size)
{
    size_t count = json_object_size(json_object_get(r, "q_risk"));

    if (!strcmp(key, "wis") || !strcmp(key, "crps"))
        snprintf(name, size, "%s of %zu quantile%s", key, count, count == 1 ? "" : "s");
    else
        snprintf(name, size, "%s", key);
}

static void print_score(FILE *to, const json_t *r, const char *key, const json_t *value)
{
    char name[64];
    const json_t *before = json_object_get(r, "uncalibrated");
    const char *why = strcmp(key, "mase") ? NULL : json_string_value(json_object_get(r, "no_mase"));

    name_score(r, key, name, sizeof name);
    if (!json_is_number(value)) {
        fprintf(to, "%-28s %8s%s%s\n", name, "-", why ? "   " : "", why ? why : "");
        return;
    }
    halay_fprintf(to, "%-28s %8.4g", name, json_number_value(value));
    if (!strncmp(key, "coverage", 8)) {
        print_range(to, "horizon", json_object_get(r, "by_horizon"), key);
        print_range(to, "entity", json_object_get(r, "by_entity"), key);
    }
    if (json_is_number(json_object_get(before, key)))
        halay_fprintf(to, "   %.4g from the model", number_at(before, key, NULL));
    fprintf(to, "\n");
}

/* The scores of one target, or the means of several. */
static void print_scores(FILE *to, const json_t *r, const char *median)
{
    const json_t *q_risk = json_object_get(r, "q_risk"), *naive = json_object_get(r, "naive");
    const char *key;
    json_t *value;

    fprintf(to, "%-28s", "q-risk");
    json_object_foreach((json_t *)q_risk, key, value)
        fprintf(to, " %8s", key);
    fprintf(to, "\n");
    print_row(to, "forecast", q_risk);
    fprintf(to, "\n");
    json_object_foreach((json_t *)naive, key, value) {
        print_naive(to, r, key, median, 0);
        print_naive(to, r, key, median, 1);
    }
    const char *warning = json_string_value(json_object_get(r, "no_better_than_naive"));
    if (warning)
        fprintf(to, "%s\n", warning);
    print_row(to, "values up to the quantile", json_object_get(r, "reliability"));
    fprintf(to, "\n");
    json_object_foreach((json_t *)r, key, value) {
        if (has_row(key))
            print_score(to, r, key, value);
    }
    if (number_at(r, "crossing", NULL) > CROSSING_OFTEN)
        halay_fprintf(
            to,
            "In %.0f %% of the values a lower quantile is above a higher one; 'crossing: forbid' in training prevents "
            "it.\n",
            100 * number_at(r, "crossing", NULL));
}

/* The name of the quantile nearest to the middle. */
static const char *find_median(const json_t *r)
{
    const char *median = "", *key;
    double least = INFINITY;
    json_t *value;

    json_object_foreach(json_object_get(r, "q_risk"), key, value) {
        double distance = key[0] == 'p' ? fabs(halay_strtod(key + 1, NULL) / 100 - .5) : INFINITY;
        if (distance < least) {
            least = distance;
            median = key;
        }
    }
    return median;
}

void tft_scores_print(FILE *to, const json_t *r)
{
    const char *median = find_median(r), *name;
    const json_t *calibration = json_object_get(r, "calibration"), *targets = json_object_get(r, "targets");
    char calibrated[200];
    json_t *scores, *sentence;
    size_t i;

    long long shorter = (long long)json_integer_value(json_object_get(r, "short_windows"));
    fprintf(to, "%s: %lld windows, ", json_string_value(json_object_get(r, "split")),
            (long long)json_integer_value(json_object_get(r, "windows")));
    if (shorter)
        fprintf(to, "%lld of them with a shorter encoder, ", shorter);
    fprintf(to, "%lld values\n", (long long)json_integer_value(json_object_get(r, "values")));
    if (json_is_object(calibration)) {
        tft_calibrator_describe(calibration, calibrated, sizeof calibrated);
        fprintf(to, "intervals calibrated %s\n", calibrated);
    }
    json_array_foreach(json_object_get(r, "blend"), i, sentence)
        fprintf(to, "%s\n", json_string_value(sentence));
    if (json_is_false(json_object_get(r, "refitted")))
        fprintf(to, "by the weights before the refit, which saw these rows\n");
    if (targets)
        fprintf(to, "\nmean of %zu targets\n", json_object_size(targets));
    print_scores(to, r, median);
    json_object_foreach((json_t *)targets, name, scores) {
        fprintf(to, "\n%s\n", name);
        print_scores(to, scores, median);
    }
}

/* ---- CSV ---- */

/* A row's cells: the numbers under the keys of `like`, which are those of one horizon; of NULL: their
 * names. */
static void write_cells(FILE *file, const json_t *like, const json_t *of)
{
    const char *key, *inner;
    json_t *value, *part;

    json_object_foreach((json_t *)like, key, value) {
        const json_t *mine = json_object_get(of, key);
        if (!strcmp(key, "horizon"))
            continue;
        if (!json_is_object(value) && !of)
            fprintf(file, ",%s", key);
        else if (!json_is_object(value))
            halay_fprintf(file, json_is_number(mine) ? ",%.9g" : ",", json_number_value(mine));
        json_object_foreach(json_is_object(value) ? value : NULL, inner, part) {
            const json_t *number_of = json_object_get(mine, inner);
            if (!of)
                fprintf(file, ",%s_%s", key, inner);
            else
                halay_fprintf(file, json_is_number(number_of) ? ",%.9g" : ",", json_number_value(number_of));
        }
    }
    fputc('\n', file);
}

static void write_rows(FILE *file, const char *target, const json_t *scores, const json_t *like)
{
    const json_t *horizons = json_object_get(scores, "by_horizon"), *entities = json_object_get(scores, "by_entity");
    const char *id;
    json_t *of;

    tft_write_field(file, target);
    fputs(",all,", file);
    write_cells(file, like, scores);
    for (size_t h = 0; h < json_array_size(horizons); h++) {
        tft_write_field(file, target);
        fprintf(file, ",horizon,%zu", h + 1);
        write_cells(file, like, json_array_get(horizons, h));
    }
    json_object_foreach((json_t *)entities, id, of) {
        tft_write_field(file, target);
        fputs(",entity,", file);
        tft_write_field(file, id);
        write_cells(file, like, of);
    }
}

void tft_scores_write_csv(FILE *file, const json_t *result)
{
    const json_t *targets = json_object_get(result, "targets"), *first = result;
    const char *name;
    json_t *scores;

    if (targets)
        first = json_object_iter_value(json_object_iter((json_t *)targets));
    const json_t *like = json_array_get(json_object_get(first, "by_horizon"), 0);
    fputs("target,scope,name", file);
    write_cells(file, like, NULL);
    if (!targets)
        write_rows(file, "", result, like);
    json_object_foreach((json_t *)targets, name, scores)
        write_rows(file, name, scores, like);
}
