/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft evaluate: scores of a checkpoint on a split, beside the naive forecasts'; a table for people, JSON for
 * programs.
 */
#include "tft/commands.h"
#include "tft/options.h"
#include "tft/paths.h"
#include "tft/scoring.h"
#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: halay-tft evaluate --checkpoint RUN --data DATA.htd [--split test] [--stride N] [--json FILE]\n"
    "\n"
    "Forecasts every window of a split (or every N-th of each entity) and scores the forecasts in the target's own "
    "unit,\n"
    "beside the values of 24 and 168 steps before. Under halayrun or mpirun the ranks share the windows.\n"
    "\n"
    "  --checkpoint FOLDER  the run's folder\n"
    "  --data FILE          data prepared by the same schema\n"
    "  --split NAME         train, valid or test (test)\n"
    "  --stride N           steps from one window to the next (the schema's)\n"
    "  --json FILE          write all numbers as one JSON object; - is standard output\n";

static double number(const json_t *object, const char *a, const char *b)
{
    const json_t *inner = json_object_get(object, a);
    return json_number_value(b ? json_object_get(inner, b) : inner);
}

/* A row of q-risks, and how the median's compares with another's. */
static void print_row(const char *name, const json_t *q_risk, const json_t *median_of, const char *median)
{
    const char *key;
    json_t *value;

    printf("%-28s", name);
    json_object_foreach((json_t *)q_risk, key, value) if (json_is_number(value) && key[0] == 'p')
        printf(" %8.4f", json_number_value(value));
    if (median_of) {
        double mine = number(median_of, median, NULL), other = number(q_risk, median, NULL);
        if (other > 0)
            printf("   forecast's %s is %.1f %% %s", median, 100 * (mine < other ? 1 - mine / other : mine / other - 1),
                   mine < other ? "below" : "above");
    }
    printf("\n");
}

/* The scores of one target, or the means of several. */
static void print_scores(const json_t *r, const char *median)
{
    const json_t *q_risk = json_object_get(r, "q_risk"), *naive = json_object_get(r, "naive");
    const char *key;
    json_t *value;

    printf("%-28s", "q-risk");
    json_object_foreach((json_t *)q_risk, key, value) printf(" %8s", key);
    printf("\n");
    print_row("forecast", q_risk, NULL, median);
    json_object_foreach((json_t *)naive, key, value)
    {
        char name[64];
        snprintf(name, sizeof name, "value of %s steps before", key);
        print_row(name, value, q_risk, median);
    }
    json_object_foreach((json_t *)r, key,
                        value) if (!strcmp(key, "mae") || !strcmp(key, "rmse") || !strcmp(key, "smape") ||
                                   !strcmp(key, "mase") || !strcmp(key, "wql") || !strncmp(key, "coverage", 8) ||
                                   !strcmp(key, "crossing")) printf("%-28s %8.4g\n", key, json_number_value(value));
}

static void print_table(const json_t *r, const char *median)
{
    const json_t *targets = json_object_get(r, "targets");
    const char *name;
    json_t *scores;

    long long shorter = (long long)json_integer_value(json_object_get(r, "short_windows"));

    printf("%s: %lld windows, ", json_string_value(json_object_get(r, "split")),
           (long long)json_integer_value(json_object_get(r, "windows")));
    if (shorter)
        printf("%lld of them with a shorter encoder, ", shorter);
    printf("%lld values\n", (long long)json_integer_value(json_object_get(r, "values")));
    if (targets)
        printf("\nmean of %zu targets\n", json_object_size(targets));
    print_scores(r, median);
    json_object_foreach((json_t *)targets, name, scores)
    {
        printf("\n%s\n", name);
        print_scores(scores, median);
    }
}

static enum halay_status write_json(struct halay_log *log, const char *path, const json_t *result)
{
    struct tft_output out;
    enum halay_status status = tft_output_open(log, path, &out);

    if (status)
        return status;
    json_dumpf(result, out.file, JSON_INDENT(1));
    fputc('\n', out.file);
    return tft_output_commit(&out);
}

static enum halay_status evaluate(struct halay_log *log, const char *checkpoint, const char *data,
                                  const struct tft_selection *windows, const char *json)
{
    struct tft_scoring s = { 0 };
    json_t *result = NULL;
    enum halay_status status = tft_scoring_init(log, checkpoint, data, &s);

    if (!status)
        status =
            tft_scoring_evaluate(&s, windows->split, windows->stride ? windows->stride : s.data.schema.stride, &result);
    if (!status && s.rank == 0) {
        const struct tft_list *q = &s.checkpoint.config.quantiles;
        char median[32];
        tft_quantile_name(q->values[tft_median_of(q->values, q->count)], median, sizeof median);
        if (!json || strcmp(json, "-"))
            print_table(result, median);
        if (json)
            status = write_json(log, json, result);
        if (!status && fflush(stdout)) {
            halay_error(log, "cannot write to standard output");
            status = HALAY_ERR_SYSTEM;
        }
    }
    json_decref(result);
    tft_scoring_fini(&s);
    return status;
}

int tft_cmd_evaluate(struct halay_log *log, int argc, char **argv)
{
    const char *checkpoint = NULL, *data = NULL, *split = "test", *stride = NULL, *json = NULL;
    const struct tft_option list[] = {
        { "checkpoint", 0, &checkpoint, NULL }, { "data", 0, &data, NULL }, { "split", 0, &split, NULL },
        { "stride", 0, &stride, NULL },         { "json", 0, &json, NULL }, { NULL, 0, NULL, NULL }
    };
    const struct tft_options options = { .log = log, .command = "halay-tft evaluate", .help = help, .list = list };
    int status = tft_options_parse(&options, argc, argv, NULL);
    struct tft_selection windows;

    if (status >= 0)
        return status;
    if (!checkpoint)
        return tft_options_missing(&options, "--checkpoint");
    if (!data)
        return tft_options_missing(&options, "--data");
    if (tft_selection_parse(log, split, stride, &windows))
        return TFT_EXIT_USAGE;
    return evaluate(log, checkpoint, data, &windows, json) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
}
