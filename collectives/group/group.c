/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: made and ended, memory, settings, queries.
 *
 * Cleanup: zero-initialised; halay_group_free_all accepts a half-built group.
 */
#include "collectives/group/group.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "base/struct_size.h"
#include "collectives/choose/algorithms.h"
#include "collectives/choose/select.h"
#include "collectives/group/area.h"
#include "collectives/group/choice.h"
#include "collectives/group/detour.h"
#include "collectives/group/nodes.h"
#include "collectives/group/p2p.h"
#include "halay_tools.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SPIN_US = 1000, SPIN_SHORT_US = 50 };

/* ---- open and close ---- */

static void unlink_group(struct halay_group *group)
{
    struct halay_group **link = &group->world->groups;

    while (*link && *link != group)
        link = &(*link)->next;
    if (*link)
        *link = group->next;
}

/* ---- its memory: shared if messages between ranks of this host go through that, else the data link's ---- */

static struct halay_shared_memory *shared_of(const struct halay_group *group)
{
    return group->world->route.near->memory;
}

static enum halay_status memory_get(struct halay_group *group, size_t bytes, void **ptr)
{
    struct halay_shared_memory *shared = shared_of(group);
    struct halay_link *data = group->world->data;

    if (shared)
        return shared->ops->alloc(shared, bytes, ptr);
    if (data->ops->alloc)
        return data->ops->alloc(data, bytes, 0, ptr);
    *ptr = halay_aligned_alloc(HALAY_PAGE, bytes);
    return *ptr ? HALAY_OK : halay_fail(group->world->log, HALAY_ERR_NO_MEMORY, "cannot allocate %zu bytes", bytes);
}

static void memory_put(struct halay_group *group, void *ptr)
{
    struct halay_shared_memory *shared = shared_of(group);
    struct halay_link *data = group->world->data;

    if (shared)
        shared->ops->free(shared, ptr);
    else if (data->ops->alloc)
        data->ops->free(data, ptr);
    else
        free(ptr);
}

static void memory_keep(struct halay_group *group, void *ptr, struct halay_kept *kept)
{
    struct halay_shared_memory *shared = shared_of(group);
    struct halay_link *data = group->world->data;

    *kept = (struct halay_kept){ 0 };
    if (shared)
        shared->ops->keep(shared, ptr, kept);
    else if (data->ops->alloc)
        data->ops->keep(data, ptr, kept);
}

void halay_group_free_all(struct halay_group *group)
{
    if (!group)
        return;
    struct halay_world *world = group->world;
    unlink_group(group);
    halay_detour_free_all(group);
    for (struct halay_block *b = group->blocks, *next; b; b = next) {
        next = b->next;
        memory_put(group, b->ptr);
        free(b);
    }
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        free(group->channels[k].state);
        halay_channel_scratch_put(&group->channels[k], world->data);
        free(group->channels[k].starts);
        free(group->channels[k].areas);
    }
    halay_p2p_free_all(group);
    free(group->closed);
    free(group->shared);
    free(group->members);
    halay_group_end_destroy(group->end, world->data, 0);
    halay_nodes_destroy(group->nodes);
    pthread_mutex_destroy(&group->lock);
    free(group);
    if (!world->groups && world->closes_with_groups)
        halay_world_close(world);
}

int halay_group_world_rank(const struct halay_group *group, int rank)
{
    return group->members && rank >= 0 ? group->members[rank] : rank;
}

int halay_group_rank_of(const struct halay_group *group, int world_rank)
{
    if (!group->members)
        return world_rank;
    for (int r = 0; r < group->size; r++)
        if (group->members[r] == world_rank)
            return r;
    return -1;
}

static const struct halay_hop *hop_to(const struct halay_group *group, int rank)
{
    return &group->world->route.to[halay_group_world_rank(group, rank)];
}

static enum halay_status allocate_areas(struct halay_group *group)
{
    size_t n = (size_t)group->size;

    group->memory = group->world->route.memory;
    if (!group->memory)
        return HALAY_OK;
    group->closed = calloc(n, sizeof *group->closed);
    group->shared = malloc(n * sizeof *group->shared);
    if (!group->closed || !group->shared)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++)
        group->shared[r] = hop_to(group, r)->shared;
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        group->channels[k].closed = group->closed;
        group->channels[k].areas = calloc(n, sizeof *group->channels[k].areas);
        if (!group->channels[k].areas)
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

