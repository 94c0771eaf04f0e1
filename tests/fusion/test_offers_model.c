/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of offers alone: two ranks submit sends and receives of one key and withdraw them at any moment, in every
 * interleaving of their steps and messages. In all of them both ranks form the same pairs, a withdrawn offer either
 * ends or has been matched, and nothing waits forever.
 */
#include "fusion/paths/p2p/offers.h"
#include "halay.h"
#include "tests/fusion/choices.h"
#include <string.h>

enum { OFFERS = 3, QUEUE = 16 };

struct queue {
    struct halay_offer words[QUEUE];
    size_t first, count;
};

struct rank {
    int to_submit, to_withdraw, sends;
    uint64_t made;
    struct halay_offered own[OFFERS], theirs[QUEUE]; /* memory of the lists */
    size_t own_count, theirs_count;
    struct halay_offered *waiting, *heard;
    struct queue said; /* and not received by the other rank */
    uint64_t met[OFFERS], asked[OFFERS], gone[OFFERS];
};

static uint64_t send_offer(struct rank *r, struct halay_offer word)
{
    REQUIRE(r->said.count < QUEUE);
    word.number = ++r->made;
    r->said.words[(r->said.first + r->said.count++) % QUEUE] = word;
    return word.number;
}

/* Returns this rank's submission of that number. */
static size_t own_of(const struct rank *r, uint64_t number)
{
    size_t i = 0;

    while (i < r->own_count && r->own[i].offer.number != number)
        i++;
    REQUIRE(i < r->own_count);
    return i;
}

static void pair_offers(struct rank *r, const struct halay_offer *mine, const struct halay_offer *theirs)
{
    uint64_t *met = &r->met[own_of(r, mine->number)];

    CHECK(!*met && !r->gone[own_of(r, mine->number)], "met twice, or after it was gone");
    *met = theirs->number;
}

static void submit_offer(struct rank *r)
{
    struct halay_offered *own = &r->own[r->own_count++], **met;

    own->offer = (struct halay_offer){ .is_tagged = 1,
                                       .collective = r->sends ? HALAY_SEND : HALAY_RECEIVE,
                                       .count = r->own_count };
    r->to_submit--;
    own->offer.number = send_offer(r, own->offer);
    met = halay_offers_find(&r->heard, &own->offer);
    if (*met)
        pair_offers(r, &own->offer, &halay_offers_take(met)->offer);
    else
        halay_offers_append(&r->waiting, own);
}

static void withdraw_offer(struct rank *r, size_t which)
{
    uint64_t number = r->own[which].offer.number;

    r->asked[which] = 1;
    r->to_withdraw--;
    if (*halay_offers_find_number(&r->waiting, number))
        send_offer(r, (struct halay_offer){ .kind = HALAY_OFFER_WITHDRAW, .about = number });
}

static void receive_offer(struct rank *r, struct rank *other)
{
    struct halay_offer word = other->said.words[other->said.first % QUEUE];
    struct halay_offered **at;

    other->said.first++;
    other->said.count--;
    if (word.kind == HALAY_OFFER) {
        at = halay_offers_find(&r->waiting, &word);
        if (*at) {
            pair_offers(r, &halay_offers_take(at)->offer, &word);
            return;
        }
        r->theirs[r->theirs_count].offer = word;
        halay_offers_append(&r->heard, &r->theirs[r->theirs_count++]);
    } else if (word.kind == HALAY_OFFER_WITHDRAW) {
        at = halay_offers_find_number(&r->heard, word.about);
        if (*at) {
            halay_offers_take(at);
            send_offer(r, (struct halay_offer){ .kind = HALAY_OFFER_GONE, .about = word.about });
        }
    } else {
        at = halay_offers_find_number(&r->waiting, word.about);
        if (CHECK(*at != NULL, "gone here has met something there")) {
            halay_offers_take(at);
            r->gone[own_of(r, word.about)] = 1;
        }
    }
}

static int make_step(struct rank *ranks, struct choices *choices)
{
    int count = 0, rank[16], what[16]; /* -2: submit; -1: receive; else withdraw this one */

    for (int r = 0; r < 2; r++) {
        if (ranks[r].to_submit)
            rank[count] = r, what[count++] = -2;
        if (ranks[!r].said.count)
            rank[count] = r, what[count++] = -1;
        for (size_t i = 0; i < ranks[r].own_count && ranks[r].to_withdraw; i++)
            if (!ranks[r].asked[i])
                rank[count] = r, what[count++] = (int)i;
    }
    if (!count)
        return 0;
    int chosen = count > 1 ? choose(choices, count) : 0;
    struct rank *r = &ranks[rank[chosen]];
    if (what[chosen] == -2)
        submit_offer(r);
    else if (what[chosen] == -1)
        receive_offer(r, &ranks[!rank[chosen]]);
    else
        withdraw_offer(r, (size_t)what[chosen]);
    return 1;
}

/* Returns nonzero if an offer was withdrawn, or it was too late for that. */
static int check_end(const struct rank *ranks)
{
    int gone = 0;

    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < ranks[r].own_count; i++) {
            const struct rank *own = &ranks[r], *other = &ranks[!r];
            gone += own->gone[i] != 0;
            CHECK(!own->asked[i] || own->met[i] || own->gone[i], "taken back, and it waits");
            if (own->met[i])
                CHECK(other->met[own_of(other, own->met[i])] == own->own[i].offer.number, "not the same pairs");
        }
    CHECK(!ranks[0].waiting == !ranks[1].heard && !ranks[1].waiting == !ranks[0].heard, "one waits for nothing");
    CHECK(!ranks[0].waiting || !ranks[1].waiting, "two wait that fit");
    return gone;
}

static void run_all(const int *submissions, const int *withdrawals)
{
    static struct choices choices;
    static struct rank ranks[2];
    size_t runs = 0, with_gone = 0;

    memset(&choices, 0, sizeof choices);
    choices.most = 64;
    do {
        memset(ranks, 0, sizeof ranks);
        for (int r = 0; r < 2; r++) {
            ranks[r].sends = r;
            ranks[r].to_submit = submissions[r];
            ranks[r].to_withdraw = withdrawals[r];
        }
        while (!test_failed && make_step(ranks, &choices))
            ;
        with_gone += check_end(ranks) != 0;
        runs++;
    } while (!test_failed && next_sequence(&choices));
    printf("%d and %d offers, %d and %d taken back: %zu interleavings, in %zu of them something ends so\n",
           submissions[0], submissions[1], withdrawals[0], withdrawals[1], runs, with_gone);
    CHECK(with_gone && (with_gone < runs || !submissions[0]));
}

int main(void)
{
    run_all((int[]){ 0, 1 }, (int[]){ 0, 1 });
    run_all((int[]){ 1, 1 }, (int[]){ 1, 1 });
    run_all((int[]){ 1, 2 }, (int[]){ 0, 1 });
    run_all((int[]){ 2, 2 }, (int[]){ 0, 1 });
    run_all((int[]){ 1, 2 }, (int[]){ 1, 1 });
    return test_end();
}
