/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft explain: what a run's forecasts rely on; a table for people, JSON and CSV for programs.
 */
#include "base/document.h"
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/paths.h"
#include "tft/report/report.h"
#include "tft/run/interrupt.h"
#include "tft/score/score_output.h"
#include <stdlib.h>

struct request {
    const char *checkpoint, *data, *json, *page;
    struct tft_explain_request explain;
    int has_no_occlusion;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "--checkpoint", NULL, "FOLDER", "the run's folder", HALAY_OPTION_TEXT, SETS(checkpoint) },
    { "--data", NULL, "FILE", "data prepared by the same schema", HALAY_OPTION_TEXT, SETS(data) },
    { "--split", NULL, NULL, "whose windows (test)", HALAY_OPTION_WORD, SETS(explain.windows.split),
      .words = tft_split_names },
    { "--stride", NULL, "N", "steps from one window to the next (the horizon)", HALAY_OPTION_NUMBER,
      SETS(explain.windows.stride), .least = 1, .most = TFT_STEPS_MAX },
    { "--regime", NULL, "X", "distance of a window's attention from the mean, from which it is another regime (0.3)",
      HALAY_OPTION_REAL, SETS(explain.distance), .least = 0, .most = 1 },
    { "--no-occlusion", NULL, NULL, "do not forecast again without each input", HALAY_OPTION_FLAG,
      SETS(has_no_occlusion) },
    { "--json", NULL, "FILE", "write the numbers as one JSON object; - is standard output", HALAY_OPTION_TEXT,
      SETS(json) },
    { "--csv", NULL, "FOLDER", "write importance.csv, attention.csv and windows.csv there", HALAY_OPTION_TEXT,
      SETS(explain.tables) },
    { "--out", "-o", "FILE", "write a page with pictures", HALAY_OPTION_TEXT, SETS(page) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft explain",
    .synopsis = "--checkpoint RUN --data DATA.htd [OPTION]...",
    .about = "Says what the forecasts of a split's windows rely on: how much variable selection weighs each input, how "
             "far back attention looks, which windows look elsewhere than usual, and, to check the weights, how much "
             "worse the forecasts become without each input. Under halayrun or mpirun the ranks share the windows.",
    .table = option_rows,
    .is_lenient = 1,
};

/* ---- the table ---- */

static void print_number(const json_t *object, const char *key, double factor)
{
    const json_t *value = json_object_get(object, key);

    if (json_is_number(value))
        printf(" %8.1f", factor * json_number_value(value));
    else
        printf(" %8s", "-");
}

static void print_part(const json_t *importance, const char *part, const char *title)
{
    const char *name;
    json_t *input;

    if (!json_object_size(json_object_get(importance, part)))
        return;
    printf("\n%-28s %8s %8s %8s %8s\n", title, "mean", "p10", "p50", "p90");
    json_object_foreach(json_object_get(importance, part), name, input) {
        printf("  %-26s", name);
        print_number(input, "mean", 100);
        print_number(input, "p10", 100);
        print_number(input, "p50", 100);
        print_number(input, "p90", 100);
        printf("\n");
    }
}

static void print_peaks(const json_t *attention)
{
    const json_t *peaks = json_object_get(attention, "peaks");

    printf("\nattention looks most");
    for (size_t i = 0; i < json_array_size(peaks); i++)
        printf("%s %lld steps back (%.1f %%)", i ? "," : "",
               (long long)json_integer_value(json_object_get(json_array_get(peaks, i), "lag")),
               100 * json_number_value(json_object_get(json_array_get(peaks, i), "mean")));
    printf("%s\n", json_array_size(peaks) ? "" : " nowhere in particular");
}

static void print_occlusion(const json_t *occlusion)
{
    const json_t *correlation = json_object_get(occlusion, "rank_correlation");
    const char *name;
    json_t *input;

    printf("\n%-28s %8s %8s\n", "without the input, %", "weight", "q-risk");
    json_object_foreach(json_object_get(occlusion, "inputs"), name, input) {
        printf("  %-26s", name);
        print_number(input, "weight", 100);
        print_number(input, "change", 100);
        printf("\n");
    }
    if (json_is_number(correlation))
        printf("rank correlation of weights and changes, inputs over time: %.2f\n", json_number_value(correlation));
    correlation = json_object_get(occlusion, "rank_correlation_static");
    if (json_is_number(correlation))
        printf("rank correlation of weights and changes, static inputs: %.2f\n", json_number_value(correlation));
}

