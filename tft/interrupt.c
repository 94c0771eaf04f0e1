/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: the one variable that a signal's handler may write. Programs own their signals, so this is no part of a
 * library.
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

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old, action = { .sa_handler = note, .sa_flags = SA_RESTART | SA_RESETHAND };
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(numbers[i], &action, NULL); /* cannot fail: the numbers are good */
    }
}

int tft_interrupt_seen(void)
{
    return atomic_load_explicit(&seen, memory_order_relaxed);
}
