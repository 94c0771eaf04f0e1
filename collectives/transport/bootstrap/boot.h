/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap: who am I, how many are we, and an exchange of small blobs before any transport exists.
 *
 *   self         one rank, alone                                                boot_self.c
 *   store        the launcher's authenticated TCP store (base/store/store.h)    boot_store.c
 *                the same, in an elastic job                                    elastic_client.c
 *                the same, served by one of the ranks                           boot_unique.c
 *   srun         the same, found by the step's variables                        boot_slurm.c
 *   rendezvous   the program's own key-value store                              boot_rendezvous.c
 *   mpi          an MPI communicator (in the mpi module)                        mpi_boot.c
 */
#ifndef HALAY_BOOT_H
#define HALAY_BOOT_H

#include "base/config.h"
#include "base/log.h"
#include "base/net/listen.h"
#include "base/slurm_step.h"
#include "halay_types.h"
#include <stddef.h>

/* For a thread that looks on while another waits for the ranks. */
struct halay_boot_watch {
    _Atomic int missing;     /* the rank that is waited for, -1: none in particular; relaxed, a hint */
    _Atomic int is_canceled; /* nothing is waited for any more; relaxed */
};

struct halay_boot {
    const struct halay_boot_ops *ops;
    int rank;
    int size;
    struct halay_log *log;          /* borrowed until destroy */
    struct halay_boot_watch *watch; /* borrowed; NULL: none. Set by the opener of the world */
    struct halay_host_port port;    /* this host's, if the start needs it before the transport does, which takes it */
    unsigned rounds;                /* allgathers and broadcasts so far, the same on all ranks */
};

struct halay_boot_ops {
    const char *name;
    /* Every rank gives `bytes` bytes and gets every rank's in order of rank into all (size * bytes). Blocks until all
     * have come, at most timeout_ms; all NULL: gives only, and need not wait. Every rank makes the same calls in the
     * same order. HALAY_ERR_TIMEOUT names who is missing in the log; HALAY_ERR_CANCELED, HALAY_ERR_SYSTEM,
     * HALAY_ERR_PEER. */
    enum halay_status (*allgather)(struct halay_boot *boot, const void *mine, size_t bytes, void *all, int timeout_ms);
    /* Gives every rank the first one's bytes. NULL: by allgather. Everything else as there. */
    enum halay_status (*broadcast)(struct halay_boot *boot, void *data, size_t bytes, int timeout_ms);
    /* Copy the job's secret, HALAY_SECRET_BYTES. NULL: none is needed, as no other process can reach allgather. */
    void (*secret)(struct halay_boot *boot, unsigned char *secret);
    /* The start has failed on this rank between two calls: the others get HALAY_ERR_PEER and the log's last error.
     * NULL: they cannot be told. */
    void (*give_up)(struct halay_boot *boot);
    /* The start is over, on this rank: there will be no allgather any more. NULL: that makes no difference. */
    void (*finish)(struct halay_boot *boot);
    void (*destroy)(struct halay_boot *boot); /* boot is freed */
};

/* Calls allgather, and counts it: a start's time is their number times that of the tree. */
static inline enum halay_status halay_boot_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                                     int timeout_ms)
{
    boot->rounds++;
    return boot->ops->allgather(boot, mine, bytes, all, timeout_ms);
}

/* log is borrowed until destroy, config for the call, by the store until destroy. */
enum halay_status halay_boot_self_create(struct halay_log *log, struct halay_boot **out);
/* HALAY_ERR_CONFIG: the launcher's variables are not all there; else what halay_store_client_open returns. */
enum halay_status halay_boot_store_create(struct halay_log *log, const struct halay_config *config,
                                          struct halay_boot **out);
/* A step of SLURM's, of several tasks: rank 0 serves the store on its node. Waits for it, at most the time of config.
 * HALAY_ERR_TIMEOUT; what halay_user_secret_key and halay_store_client_open return. */
enum halay_status halay_boot_slurm_create(struct halay_log *log, const struct halay_config *config,
                                          const struct halay_slurm_step *step, struct halay_boot_watch *watch,
                                          struct halay_boot **out);
/* rendezvous is borrowed for the call, what its arg points to until the last allgather. Waits for rank 0, at most
 * timeout_ms. HALAY_ERR_ARGUMENT: it is not as it should be; HALAY_ERR_MISMATCH: rank 0 was given another size;
 * HALAY_ERR_TIMEOUT; what the callbacks return. */
enum halay_status halay_boot_rendezvous_create(struct halay_log *log, const struct halay_rendezvous *rendezvous,
                                               int timeout_ms, struct halay_boot_watch *watch, struct halay_boot **out);

/* Calls broadcast, or allgather in its place, and counts it. HALAY_ERR_NO_MEMORY, logged; else the bootstrap's. */
enum halay_status halay_boot_broadcast(struct halay_boot *boot, void *data, size_t bytes, int timeout_ms);

/* Returns HALAY_ERR_CANCELED, logged, if the start is to end. missing: the rank that this one waits for; -1: none.
 * watch may be NULL. */
enum halay_status halay_boot_look(struct halay_log *log, struct halay_boot_watch *watch, int missing);

#endif
