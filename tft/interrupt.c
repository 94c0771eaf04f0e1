/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: the one variable that a signal's handler may write. Programs own their signals, so this is no part of a
 * library.
 *
 * The handler has a stack of its own: the system would else write its frame (3 KB with AVX-512) below the stack of what it
 * interrupts, and a matrix product's machine code that keeps something there would go on with it overwritten. The main thread,
 * which the system prefers, is the one that has it.
 */
#include "tft/interrupt.h"
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int seen; /* without a lock, so that a handler may write it; relaxed: it says nothing of other memory */

static void note(int number)
{
    atomic_store_explicit(&seen, number, memory_order_relaxed);
}

void tft_interrupt_watch(void)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    static char stack[65536];
    stack_t own = { .ss_sp = stack, .ss_size = sizeof stack }, before;

    if (!sigaltstack(NULL, &before) && before.ss_flags & SS_DISABLE)
        sigaltstack(&own, NULL); /* cannot fail: it is large enough, and not in use */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old, action = { .sa_handler = note, .sa_flags = SA_RESTART | SA_RESETHAND | SA_ONSTACK };
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL); /* cannot fail: the numbers are good */
    }
}

int tft_interrupt_seen(void)
{
    return atomic_load_explicit(&seen, memory_order_relaxed);
}
