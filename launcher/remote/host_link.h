/* SPDX-License-Identifier: Apache-2.0
 *
 * Host link: halayrun's connection with one other host: the ssh to it, and the frames exchanged with the agent there
 * (frame.h, agent.h). Where that host has joined (join.h) a process that carries its tunnels is in ssh's place.
 *
 *     CALLING -- the agent has greeted --> READY -- link_start --> RUNNING -- ssh has ended --> ENDED
 *
 * A dead host is noticed in three places: its ssh ends (job.c, link_ended); it stays silent (is_silent, which
 * link_progress sets and job.c's progress_links checks); or it never answers (call_hosts.c, report_failed_hosts). The
 * first two end in job.c's host_lost. The agent notices that it is cut off by itself (agent.c, is_alone).
 *
 * One thread; nothing blocks. Events are delivered from within link_progress and link_reaped.
 */
#ifndef HALAY_LAUNCHER_HOST_LINK_H
#define HALAY_LAUNCHER_HOST_LINK_H

#include "base/loop.h"
#include "launcher/common/buffer.h"
#include "launcher/remote/host_plan.h"
#include "launcher/remote/tunnel.h"
#include <stdint.h>
#include <sys/types.h>

enum link_state { LINK_CALLING, LINK_READY, LINK_RUNNING, LINK_ENDED };

struct host_link;

struct link_events {
    void (*started)(void *context, int rank, int pid, const char *processors);
    void (*wrote)(void *context, int rank, int which, const char *bytes, size_t count); /* which: 0 output, 1 error */
    void (*ended)(void *context, int rank, int status);                                 /* from waitpid */
    void (*printed)(void *context, const char *host, const char *line, int is_detail);  /* is_detail: for --verbose */
    void (*found_master)(void *context, const char *address, int port);                 /* master.h */
    /* From that host; rank below 0: of the host itself. bytes are as the agent sent them. */
    void (*sampled)(void *context, const struct host_link *link, int rank, const void *bytes, size_t count);
    void (*fetched)(void *context, int rank, const void *bytes, size_t count); /* a rank's record */
    void *context;
};

struct host_link {
    const char *host;                  /* borrowed: as it was named, with user@ */
    int first, count;                  /* its ranks */
    const struct tunnel_pair *tunnels; /* borrowed: in ssh's place; NULL: ssh */
    enum link_state state;
    const struct link_events *events; /* borrowed */
    pid_t ssh;
    int in, out, err;               /* our ends: of its standard input, output and error; -1 when closed */
    struct buffer to, from, errors; /* errors: the beginning of a line of standard error whose end has not come yet */
    char *reason;                   /* owned: the newest line that explains why it failed; NULL */
    int status;                     /* from waitpid, when ENDED */
    int64_t received_us, sent_us;
    size_t untaken;     /* bytes of input that the agent has not passed to rank 0 yet */
    int64_t doubted_us; /* when ranks elsewhere lost one of its ranks, and it has been silent since; 0: not */
    int silence_ms;     /* of the plan */
    int has_begun;      /* the agent has sent a frame; it sends none while it prepares */
    int is_silent;      /* silent for too long */
};

/* Forks ssh; args: its command line, NULL at the end; not used if there are tunnels. Returns 0, or 1 (reported): a
 * system call failed. link->host, first, count and tunnels are set. */
int link_call(struct host_link *link, char *const *args, const struct link_events *events);
/* READY to RUNNING: sends what to start. Returns 0 without memory. */
int link_start(struct host_link *link, const struct host_plan *plan);
/* At any time; ignored if the agent no longer listens. */
void link_signal(struct host_link *link, int signal);
void link_signal_rank(struct host_link *link, int rank, int signal);
void link_fetch(struct host_link *link, int rank); /* its record arrives as an event */
void link_keep(struct host_link *link);            /* the ranks' records stay there, since the job has failed */
void link_kill(struct host_link *link);
/* Kills its ssh, or what is in ssh's place, if there is one. It is reaped like any other. */
void link_end_ssh(const struct host_link *link);
void link_input(struct host_link *link, const char *bytes, size_t count); /* for rank 0; none: the end */
void link_close(struct host_link *link, int rank, int which);             /* that has no reader any more */
int link_is_full(const struct host_link *link);                           /* give it no more input for now */
/* Ranks of other hosts have lost one of its ranks: if it is silent, too, it is given up sooner. */
void link_doubt(struct host_link *link);
int link_is_doubted(const struct host_link *link);
/* How long the caller's loop may wait before it calls link_progress. */
int link_patience_ms(const struct host_link *link);

/* Names what to wait for before link_progress. is_open: its ranks' output can be taken now. */
void link_watch(const struct host_link *link, int is_open, struct halay_loop *loop);
/* Reads, delivers, writes. is_open as above: ranks' output is delivered only then. */
void link_progress(struct host_link *link, int is_open);
/* ssh has been reaped: deliver the rest of what it wrote; then the link is ENDED. */
void link_reaped(struct host_link *link, int status);
/* Why it ended or does not answer, in one line. */
void link_explain(const struct host_link *link, char *text, size_t size);
void link_fini(struct host_link *link); /* begun with zeros; does not end the process */

#endif
