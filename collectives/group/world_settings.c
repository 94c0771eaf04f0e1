/* SPDX-License-Identifier: Apache-2.0
 *
 * World, settings: the configuration, and what the program's options override in it.
 */
#include "base/struct_size.h"
#include "collectives/group/world_impl.h"
#include <stddef.h>
#include <string.h>

void halay_world_options_read(const struct halay_options *options, struct halay_options *how,
                              struct halay_world_options *start)
{
    enum { FIRST_VERSION = offsetof(struct halay_options, process_sets) };
    enum halay_status status = HALAY_OK;

    *how = (struct halay_options){ .struct_size = sizeof *how };
    if (options)
        status = halay_struct_read(NULL, "halay_options", options, FIRST_VERSION, sizeof *how, how);
    *start = (struct halay_world_options){ .bootstrap = how->bootstrap,
                                           .rendezvous = how->rendezvous,
                                           .unique_id = how->unique_id,
                                           .rank = how->rank,
                                           .size = how->size,
                                           .transport = how->transport,
                                           .settings = how->settings,
                                           .join_average = how->join_average,
                                           .log_write = how->log,
                                           .log_arg = how->log_arg,
                                           .status = status };
}

/* Overrides a row of the configuration by the program's option; text NULL: it has none. */
static enum halay_status override(struct halay_world *world, const char *option, const char *variable, const char *text)
{
    char why[400];

    if (!text)
        return HALAY_OK;
    enum halay_status status = halay_config_set(&world->config, variable, text, why, sizeof why);
    if (status == HALAY_ERR_CONFIG)
        halay_error(world->log, "%s: '%.100s' %s", option, text, why);
    return status;
}

/* Refuses HALAY_ENCRYPT with another transport than tcp. */
static enum halay_status check_encryption(struct halay_log *log, const struct halay_config *config)
{
    for (int row = 0; row < HALAY_TRANSPORT_COUNT; row++)
        if (config->encrypt && halay_transport_rows[row].is_module && config->transport &&
            !strcmp(config->transport, halay_transport_rows[row].name))
            return halay_fail(log, HALAY_ERR_CONFIG, "HALAY_ENCRYPT=1: transport '%s' does not encrypt; use tcp",
                              config->transport);
    return HALAY_OK;
}

/* Copies another world's, which may be an elastic job's: this one's ranks stay the same. */
static enum halay_status inherit_config(struct halay_world *world, const struct halay_config *config)
{
    enum halay_status status = halay_config_copy(config, &world->config);

    world->config.elastic = -1;
    return status == HALAY_OK ? status : halay_fail(world->log, status, "no memory for a copy of the settings");
}

enum halay_status halay_world_configure(struct halay_world *world, const struct halay_world_options *options)
{
    enum halay_status status =
        options && options->config
            ? inherit_config(world, options->config)
            : halay_config_load_rest(world->log, options ? options->settings : NULL, &world->config);
    enum halay_status given = HALAY_OK;
    world->log->level = world->config.log_level;
    /* Needed even if other settings are wrong: this is how the ranks find each other. */
    if (options)
        given = override(world, "bootstrap", "HALAY_BOOTSTRAP", options->bootstrap);
    if (options && given == HALAY_OK)
        given = override(world, "transport", "HALAY_TRANSPORT", options->transport);
    if (options && given == HALAY_OK)
        given = override(world, "join_average", "HALAY_JOIN_AVERAGE", options->join_average);
    if (options && given == HALAY_OK)
        given = options->status;
    if (status == HALAY_OK)
        status = given;
    if (status == HALAY_OK)
        status = check_encryption(world->log, &world->config);
    if (status == HALAY_OK && options)
        status = halay_world_open_devices(world, options);
    return status == HALAY_OK ? halay_topology_load(world->log, &world->topology) : status;
}
