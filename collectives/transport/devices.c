/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices; devices.h.
 */
#include "collectives/transport/devices.h"
#include "base/clock.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/module.h"
#include <stdlib.h>
#include <unistd.h>

void halay_devices_init(struct halay_devices *devices, size_t device_bytes)
{
    devices->device_bytes = device_bytes;
    pthread_mutex_init(&devices->lock, NULL);
}

void halay_devices_fini(struct halay_devices *devices)
{
    pthread_mutex_destroy(&devices->lock);
}

void halay_devices_close(struct halay_devices *devices)
{
    const struct halay_device_ops *ops = atomic_load_explicit(&devices->ops, memory_order_relaxed);

    for (struct halay_device_block *block = devices->blocks, *next; block; block = next) {
        next = block->next;
        ops->free(&devices->host, block->device, block->ptr);
        free(block);
    }
    for (struct halay_device *device = devices->first, *next; device; device = next) {
        next = device->next;
        ops->stream_destroy(&devices->host, device->number, device->in);
        ops->stream_destroy(&devices->host, device->number, device->out);
        ops->event_destroy(&devices->host, device->number, device->landed);
        free(device);
    }
    if (ops)
        ops->close(&devices->host);
    halay_module_close(devices->module);
    devices->blocks = NULL;
    devices->first = NULL;
    devices->module = NULL;
}

static enum halay_status load_locked(struct halay_devices *devices, struct halay_log *log,
                                     const struct halay_config *config)
{
    const struct halay_module_api *api = NULL;
    void *module;

    enum halay_status status = halay_module_open(log, HALAY_LOG_ERROR, config, "cuda", "", &module, &api);
    if (status != HALAY_OK)
        return status;
    devices->host = (struct halay_device_host){ .log = log, .log_write = halay_log_write };
    status = api->devices->open(&devices->host);
    if (status != HALAY_OK) {
        halay_module_close(module);
        return status;
    }
    devices->module = module;
    atomic_store_explicit(&devices->ops, api->devices, memory_order_release);
    return HALAY_OK;
}

enum halay_status halay_devices_open(struct halay_devices *devices, struct halay_log *log,
                                     const struct halay_config *config)
{
    enum halay_status status = HALAY_OK;

    if (halay_devices_table(devices))
        return HALAY_OK;
    pthread_mutex_lock(&devices->lock);
    if (!halay_devices_table(devices))
        status = load_locked(devices, log, config);
    pthread_mutex_unlock(&devices->lock);
    return status;
}

static enum halay_status device_create(struct halay_devices *devices, int number, struct halay_device **out)
{
    const struct halay_device_ops *ops = halay_devices_table(devices);
    const struct halay_device_host *host = &devices->host;
    struct halay_device *device = calloc(1, devices->device_bytes);

    if (!device)
        return HALAY_ERR_NO_MEMORY;
    device->number = number;
    enum halay_status status = ops->stream_create(host, number, &device->in);
    if (status != HALAY_OK)
        goto err_free;
    status = ops->stream_create(host, number, &device->out);
    if (status != HALAY_OK)
        goto err_destroy_in;
    status = ops->event_create(host, number, 1, &device->landed);
    if (status != HALAY_OK)
        goto err_destroy_out;
    *out = device;
    return HALAY_OK;

err_destroy_out:
    ops->stream_destroy(host, number, device->out);
err_destroy_in:
    ops->stream_destroy(host, number, device->in);
err_free:
    free(device);
    return status;
}

enum halay_status halay_devices_get(struct halay_devices *devices, int number, struct halay_device **out)
{
    enum halay_status status = HALAY_OK;

    pthread_mutex_lock(&devices->lock);
    struct halay_device *device = devices->first;
    while (device && device->number != number)
        device = device->next;
    if (!device) {
        status = device_create(devices, number, &device);
        if (status == HALAY_OK) {
            device->next = devices->first;
            devices->first = device;
        }
    }
    pthread_mutex_unlock(&devices->lock);
    if (status == HALAY_OK)
        *out = device;
    return status;
}

enum halay_status halay_devices_await(const struct halay_devices *devices, int number,
                                      const struct halay_device_point *point, int64_t deadline_us)
{
    const struct halay_device_ops *ops = halay_devices_table(devices);
    enum halay_status status;

    while ((status = ops->event_done(&devices->host, number, point)) == HALAY_IN_PROGRESS &&
           !halay_deadline_passed(deadline_us))
        usleep(HALAY_UNRUNG_MIN_US);
    return status;
}

enum halay_status halay_devices_alloc(struct halay_devices *devices, int number, size_t bytes, void **ptr)
{
    const struct halay_device_ops *ops = halay_devices_table(devices);
    struct halay_device_block *block = malloc(sizeof *block);

    if (!block)
        return HALAY_ERR_NO_MEMORY;
    if (number == -1)
        number = ops->current(&devices->host);
    enum halay_status status = ops->alloc(&devices->host, number, bytes ? bytes : 1, &block->ptr);
    if (status != HALAY_OK) {
        free(block);
        return status;
    }
    block->device = number;
    *ptr = block->ptr;
    pthread_mutex_lock(&devices->lock);
    block->next = devices->blocks;
    devices->blocks = block;
    pthread_mutex_unlock(&devices->lock);
    return HALAY_OK;
}

int halay_devices_free(struct halay_devices *devices, void *ptr)
{
    const struct halay_device_ops *ops = halay_devices_table(devices);

    if (!ops)
        return 0;
    pthread_mutex_lock(&devices->lock);
    struct halay_device_block **link = &devices->blocks, *block;
    while (*link && (*link)->ptr != ptr)
        link = &(*link)->next;
    block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&devices->lock);
    if (!block)
        return 0;
    ops->free(&devices->host, block->device, ptr);
    free(block);
    return 1;
}
