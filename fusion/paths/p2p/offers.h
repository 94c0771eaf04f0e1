/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers: the messages of two ranks about their sends and receives, and their matching.
 *
 *     OFFER      this rank has submitted it
 *     WITHDRAW   this rank wants to withdraw that offer
 *     GONE       that offer of yours has not been matched here, and never will be
 *
 * Each rank receives the other's messages in the order in which they were sent. It keeps its own unmatched offers
 * (waiting) and the other's (received); a new offer of either matches the oldest fitting one on the other list. So both
 * form the same pairs: an own offer stays on the list until GONE has been received, and if the peer matched it before,
 * the peer's offer was sent before GONE would be. tests/fusion/test_offers_model.c goes through all orders.
 */
#ifndef HALAY_OFFERS_H
#define HALAY_OFFERS_H

#include <stddef.h>
#include <stdint.h>

enum { HALAY_POINT_NAME_MAX = 200 };

enum halay_offer_kind { HALAY_OFFER, HALAY_OFFER_WITHDRAW, HALAY_OFFER_GONE, HALAY_OFFER_KINDS };

/* A message between two ranks; between processes of one build on machines of one kind (messages.h). */
struct halay_offer {
    uint64_t number; /* of the sender's messages to this peer, from 1 */
    uint64_t about;  /* WITHDRAW, GONE: the number of an offer; the rest is an offer's */
    uint64_t count;  /* elements */
    int64_t tag;
    int32_t set, is_tagged;
    uint16_t kind, collective, dtype, name_length;
    char name[HALAY_POINT_NAME_MAX];
};

/* An offer on a list, oldest first. */
struct halay_offered {
    struct halay_offered *next;
    struct halay_offer offer;
};

/* Returns nonzero if another rank could have sent it. */
int halay_offer_is_valid(const struct halay_offer *offer);
/* Returns nonzero for a send and a receive of one key. */
int halay_offers_meet(const struct halay_offer *a, const struct halay_offer *b);

void halay_offers_append(struct halay_offered **list, struct halay_offered *offered);
/* Finds the oldest offer on the list that matches, or the one with that number: returns the link to it, which points to
 * NULL if none is found. */
struct halay_offered **halay_offers_find(struct halay_offered **list, const struct halay_offer *offer);
struct halay_offered **halay_offers_find_number(struct halay_offered **list, uint64_t number);
/* Removes an offer from its list. */
struct halay_offered *halay_offers_take(struct halay_offered **at);

/* Print texts, truncated to size: "tag 5", "tensor 'x'"; the difference of two offers. */
void halay_offer_print_key(const struct halay_offer *offer, char *text, size_t size);
void halay_offers_print_mismatch(const struct halay_offer *send, int sender, const struct halay_offer *receive,
                                 int receiver, char *text, size_t size);

#endif
