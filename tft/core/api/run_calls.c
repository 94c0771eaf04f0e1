/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's records, as a call.
 */
#include "base/document.h"
#include "tft/core/api/api_impl.h"
#include "tft/core/data/paths.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the lines of metrics.jsonl, which may not exist yet. */
static enum halay_status read_metrics(struct halay_log *log, const char *folder, json_t *metrics)
{
    const struct tft_path path = tft_path_in(folder, "metrics.jsonl");
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen(path.text, "re");

    if (!file && errno != ENOENT)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path.text, strerror(errno));
    if (!file)
        halay_warning(log, "there is no '%s' (the parameters were imported?): the page has no loss curves", path.text);
    while (file && getline(&line, &size, file) > 0) {
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        if (json_is_object(object))
            json_array_append(metrics, object);
        else
            halay_warning(log, "a line of '%s' is not JSON and is left out: %s", path.text, error.text);
        json_decref(object);
    }
    free(line);
    if (file)
        fclose(file);
    return HALAY_OK;
}

static enum halay_status describe_run(struct halay_tft *t, const char *folder, char **json)
{
    json_t *run = NULL, *metrics = json_array();
    enum halay_status status = halay_document_load(&t->log, tft_path_in(folder, "run.json").text, NULL, &run);

    if (!status && !(status = read_metrics(&t->log, folder, metrics)))
        status = tft_session_text(t,
                                  json_pack("{ss sO? sO? sO? sO}", "kind", "run", "halay",
                                            json_object_get(run, "halay"), "config", json_object_get(run, "config"),
                                            "schema", json_object_get(run, "schema"), "metrics", metrics),
                                  json);
    json_decref(metrics);
    json_decref(run);
    return status;
}

enum halay_status halay_tft_run_describe(struct halay_tft *t, const char *folder, char **json)
{
    if (!t || !folder || !json)
        return tft_session_refuse_null("halay_tft_run_describe", "an argument");
    tft_session_enter(t);
    return tft_session_leave_stopped(t, describe_run(t, folder, json));
}
