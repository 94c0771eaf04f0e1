/* SPDX-License-Identifier: Apache-2.0
 *
 * SLURM step: rank 0 is on the first node of SLURM_STEP_NODELIST, which is sorted, unless the tasks are distributed in
 * an order of the user's.
 */
#include "base/slurm_step.h"
#include "base/config.h"
#include "base/parse.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

int halay_node_list_first(const char *list, char name[HALAY_NODE_NAME_MAX])
{
    size_t length = 0;

    while (*list && *list != ',') {
        const int is_range = *list == '[';
        list += is_range;
        size_t count = is_range ? strcspn(list, "-,]") : strcspn(list, "[,");
        if (length + count >= HALAY_NODE_NAME_MAX)
            return 0;
        memcpy(name + length, list, count); /* of a range its first number, which is written in full */
        length += count;
        list += is_range ? strcspn(list, "]") : count;
        if (is_range && *list++ != ']')
            return 0;
    }
    name[length] = 0;
    return length > 0;
}

/* Returns zero if the variable is not such a number: why is set. */
static int read_number(const char *name, long min, long max, long *value, char *why, size_t size)
{
    const char *text = halay_environment_get(name);

    if (text && halay_parse_long(text, min, max, value) == HALAY_OK)
        return 1;
    snprintf(why, size, "%s is %.40s; expected a number from %ld on", name, text ? text : "not set", min);
    return 0;
}

/* Returns nonzero if rank 0 is on the first node. */
static int check_order(const struct halay_slurm_step *step, char *why, size_t size)
{
    const char *order = halay_environment_get("SLURM_DISTRIBUTION"), *here = halay_environment_get("SLURMD_NODENAME");

    if (!(order && !strncmp(order, "arbitrary", strlen("arbitrary"))) &&
        !(step->rank == 0 && here && strcmp(here, step->host) != 0))
        return 1;
    snprintf(why, size,
             "rank 0 need not be on the step's first node, '%s', where the others would look for it (srun "
             "--distribution=arbitrary)",
             step->host);
    return 0;
}

enum halay_status halay_slurm_step_read(struct halay_slurm_step *step, char *why, size_t size)
{
    const char *nodes = halay_environment_get("SLURM_STEP_NODELIST");
    long rank, count, job, number;

    if (!read_number("SLURM_STEP_NUM_TASKS", 1, INT_MAX, &count, why, size) ||
        !read_number("SLURM_PROCID", 0, count - 1, &rank, why, size) ||
        !read_number("SLURM_JOB_ID", 0, UINT_MAX, &job, why, size) ||
        !read_number("SLURM_STEP_ID", 0, UINT_MAX, &number, why, size))
        return HALAY_ERR_UNSUPPORTED;
    *step = (struct halay_slurm_step){ .rank = (int)rank, .size = (int)count };
    snprintf(step->name, sizeof step->name, "%ld.%ld", job, number);
    if (!nodes || !halay_node_list_first(nodes, step->host)) {
        snprintf(why, size, "SLURM_STEP_NODELIST is %.80s; expected the names of the step's nodes",
                 nodes ? nodes : "not set");
        return HALAY_ERR_UNSUPPORTED;
    }
    return check_order(step, why, size) ? HALAY_OK : HALAY_ERR_UNSUPPORTED;
}
