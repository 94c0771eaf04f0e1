/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload of a signature: sent by a rank with it, and in the coordinator's answer.
 *
 *                       sent by a rank                  answered by the coordinator
 *     all-gather        its rows                        the rows of each rank
 *     gather            its rows                        the rows of each rank
 *     all-to-all        its rows for each rank          the rows that each rank has for this one
 *     scatter           the same; all but the root have 0 rows for each rank
 *     reduce-scatter    with splits, these: equal on all ranks, as is the answer
 *     join                                              the rank that joined last
 *     a group           its members: equal on all ranks, as is the answer
 *     process sets      the change (set_change.h): equal on all ranks that send it, as is the answer
 *     send, receive     peer, tag, length of the name: not sent, read by this rank's path (paths/p2p/p2p_impl.h)
 */
#ifndef HALAY_SIGNATURE_PAYLOAD_H
#define HALAY_SIGNATURE_PAYLOAD_H

#include "fusion/protocol/signature.h"

enum { HALAY_POINT_PAYLOAD = 3 }; /* of a send or receive */

/* Return the number of words that a rank sends for such a tensor, and the number in the coordinator's answer. */
size_t halay_signature_sent_count(const struct halay_signature *signature, int size);
size_t halay_signature_answer_count(const struct halay_signature *signature, int size);

/* Writes the payload that a rank sends: halay_signature_sent_count words. info is one that halay_signature_make
 * accepts. */
void halay_signature_write_payload(const struct halay_tensor_info *info, int size, uint64_t *payload);

/* Returns nonzero if data of the answered numbers of rows can fit in memory. payload need not be aligned. */
int halay_signature_fits(const struct halay_signature *signature, const void *payload, size_t count);

/* Returns nonzero if the result on each rank needs data of every rank, so that it completes on no rank before all have
 * begun it. payload: of all ranks, one after the other, as agreed. */
int halay_signature_needs_all(const struct halay_signature *signature, const uint64_t *payload, int size);

#endif
