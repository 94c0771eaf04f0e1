/* SPDX-License-Identifier: Apache-2.0
 *
 * Fake transport: a table of queues in memory, one for each (sender, receiver), behind one lock.
 *
 * The receiver copies, inside its progress. A sender that cancels takes the same lock, so its buffer is never read
 * after cancel has returned. A message is complete for its sender only when it was received, which is the strictest
 * that the contract allows; under delay some are copied at once instead, so that both kinds are met. One lock is slow
 * and simple: this transport is there to find out what is right, not what is fast.
 *
 * Delay: a message is held back for a random number of the receiver's looks. It stays in its queue meanwhile, so
 * messages of one tag keep their order and those of other tags overtake it. Nobody sleeps while something is held back
 * for him.
 *
 * A progress with nothing posted takes no lock and orders nothing, and neither does a look at who was killed: otherwise
 * the locks here would hide from ThreadSanitizer what flags in shared areas fail to order.
 *
 * A segment is an anonymous mapping: areas, then heap. Behind a hub's ranks are the words of their bells.
 *
 * Cleanup: zero-initialised, destroy accepts a half-built hub.
 */
#include "tests/fake/fake.h"
#include "base/memory.h"
#include "collectives/transport/heap.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define AREAS_BYTES ((size_t)64 * HALAY_GROUP_BYTES) /* groups beyond these go by messages */
#define HEAP_BYTES ((size_t)1 << 30)                 /* address space */

enum { HOLD_MAX = 6 };

/* Values of has_left: HERE, LEFT, or LEFT_FOR + r: because of rank r, which it had lost. */
enum { HERE, LEFT, LEFT_FOR };

struct fake_message {
    struct fake_message *next;
    uint64_t tag;
    const unsigned char *buf; /* the sender's, or copy */
    size_t bytes;
    struct halay_transfer *transfer; /* the sender's; NULL: it was copied at once, the sender is done */
    int held;                        /* looks of the receiver until it may be received */
    int is_taken_back;               /* none after it with its tag is received, before the group is forgotten */
    unsigned char *copy;             /* owned, or NULL */
};

struct fake_rank {
    struct halay_bell_word bell;
    struct halay_heap areas, heap;
    unsigned char *segment; /* owned: AREAS_BYTES + HEAP_BYTES; set once before the ranks open */
    _Atomic int has_left; /* stored (release) by close after everything else of this rank; loaded (acquire) by peers */
    struct halay_forgotten forgotten; /* guarded by the hub's lock */
    _Atomic int sending; /* its sends that are not done; relaxed: only says whether a look is worth while */
};

struct halay_fake_hub {
    pthread_mutex_t lock;
    int size;
    int is_apart;                /* its ranks share no memory */
    uint64_t random;             /* state of the delays; 0: none; guarded by lock */
    _Atomic int killed;          /* -1, or a rank; relaxed, it publishes nothing */
    struct fake_message **sends; /* owned: [sender * size + receiver], oldest first; guarded by lock */
    unsigned char *dropped;      /* owned: [sender * size + receiver]; guarded by lock, as is the next */
    unsigned char *stuck;        /* owned: the same */
    struct fake_rank *ranks;     /* owned: size of them */
    int *node;                   /* owned, or NULL; set once before the ranks open */
    int has_topology;            /* guarded by lock, as is what follows */
    struct halay_topology topology;
    /* The bootstrap's allgather. */
    pthread_cond_t gathered;
    unsigned char *gather; /* owned: size * bytes of this round's */
    size_t gather_bytes;
    int gather_arrived;
    int gather_leaving; /* who has still to copy the finished round */
    unsigned gather_round;
};

struct fake_transport {
    struct halay_link base;
    struct halay_shared_memory shared;
    struct halay_fake_hub *hub; /* borrowed, as is the bell */
    struct halay_bell *bell;
    struct halay_transfer *receives; /* posted here, oldest first; used by the driver only */
    enum halay_status status;        /* the first error but for lost peers; used by the driver only */
};

static struct fake_transport *fake_of(struct halay_link *link)
{
    return (struct fake_transport *)link;
}