static enum halay_status map_areas(struct halay_group *group, const uint64_t *offsets)
{
    struct halay_shared_memory *memory = group->memory;

    for (int r = 0; memory && r < group->size; r++) {
        if (group->shared[r] < 0)
            continue;
        unsigned char *base = memory->ops->reach(memory, group->shared[r], offsets[r], HALAY_GROUP_BYTES);
        if (!base)
            return halay_fail(group->world->log, HALAY_ERR_FORMAT, "rank %d has no areas at the offset it sent",
                              halay_group_world_rank(group, r));
        for (int k = 0; k < HALAY_CHANNELS; k++)
            group->channels[k].areas[r] = (struct halay_area *)(base + (size_t)k * HALAY_AREA_BYTES);
        group->closed[r] = &group->channels[0].areas[r]->closed;
    }
    return HALAY_OK;
}

/* Follows the route to each member. */
static void find_sharing(struct halay_group *group)
{
    int shares_all = 1;

    group->transport = hop_to(group, group->rank)->link->ops->name;
    for (int r = 0; r < group->size; r++) {
        const struct halay_hop *to = hop_to(group, r);
        shares_all &= to->shared >= 0 && to->link->memory != NULL;
        if (to->link != group->world->route.near)
            group->transport = to->link->ops->name;
    }
    group->sharing = shares_all ? HALAY_SHARES_ALL : HALAY_SHARES_NONE;
    if (group->nodes)
        group->sharing = HALAY_SHARES_NODES;
}

/* Applies HALAY_ALLREDUCE_ALGORITHM and those of other operations. */
static enum halay_status apply_config(struct halay_group *group)
{
    const struct halay_config *config = &group->world->config;
    const char *const names[HALAY_COLL_COUNT] = { [HALAY_COLL_ALLREDUCE] = config->allreduce_algorithm,
                                                  [HALAY_COLL_REDUCE] = config->reduce_algorithm,
                                                  [HALAY_COLL_REDUCE_SCATTER] = config->reduce_scatter_algorithm,
                                                  [HALAY_COLL_BROADCAST] = config->broadcast_algorithm,
                                                  [HALAY_COLL_ALLGATHER] = config->allgather_algorithm,
                                                  [HALAY_COLL_ALLTOALL] = config->alltoall_algorithm,
                                                  [HALAY_COLL_BARRIER] = config->barrier_algorithm };

    for (int i = 0; i < HALAY_COLL_COUNT; i++) {
        if (!names[i])
            continue;
        enum halay_status status =
            halay_group_set_algorithm(group, halay_coll_kind_name((enum halay_coll_kind)i), names[i]);
        if (status == HALAY_ERR_UNSUPPORTED && group->members) {
            halay_info(group->world->log, "not for this group: algorithm '%s' for %s", names[i],
                       halay_coll_kind_name((enum halay_coll_kind)i));
            status = HALAY_OK;
        }
        if (status != HALAY_OK)
            return status == HALAY_ERR_ARGUMENT ? HALAY_ERR_CONFIG : status;
    }
    return HALAY_OK;
}

/* Polling shared memory costs other processes nothing; polling sockets is a system call, on processors that the system
 * needs to move the bytes. A transport without a descriptor is looked at every millisecond while a rank sleeps. */
static void set_waiting(struct halay_group *group)
{
    const struct halay_world *world = group->world;
    int is_shared = group->sharing == HALAY_SHARES_ALL, rings = world->data->ops->event_fd != NULL;

    group->may_hog = halay_topology_usable(&world->topology) >= world->local_size; /* counts all local ranks' */
    group->spin_us = group->may_hog && (is_shared || !rings) ? SPIN_US : SPIN_SHORT_US;
    if (world->config.spin_us >= 0)
        group->spin_us = world->config.spin_us;
}

/* Counts the members on this rank's host, and those of them below this rank. */
static void count_local(struct halay_group *group)
{
    const struct halay_world *world = group->world;

    for (int r = 0; r < group->size; r++) {
        int is_local = world->node_of[halay_group_world_rank(group, r)] == world->node_of[world->rank];
        group->local_size += is_local;
        group->local_rank += is_local && r < group->rank;
    }
}

