/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology by the operating system: all of it in a build without hwloc, and the values that hwloc lacks (the
 * processor's name) in one with it.
 */
#ifndef HALAY_BASE_TOPOLOGY_IMPL_H
#define HALAY_BASE_TOPOLOGY_IMPL_H

#include "base/machine/topology.h"

/* Fills in all members; quota is infinity and memory_bytes the machine's, as groups are not read here. */
enum halay_status halay_topology_os_load(struct halay_log *log, struct halay_topology *topology);

/* Implements halay_topology_threads without hwloc. */
enum halay_status halay_topology_os_threads(struct halay_log *log, struct halay_thread **threads, size_t *count);

/* Orders threads whose core is its lowest thread: by node, then by core, and numbers cores from 0. Many machines number
 * their processors round-robin over the nodes. */
void halay_topology_os_order(struct halay_thread *threads, size_t count);

/* Reads "model name" of a file like /proc/cpuinfo, "" if it has none. */
void halay_topology_os_model(const char *path, char *model, size_t size);

#endif
