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

enum { NODE_NAME_MAX = TALK_NAME_MAX + 32, LEAD_TURN_MS = 1000, LEAD_SAY_MS = 30000 };

/* One of the nodes that are here. */
struct node {
    struct talk talk; /* closed: this one, or one that is lost */
    uint32_t ticket;
    int number; /* -1: not known yet */
    int ranks, is_chosen;
    char name[NODE_NAME_MAX];
    int64_t told_us; /* when it was told to begin, and its tunnels are expected; 0: not */
};

struct lead {
    const struct join *join; /* borrowed */
    struct options *options; /* borrowed */
    struct node *at;         /* owned; this one first, the others in order of arrival, and then of their numbers */
    int count;
    uint32_t tickets;
    struct pending *pending; /* owned */
    int listener;
    char refused_from[HALAY_ADDRESS_TEXT]; /* the last caller that was said to be refused */
    int64_t say_us, say_least_us;          /* when the user is told how many are here: in any case, if it changed */
    int has_changed;
    struct host_list hosts;    /* names borrowed from at */
    struct tunnel_pair *pairs; /* owned; by number */
    char why[TALK_TEXT_MAX / 2];
};

/* "" if a node with that hello fits the job; there may be no place for it. */
void lead_check_hello(const struct lead *lead, const struct talk_hello *hello, char *why, size_t size);
/* Sends why, and closes the talk. */
void lead_refuse(struct talk *talk, const char *name, const char *why);
void lead_warn_of_command(const struct lead *lead, const struct talk_hello *hello);
/* Reports a caller that was sent away before it could send its name; once, however often it comes. */
void lead_report_refused(struct lead *lead);
uint32_t lead_new_ticket(struct lead *lead);
/* Gives node i this name, with its number where another node has the same. */
void lead_name_node(struct lead *lead, int i, const char *name);

#endif
