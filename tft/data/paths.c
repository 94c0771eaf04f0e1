/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: what goes in, and what comes out whole.
 *
 * A file beside has the name with ".tmp" and the process's number; it is in the same folder, so that rename replaces
 * the name in one step; the folder is synced after it, so that the name survives a crash too. Cleanup: zero-initialised
 * objects that fini and abort accept half-built.
 */
#include "tft/data/paths.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static enum halay_status add_path(struct halay_log *log, struct tft_paths *p, const char *folder, const char *name)
{
    char **list = realloc(p->list, (p->count + 1) * sizeof *list);
    if (list)
        p->list = list;
    char *path = !list ? NULL : folder ? tft_path_join(log, folder, name) : strdup(name);
    if (!path) {
        halay_error(log, "no memory for a list of files");
        return HALAY_ERR_NO_MEMORY;
    }
    p->list[p->count++] = path;
    return HALAY_OK;
}

static int matches(const json_t *patterns, const char *name)
{
    if (name[0] == '.')
        return 0;
    for (size_t i = 0; i < json_array_size(patterns); i++)
        if (!fnmatch(json_string_value(json_array_get(patterns, i)), name, 0))
            return 1;
    return !patterns;
}

static enum halay_status add_folder(struct halay_log *log, struct tft_paths *p, const char *folder,
                                    const json_t *patterns)
{
    struct dirent **entries;
    size_t before = p->count;
    enum halay_status status = HALAY_OK;
    int n = scandir(folder, &entries, NULL, alphasort);

    if (n < 0) {
        halay_error(log, "cannot read folder '%s': %s", folder, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    for (int i = 0; i < n; i++) {
        if (!status && matches(patterns, entries[i]->d_name))
            status = add_path(log, p, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (!status && p->count == before) {
        halay_error(log, "folder '%s' holds no file that matches the schema's 'files'", folder);
        return HALAY_ERR_FORMAT;
    }
    return status;
}

enum halay_status tft_paths_expand(struct halay_log *log, const char *const *paths, size_t count,
                                   const json_t *patterns, struct tft_paths *out)
{
    struct tft_paths p = { 0 };
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < count && !status; i++) {
        struct stat st;
        if (stat(paths[i], &st)) {
            halay_error(log, "cannot open '%s': %s", paths[i], strerror(errno));
            status = HALAY_ERR_SYSTEM;
        } else {
            status = S_ISDIR(st.st_mode) ? add_folder(log, &p, paths[i], patterns) : add_path(log, &p, NULL, paths[i]);
        }
    }
    if (status)
        tft_paths_fini(&p);
    else
        *out = p;
    return status;
}

void tft_paths_fini(struct tft_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->list[i]);
    free(paths->list);
    *paths = (struct tft_paths){ 0 };
}

char *tft_path_join(struct halay_log *log, const char *folder, const char *name)
{
    char *path;
    size_t length = strlen(folder);
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";

    if (asprintf(&path, "%s%s%s", folder, slash, name) < 0) {
        halay_error(log, "no memory for a file's name");
        return NULL;
    }
    return path;
}

enum halay_status tft_output_open(struct halay_log *log, const char *path, struct tft_output *out)
{
    return tft_output_open_staged(log, "", path, out);
}

/* The name that an output has until it is complete; NULL without memory. */
static char *name_beside(const char *stage, const char *path)
{
    char *copy = *stage ? strdup(path) : NULL, *beside = NULL;

    if (!*stage ? asprintf(&beside, "%s.tmp.%ld", path, (long)getpid()) < 0
                : !copy || asprintf(&beside, "%s/%s.tmp.%ld", stage, basename(copy), (long)getpid()) < 0)
        beside = NULL;
    free(copy);
    return beside;
}

enum halay_status tft_output_open_staged(struct halay_log *log, const char *stage, const char *path,
                                         struct tft_output *out)
{
    struct tft_output o = { .log = log };

    if (!strcmp(path, "-")) {
        o.file = stdout;
        *out = o;
        return HALAY_OK;
    }
    struct stat st;
    int in_place = !stat(path, &st) && !S_ISREG(st.st_mode); /* a device or a pipe is written to, not replaced */
    o.path = strdup(path);
    o.beside = name_beside(stage, path);
    if (!o.path || !o.beside) {
        halay_error(log, "no memory to write '%s'", path);
        free(o.path);
        free(o.beside);
        return HALAY_ERR_NO_MEMORY;
    }
    o.file = fopen(in_place ? path : o.beside, "wbe");
    if (in_place) {
        free(o.beside);
        o.beside = NULL;
    }
    if (!o.file) {
        halay_error(log, "cannot write '%s': %s", path, strerror(errno));
        free(o.path);
        free(o.beside);
        return HALAY_ERR_SYSTEM;
    }
    *out = o;
    return HALAY_OK;
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

enum halay_status tft_output_commit(struct tft_output *out)
{
    int failed = fflush(out->file) || ferror(out->file);

    if (!out->path) {
        out->file = NULL;
        if (failed)
            halay_error(out->log, "cannot write to standard output: %s", strerror(errno));
        return failed ? HALAY_ERR_SYSTEM : HALAY_OK;
    }
    failed = failed || (out->beside && fsync(fileno(out->file)));
    int error = errno;
    if (fclose(out->file) && !failed) {
        failed = 1;
        error = errno;
    }
    out->file = NULL;
    if (!failed && out->beside && (rename(out->beside, out->path) || sync_folder(out->path))) {
        failed = 1;
        error = errno;
    }
    if (failed)
        halay_error(out->log, "cannot write '%s': %s", out->path, strerror(error));
    tft_output_abort(out);
    return failed ? HALAY_ERR_SYSTEM : HALAY_OK;
}

enum halay_status tft_output_json(struct halay_log *log, const char *stage, const char *path, const json_t *document)
{
    struct tft_output out;
    enum halay_status status = tft_output_open_staged(log, stage, path, &out);

    return status ? status : tft_output_commit_json(&out, document);
}

enum halay_status tft_output_commit_json(struct tft_output *out, const json_t *document)
{
    if (json_dumpf(document, out->file, JSON_INDENT(1)) && !ferror(out->file)) { /* a failed write is commit's to say */
        halay_error(out->log, "no memory to write '%s'", out->path ? out->path : "standard output");
        tft_output_abort(out);
        return HALAY_ERR_NO_MEMORY;
    }
    fputc('\n', out->file);
    return tft_output_commit(out);
}

void tft_output_abort(struct tft_output *out)
{
    if (out->file && out->path)
        fclose(out->file);
    if (out->beside)
        unlink(out->beside); /* gone already if it was renamed */
    free(out->path);
    free(out->beside);
    *out = (struct tft_output){ 0 };
}

enum halay_status tft_make_folder(struct halay_log *log, const char *path)
{
    struct stat st;

    if (!mkdir(path, 0777) || (errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)))
        return HALAY_OK;
    halay_error(log, "cannot make folder '%s': %s", path, errno == EEXIST ? "it is no folder" : strerror(errno));
    return HALAY_ERR_SYSTEM;
}

enum halay_status tft_lock_folder(struct halay_log *log, const char *path, const char *what, int *lock)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *lock = -1;
    if (fd < 0) {
        halay_error(log, "cannot open folder '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *lock = fd;
        return HALAY_OK;
    }
    int taken = errno == EWOULDBLOCK;
    close(fd);
    if (taken)
        halay_error(log, "another process is %s '%s'", what, path);
    return taken ? HALAY_ERR_ARGUMENT : HALAY_OK;
}
