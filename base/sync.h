/* SPDX-License-Identifier: Apache-2.0
 *
 * Sync: what threads and processes that share memory need besides atomics: a full fence, a pause, a prefetch for
 * writing, and sleeping until a word changes (futex).
 */
#ifndef HALAY_BASE_SYNC_H
#define HALAY_BASE_SYNC_H

#include "base/clock.h"
#include "halay_types.h"
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A full memory barrier. ThreadSanitizer does not know fences and says so; between processes it has nothing to see
 * anyway. */
static inline void halay_full_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

/* This is a loop that waits for memory to change. */
static inline void halay_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Have a line that another core modified last brought here, to be written. One trip instead of two (read it, then own
 * it), and nobody waits for it. Where the processor has no such instruction it does nothing. The compiler's own
 * built-in reads only unless it is told that prefetchw exists. */
static inline void halay_prefetch_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

/*
 * Futex: the word may lie in private memory or in a segment that several processes map at different addresses. The
 * usual pattern: the waker stores (release) and calls wake; the waiter loads, finds nothing to do, and calls wait with
 * the value that it loaded, which returns at once if the word has another value by then: no wake is lost.
 */

/* Sleep while *word == seen, at most timeout_us (negative or HALAY_NEVER: forever). HALAY_OK: look again (it changed,
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
