/* SPDX-License-Identifier: Apache-2.0
 *
 * Meeting: what a send or receive meets its counterpart by, type and size apart.
 */
#ifndef HALAY_MEETING_H
#define HALAY_MEETING_H

#include "fusion/state/set.h"
#include <stdint.h>

struct halay_meeting {
    const struct halay_process_set *set; /* borrowed: outlives it */
    int peer;                            /* a rank of the job; HALAY_ANY_RANK until one has been met */
    int64_t tag;                         /* without a name */
    size_t name_length;                  /* how much of the entry's name is the name; 0: none */
};

#endif
