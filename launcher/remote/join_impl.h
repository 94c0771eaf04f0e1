/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, node 0, inside view: shared by join_lead.c, which gathers the nodes and runs the job, and join_door.c, which
 * talks with them from then on.
 */
#ifndef HALAY_LAUNCHER_JOIN_IMPL_H
#define HALAY_LAUNCHER_JOIN_IMPL_H

#include "launcher/remote/join.h"
#include "launcher/remote/pending.h"
#include "launcher/where/hosts.h"

enum { NODE_NAME_MAX = TALK_NAME_MAX + 32, LEAD_TURN_MS = 1000, LEAD_REPORT_MS = 30000, LAST_CALL_MS = 3000 };

/* One of the nodes that are here. */
struct node {
    struct talk talk; /* closed: this one, or one that is lost */
    uint32_t ticket;
    int number; /* -1: not known yet */
    int ranks, is_chosen;
    char host[TALK_NAME_MAX]; /* as it calls itself */
    char name[NODE_NAME_MAX]; /* no other node has the same */
    int64_t begin_sent_us;    /* when it got the order to begin, and its tunnels are expected; 0: not */
};

struct lead {
    const struct join *join; /* borrowed */
    struct options *options; /* borrowed */
    struct node *
        at; /* owned: room for join->nodes; this one first, the others in order of arrival, and then of their numbers */
    int count;
    uint32_t tickets;
    struct pending *pending; /* owned */
    int listener;
    char refused_from[HALAY_ADDRESS_TEXT]; /* the last caller that was reported as refused */
    int64_t report_us, report_min_us;      /* when the number of nodes is reported: in any case, if it changed */
    int has_changed;
    int64_t arrived_us;        /* when the last node joined */
    struct host_list hosts;    /* names borrowed from at */
    struct tunnel_pair *pairs; /* owned: (room) by number */
    char why[TALK_TEXT_MAX / 2];
};

/* "" if a node with that hello fits the job; there may be no place for it. */
void lead_check_hello(const struct lead *lead, const struct talk_hello *hello, char *why, size_t size);
/* Sends why, and closes the talk. */
void lead_refuse(struct talk *talk, const char *name, const char *why);
void lead_warn_of_command(const struct lead *lead, const struct talk_hello *hello);
/* Reports a caller that was refused before it could send its name; once, however often it calls. */
void lead_report_refused(struct lead *lead);
uint32_t lead_new_ticket(struct lead *lead);
/* Returns nonzero if the number of nodes may change, between join->least and join->nodes. */
int lead_is_range(const struct lead *lead);
/* Returns nonzero if a job of a range may begin: with all nodes, or when no more have joined for a short time. */
int lead_is_last_call_over(const struct lead *lead);
/* Returns the number of ranks of a node by its hello, unless -np is dealt out. */
int lead_ranks_of(const struct lead *lead, const struct talk_hello *hello);
/* Gives all nodes their names. */
void lead_name_nodes(struct lead *lead);
/* Gives node i this name, with its number where another node has the same. */
void lead_name_node(struct lead *lead, int i, const char *name);

#endif
