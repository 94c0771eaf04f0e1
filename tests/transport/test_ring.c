/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring between two ranks, with both ends in this process: a record that its sender changes after it has been looked
 * at, and room that is made between a sender's look and its word that it wants some.
 */
#include "collectives/transport/shm/shm_message.h"
#include "tests/test.h"
#include <string.h>

enum { RING = 4096, RECORD = 512, LARGE = 16384 };

/* The fifo is freed by the caller. */
static struct halay_shm_end end_create(void)
{
    struct halay_shm_fifo *fifo = aligned_alloc(_Alignof(struct halay_shm_fifo), sizeof *fifo + RING);

    REQUIRE(fifo);
    memset(fifo, 0, sizeof *fifo + RING);
    return (struct halay_shm_end){ .fifo = fifo, .data = (unsigned char *)(fifo + 1), .bytes = RING };
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
    struct halay_shm_end sender = end_create(), receiver = sender;
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
    free(sender.fifo);
}

/* ---- room ---- */

static uint64_t nothing_shared(struct halay_shared_memory *m, const void *ptr, size_t bytes)
{
    (void)m, (void)ptr, (void)bytes;
    return HALAY_PRIVATE;
}

struct pair {
    struct halay_link link;
    struct halay_shm_entry entry; /* of the peer */
    struct halay_bell_word word;  /* of its bell: it is awake */
    struct halay_bell_peer bell;
    struct halay_shm_context context;
    struct halay_shm_peer peer;
    struct halay_shm_end its_in, its_out; /* the peer's ends */
    struct halay_transfer transfer;
    unsigned char data[LARGE];
};

/* The peer takes all that there is, and does not ring: it looked at wants before that was stored. */
static void drain(struct pair *p)
{
    struct halay_shm_seen seen;

    while (halay_shm_peek(&p->its_in, &seen) == HALAY_OK && seen.kind)
        halay_shm_take(&p->its_in, &seen);
}

/* A large send, until the ring is full. */
static void fill(struct pair *p)
{
    static const struct halay_shared_memory_ops ops = { .locate = nothing_shared };
    static struct halay_shared_memory memory = { .ops = &ops };

    memset(p, 0, sizeof *p);
    p->link.memory = &memory;
    p->bell = (struct halay_bell_peer){ .word = &p->word, .event_fd = -1 };
    p->context = (struct halay_shm_context){ .link = &p->link, .record_max = RECORD };
    p->peer = (struct halay_shm_peer){
        .rank = 1, .entry = &p->entry, .bell = &p->bell, .in = end_create(), .out = end_create()
    };
    p->its_in = p->peer.out;
    p->its_out = p->peer.in;
    halay_transfer_post(&p->transfer, 1, 7, p->data, sizeof p->data);
    halay_shm_send(&p->context, &p->peer, &p->transfer);
    CHECK(!halay_shm_wants_room(&p->peer), "it waits for the receive");
    put(&p->its_out, HALAY_SHM_GO, 1, 0);
    CHECK(halay_shm_pump(&p->context, &p->peer) == HALAY_OK && halay_shm_wants_room(&p->peer));
    CHECK(!halay_shm_has_room_again(&p->peer), "there is none");
}

static void finish(struct pair *p)
{
    free(p->peer.in.fifo);
    free(p->peer.out.fifo);
    halay_shm_peer_fini(&p->peer);
    halay_shm_context_fini(&p->context);
}

static void check_room(struct pair *p)
{
    fill(p);
    drain(p);
    CHECK(halay_shm_has_room_again(&p->peer), "a sleep here would not be ended");
    CHECK(halay_shm_pump(&p->context, &p->peer) == HALAY_OK && !halay_shm_has_room_again(&p->peer), "full again");
    for (int i = 0; i < LARGE / RECORD; i++) {
        drain(p);
        CHECK(halay_shm_pump(&p->context, &p->peer) == HALAY_OK);
    }
    CHECK(halay_transfer_is_done(&p->transfer) && !halay_shm_wants_room(&p->peer));
    finish(p);
}

/* One that is taken back wants nothing, or its rank would never sleep again. */
static void check_taken_back(struct pair *p)
{
    fill(p);
    halay_shm_cancel(&p->context, &p->peer, &p->transfer);
    drain(p);
    CHECK(!halay_shm_wants_room(&p->peer) && !halay_shm_has_room_again(&p->peer));
    finish(p);
}

int main(void)
{
    static struct pair pair;

    check_changed_record();
    check_room(&pair);
    check_taken_back(&pair);
    return test_end();
}
