/* SPDX-License-Identifier: Apache-2.0
 *
 * Execution: a context's buckets that have been dispatched and not delivered, and its process sets in the making.
 * Driver only.
 */
#ifndef HALAY_EXECUTION_H
#define HALAY_EXECUTION_H

#include <stddef.h>

struct halay_bucket;
struct halay_group_making;
struct halay_request;

struct halay_execution {
    struct halay_bucket *made_buckets;         /* owned list of all buckets */
    struct halay_bucket *free_buckets;         /* list of the unused ones */
    size_t running_count;                      /* running buckets of all sets */
    size_t waiting_count;                      /* queued buckets of all sets */
    size_t *counts;                            /* owned: [2 size], scratch: elements to and from each rank */
    struct halay_request *ended, **ended_last; /* ended, to be delivered */
    int sets_made;                             /* process sets so far; the same on all ranks */
    int is_changing; /* process sets are about to be made or removed: no new bucket is dispatched until then */
    struct halay_group_making *making; /* owned: the group of set number `making_number`; NULL: none is being made */
    int making_number;
};

#endif
