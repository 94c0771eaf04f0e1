/* SPDX-License-Identifier: Apache-2.0
 *
 * Join: halayrun runs on every node of a job, and all of them start it together, without ssh.
 *
 *     node 0 leads: it listens until the others have joined, then runs the job: the store, all output
 *        |  tunnels (tunnel.h), in ssh's place, opened by the others
 *     node 1 follows: it calls node 0, gets the order to begin, is the agent of its ranks, and learns how the job ended
 *
 * join_talk.h has their messages. Every node ends with the job's exit code.
 */
#ifndef HALAY_LAUNCHER_JOIN_H
#define HALAY_LAUNCHER_JOIN_H

#include "base/log.h"
#include "base/store/store.h"
#include "launcher/cli/options.h"
#include "launcher/remote/join_talk.h"
#include <limits.h>

enum { JOIN_PORT = 7778, JOIN_START_MS = 15 * 60 * 1000 }; /* unless the user gives another port, another time */

/* How one node takes part. */
struct join {
    struct halay_log *log; /* borrowed */
    const char *leader;    /* borrowed: name or address of node 0 */
    const char *name;      /* borrowed: of this host */
    const char *command;   /* borrowed: the program and its arguments, as text; "": not given */
    const char *interface; /* borrowed: where node 0 listens; NULL: at its address, if that is one */
    int port;
    int nodes;     /* of the job, at most; 0: this follower does not know */
    int least;     /* of a range; otherwise as nodes */
    int node;      /* this one's number; -1: in order of arrival */
    int ranks;     /* of this node */
    int is_chosen; /* the user has given ranks; else node 0's choice counts */
    int start_ms;  /* how long to wait for each other */
    unsigned char secret[HALAY_SECRET_BYTES];
    char own_secret[PATH_MAX]; /* the user's own file, which it is from (join_secret.h); "": it is not */
};

struct join_result {
    int code;
    char text[TALK_TEXT_MAX]; /* host of the first cause, newline, the lines about it; "": no failure */
};

/* Leads as node 0: waits for the others, lets run start the job with options->joined, and reports to them how it ended.
 * run writes the first cause of a failure to cause_fd, in the form of join_result's text. options->dry_run waits for no
 * node. *result is always filled in; errors have been reported. */
void join_lead(const struct join *join, struct options *options,
               int (*run)(struct halay_log *log, struct options *options, int cause_fd), struct join_result *result);

/* Takes part as one of the other nodes. Blocks until the job has ended, or node 0 is lost. *result as above. */
void join_follow(const struct join *join, struct join_result *result);

/* halayrun --join: do what the options ask for: halayrun's exit code. */
int join_run(struct halay_log *log, struct options *options,
             int (*run)(struct halay_log *log, struct options *options, int cause_fd));

/* A value that the options or else the environment give a variable; NULL: neither does. Borrowed. */
const char *join_variable(const struct options *options, const char *name);
/* --start-timeout if it was given: its default would be too short here. */
int join_start_ms(const struct options *options);

#endif
