/* SPDX-License-Identifier: Apache-2.0
 *
 * Binding: cores in the order of the machine's tree, cut into one contiguous piece for each rank, so that neighbours
 * share caches.
 */
#include "launcher/where/binding.h"
#include "base/config.h"
#include "base/machine/topology.h"
#include "launcher/common/report.h"
#include "launcher/where/gpus.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* The rank that core `core` of `cores` goes to: the first cores % ranks ranks get one more. */
static int rank_of_core(int core, int cores, int ranks)
{
    int base = cores / ranks, longer = cores % ranks, border = longer * (base + 1);

    return core < border ? core / (base + 1) : longer + (core - border) / base;
}

/* CUDA_VISIBLE_DEVICES may be set and empty: then no GPU is wanted. */
static int gpus_to_share(void)
{
    const char *wanted = halay_environment_get("HALAY_GPUS");

    return wanted && !strcmp(wanted, "auto") && !halay_environment_get("CUDA_VISIBLE_DEVICES") ? gpus_count("") : 0;
}

int binding_plan(struct halay_log *log, enum binding wanted, int ranks, struct binding_map *map)
{
    struct halay_topology topology;
    struct halay_thread *threads = NULL;
    size_t count = 0;

    *map = (struct binding_map){ .why_not = "--bind none", .gpus = gpus_to_share() };
    if (wanted == BIND_NONE)
        return 0;
    if (halay_topology_load(log, &topology) != HALAY_OK || halay_topology_threads(log, &threads, &count) != HALAY_OK)
        return 1;
    int cores = count ? threads[count - 1].core + 1 : 0;
    if (cores < ranks || topology.quota < ranks) {
        free(threads);
        map->why_not = cores < ranks ? "fewer cores than ranks" : "the control group allows less time than ranks need";
        if (wanted == BIND_AUTO)
            return 0;
        report("option --bind: %d ranks want %d cores; this process may use %d cores and the time of %g", ranks, ranks,
               cores, topology.quota);
        return 1;
    }
    map->threads = calloc(count, sizeof *map->threads);
    if (!map->threads) {
        free(threads);
        return report_no_memory();
    }
    for (size_t i = 0; i < count; i++)
        map->threads[i] = (struct bound_thread){ threads[i].number, rank_of_core(threads[i].core, cores, ranks) };
    map->count = count;
    map->is_bound = 1;
    free(threads);
    return 0;
}

void binding_fini(struct binding_map *map)
{
    free(map->threads);
    *map = (struct binding_map){ 0 };
}

void binding_text(const struct binding_map *map, int rank, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "any");
    for (size_t i = 0; map->is_bound && i < map->count && used < size; i++)
        if (map->threads[i].rank == rank)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? "," : "", map->threads[i].number);
}

static int name_gpu(const struct binding_map *map, int rank)
{
    char text[16];

    snprintf(text, sizeof text, "%d", gpus_of_rank(map->gpus, rank));
    return setenv("CUDA_VISIBLE_DEVICES", text, 1) == 0;
}

int binding_apply(const struct binding_map *map, int rank)
{
    int most = 0;

    if (map->gpus && !name_gpu(map, rank))
        return 0;
    if (!map->is_bound)
        return 1;
    for (size_t i = 0; i < map->count; i++)
        most = map->threads[i].number > most ? map->threads[i].number : most;
    cpu_set_t *set = CPU_ALLOC(most + 1);
    if (!set)
        return 0;
    size_t bytes = CPU_ALLOC_SIZE(most + 1);
    CPU_ZERO_S(bytes, set);
    for (size_t i = 0; i < map->count; i++)
        if (map->threads[i].rank == rank)
            CPU_SET_S((size_t)map->threads[i].number, bytes, set);
    int ok = sched_setaffinity(0, bytes, set) == 0;
    CPU_FREE(set);
    return ok;
}
