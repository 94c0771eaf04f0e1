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
    char *path = tft_path_join(log, folder, "metrics.jsonl"), *line = NULL;
    size_t size = 0;
    FILE *file = path ? fopen(path, "re") : NULL;
    enum halay_status status = path ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (path && !file && errno == ENOENT)
        halay_warning(log, "there is no '%s' (the parameters were imported?): the page has no loss curves", path);
    else if (path && !file)
        status = halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    while (file && getline(&line, &size, file) > 0) {
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        if (json_is_object(object))
            json_array_append(metrics, object);
        else
            halay_warning(log, "a line of '%s' is not JSON and is left out: %s", path, error.text);
        json_decref(object);
    }
    free(line);
    free(path);
    if (file)
        fclose(file);
    return status;
}

static enum halay_status describe_run(struct halay_tft *t, const char *folder, char **json)
{
    json_t *run = NULL, *metrics = json_array();
    char *path = tft_path_join(&t->log, folder, "run.json");
    enum halay_status status = path ? halay_document_load(&t->log, path, NULL, &run) : HALAY_ERR_NO_MEMORY;

    if (!status && !(status = read_metrics(&t->log, folder, metrics)))
        status = tft_session_text(t,
                                  json_pack("{ss sO? sO? sO? sO}", "kind", "run", "halay",
                                            json_object_get(run, "halay"), "config", json_object_get(run, "config"),
                                            "schema", json_object_get(run, "schema"), "metrics", metrics),
                                  json);
    json_decref(metrics);
    json_decref(run);
    free(path);
    return status;
}

enum halay_status halay_tft_run_describe(struct halay_tft *t, const char *folder, char **json)
{
    if (!t || !folder || !json)
        return tft_session_refuse_null("halay_tft_run_describe", "an argument");
    tft_session_enter(t);
    return tft_session_leave_stopped(t, describe_run(t, folder, json));
}
