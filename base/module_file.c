/* SPDX-License-Identifier: Apache-2.0 */
#include "base/module_file.h"
#include "base/transports.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDERS = 5 };

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

/* Sets folder to that where pip has put the package of the program in bin; "" if it has not. */
static void find_package(const char *bin, char folder[PATH_MAX])
{
    char pattern[PATH_MAX + 64];
    glob_t found = { 0 };

    folder[0] = 0;
    snprintf(pattern, sizeof pattern, "%s/../lib/python3*/*-packages/halay/lib", bin);
    if (bin[0] && !glob(pattern, 0, NULL, &found))
        snprintf(folder, PATH_MAX, "%s", found.gl_pathv[0]);
    globfree(&found);
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
    find_package(own, place[4]);
}

/* Sets path to the first libhalay-NAME VARIANT.so; returns zero if no folder has one. */
static int find_module(char place[FOLDERS][PATH_MAX], const char *name, const char *variant,
                       char path[HALAY_MODULE_FILE_MAX])
{
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(path, HALAY_MODULE_FILE_MAX, "%s/libhalay-%s%s.so", place[i], name, variant);
        if (place[i][0] && access(path, F_OK) == 0)
            return 1;
    }
    return 0;
}

static void *open_object(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static const struct halay_transport_row *find_row(const char *name)
{
    for (int i = 0; i < HALAY_TRANSPORT_COUNT; i++)
        if (!strcmp(halay_transport_rows[i].name, name))
            return &halay_transport_rows[i];
    return NULL;
}

/* Loads the library from pip's folder of packages, in which the module is in halay/lib, and then the module again. */
static void *open_with(const char *pip_library, const char *path)
{
    char library[PATH_MAX + 128];

    snprintf(library, sizeof library, "%.*s/../../%s", (int)(strrchr(path, '/') - path), path, pip_library);
    return open_object(library) ? open_object(path) : NULL;
}

/* The system's library is tried first: it knows the system's networks, and pip's UCX is built without InfiniBand. */
static enum halay_status load_module(struct halay_log *log, enum halay_log_level level, const char *name,
                                     const char *path, void **handle)
{
    const struct halay_transport_row *row = find_row(name);
    char why[512] = "";
    void *object = open_object(path);

    if (!object) {
        snprintf(why, sizeof why, "%s", dlerror());
        object = row && row->pip ? open_with(row->pip, path) : NULL;
    }
    if (!object) {
        halay_log_write(log, level, "cannot load module: %s%s%s", why, row && row->install ? "; it needs " : "",
                        row && row->install ? row->install : "");
        return HALAY_ERR_UNSUPPORTED;
    }
    halay_debug(log, "module '%s'", path);
    *handle = object;
    return HALAY_OK;
}

enum halay_status halay_module_file_open(struct halay_log *log, enum halay_log_level level, const char *folder,
                                         const char *name, const char *variant, void **handle)
{
    char(*place)[PATH_MAX] = malloc(FOLDERS * sizeof *place), path[HALAY_MODULE_FILE_MAX];
    enum halay_status status = HALAY_ERR_UNSUPPORTED;

    if (!place)
        return HALAY_ERR_NO_MEMORY;
    list_folders(folder, place);
    if ((*variant && find_module(place, name, variant, path)) || find_module(place, name, "", path))
        status = load_module(log, level, name, path, handle);
    else
        halay_log_write(log, level,
                        "module '%s' not found: no libhalay-%s.so in '%s', '%s', '%s' (HALAY_MODULE_PATH names another "
                        "folder)",
                        name, name, place[1], place[2], place[3]);
    free(place);
    return status;
}

int halay_module_file_find(const char *folder, const char *name, char path[HALAY_MODULE_FILE_MAX])
{
    char(*place)[PATH_MAX] = malloc(FOLDERS * sizeof *place);

    if (!place)
        return 0;
    list_folders(folder, place);
    int found = find_module(place, name, "", path);
    free(place);
    return found;
}

const char *halay_module_file_path(const void *symbol)
{
    Dl_info info;

    return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "?";
}
