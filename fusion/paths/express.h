/* SPDX-License-Identifier: Apache-2.0
 *
 * Express: this rank's side; the whole is in fusion/protocol/enrolment.h. Driver only.
 */
#ifndef HALAY_FUSION_EXPRESS_H
#define HALAY_FUSION_EXPRESS_H

#include "fusion/state/context.h"

/* Nonzero if the request was put; it is what was agreed on. */
int halay_express_start(struct halay_context *ctx, struct halay_request *request);
/* End what is complete, forget what has ended otherwise. Comes before what has ended is delivered. Returns how many. */
size_t halay_express_progress(struct halay_context *ctx);

#endif
