/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules, as the library looks for its own: so doctor can say what the library will find, and the MPI side of --versus
 * is found in a build folder as well as where it was installed.
 */
#include "perf/src/versus/module.h"
#include "base/launchers.h"
#include "halay_coll.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* The folder of libhalay.so; "" if unknown. */
static void library_folder(char *folder, size_t size)
{
    Dl_info info;

    folder[0] = '\0';
    void *symbol = dlsym(RTLD_DEFAULT, "halay_group_open");
    if (!symbol || !dladdr(symbol, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash)
        snprintf(folder, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

static int find(const char *const folders[], const char *name, const char *variant, char *path, size_t size)
{
    for (; *folders; folders++) {
        int length = snprintf(path, size, "%s/libhalay-%s%s.so", *folders, name, variant);
        if (**folders && length > 0 && (size_t)length < size && !access(path, R_OK))
            return 1;
    }
    return 0;
}

int perf_module_find(const struct halay_config *config, const char *name, char *path, size_t size)
{
    const char *variant = strcmp(name, "mpi") && strcmp(name, "perf-mpi") ? "" : halay_mpi_variant(&config->launchers);
    char own[PATH_BYTES];

    library_folder(own, sizeof own);
    const char *const folders[] = { config->module_path ? config->module_path : "", own, HALAY_PKGLIBDIR, NULL };
    if ((*variant && find(folders, name, variant, path, size)) || find(folders, name, "", path, size))
        return 1;
    snprintf(path, size, "libhalay-%s.so is neither in HALAY_MODULE_PATH, nor in '%s', nor in '%s'", name, own,
             HALAY_PKGLIBDIR);
    return 0;
}

void *perf_module_open(const struct halay_config *config, const char *name, char *text, size_t size)
{
    char path[PATH_BYTES * 2];

    if (!perf_module_find(config, name, path, sizeof path)) {
        snprintf(text, size, "%s", path);
        return NULL;
    }
    /* As the library opens its own: where two MPIs are loaded, neither must find the other's functions. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(text, size, "%s", dlerror());
    return handle;
}
