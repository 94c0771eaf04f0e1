/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring between two ranks, with both ends in this process: a record that its sender changes after it has been looked at.
 */
#include "collectives/transport/shm_message.h"
#include "tests/test.h"
#include <string.h>

enum { RING = 4096, FRAGMENT = 512, LARGE = 16384 };

static struct halay_shm_fifo *fifo_create(void)
{
    struct halay_shm_fifo *fifo = aligned_alloc(HALAY_CACHE_LINE, sizeof *fifo + RING);

    REQUIRE(fifo);
    memset(fifo, 0, sizeof *fifo + RING);
    return fifo;
}

static struct halay_shm_record *put(struct halay_shm_end *end, enum halay_shm_kind kind, uint32_t serial,
                                    size_t payload)
{
    struct halay_shm_record *r = halay_shm_reserve(end, payload);

    REQUIRE(r);
    *r = (struct halay_shm_record){ .kind = kind, .serial = serial, .bytes = (uint32_t)payload, .total = payload };
    halay_shm_put(end, r);
    return r;
}

/* What was checked is what is used. */
static void check_changed_record(void)
{
    struct halay_shm_fifo *fifo = fifo_create();
    struct halay_shm_end sender = { .fifo = fifo, .bytes = RING }, receiver = sender;
    struct halay_shm_seen seen;

    struct halay_shm_record *first = put(&sender, HALAY_SHM_FIRST, 1, 10);
    put(&sender, HALAY_SHM_FIRST, 2, 20);
    CHECK(halay_shm_peek(&receiver, &seen) == HALAY_OK && seen.serial == 1 && seen.bytes == 10);
    first->bytes = RING; /* too late */
    first->kind = HALAY_SHM_PAD;
    CHECK(seen.kind == HALAY_SHM_FIRST && seen.bytes == 10);
    halay_shm_take(&receiver, &seen);
    CHECK(halay_shm_peek(&receiver, &seen) == HALAY_OK && seen.serial == 2 && seen.bytes == 20, "%u", seen.serial);
    halay_shm_take(&receiver, &seen);
    CHECK(halay_shm_peek(&receiver, &seen) == HALAY_OK && !seen.kind, "no more");
    put(&sender, HALAY_SHM_FIRST, 3, 10)->bytes = RING;
    CHECK(halay_shm_peek(&receiver, &seen) == HALAY_ERR_FORMAT, "in time");
    free(fifo);
}

int main(void)
{
    check_changed_record();
    return test_end();
}
