/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: on which hardware threads the engine's thread may run, and a line that says so.
 *
 * Where the host has several NUMA nodes, the thread stays on the node that holds this rank's segment
 * (halay_topology_numa_node): it writes buckets and adds sums there, and a thread that the scheduler carries to another
 * socket pays for each line. On one node it is left alone: the scheduler knows better which core is free.
 * HALAY_THREAD_AFFINITY turns that off, or names one hardware thread for each rank of the host.
 */
#ifndef HALAY_FUSION_PLACEMENT_H
#define HALAY_FUSION_PLACEMENT_H

#include "base/machine/topology.h"

struct halay_context;

/* Some of this host's hardware threads, by number. */
struct halay_placement {
    int *chosen; /* the caller's: room for as many as there are threads */
    size_t count;
};

/*
 * What the setting means for one rank of its host: chosen[0 .. count) are the numbers of the hardware threads to run
 * on, in the order of threads; count 0: wherever the process may. Pure.
 * Errors: HALAY_ERR_CONFIG, with why: no list of numbers, not one for each rank, or one that is none of threads.
 */
enum halay_status halay_placement_choose(const char *setting, const struct halay_thread *threads, size_t count,
                                         int local_rank, int local_size, struct halay_placement *place, char *why,
                                         size_t size);

/* Put the engine's thread there, and log at level info where all that this rank has lies. Called once, when the thread
 * has been started. Errors: HALAY_ERR_CONFIG; HALAY_ERR_NO_MEMORY; what the system refuses is a warning. */
enum halay_status halay_placement_apply(struct halay_context *ctx);

#endif