static void print_table(const json_t *r)
{
    const json_t *importance = json_object_get(r, "importance"), *regimes = json_object_get(r, "regimes");

    printf("%s: %lld windows; weights in %%\n", json_string_value(json_object_get(r, "split")),
           (long long)json_integer_value(json_object_get(r, "windows")));
    print_part(importance, "static", "static inputs");
    print_part(importance, "past", "past inputs");
    print_part(importance, "future", "future inputs");
    print_peaks(json_object_get(r, "attention"));
    printf("other regimes: %lld windows, whose attention is farther than %g from the mean\n",
           (long long)json_integer_value(json_object_get(regimes, "windows")),
           json_number_value(json_object_get(regimes, "threshold")));
    if (json_is_object(json_object_get(r, "occlusion")))
        print_occlusion(json_object_get(r, "occlusion"));
}

/* ---- the command ---- */

static enum halay_status write_page(struct halay_log *log, const struct request *r,
                                    const struct tft_explanation *explanation, json_t *result)
{
    struct tft_report page = { .explained = result, .explanation = explanation };
    struct tft_output out = { 0 };
    char *path = tft_path_join(log, r->checkpoint, "run.json");
    enum halay_status status = path ? halay_document_load(log, path, NULL, &page.run) : HALAY_ERR_NO_MEMORY;

    if (!status)
        status = tft_output_open(log, r->page, &out);
    if (!status) {
        tft_report_write(out.file, &page);
        status = tft_output_commit(&out);
    }
    json_decref(page.run);
    free(path);
    return status;
}

static enum halay_status write_all(struct halay_log *log, const struct request *r,
                                   const struct tft_explanation *explanation, struct tft_output *json)
{
    json_t *result = tft_explanation_json(explanation);
    enum halay_status status = HALAY_OK;

    if (!result) {
        halay_error(log, "no memory for the explanation");
        return HALAY_ERR_NO_MEMORY;
    }
    if (json->file != stdout)
        print_table(result);
    if (json->file)
        status = tft_output_commit_json(json, result);
    if (!status && r->page)
        status = write_page(log, r, explanation, result);
    if (!status && fflush(stdout)) {
        halay_error(log, "cannot write to standard output");
        status = HALAY_ERR_SYSTEM;
    }
    json_decref(result);
    return status;
}

static enum halay_status explain(struct halay_log *log, struct request *r)
{
    struct tft_inference s = { 0 };
    struct tft_explanation explanation = { 0 };
    struct tft_output json = { 0 };
    enum halay_status status = tft_inference_init(log, r->checkpoint, r->data, &s);

    tft_interrupt_watch();
    if (!status && s.rank == 0)
        status = tft_score_output_open(log, r->json, &json);
    if (!status) {
        if (!r->explain.windows.stride)
            r->explain.windows.stride = s.data.schema.horizon;
        status = tft_explanation_init(&s, &r->explain, &explanation);
    }
    if (status == HALAY_ERR_CANCELED && s.rank == 0)
        halay_error(log, "interrupted by a signal; there is no explanation");
    if (!status && s.rank == 0)
        status = write_all(log, r, &explanation, &json);
    tft_output_abort(&json);
    tft_explanation_fini(&explanation);
    tft_inference_fini(&s);
    return status;
}

int tft_cmd_explain(struct halay_log *log, char **argv)
{
    struct request r = { .explain = { .windows.split = TFT_TEST, .distance = TFT_REGIME_DISTANCE } };
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!r.checkpoint)
        return tft_options_missing(log, &command_line, "--checkpoint");
    if (!r.data)
        return tft_options_missing(log, &command_line, "--data");
    r.explain.has_occlusion = !r.has_no_occlusion;
    return tft_interrupt_exit(explain(log, &r));
}
