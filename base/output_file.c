/* SPDX-License-Identifier: Apache-2.0
 *
 * Output files. A file has no name until it is complete, so a killed process leaves nothing of it. Then it gets its
 * name with ".tmp" and the process's number, on the same file system, so that rename replaces the name in one step. The
 * folder is synced afterwards, so that the name survives a crash.
 */
#include "base/output_file.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum halay_status halay_output_open(struct halay_log *log, const char *path, struct halay_output *out)
{
    return halay_output_open_staged(log, "", path, out);
}

/* Returns the name that an output has until it is complete; NULL without memory. */
static char *name_beside(const char *stage, const char *path)
{
    char *copy = *stage ? strdup(path) : NULL, *beside = NULL;

    if (!*stage ? asprintf(&beside, "%s.tmp.%ld", path, (long)getpid()) < 0
                : !copy || asprintf(&beside, "%s/%s.tmp.%ld", stage, basename(copy), (long)getpid()) < 0)
        beside = NULL;
    free(copy);
    return beside;
}

/* Opens a file without a name in the folder of `beside`. Returns NULL, with errno, if the file system or /proc has no
 * such files. */
static FILE *open_nameless(const char *beside)
{
    char *copy = access("/proc/self/fd", X_OK) ? NULL : strdup(beside);
    int fd = copy ? open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;

    if (fd >= 0 && !file)
        close(fd);
    free(copy);
    return file;
}

/* Names a complete file. */
static int give_name(const struct halay_output *out)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(out->file));
    unlink(out->beside); /* of a process with the same number */
    return linkat(AT_FDCWD, path, AT_FDCWD, out->beside, AT_SYMLINK_FOLLOW);
}

enum halay_status halay_output_open_staged(struct halay_log *log, const char *stage, const char *path,
                                           struct halay_output *out)
{
    struct halay_output o = { .log = log };

    if (!strcmp(path, "-")) {
        *out = (struct halay_output){ .log = log, .file = stdout };
        return HALAY_OK;
    }
    struct stat st;
    int in_place = !stat(path, &st) && !S_ISREG(st.st_mode); /* a device or a pipe is written to, not replaced */
    o.path = strdup(path);
    o.beside = name_beside(stage, path);
    if (!o.path || !o.beside) {
        halay_output_abort(&o);
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory to write '%s'", path);
    }
    o.file = in_place ? NULL : open_nameless(o.beside);
    o.is_nameless = o.file != NULL;
    if (!o.file)
        o.file = fopen(in_place ? path : o.beside, "wbe");
    if (in_place) {
        free(o.beside);
        o.beside = NULL;
    }
    if (!o.file) {
        int error = errno;
        halay_error(log, "cannot write '%s': %s", path, strerror(error));
        free(o.path);
        free(o.beside);
        errno = error;
        return HALAY_ERR_SYSTEM;
    }
    *out = o;
    return HALAY_OK;
}

/* Moves the complete file to its path. File systems without links rename also where the first file should stay. */
static int move_to_path(const struct halay_output *out)
{
    if (!out->keeps_first)
        return rename(out->beside, out->path);
    if (!link(out->beside, out->path) || errno == EEXIST || !access(out->path, F_OK))
        return 0;
    return rename(out->beside, out->path);
}

static int sync_folder(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int failed = fd < 0 || (fsync(fd) && errno != EINVAL); /* some file systems cannot sync a folder */

    if (fd >= 0)
        close(fd);
    free(copy);
    return failed;
}

enum halay_status halay_output_commit(struct halay_output *out)
{
    int failed = fflush(out->file) || ferror(out->file);

    if (!out->path) {
        out->file = NULL;
        return failed ? halay_fail(out->log, HALAY_ERR_SYSTEM, "cannot write to standard output: %s", strerror(errno))
                      : HALAY_OK;
    }
    failed = failed || (out->beside && (fsync(fileno(out->file)) || (out->is_nameless && give_name(out))));
    int error = errno;
    if (fclose(out->file) && !failed) {
        failed = 1;
        error = errno;
    }
    out->file = NULL;
    if (!failed && out->beside && (move_to_path(out) || sync_folder(out->path))) {
        failed = 1;
        error = errno;
    }
    if (failed)
        halay_error(out->log, "cannot write '%s': %s", out->path, strerror(error));
    halay_output_abort(out);
    errno = error;
    return failed ? HALAY_ERR_SYSTEM : HALAY_OK;
}

enum halay_status halay_output_text(struct halay_log *log, const char *path, const char *text)
{
    struct halay_output out;
    enum halay_status status = halay_output_open(log, path, &out);

    if (status)
        return status;
    fputs(text, out.file); /* commit reports a failed write */
    return halay_output_commit(&out);
}

void halay_output_abort(struct halay_output *out)
{
    if (out->file && out->path)
        fclose(out->file);
    if (out->beside)
        unlink(out->beside); /* gone already if it was renamed */
    free(out->path);
    free(out->beside);
    *out = (struct halay_output){ 0 };
}

void halay_write_field(FILE *file, const char *text)
{
    if (text[strcspn(text, ",\"\r\n")])
        halay_write_quoted(file, text);
    else
        fputs(text, file);
}

void halay_write_quoted(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}