static struct halay_fake_hub *hub_of(struct halay_shared_memory *m)
{
    return ((struct fake_transport *)((char *)m - offsetof(struct fake_transport, shared)))->hub;
}

/* ---- time and bells ---- */

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

static struct timespec time_ahead(long us)
{
    struct timespec ahead;

    clock_gettime(CLOCK_MONOTONIC, &ahead);
    ahead.tv_sec += us / 1000000;
    ahead.tv_nsec += us % 1000000 * 1000;
    if (ahead.tv_nsec >= 1000000000) {
        ahead.tv_sec++;
        ahead.tv_nsec -= 1000000000;
    }
    return ahead;
}

static void ring(struct halay_fake_hub *hub, int rank)
{
    halay_bell_notify(&(struct halay_bell_peer){ .word = &hub->ranks[rank].bell, .event_fd = -1 }, 0);
}

static void ring_all(struct halay_fake_hub *hub)
{
    for (int r = 0; r < hub->size; r++)
        ring(hub, r);
}

/* ---- messages; all under hub.lock ---- */

static struct fake_message **queue_of(struct halay_fake_hub *hub, int from, int to)
{
    return &hub->sends[from * hub->size + to];
}

static uint64_t random_next(struct halay_fake_hub *hub)
{
    hub->random ^= hub->random << 13; /* xorshift */
    hub->random ^= hub->random >> 7;
    hub->random ^= hub->random << 17;
    return hub->random;
}

static void message_free(struct fake_message *m)
{
    free(m->copy);
    free(m);
}

static struct fake_message *message_create(const void *buf, struct halay_transfer *x)
{
    struct fake_message *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->tag = x->tag;
    m->buf = buf;
    m->bytes = x->bytes;
    m->transfer = x;
    return m;
}

/* The sender may have its buffer back. The message must be out of its queue, or forget the transfer. */
static void send_done(struct fake_rank *sender, struct halay_transfer *x)
{
    atomic_fetch_sub_explicit(&sender->sending, 1, memory_order_relaxed);
    halay_transfer_end(x);
}

/* Hold it back for a while; copy every other one at once. */
static void message_delay_locked(struct halay_fake_hub *hub, struct fake_rank *sender, struct fake_message *m)
{
    uint64_t dice = random_next(hub) >> 16;

    m->held = (int)(dice % (HOLD_MAX + 1));
    if (dice & 1 << 10)
        return;
    m->copy = malloc(m->bytes);
    if (!m->copy)
        return;
    memcpy(m->copy, m->buf, m->bytes);
    m->buf = m->copy;
    send_done(sender, m->transfer);
    m->transfer = NULL;
}

static void queue_append(struct fake_message **queue, struct fake_message *m)
{
    while (*queue)
        queue = &(*queue)->next;
    *queue = m;
}

/* The oldest of that tag, as the pointer that leads to it; *result is NULL if there is none. */
static struct fake_message **queue_find(struct fake_message **queue, uint64_t tag)
{
    while (*queue && (*queue)->tag != tag)
        queue = &(*queue)->next;
    return queue;
}

static int transfers_remove(struct halay_transfer **list, const struct halay_transfer *x)
{
    for (; *list; list = &(*list)->next)
        if (*list == x) {
            *list = x->next;
            return 1;
        }
    return 0;
}

static void fake_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    struct fake_transport *self = fake_of(link);
    struct halay_fake_hub *hub = self->hub;

    struct fake_rank *me = &hub->ranks[link->rank];

    halay_transfer_post(x, peer, tag, (void *)buf, bytes);
    struct fake_message *m = message_create(buf, x);
    if (!m) {
        self->status = HALAY_ERR_NO_MEMORY; /* returned by the next progress */
        return;
    }
    atomic_fetch_add_explicit(&me->sending, 1, memory_order_relaxed);
    pthread_mutex_lock(&hub->lock);
    if (hub->dropped[link->rank * hub->size + peer] || halay_forgotten_has(&hub->ranks[peer].forgotten, tag)) {
        message_free(m);
        send_done(me, x);
    } else {
        if (hub->random)
            message_delay_locked(hub, me, m);
        queue_append(queue_of(hub, link->rank, peer), m);
    }
    pthread_mutex_unlock(&hub->lock);
    ring(hub, peer);
}

