/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: this machine has a core; a bound process sees what it is bound to; machines that hwloc makes up; the limits
 * of control groups of both versions, from files made here.
 */
#include "base/machine/cgroup.h"
#include "base/machine/topology.h"
#include "base/machine/topology_impl.h"
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
    struct halay_topology t, os;
    char text[2048] = "";
    FILE *out = fmemopen(text, sizeof text, "w");

    REQUIRE(out && halay_topology_load(log, &t) == HALAY_OK && halay_topology_os_load(log, &os) == HALAY_OK);
    CHECK(t.cores >= 1 && t.threads >= t.cores && t.numa_nodes >= 1 && t.memory_bytes > 0 && t.quota > 0);
    CHECK(t.threads == os.threads, "%d %d", t.threads, os.threads);
    struct halay_thread *threads, *os_threads;
    size_t count, os_count;
    REQUIRE(halay_topology_threads(log, &threads, &count) == HALAY_OK);
    REQUIRE(halay_topology_os_threads(log, &os_threads, &os_count) == HALAY_OK);
    CHECK((int)count == t.threads && threads[count - 1].core == t.cores - 1 && threads[0].core == 0);
    CHECK(os_count == count && os_threads[os_count - 1].core == os.cores - 1);
    free(threads);
    free(os_threads);
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
    CHECK(halay_topology_os_load(log, &t) == HALAY_OK && t.threads == 1 && t.cores == 1);
    REQUIRE(!sched_setaffinity(0, sizeof all, &all));
}

#if HALAY_HAVE_HWLOC
/* Where the segments of all ranks lie, as digits. */
static void check_nodes(struct halay_log *log, const char *machine, int size, const char *expected)
{
    struct halay_thread *threads;
    char nodes[32] = "";
    size_t count;

    REQUIRE(!setenv("HWLOC_SYNTHETIC", machine, 1));
    REQUIRE(halay_topology_threads(log, &threads, &count) == HALAY_OK);
    for (int rank = 0; rank < size; rank++)
        nodes[rank] = (char)('0' + halay_topology_numa_node(threads, count, rank, size));
    CHECK(!strcmp(nodes, expected), "%s, %d ranks: %s, expected %s", machine, size, nodes, expected);
    free(threads);
    REQUIRE(!unsetenv("HWLOC_SYNTHETIC"));
}
#endif

static void check_placement(struct halay_log *log)
{
    const struct halay_thread bound[] = { { .number = 9, .core = 0, .numa_node = 3 },
                                          { .number = 25, .core = 0, .numa_node = 3 } };

    for (int rank = 0; rank < 4; rank++)
        CHECK(halay_topology_numa_node(bound, 2, rank, 4) == 3, "bound to one node: that one");
    CHECK(halay_topology_numa_node(bound, 0, 0, 1) == 0 && halay_topology_numa_node(bound, 2, 4, 4) == 0 &&
              halay_topology_numa_node(bound, 2, 0, 0) == 0,
          "nothing known");
#if HALAY_HAVE_HWLOC
    check_nodes(log, "numa:1 core:4 pu:1", 4, "0000");
    check_nodes(log, "package:2 numa:1 core:4 pu:2", 2, "01");
    check_nodes(log, "package:2 numa:1 core:4 pu:2", 8, "00001111");
    check_nodes(log, "package:2 numa:1 core:4 pu:2", 3, "001");
    check_nodes(log, "package:2 numa:2 core:2 pu:1", 4, "0123");
    check_nodes(log, "package:2 numa:2 core:2 pu:1", 16, "0000111122223333");
    check_nodes(log, "numa:4 core:1 pu:1", 1, "0");
#else
    (void)log;
#endif
}

/* Two nodes of two cores of two threads, which count across the nodes in turn, as hwloc orders them. */
static void check_order(void)
{
    static const int numbers[] = { 0, 4, 2, 6, 1, 5, 3, 7 };
    struct halay_thread threads[8];

    for (int i = 0; i < 8; i++)
        threads[i] = (struct halay_thread){ .number = i, .core = i % 4, .numa_node = i % 2 };
    halay_topology_os_order(threads, 8);
    for (int i = 0; i < 8; i++)
        CHECK(threads[i].number == numbers[i] && threads[i].core == i / 2 && threads[i].numa_node == i / 4,
              "place %d: thread %d, core %d, node %d", i, threads[i].number, threads[i].core, threads[i].numa_node);
}

static void check_synthetic(struct halay_log *log)
{
#if HALAY_HAVE_HWLOC
    struct halay_topology t;

    REQUIRE(!setenv("HWLOC_SYNTHETIC",
                    "package:2 [numa(memory=1073741824)] l3:1(size=33554432) l2:8(size=1048576) core:1 pu:2", 1));
    CHECK(halay_topology_load(log, &t) == HALAY_OK && t.cores == 16 && t.threads == 32 && t.numa_nodes == 2);
    CHECK(t.l2_bytes == 1 << 20 && t.l3_bytes == 32 << 20 && t.memory_bytes == (size_t)2 << 30, "%zu %zu %zu",
          t.l2_bytes, t.l3_bytes, t.memory_bytes);
    CHECK(isinf(t.quota) && halay_topology_usable(&t) == 32);
    struct halay_thread *threads;
    size_t count;
    REQUIRE(halay_topology_threads(log, &threads, &count) == HALAY_OK);
    CHECK(count == 32 && threads[0].core == 0 && threads[1].core == 0 && threads[31].core == 15);
    free(threads);
    REQUIRE(!unsetenv("HWLOC_SYNTHETIC"));
#else
    (void)log;
#endif
}

int main(void)
{
    struct halay_log log;
    char model[128];

    REQUIRE(mkdtemp(root));
    halay_log_init(&log, HALAY_LOG_WARNING);
    check_cgroups();
    check_usable();
    check_here(&log);
    check_bound(&log);
    check_placement(&log);
    check_order();
    check_synthetic(&log);
    write_file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
    char path[128];
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    halay_topology_os_model(path, model, sizeof model);
    CHECK(!strcmp(model, "Some CPU @ 2 GHz"), "'%s'", model);
    clear_files();
    REQUIRE(!rmdir(root));
    halay_log_fini(&log);
    return test_end();
}
