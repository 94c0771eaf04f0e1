/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining, a rank's side: while its program has no more data, its engine takes part with elements that change nothing.
 *
 *     sum, average, bit-or, adasum   0         min   the largest (infinity)       bit-and   all bits
 *     product                        1         max   the smallest (-infinity)
 *
 * Such a part is a request of nobody: it belongs to the engine alone and has memory of its own, which goes with it. It
 * is counted as in flight, so that nobody leaves while a peer needs it.
 */
#include "fusion/rank/join.h"
#include "base/half.h"
#include "base/memory.h"
#include "fusion/rank/requests.h"
#include "fusion/state/context.h"
#include "fusion/state/entry.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Set the element at out: one for products, the greatest (sign 1) or the least (-1), or all bits. */
#define NEUTRAL(type, one, greatest, least)                                                                  \
    do {                                                                                                     \
        type value = op == HALAY_PRODUCT ? (type)(one) : op == HALAY_MIN ? (type)(greatest) : (type)(least); \
        memcpy(out, &value, sizeof value);                                                                   \
    } while (0)

static void put_extreme(void *out, enum halay_dtype dtype, enum halay_op op)
{
    switch (dtype) {
    case HALAY_F32:
        NEUTRAL(float, 1, INFINITY, -INFINITY);
        break;
    case HALAY_F64:
        NEUTRAL(double, 1, INFINITY, -INFINITY);
        break;
    case HALAY_F16:
        NEUTRAL(uint16_t, 0x3c00, 0x7c00, 0xfc00);
        break;
    case HALAY_BF16:
        NEUTRAL(uint16_t, 0x3f80, 0x7f80, 0xff80);
        break;
    case HALAY_I32:
        NEUTRAL(int32_t, 1, INT32_MAX, INT32_MIN);
        break;
    case HALAY_I64:
        NEUTRAL(int64_t, 1, INT64_MAX, INT64_MIN);
        break;
    case HALAY_U8:
        NEUTRAL(uint8_t, 1, UINT8_MAX, 0);
        break;
    case HALAY_I8:
        NEUTRAL(int8_t, 1, INT8_MAX, INT8_MIN);
        break;
    case HALAY_U16:
        NEUTRAL(uint16_t, 1, UINT16_MAX, 0);
        break;
    case HALAY_I16:
        NEUTRAL(int16_t, 1, INT16_MAX, INT16_MIN);
        break;
    default:
        NEUTRAL(uint8_t, 1, 1, 0);
        break; /* bool */
    }
}

static void fill_neutral(void *out, size_t count, enum halay_dtype dtype, enum halay_op op)
{
    size_t element = halay_dtype_size(dtype);
    unsigned char one[8] = { 0 };

    if (op == HALAY_BIT_AND)
        memset(one, dtype == HALAY_BOOL ? 1 : 0xff, sizeof one);
    else if (op == HALAY_PRODUCT || op == HALAY_MIN || op == HALAY_MAX)
        put_extreme(one, dtype, op);
    for (size_t i = 0; i < count; i++)
        memcpy((char *)out + i * element, one, element);
}

/* Each tensor of a group behind the other, aligned. */
static enum halay_status fill_group(struct halay_request *r, const struct halay_words *words)
{
    size_t members = r->signature.members, bytes = 0;
    struct halay_part *parts = realloc(r->parts, members * sizeof *parts);

    if (!parts)
        return HALAY_ERR_NO_MEMORY;
    r->parts = parts;
    r->part_capacity = members;
    halay_members_read(words->at, members, parts);
    for (size_t i = 0; i < members; i++)
        bytes += halay_round_up(parts[i].count * halay_dtype_size(parts[i].dtype), 8);
    char *at = r->held = malloc(bytes ? bytes : 1);
    if (!at)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < members; i++) {
        parts[i].in = parts[i].out = at;
        fill_neutral(at, parts[i].count, parts[i].dtype, (enum halay_op)r->signature.op);
        at += halay_round_up(parts[i].count * halay_dtype_size(parts[i].dtype), 8);
    }
    return HALAY_OK;
}

static enum halay_status fill_one(struct halay_request *r)
{
    enum halay_dtype dtype = (enum halay_dtype)r->signature.dtype;

    r->count = r->signature.operation == HALAY_BARRIER ? 0 : halay_signature_count(&r->signature);
    r->bytes = r->count * halay_dtype_size(dtype);
    r->held = malloc(r->bytes ? r->bytes : 1);
    if (!r->held)
        return HALAY_ERR_NO_MEMORY;
    fill_neutral(r->held, r->count, dtype, (enum halay_op)r->signature.op);
    r->in = r->out = r->held;
    return HALAY_OK;
}

struct halay_request *halay_join_part(struct halay_context *ctx, const struct halay_entry *entry)
{
    pthread_mutex_lock(&ctx->lock);
    struct halay_request *r = ctx->queue.is_joined ? halay_request_get_locked(ctx) : NULL;
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
    r->signature.prescale = r->signature.postscale = 1; /* a factor would change what changes nothing */
    r->count = r->bytes = 0;
    enum halay_status status = r->signature.members ? fill_group(r, &entry->said) : fill_one(r);
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
