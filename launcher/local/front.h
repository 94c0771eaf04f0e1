/* SPDX-License-Identifier: Apache-2.0
 *
 * Front: the process that the user started, in front of the one that runs the job.
 */
#ifndef HALAY_LAUNCHER_FRONT_H
#define HALAY_LAUNCHER_FRONT_H

#include "base/net/listen.h"
#include "launcher/cli/options.h"
#include "launcher/where/binding.h"
#include "launcher/where/layout.h"
#include <signal.h>

/* What the job's process is told. */
struct job_setting {
    const struct options *options; /* borrowed */
    const struct layout *layout;   /* borrowed */
    const struct host_list *hosts; /* borrowed: where ranks may be; empty or NULL: here alone */
    const struct binding_map *map; /* borrowed: of this host's ranks */
    int local_seats;               /* how many ranks map is for */
    struct halay_network network;  /* where to listen for the other hosts, as the user says */
    const char *interface;         /* borrowed: the other hosts are offered the store by its addresses; NULL: by all */
    int peer_start_ms;             /* how long other hosts have to answer */
    struct halay_log *log;         /* borrowed */
    int cause_fd;    /* the first failure is written there: its host ("": this one), newline, lines; 0: nowhere */
    int lifeline;    /* readable (at its end) when halayrun's front has died: everything is killed then */
    int rank0_stdin; /* what rank 0 reads */
    int stopped_ms;  /* how long job or front may be stopped (SIGSTOP) before the other makes it go on; 0: for ever */
    const sigset_t *rank_signals; /* the mask that ranks begin with */
};

/* Forks the job's process, which is run (job_run, agent_run), and stands in front of it until it ends.
 * setting->lifeline, rank0_stdin and rank_signals are filled in here. Returns the exit code. */
int front_run(struct job_setting *setting, int (*run)(const struct job_setting *));

#endif
