/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, the coordinator's side, without ranks: when it makes a plan, the answers that it waits for until the plan has
 * ended, the items that it sends (fusion/protocol/replay.h), and how answers are merged. And an id that is revived.
 */
#include "collectives/group/epoch.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/coordinator_state.h"
#include "fusion/protocol/replay.h"
#include "tests/test.h"
#include <string.h>

enum { RANKS = 3, NAMES = 4, TURNS_MAX = 100 };
enum { A, B, STRAY, ROOTED };

static const char *const names[NAMES] = { "a", "b", "stray", "rooted" };

struct root {
    struct halay_log log;
    struct halay_coordinator *c;
    uint32_t ids[NAMES];
    int counts[HALAY_ITEM_KINDS];         /* of the items that were emitted */
    int votes;                            /* of PLANNED */
    uint32_t epoch;                       /* of the last plan */
    uint64_t numbers[HALAY_EPOCH_VALUES]; /* of the last COMPLETE or RESUME */
    int64_t now_us;
};

static enum halay_status take_emitted(void *arg, int rank, const struct halay_item *item)
{
    struct root *r = arg;

    (void)rank;
    r->counts[item->kind]++;
    for (int i = 0; i < NAMES && item->kind == HALAY_ITEM_AGREE; i++)
        if (item->name_length == strlen(names[i]) && !memcmp(item->name, names[i], item->name_length))
            r->ids[i] = item->id;
    r->votes += item->kind == HALAY_ITEM_PLANNED && item->has_vote;
    if (item->kind == HALAY_ITEM_PLAN)
        r->epoch = item->epoch;
    if (item->payload_count && item->kind > HALAY_ITEM_PLAN)
        memcpy(r->numbers, item->payload, item->payload_count * sizeof *r->numbers);
    return HALAY_OK;
}

static void open_root(struct root *r, size_t threshold)
{
    *r = (struct root){ .epoch = 0 };
    for (int i = 0; i < NAMES; i++)
        r->ids[i] = (uint32_t)HALAY_NO_ID;
    halay_log_init(&r->log, HALAY_LOG_ERROR);
    struct halay_coordinator_options options = { .size = RANKS,
                                                 .threshold = threshold,
                                                 .replay = 1,
                                                 .ids_max = 100,
                                                 .log = &r->log,
                                                 .emit = take_emitted,
                                                 .arg = r };
    REQUIRE(halay_coordinator_create(&options, &r->c) == HALAY_OK);
}

static void close_root(struct root *r)
{
    halay_coordinator_destroy(r->c);
    halay_log_fini(&r->log);
}

static enum halay_status give(struct root *r, int rank, struct halay_item item)
{
    return halay_coordinator_receive(r->c, rank, &item, ++r->now_us);
}

static void decide(struct root *r, int is_idle)
{
    int emitted;

    CHECK(halay_coordinator_decide(r->c, is_idle, &emitted) == HALAY_OK);
}

static struct halay_item announcement(const struct root *r, int name)
{
    struct halay_item item = { .kind = HALAY_ITEM_ANNOUNCE, .name = names[name], .name_length = strlen(names[name]) };

    item.signature = (struct halay_signature){ .collective = name == ROOTED ? HALAY_BROADCAST : HALAY_ALLREDUCE,
                                               .dtype = HALAY_F32,
                                               .dimensions = 1,
                                               .shape = { 4 },
                                               .prescale = 1,
                                               .postscale = 1 };
    if (r->ids[name] != (uint32_t)HALAY_NO_ID)
        item = (struct halay_item){ .kind = HALAY_ITEM_READY, .range = { r->ids[name], 1 } };
    return item;
}

static void submit(struct root *r, int rank, int name)
{
    CHECK(give(r, rank, announcement(r, name)) == HALAY_OK, "rank %d, '%s'", rank, names[name]);
}

static void submit_on_all(struct root *r, int name)
{
    struct halay_item item = announcement(r, name);

    for (int rank = 0; rank < RANKS; rank++)
        CHECK(give(r, rank, item) == HALAY_OK);
}

/* A step of two tensors, each a bucket. */
static void run_turn(struct root *r, int second)
{
    submit_on_all(r, A);
    submit_on_all(r, second);
    decide(r, 1);
    decide(r, 1);
}

/* Returns how many turns it takes until there is one more plan. */
static int turns_to_plan(struct root *r, int second)
{
    int plans = r->counts[HALAY_ITEM_PLAN], turns = 0;

    while (turns < TURNS_MAX && r->counts[HALAY_ITEM_PLAN] == plans) {
        run_turn(r, second);
        turns++;
    }
    CHECK(turns < TURNS_MAX);
    return turns;
}

