/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks: a rank that others wait for shows where its program is. The library cannot know the stacks of an interpreter,
 * and must not wait for its lock, which a program that hangs may hold: so the program has a handler of a signal, and
 * this thread raises the signal for itself, which interrupts no call of the program.
 */
#include "fusion/observe/stacks.h"
#include "halay_tools.h"
#include <signal.h>
#include <unistd.h>

/* Returns nonzero if the program catches the signal, whose default would end it. */
static int has_handler(void)
{
    struct sigaction action;

    return !sigaction(HALAY_STACKS_SIGNAL, NULL, &action) && action.sa_handler != SIG_DFL &&
           action.sa_handler != SIG_IGN;
}

static void raise_here(void)
{
    sigset_t shown, before;

    sigemptyset(&shown);
    sigaddset(&shown, HALAY_STACKS_SIGNAL);
    pthread_sigmask(SIG_UNBLOCK, &shown, &before);
    raise(HALAY_STACKS_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void halay_stacks_show(const struct halay_context *ctx)
{
    int pid = (int)getpid();

    if (has_handler()) {
        halay_warning(ctx->log, "stalled: others wait for this rank, process %d; its stacks:", pid);
        raise_here();
    } else {
        halay_warning(ctx->log, "stalled: others wait for this rank; 'gdb -p %d' shows where it is", pid);
    }
}
