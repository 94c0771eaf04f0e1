/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement: do all ranks mean the same by a name?
 */
#ifndef HALAY_AGREE_H
#define HALAY_AGREE_H

#include "fusion/coordinator/coordinator_state.h"

/* All ranks have come. *agreed: they agree; otherwise they are told, and the roll may be gone. */
enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct halay_roll *roll, int *agreed);

#endif
