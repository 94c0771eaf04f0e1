/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: what of this machine this process may use. hwloc where it was found at configure time, the operating
 * system's own answers otherwise. (The only folder that includes hwloc.h.)
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
    size_t memory_bytes; /* of the machine, or of the cgroup where that is less */
    char model[128];     /* the processor's name, "" if unknown */
    /* Hardware threads by number, one bit each, those beyond the mask left out: this process's own, later with those of
     * the ranks that share the host (halay_topology_add). */
    unsigned char mask[HALAY_CPU_MASK_BYTES];
};

enum halay_status halay_topology_load(struct halay_log *log, struct halay_topology *topology);

/* Where ranks are bound to cores of their own each sees only its share: a rank adds the masks of the others of its
 * host, so that halay_topology_usable speaks of all of them. Its own mask, or one twice, changes nothing. */
void halay_topology_add(struct halay_topology *topology, const unsigned char mask[HALAY_CPU_MASK_BYTES]);

/* Processors that the ranks of this host can keep busy at once, as far as their masks were added: the lesser of threads
 * and quota, at least 1. With more ranks than this none may spin for long. */
int halay_topology_usable(const struct halay_topology *topology);

/* How many ranks can have a core of their own: the lesser of cores and quota, at least 1. */
int halay_topology_ranks(const struct halay_topology *topology);

/* The hardware threads that this process may use, one after the other as they lie in the machine; those of one core are
 * neighbours, cores are numbered from 0. *threads is freed with free(). */
struct halay_thread {
    int number; /* as the operating system counts */
    int core;
    int numa_node; /* as the operating system counts; 0 if unknown */
};
enum halay_status halay_topology_threads(struct halay_log *log, struct halay_thread **threads, size_t *count);

/* The NUMA node on which the memory of one of `size` ranks of a host should lie. Ranks are laid over the threads in
 * order, an equal share each, and take the node of their share's first thread; a rank that is bound to threads of
 * one node gets that node. */
int halay_topology_numa_node(const struct halay_thread *threads, size_t count, int rank, int size);

/* The machine as text, a tree of a few lines. */
void halay_topology_print(const struct halay_topology *topology, FILE *out);

#endif
