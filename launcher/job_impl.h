/* SPDX-License-Identifier: Apache-2.0
 *
 * Job, inside view: what job.c, which runs it, and job_start.c, which starts it, share.
 */
#ifndef HALAY_LAUNCHER_JOB_IMPL_H
#define HALAY_LAUNCHER_JOB_IMPL_H

#include "base/address.h"
#include "base/store.h"
#include "launcher/crew.h"
#include "launcher/host_link.h"
#include "launcher/job.h"
#include "launcher/output.h"
#include <poll.h>

enum stage { RUNNING, STOPPING, KILLING, LEAVING };

struct rank {
    struct host_link *link; /* borrowed from job; NULL: it is here */
    pid_t pid;              /* on its host; 0 as long as it is not known */
    int is_running;
    int status;               /* of waitpid, once it has ended */
    struct stream streams[2]; /* standard output, standard error */
};

struct job {
    const struct job_setting *setting; /* borrowed */
    int size, running;
    struct rank *ranks;      /* owned */
    struct crew crew;        /* those that are here */
    struct host_link *links; /* owned */
    size_t link_count;
    struct link_events events;
    struct pollfd *fds; /* owned: FIXED_FDS + sinks + streams + links */
    struct output output;
    struct halay_store_server *store;       /* owned */
    char store_address[HALAY_ADDRESS_TEXT]; /* for the ranks of this host */
    unsigned char secret[HALAY_SECRET_BYTES];
    int secret_fd, signal_fd;
    int input_fd; /* what rank 0 on another host is to read; -1: nothing more */
    enum stage stage;
    int64_t deadline_us; /* HALAY_NEVER while RUNNING */
    int stop_signal;     /* halayrun was told to stop by it; 0: not */
    int exit_code;
    int is_orphaned;  /* the front has died */
    int has_given_up; /* the system has let us down, or a killed rank is stuck in the kernel */
};

/* job_start.c: in this order. 0, or an exit code (said). */
int job_make_links(struct job *job); /* one for each place that is elsewhere, and which ranks are its */
int job_open_store(struct job *job);
int job_call_others(struct job *job); /* blocks until the other hosts have answered */
int job_start_all(struct job *job);

#endif
