/* SPDX-License-Identifier: Apache-2.0
 *
 * Results of operations on rows, and the public queries of them.
 *
 * The ranks agree with a rank whose out is too small as with any other, and it takes part: its result goes into memory
 * of the request, and only its own request ends with an error.
 */
#include "fusion/run/result.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "fusion/protocol/set_change.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/run/deliver.h"
#include "fusion/run/sets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t halay_result_row_bytes(const struct halay_request *r)
{
    return halay_signature_row(&r->signature) * halay_dtype_size((enum halay_dtype)r->signature.dtype);
}

void halay_result_forget(struct halay_request *r)
{
    free(r->held);
    r->held = NULL;
    r->has_rows = 0;
    r->result_rows = r->result_bytes = 0;
}

static int is_direct(const struct halay_request *r)
{
    return r->cargo && r->cargo->is_direct;
}

enum halay_status halay_result_place(struct halay_request *r, size_t rows, void **where)
{
    size_t bytes = rows * halay_result_row_bytes(r);

    r->result_rows = rows;
    r->result_bytes = bytes;
    *where = r->out;
    if (r->out ? bytes <= r->out_bytes : !bytes)
        return HALAY_OK;
    *where = NULL;
    if (is_direct(r)) /* and lost */
        return HALAY_OK;
    r->held = malloc(bytes);
    *where = r->held;
    return r->held ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

int halay_result_is_missing(const struct halay_request *r)
{
    return r->result_bytes > (r->out ? r->out_bytes : 0) && !r->held;
}

enum halay_status halay_result_place_answered(struct halay_context *ctx, struct halay_request *r, void **where)
{
    const struct halay_payload *answer = &r->entry->answer;
    size_t rows = 0;

    if (halay_list_reserve(&r->rows, (size_t)ctx->size, &r->row_capacity, sizeof *r->rows) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < answer->count; i++) {
        r->rows[i] = (size_t)answer->at[i];
        rows += r->rows[i];
    }
    r->has_rows = 1;
    if (r->signature.collective == HALAY_GATHER && r->signature.root != ctx->rank)
        rows = 0; /* the rows are the root's */
    return halay_result_place(r, rows, where);
}

void halay_result_end(struct halay_request *r)
{
    char text[HALAY_NAME_MAX + 100];

    if (is_direct(r) ? !halay_result_is_missing(r) : !r->held || !r->out) {
        halay_request_end(r, HALAY_OK, NULL);
        return;
    }
    snprintf(text, sizeof text, "tensor '%.*s': out has room for %zu bytes, the result has %zu",
             (int)r->entry->node.length, r->entry->node.name, r->out_bytes, r->result_bytes);
    halay_info(r->ctx->log, "%s", text); /* no error yet: the program may take the data from the request */
    halay_request_end(r, HALAY_ERR_ARGUMENT, text);
}

/* Returns the process set that was made, NULL if none was, or if it has been removed. */
static struct halay_process_set *set_made(struct halay_request *r)
{
    if (r->signature.collective != HALAY_CHANGE_SETS || r->payload.at[0] != HALAY_SET_FORM)
        return NULL;
    pthread_mutex_lock(&r->ctx->lock);
    struct halay_process_set *set = halay_process_set_by_number(r->ctx, r->set_number);
    pthread_mutex_unlock(&r->ctx->lock);
    return set;
}

enum halay_status halay_request_result(const struct halay_request *request, struct halay_result *result)
{
    struct halay_request *r = (struct halay_request *)request; /* atomic loads take no const */

    if (!request || !result || !halay_struct_has_size(result))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_request_result: no request, or no struct with its size");
    enum halay_status status = halay_request_status(r);
    if (status != HALAY_OK && status != HALAY_IN_PROGRESS)
        halay_refuses(status, "%s", r->text ? r->text : halay_status_string(status));
    if (status == HALAY_IN_PROGRESS || (status != HALAY_OK && !r->held))
        return status;
    const struct halay_signature *s = &r->signature;
    void *out = r->cargo ? r->cargo->program_out : r->out;
    int has_own_size = r->has_rows || s->collective == HALAY_REDUCE_SCATTER;
    size_t all_bytes = s->collective == HALAY_REDUCE && !out ? 0 : r->bytes; /* the root has the result */
    struct halay_result all = { .data = r->held ? r->held : out,
                                .bytes = has_own_size ? r->result_bytes : all_bytes,
                                .dimensions = s->dimensions,
                                .rows = r->has_rows ? r->rows : NULL,
                                .last_joined = s->collective == HALAY_JOIN ? r->other_rank : -1,
                                .set = set_made(r),
                                .peer = s->collective == HALAY_RECEIVE ? r->other_rank : -1 };
    for (int d = 0; d < s->dimensions; d++)
        all.shape[d] = (size_t)s->shape[d];
    if (has_own_size)
        all.shape[0] = r->result_rows;
    halay_struct_write(&all, sizeof all, result);
    return status;
}
