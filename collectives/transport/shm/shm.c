/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared-memory transport: the tables of a link and of shared memory over segments (shm_segment.h), messages
 * (shm_message.c) and the bell (bell.h). This file has lost peers, memory for users, start and end.
 *
 * A progress without a message costs one load for each peer. Every 64th one, and the first after a sleep, checks which
 * peers have left, and calls the watch over processes (which has a slower rhythm of its own).
 *
 * Dead or left peers never raise a signal here: segments are sealed against shrinking and stay as long as they are
 * mapped.
 *
 * Cleanup: zero-initialised, shm_destroy accepts a half-built state.
 */
#include "collectives/transport/shm/shm.h"
#include "collectives/transport/shm/shm_exchange.h"
#include "collectives/transport/shm/shm_memory.h"
#include "collectives/transport/shm/shm_message.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK_EVERY = 64 };

struct shm_transport {
    struct halay_link base;
    struct halay_shared_memory shared;
    struct halay_peers *peers; /* borrowed */
    struct halay_shm_map map;
    struct halay_shm_context context;
    struct halay_shm_peer *peer;          /* owned: [size - 1], without this rank, in order of rank */
    struct halay_bell *bell;              /* borrowed */
    struct halay_bell_peer *bells;        /* owned: [size] */
    struct halay_shm_memory own, *memory; /* borrowed: this rank's segment; own, or what outlives the transport */
    enum halay_status status;             /* the first error but for lost peers; used by the driver only */
    unsigned unchecked;                   /* progress calls since the last check of the peers; driver only */
};

static struct shm_transport *shm_of(struct halay_link *link)
{
    return (struct shm_transport *)link;
}

static struct shm_transport *sharer_of(struct halay_shared_memory *m)
{
    return (struct shm_transport *)((char *)m - offsetof(struct shm_transport, shared));
}

static struct halay_shm_peer *peer_of(struct shm_transport *self, int rank)
{
    return &self->peer[rank < self->base.rank ? rank : rank - 1];
}

static struct halay_shm_entry *entry_of(struct shm_transport *self, int rank)
{
    return &self->map.board[rank];
}

/* Converts a rank to the number that the watch over processes has, and back. */
static int world_rank(const struct shm_transport *self, int rank)
{
    return self->map.ranks[rank];
}

static int rank_here(const struct shm_transport *self, int world)
{
    int r = self->base.size - 1;

    while (r >= 0 && self->map.ranks[r] != world)
        r--;
    return r;
}

/* ---- messages ---- */

static void shm_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                     struct halay_transfer *x)
{
    struct shm_transport *self = shm_of(link);
    struct halay_shm_peer *p = peer_of(self, peer);

    halay_transfer_post(x, peer, tag, (void *)buf, bytes);
    if (atomic_load_explicit(&p->entry->has_left, memory_order_relaxed)) {
        halay_shm_send_never(p, x);
        self->unchecked = CHECK_EVERY;
        return;
    }
    halay_shm_send(&self->context, p, x);
}

static void shm_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes, struct halay_transfer *x)
{
    struct shm_transport *self = shm_of(link);

    halay_transfer_post(x, peer, tag, buf, bytes);
    enum halay_status status = halay_shm_recv(&self->context, peer_of(self, peer), x);
    if (self->status == HALAY_OK)
        self->status = status; /* returned by the next progress */
}

static void set_lost(struct shm_transport *self, int rank)
{
    self->base.lost[rank] = 1;
    if (self->base.failed_peer < 0)
        self->base.failed_peer = rank;
}

static enum halay_status status_of(const struct shm_transport *self)
{
    if (self->status != HALAY_OK)
        return self->status;
    return self->base.failed_peer >= 0 ? HALAY_ERR_PEER : HALAY_OK;
}

/* Returns the failed rank: of a peer that has left because of another the other, whichever rank saw it first. */
static int find_failed_rank(struct shm_transport *self, const struct halay_shm_peer *p, uint32_t left)
{
    uint32_t lost = left - HALAY_SHM_LEFT_FOR;
    const int leaver = world_rank(self, p->rank);

    if (left < HALAY_SHM_LEFT_FOR || lost >= (uint32_t)self->base.size || (int)lost == self->base.rank) {
        halay_error_at(self->base.log, &HALAY_ERROR_OF_RANK(leaver), "rank %d has left", leaver);
        return p->rank;
    }
    const int dead = world_rank(self, (int)lost);
    halay_error_at(self->base.log, &HALAY_ERROR_OF_RANK(dead),
                   "rank %d is dead or has left, according to rank %d, which has left because of it", dead, leaver);
    return (int)lost;
}