static struct halay_item answer(const struct root *r, enum halay_item_kind kind)
{
    return (struct halay_item){ .kind = kind, .epoch = r->epoch, .ranks = 1, .reason = HALAY_BREAK_OTHER };
}

static enum halay_status answer_numbers(struct root *r, int rank, enum halay_item_kind kind, const uint64_t *numbers)
{
    struct halay_item item = answer(r, kind);

    item.payload = numbers;
    item.payload_count = halay_answers_count(kind);
    return give(r, rank, item);
}

/* Leaves the plan as ranks do that have entered its buckets for this number of turns. */
static void leave(struct root *r, uint64_t base, uint64_t turns)
{
    uint64_t entered[HALAY_ENTERED_NUMBERS], settled[HALAY_EPOCH_VALUES] = { 0 };

    for (int k = 0; k < HALAY_CHANNELS; k++)
        entered[k] = base + 2 * turns;
    entered[HALAY_ENTERED_BASE] = base;
    for (int rank = 0; rank < RANKS; rank++)
        CHECK(give(r, rank, answer(r, HALAY_ITEM_PLAN)) == HALAY_OK);
    CHECK(give(r, 1, answer(r, HALAY_ITEM_BREAK)) == HALAY_OK);
    for (int rank = 0; rank < RANKS; rank++)
        CHECK(answer_numbers(r, rank, HALAY_ITEM_ENTERED, entered) == HALAY_OK);
    for (int rank = 0; rank < RANKS; rank++)
        CHECK(answer_numbers(r, rank, HALAY_ITEM_SETTLED, settled) == HALAY_OK);
}

/* ---- when a plan is made ---- */

static void check_plan(void)
{
    struct root r;

    open_root(&r, 1);
    int turns = turns_to_plan(&r, B);
    CHECK(turns >= 3 && turns <= 4, "%d turns", turns);
    CHECK(r.counts[HALAY_ITEM_PLANNED] == 2 && !r.votes && r.epoch == 1);
    int buckets = r.counts[HALAY_ITEM_BUCKET];
    submit_on_all(&r, A); /* of which ranks had not received PLAN: they submit it again */
    submit_on_all(&r, A);
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_BUCKET] == buckets && !halay_coordinator_waiting(r.c));
    leave(&r, 8, 0);
    submit_on_all(&r, A);
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_BUCKET] == buckets + 1);
    close_root(&r);
    open_root(&r, 1);
    turns_to_plan(&r, ROOTED);
    CHECK(r.counts[HALAY_ITEM_PLANNED] == 2 && r.votes == 1, "%d votes", r.votes);
    close_root(&r);
}

/* A plan that is left at once delays the next one, each time longer; one that lasts does not. */
static void check_pause(void)
{
    struct root r;

    open_root(&r, 1);
    int first = turns_to_plan(&r, B);
    leave(&r, 8, 25);
    int second = turns_to_plan(&r, B);
    leave(&r, 8, 1);
    int third = turns_to_plan(&r, B);
    leave(&r, 8, 1);
    int fourth = turns_to_plan(&r, B);
    CHECK(second <= first && third > second && fourth > third, "%d, %d, %d, %d turns", first, second, third, fourth);
    leave(&r, 8, 25);
    CHECK(turns_to_plan(&r, B) == second);
    close_root(&r);
}

/* A tensor that waits when a turn is over prevents the plan; so it does when it is complete and has not been sent. */
static void check_waiting(void)
{
    struct root r;

    open_root(&r, 1 << 20);
    submit(&r, 0, STRAY);
    for (int i = 0; i < 8; i++)
        run_turn(&r, B);
    CHECK(!r.counts[HALAY_ITEM_PLAN]);
    submit(&r, 1, STRAY);
    submit(&r, 2, STRAY);
    int buckets = r.counts[HALAY_ITEM_BUCKET];
    decide(&r, 0);
    CHECK(!r.counts[HALAY_ITEM_PLAN] && r.counts[HALAY_ITEM_BUCKET] == buckets, "a bucket is under way");
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_BUCKET] == buckets + 1);
    turns_to_plan(&r, B);
    close_root(&r);
}

/* So does a rank that owes a submission which the others have withdrawn, and one that joins with the last submission of
 * a turn. */
