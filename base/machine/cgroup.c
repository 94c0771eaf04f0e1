/* SPDX-License-Identifier: Apache-2.0
 *
 * Control groups: finds this process's group in each mounted hierarchy and takes the smallest limit on the way up.
 *
 *   /proc/self/cgroup      "4:memory:/a/b"  (version 1: controllers by name)   "0::/a/b"  (version 2)
 *   /proc/self/mountinfo   "... ROOT MOUNTPOINT ... - cgroup2 cgroup2 rw"      or "- cgroup cgroup rw,memory"
 *
 *   group /a/b, mounted with ROOT /a at MOUNTPOINT /sys/fs/cgroup  ->  /sys/fs/cgroup/b, then /sys/fs/cgroup
 *
 * In a container without a cgroup namespace the group's path may not lie below the mount's root; the mount point itself
 * is then all that is visible.
 *
 * References: cgroups(7), proc_pid_mountinfo(5); Linux Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
 */
#include "base/machine/cgroup.h"
#include "base/parse.h"
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum controller { CPU, MEMORY };

static const char *const controller_names[] = { "cpu", "memory" };

/* Returns nonzero if a list like "cpu,cpuacct" has this name. */
static int list_has(const char *list, const char *name)
{
    size_t length = strlen(name);

    while (*list) {
        size_t next = strcspn(list, ",");
        if (next == length && !strncmp(list, name, length))
            return 1;
        list += next + (list[next] == ',');
    }
    return 0;
}

static void limit_quota(struct halay_cgroup_limits *limits, double quota, double period)
{
    if (quota > 0 && period > 0 && quota / period < limits->quota)
        limits->quota = quota / period;
}

static void read_cpu(const char *folder, int version, struct halay_cgroup_limits *limits)
{
    char line[64], line2[64];
    long long quota, period;

    if (version == 2) { /* "200000 100000" or "max 100000" */
        if (halay_read_line(line, sizeof line, "", "%s/cpu.max", folder) &&
            sscanf(line, "%lld %lld", &quota, &period) == 2)
            limit_quota(limits, (double)quota, (double)period);
    } else if (halay_read_line(line, sizeof line, "", "%s/cpu.cfs_quota_us", folder) &&
               halay_read_line(line2, sizeof line2, "", "%s/cpu.cfs_period_us", folder) &&
               sscanf(line, "%lld", &quota) == 1 && sscanf(line2, "%lld", &period) == 1) {
        limit_quota(limits, (double)quota, (double)period); /* -1: unlimited */
    }
}

/* Reads a file of one number; "max" is not a number. */
static int read_bytes(const char *folder, const char *name, size_t *bytes)
{
    char line[64];

    return halay_read_line(line, sizeof line, "", "%s/%s", folder, name) && halay_parse_size(line, bytes) == HALAY_OK;
}

/* Returns the memory of a group that the kernel can reclaim: cached files. Version 1 has two counts; the one with the
 * prefix includes the groups below. */
static size_t read_cache(const char *folder, int version)
{
    static const char *const keys[2][2] = { { "total_inactive_file ", "total_active_file " },
                                            { "inactive_file ", "active_file " } };
    char line[128];
    size_t cache = 0, bytes;

    for (int i = 0; i < 2; i++)
        if (halay_read_line(line, sizeof line, keys[version == 2][i], "%s/memory.stat", folder) &&
            sscanf(line, "%*s %zu", &bytes) == 1)
            cache += bytes;
    return cache;
}

static void read_memory(const char *folder, int version, struct halay_cgroup_limits *limits)
{
    size_t max, used;

    /* Version 1 writes a number near 2^63 for "unlimited": it limits nothing. */
    if (!read_bytes(folder, version == 2 ? "memory.max" : "memory.limit_in_bytes", &max) ||
        max >= (size_t)PTRDIFF_MAX - (1u << 20))
        return;
    if (max < limits->memory_bytes)
        limits->memory_bytes = max;
    if (!read_bytes(folder, version == 2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return;
    size_t cache = read_cache(folder, version);
    used -= cache < used ? cache : used;
    size_t left = used < max ? max - used : 0;
    if (left < limits->memory_free)
        limits->memory_free = left;
}

/* Finds this process's group in the hierarchy of a controller (version 1) or in the unified one (version 2). */
static int find_group(const char *root, int version, const char *controller, char *group, size_t size)
{
    char path[PATH_MAX], line[PATH_MAX + 128];
    int found = 0;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *where = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = 0;
        controllers++;
        if (version == 2 ? !*controllers : list_has(controllers, controller))
            found = snprintf(group, size, "%s", where) < (int)size;
    }
    fclose(file);
    return found;
}

/* Reads the limits from the group's folder up to the mount point. */
static void read_hierarchy(const char *root, const char *mount_root, const char *mount_point, int version,
                           enum controller controller, struct halay_cgroup_limits *limits)
{
    char group[PATH_MAX], folder[3 * PATH_MAX];
    size_t skip = strcmp(mount_root, "/") ? strlen(mount_root) : 0;

    if (!find_group(root, version, controller_names[controller], group, sizeof group))
        return;
    int is_below = !strncmp(group, mount_root, skip) && (group[skip] == '/' || !group[skip]) && !strstr(group, "/..");
    const char *rest = is_below ? group + skip : "";
    size_t top = (size_t)snprintf(folder, sizeof folder, "%s%s", root, mount_point);
    snprintf(folder + top, sizeof folder - top, "%s", rest);
    for (;;) {
        if (controller == CPU)
            read_cpu(folder, version, limits);
        else
            read_memory(folder, version, limits);
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static void read_mount(const char *root, char *line, struct halay_cgroup_limits *limits)
{
    char mount_root[PATH_MAX], mount_point[PATH_MAX], type[32], options[1024];
    char *tail = strstr(line, " - ");

    if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", mount_root, mount_point) != 2 ||
        sscanf(tail + 3, "%31s %*s %1023s", type, options) != 2)
        return;
    for (int c = CPU; c <= MEMORY; c++) {
        if (!strcmp(type, "cgroup2"))
            read_hierarchy(root, mount_root, mount_point, 2, (enum controller)c, limits);
        else if (!strcmp(type, "cgroup") && list_has(options, controller_names[c]))
            read_hierarchy(root, mount_root, mount_point, 1, (enum controller)c, limits);
    }
}

void halay_cgroup_read(const char *root, struct halay_cgroup_limits *limits)
{
    struct halay_cgroup_limits found = { .quota = INFINITY, .memory_bytes = SIZE_MAX, .memory_free = SIZE_MAX };
    char path[PATH_MAX], line[3 * PATH_MAX];

    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "re");
    if (file) {
        while (fgets(line, sizeof line, file))
            if (strstr(line, " - cgroup"))
                read_mount(root, line, &found);
        fclose(file);
    }
    *limits = found;
}

size_t halay_memory_available(const char *root)
{
    struct halay_cgroup_limits limits;
    char line[128];
    size_t kb, available = SIZE_MAX;

    halay_cgroup_read(root, &limits);
    if (halay_read_line(line, sizeof line, "MemAvailable:", "%s/proc/meminfo", root) &&
        sscanf(line, "%*s %zu kB", &kb) == 1)
        available = kb * 1024;
    return limits.memory_free < available ? limits.memory_free : available;
}
