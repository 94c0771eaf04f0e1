/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths. Cleanup: a zero-initialised object that fini accepts partly initialised.
 */
#include "tft/core/data/paths.h"
#include "base/document.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static enum halay_status add_path(struct halay_log *log, struct tft_paths *p, const char *folder, const char *name)
{
    char **list = realloc(p->list, (p->count + 1) * sizeof *list);
    char *path = NULL;

    if (list) {
        p->list = list;
        path = strdup(folder ? tft_path_in(folder, name).text : name);
    }
    if (!path)
        return halay_no_memory(log, "for a list of files");
    p->list[p->count++] = path;
    return HALAY_OK;
}

static int path_matches(const json_t *patterns, const char *name)
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

    if (n < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot read folder '%s': %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (!status && path_matches(patterns, entries[i]->d_name))
            status = add_path(log, p, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (!status && p->count == before)
        return halay_fail(log, HALAY_ERR_FORMAT, "folder '%s' holds no file that matches the schema's 'files'", folder);
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

struct tft_path tft_path_in(const char *folder, const char *name)
{
    const size_t length = strlen(folder);
    struct tft_path path;

    snprintf(path.text, sizeof path.text, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
    return path;
}

enum halay_status tft_folder_write(struct halay_log *log, const char *folder, const char *name, const json_t *document)
{
    return halay_document_write(log, "", tft_path_in(folder, name).text, document);
}

enum halay_status tft_folder_find(struct halay_log *log, const char *folder, const char *name, json_t **document)
{
    const struct tft_path path = tft_path_in(folder, name);

    *document = NULL;
    return access(path.text, F_OK) ? HALAY_OK : halay_document_load(log, path.text, NULL, document);
}

enum halay_status tft_make_folder(struct halay_log *log, const char *path)
{
    struct stat st;

    if (!mkdir(path, 0777) || (errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_SYSTEM, "cannot make folder '%s': %s", path,
                      errno == EEXIST ? "it is not a folder" : strerror(errno));
}

enum halay_status tft_lock_folder(struct halay_log *log, const char *path, const char *what, int *lock)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *lock = -1;
    if (fd < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot open folder '%s': %s", path, strerror(errno));
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
