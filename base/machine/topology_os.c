/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology from the operating system: the affinity mask, sysconf, and /sys/devices/system with the
 * hardware threads of each core and the NUMA nodes. Values that a container hides get a default: every thread a core,
 * one node, caches unknown.
 */
#include "base/machine/topology_impl.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 8192 };

static long read_sys_number(const char *path, long otherwise)
{
    long value;
    FILE *file = fopen(path, "re");

    if (!file)
        return otherwise;
    if (fscanf(file, "%ld", &value) != 1)
        value = otherwise;
    fclose(file);
    return value;
}

/* Returns the lowest thread of the same core, which identifies the core. */
static int first_sibling(int cpu)
{
    char path[96];

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    return (int)read_sys_number(path, cpu);
}

/* Returns the number in a name like "node3", -1 for another name. */
static int node_number(const char *name)
{
    return !strncmp(name, "node", 4) && name[4] >= '0' && name[4] <= '9' ? atoi(name + 4) : -1;
}

/* Returns a thread's node: its folder has a link to the node's. */
static int numa_node_of(int cpu)
{
    char path[64];
    int node = -1;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry; node < 0 && (entry = readdir(folder));)
        node = node_number(entry->d_name);
    closedir(folder);
    return node < 0 ? 0 : node;
}

static int compare_threads(const void *a, const void *b)
{
    const struct halay_thread *x = a, *y = b;

    if (x->numa_node != y->numa_node)
        return (x->numa_node > y->numa_node) - (x->numa_node < y->numa_node);
    if (x->core != y->core)
        return (x->core > y->core) - (x->core < y->core);
    return (x->number > y->number) - (x->number < y->number);
}

void halay_topology_os_order(struct halay_thread *threads, size_t count)
{
    int core = -1, first = -1;

    qsort(threads, count, sizeof *threads, compare_threads);
    for (size_t i = 0; i < count; i++) {
        core += threads[i].core != first;
        first = threads[i].core;
        threads[i].core = core;
    }
}

enum halay_status halay_topology_os_threads(struct halay_log *log, struct halay_thread **out, size_t *out_count)
{
    size_t set_bytes = CPU_ALLOC_SIZE(THREADS_MAX), count = 0;
    cpu_set_t *set = CPU_ALLOC(THREADS_MAX);
    struct halay_thread *threads = calloc(THREADS_MAX, sizeof *threads);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (!set || !threads)
        goto err_free;
    CPU_ZERO_S(set_bytes, set);
    if (sched_getaffinity(0, set_bytes, set) < 0) {
        halay_error(log, "cannot read the processors of this process: %s", strerror(errno));
        status = HALAY_ERR_SYSTEM;
        goto err_free;
    }
    for (int cpu = 0; cpu < THREADS_MAX; cpu++)
        if (CPU_ISSET_S((size_t)cpu, set_bytes, set))
            threads[count++] =
                (struct halay_thread){ .number = cpu, .core = first_sibling(cpu), .numa_node = numa_node_of(cpu) };
    CPU_FREE(set);
    halay_topology_os_order(threads, count);
    *out = threads;
    *out_count = count;
    return HALAY_OK;

err_free:
    CPU_FREE(set);
    free(threads);
    return status;
}

static int count_nodes(void)
{
    int nodes = 0;
    DIR *folder = opendir("/sys/devices/system/node");

    if (!folder)
        return 1;
    for (struct dirent *entry; (entry = readdir(folder));)
        nodes += node_number(entry->d_name) >= 0;
    closedir(folder);
    return nodes ? nodes : 1;
}

void halay_topology_os_model(const char *path, char *model, size_t size)
{
    char line[256];
    FILE *file = fopen(path, "re");

    *model = 0;
    if (!file)
        return;
    while (!*model && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (colon && !strncmp(line, "model name", 10)) {
            line[strcspn(line, "\n")] = 0;
            snprintf(model, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        }
    }
    fclose(file);
}

static size_t size_or_zero(long value)
{
    return value > 0 ? (size_t)value : 0;
}

enum halay_status halay_topology_os_load(struct halay_log *log, struct halay_topology *topology)
{
    struct halay_topology t = { .quota = INFINITY };
    struct halay_thread *threads;
    size_t count;

    enum halay_status status = halay_topology_os_threads(log, &threads, &count);
    if (status != HALAY_OK)
        return status;
    t.threads = (int)count;
    t.cores = count ? threads[count - 1].core + 1 : 0;
    for (size_t i = 0; i < count; i++)
        if (threads[i].number / 8 < HALAY_CPU_MASK_BYTES)
            t.mask[threads[i].number / 8] |= (unsigned char)(1 << threads[i].number % 8);
    free(threads);
    t.numa_nodes = count_nodes();
    t.l2_bytes = size_or_zero(sysconf(_SC_LEVEL2_CACHE_SIZE));
    t.l3_bytes = size_or_zero(sysconf(_SC_LEVEL3_CACHE_SIZE));
    t.memory_bytes = size_or_zero(sysconf(_SC_PHYS_PAGES)) * size_or_zero(sysconf(_SC_PAGESIZE));
    halay_topology_os_model("/proc/cpuinfo", t.model, sizeof t.model);
    *topology = t;
    return HALAY_OK;
}
