/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of all ranks of this job, with a world of its own.
 */
#include "collectives/api/group_open.h"
#include "base/error_text.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"

/* Returns HALAY_ERR_ARGUMENT for options that only an engine can follow. */
static enum halay_status check_options(const struct halay_options *how, struct halay_group *const *group)
{
    if (!group)
        return halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_open: no place for the group");
    if (how->process_sets || how->process_set_count || how->join_average)
        return halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT,
                                    "halay_group_open: process_sets and join_average are options of halay_init; "
                                    "halay_group_subset makes a group of some ranks");
    return HALAY_OK;
}

enum halay_status halay_group_open_world(const struct halay_world_options *options, int reports_errors,
                                         struct halay_group **group)
{
    struct halay_world *world;

    enum halay_status status = halay_world_open(options, &world);
    if (status != HALAY_OK)
        return status;
    halay_world_forget_hosts(world);
    status = halay_group_create(world, group);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    halay_world_finish_start(world);
    atomic_store_explicit(&world->log->reports_errors, reports_errors, memory_order_relaxed);
    world->closes_with_groups = 1;
    return HALAY_OK;
}

static enum halay_status open_group(const void *comm, enum halay_mpi_abi abi, const struct halay_options *options,
                                    struct halay_group **group)
{
    struct halay_options how;
    struct halay_world_options start;

    halay_world_options_read(options, &how, &start);
    start.uses_devices = how.uses_devices;
    start.stream = how.stream;
    start.stream_arg = how.stream_arg;
    start.comm = comm;
    start.comm_abi = abi;
    if (start.status == HALAY_OK)
        start.status = check_options(&how, group);
    /* Start with the others even if something is wrong here: they must not wait for this rank. */
    return halay_group_open_world(&start, how.reports_errors != 0, group);
}

enum halay_status halay_group_open(const struct halay_options *options, struct halay_group **group)
{
    return halay_returns(open_group(NULL, 0, options, group));
}

enum halay_status halay_group_open_communicator(const void *comm, enum halay_mpi_abi abi,
                                                const struct halay_options *options, struct halay_group **group)
{
    if (!comm)
        return halay_returns(
            halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_open_communicator: no communicator"));
    return halay_returns(open_group(comm, abi, options, group));
}
