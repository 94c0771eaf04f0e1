/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of one host: see host_ranks.h.
 */
#include "base/store/host_ranks.h"
#include "base/sync.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* state: how often the rank has begun a start, times four, and what it does in the newest one; or ENDED. */
enum { BEGUN, ACCEPTS, LEFT, PHASES = 4 };
#define ENDED UINT32_MAX
static const uint32_t magic = 0x316b6e72;

struct slot {
    uint64_t network, device; /* its network namespace; written before state, which publishes it and user */
    uint32_t user;
    _Atomic uint32_t state;
};

struct halay_host_ranks_shared {
    uint32_t magic;
    int32_t first, count, block;
    struct slot slots[];
};

static size_t bytes_of(int count)
{
    return sizeof(struct halay_host_ranks_shared) + (size_t)count * sizeof(struct slot);
}

/* Maps a file of ranks. Returns nonzero, or 0 with errno; EINVAL: the file is not one. */
static int map_file(int fd, struct halay_host_ranks *self)
{
    struct stat about;

    if (fstat(fd, &about) < 0)
        return 0;
    size_t bytes = (size_t)about.st_size;
    errno = EINVAL;
    if (!S_ISREG(about.st_mode) || bytes < bytes_of(1))
        return 0;
    struct halay_host_ranks_shared *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        return 0;
    if (shared->magic != magic || shared->first < 0 || shared->count < 1 || shared->block < 1 ||
        bytes != bytes_of(shared->count)) {
        munmap(shared, bytes);
        errno = EINVAL;
        return 0;
    }
    *self = (struct halay_host_ranks){ .shared = shared,
                                       .bytes = bytes,
                                       .fd = -1,
                                       .first = shared->first,
                                       .count = shared->count,
                                       .block = shared->block };
    return 1;
}

enum halay_status halay_host_ranks_create(struct halay_log *log, int first, int count, int block,
                                          struct halay_host_ranks *self)
{
    const struct halay_host_ranks_shared head = { .magic = magic, .first = first, .count = count, .block = block };
    int fd = memfd_create("halay-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)bytes_of(count)) == 0 &&
        pwrite(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 && map_file(fd, self)) {
        self->fd = fd;
        return HALAY_OK;
    }
    halay_error(log, "cannot create the file of the host's ranks: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return HALAY_ERR_SYSTEM;
}

static struct slot *slot_of(const struct halay_host_ranks *self, int rank)
{
    return &self->shared->slots[rank - self->first];
}

static void set_state(struct slot *slot, uint32_t state)
{
    atomic_store_explicit(&slot->state, state, memory_order_release);
    halay_futex_wake(&slot->state, INT_MAX);
}

static uint32_t state_in(const struct halay_host_ranks *self, uint32_t phase)
{
    return PHASES * (self->number + 1) + phase;
}

void halay_host_ranks_ended(const struct halay_host_ranks *self, int rank)
{
    if (halay_host_ranks_has(self, rank))
        set_state(slot_of(self, rank), ENDED);
}

enum halay_status halay_host_ranks_open(struct halay_log *log, int fd, int rank, int size,
                                        struct halay_host_ranks *self)
{
    if (!map_file(fd, self))
        return halay_fail(
            log, HALAY_ERR_SYSTEM,
            "cannot read the host's ranks from descriptor %d: %s; was it closed on the way from halayrun?", fd,
            strerror(errno));
    if (self->count > size - self->first || !halay_host_ranks_has(self, rank)) {
        halay_error(log, "descriptor %d has ranks %d-%d of this host, HALAY_RANK is %d and HALAY_SIZE %d", fd,
                    self->first, self->first + self->count - 1, rank, size);
        halay_host_ranks_close(self);
        return HALAY_ERR_CONFIG;
    }
    self->rank = rank;
    fcntl(fd, F_SETFD, FD_CLOEXEC); /* it is open: this cannot fail */
    return HALAY_OK;
}

void halay_host_ranks_begin(struct halay_host_ranks *self)
{
    struct slot *mine = slot_of(self, self->rank);
    struct stat network = { 0 };

    self->number = atomic_load_explicit(&mine->state, memory_order_relaxed) / PHASES;
    if (stat("/proc/self/ns/net", &network) < 0)
        network = (struct stat){ 0 }; /* without /proc all ranks are alike */
    mine->network = network.st_ino;
    mine->device = network.st_dev;
    mine->user = geteuid();
    set_state(mine, state_in(self, BEGUN));
}

void halay_host_ranks_accept(struct halay_host_ranks *self)
{
    set_state(slot_of(self, self->rank), state_in(self, ACCEPTS));
}

void halay_host_ranks_leave(struct halay_host_ranks *self)
{
    if (self->shared)
        set_state(slot_of(self, self->rank), state_in(self, LEFT));
}

int halay_host_ranks_has(const struct halay_host_ranks *self, int rank)
{
    return self->shared && rank >= self->first && rank - self->first < self->count;
}

enum halay_host_rank_state halay_host_ranks_look(const struct halay_host_ranks *self, int rank, uint32_t *seen)
{
    const struct slot *mine = slot_of(self, self->rank), *other = slot_of(self, rank);
    uint32_t state = atomic_load_explicit(&other->state, memory_order_acquire);

    *seen = state;
    if (state < state_in(self, BEGUN))
        return HALAY_HOST_RANK_ABSENT;
    if (state > state_in(self, ACCEPTS))
        return HALAY_HOST_RANK_GONE;
    if (other->network != mine->network || other->device != mine->device || other->user != mine->user)
        return HALAY_HOST_RANK_ELSEWHERE;
    return state == state_in(self, BEGUN) ? HALAY_HOST_RANK_BEGUN : HALAY_HOST_RANK_ACCEPTS;
}

void halay_host_ranks_wait(const struct halay_host_ranks *self, int rank, uint32_t seen, int timeout_ms)
{
    (void)halay_futex_wait(&slot_of(self, rank)->state, seen, (int64_t)timeout_ms * 1000);
}

void halay_host_ranks_close(struct halay_host_ranks *self)
{
    if (self->shared) {
        munmap(self->shared, self->bytes);
        if (self->fd >= 0)
            close(self->fd);
    }
    *self = (struct halay_host_ranks){ .fd = -1 };
}
