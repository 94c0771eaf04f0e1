/* SPDX-License-Identifier: Apache-2.0
 *
 * Rig for tests of one module: opens it, and plays the library for it. Ranks are processes: forked here, with a
 * bootstrap in memory they share; or started by mpirun, with the mpi module's own.
 */
#ifndef HALAY_TESTS_RIG_H
#define HALAY_TESTS_RIG_H

#include "base/config.h"
#include "collectives/transport/bootstrap/peers.h"
#include "collectives/transport/module.h"

struct rig {
    struct halay_log log;
    struct halay_config config;
    struct halay_host host;
    const struct halay_module_api *api;
    struct halay_boot *boot;
    struct halay_peers *peers; /* NULL until rig_watch */
    char last_line[512];       /* of the log, at error or warning level */
};

/* Exits with 77 and the reason if the module isn't there ("mpi", "ucx"). Opens $top_builddir/.libs/libhalay-NAME.so, or
 * takes the one that is linked in. */
const struct halay_module_api *rig_module(const char *name);

/* Fork `size` ranks that run body and exit with what it returns; wait for all. Each is ended by an alarm after
 * timeout_s. Returns how many failed; rank `victim` (-1: none) fails unless it ends by SIGKILL. */
int rig_fork(const struct halay_module_api *api, int size, int victim, unsigned timeout_s,
             int (*body)(struct rig *rig, void *arg), void *arg);

/* Under mpirun: bootstrap by the module. HALAY_OK, or what the module said. */
enum halay_status rig_open_mpi(struct rig *rig, const struct halay_module_api *api);
void rig_close(struct rig *rig);

/* From now on a rank whose process ends without a close notice is dead. All ranks call it. */
void rig_watch(struct rig *rig);

/* Look until all of these transfers are done, or an error, or HALAY_ERR_TIMEOUT after a minute: all of them are taken
 * back then. */
enum halay_status rig_wait(struct halay_link *link, struct halay_transfer *transfers, int count);

#endif
