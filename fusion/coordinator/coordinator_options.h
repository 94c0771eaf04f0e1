/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator: the options of its creation.
 */
#ifndef HALAY_COORDINATOR_OPTIONS_H
#define HALAY_COORDINATOR_OPTIONS_H

#include "base/config.h"
#include "base/log.h"
#include "fusion/protocol/messages.h"

struct halay_coordinator;

struct halay_coordinator_options {
    int size;
    struct halay_coordinator *parent; /* NULL: the coordinator of all ranks. Otherwise borrowed until destroy, and: */
    int number;                       /* of the process set */
    const int *ranks;                 /* the job's numbers of its ranks, ascending; borrowed until destroy */
    size_t threshold;                 /* bytes of a bucket */
    enum halay_deterministic deterministic;
    enum halay_join_average join_average;
    int replay;            /* make plans (replay_root.c) */
    size_t ids_max;        /* how many names keep an id; the least recently used lose theirs */
    struct halay_log *log; /* borrowed until destroy */
    /* Emits an item for one rank, or for all (-1), including the coordinator's own. Must not call the coordinator. */
    enum halay_status (*emit)(void *arg, int rank, const struct halay_item *item);
    void *arg; /* borrowed until destroy */
};

#endif
