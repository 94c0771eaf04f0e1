/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers: what two ranks tell each other of their sends and receives, and which meet.
 *
 *     OFFER      this rank has submitted it
 *     WITHDRAW   this rank wants to take that offer back
 *     GONE       that offer of yours had met nothing here, and never will
 *
 * Each rank reads the other's words in the order in which they were said. It keeps its own offers that have met nothing
 * (waiting) and the other's (heard); a new offer of either meets the oldest fitting one on the other list. So both form
 * the same pairs: an own offer stays on the list until GONE has come, and the offer that it meets elsewhere before that
 * has been said before GONE would be. tests/fusion/test_offers_model.c goes through all orders.
 */
#ifndef HALAY_OFFERS_H
#define HALAY_OFFERS_H

#include <stddef.h>
#include <stdint.h>

enum { HALAY_POINT_NAME_MAX = 200 };

enum halay_offer_kind { HALAY_OFFER, HALAY_OFFER_WITHDRAW, HALAY_OFFER_GONE, HALAY_OFFER_KINDS };

/* What one rank tells another; between processes of one build on machines of one kind (messages.h). */
struct halay_offer {
    uint64_t number; /* of all that its sender tells this peer, from 1 */
    uint64_t about;  /* WITHDRAW, GONE: the number of an offer; the rest is an offer's */
    uint64_t count;  /* elements */
    int64_t tag;
    int32_t set, is_tagged;
    uint16_t kind, collective, dtype, name_length;
    char name[HALAY_POINT_NAME_MAX];
};

/* On a list, oldest first. */
struct halay_offered {
    struct halay_offered *next;
    struct halay_offer offer;
};

/* Could another rank have said it? */
int halay_offer_is_valid(const struct halay_offer *offer);
/* A send and a receive of one key? */
int halay_offers_meet(const struct halay_offer *a, const struct halay_offer *b);

void halay_offers_append(struct halay_offered **list, struct halay_offered *offered);
/* Where on the list the oldest one is that meets the offer; that has the number. What it points to is NULL if none. */
struct halay_offered **halay_offers_find(struct halay_offered **list, const struct halay_offer *offer);
struct halay_offered **halay_offers_find_number(struct halay_offered **list, uint64_t number);
/* Take it off. */
struct halay_offered *halay_offers_take(struct halay_offered **at);

/* For people, cut to size: "tag 5", "tensor 'x'"; how the two differ. */
void halay_offer_print_key(const struct halay_offer *offer, char *text, size_t size);
void halay_offers_print_mismatch(const struct halay_offer *send, int sender, const struct halay_offer *receive,
                                 int receiver, char *text, size_t size);

#endif
