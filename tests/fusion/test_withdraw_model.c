/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal, as the coordinator sees it: ranks in one thread submit a name a few times and withdraw it at any moment,
 * in every interleaving of two ranks' steps and messages, and in random ones of more ranks. In all of them each
 * submission ends once, and the n-th one in the same way on all ranks. usage: test_withdraw_model [SEED]
 */
#include "fusion/coordinator/coordinator.h"
#include "tests/fusion/choices.h"
#include <string.h>

enum { RANKS = 4, TIMES = 3, QUEUE = 64 };

/* ---- ranks ---- */

/* The part of a message that matters here. */
struct note {
    enum halay_item_kind kind;
    uint32_t id;
    enum halay_status status;
};

struct queue {
    struct note notes[QUEUE];
    size_t first, count;
};

struct rank {
    int submitted, ended, withdrawals;
    uint32_t id;
    enum halay_status status[TIMES];
    struct queue out, in;
};

struct model {
    int size, times; /* submissions a rank */
    struct rank ranks[RANKS];
    struct halay_coordinator *coordinator;
    int64_t now_us;
};

static const struct halay_signature signature = {
    .collective = HALAY_ALLREDUCE, .dtype = HALAY_F32, .dimensions = 1, .shape = { 4 }, .prescale = 1, .postscale = 1
};

static void push_message(struct queue *q, struct note note)
{
    REQUIRE(q->count < QUEUE);
    q->notes[(q->first + q->count++) % QUEUE] = note;
}

static struct note pop_message(struct queue *q)
{
    struct note note = q->notes[q->first];

    q->first = (q->first + 1) % QUEUE;
    q->count--;
    return note;
}

static void end_submission(struct rank *r, enum halay_status status)
{
    if (!CHECK(r->submitted == r->ended + 1, "an end for nothing"))
        return;
    r->status[r->ended++] = status;
}

/* Handles an item of the coordinator. */
static void take_item(struct model *m, int rank, struct note note)
{
    struct rank *r = &m->ranks[rank];

    if (note.kind == HALAY_ITEM_AGREE)
        r->id = note.id;
    else if (note.kind == HALAY_ITEM_BUCKET)
        end_submission(r, HALAY_OK);
    else if (CHECK(note.kind == HALAY_ITEM_ERROR, "kind %d", (int)note.kind))
        end_submission(r, note.status);
}

static enum halay_status emit_item(void *arg, int rank, const struct halay_item *item)
{
    struct model *m = arg;
    const struct note note = { item->kind, item->kind == HALAY_ITEM_AGREE ? item->id : 0, item->status };

    for (int r = 0; r < m->size; r++)
        if (r == 0 && (rank < 0 || rank == 0))
            take_item(m, 0, note);
        else if (rank < 0 || rank == r)
            push_message(&m->ranks[r].in, note);
    return HALAY_OK;
}

/* Delivers the rank's oldest message to the coordinator, which decides. */
static void deliver_message(struct model *m, int rank)
{
    struct note note = pop_message(&m->ranks[rank].out);
    int emitted;

    struct halay_item item = { .kind = note.kind,
                               .name = "n",
                               .name_length = 1,
                               .signature = signature,
                               .range = { note.id, 1 },
                               .status = note.status };
    CHECK(halay_coordinator_receive(m->coordinator, rank, &item, ++m->now_us) == HALAY_OK, "rank %d, kind %d", rank,
          (int)note.kind);
    CHECK(halay_coordinator_decide(m->coordinator, 1, &emitted) == HALAY_OK);
}

/* Rank 0 calls the coordinator; the other ranks' messages are under way. */
static void send_message(struct model *m, int rank, struct note note)
{
    push_message(&m->ranks[rank].out, note);
    while (rank == 0 && m->ranks[0].out.count)
        deliver_message(m, 0);
}

static void submit_name(struct model *m, int rank)
{
    struct rank *r = &m->ranks[rank];

    r->submitted++;
    r->withdrawals = 0;
    if (r->id == (uint32_t)HALAY_NO_ID)
        send_message(m, rank, (struct note){ .kind = HALAY_ITEM_ANNOUNCE });
    else
        send_message(m, rank, (struct note){ .kind = HALAY_ITEM_READY, .id = r->id });
}

