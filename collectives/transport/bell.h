/* SPDX-License-Identifier: Apache-2.0
 *
 * Bell: the one thing that a process sleeps on, whatever it waits for: stores of its host's ranks into shared memory,
 * descriptors of its links, its own threads. Ringing it costs one load while the process is awake.
 *
 * The word, in shared memory or, where none is shared, in the bell itself:
 *
 *     31                    2     1      0
 *     +----------------------+------+-------+
 *     | how often it rang    | POLL | FUTEX |     both bits 0: awake
 *     +----------------------+------+-------+
 *
 *     sleeper                                       ringer
 *     S1  set FUTEX, or POLL; token = count         R1  store what the sleeper waits for (release)
 *     S2  full barrier                              R2  barrier
 *     S3  links: arm                                R3  awake? done
 *     S4  look at everything once more              R4  in one exchange: count + 1, both bits 0
 *     S5  nothing: sleep while count == token       R5  FUTEX was set: wake the word; POLL: write the eventfd
 *     S6  clear both bits
 *
 * FUTEX is the mode of a bell without descriptors. A bell that watches any polls them together with its eventfd, which
 * every rank of the host has received with its segment.
 *
 * No wake-up is lost between R1 and S4. Two full barriers, S2 and R2, order each side's store before its load, so one
 * of the two sees the other's store: either R3 sees the bit, or S4 sees R1. R2 would be paid for every message: it
 * waits for the store buffer, which holds the line that the peer is reading. So where the kernel can, the sleeper pays
 * for both: membarrier in S2 makes every running thread of every registered process pass a full barrier (those not
 * running did when they were switched), and R2 is left to the compiler alone. All ranks of the host must agree on that:
 * a rank that cannot register makes all of them use full barriers.
 *
 * Nor between R4 and S5. The rank that clears the bit in R4 is the one that wakes; others see 0 and continue. FUTEX:
 * the kernel compares the whole word with what S5 loaded, which has the token in it, so a sleeper that has not got
 * there by R4 does not sleep, and one that has is woken by R5. POLL:
 *
 *     sleep   P1  sleepers + 1 (lock)                        R4  count + 1
 *             P2  count is still the token?                  R5  write the eventfd
 *             P3  poll the eventfd and the links
 *             P4  sleepers - 1; the last one that finds the eventfd readable empties it (lock)
 *
 * A sleeper whose P2 is before R4 has passed P1 before R5, so no thread empties the eventfd between R5 and its P3:
 * P3 ends. A sleeper whose P2 is after R4 does not poll. What R5 writes after its sleeper has gone makes the next
 * sleep return at once, once.
 *
 * Several threads of a process may sleep at once: one that drives, and others that lost that role in their sleep.
 * The thread that drives clears the bits (S6) and sets them anew, so peers ring for it; halay_bell_wake, from the
 * process's own threads, counts and wakes whether a bit is set or not, so it ends the sleep of every thread that had
 * taken its token by then.
 *
 * References: membarrier(2) (MEMBARRIER_CMD_GLOBAL_EXPEDITED), futex(2), eventfd(2).
 */
#ifndef HALAY_BELL_H
#define HALAY_BELL_H

#include "base/log.h"
#include "base/memory.h"
#include "base/sync.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    HALAY_BELL_FUTEX = 1,
    HALAY_BELL_POLL = 2,
    HALAY_BELL_ASLEEP = HALAY_BELL_FUTEX | HALAY_BELL_POLL,
    HALAY_BELL_LINKS = 4, /* descriptors that a bell can watch */
};

/* Read by every rank of the host; written when its owner falls asleep and when it is woken. */
struct halay_bell_word {
    _Atomic uint32_t state; /* in shared memory on a line of its own */
};

/* Another rank's bell, as it is rung from here. */
struct halay_bell_peer {
    struct halay_bell_word *word; /* borrowed: in its segment */
    int event_fd;                 /* owned; -1 if it never polls */
};

struct halay_bell {
    struct halay_log *log; /* borrowed */
    struct halay_bell_word own;
    struct halay_bell_word *word; /* own, or borrowed: in this rank's segment */
    int has_barrier;              /* the ringers leave their barrier to this rank */
    int event_fd;                 /* owned; -1 until there is a use for it */
    int links[HALAY_BELL_LINKS];  /* borrowed: descriptors; these change only while no thread sleeps */
    int link_count;
    pthread_mutex_t lock; /* nothing else is taken under it */
    int sleepers;         /* in P1 to P4; guarded by lock */
};

void halay_bell_init(struct halay_bell *bell, struct halay_log *log);
void halay_bell_fini(struct halay_bell *bell);

/* From here on the bell's word is this one, in shared memory; NULL: its own. No thread sleeps. */
void halay_bell_place(struct halay_bell *bell, struct halay_bell_word *word, int has_barrier);

/* End sleeps when this descriptor is readable, from now on. HALAY_ERR_SYSTEM (logged), also for one too many. */
enum halay_status halay_bell_watch(struct halay_bell *bell, int fd);
/* Open the eventfd, to be handed to the ranks of this host. HALAY_ERR_SYSTEM (logged). */
enum halay_status halay_bell_open_event(struct halay_bell *bell);

/* S1 and S2. Then the caller looks at everything once more, and calls sleep, or disarm if it found something. */
uint32_t halay_bell_arm(struct halay_bell *bell);
void halay_bell_disarm(struct halay_bell *bell);
/* S5: until something may have happened, at most timeout_us (negative: a second, to look at the peers). Touches nothing
 * but the bell, and does not disarm: the thread that still drives after it does. */
void halay_bell_sleep(struct halay_bell *bell, uint32_t token, long timeout_us);
/* End the sleeps of this process's threads. Any thread. */
void halay_bell_wake(struct halay_bell *bell);

/* ---- what rings no bell ---- */

enum {
    HALAY_UNRUNG_AWAKE_US = 200,
    HALAY_UNRUNG_MIN_US = 50,
    HALAY_UNRUNG_MAX_US = 1000,
};

/* Returns how long to sleep at most while what cannot ring is under way: a link without a descriptor, work of a device.
 * 0: yield and look again. idle_us: since it moved last. From 400 us to 8 ms a look is late by an eighth at most. */
static inline long halay_unrung_sleep_us(int64_t idle_us)
{
    int64_t eighth = idle_us / 8;

    if (idle_us < HALAY_UNRUNG_AWAKE_US)
        return 0;
    if (eighth < HALAY_UNRUNG_MIN_US)
        return HALAY_UNRUNG_MIN_US;
    return eighth < HALAY_UNRUNG_MAX_US ? (long)eighth : HALAY_UNRUNG_MAX_US;
}

/* ---- ringing another rank's ---- */

/* R4 and R5, whether R3 was asked or not. */
void halay_bell_ring(const struct halay_bell_peer *peer);

/* Registers this process; nonzero if membarrier can be used by it. */
int halay_bell_register(void);

/* R2; also wherever else a store must not be overtaken by a load of what a sleeper stored before S2. */
static inline void halay_bell_light_barrier(int has_barrier)
{
    if (has_barrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        halay_full_fence();
}

/* S2: pairs with the light ones of all ranks. 0: it could not be made, once in a long while. */
int halay_bell_heavy_barrier(int has_barrier);

/* After R1. */
static inline void halay_bell_notify(const struct halay_bell_peer *peer, int has_barrier)
{
    halay_bell_light_barrier(has_barrier);
    if (atomic_load_explicit(&peer->word->state, memory_order_relaxed) & HALAY_BELL_ASLEEP)
        halay_bell_ring(peer);
}

#endif
