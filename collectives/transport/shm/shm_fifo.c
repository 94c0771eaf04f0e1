/* SPDX-License-Identifier: Apache-2.0
 *
 * Fifo: put and take records. The picture is in the header.
 */
#include "collectives/transport/shm/shm_fifo.h"

static size_t record_bytes(size_t payload)
{
    return halay_round_up(sizeof(struct halay_shm_record) + payload, HALAY_CACHE_LINE);
}

static struct halay_shm_record *record_at(const struct halay_shm_end *end, uint64_t position)
{
    return (struct halay_shm_record *)(end->data + (position & (end->bytes - 1)));
}

static int has_room(struct halay_shm_end *end, size_t bytes)
{
    if (end->mine + bytes - end->theirs <= end->bytes)
        return 1;
    end->theirs = atomic_load_explicit(&end->fifo->tail, memory_order_acquire);
    return end->mine + bytes - end->theirs <= end->bytes;
}

static void publish(struct halay_shm_end *end, size_t bytes)
{
    end->mine += bytes;
    atomic_store_explicit(&end->fifo->head, end->mine, memory_order_release);
}

struct halay_shm_record *halay_shm_reserve(struct halay_shm_end *end, size_t payload)
{
    size_t bytes = record_bytes(payload), left = end->bytes - (end->mine & (end->bytes - 1));

    if (bytes > left) {
        if (!has_room(end, left))
            return NULL;
        struct halay_shm_record *pad = record_at(end, end->mine);
        *pad = (struct halay_shm_record){ .kind = HALAY_SHM_PAD, .bytes = (uint32_t)(left - sizeof *pad) };
        publish(end, left);
    }
    return has_room(end, bytes) ? record_at(end, end->mine) : NULL;
}

void halay_shm_put(struct halay_shm_end *end, const struct halay_shm_record *record)
{
    publish(end, record_bytes(record->bytes));
}

void halay_shm_take(struct halay_shm_end *end, const struct halay_shm_seen *record)
{
    end->mine += record_bytes(record->bytes);
    atomic_store_explicit(&end->fifo->tail, end->mine, memory_order_release);
}

/* Volatile: the compiler may not read any of it again. */
static struct halay_shm_seen read_header(const volatile struct halay_shm_record *r)
{
    return (struct halay_shm_seen){ .kind = r->kind,
                                    .tag = r->tag,
                                    .serial = r->serial,
                                    .bytes = r->bytes,
                                    .total = r->total,
                                    .at = r->at,
                                    .payload = (const unsigned char *)r->payload };
}

enum halay_status halay_shm_peek(struct halay_shm_end *end, struct halay_shm_seen *record)
{
    while (halay_shm_has_record(end)) {
        struct halay_shm_seen r = read_header(record_at(end, end->mine));
        size_t left = end->bytes - (end->mine & (end->bytes - 1));
        if (!r.kind || r.bytes > left || record_bytes(r.bytes) > left || end->theirs - end->mine > end->bytes)
            return HALAY_ERR_FORMAT;
        if (r.kind != HALAY_SHM_PAD) {
            *record = r;
            return HALAY_OK;
        }
        halay_shm_take(end, &r);
    }
    *record = (struct halay_shm_seen){ 0 };
    return HALAY_OK;
}