static void fake_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    struct fake_transport *self = fake_of(link);
    struct halay_transfer **end = &self->receives;

    halay_transfer_post(x, peer, tag, buf, bytes);
    while (*end)
        end = &(*end)->next;
    *end = x;
}

/* Every message for this rank is seen once more. */
static void look_locked(struct halay_fake_hub *hub, int rank)
{
    for (int from = 0; from < hub->size; from++)
        for (struct fake_message *m = *queue_of(hub, from, rank); m; m = m->next)
            if (m->held > 0)
                m->held--;
}

static int is_held_locked(struct halay_fake_hub *hub, int rank)
{
    for (int from = 0; from < hub->size; from++)
        for (struct fake_message *m = *queue_of(hub, from, rank); m; m = m->next)
            if (m->held > 0)
                return 1;
    return 0;
}

static void peer_gone(struct fake_transport *self, int peer, const char *how)
{
    if (self->base.lost[peer])
        return;
    self->base.lost[peer] = 1;
    if (self->base.failed_peer < 0)
        self->base.failed_peer = peer;
    halay_error(self->base.log, "rank %d %s", peer, how);
}

/* Give `in` the message *place. */
static enum halay_status receive_locked(struct fake_transport *self, struct halay_transfer *in,
                                        struct fake_message **place)
{
    struct fake_message *m = *place;
    struct halay_transfer *out = m->transfer;

    if (in->bytes != m->bytes) {
        halay_error(self->base.log, "message of %zu bytes from rank %d under tag %#x, %zu were expected", m->bytes,
                    in->peer, (unsigned)in->tag, in->bytes);
        return HALAY_ERR_FORMAT;
    }
    int from = in->peer;
    memcpy(in->buf, m->buf, m->bytes);
    *place = m->next;
    transfers_remove(&self->receives, in);
    halay_transfer_end(in);
    if (out) {
        send_done(&self->hub->ranks[from], out);
        ring(self->hub, from);
    }
    message_free(m);
    return HALAY_OK;
}

static int has_left(struct halay_link *link, int peer)
{
    return atomic_load_explicit(&fake_of(link)->hub->ranks[peer].has_left, memory_order_acquire) != HERE;
}

/* A peer that left because of another one is not the first cause: that one is named, whichever of us saw it first. */
static void peer_left(struct fake_transport *self, int peer)
{
    int why = atomic_load_explicit(&self->hub->ranks[peer].has_left, memory_order_acquire);

    if (why >= LEFT_FOR && why - LEFT_FOR != self->base.rank)
        peer_gone(self, why - LEFT_FOR, "is dead or has left");
    peer_gone(self, peer, "has left");
}

static enum halay_status receive_all_locked(struct fake_transport *self)
{
    struct halay_fake_hub *hub = self->hub;
    enum halay_status status;

    for (struct halay_transfer *in = self->receives, *next; in; in = next) {
        struct fake_message **place = queue_find(queue_of(hub, in->peer, self->base.rank), in->tag);
        next = in->next;
        if (hub->stuck[in->peer * hub->size + self->base.rank])
            continue;
        const int is_there = *place && !(*place)->is_taken_back;
        if (is_there && !(*place)->held) {
            if ((status = receive_locked(self, in, place)) != HALAY_OK)
                return status;
        } else if (!is_there && !in->is_optional && has_left(&self->base, in->peer)) {
            peer_left(self, in->peer);
        }
    }
    return HALAY_OK;
}

/* What was sent to a rank that has left, and was not received, never will be. */
static void check_sends_locked(struct fake_transport *self)
{
    struct halay_fake_hub *hub = self->hub;

    for (int to = 0; to < hub->size; to++) {
        if (!has_left(&self->base, to))
            continue;
        for (struct fake_message *m = *queue_of(hub, self->base.rank, to); m; m = m->next)
            if (m->transfer && !m->transfer->is_optional)
                peer_left(self, to);
    }
}

static enum halay_status status_of(const struct fake_transport *self)
{
    if (self->status != HALAY_OK)
        return self->status;
    return self->base.failed_peer >= 0 ? HALAY_ERR_PEER : HALAY_OK;
}

