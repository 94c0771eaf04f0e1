/* SPDX-License-Identifier: Apache-2.0
 *
 * Output.
 */
#include "perf/src/output.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_failed_write(const char *path)
{
    fprintf(stderr, "halay-perf: cannot write '%s': %s\n", path, strerror(errno));
    return 1;
}

int perf_json_open(const char *path, struct halay_output *json)
{
    return halay_output_open(NULL, path, json) ? report_failed_write(path) : 0;
}

int perf_json_finish(const char *path, struct halay_output *json, json_t *value)
{
    int failed = !value || json_dumpf(value, json->file, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

    json_decref(value);
    if (!failed) {
        fputc('\n', json->file);
        failed = halay_output_commit(json) != HALAY_OK;
    }
    if (failed)
        report_failed_write(path);
    halay_output_abort(json);
    return failed;
}

static int is_pipe(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}

/* 0 if it cannot be told. */
static long parent_of(long process)
{
    char path[64], line[128];
    long parent = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", process);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (!parent && fgets(line, sizeof line, file))
        if (sscanf(line, "PPid: %ld", &parent) != 1)
            parent = 0;
    fclose(file);
    return parent;
}

/* The launcher's terminal, if our standard error is a pipe to a launcher at a terminal; else NULL. Some launchers put a
 * helper between, which reads a pipe itself. */
static FILE *launchers_terminal(void)
{
    enum { HELPERS_MAX = 3 };
    long process = getppid();
    int fd = STDERR_FILENO, is_between = is_pipe(fd);

    for (int i = 0; i < HELPERS_MAX && is_between && process > 1; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", process, STDERR_FILENO);
        if ((fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) < 0)
            return NULL;
        FILE *file = isatty(fd) ? fdopen(fd, "w") : NULL;
        if (file)
            return file;
        is_between = is_pipe(fd);
        close(fd);
        process = parent_of(process);
    }
    return NULL;
}

void perf_progress_init(struct perf_progress *progress)
{
    *progress = (struct perf_progress){ .file = isatty(STDERR_FILENO) ? stderr : launchers_terminal() };
}

void perf_progress_fini(struct perf_progress *progress)
{
    perf_progress_clear(progress);
    if (progress->file && progress->file != stderr)
        fclose(progress->file);
    progress->file = NULL;
}

void perf_progress_show(struct perf_progress *progress, const char *format, ...)
{
    enum { PERIOD_US = 100 * 1000 };
    va_list args;

    if (!progress || !progress->file || halay_now_us() < progress->next_us)
        return;
    progress->next_us = halay_now_us() + PERIOD_US;
    progress->is_shown = 1;
    fputs("\r\033[K", progress->file);
    va_start(args, format);
    vfprintf(progress->file, format, args);
    va_end(args);
    fflush(progress->file);
}

void perf_progress_clear(struct perf_progress *progress)
{
    if (!progress || !progress->is_shown)
        return;
    fputs("\r\033[K", progress->file);
    fflush(progress->file);
    progress->is_shown = 0;
    progress->next_us = 0;
}
