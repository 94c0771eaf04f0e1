/* SPDX-License-Identifier: Apache-2.0
 *
 * Topology: hwloc's tree of the machine cut down to this process's processors, then the control groups' limits.
 *
 * With HWLOC_SYNTHETIC or HWLOC_XMLFILE in the environment (hwloc reads them itself) the tree is another machine's; it
 * is then neither cut nor limited, so that placement can be tried for machines that are not there.
 */
#include "base/machine/topology.h"
#include "base/config.h"
#include "base/machine/cgroup.h"
#include "base/machine/topology_impl.h"
#include "base/number_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if HALAY_HAVE_HWLOC
#include <hwloc.h>

static size_t cache_bytes(hwloc_topology_t tree, hwloc_obj_type_t type)
{
    hwloc_obj_t cache = hwloc_get_obj_by_type(tree, type, 0);

    return cache ? (size_t)cache->attr->cache.size : 0;
}

static int count_objects(hwloc_topology_t tree, hwloc_obj_type_t type)
{
    int objects = hwloc_get_nbobjs_by_type(tree, type);

    return objects > 0 ? objects : 0;
}

/* Restricts the tree to the processors that this process is bound to; keeps all if they are unknown. */
static void restrict_to_process(hwloc_topology_t tree)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();

    if (set && hwloc_get_cpubind(tree, set, HWLOC_CPUBIND_PROCESS) == 0 && !hwloc_bitmap_iszero(set))
        hwloc_topology_restrict(tree, set, 0);
    hwloc_bitmap_free(set);
}

static void read_tree(hwloc_topology_t tree, struct halay_topology *t)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(tree, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

    t->threads = count_objects(tree, HWLOC_OBJ_PU);
    t->cores = count_objects(tree, HWLOC_OBJ_CORE);
    if (t->cores == 0)
        t->cores = t->threads;
    t->numa_nodes = count_objects(tree, HWLOC_OBJ_NUMANODE);
    t->l2_bytes = cache_bytes(tree, HWLOC_OBJ_L2CACHE);
    t->l3_bytes = cache_bytes(tree, HWLOC_OBJ_L3CACHE);
    if (!model)
        model = hwloc_topology_is_thissystem(tree) ? t->model : "";
    memmove(t->model, model, strnlen(model, sizeof t->model - 1) + 1);
    t->model[sizeof t->model - 1] = 0;
    if (hwloc_topology_is_thissystem(tree))
        return;
    t->memory_bytes = (size_t)hwloc_get_root_obj(tree)->total_memory;
    memset(t->mask, 0, sizeof t->mask);
    for (int i = 0; i < t->threads && i < HALAY_CPU_MASK_BYTES * 8; i++)
        t->mask[i / 8] |= (unsigned char)(1 << i % 8);
}

/* Returns a thread's node: of several (ordinary and fast memory) the first is the ordinary one. */
static int numa_node_of(hwloc_obj_t thread)
{
    int node = hwloc_bitmap_first(thread->nodeset);

    return node >= 0 ? node : 0;
}

/* Lists the tree's threads, core by core. */
static enum halay_status list_threads(hwloc_topology_t tree, struct halay_thread **out, size_t *out_count)
{
    int cores = count_objects(tree, HWLOC_OBJ_CORE), threads = count_objects(tree, HWLOC_OBJ_PU);
    struct halay_thread *list = calloc((size_t)threads + 1, sizeof *list);
    size_t n = 0;

    if (!list)
        return HALAY_ERR_NO_MEMORY;
    for (int i = 0; i < threads; i++) {
        hwloc_obj_t thread = hwloc_get_obj_by_type(tree, HWLOC_OBJ_PU, (unsigned)i);
        hwloc_obj_t core = cores ? hwloc_get_ancestor_obj_by_type(tree, HWLOC_OBJ_CORE, thread) : thread;
        if (core)
            list[n++] = (struct halay_thread){ .number = (int)thread->os_index,
                                               .core = (int)core->logical_index,
                                               .numa_node = numa_node_of(thread) };
    }
    *out = list;
    *out_count = n;
    return HALAY_OK;
}

/* Returns nonzero if hwloc can read a machine. Where the system hides its processors, as in some sandboxes, hwloc
 * prints an error each time and finds little, unless it has another machine's description. */
static int has_processors(void)
{
    return access("/sys/devices/system/cpu", F_OK) == 0 || halay_environment_get("HWLOC_SYNTHETIC") ||
           halay_environment_get("HWLOC_XMLFILE") || halay_environment_get("HWLOC_FSROOT");
}

/* Opens the machine's tree, restricted to this process if it is this machine's; destroyed by the caller. */
static enum halay_status open_tree(struct halay_log *log, hwloc_topology_t *tree)
{
    if (hwloc_topology_init(tree) < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "hwloc cannot be initialised");
    if (hwloc_topology_load(*tree) < 0) {
        halay_error(log, "hwloc cannot read this machine's topology");
        hwloc_topology_destroy(*tree);
        return HALAY_ERR_SYSTEM;
    }
    if (hwloc_topology_is_thissystem(*tree))
        restrict_to_process(*tree);
    return HALAY_OK;
}

enum halay_status halay_topology_threads(struct halay_log *log, struct halay_thread **threads, size_t *out_count)
{
    hwloc_topology_t tree;

    if (!has_processors())
        return halay_topology_os_threads(log, threads, out_count);
    enum halay_status status = open_tree(log, &tree);
    if (status != HALAY_OK)
        return status;
    status = list_threads(tree, threads, out_count);
    hwloc_topology_destroy(tree);
    return status;
}

/* Overwrites the operating system's values. *is_here: the tree is this machine's. */
static enum halay_status load_tree(struct halay_log *log, struct halay_topology *t, int *is_here)
{
    hwloc_topology_t tree;

    *is_here = 1;
    if (!has_processors())
        return HALAY_OK;
    enum halay_status status = open_tree(log, &tree);
    if (status != HALAY_OK)
        return status;
    *is_here = hwloc_topology_is_thissystem(tree);
    read_tree(tree, t);
    hwloc_topology_destroy(tree);
    return HALAY_OK;
}
#else
enum halay_status halay_topology_threads(struct halay_log *log, struct halay_thread **threads, size_t *count)
{
    return halay_topology_os_threads(log, threads, count);
}

static enum halay_status load_tree(struct halay_log *log, struct halay_topology *t, int *is_here)
{
    (void)log;
    (void)t;
    *is_here = 1;
    return HALAY_OK;
}
#endif

enum halay_status halay_topology_load(struct halay_log *log, struct halay_topology *topology)
{
    struct halay_topology t;
    struct halay_cgroup_limits limits;
    int is_here;

    enum halay_status status = halay_topology_os_load(log, &t);
    if (status == HALAY_OK)
        status = load_tree(log, &t, &is_here);
    if (status != HALAY_OK)
        return status;
    if (is_here) {
        halay_cgroup_read("", &limits);
        t.quota = limits.quota;
        if (limits.memory_bytes < t.memory_bytes)
            t.memory_bytes = limits.memory_bytes;
    }
    if (t.numa_nodes < 1)
        t.numa_nodes = 1;
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
