/* SPDX-License-Identifier: Apache-2.0 */
#include "base/module_file.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDERS = 4 };

/* Sets folder to that of the library or program with this code; "" if it is unknown. */
static void own_folder(char folder[PATH_MAX])
{
    Dl_info info;
    char path[PATH_MAX];

    folder[0] = 0;
    if (!dladdr((void *)(uintptr_t)halay_module_file_open, &info) || !info.dli_fname || info.dli_fname[0] != '/') {
        /* A program that was called by a relative name. */
        ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
        if (n <= 0)
            return;
        path[n] = 0;
    } else {
        snprintf(path, sizeof path, "%s", info.dli_fname);
    }
    char *slash = strrchr(path, '/');
    if (!slash)
        return;
    *slash = 0;
    snprintf(folder, PATH_MAX, "%s", path);
}

/* Lists the folders to search, in order; empty ones are skipped. */
static void list_folders(const char *folder, char place[FOLDERS][PATH_MAX])
{
    char own[PATH_MAX];

    own_folder(own);
    snprintf(place[0], PATH_MAX, "%s", folder ? folder : "");
    snprintf(place[1], PATH_MAX, "%s", own);
    /* The usual folder beside the library, even if the whole installation was moved. */
    snprintf(place[2], PATH_MAX, "%.*s%s", PATH_MAX - 8, own, own[0] ? "/halay" : "");
    snprintf(place[3], PATH_MAX, "%s", HALAY_PKGLIBDIR);
}

/* Sets path to the first libhalay-NAME VARIANT.so; returns zero if no folder has one. */
static int find_module(char place[FOLDERS][PATH_MAX], const char *name, const char *variant, char path[PATH_MAX + 64])
{
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, PATH_MAX + 64, "%s/libhalay-%s%s.so", place[i], name, variant);
        if (place[i][0] && access(path, F_OK) == 0)
            return 1;
    }
    return 0;
}

static enum halay_status load_module(struct halay_log *log, enum halay_log_level level, const char *path, void **handle)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!object) {
        halay_log_write(log, level, "cannot load module: %s", dlerror());
        return HALAY_ERR_UNSUPPORTED;
    }
    halay_debug(log, "module '%s'", path);
    *handle = object;
    return HALAY_OK;
}

enum halay_status halay_module_file_open(struct halay_log *log, enum halay_log_level level, const char *folder,
                                         const char *name, const char *variant, void **handle)
{
    char(*place)[PATH_MAX] = malloc(FOLDERS * sizeof *place), path[PATH_MAX + 64];
    enum halay_status status = HALAY_ERR_UNSUPPORTED;

    if (!place)
        return HALAY_ERR_NO_MEMORY;
    list_folders(folder, place);
    if ((*variant && find_module(place, name, variant, path)) || find_module(place, name, "", path))
        status = load_module(log, level, path, handle);
    else
        halay_log_write(log, level,
                        "module '%s' not found: no libhalay-%s.so in '%s', '%s', '%s' (HALAY_MODULE_PATH names another "
                        "folder)",
                        name, name, place[1], place[2], place[3]);
    free(place);
    return status;
}

int halay_module_file_is_there(const char *folder, const char *name)
{
    char(*place)[PATH_MAX] = malloc(FOLDERS * sizeof *place), path[PATH_MAX + 64];

    if (!place)
        return 0;
    list_folders(folder, place);
    int found = find_module(place, name, "", path) || find_module(place, name, "-mpich", path);
    free(place);
    return found;
}

const char *halay_module_file_path(const void *symbol)
{
    Dl_info info;

    return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "?";
}
