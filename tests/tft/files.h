/* SPDX-License-Identifier: Apache-2.0
 *
 * What the data tests share: a scratch folder, small files in it, and a log whose newest error is looked at.
 */
#ifndef HALAY_TESTS_TFT_FILES_H
#define HALAY_TESTS_TFT_FILES_H

#include "base/log.h"
#include "tests/test.h"
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char scratch[256];
static struct halay_log test_log;

static void ignore_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

/* A new folder under TMPDIR, and a quiet log. */
__attribute__((unused)) static void begin_scratch(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(scratch, sizeof scratch, "%.200s/halay-test.XXXXXX", tmp ? tmp : "/tmp");
    REQUIRE(mkdtemp(scratch));
    halay_log_init(&test_log, HALAY_LOG_WARNING);
    test_log.write = ignore_line;
}

/* Files only; the tests make no folders in it. */
__attribute__((unused)) static void end_scratch(void)
{
    char path[600];
    struct dirent *entry;
    DIR *folder = opendir(scratch);

    while (folder && (entry = readdir(folder))) {
        snprintf(path, sizeof path, "%s/%s", scratch, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (folder)
        closedir(folder);
    rmdir(scratch);
    halay_log_fini(&test_log);
}

/* scratch/name; one of four buffers in turn. */
__attribute__((unused)) static const char *in_scratch(const char *name)
{
    static char paths[4][512];
    static int turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", scratch, name);
    return paths[turn];
}

__attribute__((unused)) static const char *write_bytes(const char *name, const void *bytes, size_t length)
{
    const char *path = in_scratch(name);
    FILE *file = fopen(path, "wb");

    REQUIRE(file && fwrite(bytes, 1, length, file) == length && !fclose(file));
    return path;
}

__attribute__((unused)) static const char *write_text(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

__attribute__((unused)) static const char *write_gz(const char *name, const char *text)
{
    const char *path = in_scratch(name);
    gzFile file = gzopen(path, "wb");

    REQUIRE(file && gzwrite(file, text, (unsigned)strlen(text)) == (int)strlen(text) && gzclose(file) == Z_OK);
    return path;
}

/* The bytes of a file; freed by the caller. */
__attribute__((unused)) static char *read_bytes(const char *path, size_t *length)
{
    struct stat st;
    FILE *file = fopen(path, "rb");

    REQUIRE(file && !fstat(fileno(file), &st));
    char *bytes = malloc((size_t)st.st_size + 1);
    REQUIRE(bytes && fread(bytes, 1, (size_t)st.st_size, file) == (size_t)st.st_size);
    fclose(file);
    bytes[st.st_size] = 0;
    *length = (size_t)st.st_size;
    return bytes;
}

/* Does the newest error hold this text? Prints it if not. */
__attribute__((unused)) static int error_says(const char *text)
{
    char error[512];

    halay_log_last_error(&test_log, error, sizeof error);
    if (strstr(error, text))
        return 1;
    printf("the error was: %s\n", error);
    return 0;
}

#endif
