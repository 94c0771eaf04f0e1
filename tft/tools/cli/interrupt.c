/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: the variables that a signal handler writes. Programs own their signals, so this belongs in no library.
 *
 * The handler has a stack of its own. Otherwise the kernel would write its frame (3 KB with AVX-512) below the
 * interrupted code's stack pointer, where generated code of a matrix product may keep data, which would be overwritten.
 * The main thread has that stack, since the kernel prefers it for signals.
 */
#include "base/clock.h"
#include "tft/tools/cli/session.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* A batch system signals every process, and the launcher that it signals does so too. */
enum { ONE_EVENT_US = 1000000 };

static struct halay_tft *_Atomic session; /* that signals ask to stop; NULL: none. Set before signals are watched */
/* Lock-free, so that a handler may write it; relaxed: it publishes no other memory. */
static _Atomic int64_t first_us[SIGTERM + 1]; /* time of the first signal; 0 before */

static void note(int number)
{
    struct halay_tft *tft = atomic_load(&session);

    if (tft)
        halay_tft_stop(tft, number);
}

/* The second signal gets the default action as soon as this handler has returned. */
static void note_first(int number)
{
    int64_t now_us = halay_now_us(), before_us = 0;

    if (atomic_compare_exchange_strong_explicit(&first_us[number], &before_us, now_us, memory_order_relaxed,
                                                memory_order_relaxed)) {
        note(number);
    } else if (now_us - before_us >= ONE_EVENT_US) {
        signal(number, SIG_DFL); /* cannot fail: the number is good */
        raise(number);
    }
}

void tft_interrupt_forget(void)
{
    atomic_store(&session, NULL);
}

void tft_interrupt_watch(struct halay_tft *tft)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGUSR1 };
    static char stack[65536];
    stack_t own = { .ss_sp = stack, .ss_size = sizeof stack }, before;

    atomic_store(&session, tft);
    if (!sigaltstack(NULL, &before) && before.ss_flags & SS_DISABLE)
        sigaltstack(&own, NULL); /* cannot fail: it is large enough and not in use */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old, action = { .sa_handler = note_first, .sa_flags = SA_RESTART | SA_ONSTACK };
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL); /* cannot fail: the numbers are good */
    }
}

void tft_interrupt_watch_also(int number)
{
    struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESTART | SA_ONSTACK };

    sigaction(number, &action, NULL); /* cannot fail: the number is good */
}
