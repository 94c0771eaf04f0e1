/* SPDX-License-Identifier: Apache-2.0
 *
 * Local ranks: a table of process groups.
 */
#include "launcher/local/local_ranks.h"
#include "base/loop.h"
#include "launcher/local/processes.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

int local_ranks_init(struct local_ranks *ranks, int count)
{
    *ranks = (struct local_ranks){ calloc((size_t)count, sizeof *ranks->leaders), count };
    return ranks->leaders != NULL;
}

void local_ranks_fini(struct local_ranks *ranks)
{
    free(ranks->leaders);
    *ranks = (struct local_ranks){ 0 };
}

int local_ranks_open_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    return halay_signals_open(&all, NULL);
}

void local_ranks_add(struct local_ranks *ranks, int member, pid_t leader)
{
    ranks->leaders[member] = leader;
}

void local_ranks_signal_one(const struct local_ranks *ranks, int member, int signal)
{
    if (ranks->leaders[member])
        kill(-ranks->leaders[member], signal);
}

void local_ranks_signal(const struct local_ranks *ranks, int signal)
{
    for (int i = 0; i < ranks->count; i++)
        if (ranks->leaders[i])
            kill(-ranks->leaders[i], signal);
}

pid_t local_ranks_reap(struct local_ranks *ranks, int *member, int *status)
{
    pid_t pid = waitpid(-1, status, WNOHANG);

    if (pid <= 0)
        return 0;
    *member = ranks->count - 1;
    while (*member >= 0 && ranks->leaders[*member] != pid)
        --*member;
    if (*member >= 0)
        ranks->leaders[*member] = 0;
    return pid;
}

int local_ranks_end_leftovers(int (*turn)(void *context), void *context)
{
    if (turn && processes_signal_descendants(SIGTERM) > 0)
        while (turn(context) && processes_signal_descendants(0) > 0)
            ;
    return processes_end_descendants();
}
