/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: the affinity mask, sysconf, /sys/devices/system with the hardware threads of each core, the caches and the
 * NUMA nodes, then the control groups' limits. Values that a container hides get a default: every thread a core, one
 * node, caches unknown.
 */
#include "base/machine/topology.h"
#include "base/machine/cgroup.h"
#include "base/number_text.h"
#include "base/parse.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 8192, NODES_MAX = 1024, CACHES_MAX = 8 };

/* Returns the lowest thread of the same core, which identifies the core. */
static int first_sibling(int cpu)
{
    char line[32];
    const int found =
        halay_read_line(line, sizeof line, "", "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);

    return found ? atoi(line) : cpu;
}

/* Returns the number in a name like "node3", -1 for another name. */
static int node_number(const char *name)
{
    return !strncmp(name, "node", 4) && name[4] >= '0' && name[4] <= '9' ? atoi(name + 4) : -1;
}

/* The numbers of the machine's nodes; node 0 alone where they are hidden. */
struct nodes {
    int count, number[NODES_MAX];
};

static struct nodes list_nodes(void)
{
    struct nodes nodes = { 0 };
    DIR *folder = opendir("/sys/devices/system/node");

    for (struct dirent *entry; folder && nodes.count < NODES_MAX && (entry = readdir(folder));)
        if (node_number(entry->d_name) >= 0)
            nodes.number[nodes.count++] = node_number(entry->d_name);
    if (folder)
        closedir(folder);
    nodes.count += !nodes.count;
    return nodes;
}

/* Returns a thread's node: its folder has a link to the node's. To list that folder takes 100 us in each rank. */
static int numa_node_of(int cpu, const struct nodes *nodes)
{
    char path[80];

    for (int i = 0; i < nodes->count && nodes->count > 1; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%d", cpu, nodes->number[i]);
        if (!access(path, F_OK))
            return nodes->number[i];
    }
    return nodes->number[0];
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

void halay_topology_order(struct halay_thread *threads, size_t count)
{
    int core = -1, first = -1;

    qsort(threads, count, sizeof *threads, compare_threads);
    for (size_t i = 0; i < count; i++) {
        core += threads[i].core != first;
        first = threads[i].core;
        threads[i].core = core;
    }
}

enum halay_status halay_topology_threads(struct halay_log *log, struct halay_thread **out, size_t *out_count)
{
    const struct nodes nodes = list_nodes();
    size_t set_bytes = CPU_ALLOC_SIZE(THREADS_MAX), count = 0;
    cpu_set_t *set = CPU_ALLOC(THREADS_MAX);
    struct halay_thread *threads = calloc(THREADS_MAX, sizeof *threads);
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    if (!set || !threads)
        goto err_free;
    CPU_ZERO_S(set_bytes, set);
    if (sched_getaffinity(0, set_bytes, set) < 0) {
        status = halay_fail(log, HALAY_ERR_SYSTEM, "cannot read the processors of this process: %s", strerror(errno));
        goto err_free;
    }
    for (int cpu = 0; cpu < THREADS_MAX; cpu++)
        if (CPU_ISSET_S((size_t)cpu, set_bytes, set))
            threads[count++] = (struct halay_thread){ .number = cpu,
                                                      .core = first_sibling(cpu),
                                                      .numa_node = numa_node_of(cpu, &nodes) };
    CPU_FREE(set);
    halay_topology_order(threads, count);
    *out = threads;
    *out_count = count;
    return HALAY_OK;

err_free:
    CPU_FREE(set);
    free(threads);
    return status;
}

/* Reads "model name" of /proc/cpuinfo, "" if it has none. */
static void read_model(const char *root, char *model, size_t size)
{
    char line[256];
    const int found = halay_read_line(line, sizeof line, "model name", "%s/proc/cpuinfo", root);
    const char *colon = found ? strchr(line, ':') : NULL;

    snprintf(model, size, "%s", colon ? colon + 1 + strspn(colon + 1, " \t") : "");
}

/* Returns the size of a hardware thread's cache of this level; 0 if it is unknown. */
static size_t cache_bytes(const char *root, int cpu, int level)
{
    char folder[256], line[32];
    size_t bytes;

    for (int i = 0; i < CACHES_MAX; i++) {
        snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu/cpu%d/cache/index%d", root, cpu, i);
        if (halay_read_line(line, sizeof line, "", "%s/level", folder) && atoi(line) == level &&
            halay_read_line(line, sizeof line, "", "%s/size", folder) && halay_parse_size(line, &bytes) == HALAY_OK)
            return bytes;
    }
    return 0;
}

void halay_topology_read_files(const char *root, int cpu, struct halay_topology *topology)
{
    struct halay_cgroup_limits limits;

    halay_cgroup_read(root, &limits);
    topology->quota = limits.quota;
    if (limits.memory_bytes < topology->memory_bytes)
        topology->memory_bytes = limits.memory_bytes;
    topology->l2_bytes = cache_bytes(root, cpu, 2);
    topology->l3_bytes = cache_bytes(root, cpu, 3);
    read_model(root, topology->model, sizeof topology->model);
}

enum halay_status halay_topology_load(struct halay_log *log, struct halay_topology *topology)
{
    struct halay_topology t = { .numa_nodes = list_nodes().count };
    struct halay_thread *threads;
    size_t count;

    enum halay_status status = halay_topology_threads(log, &threads, &count);
    if (status != HALAY_OK)
        return status;
    t.threads = (int)count;
    t.cores = threads[count - 1].core + 1;
    for (size_t i = 0; i < count; i++)
        if (threads[i].number / 8 < HALAY_CPU_MASK_BYTES)
            t.mask[threads[i].number / 8] |= (unsigned char)(1 << threads[i].number % 8);
    const long pages = sysconf(_SC_PHYS_PAGES);
    t.memory_bytes = pages > 0 ? (size_t)pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
    halay_topology_read_files("", threads[0].number, &t);
    free(threads);
    *topology = t;
    return HALAY_OK;
}

void halay_topology_add(struct halay_topology *topology, const unsigned char mask[HALAY_CPU_MASK_BYTES])
{
    for (size_t i = 0; i < HALAY_CPU_MASK_BYTES; i++)
        topology->mask[i] |= mask[i];
}

int halay_topology_usable(const struct halay_topology *topology)
{
    int masked = 0;

    for (size_t i = 0; i < HALAY_CPU_MASK_BYTES; i++)
        masked += __builtin_popcount(topology->mask[i]);
    double usable = fmin(masked > topology->threads ? masked : topology->threads, floor(topology->quota));
    return usable >= 1 ? (int)usable : 1;
}

int halay_topology_ranks(const struct halay_topology *topology)
{
    double ranks = fmin(topology->cores, floor(topology->quota));

    return ranks >= 1 ? (int)ranks : 1;
}

int halay_topology_numa_node(const struct halay_thread *threads, size_t count, int rank, int size)
{
    if (count == 0 || size < 1 || rank < 0 || rank >= size)
        return 0;
    return threads[(size_t)((unsigned long long)count * (unsigned)rank / (unsigned)size)].numa_node;
}

static void print_bytes(FILE *out, const char *label, size_t bytes)
{
    if (!bytes)
        fprintf(out, "%s unknown", label);
    else if (bytes >= (size_t)1 << 30)
        halay_fprintf(out, "%s %.1f GiB", label, (double)bytes / (1 << 30));
    else if (bytes >= (size_t)1 << 20)
        halay_fprintf(out, "%s %.4g MiB", label, (double)bytes / (1 << 20));
    else
        fprintf(out, "%s %zu KiB", label, bytes >> 10);
}

void halay_topology_print(const struct halay_topology *topology, FILE *out)
{
    fprintf(out, "machine: %s\n", *topology->model ? topology->model : "unknown processor");
    fprintf(out, "  this process may use %d core%s, %d hardware thread%s, %d NUMA node%s\n", topology->cores,
            topology->cores == 1 ? "" : "s", topology->threads, topology->threads == 1 ? "" : "s", topology->numa_nodes,
            topology->numa_nodes == 1 ? "" : "s");
    if (isinf(topology->quota))
        fprintf(out, "  control group: no limit of processor time\n");
    else
        halay_fprintf(out, "  control group: time of %.2f processors\n", topology->quota);
    print_bytes(out, "  caches: L2", topology->l2_bytes);
    print_bytes(out, ", L3", topology->l3_bytes);
    print_bytes(out, "\n  memory:", topology->memory_bytes);
    fprintf(out, "\n  ranks that can spin at once: %d\n", halay_topology_usable(topology));
}
