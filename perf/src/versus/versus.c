/* SPDX-License-Identifier: Apache-2.0
 *
 * Versus: loads the peer's module and takes care of who initialises MPI. A struct perf_versus is zero-initialised, and
 * perf_versus_end takes any state.
 */
#include "perf/src/versus/versus.h"
#include "halay_coll.h"
#include "perf/src/versus/module.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int perf_versus_start(struct perf_versus *versus, const struct halay_config *config, const char *peer,
                      const char *transport, char *text, size_t size)
{
    char module[32], symbol[32];

    snprintf(module, sizeof module, "perf-%s", peer);
    snprintf(symbol, sizeof symbol, "halay_perf_%s_ops", peer);
    versus->module = perf_module_open(config, module, text, size);
    if (!versus->module)
        return 1;
    const struct perf_peer_ops *ops = dlsym(versus->module, symbol);
    if (!ops || strcmp(ops->version, halay_version())) {
        snprintf(text, size, "libhalay-%s.so is of another version than this program, %s", module, halay_version());
        return 1;
    }
    if (strcmp(transport, peer)) {
        if (ops->start(text, size))
            return 1;
        versus->is_ours = 1;
    }
    versus->peer = ops;
    return 0;
}

int perf_versus_join(struct perf_versus *versus, struct halay_context *context, char *text, size_t size)
{
    unsigned char id[PERF_PEER_ID + 1] = { 0 }; /* and whether rank 0 has made it */

    if (!versus->peer->join)
        return 0;
    if (halay_rank(context) == 0)
        id[PERF_PEER_ID] = !versus->peer->identify(id, text, size);
    if (halay_broadcast(context, "perf.peer", id, sizeof id, HALAY_U8, 0) != HALAY_OK) {
        snprintf(text, size, "%s", halay_error_text());
        return 1;
    }
    if (id[PERF_PEER_ID])
        return versus->peer->join(id, halay_rank(context), halay_size(context), text, size);
    if (halay_rank(context) != 0)
        snprintf(text, size, "rank 0 cannot begin");
    return 1;
}

int perf_versus_check(struct perf_versus *versus, int rank, int ranks, const struct perf_call *greatest, char *text,
                      size_t size)
{
    int peer_rank, peer_ranks;

    if (versus->peer->place(&peer_rank, &peer_ranks, &versus->name, versus->library, sizeof versus->library, text,
                            size) ||
        !versus->peer->takes(greatest, text, size))
        return 1;
    if (peer_rank != rank || peer_ranks != ranks) {
        snprintf(text, size, "%s calls this rank %d of %d, halay calls it %d of %d", versus->name, peer_rank,
                 peer_ranks, rank, ranks);
        return 1;
    }
    return 0;
}

void perf_versus_end(struct perf_versus *versus, int waits)
{
    if (versus->is_ours && waits)
        versus->peer->stop();
    if (versus->module)
        dlclose(versus->module);
    *versus = (struct perf_versus){ .module = NULL };
}
