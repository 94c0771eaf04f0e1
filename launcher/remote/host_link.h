/* SPDX-License-Identifier: Apache-2.0
 *
 * Host link: halayrun's side of one other host: the ssh to it, and the frames with the agent there (frame.h, agent.h).
 *
 *     CALLING -- the agent has greeted --> READY -- link_start --> RUNNING -- ssh has ended --> ENDED
 *
 * One thread; nothing blocks. What happens there comes back through the events, from within link_progress and
 * link_reaped.
 */
#ifndef HALAY_LAUNCHER_HOST_LINK_H
#define HALAY_LAUNCHER_HOST_LINK_H

#include "launcher/common/buffer.h"
#include "launcher/remote/host_plan.h"
#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

enum link_state { LINK_CALLING, LINK_READY, LINK_RUNNING, LINK_ENDED };

struct link_events {
    void (*started)(void *context, int rank, int pid, const char *processors);
    void (*wrote)(void *context, int rank, int which, const char *bytes, size_t count); /* which: 0 output, 1 error */
    void (*ended)(void *context, int rank, int status);                                 /* of waitpid */
    void (*said)(void *context, const char *host, const char *line, int is_detail);     /* is_detail: for --verbose */
    void *context;
};

struct host_link {
    const char *host; /* borrowed: as it was named, with user@ */
    int first, count; /* its ranks */
    enum link_state state;
    const struct link_events *events; /* borrowed */
    pid_t ssh;
    int in, out, err; /* ours: write end of its standard input, read ends of its output and error; -1 when closed */
    struct buffer to, from, words; /* words: of a line of standard error that has not come whole */
    char *reason;                  /* owned: the first line that explains why it failed; NULL */
    int status;                    /* of waitpid, when ENDED */
    int64_t heard_us, said_us;
    size_t untaken; /* bytes of input that the agent has not passed to rank 0 yet */
    int64_t
        doubted_us; /* since then ranks elsewhere have lost one of it, or failed, and nothing has been heard; 0: not */
    int is_silent;  /* nothing has been heard for SILENCE_MS, or DOUBT_MS */
};

/* Fork ssh; words: its command line, NULL at the end. 0, or 1 (said): the system refuses. link says host, first and
 * count. */
int link_call(struct host_link *link, char *const *words, const struct link_events *events);
/* READY to RUNNING: what the agent shall do. 0 if there is no memory. */
int link_start(struct host_link *link, const struct plan *plan);
/* Any time; nothing happens if the agent does not listen any more. */
void link_signal(struct host_link *link, int signal);
void link_signal_rank(struct host_link *link, int rank, int signal);
void link_kill(struct host_link *link);
void link_input(struct host_link *link, const char *bytes, size_t count); /* for rank 0; none: the end */
void link_close(struct host_link *link, int rank, int which);             /* nobody reads that any more */
int link_is_full(const struct host_link *link);                           /* give it no more input for now */
/* Ranks of other hosts have lost one of its: if nothing is heard of it either it is silent sooner. */
void link_doubt(struct host_link *link);
int link_is_doubted(const struct host_link *link);
/* How long the loop may wait until it calls progress. */
int link_patience_ms(const struct host_link *link);

enum { LINK_FDS = 3 };
/* What to poll for; is_open: its ranks' output can be taken now. Always LINK_FDS entries. */
void link_watch(const struct host_link *link, int is_open, struct pollfd *fds);
/* Read, deliver, write. is_open as above: nothing that ranks wrote is delivered otherwise. */
void link_progress(struct host_link *link, int is_open);
/* ssh has been waited for: delivers what it had said, then is ENDED. */
void link_reaped(struct host_link *link, int status);
/* Why it ended or does not answer, in one line. */
void link_explain(const struct host_link *link, char *text, size_t size);
void link_fini(struct host_link *link); /* begun with zeros; the process is the caller's to end */

#endif
