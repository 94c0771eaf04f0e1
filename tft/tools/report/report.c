/* SPDX-License-Identifier: Apache-2.0
 *
 * The page about a run: the run's records, and with data the scores, some forecasts and the explanation of the same
 * windows. All of it are results of other calls; the page draws them.
 */
#include "base/error_text.h"
#include "base/output_file.h"
#include "base/struct_size.h"
#include "halay_tft.h"
#include "tft/tools/report/page.h"
#include <stddef.h>
#include <stdio.h>

/* Takes the text of a call's result, which is NULL but on rank 0. Returns NULL then. */
static json_t *take_result(char *text)
{
    json_t *result = text ? json_loads(text, 0, NULL) : NULL;

    halay_tft_free(text);
    return result;
}

/* Adds the scores of data's windows, and what their forecasts rely on. */
static enum halay_status add_windows(struct halay_tft_model *model, struct halay_tft_data *data,
                                     const struct halay_tft_windows *given, json_t *report)
{
    struct halay_tft_windows windows = *given;
    char *text = NULL, split[16] = "";
    enum halay_status status = halay_tft_model_describe(model, &text);

    if (status)
        return status;
    json_t *about = take_result(text);
    if (!windows.stride)
        windows.stride = (size_t)json_integer_value(json_object_get(about, "horizon"));
    json_decref(about);
    windows.page = windows.file = windows.csv = NULL;
    windows.has_pictures = 1;
    if ((status = halay_tft_evaluate(model, data, &windows, &text)))
        return status;
    json_t *scores = take_result(text);
    if (scores) { /* of validation where the data have no test */
        snprintf(split, sizeof split, "%s", json_string_value(json_object_get(scores, "split")));
        windows.split = split;
        json_object_set_new(report, "scores", scores);
    }
    if ((status = halay_tft_explain(model, data, &windows, &text)))
        return status;
    json_t *explanation = take_result(text);
    if (explanation)
        json_object_set_new(report, "explanation", explanation);
    return HALAY_OK;
}

static enum halay_status write_page(struct halay_log *log, const char *path, const json_t *report)
{
    struct halay_output out = { 0 };
    enum halay_status status = halay_output_open(log, path, &out);

    if (!status) {
        tft_page_write(out.file, report);
        status = halay_output_commit(&out);
    }
    return halay_log_returns(log, status);
}

/* Gathers what the page has: the records, and what data add. */
static enum halay_status gather(struct halay_tft *t, const char *folder, struct halay_tft_data *data,
                                const struct halay_tft_windows *windows, json_t *report)
{
    struct halay_tft_model *model = NULL;
    char *text = NULL;
    enum halay_status status = halay_tft_run_describe(t, folder, &text);

    if (status)
        return status;
    json_t *run = take_result(text);
    json_object_update_missing(report, run);
    json_decref(run);
    if (!data)
        return HALAY_OK;
    if (!(status = halay_tft_model_open(t, folder, &model)))
        status = add_windows(model, data, windows, report);
    halay_tft_model_close(model);
    return status;
}

enum halay_status halay_tft_report(struct halay_tft *t, const char *folder, struct halay_tft_data *data,
                                   const struct halay_tft_windows *windows)
{
    struct halay_tft_windows given = { 0 };
    enum halay_status status;

    if (!t || !folder || !windows)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_report: an argument is NULL");
    if ((status = halay_struct_read(NULL, "halay_tft_windows", windows,
                                    offsetof(struct halay_tft_windows, has_pictures), sizeof given, &given)))
        return halay_returns(status);
    if (!given.page)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_tft_report: 'page' of halay_tft_windows is NULL");
    json_t *report = json_pack("{ss}", "kind", "report");
    if (!report)
        return halay_refuses(HALAY_ERR_NO_MEMORY, "no memory for a page");
    status = gather(t, folder, data, &given, report);
    struct halay_context *ctx = halay_tft_context(t);
    if (!status && (!ctx || halay_rank(ctx) == 0))
        status = write_page(halay_tft_log(t), given.page, report);
    json_decref(report);
    return status;
}
