/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all with splits: each rank gives some of its rows to each rank.
 *
 *     rank 0: a a | b      splits 2, 1     gets 2, 1 rows: a a c
 *     rank 1: c | d d d    splits 1, 3     gets 1, 3 rows: b d d d
 *
 * What this rank gets from each was agreed with the name. Another rank may have nothing to exchange while others have,
 * and cannot know it: all take part unless a row is empty.
 */
#include "fusion/rank/op_alltoall.h"
#include "fusion/rank/result.h"
#include "fusion/state/entry.h"

enum halay_status halay_alltoall_run(struct halay_context *ctx, struct halay_bucket *b)
{
    struct halay_request *r = b->requests[0];
    size_t row = halay_signature_row(&r->signature), *in_counts = ctx->driven.execution.counts,
           *out_counts = ctx->driven.execution.counts + b->set->size;
    void *out;

    enum halay_status status = halay_result_heard(ctx, r, &out);
    if (status != HALAY_OK || !row)
        return status;
    for (int i = 0; i < b->set->size; i++) {
        in_counts[i] = (size_t)r->words.at[i] * row;
        out_counts[i] = r->rows[i] * row;
    }
    return halay_group_alltoallv_start(b->set->group, r->in, in_counts, out, out_counts,
                                       (enum halay_dtype)r->signature.dtype, &b->coll);
}
