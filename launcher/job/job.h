/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: the ranks, from their start to the end of the last of their descendants.
 */
#ifndef HALAY_LAUNCHER_JOB_H
#define HALAY_LAUNCHER_JOB_H

#include "base/net/listen.h"
#include "launcher/cli/options.h"
#include "launcher/where/binding.h"
#include "launcher/where/layout.h"
#include <signal.h>

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

/* Runs in a process of its own, with all signals blocked. Returns halayrun's exit code, when nothing of the job is
 * left. */
int job_run(const struct job_setting *setting);

#endif
