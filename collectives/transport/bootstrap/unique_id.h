/* SPDX-License-Identifier: Apache-2.0
 *
 * Unique id: what a rank has to know to find the others at a store (base/store/store.h) that one process of the job
 * serves: where it listens, and the secret. The 256 bytes:
 *
 *     0..7     "halay id"
 *     8        version, 1
 *     9        number of addresses, 1 to 10
 *     10..11   port, the higher byte first
 *     12..43   the secret
 *     44..     for each address its family (4, 6), then 16 bytes (IPv4: the first 4); the rest is zero
 */
#ifndef HALAY_BOOTSTRAP_UNIQUE_ID_H
#define HALAY_BOOTSTRAP_UNIQUE_ID_H

#include "base/net/address.h"
#include "base/store/store.h"
#include "collectives/transport/bootstrap/boot.h"

enum { HALAY_UNIQUE_ADDRESSES_MAX = 10 };

/* The contents of an id. */
struct halay_unique_endpoint {
    struct halay_address addresses[HALAY_UNIQUE_ADDRESSES_MAX];
    int count;
    unsigned char secret[HALAY_SECRET_BYTES];
};

/* All addresses have the same port. */
void halay_unique_id_write(const struct halay_unique_endpoint *endpoint, struct halay_unique_id *id);
/* Returns zero if it is not an id. */
int halay_unique_id_read(const struct halay_unique_id *id, struct halay_unique_endpoint *endpoint);

/* One rank's start with an id, which is borrowed for the call. HALAY_ERR_ARGUMENT: it is not an id, or rank and
 * size do not fit; HALAY_ERR_TIMEOUT: no answer at its addresses; else what halay_store_client_open returns. */
enum halay_status halay_boot_unique_create(struct halay_log *log, const struct halay_unique_id *id, const char *network,
                                           int rank, int size, int timeout_ms, struct halay_boot_watch *watch,
                                           struct halay_boot **out);

#endif