static void check_owed(void)
{
    struct root r;

    open_root(&r, 1);
    struct halay_item item = announcement(&r, STRAY);
    CHECK(give(&r, 0, item) == HALAY_OK);
    item = (struct halay_item){
        .kind = HALAY_ITEM_WITHDRAW, .name = names[STRAY], .name_length = 5, .status = HALAY_ERR_CANCELED
    };
    CHECK(give(&r, 0, item) == HALAY_OK && r.counts[HALAY_ITEM_ERROR] == 1);
    for (int i = 0; i < 8; i++)
        run_turn(&r, B);
    CHECK(!r.counts[HALAY_ITEM_PLAN]);
    submit(&r, 1, STRAY);
    submit(&r, 2, STRAY);
    CHECK(r.counts[HALAY_ITEM_ERROR] == 3);
    turns_to_plan(&r, B);
    close_root(&r);
}

static void check_joined(void)
{
    struct root r;

    open_root(&r, 1);
    int turns = turns_to_plan(&r, B);
    close_root(&r);
    open_root(&r, 1);
    for (int i = 1; i < turns; i++)
        run_turn(&r, B);
    submit_on_all(&r, A);
    submit_on_all(&r, B);
    struct halay_item join = { .kind = HALAY_ITEM_ANNOUNCE, .name = "join", .name_length = 4 };
    join.signature.collective = HALAY_JOIN;
    CHECK(give(&r, 2, join) == HALAY_OK);
    decide(&r, 1);
    decide(&r, 1);
    CHECK(!r.counts[HALAY_ITEM_PLAN]);
    close_root(&r);
}

/* Rank 1 submits a tensor of the next turn before the current turn is complete on all ranks. The plan does not contain
 * that submission, so rank 1 submits the tensor again when it has left the plan. */
static void check_ahead(void)
{
    struct root r;

    open_root(&r, 1);
    while (!r.counts[HALAY_ITEM_PLAN]) {
        submit_on_all(&r, A);
        decide(&r, 1);
        submit_on_all(&r, B);
        submit(&r, 1, A);
        decide(&r, 1);
        if (r.counts[HALAY_ITEM_PLAN])
            break;
        submit(&r, 0, A);
        submit(&r, 2, A);
        decide(&r, 1);
        submit_on_all(&r, B);
        decide(&r, 1);
    }
    leave(&r, 8, 0);
    int buckets = r.counts[HALAY_ITEM_BUCKET];
    submit_on_all(&r, A);
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_BUCKET] == buckets + 1);
    close_root(&r);
}

/* ---- how it ends ---- */

static void check_order(void)
{
    struct root r;
    uint64_t entered[HALAY_ENTERED_NUMBERS] = { 0 }, settled[HALAY_EPOCH_VALUES] = { 0 };

    open_root(&r, 1);
    turns_to_plan(&r, B);
    for (int k = 0; k < HALAY_ENTERED_NUMBERS; k++)
        entered[k] = 100;
    CHECK(give(&r, 0, answer(&r, HALAY_ITEM_PLAN)) == HALAY_OK && give(&r, 1, answer(&r, HALAY_ITEM_PLAN)) == HALAY_OK);
    CHECK(give(&r, 1, answer(&r, HALAY_ITEM_BREAK)) == HALAY_OK && !r.counts[HALAY_ITEM_FREEZE]);
    CHECK(answer_numbers(&r, 0, HALAY_ITEM_ENTERED, entered) == HALAY_ERR_FORMAT, "it is not frozen");
    CHECK(give(&r, 2, answer(&r, HALAY_ITEM_PLAN)) == HALAY_OK && r.counts[HALAY_ITEM_FREEZE] == 1);
    CHECK(give(&r, 2, answer(&r, HALAY_ITEM_PLAN)) == HALAY_ERR_FORMAT, "once more");
    CHECK(give(&r, 2, answer(&r, HALAY_ITEM_BREAK)) == HALAY_OK && r.counts[HALAY_ITEM_FREEZE] == 1);
    CHECK(answer_numbers(&r, 0, HALAY_ITEM_SETTLED, settled) == HALAY_ERR_FORMAT, "nothing is to be completed yet");
    for (int rank = 0; rank < RANKS; rank++) {
        entered[1] = 100 + 8 * (uint64_t)((rank + 1) % RANKS);
        entered[2] = 100 - 8 * (uint64_t)rank;
        CHECK(!r.counts[HALAY_ITEM_COMPLETE] && answer_numbers(&r, rank, HALAY_ITEM_ENTERED, entered) == HALAY_OK);
    }
    CHECK(r.counts[HALAY_ITEM_COMPLETE] == 1 && r.numbers[0] == 100 && r.numbers[1] == 100 && r.numbers[2] == 84);
    for (int rank = 0; rank < RANKS; rank++) {
        settled[HALAY_EPOCH_NEXT] = 50 - (uint64_t)rank;
        CHECK(!r.counts[HALAY_ITEM_RESUME] && answer_numbers(&r, rank, HALAY_ITEM_SETTLED, settled) == HALAY_OK);
    }
    CHECK(r.counts[HALAY_ITEM_RESUME] == 1 && r.numbers[HALAY_EPOCH_NEXT] == 50);
    CHECK(answer_numbers(&r, 0, HALAY_ITEM_SETTLED, settled) == HALAY_ERR_FORMAT, "it is over");
    CHECK(give(&r, 0, answer(&r, HALAY_ITEM_BREAK)) == HALAY_ERR_FORMAT, "it is over");
    uint64_t number = r.numbers[HALAY_EPOCH_NUMBER];
    turns_to_plan(&r, B);
    leave(&r, 8, 0);
    CHECK(r.numbers[HALAY_EPOCH_NUMBER] > number, "groups never have the same number");
    struct halay_item late = answer(&r, HALAY_ITEM_BREAK);
    turns_to_plan(&r, B);
    CHECK(late.epoch + 1 == r.epoch && give(&r, 0, late) == HALAY_ERR_FORMAT, "of the plan before");
    close_root(&r);
}