/* Notes ranks that have died, or have left while a transfer waits for them. */
static void check_peers(struct shm_transport *self)
{
    int dead;

    self->unchecked = 0;
    for (int i = 0; i < self->base.size - 1; i++) {
        struct halay_shm_peer *p = &self->peer[i];
        uint32_t left = atomic_load_explicit(&p->entry->has_left, memory_order_acquire);
        if (!left || self->base.lost[p->rank] || !halay_shm_is_stuck(p))
            continue;
        set_lost(self, find_failed_rank(self, p, left));
        set_lost(self, p->rank);
    }
    if (halay_peers_check(self->peers, &dead) == HALAY_OK)
        return;
    if (self->base.failed_peer < 0 && (dead = rank_here(self, dead)) >= 0)
        set_lost(self, dead); /* the first of several */
    for (int r = 0; r < self->base.size; r++)
        if (halay_peers_is_dead(self->peers, world_rank(self, r)))
            set_lost(self, r);
}

static enum halay_status shm_progress(struct halay_link *link)
{
    struct shm_transport *self = shm_of(link);

    if (self->status != HALAY_OK)
        return self->status;
    for (int i = 0; i < link->size - 1; i++) {
        if (link->lost[self->peer[i].rank])
            continue;
        self->status = halay_shm_pump(&self->context, &self->peer[i]);
        if (self->status == HALAY_OK)
            continue;
        if (self->status == HALAY_ERR_FORMAT)
            link->failed_peer = self->peer[i].rank;
        return self->status;
    }
    if (++self->unchecked >= CHECK_EVERY)
        check_peers(self);
    return status_of(self);
}

