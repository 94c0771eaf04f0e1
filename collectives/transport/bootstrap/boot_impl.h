/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstraps over a store, inside view: for boot_store.c, and for elastic_client.c, whose connection outlives each of
 * them.
 */
#ifndef HALAY_BOOT_IMPL_H
#define HALAY_BOOT_IMPL_H

#include "base/store/store.h"
#include "collectives/transport/bootstrap/boot.h"

/* A connection with the launcher's store. Zero-initialised; close accepts any state. */
struct halay_store_access {
    struct halay_store_client *client; /* owned */
    unsigned char secret[HALAY_SECRET_BYTES];
};

/* Opens the store of config. *reconnects: how often this rank has connected before. HALAY_ERR_CONFIG: the launcher's
 * variables are not all there; else what halay_store_client_open returns. */
enum halay_status halay_store_access_open(struct halay_log *log, const struct halay_config *config,
                                          struct halay_store_access *access, unsigned *reconnects);
void halay_store_access_close(struct halay_store_access *access);

/* Where the ranks of one start find each other's keys in the store. All that it points to is borrowed until the
 * bootstrap is destroyed. */
struct halay_store_rendezvous {
    const struct halay_store_access *access;
    const char *prefix; /* what its keys begin with, before its number */
    unsigned number;
    /* Asked now and then while a rank is missing: nonzero if it will not come, which is HALAY_ERR_PEER. NULL: never
     * asked. */
    int (*is_over)(void *arg);
    void *arg;
};

enum halay_status halay_boot_store_create_at(struct halay_log *log, int rank, int size,
                                             const struct halay_store_rendezvous *rendezvous, struct halay_boot **out);

/* The number-th start of a store that serves this start only: finish closes the connection. Takes over what access has,
 * also on error. */
enum halay_status halay_boot_store_create_unique(struct halay_log *log, int rank, int size,
                                                 struct halay_store_access *access, unsigned number,
                                                 struct halay_boot **out);
/* The same in a step of SLURM's, with listeners as config has them. host_end: what halay_store_host_start gave this
 * rank, which is taken over; -1: it serves no store. */
enum halay_status halay_boot_store_create_slurm(struct halay_log *log, const struct halay_config *config,
                                                const struct halay_slurm_step *step, struct halay_store_access *access,
                                                int host_end, struct halay_boot **out);

#endif
