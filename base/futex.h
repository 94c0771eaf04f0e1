/* SPDX-License-Identifier: Apache-2.0
 *
 * Futex: sleep until a word in memory changes, across processes.
 *
 * The word may lie in private memory or in a segment that several processes map at different addresses. The usual
 * pattern: the waker stores (release) and calls wake; the waiter loads, finds nothing to do, and calls wait with the
 * value that it loaded, which returns at once if the word has another value by then: no wake is lost.
 */
#ifndef HALAY_BASE_FUTEX_H
#define HALAY_BASE_FUTEX_H

#include "base/clock.h"
#include "halay_types.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleep while *word == seen, at most timeout_us (negative or HALAY_NEVER: for ever). HALAY_OK: look again (it changed,
 * or somebody woke this thread, or a signal came); HALAY_ERR_TIMEOUT. */
static inline enum halay_status halay_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us)
{
    struct timespec t = { 0 }, *timeout = NULL;

    if (timeout_us >= 0 && timeout_us != HALAY_NEVER) {
        t.tv_sec = (time_t)(timeout_us / 1000000);
        t.tv_nsec = (long)(timeout_us % 1000000) * 1000;
        timeout = &t;
    }
    if (syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout, NULL, 0) < 0 && errno == ETIMEDOUT)
        return HALAY_ERR_TIMEOUT;
    return HALAY_OK;
}

/* Wake at most `count` of those who sleep on the word (INT_MAX: all). Returns how many were woken. */
static inline int halay_futex_wake(_Atomic uint32_t *word, int count)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);

    return woken > 0 ? (int)woken : 0;
}

#endif
