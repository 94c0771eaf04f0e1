/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of the library: whether what was found (base/module_file.h) is ours.
 */
#include "collectives/transport/module.h"
#include "base/module_file.h"
#include <dlfcn.h>
#include <string.h>

static enum halay_status check_api(struct halay_log *log, const char *name, const struct halay_module_api *api)
{
    if (!api)
        return halay_fail(log, HALAY_ERR_VERSION, "libhalay-%s.so is not a module of halay", name);
    if (api->abi == HALAY_MODULE_ABI && !strcmp(api->version, HALAY_VERSION))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_VERSION,
                      "module '%s' belongs to halay %s (interface %u), this is %s (interface %u)",
                      halay_module_file_path(api), api->abi == HALAY_MODULE_ABI ? api->version : "of another release",
                      api->abi, HALAY_VERSION, (unsigned)HALAY_MODULE_ABI);
}

enum halay_status halay_module_open(struct halay_log *log, enum halay_log_level level,
                                    const struct halay_config *config, const char *name, const char *variant,
                                    void **handle, const struct halay_module_api **api)
{
    void *object;
    enum halay_status status = halay_module_file_open(log, level, config->module_path, name, variant, &object);

    if (status)
        return status;
    const struct halay_module_api *found = dlsym(object, "halay_module");
    status = check_api(log, name, found);
    if (status) {
        dlclose(object);
        return status;
    }
    *handle = object;
    *api = found;
    return HALAY_OK;
}

void halay_module_close(void *handle)
{
    if (handle)
        dlclose(handle);
}