static void assert_tags(void)
{
    for (size_t i = 0; i < halay_algorithm_count; i++)
        assert(halay_algorithms[i].ops->tags <= halay_algorithm_tags_max(&halay_algorithms[i]));
}

enum halay_status halay_group_make(struct halay_world *world, const int *members, int size, int rank,
                                   struct halay_group **out)
{
    struct halay_group *group = calloc(1, sizeof *group);

    if (!group)
        return HALAY_ERR_NO_MEMORY;
    assert_tags();
    pthread_mutex_init(&group->lock, NULL);
    group->world = world;
    group->is_parent = world->is_parent;
    group->rank = rank;
    group->size = size;
    group->failed_rank = -1;
    group->reducer = halay_reducer_best();
    group->deterministic = world->config.deterministic;
    group->is_checked = world->config.check && size > 1;
    for (int k = 0; k < HALAY_CHANNELS; k++) {
        group->channels[k].index = k;
        group->channels[k].next = (uint64_t)k;
    }
    if (members) {
        group->members = malloc((size_t)size * sizeof *members);
        if (!group->members)
            goto err_free;
        memcpy(group->members, members, (size_t)size * sizeof *members);
    }
    if (allocate_areas(group) != HALAY_OK || halay_nodes_create(group, &group->nodes) != HALAY_OK)
        goto err_free;
    find_sharing(group);
    count_local(group);
    set_waiting(group);
    *out = group;
    return HALAY_OK;

err_free:
    halay_group_free_all(group);
    return HALAY_ERR_NO_MEMORY;
}

static int count_hosts_of(const struct halay_group *group)
{
    const int *node_of = group->world->node_of;
    int hosts = 0;

    for (int r = 0; r < group->size; r++) {
        int before = 0;
        while (before < r &&
               node_of[halay_group_world_rank(group, before)] != node_of[halay_group_world_rank(group, r)])
            before++;
        hosts += before == r;
    }
    return hosts;
}

void halay_group_unshare(struct halay_group *group)
{
    halay_info(group->world->log, "a group of %d ranks goes by messages: no room for it in shared memory", group->size);
    group->memory = NULL;
    halay_nodes_destroy(group->nodes);
    group->nodes = NULL;
    group->sharing = HALAY_SHARES_NONE;
    set_waiting(group);
}

enum halay_status halay_group_enter(struct halay_group *group, const uint64_t *offsets)
{
    enum halay_status status = map_areas(group, offsets);
    if (status != HALAY_OK)
        return status;
    group->hosts = count_hosts_of(group);
    group->next = group->world->groups;
    group->world->groups = group;
    return apply_config(group);
}

/* Areas that are the first ones taken lie at the same offset on all ranks. */
static enum halay_status enter_first(struct halay_group *group)
{
    struct halay_shared_memory *memory = group->memory;
    uint64_t offset = 0, *offsets = calloc((size_t)group->size, sizeof *offsets);

    enum halay_status status = offsets ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK && memory)
        status = memory->ops->take_areas(memory, &offset);
    for (int r = 0; status == HALAY_OK && r < group->size; r++)
        offsets[r] = offset;
    if (status == HALAY_OK)
        status = halay_group_enter(group, offsets);
    free(offsets);
    return status;
}

enum halay_status halay_group_create(struct halay_world *world, struct halay_group **out)
{
    struct halay_group *group;

    assert(!world->next_group);
    enum halay_status status = halay_group_make(world, NULL, world->size, world->rank, &group);
    if (status != HALAY_OK)
        return status;
    group->number = HALAY_WORLD_GROUP;
    group->p2p_number = HALAY_P2P_GROUP;
    world->next_group = HALAY_GROUPS_FIRST;
    world->next_epoch = HALAY_EPOCHS_FIRST;
    status = enter_first(group);
    if (status != HALAY_OK) {
        halay_group_free_all(group);
        return status;
    }
    *out = group;
    return HALAY_OK;
}

/* The last touch of others' areas. Pairs with is_left (group_end.c). */
static void count_as_leaver(struct halay_group *group)
{
    for (int r = 0; group->memory && r < group->size; r++)
        if (r != group->rank && group->shared[r] >= 0)
            atomic_fetch_add_explicit(&group->channels[0].areas[r]->leavers, 1, memory_order_release);
}

