/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores: those of an evaluation and of a backtest.
 */
#include "base/number_text.h"
#include "tft/tools/report/result_table.h"
#include "tft/tools/report/results.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* A reader should know: this part of the values has quantiles out of order. */
#define CROSSING_OFTEN .01

enum { NOTE_SIZE = 200 };

static double number_at(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Returns a number as a new reference, in place of anything else null. */
static json_t *number_or_null(json_t *value)
{
    return json_is_number(value) ? json_incref(value) : json_null();
}

/* ---- q-risks ----------------------------------------------------------------------------------------------------- */

/* Adds a forecast's q-risks, for the quantiles of the model's. The label is its name in the printed table. */
static void add_q_risk(json_t *rows, const char *target, json_t *forecast, const char *label, const json_t *like,
                       const json_t *of, json_t *note)
{
    json_t *q_risk = json_object(), *value;
    const char *key;

    json_object_foreach((json_t *)like, key, value)
        json_object_set_new(q_risk, key, number_or_null(json_object_get(of, key)));
    json_array_append_new(rows, json_pack("{ss so ss so so*}", "target", target, "forecast", forecast, "label", label,
                                          "q_risk", q_risk, "note", note));
}

/* Returns how the median's q-risk compares with the best naive forecast's; NULL if that is another one. */
static json_t *compare_best(const json_t *r, const char *key, const char *median, int is_plain)
{
    const json_t *best = json_object_get(r, "best_naive");
    const char *best_key = json_string_value(json_object_get(best, "forecast"));
    const double mine = number_at(json_object_get(r, "q_risk"), median), other = number_at(best, "q_risk");
    char text[NOTE_SIZE];

    if (!best_key || strcmp(best_key, key) || json_is_true(json_object_get(best, "plain")) != is_plain || !(other > 0))
        return NULL;
    halay_snprintf(text, sizeof text, "  the best; forecast's %s is %.1f %% %s", median,
                   100 * (mine < other ? 1 - mine / other : mine / other - 1), mine < other ? "below" : "above");
    return json_string(text);
}

/* Adds the forecast's q-risks, and those of naive forecasts with the quantiles of their errors and without. */
static void add_q_risks(json_t *rows, const char *target, const json_t *r, const char *median)
{
    json_t *q_risk = json_object_get(r, "q_risk"), *naive;
    const char *key;

    add_q_risk(rows, target, json_string("forecast"), "forecast", q_risk, q_risk, NULL);
    json_object_foreach(json_object_get(r, "naive"), key, naive) {
        const char *title = json_string_value(json_object_get(naive, "title"));
        add_q_risk(rows, target, json_string(title), title, q_risk, naive, compare_best(r, key, median, 0));
        add_q_risk(rows, target, json_pack("s+", title, ", plain"), "  plain", q_risk, json_object_get(naive, "plain"),
                   compare_best(r, key, median, 1));
    }
}

json_t *tft_q_risk_rows(const json_t *result)
{
    json_t *targets = json_object_get(result, "targets"), *rows = json_array(), *scores;
    const char *name;

    if (!targets)
        add_q_risks(rows, "", result, "");
    json_object_foreach(targets, name, scores)
        add_q_risks(rows, name, scores, "");
    return rows;
}

/* ---- scores that are one number ---------------------------------------------------------------------------------- */

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

/* Appends the range of a score over the horizons, or the entities, to a note. */
static void note_range(char note[NOTE_SIZE], const char *over, const json_t *list, const char *key)
{
    double low = INFINITY, high = -INFINITY;
    size_t n = json_array_size(list), used = strlen(note);
    const char *name;
    json_t *of;

    for (size_t i = 0; i < n; i++) {
        low = fmin(low, number_at(json_array_get(list, i), key));
        high = fmax(high, number_at(json_array_get(list, i), key));
    }
    json_object_foreach((json_t *)list, name, of) {
        low = fmin(low, number_at(of, key));
        high = fmax(high, number_at(of, key));
        n++;
    }
    if (n > 1)
        halay_snprintf(note + used, NOTE_SIZE - used, "   by %s %.3g to %.3g", over, low, high);
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

static json_t *score_row(const json_t *r, const char *key, json_t *value)
{
    const json_t *before = json_object_get(json_object_get(r, "uncalibrated"), key);
    const char *why = strcmp(key, "mase") ? NULL : json_string_value(json_object_get(r, "no_mase"));
    char name[64], note[NOTE_SIZE] = "";

    name_score(r, key, name, sizeof name);
    if (!json_is_number(value) && why)
        snprintf(note, sizeof note, "   %s", why);
    if (json_is_number(value) && !strncmp(key, "coverage", 8)) {
        note_range(note, "horizon", json_object_get(r, "by_horizon"), key);
        note_range(note, "entity", json_object_get(r, "by_entity"), key);
    }
    if (json_is_number(value) && json_is_number(before))
        halay_snprintf(note + strlen(note), NOTE_SIZE - strlen(note), "   %.4g from the model",
                       json_number_value(before));
    return json_pack("{ss sO ss*}", "label", name, "value", value, "note", *note ? note + 1 : NULL);
}

static json_t *number_rows(const json_t *r)
{
    json_t *rows = json_array(), *value;
    const char *key;

    json_object_foreach((json_t *)r, key, value)
        if (has_row(key))
            json_array_append_new(rows, score_row(r, key, value));
    return rows;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Prints rows, and releases them. */
static void print_rows(FILE *to, const char *table, json_t *rows)
{
    tft_table_print(to, table, rows, SIZE_MAX);
    json_decref(rows);
}

/* The scores of one target, or the means of several. */
static void print_scores(FILE *to, const json_t *r, const char *median)
{
    const char *warning = json_string_value(json_object_get(r, "no_better_than_naive"));
    json_t *rows = json_array();

    add_q_risks(rows, "", r, median);
    print_rows(to, "scores.q_risk", rows);
    if (warning)
        fprintf(to, "%s\n", warning);
    print_rows(to, "scores.reliability",
               json_pack("[{ss sO?}]", "label", "values up to the quantile", "reliability",
                         json_object_get(r, "reliability")));
    print_rows(to, "scores.numbers", number_rows(r));
    if (number_at(r, "crossing") > CROSSING_OFTEN)
        halay_fprintf(
            to,
            "In %.0f %% of the values a lower quantile is above a higher one; 'crossing: forbid' in training prevents "
            "it.\n",
            100 * number_at(r, "crossing"));
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

void tft_scores_print_calibrated(FILE *to, const json_t *r)
{
    static const char *const sources[][2] = { { "recent", "by the entity's latest windows" },
                                              { "entity", "by its validation windows" },
                                              { "horizon", "by all entities' validation windows" },
                                              { "none", "not, for want of windows" } };
    const char *before = "";

    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const double share = number_at(json_object_get(r, "calibration"), sources[i][0]);
        if (!(share > 0))
            continue;
        halay_fprintf(to, "%s%.3g %% %s", before, 100 * share, sources[i][1]);
        before = ", ";
    }
}

void tft_scores_print(FILE *to, const json_t *r)
{
    const char *median = find_median(r), *name;
    const json_t *targets = json_object_get(r, "targets");
    json_t *scores, *sentence;
    size_t i;

    long long shorter = (long long)json_integer_value(json_object_get(r, "short_windows"));
    fprintf(to, "%s: %lld windows, ", json_string_value(json_object_get(r, "split")),
            (long long)json_integer_value(json_object_get(r, "windows")));
    if (shorter)
        fprintf(to, "%lld of them with a shorter encoder, ", shorter);
    fprintf(to, "%lld values\n", (long long)json_integer_value(json_object_get(r, "values")));
    if (json_is_object(json_object_get(r, "calibration"))) {
        fputs("intervals calibrated ", to);
        tft_scores_print_calibrated(to, r);
        fputc('\n', to);
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

/* ---- rows of all scores ------------------------------------------------------------------------------------------ */

/* Adds the numbers under the keys of `like`, which are those of one horizon. Names in objects are joined. */
static void add_scores(json_t *rows, const char *target, const char *scope, json_t *name, const json_t *like,
                       const json_t *of)
{
    json_t *scores = json_object(), *value, *part;
    const char *key, *inner;
    char joined[80];

    json_object_foreach((json_t *)like, key, value) {
        json_t *mine = json_object_get(of, key);
        if (json_is_object(value))
            json_object_foreach(value, inner, part) {
                snprintf(joined, sizeof joined, "%s_%s", key, inner);
                json_object_set_new(scores, joined, number_or_null(json_object_get(mine, inner)));
            }
        else if (strcmp(key, "horizon") != 0)
            json_object_set_new(scores, key, number_or_null(mine));
    }
    json_array_append_new(rows,
                          json_pack("{ss ss so so}", "target", target, "scope", scope, "name", name, "scores", scores));
}

static void add_target(json_t *rows, const char *target, const json_t *scores, const json_t *like)
{
    json_t *of;
    const char *id;
    size_t h;

    add_scores(rows, target, "all", json_string(""), like, scores);
    json_array_foreach(json_object_get(scores, "by_horizon"), h, of)
        add_scores(rows, target, "horizon", json_integer((json_int_t)h + 1), like, of);
    json_object_foreach(json_object_get(scores, "by_entity"), id, of)
        add_scores(rows, target, "entity", json_string(id), like, of);
}

json_t *tft_score_rows(const json_t *result)
{
    json_t *targets = json_object_get(result, "targets"), *rows = json_array(), *scores;
    const json_t *first = targets ? json_object_iter_value(json_object_iter(targets)) : result;
    const json_t *like = json_array_get(json_object_get(first, "by_horizon"), 0);
    const char *name;

    if (!targets)
        add_target(rows, "", result, like);
    json_object_foreach(targets, name, scores)
        add_target(rows, name, scores, like);
    return rows;
}
