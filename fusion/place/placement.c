/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: see placement.h.
 */
#include "fusion/place/placement.h"
#include "base/parse.h"
#include "collectives/group/world.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_among(const struct halay_thread *threads, size_t count, long number)
{
    for (size_t i = 0; i < count; i++)
        if (threads[i].number == number)
            return 1;
    return 0;
}

/* Reads a list of numbers, one for each rank of the host; *number: this rank's. */
static enum halay_status read_list(const char *list, int local_rank, int local_size, long *number, char *why,
                                   size_t size)
{
    int found = 0;

    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL, found++) {
        char word[16];
        long value;
        end = strchrnul(at, ',');
        snprintf(word, sizeof word, "%.*s", end - at < 15 ? (int)(end - at) : 15, at);
        if (halay_parse_long(word, 0, 1 << 20, &value) != HALAY_OK) {
            snprintf(why, size, "'%.100s' is neither auto nor off nor numbers of hardware threads, as 0,2,4,6", list);
            return HALAY_ERR_CONFIG;
        }
        if (found == local_rank)
            *number = value;
    }
    if (found == local_size)
        return HALAY_OK;
    snprintf(why, size, "'%.100s' names %d hardware thread%s for %d rank%s of this host: one for each is needed", list,
             found, found == 1 ? "" : "s", local_size, local_size == 1 ? "" : "s");
    return HALAY_ERR_CONFIG;
}

/* Chooses the threads of one NUMA node; none if all threads are on it. */
static size_t take_numa_node(const struct halay_thread *threads, size_t count, int node, int *chosen)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (threads[i].numa_node == node)
            chosen[n++] = threads[i].number;
    return n < count ? n : 0;
}

enum halay_status halay_placement_choose(const char *setting, const struct halay_thread *threads, size_t count,
                                         int local_rank, int local_size, struct halay_placement *place, char *why,
                                         size_t size)
{
    long number = 0;

    place->count = 0;
    if (!strcmp(setting, "off"))
        return HALAY_OK;
    if (!strcmp(setting, "auto")) {
        place->count = take_numa_node(threads, count, halay_topology_numa_node(threads, count, local_rank, local_size),
                                      place->chosen);
        return HALAY_OK;
    }
    enum halay_status status = read_list(setting, local_rank, local_size, &number, why, size);
    if (status != HALAY_OK)
        return status;
    if (!is_among(threads, count, number)) {
        snprintf(why, size, "'%.100s': this process may not use hardware thread %ld", setting, number);
        return HALAY_ERR_CONFIG;
    }
    place->chosen[place->count++] = (int)number;
    return HALAY_OK;
}

static int by_number(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;

    return (left > right) - (left < right);
}

/* Writes numbers like "0-3,8", after sorting them. */
static void write_ranges(int *numbers, size_t n, char *text, size_t size)
{
    size_t used = 0;

    qsort(numbers, n, sizeof *numbers, by_number);
    *text = '\0';
    for (size_t i = 0, last; i < n && used < size; i = last + 1) {
        for (last = i; last + 1 < n && numbers[last + 1] == numbers[last] + 1; last++)
            ;
        used += (size_t)snprintf(text + used, size - used, last > i ? "%s%d-%d" : "%s%d", i ? "," : "", numbers[i],
                                 numbers[last]);
    }
}

static void bind_thread(struct halay_log *log, pthread_t thread, const int *chosen, size_t n)
{
    int most = 0;

    for (size_t i = 0; i < n; i++)
        most = chosen[i] > most ? chosen[i] : most;
    cpu_set_t *set = CPU_ALLOC(most + 1);
    int error = set ? 0 : ENOMEM;
    if (set) {
        size_t bytes = CPU_ALLOC_SIZE(most + 1);
        CPU_ZERO_S(bytes, set);
        for (size_t i = 0; i < n; i++)
            CPU_SET_S(chosen[i], bytes, set);
        error = pthread_setaffinity_np(thread, bytes, set);
        CPU_FREE(set);
    }
    if (error)
        halay_warning(log, "the engine's thread stays where it is: %s", strerror(error));
}

static void places_log(const struct halay_world *world, const struct halay_thread *threads, size_t count, int *chosen,
                       size_t n)
{
    char all[256], own[256];
    int *numbers = calloc(count + 1, sizeof *numbers);

    if (!numbers)
        return;
    for (size_t i = 0; i < count; i++)
        numbers[i] = threads[i].number;
    write_ranges(numbers, count, all, sizeof all);
    free(numbers);
    write_ranges(chosen, n, own, sizeof own);
    halay_info(world->log,
               "placement: %d of %d on host %d of %d; hardware threads %s (%d for all ranks of the host); memory on "
               "NUMA node %d of %d; the engine's thread runs on %s",
               world->local_rank, world->local_size, world->cross_rank, world->cross_size, all,
               halay_topology_usable(&world->topology),
               halay_topology_numa_node(threads, count, world->local_rank, world->local_size),
               world->topology.numa_nodes, n ? own : "any of them");
}

/* Returns nonzero if the topology is needed; reading it takes milliseconds. */
static int is_needed(const struct halay_world *world)
{
    return strcmp(world->config.thread_affinity, "auto") ? strcmp(world->config.thread_affinity, "off") != 0
                                                         : world->topology.numa_nodes > 1;
}

enum halay_status halay_placement_apply(const struct halay_world *world, pthread_t thread)
{
    struct halay_thread *threads;
    size_t count;
    char why[256];

    if (!is_needed(world) && world->log->level < HALAY_LOG_INFO)
        return HALAY_OK;
    if (halay_topology_threads(world->log, &threads, &count) != HALAY_OK) {
        halay_warning(world->log, "the engine's thread is not placed: this machine's topology cannot be read");
        return HALAY_OK;
    }
    struct halay_placement place = { .chosen = calloc(count + 1, sizeof *place.chosen) };
    enum halay_status status = place.chosen ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    if (place.chosen) {
        status = halay_placement_choose(world->config.thread_affinity, threads, count, world->local_rank,
                                        world->local_size, &place, why, sizeof why);
        if (status == HALAY_ERR_CONFIG)
            halay_error(world->log, "HALAY_THREAD_AFFINITY: %s", why);
        if (status == HALAY_OK && place.count)
            bind_thread(world->log, thread, place.chosen, place.count);
        if (status == HALAY_OK && world->log->level >= HALAY_LOG_INFO)
            places_log(world, threads, count, place.chosen, place.count);
        free(place.chosen);
    }
    free(threads);
    return status;
}
