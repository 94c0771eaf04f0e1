/* SPDX-License-Identifier: Apache-2.0
 *
 * Host plan: all that an agent needs to start its host's ranks. It travels in a frame, so that neither the environment
 * nor the secret ever appears on a command line.
 */
#ifndef HALAY_LAUNCHER_HOST_PLAN_H
#define HALAY_LAUNCHER_HOST_PLAN_H

#include "base/store/store.h"
#include "launcher/common/buffer.h"

struct host_plan {
    int first, count; /* its ranks: first to first + count - 1 */
    int local;        /* the local rank of the first; others of that host may have been started before */
    int local_size;   /* how many ranks may run on that host */
    int size;         /* ranks of the job */
    int world;        /* ranks of the job, as WORLD_SIZE; 0: they cannot be known yet */
    int node, nodes;  /* this host's number, as GROUP_RANK, and how many hosts there are */
    int master_port;  /* master.h; 0: this is rank 0's host, which finds it */
    int binding;      /* enum binding */
    int grace_ms;     /* for processes that the ranks leave */
    int block;        /* number of ranks of rank 0's host; 0: hosts' ranks may change, or don't follow each other */
    int silence_ms;   /* without a frame, until halayrun and agent give each other up; SILENCE_LEAST_MS or more */
    int keeps_record; /* 0: the ranks' records are removed at the end */
    int samples;      /* the ranks are sampled every second */
    unsigned char secret[HALAY_SECRET_BYTES];
    char *folder;       /* where the ranks start; "": where the agent was started */
    char *master;       /* master.h: the address; "": this host, or the one where the store is reached */
    char *record;       /* watch/sample.h: the pattern of the ranks' records; "": halayrun needs none */
    char **addresses;   /* of the store, "10.0.0.1:4000", "[fd00::1]:4000"; the first that can be reached is used */
    char **environment; /* "NAME=value", overriding the login's */
    char **command;
};

/* Appends the plan as bytes. Returns 0 without memory. */
int host_plan_write(const struct host_plan *plan, struct buffer *to);
/* Returns 0 if these bytes are not a plan, or without memory: then *plan is empty. *plan owns its strings and lists;
 * lists end with NULL. */
int host_plan_read(const char *bytes, size_t count, struct host_plan *plan);
void host_plan_fini(struct host_plan *plan); /* of host_plan_read; wipes the secret */

#endif
