/* SPDX-License-Identifier: Apache-2.0
 *
 * Member: this process in an elastic job (base/store/elastic_words.h): its connection with halayrun's store, which
 * lasts from one epoch to the next, and the bootstrap of each.
 */
#ifndef HALAY_MEMBER_H
#define HALAY_MEMBER_H

#include "collectives/transport/meet/boot.h"

struct halay_member;

/* Connect. config says seat, start and store; log is borrowed until close, config for the call. HALAY_ERR_CONFIG: the
 * launcher's variables are not all there; else what halay_store_client_open returns. */
enum halay_status halay_member_open(struct halay_log *log, const struct halay_config *config,
                                    struct halay_member **out);
void halay_member_close(struct halay_member *member); /* NULL is allowed */

/* Say that this process is ready for a place, and wait for it, for as long as halayrun takes: it ends the job when that
 * is too long. Nothing of this process may be under way, or mapped that others write to. lost: the rank by whose loss
 * the epoch ended, -1: none; has_state: this process has a commit. HALAY_ERR_CLOSED: there is no place for it any more,
 * a line says why. HALAY_ERR_SYSTEM: halayrun has gone. */
enum halay_status halay_member_enrol(struct halay_member *member, int lost, int has_state);

/* The newest epoch in which this process had a place; 0: none. */
unsigned halay_member_epoch(const struct halay_member *member);

/* The bootstrap of the epoch that enrol has given a place in. Its allgather returns HALAY_ERR_PEER once halayrun has
 * said that somebody is lost on the way. Borrows the member until destroy. */
enum halay_status halay_member_boot(struct halay_member *member, struct halay_boot **out);

/* Listen whether halayrun wants a change of this epoch: nonzero once it does. Takes what has come over the connection,
 * never blocks. Rank 0 listens, after the start is over. 0 too if the connection is lost: nothing depends on it now. */
int halay_member_listen(struct halay_member *member);

#endif
