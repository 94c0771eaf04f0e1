/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operating system itself says of the machine: all of the topology where hwloc is absent, and what hwloc
 * leaves open (the processor's name) where it is there.
 */
#ifndef HALAY_BASE_TOPOLOGY_IMPL_H
#define HALAY_BASE_TOPOLOGY_IMPL_H

#include "base/machine/topology.h"

/* Fills all but quota (infinity) and the group's share of memory_bytes (the machine's). */
enum halay_status halay_topology_os_load(struct halay_log *log, struct halay_topology *topology);

/* halay_topology_threads without hwloc. */
enum halay_status halay_topology_os_threads(struct halay_log *log, struct halay_thread **threads, size_t *count);

/* Threads whose core is the lowest thread of it: node after node, on each the cores in the order of their lowest
 * thread, and these numbered from 0. Many machines count their processors across the nodes in turn. */
void halay_topology_os_order(struct halay_thread *threads, size_t count);

/* "model name" of a file in the form of /proc/cpuinfo, "" if there is none. */
void halay_topology_os_model(const char *path, char *model, size_t size);

#endif
