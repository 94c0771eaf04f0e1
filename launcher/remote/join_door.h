/* SPDX-License-Identifier: Apache-2.0
 *
 * Join's door: the process of node 0 that holds the connections with the other nodes (join_talk.h) and the port, while
 * the job runs in another one. It orders the nodes to begin, hands the tunnels of their agents to the process that
 * asked for it, and reports to them how the job ended. A node that calls later gets the place of one that is lost, or
 * waits for one, if the job may be restarted; otherwise it is refused. Where the number of nodes is a range, each start
 * is with all nodes that are there, numbered anew, and a node that calls later lets the job start again.
 *
 *     halayrun (supervisor) - socket --+
 *        | fork                        door ==== talks, port ==== the other nodes
 *     job ----------------- socket ----+
 *
 * It ends when both others have. It is not a child of theirs: what ends the job's processes spares it.
 */
#ifndef HALAY_LAUNCHER_JOIN_DOOR_H
#define HALAY_LAUNCHER_JOIN_DOOR_H

#include "launcher/remote/tunnel.h"
#include <stddef.h>

struct host_list;
struct lead;

struct join_door {
    int fd;                    /* of its socket; readable when join_door_take has something; -1: no door */
    int room;                  /* for nodes, in hosts and pairs */
    struct host_list *hosts;   /* borrowed: those of the last start, filled in by join_door_take */
    struct tunnel_pair *pairs; /* borrowed: filled in by join_door_take */
};

/* Starts it: the nodes' connections and the port are its own from now on. 0, or an exit code (reported). */
int join_door_open(struct lead *lead, struct join_door *door);

/* Asks for new tunnels to all nodes. 0 if the process is gone. */
int join_door_begin(struct join_door *door);
/* Waits for the next part of the answer; or DOOR_GROWS, at any time: nodes have come for which there is room, as text
 * in why. */
enum join_door_answer { DOOR_MORE, DOOR_BEGUN, DOOR_FAILED, DOOR_GROWS };
enum join_door_answer join_door_take(struct join_door *door, char *why, size_t size);

/* Tells all nodes that the job has ended, and ends the process. 0 if that was gone. */
int join_door_close(struct join_door *door, int code, const char *text);

#endif
