/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining, a rank's side: while its program has no more data, its engine takes part with neutral elements.
 *
 *     sum, average, bit-or, adasum   0         min   the largest (infinity)       bit-and   all bits
 *     product                        1         max   the smallest (-infinity)
 *
 * A change of process sets that concerns other ranks has no data at all.
 *
 * Such a part is a request without a caller: it belongs to the engine alone, and its own memory is freed with it. It
 * counts as in flight, so that this rank does not leave while a peer needs it.
 */
#include "fusion/requests/join.h"
#include "base/half.h"
#include "base/memory.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/requests.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For each type: one, the greatest and the least value. */
enum neutral { NEUTRAL_ONE, NEUTRAL_GREATEST, NEUTRAL_LEAST };
static const float neutral_f32[] = { 1, INFINITY, -INFINITY };
static const double neutral_f64[] = { 1, INFINITY, -INFINITY };
static const uint16_t neutral_f16[] = { 0x3c00, 0x7c00, 0xfc00 };
static const uint16_t neutral_bf16[] = { 0x3f80, 0x7f80, 0xff80 };
static const int32_t neutral_i32[] = { 1, INT32_MAX, INT32_MIN };
static const int64_t neutral_i64[] = { 1, INT64_MAX, INT64_MIN };
static const uint8_t neutral_u8[] = { 1, UINT8_MAX, 0 };
static const int8_t neutral_i8[] = { 1, INT8_MAX, INT8_MIN };
static const uint16_t neutral_u16[] = { 1, UINT16_MAX, 0 };
static const int16_t neutral_i16[] = { 1, INT16_MAX, INT16_MIN };
static const uint8_t neutral_bool[] = { 1, 1, 0 };
static const void *const neutrals[HALAY_DTYPE_COUNT] = {
    [HALAY_F32] = neutral_f32, [HALAY_F64] = neutral_f64, [HALAY_F16] = neutral_f16,  [HALAY_BF16] = neutral_bf16,
    [HALAY_I32] = neutral_i32, [HALAY_I64] = neutral_i64, [HALAY_U8] = neutral_u8,    [HALAY_I8] = neutral_i8,
    [HALAY_U16] = neutral_u16, [HALAY_I16] = neutral_i16, [HALAY_BOOL] = neutral_bool
};

static enum neutral neutral_of(enum halay_reduction reduction)
{
    if (reduction == HALAY_PRODUCT)
        return NEUTRAL_ONE;
    return reduction == HALAY_MIN ? NEUTRAL_GREATEST : NEUTRAL_LEAST;
}

static void fill_neutral(void *out, size_t count, enum halay_dtype dtype, enum halay_reduction reduction)
{
    size_t element = halay_dtype_size(dtype);
    unsigned char one[8] = { 0 };

    if (reduction == HALAY_BIT_AND)
        memset(one, dtype == HALAY_BOOL ? 1 : 0xff, sizeof one);
    else if (reduction == HALAY_PRODUCT || reduction == HALAY_MIN || reduction == HALAY_MAX)
        memcpy(one, (const char *)neutrals[dtype] + neutral_of(reduction) * element, element);
    for (size_t i = 0; i < count; i++)
        memcpy((char *)out + i * element, one, element);
}

/* Fills the tensors of a group, consecutive and aligned. */
static enum halay_status fill_group(struct halay_request *r, const struct halay_payload *payload)
{
    size_t members = r->signature.members, bytes = 0;

    if (halay_list_reserve(&r->buffers, members, &r->buffer_capacity, sizeof *r->buffers) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    struct halay_buffers *buffers = r->buffers;
    halay_members_read(payload->at, members, buffers);
    for (size_t i = 0; i < members; i++)
        bytes += halay_round_up(buffers[i].count * halay_dtype_size(buffers[i].dtype), 8);
    char *at = r->held = malloc(bytes ? bytes : 1);
    if (!at)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < members; i++) {
        buffers[i].in = buffers[i].out = at;
        fill_neutral(at, buffers[i].count, buffers[i].dtype, (enum halay_reduction)r->signature.reduction);
        at += halay_round_up(buffers[i].count * halay_dtype_size(buffers[i].dtype), 8);
    }
    return HALAY_OK;
}

static enum halay_status fill_one(struct halay_request *r)
{
    enum halay_dtype dtype = (enum halay_dtype)r->signature.dtype;

    r->count = r->signature.collective == HALAY_BARRIER ? 0 : halay_signature_count(&r->signature);
    r->bytes = r->count * halay_dtype_size(dtype);
    r->held = malloc(r->bytes ? r->bytes : 1);
    if (!r->held)
        return HALAY_ERR_NO_MEMORY;
    fill_neutral(r->held, r->count, dtype, (enum halay_reduction)r->signature.reduction);
    r->in = r->out = r->held;
    return HALAY_OK;
}

struct halay_request *halay_join_part(struct halay_context *ctx, const struct halay_entry *entry)
{
    pthread_mutex_lock(&ctx->lock);
    int takes_part = ctx->queue.is_joined || entry->agreed.collective == HALAY_CHANGE_SETS;
    struct halay_request *r = takes_part ? halay_request_get_locked(ctx) : NULL;
    if (r)
        atomic_fetch_add_explicit(&ctx->queue.in_flight, 1, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (!r)
        return NULL;
    atomic_store_explicit(&r->references, 1, memory_order_relaxed);
    r->is_part = 1;
    r->set = entry->set;
    r->hash = entry->node.hash;
    r->signature = entry->agreed;
    r->signature.prescale = r->signature.postscale = 1; /* a factor would change the neutral element */
    r->count = r->bytes = 0;
    enum halay_status status = r->signature.collective == HALAY_CHANGE_SETS
                                   ? halay_payload_set(&r->payload, entry->sent.at, entry->sent.count)
                               : r->signature.members ? fill_group(r, &entry->sent)
                                                      : fill_one(r);
    if (status == HALAY_OK)
        return r;
    halay_join_part_end(r);
    return NULL;
}

void halay_join_part_end(struct halay_request *r)
{
    struct halay_context *ctx = r->ctx;

    pthread_mutex_lock(&ctx->lock);
    atomic_fetch_sub_explicit(&ctx->queue.in_flight, 1, memory_order_relaxed);
    r->is_part = 0;
    halay_request_put_locked(r);
    pthread_mutex_unlock(&ctx->lock);
}
