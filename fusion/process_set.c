/* SPDX-License-Identifier: Apache-2.0
 *
 * Process sets: some ranks of the job, or all of them, with what they have to themselves.
 */
#include "fusion/engine.h"
#include <stdlib.h>

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank)
{
    *set = (struct halay_process_set){ .ctx = ctx, .size = size, .rank = rank };
    set->waiting_last = &set->waiting;
}

void halay_process_set_fini(struct halay_process_set *set)
{
    halay_group_destroy(set->group);
    halay_coordinator_destroy(set->coordinator);
    halay_names_free_all(set);
    free(set->by_id);
    set->group = NULL;
    set->coordinator = NULL;
    set->by_id = NULL;
    set->id_capacity = 0;
}

/* ---- all of them; driver only ---- */

void halay_process_sets_fail(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        halay_group_fail(set->group, ctx->status);
}

void halay_process_sets_check(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        halay_group_check(set->group);
}

enum halay_status halay_process_sets_status(const struct halay_context *ctx)
{
    enum halay_status status = HALAY_OK;

    for (const struct halay_process_set *set = &ctx->all; set && status == HALAY_OK; set = set->next)
        status = halay_group_status(set->group, NULL);
    return status;
}
