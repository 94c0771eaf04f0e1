/* SPDX-License-Identifier: Apache-2.0
 *
 * Offers of sends and receives.
 */
#include "fusion/paths/p2p/offers.h"
#include "halay.h"
#include "halay_tools.h"
#include <stdio.h>
#include <string.h>

int halay_offer_is_valid(const struct halay_offer *offer)
{
    if (offer->kind != HALAY_OFFER)
        return offer->kind < HALAY_OFFER_KINDS;
    return (offer->collective == HALAY_SEND || offer->collective == HALAY_RECEIVE) &&
           offer->dtype < HALAY_DTYPE_COUNT && offer->name_length <= sizeof offer->name;
}

int halay_offers_meet(const struct halay_offer *a, const struct halay_offer *b)
{
    return a->collective != b->collective && a->set == b->set && a->is_tagged == b->is_tagged && a->tag == b->tag &&
           a->name_length == b->name_length && !memcmp(a->name, b->name, a->name_length);
}

void halay_offers_append(struct halay_offered **list, struct halay_offered *offered)
{
    while (*list)
        list = &(*list)->next;
    offered->next = NULL;
    *list = offered;
}

struct halay_offered **halay_offers_find(struct halay_offered **list, const struct halay_offer *offer)
{
    while (*list && !halay_offers_meet(&(*list)->offer, offer))
        list = &(*list)->next;
    return list;
}

struct halay_offered **halay_offers_find_number(struct halay_offered **list, uint64_t number)
{
    while (*list && (*list)->offer.number != number)
        list = &(*list)->next;
    return list;
}

struct halay_offered *halay_offers_take(struct halay_offered **at)
{
    struct halay_offered *taken = *at;

    *at = taken->next;
    taken->next = NULL;
    return taken;
}

void halay_offer_print_key(const struct halay_offer *offer, char *text, size_t size)
{
    if (offer->is_tagged)
        snprintf(text, size, "tag %lld", (long long)offer->tag);
    else
        snprintf(text, size, "tensor '%.*s'", (int)offer->name_length, offer->name);
}

void halay_offers_print_mismatch(const struct halay_offer *send, int sender, const struct halay_offer *receive,
                                 int receiver, char *text, size_t size)
{
    char key[HALAY_POINT_NAME_MAX + 32];

    halay_offer_print_key(send, key, sizeof key);
    snprintf(text, size, "%s: rank %d sends %llu %s, rank %d receives %llu %s", key, sender,
             (unsigned long long)send->count, halay_dtype_name((enum halay_dtype)send->dtype), receiver,
             (unsigned long long)receive->count, halay_dtype_name((enum halay_dtype)receive->dtype));
}
