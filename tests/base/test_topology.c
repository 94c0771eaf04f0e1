/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: this machine has a core; a bound process sees what it is bound to; machines of several NUMA nodes; caches,
 * the processor's name, and the limits of control groups of both versions, from files made here.
 */
#include "base/machine/cgroup.h"
#include "base/machine/topology.h"
#include "tests/test.h"
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/halay-test-topology.XXXXXX";

/* Makes the folders on the way. */
static void write_file(const char *path, const char *text)
{
    char full[512];

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    REQUIRE(file && fputs(text, file) >= 0 && !fclose(file));
}

static void clear_files(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s/proc %s/sys", root, root);
    REQUIRE(system(command) == 0);
}

#define MOUNTS_V2 "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"

/* What may still be taken: up to a group's limit of 8 GiB, or what the machine has. Cached files are given up for it,
 * shared memory (in "file", too) is not. prefix: of the numbers that count the groups below. */
static void check_memory(const char *group, const char *usage, const char *prefix)
{
    const size_t gib = (size_t)1 << 30;
    char path[128], text[256];

    write_file("/proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\n");
    snprintf(path, sizeof path, "%s/%s", group, !*prefix ? "memory.max" : "memory.limit_in_bytes");
    write_file(path, "8589934592\n");
    CHECK(halay_memory_available(root) == 32 * gib, "a group whose use isn't known: %zu", halay_memory_available(root));
    snprintf(path, sizeof path, "%s/%s", group, usage);
    write_file(path, "7516192768\n");
    CHECK(halay_memory_available(root) == gib, "7 of 8 GiB are taken: %zu", halay_memory_available(root));
    snprintf(text, sizeof text,
             "anon 1\nfile 5368709120\n%s%sinactive_file 2147483648\n%sactive_file "
             "1073741824\n",
             *prefix ? "inactive_file 77\n" : "", prefix, prefix);
    snprintf(path, sizeof path, "%s/memory.stat", group);
    write_file(path, text);
    CHECK(halay_memory_available(root) == 4 * gib, "3 GiB are cache: %zu", halay_memory_available(root));
    write_file("/proc/meminfo", "MemAvailable: 1048576 kB\n");
    CHECK(halay_memory_available(root) == gib, "the machine has less: %zu", halay_memory_available(root));
    snprintf(path, sizeof path, "%s/%s", group, usage);
    write_file(path, "12884901888\n");
    CHECK(halay_memory_available(root) == 0, "a limit that was lowered: %zu", halay_memory_available(root));
}