static void shm_cancel(struct halay_link *link, struct halay_transfer *x)
{
    struct shm_transport *self = shm_of(link);

    if (atomic_load_explicit(&x->state, memory_order_relaxed) == HALAY_TRANSFER_POSTED)
        halay_shm_cancel(&self->context, peer_of(self, x->peer), x);
    atomic_store_explicit(&x->state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
}

static void shm_forget(struct halay_link *link, struct halay_group_range groups)
{
    struct shm_transport *self = shm_of(link);

    halay_forgotten_add(&link->forgotten, groups);
    for (int r = 0; r < link->size; r++)
        if (r != link->rank)
            halay_shm_forget(&self->context, peer_of(self, r), groups);
}

/* ---- memory ---- */

static enum halay_status shm_alloc(struct halay_shared_memory *m, size_t bytes, void **out)
{
    return halay_shm_memory_alloc(sharer_of(m)->memory, bytes, out);
}

static void shm_free(struct halay_shared_memory *m, void *ptr)
{
    halay_shm_memory_free(sharer_of(m)->memory, ptr);
}

static void shm_keep(struct halay_shared_memory *m, void *ptr, struct halay_kept *kept)
{
    halay_shm_memory_keep(sharer_of(m)->memory, ptr, kept);
}

static enum halay_status shm_take_areas(struct halay_shared_memory *m, uint64_t *offset)
{
    return halay_shm_memory_take_areas(sharer_of(m)->memory, offset);
}

static void shm_give_areas(struct halay_shared_memory *m, uint64_t offset)
{
    halay_shm_memory_give_areas(sharer_of(m)->memory, offset);
}

static uint64_t shm_locate(struct halay_shared_memory *m, const void *ptr, size_t bytes)
{
    struct shm_transport *self = sharer_of(m);
    uintptr_t at = (uintptr_t)ptr, start = (uintptr_t)self->context.segment;
    size_t end = self->map.layout.bytes;

    if (at >= start + self->map.layout.areas && at - start <= end && bytes <= end - (at - start))
        return at - start;
    struct halay_shm_registered *registered = &self->memory->registered;
    size_t head = 0, length = 0;
    uint64_t offset = halay_shm_registered_find(registered, ptr, bytes, &head, &length);
    int is_there = offset != HALAY_PRIVATE && length == bytes &&
                   halay_shm_registered_is_there(self->base.log, registered, ptr, bytes);
    return is_there ? offset : HALAY_PRIVATE;
}

static uint64_t shm_locate_pages(struct halay_shared_memory *m, const void *ptr, size_t bytes, size_t *head,
                                 size_t *length)
{
    struct shm_transport *self = sharer_of(m);
    struct halay_shm_registered *registered = &self->memory->registered;
    uint64_t offset = halay_shm_registered_find(registered, ptr, bytes, head, length);

    if (offset != HALAY_PRIVATE &&
        !halay_shm_registered_is_there(self->base.log, registered, (const unsigned char *)ptr + *head, *length))
        return HALAY_PRIVATE;
    return offset;
}

static enum halay_status shm_register(struct halay_shared_memory *m, void *ptr, size_t bytes)
{
    return halay_shm_memory_register(sharer_of(m)->memory, ptr, bytes);
}

static enum halay_status shm_unregister(struct halay_shared_memory *m, void *ptr)
{
    return halay_shm_memory_unregister(sharer_of(m)->memory, ptr);
}

static void *shm_reach(struct halay_shared_memory *m, int peer, uint64_t offset, size_t bytes)
{
    struct shm_transport *self = sharer_of(m);
    size_t end = self->map.layout.bytes;

    if (offset < self->map.layout.areas || offset > end || bytes > end - offset)
        return NULL;
    return (unsigned char *)self->map.base[peer] + offset;
}

/* ---- sleep ---- */

static void shm_notify(struct halay_shared_memory *m, int peer)
{
    struct shm_transport *self = sharer_of(m);

    halay_bell_notify(&self->bells[peer], self->context.has_barrier);
}

/* The last progress before a sleep may have been the first to find a ring full. Its receiver sees that this rank wants
 * room, or this rank sees that it has made some: the barrier is between the store and this load, as in the bell. */
static int has_room_again(struct shm_transport *self)
{
    int wanted = 0;

    for (int i = 0; i < self->base.size - 1; i++)
        wanted |= !self->base.lost[self->peer[i].rank] && halay_shm_wants_room(&self->peer[i]);
    if (!wanted)
        return 0;
    if (!halay_bell_heavy_barrier(self->context.has_barrier))
        return 1;
    for (int i = 0; i < self->base.size - 1; i++)
        if (!self->base.lost[self->peer[i].rank] && halay_shm_has_room_again(&self->peer[i]))
            return 1;
    return 0;
}

/* Returns nonzero if progress, which is bounded, has left work over. */
static int is_busy(struct shm_transport *self)
{
    for (int i = 0; i < self->base.size - 1; i++)
        if (!self->base.lost[self->peer[i].rank] && halay_shm_has_work(&self->peer[i]))
            return 1;
    return has_room_again(self);
}

static long shm_arm(struct halay_link *link)
{
    struct shm_transport *self = shm_of(link);

    self->unchecked = CHECK_EVERY; /* time passes: the next progress checks the peers */
    return self->status == HALAY_OK && is_busy(self) ? 0 : HALAY_RINGS;
}

/* ---- start and end ---- */

/* Announces that this rank leaves. A sleeper checks its peers when it wakes. */
static void announce_leave(struct shm_transport *self)
{
    uint32_t why =
        status_of(self) == HALAY_ERR_PEER ? HALAY_SHM_LEFT_FOR + (uint32_t)self->base.failed_peer : HALAY_SHM_LEFT;

    atomic_store_explicit(&entry_of(self, self->base.rank)->has_left, why, memory_order_release);
    halay_full_fence();
    for (int r = 0; r < self->base.size; r++)
        if (r != self->base.rank)
            halay_bell_ring(&self->bells[r]);
}

int halay_shm_has_left(struct halay_link *link, int peer)
{
    return atomic_load_explicit(&entry_of(shm_of(link), peer)->has_left, memory_order_acquire) != 0;
}

/* Copies has_left to the watch over processes, which outlives the segments. */
static void copy_left(struct shm_transport *self)
{
    for (int r = 0; r < self->base.size; r++) {
        if (halay_shm_has_left(&self->base, r))
            halay_peers_set_left(self->peers, world_rank(self, r));
        halay_peers_set_left_word(self->peers, world_rank(self, r), NULL);
    }
}

static void shm_destroy(struct shm_transport *self)
{
    for (int i = 0; self->peer && i < self->base.size - 1; i++)
        halay_shm_peer_fini(&self->peer[i]);
    halay_shm_context_fini(&self->context);
    free(self->bells);
    free(self->peer);
    halay_forgotten_fini(&self->base.forgotten);
    free(self->base.lost);
    halay_shm_map_fini(&self->map);
    halay_shm_memory_fini(&self->own);
    free(self);
}

static void shm_close(struct halay_link *link)
{
    struct shm_transport *self = shm_of(link);

    announce_leave(self);
    copy_left(self);
    halay_bell_place(self->bell, NULL, 0);
    shm_destroy(self);
}

static const struct halay_link_ops shm_ops = {
    .name = "shm",
    .send = shm_send,
    .recv = shm_recv,
    .progress = shm_progress,
    .cancel = shm_cancel,
    .forget = shm_forget,
    .arm = shm_arm,
    .close = shm_close,
};

static const struct halay_shared_memory_ops memory_ops = {
    .alloc = shm_alloc,
    .free = shm_free,
    .keep = shm_keep,
    .take_areas = shm_take_areas,
    .register_memory = shm_register,
    .unregister_memory = shm_unregister,
    .locate_pages = shm_locate_pages,
    .give_areas = shm_give_areas,
    .locate = shm_locate,
    .reach = shm_reach,
    .notify = shm_notify,
};

static int all_have_barrier(struct shm_transport *self)
{
    for (int r = 0; r < self->base.size; r++)
        if (!entry_of(self, r)->has_barrier)
            return 0;
    return 1;
}

static void peer_set(struct shm_transport *self, int rank)
{
    struct halay_shm_layout *layout = &self->map.layout;
    struct halay_shm_peer *p = peer_of(self, rank);
    int me = self->base.rank;

    p->rank = rank;
    p->entry = entry_of(self, rank);
    p->bell = &self->bells[rank];
    p->in = halay_shm_end_of(self->map.base[me], layout, rank);
    p->out = halay_shm_end_of(self->map.base[rank], layout, me);
    halay_peers_set_left_word(self->peers, world_rank(self, rank), &p->entry->has_left);
}

/* Before the exchange: all have the same status after it. */
static enum halay_status shm_allocate(struct shm_transport *self, const struct halay_boot *boot, int its_host_only)
{
    size_t count = 0;

    for (int r = 0; r < boot->size; r++)
        count += !its_host_only || halay_peers_is_local(self->peers, r);
    self->peer = calloc(count, sizeof *self->peer);
    self->bells = calloc(count, sizeof *self->bells);
    self->base.lost = calloc(count, sizeof *self->base.lost);
    if (!self->peer || !self->bells || !self->base.lost)
        return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

/* Sets up the objects over the mapped segments. */
static void shm_init(struct shm_transport *self, int numa_node)
{
    struct halay_shm_layout *layout = &self->map.layout;

    halay_segment_wish_numa_node(self->base.log, self->map.base[self->base.rank], layout->bytes, numa_node);
    self->context = (struct halay_shm_context){
        .link = &self->base,
        .layout = layout,
        .segment = self->map.base[self->base.rank],
        .has_barrier = all_have_barrier(self),
        .record_max = layout->fifo_bytes / 16,
    };
    for (int r = 0; r < self->base.size; r++) {
        self->bells[r] =
            (struct halay_bell_peer){ .word = &entry_of(self, r)->bell, .event_fd = self->map.event_fd[r] };
        if (r != self->base.rank)
            peer_set(self, r);
    }
    halay_bell_place(self->bell, self->bells[self->base.rank].word, self->context.has_barrier);
    halay_debug(self->base.log, "shared memory: %zu MiB of address space a rank, %s", layout->bytes >> 20,
                self->context.has_barrier ? "membarrier" : "no membarrier: fences");
}

enum halay_status halay_shm_open(struct halay_log *log, const struct halay_shm_options *options,
                                 struct halay_boot *boot, struct halay_peers *peers, struct halay_link **out)
{
    struct shm_transport *self = calloc(1, sizeof *self);

    if (!self) {
        halay_shm_exchange_refuse(boot, HALAY_ERR_NO_MEMORY, options->timeout_ms);
        return HALAY_ERR_NO_MEMORY;
    }
    halay_shm_memory_init(log, &self->own);
    self->memory = options->memory ? options->memory : &self->own;
    self->base = (struct halay_link){
        .ops = &shm_ops,
        .memory = &self->shared,
        .failed_peer = -1,
        .log = log,
    };
    self->peers = peers;
    self->bell = options->bell;
    enum halay_status status = shm_allocate(self, boot, options->its_host_only);
    if (status != HALAY_OK)
        halay_shm_exchange_refuse(boot, status, options->timeout_ms);
    else
        status = halay_shm_exchange(log, boot, peers,
                                    &(struct halay_shm_exchange_options){ .memory = self->memory,
                                                                          .wanted = options->segment_bytes,
                                                                          .ranks = options->ranks,
                                                                          .bell = options->bell,
                                                                          .bell_polls = options->bell_polls,
                                                                          .its_host_only = options->its_host_only,
                                                                          .without_barrier = options->without_barrier,
                                                                          .timeout_ms = options->timeout_ms },
                                    &self->map);
    self->base.rank = self->map.rank;
    self->base.size = self->map.size;
    if (status != HALAY_OK) {
        shm_destroy(self);
        return status;
    }
    self->shared = (struct halay_shared_memory){ &memory_ops, self->map.rank, self->map.size };
    shm_init(self, options->numa_node);
    *out = &self->base;
    return HALAY_OK;
}
