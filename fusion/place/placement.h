/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: the hardware threads on which the engine's thread may run, and a line in the log that names them.
 *
 * With several NUMA nodes, the thread stays on the node that holds this rank's segment (halay_topology_numa_node): it
 * writes buckets and adds sums there, and a thread that the scheduler moves to another socket pays for each cache line.
 * With one node it is not bound: the scheduler knows better which core is free. HALAY_THREAD_AFFINITY turns this off,
 * or names one hardware thread for each rank of the host.
 */
#ifndef HALAY_FUSION_PLACEMENT_H
#define HALAY_FUSION_PLACEMENT_H

#include "base/machine/topology.h"
#include <pthread.h>

struct halay_world;

/* A subset of this host's hardware threads, by number. */
struct halay_placement {
    int *chosen; /* the caller's: room for all threads */
    size_t count;
};

/* Chooses the hardware threads of one rank of its host by the setting: chosen[0 .. count) are their numbers, in the
 * order of threads; count 0: no binding. Pure. Errors: HALAY_ERR_CONFIG, with why: not a list of numbers, not one for
 * each rank, or a number outside threads. */
enum halay_status halay_placement_choose(const char *setting, const struct halay_thread *threads, size_t count,
                                         int local_rank, int local_size, struct halay_placement *place, char *why,
                                         size_t size);

/* Binds the engine's thread, and logs at level info where the parts of this rank are. Called once, when the thread has
 * been started. Errors: HALAY_ERR_CONFIG; HALAY_ERR_NO_MEMORY; a refusal of the system is a warning. */
enum halay_status halay_placement_apply(const struct halay_world *world, pthread_t thread);

#endif
