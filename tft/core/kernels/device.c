/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/kernels/device.h"
#include "base/config.h"
#include "base/module_file.h"
#include "tft/core/kernels/kernels.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *const tft_device_words[] = { [TFT_DEVICE_CPU] = "cpu", [TFT_DEVICE_CUDA] = "cuda", NULL };

static enum halay_status check(struct halay_log *log, const char *name, const struct tft_device_module *module)
{
    if (!module) {
        halay_error(log, "libhalay-%s.so is not a module of halay-tft", name);
        return HALAY_ERR_VERSION;
    }
    if (!strcmp(module->version, HALAY_VERSION) && module->kernels_size == sizeof(struct kernels))
        return HALAY_OK;
    halay_error(log, "module '%s' belongs to halay %s, this is another build, %s", halay_module_file_path(module),
                module->version, HALAY_VERSION);
    return HALAY_ERR_VERSION;
}

enum halay_status tft_device_open(struct halay_log *log, enum tft_device_kind kind, int local_rank,
                                  struct tft_device *device)
{
    char name[32], why[400] = "";
    void *handle;

    *device = (struct tft_device){ 0 };
    if (kind == TFT_DEVICE_CPU)
        return HALAY_OK;
    snprintf(name, sizeof name, "tft-%s", tft_device_words[kind]);
    enum halay_status status =
        halay_module_file_open(log, HALAY_LOG_ERROR, halay_environment_get("HALAY_MODULE_PATH"), name, "", &handle);
    if (status)
        return status;
    const struct tft_device_module *module = dlsym(handle, "halay_tft_device");
    status = check(log, name, module);
    if (!status) {
        status = module->open(local_rank, device, why, sizeof why);
        if (status)
            halay_error(log, "device '%s': %s", tft_device_words[kind], why);
    }
    dlclose(handle); /* it stays */
    return status;
}
