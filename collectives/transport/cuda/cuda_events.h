/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of CUDA devices: the part of device_ops.h.
 */
#ifndef HALAY_CUDA_EVENTS_H
#define HALAY_CUDA_EVENTS_H

#include "collectives/transport/device_ops.h"

enum halay_status halay_cuda_event_create(const struct halay_device_host *host, int device, int is_one_streams,
                                          void **event);
void halay_cuda_event_destroy(const struct halay_device_host *host, int device, void *event);
enum halay_status halay_cuda_event_record(const struct halay_device_host *host, int device, void *stream,
                                          struct halay_device_point *point);
enum halay_status halay_cuda_event_done(const struct halay_device_host *host, int device,
                                        const struct halay_device_point *point);
enum halay_status halay_cuda_word_get(const struct halay_device_host *host, int device, void **word);
enum halay_status halay_cuda_event_wait(const struct halay_device_host *host, int device, void *stream, void *event);

#endif
