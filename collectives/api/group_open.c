/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of all ranks of this job, with a world of its own.
 */
#include "base/error_text.h"
#include "base/struct_size.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"

static enum halay_status open_group(const void *comm, enum halay_mpi_abi abi, const struct halay_group_options *options,
                                    struct halay_group **group)
{
    enum { FIRST_VERSION = sizeof(struct halay_group_options) };
    struct halay_group_options how = { 0 };
    struct halay_world *world;
    enum halay_status status = HALAY_OK;

    if (options)
        status = halay_struct_read(NULL, "halay_group_options", options, FIRST_VERSION, sizeof how, &how);
    if (!group) {
        halay_error_somewhere(NULL, "halay_group_open: no place for the group");
        status = HALAY_ERR_ARGUMENT;
    }
    /* Start with the others even if something is wrong here: they must not wait for this rank. */
    status = halay_world_open(
        &(struct halay_world_options){
            .bootstrap = how.bootstrap, .comm = comm, .comm_abi = abi, .transport = how.transport, .status = status },
        &world);
    if (status != HALAY_OK)
        return status;
    halay_world_forget_hosts(world);
    status = halay_group_create(world, group);
    if (status != HALAY_OK) {
        halay_world_close(world);
        return status;
    }
    world->closes_with_groups = 1;
    return HALAY_OK;
}

enum halay_status halay_group_open(const struct halay_group_options *options, struct halay_group **group)
{
    return halay_returns(open_group(NULL, 0, options, group));
}

enum halay_status halay_group_open_communicator(const void *comm, enum halay_mpi_abi abi,
                                                const struct halay_group_options *options, struct halay_group **group)
{
    if (!comm)
        return halay_returns(
            halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_group_open_communicator: no communicator"));
    return halay_returns(open_group(comm, abi, options, group));
}
