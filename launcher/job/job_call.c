/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's call (--call DIR, of Python's halay.run): a function for all ranks, and what each returns, between files of
 * this host and the store, so that other hosts need none of these files.
 *
 *   file of DIR     key of the store  value
 *   call            call/size         its bytes, 8
 *                   call/N            its chunk N of CHUNK bytes
 *   result.RANK     result/RANK       an offset, 8 bytes, and the result's bytes from there on; without any: the end
 *
 * Numbers are little-endian. A result is complete once it has its name; until then ".part" follows it. The store does
 * not keep results.
 */
#include "base/parse.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char result_prefix[] = "result/";
#define CHUNK HALAY_STORE_VALUE_MAX

static void write_u64(unsigned char to[8], uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t read_u64(const unsigned char from[8])
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | from[i];
    return value;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void result_path(const struct job *job, int rank, const char *end, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.4000s/result.%d%s", job->setting->options->call, rank, end);
}

/* Returns nonzero if all bytes are written at the offset, which is where the file ends. */
static int append_result(const char *path, uint64_t offset, const unsigned char *bytes, size_t count)
{
    struct stat st;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (offset ? 0 : O_TRUNC), 0600);
    int ok = fd >= 0 && fstat(fd, &st) == 0;

    if (ok && (uint64_t)st.st_size != offset) {
        errno = EINVAL;
        ok = 0;
    }
    while (ok && count) {
        ssize_t n = write(fd, bytes, count);
        ok = n > 0 || (n < 0 && errno == EINTR);
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    int why = errno;
    if (fd >= 0 && close(fd) < 0 && ok) {
        why = errno;
        ok = 0;
    }
    errno = why;
    return ok;
}

/* For halay_store_server_take. */
static enum halay_status take_result(void *arg, const char *key, const void *value, size_t bytes)
{
    const struct job *job = arg;
    char part[PATH_MAX], path[PATH_MAX];
    long rank;

    if (halay_parse_long(key + strlen(result_prefix), 0, job->size - 1, &rank) != HALAY_OK || bytes < 8)
        return HALAY_ERR_ARGUMENT;
    result_path(job, (int)rank, ".part", part);
    result_path(job, (int)rank, "", path);
    if (append_result(part, read_u64(value), (const unsigned char *)value + 8, bytes - 8) &&
        (bytes > 8 || rename(part, path) == 0))
        return HALAY_OK;
    report("cannot write the result of rank %ld to '%s': %s", rank, part, strerror(errno));
    unlink(part);
    return HALAY_ERR_SYSTEM;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */

/* Puts the file into the store; 0 if that fails (reported). */
static int offer_call(struct job *job, const char *path, FILE *file, unsigned char *chunk)
{
    uint64_t size = 0;
    unsigned char text[8];
    char key[32];
    size_t n;

    for (int i = 0; (n = fread(chunk, 1, CHUNK, file)) > 0; i++, size += n) {
        snprintf(key, sizeof key, "call/%d", i);
        if (halay_store_server_set(job->store, key, chunk, n) != HALAY_OK)
            return 0;
    }
    if (ferror(file)) {
        report("cannot read '%s': %s", path, strerror(errno));
        return 0;
    }
    write_u64(text, size);
    return halay_store_server_set(job->store, "call/size", text, sizeof text) == HALAY_OK;
}

int job_open_call(struct job *job)
{
    char path[PATH_MAX];

    if (!job->setting->options->call)
        return 0;
    for (int r = 0; r < job->size; r++) { /* of an earlier start of the ranks */
        result_path(job, r, "", path);
        unlink(path);
    }
    snprintf(path, sizeof path, "%.4000s/call", job->setting->options->call);
    FILE *file = fopen(path, "re");
    unsigned char *chunk = malloc(CHUNK);
    int ok = file && chunk;
    if (!file)
        report("cannot open '%s': %s", path, strerror(errno));
    else if (!chunk)
        report_no_memory();
    else
        ok = offer_call(job, path, file, chunk);
    if (file)
        fclose(file);
    free(chunk);
    halay_store_server_take(job->store, result_prefix, take_result, job);
    return !ok;
}
