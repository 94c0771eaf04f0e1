/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers of a bootstrap's ranks, in tests that have no world.
 */
#ifndef HALAY_TEST_PEERS_OF_BOOT_H
#define HALAY_TEST_PEERS_OF_BOOT_H

#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/bootstrap/peers.h"
#include <stdlib.h>

/* Every rank calls it. */
static inline enum halay_status peers_of_boot(struct halay_log *log, struct halay_boot *boot, const char *node,
                                              int timeout_ms, struct halay_peers **out)
{
    struct halay_identity me, *all = calloc((size_t)boot->size, sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    halay_peers_identify(log, node, &me);
    enum halay_status status = halay_boot_allgather(boot, &me, sizeof me, all, timeout_ms);
    if (status == HALAY_OK)
        status = halay_peers_create(log, boot->rank, boot->size, all, sizeof *all, out);
    free(all);
    return status;
}

#endif