/* ---- answers ---- */

static void check_answers(void)
{
    uint64_t numbers[HALAY_EPOCH_VALUES] = { 0 };
    struct halay_answers a = { 0 };
    struct halay_item item = { .kind = HALAY_ITEM_ENTERED,
                               .ranks = 2,
                               .payload = numbers,
                               .payload_count = halay_answers_count(HALAY_ITEM_ENTERED) };

    numbers[0] = 7;
    numbers[1] = 5;
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_OK && a.ranks == 2 && a.numbers[0] == 7);
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_ERR_FORMAT && a.ranks == 2, "of too many ranks");
    item.ranks = 0;
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_ERR_FORMAT, "of no rank");
    item.ranks = 1;
    item.payload_count--;
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_ERR_FORMAT, "of another length");
    item.payload_count++;
    numbers[0] = 9;
    numbers[1] = 4;
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_OK && a.ranks == 3 && a.numbers[0] == 7 && a.numbers[1] == 4);
    a = (struct halay_answers){ 0 };
    item.kind = HALAY_ITEM_SETTLED;
    item.payload_count = halay_answers_count(HALAY_ITEM_SETTLED);
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_OK);
    numbers[0] = 8;
    numbers[1] = 6;
    CHECK(halay_answers_add(&a, &item, 3) == HALAY_OK && a.numbers[0] == 9 && a.numbers[1] == 6 && a.ranks == 2);
}

/* A name loses its id to another one, and the ranks agree on it again before all have forgotten the id; one of them had
 * not received FORGET when it submitted. The name keeps the id. */
static void check_revived(void)
{
    struct root r;

    open_root(&r, 0);
    r.c->options.ids_max = 1;
    submit_on_all(&r, A);
    decide(&r, 1);
    uint32_t id = r.ids[A];
    submit_on_all(&r, B);
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_FORGET] == 1 && r.ids[B] != id);
    submit(&r, 1, A);
    r.ids[A] = (uint32_t)HALAY_NO_ID;
    submit(&r, 0, A);
    submit(&r, 2, A);
    decide(&r, 1);
    CHECK(r.ids[A] == id && r.counts[HALAY_ITEM_AGREE] == 3 && r.counts[HALAY_ITEM_BUCKET] == 3);
    for (int rank = 1; rank < RANKS; rank++)
        CHECK(give(&r, rank, (struct halay_item){ .kind = HALAY_ITEM_FORGET, .id = id }) == HALAY_OK);
    CHECK(give(&r, 1, (struct halay_item){ .kind = HALAY_ITEM_FORGET, .id = id }) == HALAY_ERR_FORMAT);
    submit_on_all(&r, A);
    decide(&r, 1);
    CHECK(r.counts[HALAY_ITEM_AGREE] == 3 && r.counts[HALAY_ITEM_BUCKET] == 4);
    close_root(&r);
}

int main(void)
{
    check_plan();
    check_pause();
    check_waiting();
    check_owed();
    check_joined();
    check_ahead();
    check_order();
    check_answers();
    check_revived();
    return test_end();
}
