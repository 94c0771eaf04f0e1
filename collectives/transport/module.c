/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: where they are looked for, and whether what was found is ours.
 *
 * A module is never unloaded: the libraries behind it (MPI above all) register handlers that run at exit. Its handle is
 * still closed, so that opens and closes are in pairs.
 *
 * References: dlopen(3), dladdr(3).
 */
#include "collectives/transport/module.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 4 };

/* The folder of the library or program that holds this code; "" if that cannot be found out. */
static void own_folder(char folder[PATH_MAX])
{
    Dl_info info;
    char path[PATH_MAX];

    folder[0] = 0;
    if (!dladdr((void *)(uintptr_t)halay_module_open, &info) || !info.dli_fname || info.dli_fname[0] != '/') {
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

/* The folders to look in, in order; empty ones are passed over. */
static void list_places(const struct halay_config *config, char place[PLACES][PATH_MAX])
{
    char own[PATH_MAX];

    own_folder(own);
    snprintf(place[0], PATH_MAX, "%s", config->module_path ? config->module_path : "");
    snprintf(place[1], PATH_MAX, "%s", own);
    /* The usual folder beside the library, even if the whole installation was moved. */
    snprintf(place[2], PATH_MAX, "%.*s%s", PATH_MAX - 8, own, own[0] ? "/halay" : "");
    snprintf(place[3], PATH_MAX, "%s", HALAY_PKGLIBDIR);
}

static enum halay_status check_api(struct halay_log *log, const char *path, const struct halay_module_api *api)
{
    if (!api) {
        halay_error(log, "'%s' is not a module of halay", path);
        return HALAY_ERR_VERSION;
    }
    if (api->abi == HALAY_MODULE_ABI && !strcmp(api->version, HALAY_VERSION))
        return HALAY_OK;
    halay_error(log, "module '%s' belongs to halay %s (interface %u), this is %s (interface %u)", path,
                api->abi == HALAY_MODULE_ABI ? api->version : "of another release", api->abi, HALAY_VERSION,
                (unsigned)HALAY_MODULE_ABI);
    return HALAY_ERR_VERSION;
}

static enum halay_status load(struct halay_log *log, enum halay_log_level level, const char *path, void **handle,
                              const struct halay_module_api **api)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (!object) {
        halay_log_write(log, level, "cannot load module: %s", dlerror());
        return HALAY_ERR_UNSUPPORTED;
    }
    const struct halay_module_api *found = dlsym(object, "halay_module");
    enum halay_status status = check_api(log, path, found);
    if (status != HALAY_OK) {
        dlclose(object);
        return status;
    }
    halay_debug(log, "module '%s'", path);
    *handle = object;
    *api = found;
    return HALAY_OK;
}

/* The first folder that has libhalay-NAME VARIANT.so. */
static int find(char place[PLACES][PATH_MAX], const char *name, const char *variant, char path[PATH_MAX + 64])
{
    for (int i = 0; i < PLACES; i++) {
        snprintf(path, PATH_MAX + 64, "%s/libhalay-%s%s.so", place[i], name, variant);
        if (place[i][0] && access(path, F_OK) == 0)
            return 1;
    }
    return 0;
}

enum halay_status halay_module_open(struct halay_log *log, enum halay_log_level level,
                                    const struct halay_config *config, const char *name, const char *variant,
                                    void **handle, const struct halay_module_api **api)
{
    char(*place)[PATH_MAX] = malloc(PLACES * sizeof *place), path[PATH_MAX + 64];
    enum halay_status status = HALAY_ERR_UNSUPPORTED;

    if (!place)
        return HALAY_ERR_NO_MEMORY;
    list_places(config, place);
    if ((*variant && find(place, name, variant, path)) || find(place, name, "", path))
        status = load(log, level, path, handle, api);
    else
        halay_log_write(
            log, level,
            "module '%s' is not there: no libhalay-%s.so in '%s', '%s', '%s' (HALAY_MODULE_PATH names another "
            "folder)",
            name, name, place[1], place[2], place[3]);
    free(place);
    return status;
}

void halay_module_close(void *handle)
{
    if (handle)
        dlclose(handle);
}
