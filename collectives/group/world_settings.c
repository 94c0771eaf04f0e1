/* SPDX-License-Identifier: Apache-2.0
 *
 * World, settings: the configuration, and what the program's options override in it.
 */
#include "base/memory.h"
#include "base/parse.h"
#include "collectives/group/world_impl.h"
#include <stdlib.h>
#include <string.h>

/* The index of the program's word among words. */
static enum halay_status index_of_word(struct halay_log *log, const char *what, const char *value,
                                       const char *const *words, int *index)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(value, words[i])) {
            *index = i;
            return HALAY_OK;
        }
    const char *near = halay_nearest_name(value, words);
    return halay_fail(log, HALAY_ERR_CONFIG, "no %s '%s'%s%s%s", what, value, near ? ", did you mean '" : "",
                      near ? near : "", near ? "'?" : "");
}

static enum halay_status override(struct halay_log *log, const char *what, const char *value, const char *const *words,
                                  char **field)
{
    int index;

    if (!value)
        return HALAY_OK;
    enum halay_status status = index_of_word(log, what, value, words, &index);
    if (status != HALAY_OK)
        return status;
    char *copy = strdup(value);
    if (!copy)
        return HALAY_ERR_NO_MEMORY;
    free(*field);
    *field = copy;
    return HALAY_OK;
}

static enum halay_status override_average(struct halay_log *log, const char *value, enum halay_join_average *field)
{
    static const char *const words[] = {
        [HALAY_JOIN_AVERAGE_ALL] = "all", [HALAY_JOIN_AVERAGE_PRESENT] = "present", NULL
    };
    int index;

    if (!value)
        return HALAY_OK;
    enum halay_status status = index_of_word(log, "join_average", value, words, &index);
    if (status == HALAY_OK)
        *field = (enum halay_join_average)index;
    return status;
}

/* What is to be encrypted goes over tcp. */
static enum halay_status check_encryption(struct halay_log *log, const struct halay_config *config)
{
    for (int row = 0; row < HALAY_TRANSPORT_COUNT; row++)
        if (config->encrypt && halay_transport_rows[row].is_module && config->transport &&
            !strcmp(config->transport, halay_transport_rows[row].name))
            return halay_fail(log, HALAY_ERR_CONFIG, "HALAY_ENCRYPT=1: transport '%s' does not encrypt; use tcp",
                              config->transport);
    return HALAY_OK;
}

enum halay_status halay_world_configure(struct halay_world *world, const struct halay_world_options *options)
{
    static const char *const bootstraps[] = { "auto", "self", "store", "mpi", NULL };

    enum halay_status status = halay_config_load_rest(world->log, options ? options->settings : NULL, &world->config);
    enum halay_status given = HALAY_OK;
    world->log->level = world->config.log_level;
    /* Needed even if other settings are wrong: this is how the ranks meet. */
    if (options)
        given = override(world->log, "bootstrap", options->bootstrap, bootstraps, &world->config.bootstrap);
    if (options && given == HALAY_OK)
        given = override(world->log, "transport", options->transport, halay_transport_names, &world->config.transport);
    if (options && given == HALAY_OK)
        given = override_average(world->log, options->join_average, &world->config.join_average);
    if (options && given == HALAY_OK)
        given = options->status;
    if (status == HALAY_OK)
        status = given;
    if (status == HALAY_OK)
        status = check_encryption(world->log, &world->config);
    return status == HALAY_OK ? halay_topology_load(world->log, &world->topology) : status;
}
