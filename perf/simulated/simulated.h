/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulated: halay's groups over the mpi transport, in a cluster that does not exist.
 *
 * SimGrid's SMPI runs all ranks of an MPI program in one process, each on a stack of its own, one at a time, and
 * computes when each message would arrive on a given network. The code that runs is the library's own: groups,
 * algorithms, the mpi transport. Replaced are only how ranks find each other (world.c), the mpi module's state of a
 * process (mpi.c), and the shared memory of a node (node.c).
 *
 * Simulated time passes only while every rank waits inside MPI: a rank that polls stops the clock. So main.c waits in a
 * loop of its own, which lets the transport's test of its requests block after rounds without progress.
 */
#ifndef HALAY_SIMULATED_H
#define HALAY_SIMULATED_H

#include "collectives/group/world.h"
#include "collectives/reduce/reduce.h"
#include "collectives/transport/bootstrap/boot.h"
#include <mpi.h>

enum { SIMULATED_RANKS_MAX = 8192 };

/* world.c */

/* This rank's world. node_ranks ranks, side by side in the order of ranks, are on one node; size is a multiple. A byte
 * that one of them takes from another's memory costs memory_ns. Every rank calls it; *world is closed by
 * halay_world_close. */
enum halay_status simulated_world_open(int node_ranks, double memory_ns, struct halay_world **world);

/* mpi.c */

/* Rank and size are MPI_COMM_WORLD's; blobs go through memory that all ranks share. */
enum halay_status simulated_boot_create(struct halay_log *log, struct halay_boot **out);

/* The calling rank's next test of its transport's requests waits until one is done or the rank's bell rings. */
void simulated_block_next_look(void);

/* From now on the library's large blocks (staging, scratch, parts of messages) of one length are the same memory in all
 * ranks: contents are lost, times are right, and thousands of ranks fit one machine. */
void simulated_fold_memory(void);
/* Such a block for the program: NULL if there is none. Never freed. */
void *simulated_folded(size_t bytes);

/* node.c */

/* Shared memory of this rank and its neighbours. Every rank calls it. */
enum halay_status simulated_node_open(struct halay_log *log, int node_ranks, double memory_ns,
                                      struct halay_shared_memory **out);
/* All neighbours are done with this rank's areas. A ring to itself ends the bell's receive. */
void simulated_node_close(void);
/* How often the calling rank was notified. */
unsigned long simulated_node_rings(void);
/* Adds as the library does, and takes simulated time for what it reads from neighbours. */
const struct halay_reducer *simulated_node_reducer(void);
/* MPI_Waitany, which a neighbour's notify ends too: *index is MPI_UNDEFINED then. */
int simulated_node_wait(int count, MPI_Request *requests, int *index, MPI_Status *status);

#endif
