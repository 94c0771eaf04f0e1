/* SPDX-License-Identifier: Apache-2.0
 *
 * World, inside: what world.c and the files of its steps share.
 */
#ifndef HALAY_WORLD_IMPL_H
#define HALAY_WORLD_IMPL_H

#include "base/transports.h"
#include "collectives/group/world.h"
#include <string.h>

struct halay_module_api; /* transport/module.h */

static inline int halay_world_is_set_to(const char *setting, const char *name)
{
    return setting && !strcmp(setting, name);
}

static inline int halay_world_is_auto(const char *setting)
{
    return !setting || !strcmp(setting, "auto");
}

/* world_settings.c: loads the configuration and the topology. options may be NULL. */
enum halay_status halay_world_configure(struct halay_world *world, const struct halay_world_options *options);

/* world_modules.c */

/* Finds the module of that name, loads it if necessary. level: of the line if it cannot be loaded. */
enum halay_status halay_world_module(struct halay_world *world, enum halay_transport_index which,
                                     enum halay_log_level level, const struct halay_module_api **api);

/* world_boot.c */

/* In an elastic job log, elastic client and memory are the caller's to keep. */
enum halay_status halay_world_inherit(struct halay_world *world, const struct halay_world_options *options);
/* Opens world->boot; sets rank and size. */
enum halay_status halay_world_boot(struct halay_world *world, const struct halay_world_options *options);

/* world_record.c: sets peers, layout, tuning and modules from what the ranks send each other first. Every rank calls
 * it, also one whose status is an error, which all get then. */
enum halay_status halay_world_exchange_records(struct halay_world *world, enum halay_status mine);

/* world_peers.c */

/* On a transport of that name; level: of the line about HALAY_ERR_UNSUPPORTED, no error where another one is tried
 * next. */
enum halay_status halay_world_agree_on(struct halay_world *world, enum halay_status mine, enum halay_log_level level,
                                       const char *name);
/* Returns nonzero if the bootstrap cannot report a missing rank to the others: they find out by themselves. */
int halay_world_is_broken_boot(enum halay_status status);

/* world_control.c: data go over the tcp transport, too. Every rank calls it. */
enum halay_status halay_world_open_tcp(struct halay_world *world);

/* world_transports.c */

/* Let what this transport has to do end sleeps, if it has a descriptor for that. */
enum halay_status halay_world_watch(struct halay_world *world, struct halay_link *link);
/* Opens world->data, and world->node or world->control. */
enum halay_status halay_world_open_transports(struct halay_world *world);
/* An elastic job's process has its segment whether its first generation shares memory or not: a later one may. Laid out
 * for as many ranks as the job can have, so that it fits all generations. */
enum halay_status halay_world_keep_memory(struct halay_world *world);

#endif
