/* SPDX-License-Identifier: Apache-2.0
 *
 * Submission of descriptions that have been read.
 */
#ifndef HALAY_SUBMIT_H
#define HALAY_SUBMIT_H

#include "fusion/engine/driver.h"
#include "halay.h"

/* Submits like halay_submit_named a description that has been read; attendance determines whether a wait
 * follows. */
enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, enum halay_attendance attendance,
                                    struct halay_request **request);

#endif
