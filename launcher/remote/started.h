/* SPDX-License-Identifier: Apache-2.0
 *
 * Started: whether another launcher has started halayrun more than once, on each node of a job or for each of its
 * ranks. Each halayrun would start a job of its own, and several models would train where one was meant, without a
 * word. So they join one job where the launcher's variables name a place to meet, and are refused elsewhere.
 */
#ifndef HALAY_LAUNCHER_STARTED_H
#define HALAY_LAUNCHER_STARTED_H

#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"
#include <stddef.h>

enum { STARTED_HOST_MAX = 256 };

/* A job of several nodes, each with a halayrun. */
struct node_job {
    const char *launcher;              /* static: "a PyTorchJob or TrainJob" */
    char variables[200];               /* "PET_NNODES=2, PET_NODE_RANK=0, PET_MASTER_ADDR=a" */
    int nodes;                         /* at least 2; 0: this is not such a job */
    int node;                          /* -1: not known */
    int per_node;                      /* ranks of each; 0: not known */
    const char *lacks;                 /* static: why no place to meet is known; NULL: not known */
    int least_nodes;                   /* the number of nodes is a range, of which nodes is the end; 0: it is not */
    int max_restarts;                  /* 0: not known */
    char rendezvous[STARTED_HOST_MAX]; /* "HOST:PORT" of node 0; "": not known */
};

/* Finds it in the environment. nodes: their number, where the user gave one; 0. 0, or an exit code (reported): the
 * variables cannot be understood. */
int started_find(const struct environment *from, int nodes, struct node_job *job);
/* The options by which this node joins it: "--nnodes 2 --node-rank 1 --join HOST:PORT". */
void started_write_line(const struct node_job *job, char *line, size_t size);

/* Makes the options those of --join if there is such a job, and a secret for it; refuses without a secret, or if each
 * rank has started a halayrun. Does nothing if the command line has where ranks run or how nodes meet. meet: place for
 * the address, borrowed by the options. 0, or an exit code (reported). */
int started_join(const struct environment *from, struct options *options, char rendezvous[STARTED_HOST_MAX]);

#endif
