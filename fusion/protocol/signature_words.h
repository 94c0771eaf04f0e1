/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a signature: what ranks say with it, and what the coordinator answers.
 *
 *                       what a rank says                what the coordinator answers
 *     all-gather        its rows                        the rows of each rank
 *     gather            its rows                        the rows of each rank
 *     all-to-all        its rows for each rank          the rows that each rank has for this one
 *     scatter           the same; all but the root have none for anybody
 *     reduce-scatter    with splits, these: equal on all ranks, as is the answer
 *     join                                              the rank that joined last
 *     a group           what its members are: equal on all ranks, as is the answer
 *     process sets      what is made or removed (set_words.h): equal on all ranks that say it, as is the answer
 *     send, receive     peer, tag, length of the name: only this rank's path hears it (paths/p2p/p2p_impl.h)
 */
#ifndef HALAY_SIGNATURE_WORDS_H
#define HALAY_SIGNATURE_WORDS_H

#include "fusion/protocol/signature.h"

enum { HALAY_POINT_WORDS = 3 }; /* of a send or receive */

/* How many words a rank says of such a tensor, and how many it is answered. */
size_t halay_signature_said_count(const struct halay_signature *signature, int size);
size_t halay_signature_heard_count(const struct halay_signature *signature, int size);

/* What a rank says of it: halay_signature_said_count numbers. info is one that halay_signature_make accepts. */
void halay_signature_say(const struct halay_tensor_info *info, int size, uint64_t *words);

/* Words that were answered: could that much data be in memory? words need not be aligned. */
int halay_signature_fits(const struct halay_signature *signature, const void *words, size_t count);

/* Returns nonzero if the result on each rank needs data of every rank, so that it completes on no rank before all have
 * begun it. words: of all ranks, one after the other, as agreed. */
int halay_signature_needs_all(const struct halay_signature *signature, const uint64_t *words, int size);

#endif
