/* SPDX-License-Identifier: Apache-2.0
 *
 * A UCP worker as the ucx transport wants it: active messages, wake-up by a descriptor, shared memory of UCX's own off;
 * and its address.
 */
#ifndef HALAY_UCX_WORKER_H
#define HALAY_UCX_WORKER_H

#include "collectives/transport/module.h"
#include <stdio.h>
#include <ucp/api/ucp.h>

struct halay_ucx_worker {
    ucp_context_h context; /* owned */
    ucp_worker_h worker;   /* owned */
    int event_fd;          /* the worker's: readable when an armed worker has something to do */
};

/* HALAY_OK, or HALAY_ERR_SYSTEM, logged ("what: text of UCX"). */
enum halay_status halay_ucx_check(const struct halay_host *host, ucs_status_t status, const char *what);

/* size: how many ranks will be connected. Zero-initialised storage of the caller's; fini accepts any half-built
 * state. */
enum halay_status halay_ucx_worker_init(const struct halay_host *host, int size, struct halay_ucx_worker *worker);
void halay_ucx_worker_fini(struct halay_ucx_worker *worker);

/* Give our address, get all ranks': out has boot->size slots of *stride bytes, to be freed by free(). Every rank calls
 * it, one without a worker as well (NULL): then no rank gets any, HALAY_ERR_UNSUPPORTED. */
enum halay_status halay_ucx_exchange(const struct halay_host *host, struct halay_boot *boot,
                                     struct halay_ucx_worker *worker, size_t *stride, unsigned char **out);

#endif