static enum halay_status fake_progress(struct halay_link *link)
{
    struct fake_transport *self = fake_of(link);
    struct halay_fake_hub *hub = self->hub;

    if (self->status != HALAY_OK)
        return self->status;
    int killed = halay_fake_hub_killed(hub);
    if (killed >= 0)
        peer_gone(self, killed, "is dead (killed)");
    if (!self->receives && !atomic_load_explicit(&hub->ranks[link->rank].sending, memory_order_relaxed))
        return status_of(self);
    pthread_mutex_lock(&hub->lock);
    look_locked(hub, link->rank);
    self->status = receive_all_locked(self);
    if (self->status == HALAY_OK)
        check_sends_locked(self);
    pthread_mutex_unlock(&hub->lock);
    return status_of(self);
}

static void fake_cancel(struct halay_link *link, struct halay_transfer *x)
{
    struct fake_transport *self = fake_of(link);
    struct halay_fake_hub *hub = self->hub;

    pthread_mutex_lock(&hub->lock);
    if (!transfers_remove(&self->receives, x)) {
        struct fake_message *m = *queue_of(hub, link->rank, x->peer);
        while (m && m->transfer != x)
            m = m->next;
        if (m) {
            m->is_taken_back = 1;
            m->transfer = NULL;
            m->held = 0;
            atomic_fetch_sub_explicit(&hub->ranks[link->rank].sending, 1, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&x->state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
    pthread_mutex_unlock(&hub->lock);
}

static void fake_forget(struct halay_link *link, struct halay_group_range groups)
{
    struct halay_fake_hub *hub = fake_of(link)->hub;

    pthread_mutex_lock(&hub->lock);
    halay_forgotten_add(&hub->ranks[link->rank].forgotten, groups);
    for (int from = 0; from < link->size; from++)
        for (struct fake_message **place = queue_of(hub, from, link->rank), *m; (m = *place);) {
            if (!halay_group_range_has(groups, m->tag)) {
                place = &m->next;
                continue;
            }
            *place = m->next;
            if (m->transfer)
                send_done(&hub->ranks[from], m->transfer);
            message_free(m);
            ring(hub, from);
        }
    pthread_mutex_unlock(&hub->lock);
}

/* ---- memory ---- */

static enum halay_status fake_alloc(struct halay_shared_memory *m, size_t bytes, void **out)
{
    struct fake_rank *rank = &hub_of(m)->ranks[m->rank];
    size_t offset;

    enum halay_status status = halay_heap_take(&rank->heap, bytes ? bytes : 1, &offset);
    if (status == HALAY_OK)
        *out = rank->segment + AREAS_BYTES + offset;
    return status;
}

static void fake_free(struct halay_shared_memory *m, void *ptr)
{
    struct fake_rank *rank = &hub_of(m)->ranks[m->rank];

    if (!ptr)
        return;
    size_t offset = (size_t)((unsigned char *)ptr - rank->segment) - AREAS_BYTES;
    size_t bytes = halay_heap_size(&rank->heap, offset);
    if (bytes)
        madvise(ptr, bytes, MADV_DONTNEED);
    if (halay_heap_give(&rank->heap, offset) != HALAY_OK)
        abort(); /* free of what alloc did not give */
}

static enum halay_status fake_take_areas(struct halay_shared_memory *m, uint64_t *offset)
{
    size_t at;

    enum halay_status status = halay_heap_take(&hub_of(m)->ranks[m->rank].areas, HALAY_GROUP_BYTES, &at);
    if (status == HALAY_OK)
        *offset = at;
    return status;
}

static void fake_give_areas(struct halay_shared_memory *m, uint64_t offset)
{
    struct fake_rank *rank = &hub_of(m)->ranks[m->rank];

    madvise(rank->segment + offset, HALAY_GROUP_BYTES, MADV_DONTNEED);
    if (halay_heap_give(&rank->areas, (size_t)offset) != HALAY_OK)
        abort(); /* what take did not give */
}

static uint64_t fake_locate(struct halay_shared_memory *m, const void *ptr, size_t bytes)
{
    uintptr_t start = (uintptr_t)hub_of(m)->ranks[m->rank].segment + AREAS_BYTES, at = (uintptr_t)ptr;

    if (at < start || at - start > HEAP_BYTES || bytes > HEAP_BYTES - (at - start))
        return HALAY_PRIVATE;
    return at - start + AREAS_BYTES;
}

static void *fake_reach(struct halay_shared_memory *m, int peer, uint64_t offset, size_t bytes)
{
    if (offset > AREAS_BYTES + HEAP_BYTES || bytes > AREAS_BYTES + HEAP_BYTES - offset)
        return NULL;
    return hub_of(m)->ranks[peer].segment + offset;
}

/* ---- sleep ---- */

static void fake_notify(struct halay_shared_memory *m, int peer)
{
    ring(hub_of(m), peer);
}

/* A message that is held back comes closer by being looked at. */
static long fake_arm(struct halay_link *link)
{
    struct fake_transport *self = fake_of(link);
    int held = 0;

    if (self->receives) {
        pthread_mutex_lock(&self->hub->lock);
        held = is_held_locked(self->hub, link->rank);
        pthread_mutex_unlock(&self->hub->lock);
    }
    if (held)
        sched_yield();
    return held ? 0 : HALAY_RINGS;
}

static void fake_close(struct halay_link *link)
{
    struct fake_transport *self = fake_of(link);
    struct halay_fake_hub *hub = self->hub;
    int why = status_of(self) == HALAY_ERR_PEER ? LEFT_FOR + link->failed_peer : LEFT;

    atomic_store_explicit(&hub->ranks[link->rank].has_left, why, memory_order_release);
    ring_all(hub);
    halay_bell_place(self->bell, NULL, 0);
    free(self->base.lost);
    free(self);
}

static const struct halay_link_ops fake_ops = {
    .name = "fake",
    .send = fake_send,
    .recv = fake_recv,
    .progress = fake_progress,
    .cancel = fake_cancel,
    .forget = fake_forget,
    .arm = fake_arm,
    .close = fake_close,
};

static const struct halay_shared_memory_ops memory_ops = {
    .alloc = fake_alloc,
    .free = fake_free,
    .take_areas = fake_take_areas,
    .give_areas = fake_give_areas,
    .locate = fake_locate,
    .reach = fake_reach,
    .notify = fake_notify,
};

enum halay_status halay_fake_open(struct halay_fake_hub *hub, int rank, struct halay_log *log, struct halay_bell *bell,
                                  struct halay_link **out)
{
    struct fake_transport *self = calloc(1, sizeof *self);
    unsigned char *lost = calloc((size_t)hub->size, sizeof *lost);

    if (!self || !lost) {
        free(self);
        free(lost);
        return HALAY_ERR_NO_MEMORY;
    }
    *self = (struct fake_transport){
        .base = { .ops = &fake_ops,
                  .memory = hub->is_apart ? NULL : &self->shared,
                  .rank = rank,
                  .size = hub->size,
                  .failed_peer = -1,
                  .lost = lost,
                  .log = log },
        .shared = { &memory_ops, rank, hub->size },
        .hub = hub,
        .bell = bell,
    };
    halay_bell_place(bell, &hub->ranks[rank].bell, 0);
    *out = &self->base;
    return HALAY_OK;
}

/* ---- bootstrap ---- */

struct fake_boot {
    struct halay_boot base;
    struct halay_fake_hub *hub; /* borrowed */
};

/* Wait on hub.gathered until the round that `round` counts is over (arrive) or those who left it have copied
 * (leave). */
static enum halay_status gather_wait_locked(struct fake_boot *self, const struct timespec *until, int timeout_ms)
{
    struct halay_fake_hub *hub = self->hub;

    int killed = halay_fake_hub_killed(hub);

    if (killed >= 0) {
        halay_error(self->base.log, "rank %d is dead (killed) during the start", killed);
        return HALAY_ERR_PEER;
    }
    int error = timeout_ms < 0 ? pthread_cond_wait(&hub->gathered, &hub->lock)
                               : pthread_cond_timedwait(&hub->gathered, &hub->lock, until);
    if (error) {
        halay_error(self->base.log, "timed out: %d of %d ranks have come", hub->gather_arrived, hub->size);
        return HALAY_ERR_TIMEOUT;
    }
    return HALAY_OK;
}

static enum halay_status gather_locked(struct fake_boot *self, const void *mine, size_t bytes, void *all,
                                       int timeout_ms)
{
    struct halay_fake_hub *hub = self->hub;
    struct timespec until = time_ahead((long)(timeout_ms < 0 ? 0 : timeout_ms) * 1000);
    enum halay_status status;

    /* The previous round's blobs lie there until the last one has copied them. */
    while (hub->gather_leaving > 0)
        if ((status = gather_wait_locked(self, &until, timeout_ms)) != HALAY_OK)
            return status;
    if (hub->gather_arrived == 0) {
        void *larger = realloc(hub->gather, (size_t)hub->size * bytes);
        if (!larger)
            return HALAY_ERR_NO_MEMORY;
        hub->gather = larger;
        hub->gather_bytes = bytes;
    } else if (bytes != hub->gather_bytes) {
        halay_error(self->base.log, "exchange of %zu bytes, another rank gave %zu", bytes, hub->gather_bytes);
        return HALAY_ERR_FORMAT;
    }
    memcpy(hub->gather + (size_t)self->base.rank * bytes, mine, bytes);
    unsigned round = hub->gather_round;
    if (++hub->gather_arrived == hub->size) {
        hub->gather_arrived = 0;
        hub->gather_leaving = hub->size;
        hub->gather_round++;
        pthread_cond_broadcast(&hub->gathered);
    }
    while (hub->gather_round == round)
        if ((status = gather_wait_locked(self, &until, timeout_ms)) != HALAY_OK)
            return status;
    if (all)
        memcpy(all, hub->gather, (size_t)hub->size * bytes);
    if (--hub->gather_leaving == 0)
        pthread_cond_broadcast(&hub->gathered);
    return HALAY_OK;
}

static enum halay_status fake_boot_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                             int timeout_ms)
{
    struct fake_boot *self = (struct fake_boot *)boot;

    pthread_mutex_lock(&self->hub->lock);
    enum halay_status status = gather_locked(self, mine, bytes, all, timeout_ms);
    pthread_mutex_unlock(&self->hub->lock);
    return status;
}

static void fake_boot_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops fake_boot_ops = {
    .name = "fake",
    .allgather = fake_boot_allgather,
    .destroy = fake_boot_destroy,
};

enum halay_status halay_fake_boot_create(struct halay_fake_hub *hub, int rank, struct halay_log *log,
                                         struct halay_boot **out)
{
    struct fake_boot *self = calloc(1, sizeof *self);

    if (!self)
        return HALAY_ERR_NO_MEMORY;
    *self = (struct fake_boot){
        .base = { .ops = &fake_boot_ops, .rank = rank, .size = hub->size, .log = log },
        .hub = hub,
    };
    *out = &self->base;
    return HALAY_OK;
}

/* ---- hub ---- */

static enum halay_status rank_init(struct fake_rank *rank)
{
    void *segment = mmap(NULL, AREAS_BYTES + HEAP_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (segment == MAP_FAILED)
        return HALAY_ERR_NO_MEMORY;
    rank->segment = segment;
    enum halay_status status = halay_heap_init(&rank->areas, AREAS_BYTES);
    return status == HALAY_OK ? halay_heap_init(&rank->heap, HEAP_BYTES) : status;
}

static void rank_fini(struct fake_rank *rank)
{
    halay_forgotten_fini(&rank->forgotten);
    if (!rank->segment)
        return;
    halay_heap_fini(&rank->areas);
    halay_heap_fini(&rank->heap);
    munmap(rank->segment, AREAS_BYTES + HEAP_BYTES);
}

enum halay_status halay_fake_hub_create(int size, struct halay_fake_hub **out)
{
    size_t n = (size_t)size;
    struct halay_fake_hub *hub = calloc(1, sizeof *hub);

    if (!hub)
        return HALAY_ERR_NO_MEMORY;
    pthread_mutex_init(&hub->lock, NULL);
    cond_init(&hub->gathered);
    hub->size = size;
    hub->killed = -1;
    hub->sends = calloc(n * n, sizeof *hub->sends);
    hub->dropped = calloc(n * n, sizeof *hub->dropped);
    hub->stuck = calloc(n * n, sizeof *hub->stuck);
    hub->ranks = calloc(n, sizeof *hub->ranks);
    enum halay_status status = hub->sends && hub->dropped && hub->stuck && hub->ranks ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < size && status == HALAY_OK; r++)
        status = rank_init(&hub->ranks[r]);
    if (status != HALAY_OK) {
        halay_fake_hub_destroy(hub);
        return status;
    }
    *out = hub;
    return HALAY_OK;
}

void halay_fake_hub_destroy(struct halay_fake_hub *hub)
{
    if (!hub)
        return;
    for (int i = 0; hub->sends && i < hub->size * hub->size; i++)
        for (struct fake_message *m = hub->sends[i], *next; m; m = next) {
            next = m->next;
            message_free(m);
        }
    for (int r = 0; hub->ranks && r < hub->size; r++)
        rank_fini(&hub->ranks[r]);
    free(hub->gather);
    free(hub->node);
    free(hub->ranks);
    free(hub->stuck);
    free(hub->dropped);
    free(hub->sends);
    pthread_cond_destroy(&hub->gathered);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

int halay_fake_hub_size(const struct halay_fake_hub *hub)
{
    return hub->size;
}

enum halay_status halay_fake_hub_topology(struct halay_fake_hub *hub, struct halay_log *log,
                                          struct halay_topology *topology)
{
    enum halay_status status = HALAY_OK;

    pthread_mutex_lock(&hub->lock);
    if (!hub->has_topology)
        status = halay_topology_load(log, &hub->topology);
    hub->has_topology = status == HALAY_OK;
    if (status == HALAY_OK)
        *topology = hub->topology;
    pthread_mutex_unlock(&hub->lock);
    return status;
}

void halay_fake_hub_set_shared(struct halay_fake_hub *hub, int is_shared)
{
    hub->is_apart = !is_shared;
}

enum halay_status halay_fake_hub_set_nodes(struct halay_fake_hub *hub, const int *node)
{
    hub->node = malloc((size_t)hub->size * sizeof *node);
    if (!hub->node)
        return HALAY_ERR_NO_MEMORY;
    memcpy(hub->node, node, (size_t)hub->size * sizeof *node);
    return HALAY_OK;
}

const int *halay_fake_hub_nodes(const struct halay_fake_hub *hub)
{
    return hub->node;
}

void halay_fake_hub_set_delay(struct halay_fake_hub *hub, uint64_t seed)
{
    /* Spread small seeds over all bits; 0 stays 0. */
    hub->random = seed * 0x9e3779b97f4a7c15u;
}

void halay_fake_hub_kill(struct halay_fake_hub *hub, int rank)
{
    int nobody = -1;

    pthread_mutex_lock(&hub->lock);
    atomic_compare_exchange_strong_explicit(&hub->killed, &nobody, rank, memory_order_relaxed, memory_order_relaxed);
    memset(hub->dropped + rank * hub->size, 1, (size_t)hub->size); /* the dead say no more, nor that they leave */
    pthread_cond_broadcast(&hub->gathered);
    pthread_mutex_unlock(&hub->lock);
    ring_all(hub);
}

void halay_fake_hub_drop(struct halay_fake_hub *hub, int from, int to)
{
    pthread_mutex_lock(&hub->lock);
    hub->dropped[from * hub->size + to] = 1;
    pthread_mutex_unlock(&hub->lock);
}

void halay_fake_hub_hold(struct halay_fake_hub *hub, int from, int to, int is_held)
{
    pthread_mutex_lock(&hub->lock);
    hub->stuck[from * hub->size + to] = is_held != 0;
    pthread_mutex_unlock(&hub->lock);
    ring(hub, to);
}

int halay_fake_hub_has_left(struct halay_fake_hub *hub, int rank)
{
    return atomic_load_explicit(&hub->ranks[rank].has_left, memory_order_acquire) != HERE;
}

int halay_fake_hub_killed(struct halay_fake_hub *hub)
{
    return atomic_load_explicit(&hub->killed, memory_order_relaxed);
}
