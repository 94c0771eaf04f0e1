/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups: how much processor time and memory the groups around this process allow, version 1 and 2.
 */
#ifndef HALAY_BASE_CGROUP_H
#define HALAY_BASE_CGROUP_H

#include <stddef.h>

struct halay_cgroup_limits {
    double quota;        /* processors; infinity if unlimited */
    size_t memory_bytes; /* SIZE_MAX if unlimited */
    size_t memory_free;  /* left before one of the groups is at its limit; SIZE_MAX if unlimited */
};

/* Reads the smallest limits of this process's groups and of all visible ones above them. root precedes every path (""
 * on a real machine; tests give a folder of their own). A file that cannot be read sets no limit. */
void halay_cgroup_read(const char *root, struct halay_cgroup_limits *limits);

/* Returns the memory that this process can still get: the machine's available memory or its groups' rest, the smaller;
 * SIZE_MAX if neither is known. The kernel may kill a process that takes more, instead of refusing. root as above. */
size_t halay_memory_available(const char *root);

#endif