/* Keeps what is left of an ended group until its other members have ended it too. */
static void keep_end(struct halay_group *group)
{
    struct halay_world *world = group->world;

    if (!group->end)
        return;
    count_as_leaver(group);
    group->end->is_spoilt = group->status != HALAY_OK;
    group->end->has_p2p = group->p2p_all != NULL;
    group->end->collectives = group->number;
    group->end->next = world->ends;
    world->ends = group->end;
    group->end = NULL;
    halay_group_ends_sweep(&world->ends, &world->route);
}

enum halay_status halay_group_refuse_child(void)
{
    /* Not to the group's log: another thread may have held its lock during the fork. */
    return halay_fail_somewhere(NULL, HALAY_ERR_UNSUPPORTED,
                                "a child of fork has no groups: only the process that opened them can use them");
}

/* In a forked child the memory stays: the resources that it describes belong to the parent. */
void halay_group_close(struct halay_group *group)
{
    if (!group || halay_is_forked(group->is_parent))
        return;
    struct halay_world *world = group->world;
    halay_call_enter(world);
    int ends_world = world->closes_with_groups && world->groups == group && !group->next;
    halay_group_leave(group);
    keep_end(group);
    halay_group_free_all(group);
    if (!ends_world)
        halay_call_leave(world);
}

/* ---- queries ---- */

enum halay_status halay_group_read(const struct halay_group *group, struct halay_group_info *info)
{
    if (!group || !info || !halay_struct_has_size(info))
        return halay_fail_somewhere(group ? group->world->log : NULL, HALAY_ERR_ARGUMENT, "halay_group_read: no %s",
                                    group ? "struct_size" : "group");
    struct halay_group_info all = { .rank = group->rank,
                                    .size = group->size,
                                    .local_rank = group->local_rank,
                                    .local_size = group->local_size,
                                    .transport = group->transport };
    halay_struct_write(&all, sizeof all, info);
    return HALAY_OK;
}

void halay_group_last_error(struct halay_group *group, char *text, size_t size)
{
    halay_log_last_error(group->world->log, text, size);
}

enum halay_status halay_group_failure(const struct halay_group *group, int *rank)
{
    enum halay_status status = ((struct halay_group *)group)->status; /* before the rank; atomic loads take no const */

    if (rank)
        *rank = ((struct halay_group *)group)->failed_rank;
    return status;
}

/* ---- memory ---- */

enum halay_status halay_group_alloc(struct halay_group *group, size_t bytes, void **ptr)
{
    if (!group || !ptr)
        return halay_returns(halay_fail_somewhere(group ? group->world->log : NULL, HALAY_ERR_ARGUMENT,
                                                  "halay_group_alloc: no %s",
                                                  group ? "place for the pointer" : "group"));
    enum halay_status status = halay_group_check_process(group);
    if (status != HALAY_OK)
        return status;
    struct halay_block *block = calloc(1, sizeof *block);
    if (!block)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    status = memory_get(group, bytes, &block->ptr);
    if (status != HALAY_OK) {
        free(block);
        return halay_returns(status);
    }
    *ptr = block->ptr;
    pthread_mutex_lock(&group->lock);
    block->next = group->blocks;
    group->blocks = block;
    pthread_mutex_unlock(&group->lock);
    return HALAY_OK;
}

/* Returns the link to the block of this address, or to NULL. */
static struct halay_block **find_block_locked(struct halay_group *group, const void *ptr)
{
    struct halay_block **link = &group->blocks;

    while (*link && (*link)->ptr != ptr)
        link = &(*link)->next;
    return link;
}

/* Removes the block from the list; NULL if it is not there. */
static struct halay_block *take_block(struct halay_group *group, const void *ptr)
{
    pthread_mutex_lock(&group->lock);
    struct halay_block **link = find_block_locked(group, ptr), *block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&group->lock);
    return block;
}

enum halay_status halay_group_may_keep(struct halay_group *group, const void *ptr)
{
    pthread_mutex_lock(&group->lock);
    int is_ours = *find_block_locked(group, ptr) != NULL;
    pthread_mutex_unlock(&group->lock);
    if (!is_ours)
        return HALAY_ERR_ARGUMENT;
    return shared_of(group) && !shared_of(group)->ops->keep ? HALAY_ERR_UNSUPPORTED : HALAY_OK;
}

void halay_group_keep(struct halay_group *group, void *ptr, struct halay_kept *kept)
{
    free(take_block(group, ptr));
    memory_keep(group, ptr, kept);
}

