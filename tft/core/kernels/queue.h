/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of a device, and the messages of their failures: a device writes no log of its own.
 */
#ifndef HALAY_TFT_QUEUE_H
#define HALAY_TFT_QUEUE_H

#include "base/log.h"
#include "tft/core/kernels/kernels.h"

/* HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM (the device's own error). */
enum halay_status tft_queue_open(struct halay_log *log, const struct kernels *kernels, const struct queue_needs *needs,
                                 struct queue **queue);

/* Returns HALAY_ERR_NO_MEMORY and logs that `what` needs this number of bytes, with what the device has. */
enum halay_status tft_queue_no_memory(struct halay_log *log, const struct kernels *kernels, const char *what,
                                      size_t bytes);

/* HALAY_ERR_SYSTEM if a call of the device's has failed since the queue was opened; what was computed means nothing.
 * Logs the queue's warning, once. */
enum halay_status tft_queue_check(struct halay_log *log, struct queue *queue);

#endif
