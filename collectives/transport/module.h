/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: what halay can do without, in shared objects of their own (libhalay-mpi.so, libhalay-ucx.so,
 * libhalay-cuda.so).
 *
 * A module is loaded when it is first needed, so that one installation serves machines with and without its library. It
 * exports one symbol, the constant `halay_module`; it does not link libhalay: it gets the functions of the library in a
 * table (struct halay_host). Headers of base/ that hold inline functions only (clock.h) may be
 * included; functions declared in others are not there.
 *
 * A module is built from the same release as the library that loads it; abi and version are compared exactly.
 */
#ifndef HALAY_MODULE_H
#define HALAY_MODULE_H

#include "base/config.h"
#include "base/log.h"
#include "base/machine/topology.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/device_ops.h"
#include "collectives/transport/link.h"

/* Goes up whenever one of the structs here, in link.h, boot.h, device_ops.h or config.h changes. */
enum { HALAY_MODULE_ABI = 18 };

/* Functions and data that the library lends to a module, valid until all objects that the module created with them are
 * destroyed. */
struct halay_host {
    unsigned abi; /* HALAY_MODULE_ABI of the library */
    struct halay_log *log;
    const struct halay_config *config;
    const struct halay_topology *topology;
    /* halay_log_write; see the macros below. Any thread. */
    void (*log_write)(struct halay_log *log, enum halay_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    /* halay_aligned_alloc: freed by free(). Any thread. */
    void *(*aligned_alloc)(size_t alignment, size_t bytes);
    /* HALAY_OK, or HALAY_ERR_PEER and *rank once a co-located peer is known to be dead (one line has been logged); a
     * peer that closed its world in order before its process ended is not dead. Looks at the operating system at most
     * once a millisecond, so it may be called in every progress. HALAY_OK while the bootstrap runs (no peer is
     * known yet) and for peers on other hosts. The thread that drives the transport. */
    enum halay_status (*check_peers)(const struct halay_host *host, int *rank);
    /* After check_peers returned HALAY_ERR_PEER: returns nonzero if this peer is dead. Any thread. */
    int (*is_dead)(const struct halay_host *host, int rank);
    /* Returns nonzero if this co-located peer has died; asks the operating system at once. The thread that drives the
     * transport. */
    int (*has_died)(const struct halay_host *host, int rank);
    /* halay_environment_get: for what belongs to the library below. Any thread. */
    const char *(*environment_get)(const char *name);
    /* Records a peer's close notice: the end of its process is not a failure from now on. */
    void (*peer_left)(const struct halay_host *host, int rank);
    /* halay_descriptors_allow. Any thread. */
    enum halay_status (*descriptors_allow)(struct halay_log *log, size_t more, const char *what);
    /* The networks of this host by which ranks of other hosts are reached, as "eth0,eth1"; NULL: none, or
     * unknown. Set before transport_create; all ranks of a host have the same. */
    const char *interfaces;
    void *arg; /* the library's own */
};

#define halay_host_error(host, ...) (host)->log_write((host)->log, HALAY_LOG_ERROR, __VA_ARGS__)
/* As halay_fail does. */
#define halay_host_fail(host, status, ...) (halay_host_error(host, __VA_ARGS__), (status))
#define halay_host_warning(host, ...) (host)->log_write((host)->log, HALAY_LOG_WARNING, __VA_ARGS__)
#define halay_host_info(host, ...) (host)->log_write((host)->log, HALAY_LOG_INFO, __VA_ARGS__)

struct halay_module_api {
    unsigned abi;        /* HALAY_MODULE_ABI */
    const char *version; /* HALAY_VERSION */
    const char *name;    /* "mpi", "ucx", "cuda" */

    /* The module's transport between all ranks of boot; every rank calls it, and it may exchange addresses through boot
     * (which is borrowed until close if the transport's header documents so, else for this call). Every rank calls
     * halay_boot_allgather equally often whether it succeeds or not, so that a failure of one does not leave the
     * others waiting; HALAY_ERR_UNSUPPORTED, with a logged reason, if it cannot work here. NULL if the module has
     * none. */
    enum halay_status (*transport_create)(const struct halay_host *host, struct halay_boot *boot,
                                          struct halay_link **out);

    /* The module's bootstrap: this rank, and the others' places. NULL if the module has none. */
    enum halay_status (*boot_create)(const struct halay_host *host, struct halay_boot **out);
    /* The same with the ranks of a communicator of the program's, of the MPI of that abi; borrowed for the call. mpi
     * only. */
    enum halay_status (*boot_create_from)(const struct halay_host *host, const void *comm, enum halay_mpi_abi abi,
                                          struct halay_boot **out);

    /* The devices whose memory the module supports; NULL: none. */
    const struct halay_device_ops *devices;
};

/* A module defines it; the library finds it by dlsym. */
extern __attribute__((visibility("default"))) const struct halay_module_api halay_module;

/* ---- the library's side: module.c ------------------------------------------------------------------------------- */

/* Loads libhalay-NAME.so as halay_module_file_open does, with config->module_path as folder; variant: base/launchers.h,
 * or "". The caller closes *handle by halay_module_close, after all objects of the module. HALAY_ERR_UNSUPPORTED: not
 * found, or one of its own libraries is missing (a line of that level has the reason); HALAY_ERR_VERSION: it belongs to
 * another release. */
enum halay_status halay_module_open(struct halay_log *log, enum halay_log_level level,
                                    const struct halay_config *config, const char *name, const char *variant,
                                    void **handle, const struct halay_module_api **api);
void halay_module_close(void *handle); /* NULL is allowed */

#endif
