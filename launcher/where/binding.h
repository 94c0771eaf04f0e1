/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding: which cores each rank gets, and which GPU.
 */
#ifndef HALAY_LAUNCHER_BINDING_H
#define HALAY_LAUNCHER_BINDING_H

#include "base/log.h"
#include "launcher/cli/options.h"

struct bound_thread {
    int number; /* of the hardware thread, as the operating system counts */
    int rank;
};

struct binding_map {
    int is_bound;
    const char *why_not;          /* static; if not bound */
    struct bound_thread *threads; /* owned: in order of rank */
    size_t count;
    int gpus; /* of this host, for the ranks to share out; 0: CUDA_VISIBLE_DEVICES stays as it is */
};

/* GPUs are shared out if HALAY_GPUS is auto and nobody has set CUDA_VISIBLE_DEVICES.
 * The map for so many ranks: contiguous cores for each, all ranks the same number or one more, if there are cores for
 * all and the control group allows as much time; else no binding, or with BIND_CORES an error (said). 0 or an exit
 * code. */
int binding_plan(struct halay_log *log, enum binding wanted, int ranks, struct binding_map *map);
void binding_fini(struct binding_map *map);

/* "0-1,4"; "any" if not bound. */
void binding_text(const struct binding_map *map, int rank, char *text, size_t size);
/* Bind the calling process as the map says, and name its GPU in its environment; 0 if the system refuses (errno). */
int binding_apply(const struct binding_map *map, int rank);

#endif
