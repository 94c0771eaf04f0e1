/* SPDX-License-Identifier: Apache-2.0
 *
 * Submission of what has been read already.
 */
#ifndef HALAY_SUBMIT_H
#define HALAY_SUBMIT_H

#include "halay.h"

/* Submit with a choice: wake the driver, or leave it to a wait that follows at once. */
enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, int wakes, struct halay_request **request);

#endif