enum halay_status halay_group_free(struct halay_group *group, void *ptr)
{
    if (!ptr)
        return HALAY_OK;
    if (!group)
        return halay_returns(halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_free: no group"));
    if (halay_is_forked(group->is_parent))
        return HALAY_OK;
    struct halay_block *block = take_block(group, ptr);
    if (!block) {
        halay_error(group->world->log, "not freed: %p is not from halay_group_alloc of this group, or was freed before",
                    ptr);
        return halay_returns(HALAY_ERR_ARGUMENT);
    }
    memory_put(group, ptr);
    free(block);
    return HALAY_OK;
}

enum halay_status halay_group_register(struct halay_group *group, void *ptr, size_t bytes)
{
    struct halay_shared_memory *shared = shared_of(group);

    if (!shared || !shared->ops->register_memory)
        return halay_fail(group->world->log, HALAY_ERR_UNSUPPORTED,
                          "cannot register %zu bytes at %p: ranks of this host share no memory over this transport",
                          bytes, ptr);
    return shared->ops->register_memory(shared, ptr, bytes);
}

enum halay_status halay_group_unregister(struct halay_group *group, void *ptr)
{
    struct halay_shared_memory *shared = shared_of(group);

    if (!shared || !shared->ops->register_memory)
        return halay_fail(group->world->log, HALAY_ERR_ARGUMENT, "cannot unregister %p: nothing is registered there",
                          ptr);
    return shared->ops->unregister_memory(shared, ptr);
}

/* ---- settings ---- */

void halay_group_set_absent(struct halay_group *group, int ranks)
{
    group->absent = ranks;
}

void halay_group_set_deterministic(struct halay_group *group, enum halay_deterministic mode)
{
    const char *why;

    group->deterministic = mode;
    halay_choice_forget(group);
    for (int i = 0; i < HALAY_COLL_COUNT; i++) {
        const struct halay_algorithm *forced = group->forced[i];
        if (!forced || halay_select_allows(forced, group->size, group->sharing, mode, &why) == HALAY_OK)
            continue;
        halay_warning(group->world->log, "algorithm '%s' is not used: %s", forced->name, why);
        group->forced[i] = NULL;
    }
}

static void list_algorithms(enum halay_coll_kind operation, char *text, size_t size)
{
    *text = 0;
    for (size_t i = 0; i < halay_algorithm_count; i++)
        if (halay_algorithms[i].operation == operation)
            halay_append(text, size, ", %s", halay_algorithms[i].name);
}

static void list_operations(char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < HALAY_COLL_COUNT; i++)
        halay_append(text, size, "%s%s", i ? ", " : "", halay_coll_kind_name((enum halay_coll_kind)i));
}

enum halay_status halay_group_set_algorithm(struct halay_group *group, const char *operation, const char *algorithm)
{
    enum halay_coll_kind which;
    const char *why;
    char list[256];

    if (!group)
        return halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_set_algorithm: no group");
    if (halay_coll_kind_parse(operation, &which) != HALAY_OK) {
        list_operations(list, sizeof list);
        return halay_fail(group->world->log, HALAY_ERR_ARGUMENT, "unknown operation '%s': there are %s",
                          operation ? operation : "(null)", list);
    }
    halay_choice_forget(group);
    if (algorithm && !strcmp(algorithm, "auto")) {
        group->forced[which] = NULL;
        return HALAY_OK;
    }
    const struct halay_algorithm *found = algorithm ? halay_algorithm_find(which, algorithm) : NULL;
    if (!found) {
        list_algorithms(which, list, sizeof list);
        return halay_fail(group->world->log, HALAY_ERR_ARGUMENT, "unknown algorithm '%s' for %s: there are auto%s",
                          algorithm ? algorithm : "(null)", operation, list);
    }
    enum halay_status status = halay_select_allows(found, group->size, group->sharing, group->deterministic, &why);
    if (status != HALAY_OK)
        return halay_fail(group->world->log, status, "algorithm '%s' for %s is not possible over '%s': %s", algorithm,
                          operation, group->transport, why);
    group->forced[which] = found;
    return HALAY_OK;
}

