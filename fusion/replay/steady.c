/* SPDX-License-Identifier: Apache-2.0
 *
 * Steady submissions: the handshake of steady.h.
 *
 * A submission that claims its turn and a plan that is left both change the word by a read-modify-write, so one of them
 * is first and the other one sees it. BUSY covers what a submission writes after that: its release lets a plan that is
 * left, which waits for it, see the bucket's counts.
 */
#include "fusion/replay/steady.h"
#include "base/sync.h"
#include "fusion/replay/plan_bucket.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/requests.h"
#include <sched.h>
#include <stdlib.h>

static uint64_t turn_of(uint64_t word)
{
    return word >> HALAY_STEADY_TURN_SHIFT;
}

/* Returns the word of the next turn: submitted, so in flight. */
static uint64_t next_turn(uint64_t word, unsigned flags)
{
    return (turn_of(word) + 1) << HALAY_STEADY_TURN_SHIFT | flags;
}

/* Valid for the turn of a word that was loaded before (acquire) and is unchanged. */
static struct halay_plan_bucket *bucket_of(struct halay_request *r)
{
    return atomic_load_explicit(&r->steady, memory_order_relaxed);
}

int halay_steady_claim(struct halay_request *r, int holds)
{
    uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);

    if (word & (HALAY_STEADY_BUSY | HALAY_STEADY_HELD | HALAY_STEADY_MOVED) ||
        turn_of(word) != atomic_load_explicit(&bucket_of(r)->released, memory_order_acquire))
        return 0;
    /* The turn belongs to one plan: if the word is still the same, so is the bucket. */
    uint64_t taken = next_turn(word, HALAY_STEADY_BUSY | (holds ? HALAY_STEADY_HELD : 0));
    return atomic_compare_exchange_strong_explicit(&r->word, &word, taken, memory_order_acq_rel, memory_order_relaxed);
}

void halay_steady_unclaim(struct halay_request *r)
{
    uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed); /* BUSY: no other thread changes it */

    atomic_store_explicit(&r->word, (turn_of(word) - 1) << HALAY_STEADY_TURN_SHIFT, memory_order_release);
}

struct halay_plan_bucket *halay_steady_commit(struct halay_request *r, const void *in, void *out,
                                              halay_callback callback, void *arg)
{
    struct halay_plan_bucket *b = bucket_of(r);

    if (r->in != in || r->out != out) {
        r->in = in;
        r->out = out;
        atomic_store_explicit(&b->is_changed, 1, memory_order_relaxed);
    }
    r->callback = callback;
    r->arg = arg;
    if (callback && !atomic_load_explicit(&b->has_callbacks, memory_order_relaxed))
        atomic_store_explicit(&b->has_callbacks, 1, memory_order_relaxed);
    /* acq_rel: the last one passes on what all have written. */
    int is_last = atomic_fetch_sub_explicit(&b->missing, 1, memory_order_acq_rel) == 1;
    /* BUSY: no other thread changes it. */
    uint64_t word = atomic_load_explicit(&r->word, memory_order_relaxed);
    atomic_store_explicit(&r->word, word & ~(uint64_t)HALAY_STEADY_BUSY, memory_order_release);
    return is_last ? b : NULL;
}

enum halay_status halay_request_status(struct halay_request *r)
{
    for (;;) {
        uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);
        if ((word & (HALAY_STEADY_MOVED | HALAY_STEADY_DONE)) == HALAY_STEADY_MOVED)
            return (enum halay_status)atomic_load_explicit(&r->status, memory_order_acquire);
        uint64_t completed = atomic_load_explicit(&bucket_of(r)->completed, memory_order_acquire);
        if (atomic_load_explicit(&r->word, memory_order_relaxed) == word)
            return completed >= turn_of(word) ? HALAY_OK : HALAY_IN_PROGRESS;
    }
}

int halay_steady_free(struct halay_request *r)
{
    uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);

    while (!(word & HALAY_STEADY_MOVED))
        if (atomic_compare_exchange_weak_explicit(&r->word, &word, word & ~(uint64_t)HALAY_STEADY_HELD,
                                                  memory_order_acq_rel, memory_order_acquire))
            return 1;
    return 0;
}

