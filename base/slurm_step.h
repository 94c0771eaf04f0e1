/* SPDX-License-Identifier: Apache-2.0
 *
 * SLURM step: what srun's variables tell a task about its step, without PMI.
 */
#ifndef HALAY_BASE_SLURM_STEP_H
#define HALAY_BASE_SLURM_STEP_H

#include "halay_types.h"
#include <stddef.h>

enum { HALAY_NODE_NAME_MAX = 256 };

struct halay_slurm_step {
    int rank, size;
    char name[48];                  /* "17.0", the job's number and the step's */
    char host[HALAY_NODE_NAME_MAX]; /* the node of rank 0 */
};

/* Reads the step of this process. HALAY_ERR_UNSUPPORTED: why has the reason, a line of size bytes at most. */
enum halay_status halay_slurm_step_read(struct halay_slurm_step *step, char *why, size_t size);

/* Copies the first name of a list like "n[08-11,17],login1", "n08" here. Returns zero if the list has no such
 * name, or one longer than HALAY_NODE_NAME_MAX - 1. */
int halay_node_list_first(const char *list, char name[HALAY_NODE_NAME_MAX]);

#endif
