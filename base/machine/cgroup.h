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
    size_t memory_free;  /* what may still be taken before any of them is at its limit; SIZE_MAX if unlimited */
};

/* The least limits of this process's groups and all above them that can be seen. root is put in front of every path (""
 * on a real machine; tests give a folder of their own). What cannot be read does not limit. */
void halay_cgroup_read(const char *root, struct halay_cgroup_limits *limits);

/* What the system could still give this process: the machine's available memory, or what its groups leave of that.
 * SIZE_MAX if neither is known. The kernel may end a process that takes more, instead of refusing. root as above. */
size_t halay_memory_available(const char *root);

#endif
