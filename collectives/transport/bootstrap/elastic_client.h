/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic client: this process in an elastic job (base/store/elastic_keys.h): its connection with halayrun's store,
 * which lasts from one generation to the next, and the bootstrap of each.
 */
#ifndef HALAY_ELASTIC_CLIENT_H
#define HALAY_ELASTIC_CLIENT_H

#include "collectives/transport/bootstrap/boot.h"

struct halay_elastic_client;

/* Connects. config has worker, start and store; log is borrowed until close, config for the call. HALAY_ERR_CONFIG: the
 * launcher's variables are not all there; else what halay_store_client_open returns. */
enum halay_status halay_elastic_client_open(struct halay_log *log, const struct halay_config *config,
                                            struct halay_elastic_client **out);
void halay_elastic_client_close(struct halay_elastic_client *client); /* NULL is allowed */

/* Reports that this process is ready for a place, and waits for it without a time limit: halayrun ends a job that takes
 * too long. Nothing of this process may be under way, or mapped that others write to. lost: the rank by whose loss
 * the generation ended, -1: none; has_state: this process has a commit. HALAY_ERR_CLOSED, logged with the
 * reason: it gets none. HALAY_ERR_SYSTEM: halayrun has gone. */
enum halay_status halay_elastic_client_register(struct halay_elastic_client *client, int lost, int has_state);

/* The newest generation in which this process had a place; 0: none. */
unsigned halay_elastic_client_generation(const struct halay_elastic_client *client);

/* The bootstrap of the generation that register has given a place in. Its allgather returns HALAY_ERR_PEER once
 * halayrun reports that a member is lost on the way. Borrows the client until destroy. */
enum halay_status halay_elastic_client_boot(struct halay_elastic_client *client, struct halay_boot **out);

/* Returns nonzero once halayrun wants to change this generation. Reads what the connection has received, never blocks.
 * Rank 0 calls it, after the start. Returns 0, too, if the connection is lost: nothing depends on it then. */
int halay_elastic_client_listen(struct halay_elastic_client *client);

#endif
