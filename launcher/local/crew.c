/* SPDX-License-Identifier: Apache-2.0
 *
 * Crew: a table of process groups.
 */
#include "launcher/local/crew.h"
#include "launcher/local/processes.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

int crew_init(struct crew *crew, int count)
{
    *crew = (struct crew){ calloc((size_t)count, sizeof *crew->leaders), count };
    return crew->leaders != NULL;
}

void crew_fini(struct crew *crew)
{
    free(crew->leaders);
    *crew = (struct crew){ 0 };
}

int crew_open_signals(void)
{
    sigset_t all;

    sigfillset(&all);
    return signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

void crew_add(struct crew *crew, int member, pid_t leader)
{
    crew->leaders[member] = leader;
}

void crew_signal_one(const struct crew *crew, int member, int signal)
{
    if (crew->leaders[member])
        kill(-crew->leaders[member], signal);
}

void crew_signal(const struct crew *crew, int signal)
{
    for (int i = 0; i < crew->count; i++)
        if (crew->leaders[i])
            kill(-crew->leaders[i], signal);
}

pid_t crew_reap(struct crew *crew, int *member, int *status)
{
    pid_t pid = waitpid(-1, status, WNOHANG);

    if (pid <= 0)
        return 0;
    *member = crew->count - 1;
    while (*member >= 0 && crew->leaders[*member] != pid)
        --*member;
    if (*member >= 0)
        crew->leaders[*member] = 0;
    return pid;
}

int crew_end_leftovers(int (*turn)(void *context), void *context)
{
    if (turn && processes_signal_descendants(SIGTERM) > 0)
        while (turn(context) && processes_signal_descendants(0) > 0)
            ;
    return processes_end_descendants();
}