int halay_steady_is_in_flight(struct halay_request *r)
{
    uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire);

    return !(word & HALAY_STEADY_MOVED) &&
           turn_of(word) != atomic_load_explicit(&bucket_of(r)->released, memory_order_acquire);
}

int halay_steady_leave_locked(struct halay_request *r, int stays)
{
    uint64_t word = atomic_load_explicit(&r->word, memory_order_acquire), left;
    const struct halay_plan_bucket *b = bucket_of(r);

    for (unsigned looks = 0;; looks++) {
        int is_done = atomic_load_explicit(&b->released, memory_order_acquire) >= turn_of(word);
        if (!is_done && stays)
            return 1;
        if (word & HALAY_STEADY_BUSY) { /* a few instructions, unless that thread has lost its processor */
            looks % 64 ? halay_relax() : (void)sched_yield();
            word = atomic_load_explicit(&r->word, memory_order_acquire);
            continue;
        }
        left = word | HALAY_STEADY_MOVED | (is_done ? HALAY_STEADY_DONE : 0);
        if (!atomic_compare_exchange_weak_explicit(&r->word, &word, left, memory_order_acq_rel, memory_order_acquire))
            continue;
        r->ordinal = r->entry->submissions += turn_of(word) - r->attached;
        return !is_done;
    }
}

/* ---- of an entry ---- */

void halay_steady_attach_locked(struct halay_entry *entry, struct halay_request *r)
{
    struct halay_plan_bucket *b = entry->planned;
    uint64_t turn = atomic_load_explicit(&b->released, memory_order_relaxed);

    /* Relaxed: the driver reads it after a submission of r, which follows the release below. */
    atomic_store_explicit(&b->is_changed, 1, memory_order_relaxed);
    r->attached = turn;
    atomic_store_explicit(&r->steady, b, memory_order_relaxed);
    atomic_store_explicit(&r->word, turn << HALAY_STEADY_TURN_SHIFT, memory_order_release);
    atomic_store_explicit(&entry->steady, r, memory_order_release);
}

/* Returns a request for one reference: the entry's idle one, or one of the pool. NULL: no memory. */
static struct halay_request *take_idle_locked(struct halay_entry *entry)
{
    struct halay_request *r = halay_steady_of(entry);

    if (!r || atomic_load_explicit(&r->references, memory_order_acquire) != 1) {
        halay_steady_drop_locked(entry);
        r = halay_request_get_locked(entry->set->ctx);
        if (r)
            atomic_store_explicit(&r->references, 1, memory_order_relaxed);
        return r;
    }
    atomic_store_explicit(&entry->steady, NULL, memory_order_relaxed);
    free(r->text);
    free(r->held);
    halay_request_reset(r);
    return r;
}

struct halay_request *halay_steady_get_locked(struct halay_entry *entry, uint64_t order, int *is_new)
{
    struct halay_request *r = halay_steady_of(entry);

    *is_new = 0;
    if (!entry->planned || !entry->planned->is_open || halay_collective_goes_by_rows(entry->agreed.collective))
        return NULL;
    if (r && halay_steady_is_in_plan(r)) {
        if (!halay_steady_is_held(r) && r->order == order)
            return r;
        /* The program has kept it, and owns it from now on; or the name's registration is another one. */
        if (!halay_steady_drop_locked(entry))
            return NULL;
    }
    *is_new = 1;
    return take_idle_locked(entry);
}

int halay_steady_drop_locked(struct halay_entry *entry)
{
    struct halay_request *r = halay_steady_of(entry);

    if (!r)
        return 1;
    int was_in_plan = halay_steady_is_in_plan(r);
    if (was_in_plan && halay_steady_leave_locked(r, 1))
        return 0;
    atomic_store_explicit(&entry->steady, NULL, memory_order_relaxed);
    r->entry = NULL;
    if (!was_in_plan || !halay_steady_is_held(r)) /* else the reference is the program's */
        halay_request_put_locked(r);
    return 1;
}
