/* SPDX-License-Identifier: Apache-2.0
 *
 * Bell: the slow half of sleeping and waking. The protocol and its proof are in the header; tests/transport/test_bell.c
 * tries every order of its steps.
 */
#include "collectives/transport/bell.h"
#include <limits.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

enum { COUNT_ONE = HALAY_BELL_ASLEEP + 1, SLEEP_MOST_US = 1000000 };

static uint32_t count_of(uint32_t state)
{
    return state & ~(uint32_t)HALAY_BELL_ASLEEP;
}

static int memory_barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

int halay_bell_register(void)
{
    /* The second call shows whether registering was of any use. */
    return memory_barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && memory_barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

int halay_bell_heavy_barrier(int has_barrier)
{
    if (has_barrier) /* once registered it fails only for want of memory */
        return memory_barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    halay_full_fence();
    return 1;
}

/* ---- ringing ---- */

static void write_event(int fd)
{
    const uint64_t one = 1;

    /* It can fail in one way: EAGAIN, rung 2^64 - 1 times over. Then it is readable. */
    if (write(fd, &one, sizeof one) < 0)
        return;
}

void halay_bell_ring(const struct halay_bell_peer *peer)
{
    _Atomic uint32_t *state = &peer->word->state;
    uint32_t seen = atomic_load_explicit(state, memory_order_relaxed);

    do
        if (!(seen & HALAY_BELL_ASLEEP))
            return;
    while (!atomic_compare_exchange_weak_explicit(state, &seen, count_of(seen) + COUNT_ONE, memory_order_acq_rel,
                                                  memory_order_relaxed));
    if (seen & HALAY_BELL_FUTEX)
        halay_futex_wake(state, INT_MAX);
    if (seen & HALAY_BELL_POLL && peer->event_fd >= 0)
        write_event(peer->event_fd);
}

void halay_bell_wake(struct halay_bell *bell)
{
    atomic_fetch_add_explicit(&bell->word->state, COUNT_ONE, memory_order_acq_rel);
    if (bell->link_count)
        write_event(bell->event_fd);
    else
        halay_futex_wake(&bell->word->state, INT_MAX);
}

/* ---- sleeping ---- */

uint32_t halay_bell_arm(struct halay_bell *bell)
{
    uint32_t mode = bell->link_count ? HALAY_BELL_POLL : HALAY_BELL_FUTEX;
    uint32_t token = count_of(atomic_fetch_or_explicit(&bell->word->state, mode, memory_order_seq_cst));

    /* A ringer may miss us where the barrier could not be made: a bit that is not set keeps sleep short. */
    if (!halay_bell_heavy_barrier(bell->has_barrier))
        halay_bell_disarm(bell);
    return token;
}

void halay_bell_disarm(struct halay_bell *bell)
{
    atomic_fetch_and_explicit(&bell->word->state, ~(uint32_t)HALAY_BELL_ASLEEP, memory_order_relaxed);
}

static void sleep_in_poll(struct halay_bell *bell, uint32_t token, long us)
{
    struct pollfd fds[HALAY_BELL_LINKS + 1] = { { .fd = bell->event_fd, .events = POLLIN } };
    const struct timespec timeout = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
    uint64_t rung;

    for (int i = 0; i < bell->link_count; i++)
        fds[i + 1] = (struct pollfd){ .fd = bell->links[i], .events = POLLIN };
    pthread_mutex_lock(&bell->lock);
    bell->sleepers++;
    pthread_mutex_unlock(&bell->lock);
    if (count_of(atomic_load_explicit(&bell->word->state, memory_order_acquire)) == token)
        (void)ppoll(fds, (nfds_t)bell->link_count + 1, &timeout, NULL); /* whatever ends it: the caller looks */
    pthread_mutex_lock(&bell->lock);
    if (!--bell->sleepers && fds[0].revents && read(bell->event_fd, &rung, sizeof rung) < 0 && errno != EAGAIN)
        halay_warning(bell->log, "reading an eventfd: %s", strerror(errno));
    pthread_mutex_unlock(&bell->lock);
}

void halay_bell_sleep(struct halay_bell *bell, uint32_t token, long timeout_us)
{
    uint32_t seen = atomic_load_explicit(&bell->word->state, memory_order_acquire);
    long us = timeout_us < 0 || timeout_us > SLEEP_MOST_US ? SLEEP_MOST_US : timeout_us;

    if (count_of(seen) != token)
        return;
    if (!(seen & HALAY_BELL_ASLEEP) && us > HALAY_UNRUNG_MAX_US) /* without a barrier, or another thread drives */
        us = HALAY_UNRUNG_MAX_US;
    if (bell->link_count)
        sleep_in_poll(bell, token, us);
    else
        halay_futex_wait(&bell->word->state, seen, us);
}

/* ---- life ---- */

void halay_bell_init(struct halay_bell *bell, struct halay_log *log)
{
    *bell = (struct halay_bell){ .log = log, .event_fd = -1 };
    bell->word = &bell->own;
    pthread_mutex_init(&bell->lock, NULL);
}

void halay_bell_fini(struct halay_bell *bell)
{
    if (bell->event_fd >= 0)
        close(bell->event_fd);
    bell->event_fd = -1;
    pthread_mutex_destroy(&bell->lock);
}

void halay_bell_place(struct halay_bell *bell, struct halay_bell_word *word, int has_barrier)
{
    bell->word = word ? word : &bell->own;
    bell->has_barrier = has_barrier;
}

enum halay_status halay_bell_open_event(struct halay_bell *bell)
{
    if (bell->event_fd < 0)
        bell->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->event_fd >= 0)
        return HALAY_OK;
    return halay_fail(bell->log, HALAY_ERR_SYSTEM, "cannot open an eventfd: %s", strerror(errno));
}

enum halay_status halay_bell_watch(struct halay_bell *bell, int fd)
{
    if (bell->link_count == HALAY_BELL_LINKS)
        return halay_fail(bell->log, HALAY_ERR_SYSTEM, "more than %d links have a descriptor to wait for",
                          HALAY_BELL_LINKS);
    enum halay_status status = halay_bell_open_event(bell);
    if (status == HALAY_OK)
        bell->links[bell->link_count++] = fd;
    return status;
}