static void withdraw_name(struct model *m, int rank)
{
    m->ranks[rank].withdrawals++;
    send_message(m, rank, (struct note){ .kind = HALAY_ITEM_WITHDRAW, .status = HALAY_ERR_CANCELED });
}

/* Returns the possible actions of a rank, one bit each. */
enum { SUBMIT = 1, WITHDRAW = 2, DELIVER = 4, TAKE = 8, KINDS = 4 };

static int possible_actions(const struct model *m, int rank)
{
    const struct rank *r = &m->ranks[rank];
    int is_in_flight = r->submitted > r->ended, can = 0;

    if (!is_in_flight && r->submitted < m->times)
        can |= SUBMIT;
    if (is_in_flight && r->withdrawals < 1)
        can |= WITHDRAW;
    can |= r->out.count ? DELIVER : 0;
    can |= r->in.count ? TAKE : 0;
    return can;
}

static void perform_action(struct model *m, int rank, int what)
{
    if (what == SUBMIT)
        submit_name(m, rank);
    else if (what == WITHDRAW)
        withdraw_name(m, rank);
    else if (what == DELIVER)
        deliver_message(m, rank);
    else
        take_item(m, rank, pop_message(&m->ranks[rank].in));
}

static int make_step(struct model *m, struct choices *choices)
{
    int count = 0, rank[RANKS * KINDS], what[RANKS * KINDS];

    for (int r = 0; r < m->size; r++)
        for (int k = 1; k <= TAKE; k <<= 1)
            if (possible_actions(m, r) & k) {
                rank[count] = r;
                what[count++] = k;
            }
    if (!count)
        return 0;
    int chosen = count > 1 ? choose(choices, count) : 0;
    perform_action(m, rank[chosen], what[chosen]);
    return 1;
}

/* Makes one run. Returns nonzero if a submission was withdrawn. */
static int make_run(int size, int times, struct choices *choices)
{
    static struct halay_log log;
    struct model m = { .size = size, .times = times };
    const struct halay_coordinator_options options = {
        .size = size, .threshold = 1, .ids_max = 100, .log = &log, .emit = emit_item, .arg = &m
    };
    int withdrawn = 0;

    halay_log_init(&log, HALAY_LOG_ERROR);
    for (int r = 0; r < size; r++)
        m.ranks[r].id = (uint32_t)HALAY_NO_ID;
    REQUIRE(halay_coordinator_create(&options, &m.coordinator) == HALAY_OK);
    while (!test_failed && make_step(&m, choices))
        ;
    for (int r = 0; r < size; r++) {
        CHECK(m.ranks[r].ended == times, "rank %d: %d of %d have ended", r, m.ranks[r].ended, times);
        for (int k = 0; k < times; k++) {
            CHECK(m.ranks[r].status[k] == m.ranks[0].status[k], "submission %d ends with %d on rank %d, %d on rank 0",
                  k, (int)m.ranks[r].status[k], r, (int)m.ranks[0].status[k]);
            withdrawn += m.ranks[r].status[k] != HALAY_OK;
        }
    }
    CHECK(halay_coordinator_waiting(m.coordinator) == 0, "something is left over");
    halay_coordinator_destroy(m.coordinator);
    halay_log_fini(&log);
    return withdrawn;
}

/* Explores two ranks. */
static void run_all(int times)
{
    static struct choices choices;
    size_t runs = 0, withdrawn = 0;

    memset(&choices, 0, sizeof choices);
    choices.most = CHOICES_MOST;
    do {
        withdrawn += make_run(2, times, &choices) != 0;
        runs++;
    } while (!test_failed && next_sequence(&choices));
    printf("%d submissions: %zu interleavings, in %zu of them something is withdrawn\n", times, runs, withdrawn);
    CHECK(withdrawn && withdrawn < runs);
}

int main(int argc, char **argv)
{
    enum { WALKS = 30000 };
    struct random random = { random_seed(argc, argv) };
    static struct choices choices;
    size_t withdrawn = 0;

    run_all(1);
    run_all(2);
    choices.random = &random;
    for (int i = 0; i < WALKS && !test_failed; i++)
        withdrawn += make_run(2 + i % 3, TIMES, &choices) != 0;
    CHECK(withdrawn > 100);
    return test_end();
}
