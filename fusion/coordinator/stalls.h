/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: reports of tensors that have waited too long.
 */
#ifndef HALAY_STALLS_H
#define HALAY_STALLS_H

#include "fusion/coordinator/coordinator_state.h"

/*
 * Reports tensors that some ranks have submitted and others have not for report_us (0: never), at most once each
 * report_us, in a few lines: tensors, ranks that have submitted, missing ranks and what they do instead, for which they
 * are asked first. After limit_us (0: never) sends FAIL with HALAY_ERR_PEER to all. own: what this rank does, a DOING.
 * Call it from time to time while a tensor is waiting. Errors: HALAY_ERR_NO_MEMORY, and those of emit.
 */
enum halay_status halay_coordinator_look_for_stalls(struct halay_coordinator *c, int64_t now_us, int64_t report_us,
                                                    int64_t limit_us, const struct halay_item *own);

/* Takes a rank's answer about what its program is doing. */
void halay_stalls_answer(struct halay_coordinator *c, int rank, const struct halay_item *item);

#endif
