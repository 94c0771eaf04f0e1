/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: the part of this machine that this process may use.
 */
#ifndef HALAY_BASE_TOPOLOGY_H
#define HALAY_BASE_TOPOLOGY_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>
#include <stdio.h>

enum { HALAY_CPU_MASK_BYTES = 256 };

struct halay_topology {
    int cores;       /* physical cores in this process's cpuset */
    int threads;     /* hardware threads in it */
    double quota;    /* processors that the cgroup allows (v1 or v2), infinity if unlimited */
    size_t l2_bytes; /* of one core; 0 if unknown */
    size_t l3_bytes; /* of one L3; 0 if unknown or absent */
    int numa_nodes;
    size_t memory_bytes; /* of the machine, or the limit of the cgroup if that is less */
    char model[128];     /* the processor's name, "" if unknown */
    /* Hardware threads by number, one bit each, those beyond the mask left out: this process's own, later with those of
     * the ranks that share the host (halay_topology_add). */
    unsigned char mask[HALAY_CPU_MASK_BYTES];
};

enum halay_status halay_topology_load(struct halay_log *log, struct halay_topology *topology);

/* Reads from files alone: the control groups' limits, the caches of a hardware thread, the processor's name. root
 * precedes every path ("" on a real machine). */
void halay_topology_read_files(const char *root, int cpu, struct halay_topology *topology);

/* Adds another rank's mask. Ranks that are bound to cores of their own see only these: each adds the masks of the
 * others on its host, so that halay_topology_usable counts all. Its own mask, or one twice, changes nothing. */
void halay_topology_add(struct halay_topology *topology, const unsigned char mask[HALAY_CPU_MASK_BYTES]);

/* Returns the processors that the ranks of this host whose masks were added can keep busy at once: the smaller of
 * threads and quota, at least 1. With more ranks than this no rank may spin for long. */
int halay_topology_usable(const struct halay_topology *topology);

/* Returns the number of ranks that can have a core of their own: the smaller of cores and quota, at least 1. */
int halay_topology_ranks(const struct halay_topology *topology);

/* A hardware thread that this process may use. A list is in the order of the machine: the threads of a core are
 * neighbours, cores are numbered from 0. */
struct halay_thread {
    int number; /* as the operating system counts */
    int core;
    int numa_node; /* as the operating system counts; 0 if unknown */
};
/* Lists the hardware threads. *threads is freed with free(). */
enum halay_status halay_topology_threads(struct halay_log *log, struct halay_thread **threads, size_t *count);

/* Orders threads whose core is its lowest thread: by node, then by core, and numbers cores from 0. Many machines number
 * their processors round-robin over the nodes. */
void halay_topology_order(struct halay_thread *threads, size_t count);

/* Returns the NUMA node for the memory of one of `size` ranks of a host. Each rank gets an equal part of the threads,
 * in order, and the node of its first one; a rank that is bound to threads of one node gets that node. */
int halay_topology_numa_node(const struct halay_thread *threads, size_t count, int rank, int size);

/* Prints the machine, a tree of a few lines. */
void halay_topology_print(const struct halay_topology *topology, FILE *out);

#endif
