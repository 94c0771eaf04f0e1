/* SPDX-License-Identifier: Apache-2.0
 *
 * Compute devices. The processor is always available; the kernels of another device are in a module,
 * libhalay-tft-NAME.so, which is loaded on request. Only `device` of struct tft_model_config chooses; all other code
 * asks the model.
 */
#ifndef HALAY_TFT_DEVICE_H
#define HALAY_TFT_DEVICE_H

#include "base/log.h"
#include <stddef.h>

struct kernels;

/* Zero: the processor. */
struct tft_device {
    const struct kernels *kernels; /* borrowed: it lives as long as the process; NULL: the processor's */
    int number;                    /* of several of its kind, for `use` */
};

enum tft_device_kind { TFT_DEVICE_CPU, TFT_DEVICE_CUDA };

/* The words of `device`, in this order, and NULL. */
extern const char *const tft_device_words[];

/* Opens the device of a rank with this number on its host; ranks are spread over several devices in order. The calling
 * thread uses it from now on. HALAY_ERR_UNSUPPORTED (logged: what would be right): no module, or none of its devices
 * can be used; HALAY_ERR_VERSION: the module is another release's. */
enum halay_status tft_device_open(struct halay_log *log, enum tft_device_kind kind, int local_rank,
                                  struct tft_device *device);

/* ---- what a module offers ---------------------------------------------------------------------------------------- */

struct tft_device_module {
    const char *version; /* HALAY_VERSION */
    size_t kernels_size; /* sizeof(struct kernels) */
    /* As tft_device_open. On an error it writes to `why` (`size` bytes) what is wrong and what would be right. */
    enum halay_status (*open)(int local_rank, struct tft_device *device, char *why, size_t size);
};

/* The symbol that a module exports, and nothing else. */
extern __attribute__((visibility("default"))) const struct tft_device_module halay_tft_device;

#endif
