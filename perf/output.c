/* SPDX-License-Identifier: Apache-2.0
 *
 * Output. The JSON file is written beside its name and renamed, so that nobody reads half of one; whatever state a
 * perf_json is in, perf_json_abandon ends it.
 */
#include "perf/output.h"
#include "base/clock.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int perf_json_open(const char *path, struct perf_json *json)
{
    struct perf_json j = { .file = stdout };

    if (strcmp(path, "-")) {
        size_t bytes = strlen(path) + 32;
        j.path = strdup(path);
        j.temporary = malloc(bytes);
        if (!j.path || !j.temporary)
            goto err_free;
        snprintf(j.temporary, bytes, "%s.%ld.tmp", path, (long)getpid());
        j.file = fopen(j.temporary, "w");
        if (!j.file)
            goto err_free;
    }
    *json = j;
    return 0;

err_free:
    fprintf(stderr, "halay-perf: cannot write '%s': %s\n", path, strerror(errno));
    free(j.temporary);
    free(j.path);
    return 1;
}

int perf_json_finish(struct perf_json *json, json_t *value)
{
    int failed = !value || json_dumpf(value, json->file, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

    failed |= fputc('\n', json->file) == EOF || fflush(json->file) != 0;
    json_decref(value);
    if (json->path && json->file) {
        failed |= fclose(json->file) != 0;
        json->file = NULL;
        failed = failed || rename(json->temporary, json->path) != 0;
    }
    if (failed)
        fprintf(stderr, "halay-perf: cannot write '%s': %s\n", json->path ? json->path : "-", strerror(errno));
    if (!failed) {
        free(json->temporary);
        json->temporary = NULL; /* it has its name now: abandon must not remove it */
    }
    perf_json_abandon(json);
    return failed;
}

void perf_json_abandon(struct perf_json *json)
{
    if (json->path && json->file)
        fclose(json->file);
    if (json->temporary)
        unlink(json->temporary);
    free(json->temporary);
    free(json->path);
    memset(json, 0, sizeof *json);
}

void perf_progress_init(struct perf_progress *progress)
{
    *progress = (struct perf_progress){ .is_terminal = isatty(STDERR_FILENO) };
}

void perf_progress_show(struct perf_progress *progress, const char *format, ...)
{
    enum { PERIOD_US = 100 * 1000 };
    va_list args;

    if (!progress->is_terminal || halay_now_us() < progress->next_us)
        return;
    progress->next_us = halay_now_us() + PERIOD_US;
    progress->is_shown = 1;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void perf_progress_clear(struct perf_progress *progress)
{
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
    progress->is_shown = 0;
    progress->next_us = 0;
}
