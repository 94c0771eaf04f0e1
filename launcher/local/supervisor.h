/* SPDX-License-Identifier: Apache-2.0
 *
 * Supervisor: the process that the user started, in front of the one that runs the job.
 */
#ifndef HALAY_LAUNCHER_SUPERVISOR_H
#define HALAY_LAUNCHER_SUPERVISOR_H

#include "base/net/listen.h"
#include "launcher/cli/options.h"
#include "launcher/where/binding.h"
#include "launcher/where/layout.h"
#include <signal.h>
#include <stdatomic.h>

/* The settings of the job's process. */
struct job_setting {
    struct options *options;       /* borrowed; ranks changes between starts if there is a range of nodes */
    struct layout *layout;         /* borrowed; changes with it */
    const struct host_list *hosts; /* borrowed: where ranks may run; empty or NULL: here only */
    const struct binding_map *map; /* borrowed: of this host's ranks */
    int local_workers;             /* how many ranks the map is for */
    struct halay_network network;  /* where to listen for other hosts, as the user chose */
    const char *interface; /* borrowed: other hosts get the store's addresses on this interface; NULL: all of them */
    int peer_start_ms;     /* how long other hosts may take to answer */
    int silence_ms;        /* after this time without a frame another host is given up */
    struct halay_log *log; /* borrowed */
    int cause_fd;          /* the first failure is written there: host ("": this one), newline, lines; 0: not written */
    int lifeline;          /* at its end, halayrun's supervisor has died: kill everything */
    int rank0_stdin;       /* what rank 0 reads */
    atomic_uint *typed;    /* shared by both processes: lines typed on the terminal so far; NULL: it is not one */
    int stopped_ms; /* how long job or supervisor may be stopped (SIGSTOP) before the other continues it; 0: forever */
    const sigset_t *rank_signals; /* the signal mask that ranks start with */
    int was_killed;               /* a signal ended the job's process, which could say nothing more */
};

/* Forks the job's process, which calls run (job_run, agent_run), and watches it until it ends. Fills in
 * setting->lifeline, rank0_stdin, typed, rank_signals and was_killed. Returns the exit code. */
int supervisor_run(struct job_setting *setting, int (*run)(const struct job_setting *));

#endif
