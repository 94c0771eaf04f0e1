/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding: the cores that each rank gets, and its GPU.
 */
#ifndef HALAY_LAUNCHER_BINDING_H
#define HALAY_LAUNCHER_BINDING_H

#include "base/log.h"
#include "launcher/cli/options.h"

struct bound_thread {
    int number; /* of the hardware thread, in the operating system's count */
    int rank;
};

struct binding_map {
    int is_bound;
    const char *why_not;          /* static; if not bound */
    struct bound_thread *threads; /* owned: in order of rank */
    size_t count;
    int gpus; /* of this host, for the ranks to share; 0: leave CUDA_VISIBLE_DEVICES alone */
};

/* Makes the map for this number of ranks. Each gets contiguous cores, all the same number or one more, if there is a
 * core for each rank and the control group allows that much time; otherwise ranks are not bound, or with BIND_CORES it
 * is an error (reported). GPUs are shared if HALAY_GPUS is auto and CUDA_VISIBLE_DEVICES is not set. 0 or an exit code.
 */
int binding_plan(struct halay_log *log, enum binding wanted, int ranks, struct binding_map *map);
void binding_fini(struct binding_map *map);

/* "0-1,4"; "any" if not bound. */
void binding_text(const struct binding_map *map, int rank, char *text, size_t size);
/* Binds the calling process by the map, and puts its GPU into its environment; 0 if the system refuses (errno). */
int binding_apply(const struct binding_map *map, int rank);

#endif
