/* SPDX-License-Identifier: Apache-2.0
 *
 * A world's connections between hosts: the control transport of an engine where ranks don't all share memory, and the
 * transport for data where there is nothing better than TCP.
 *
 * They are made before another transport for data that takes any network it finds: a host may have networks that others
 * can't reach (a bridge of containers, with the same address on every host; a second card on a network of its own), and
 * by which one the others are reached is known once they have been.
 */
#include "collectives/group/world_impl.h"
#include "collectives/transport/module.h"
#include "collectives/transport/tcp/tcp.h"

static enum halay_status connect_all(struct halay_world *world, struct halay_link **out)
{
    const struct halay_tcp_how how = {
        .network = { world->config.network_interface, { world->config.ports[0], world->config.ports[1] } },
        .timeout_ms = world->config.start_timeout_ms,
        .silence_ms = world->config.host_silence_ms,
        .streams = world->config.tcp_streams,
        .is_sealed = world->config.encrypt,
        .connects = world->cross_size > 1,
    };
    struct halay_link *link = NULL;
    int wanted = 0;

    enum halay_status status = halay_tcp_open(world->log, &how, world->boot, world->peers, &link);
    if (status == HALAY_OK)
        halay_tcp_interfaces(link, world->interfaces, sizeof world->interfaces);
    status = halay_world_agree(world, status, &wanted);
    if (status == HALAY_OK)
        *out = link;
    else if (link)
        link->ops->close(link);
    return status;
}

enum halay_status halay_world_reach_hosts(struct halay_world *world)
{
    enum halay_status status = connect_all(world, &world->reached);

    world->host->interfaces = *world->interfaces ? world->interfaces : NULL;
    return status;
}

void halay_world_forget_hosts(struct halay_world *world)
{
    if (world->reached)
        world->reached->ops->close(world->reached);
    world->reached = NULL;
}

enum halay_status halay_world_open_tcp(struct halay_world *world)
{
    enum halay_status status = world->reached ? HALAY_OK : connect_all(world, &world->reached);

    if (status != HALAY_OK)
        return status;
    world->data = world->reached;
    world->reached = NULL;
    if (!world->control) /* one transport for both */
        world->control = world->data;
    return halay_world_watch(world, world->data);
}

enum halay_status halay_world_open_control(struct halay_world *world)
{
    if (world->control || world->size == 1)
        return HALAY_OK;
    enum halay_status status = world->reached ? HALAY_OK : connect_all(world, &world->reached);
    if (status != HALAY_OK)
        return status;
    world->control = world->reached;
    world->reached = NULL;
    return halay_world_watch(world, world->control);
}
