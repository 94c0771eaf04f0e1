/* SPDX-License-Identifier: Apache-2.0
 *
 * Sync: for threads and processes that share memory, besides atomics: a full fence, a pause, a prefetch for writing,
 * and a sleep until a word changes (futex).
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

/* A full memory barrier. GCC warns that ThreadSanitizer does not model fences; between processes it sees nothing
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

/* Pauses in a loop that waits for memory to change. */
static inline void halay_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Prefetches a line that another core modified last, to write it. One transfer instead of two (read it, then own it),
 * and no stall. Does nothing where the processor has no such instruction. The compiler's built-in only reads, unless it
 * knows from its options that prefetchw exists. */
static inline void halay_prefetch_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

/*
 * Futex: the word may be in private memory or in a segment that several processes map at different addresses. The
 * usual pattern: the waker stores (release) and calls wake; the waiter loads, finds nothing to do, and calls wait with
 * the value that it loaded, which returns at once if the word has another value by then: no wake is lost.
 */

/* Sleeps while *word == seen, at most timeout_us (negative or HALAY_NEVER: forever). HALAY_OK: look again (the word
 * changed, or another thread or a signal woke this one); HALAY_ERR_TIMEOUT. */
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

/* Wakes at most `count` threads that sleep on the word (INT_MAX: all). Returns the number woken. */
static inline int halay_futex_wake(_Atomic uint32_t *word, int count)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);

    return woken > 0 ? (int)woken : 0;
}

#endif