const char *halay_group_algorithm(const struct halay_group *group, const char *operation, size_t index, int *is_tree)
{
    enum halay_coll_kind which;
    const char *why;

    if (halay_coll_kind_parse(operation, &which) != HALAY_OK)
        return NULL;
    for (const struct halay_algorithm *a = halay_algorithms; a < halay_algorithms + halay_algorithm_count; a++) {
        if (a->operation != which ||
            halay_select_allows(a, group->size, group->sharing, group->deterministic, &why) != HALAY_OK)
            continue;
        if (index--)
            continue;
        if (is_tree)
            *is_tree = halay_select_allows(a, group->size, group->sharing, HALAY_DETERMINISTIC_RANKS, &why) == HALAY_OK;
        return a->name;
    }
    return NULL;
}

/* Forgets the choices of all groups of a world, which share its settings. */
static void forget_choices(struct halay_world *world)
{
    for (struct halay_group *group = world->groups; group; group = group->next)
        halay_choice_forget(group);
}

enum halay_status halay_group_set_bytes(struct halay_group *group, enum halay_group_bytes which, size_t bytes)
{
    int is_slot = which == HALAY_BYTES_SLOT;

    if (!group)
        return halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_set_%s: no group",
                                    is_slot ? "slot" : "segment");
    if (!is_slot && (which != HALAY_BYTES_CHUNK || !bytes))
        return halay_fail_somewhere(group->world->log, HALAY_ERR_ARGUMENT, "%s",
                                    bytes ? "halay_group_set_bytes: neither chunk nor slot"
                                          : "a chunk needs at least one byte");
    if (is_slot)
        group->world->config.slot_bytes = bytes;
    else
        group->world->config.chunk_bytes = bytes;
    forget_choices(group->world);
    return HALAY_OK;
}

/* Returns nonzero if devices of all ranks that access each other's memory make this operation, a sum if it reduces,
 * among themselves. */
static int devices_take(const struct halay_group *group, enum halay_coll_kind which, enum halay_dtype dtype)
{
    const struct halay_world *world = group->world;
    int is_allreduce = which == HALAY_COLL_ALLREDUCE;

    return world->config.deterministic != HALAY_DETERMINISTIC_RANKS && group->size == world->size &&
           halay_world_devices_can_take(world, is_allreduce && halay_sums_floats(HALAY_SUM, dtype)) &&
           (is_allreduce || which == HALAY_COLL_BROADCAST || which == HALAY_COLL_ALLGATHER ||
            which == HALAY_COLL_REDUCE_SCATTER);
}

const char *halay_group_explain(struct halay_group *group, const char *operation, size_t count, enum halay_dtype dtype,
                                int shared, char *text, size_t size)
{
    enum halay_coll_kind which;
    char why[512], data[64] = "";
    size_t bytes;

    if (halay_coll_kind_parse(operation, &which) != HALAY_OK || !halay_dtype_size(dtype) ||
        halay_mul_overflows(count, halay_dtype_size(dtype), &bytes)) {
        snprintf(text, size, "no such operation or type");
        return "?";
    }
    if (group->size == 1) {
        snprintf(text, size, "none: there is one rank only");
        return "none";
    }
    int is_on_devices = shared == HALAY_EXPLAIN_DEVICES && devices_take(group, which, dtype);
    if (is_on_devices && group->hosts > 1) {
        snprintf(text, size, "two-shot over cuda in each of %d hosts, and all-reduces of shares between them",
                 group->hosts);
        return "two-shot";
    }
    if (is_on_devices && which != HALAY_COLL_ALLREDUCE) {
        snprintf(text, size, "direct: each rank reads the segments of others over cuda");
        return "direct";
    }
    struct halay_select_query query = is_on_devices ? halay_select_on_devices(group->world->tuning, group->size, bytes)
                                                    : halay_choice_query(group, which, bytes, dtype);
    const struct halay_algorithm *algorithm = halay_select(&query, why, sizeof why);
    int has_place = !is_on_devices && which != HALAY_COLL_BARRIER && algorithm->flags & HALAY_ALGORITHM_SHARED;
    if (has_place && shared)
        snprintf(data, sizeof data, "; data in place");
    else if (has_place)
        snprintf(data, sizeof data, "; private data go through shared slots of %zu bytes", halay_select_slot(&query));
    snprintf(text, size, "%s for %zu bytes over %s, %d ranks, because: %s%s", algorithm->name, bytes, query.transport,
             query.size, why, data);
    return algorithm->name;
}