static void check_cgroups(void)
{
    struct halay_cgroup_limits limits;

    halay_cgroup_read(root, &limits);
    CHECK(isinf(limits.quota) && limits.memory_bytes == SIZE_MAX && limits.memory_free == SIZE_MAX, "nothing there");
    CHECK(halay_memory_available(root) == SIZE_MAX, "nothing is known");

    write_file("/proc/self/mountinfo", "21 20 0:5 / /proc rw - proc proc rw\n" MOUNTS_V2);
    write_file("/proc/self/cgroup", "0::/user/job\n");
    write_file("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/user/job/memory.max", "8589934592\n");
    write_file("/sys/fs/cgroup/user/cpu.max", "150000 100000\n");
    write_file("/sys/fs/cgroup/user/memory.max", "max\n");
    halay_cgroup_read(root, &limits);
    CHECK(limits.quota == 1.5 && limits.memory_bytes == (size_t)8 << 30, "%g %zu", limits.quota, limits.memory_bytes);
    check_memory("/sys/fs/cgroup/user/job", "memory.current", "");

    write_file("/proc/self/cgroup", "0::/../elsewhere\n");
    write_file("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    halay_cgroup_read(root, &limits);
    CHECK(limits.quota == 3 && limits.memory_bytes == SIZE_MAX, "outside the namespace: the mount point");
    clear_files();

    /* Version 1 in a container: the mount's root is the container's group. */
    write_file("/proc/self/mountinfo",
               "31 30 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
               "32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    write_file("/proc/self/cgroup",
               "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc/inner\n3:cpuset:/docker/other\n0::/x\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    check_memory("/sys/fs/cgroup/memory", "memory.usage_in_bytes", "total_");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    halay_cgroup_read(root, &limits);
    CHECK(limits.quota == 0.5 && limits.memory_bytes == (size_t)1 << 30, "%g %zu", limits.quota, limits.memory_bytes);
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    halay_cgroup_read(root, &limits);
    CHECK(limits.memory_bytes == SIZE_MAX, "unlimited as version 1 writes it");
    clear_files();

    write_file("/proc/self/mountinfo", "junk\n - cgroup\n1 2 3 - cgroup2\n" MOUNTS_V2);
    write_file("/proc/self/cgroup", "junk\n:\n::\n0::/\n");
    write_file("/sys/fs/cgroup/cpu.max", "junk\n");
    write_file("/sys/fs/cgroup/memory.max", "-5\n");
    halay_cgroup_read(root, &limits);
    CHECK(isinf(limits.quota) && limits.memory_bytes == SIZE_MAX, "junk limits nothing");
    clear_files();
}

static void check_usable(void)
{
    struct halay_topology t = { .threads = 4, .quota = INFINITY };

    CHECK(halay_topology_usable(&t) == 4);
    t.quota = 2.5;
    CHECK(halay_topology_usable(&t) == 2);
    t.quota = 0.2;
    CHECK(halay_topology_usable(&t) == 1);

    struct halay_topology node = { .cores = 32, .threads = 64, .quota = INFINITY };
    CHECK(halay_topology_ranks(&node) == 32);
    node.quota = 4.5;
    CHECK(halay_topology_ranks(&node) == 4);
    node.quota = 0.5;
    CHECK(halay_topology_ranks(&node) == 1);

    /* Two ranks bound to a core each, and one that shares the first one's. */
    unsigned char second[HALAY_CPU_MASK_BYTES] = { 2 };
    struct halay_topology bound = { .threads = 1, .quota = INFINITY, .mask = { 1 } };
    halay_topology_add(&bound, bound.mask);
    CHECK(halay_topology_usable(&bound) == 1);
    halay_topology_add(&bound, second);
    CHECK(halay_topology_usable(&bound) == 2);
}

static void check_here(struct halay_log *log)
{
    struct halay_topology t;
    char text[2048] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    struct halay_thread *threads;
    size_t count;

    REQUIRE(out && halay_topology_load(log, &t) == HALAY_OK);
    CHECK(t.cores >= 1 && t.threads >= t.cores && t.numa_nodes >= 1 && t.memory_bytes > 0 && t.quota > 0);
    REQUIRE(halay_topology_threads(log, &threads, &count) == HALAY_OK);
    CHECK((int)count == t.threads && threads[count - 1].core == t.cores - 1 && threads[0].core == 0);
    free(threads);
    halay_topology_print(&t, out);
    fclose(out);
    CHECK(strstr(text, "this process may use") && strstr(text, "memory:"), "%s", text);
}

static void check_bound(struct halay_log *log)
{
    cpu_set_t all, one;
    struct halay_topology t;

    REQUIRE(!sched_getaffinity(0, sizeof all, &all));
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &one);
    REQUIRE(!sched_setaffinity(0, sizeof one, &one));
    CHECK(halay_topology_load(log, &t) == HALAY_OK && t.threads == 1 && t.cores == 1, "%d %d", t.threads, t.cores);
    REQUIRE(!sched_setaffinity(0, sizeof all, &all));
}

/* Where the segments of all ranks lie, as digits, on a machine of nodes with 8 threads each, which alternate. */
static void check_nodes(int nodes, int size, const char *expected)
{
    struct halay_thread threads[32];
    const size_t count = 8 * (size_t)nodes;
    char found[32] = "";

    for (int i = 0; i < 8 * nodes; i++)
        threads[i] = (struct halay_thread){ .number = i, .core = i % (4 * nodes), .numa_node = i % nodes };
    halay_topology_order(threads, count);
    for (int rank = 0; rank < size; rank++)
        found[rank] = (char)('0' + halay_topology_numa_node(threads, count, rank, size));
    CHECK(!strcmp(found, expected), "%d nodes, %d ranks: %s, expected %s", nodes, size, found, expected);
}

static void check_placement(void)
{
    const struct halay_thread bound[] = { { .number = 9, .core = 0, .numa_node = 3 },
                                          { .number = 25, .core = 0, .numa_node = 3 } };

    for (int rank = 0; rank < 4; rank++)
        CHECK(halay_topology_numa_node(bound, 2, rank, 4) == 3, "bound to one node: that one");
    CHECK(halay_topology_numa_node(bound, 0, 0, 1) == 0 && halay_topology_numa_node(bound, 2, 4, 4) == 0 &&
              halay_topology_numa_node(bound, 2, 0, 0) == 0,
          "nothing known");
    check_nodes(1, 4, "0000");
    check_nodes(2, 2, "01");
    check_nodes(2, 8, "00001111");
    check_nodes(2, 3, "001");
    check_nodes(4, 4, "0123");
    check_nodes(4, 16, "0000111122223333");
    check_nodes(4, 1, "0");
}

/* Two nodes of two cores of two threads, which count across the nodes alternately. */
static void check_order(void)
{
    static const int numbers[] = { 0, 4, 2, 6, 1, 5, 3, 7 };
    struct halay_thread threads[8];

    for (int i = 0; i < 8; i++)
        threads[i] = (struct halay_thread){ .number = i, .core = i % 4, .numa_node = i % 2 };
    halay_topology_order(threads, 8);
    for (int i = 0; i < 8; i++)
        CHECK(threads[i].number == numbers[i] && threads[i].core == i / 2 && threads[i].numa_node == i / 4,
              "place %d: thread %d, core %d, node %d", i, threads[i].number, threads[i].core, threads[i].numa_node);
}

static void check_files(void)
{
    struct halay_topology t = { .memory_bytes = (size_t)2 << 30 };

    write_file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
    write_file("/sys/devices/system/cpu/cpu3/cache/index0/level", "1\n");
    write_file("/sys/devices/system/cpu/cpu3/cache/index0/size", "32K\n");
    write_file("/sys/devices/system/cpu/cpu3/cache/index2/level", "3\n"); /* their order says nothing */
    write_file("/sys/devices/system/cpu/cpu3/cache/index2/size", "32768K\n");
    write_file("/sys/devices/system/cpu/cpu3/cache/index3/level", "2\n");
    write_file("/sys/devices/system/cpu/cpu3/cache/index3/size", "1024K\n");
    write_file("/proc/self/mountinfo", MOUNTS_V2);
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "1073741824\n");
    write_file("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    halay_topology_read_files(root, 3, &t);
    CHECK(!strcmp(t.model, "Some CPU @ 2 GHz"), "'%s'", t.model);
    CHECK(t.l2_bytes == 1 << 20 && t.l3_bytes == 32 << 20 && t.memory_bytes == (size_t)1 << 30 && t.quota == 1.5,
          "%zu %zu %zu %g", t.l2_bytes, t.l3_bytes, t.memory_bytes, t.quota);
    halay_topology_read_files(root, 4, &t);
    CHECK(!t.l2_bytes && !t.l3_bytes, "a thread without caches: %zu %zu", t.l2_bytes, t.l3_bytes);
    clear_files();
}

int main(void)
{
    struct halay_log log;

    REQUIRE(mkdtemp(root));
    halay_log_init(&log, HALAY_LOG_WARNING);
    check_cgroups();
    check_usable();
    check_here(&log);
    check_bound(&log);
    check_placement();
    check_order();
    check_files();
    REQUIRE(!rmdir(root));
    halay_log_fini(&log);
    return test_end();
}
