/* SPDX-License-Identifier: Apache-2.0
 *
 * Withdrawal, as the coordinator sees it: ranks in one thread that submit a name a few times and take it back at any
 * moment, in every order in which two ranks' steps and messages can interleave, and in random ones of more ranks; by
 * the coordinator, and by express with its slots. Whatever happens, each submission ends once, and the n-th one alike
 * on all ranks. usage: test_withdraw_model [SEED]
 */
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/decide.h"
#include "fusion/coordinator/express_rounds.h"
#include "fusion/protocol/enrolment.h"
#include "tests/fusion/choices.h"
#include <string.h>

enum { RANKS = 4, TIMES = 3, QUEUE = 64 };

/* ---- ranks ---- */

/* What a message says, of what matters here. */
struct note {
    enum halay_item_kind kind;
    uint32_t id;
    uint64_t round;
    int has_put;
    enum halay_status status;
};

struct queue {
    struct note notes[QUEUE];
    size_t first, count;
};

struct rank {
    int submitted, ended, withdrawals;
    int is_put, is_told; /* by express; the coordinator knows */
    uint32_t id;
    struct halay_enrolment enrolment;
    uint64_t held;
    enum halay_status status[TIMES + 2];
    struct queue out, in;
};

struct model {
    int size, times, warm; /* submissions a rank; of these, not withdrawn at the beginning */
    size_t enrolled;
    uint64_t slots[2][RANKS]; /* the rounds that each rank has put last, odd and even ones */
    struct rank ranks[RANKS];
    struct halay_coordinator *coordinator;
    int64_t now_us;
};

static const struct halay_signature signature = {
    .collective = HALAY_ALLREDUCE, .dtype = HALAY_F32, .dimensions = 1, .shape = { 4 }, .prescale = 1, .postscale = 1
};

static void push(struct queue *q, struct note note)
{
    REQUIRE(q->count < QUEUE);
    q->notes[(q->first + q->count++) % QUEUE] = note;
}

static struct note pop(struct queue *q)
{
    struct note note = q->notes[q->first];

    q->first = (q->first + 1) % QUEUE;
    q->count--;
    return note;
}

static void end(struct rank *r, enum halay_status status)
{
    if (!CHECK(r->submitted == r->ended + 1, "an end for nothing"))
        return;
    r->status[r->ended++] = status;
    r->is_put = 0;
}

static int is_complete(const struct model *m, uint64_t round)
{
    for (int k = 0; k < m->size; k++)
        if (m->slots[round % 2][k] < round)
            return 0;
    return 1;
}

static void look(struct model *m, int rank)
{
    struct rank *r = &m->ranks[rank];

    if (!r->is_put || !is_complete(m, r->enrolment.round + 1))
        return;
    r->enrolment.round++;
    if (rank == 0)
        halay_coordinator_round_is_over(m->coordinator, r->id, r->enrolment.round, m->now_us);
    end(r, HALAY_OK);
}

/* From the coordinator. */
static void take(struct model *m, int rank, struct note note)
{
    struct rank *r = &m->ranks[rank];
    size_t others = 0; /* each rank counts who is enrolled */

    if (note.kind == HALAY_ITEM_AGREE) {
        r->id = note.id;
    } else if (note.kind == HALAY_ITEM_BUCKET) {
        halay_enrolment_count(&r->enrolment, &signature, 1, &others, m->enrolled);
        end(r, HALAY_OK);
    } else if (note.kind == HALAY_ITEM_ERROR) {
        r->enrolment.round += r->enrolment.pair != 0;
        end(r, note.status);
    } else if (CHECK(note.kind == HALAY_ITEM_HOLD, "kind %d", (int)note.kind)) {
        int has_put = r->enrolment.round >= note.round || (r->is_put && r->enrolment.round + 1 == note.round);
        if (!has_put)
            r->held = note.round;
        push(&r->out, (struct note){ HALAY_ITEM_HOLD, note.id, note.round, has_put, HALAY_OK });
    }
}

static enum halay_status emit(void *arg, int rank, const struct halay_item *item)
{
    struct model *m = arg;
    const struct note note = { item->kind,
                               item->kind == HALAY_ITEM_AGREE || item->kind == HALAY_ITEM_HOLD ? item->id : 0,
                               item->round, 0, item->status };

    for (int r = 0; r < m->size; r++)
        if (r == 0 && (rank < 0 || rank == 0))
            take(m, 0, note);
        else if (rank < 0 || rank == r)
            push(&m->ranks[r].in, note);
    return HALAY_OK;
}

/* The rank's oldest message reaches the coordinator, which decides. */
static void deliver(struct model *m, int rank)
{
    struct note note = pop(&m->ranks[rank].out);
    int emitted;

    if (note.kind != HALAY_ITEM_READY)
        look(m, 0);
    struct halay_item item = { .kind = note.kind,
                               .name = "n",
                               .name_length = 1,
                               .signature = signature,
                               .id = note.id,
                               .range = { note.id, 1 },
                               .round = note.round,
                               .has_put = note.has_put,
                               .status = note.status };
    CHECK(halay_coordinator_receive(m->coordinator, rank, &item, ++m->now_us) == HALAY_OK, "rank %d, kind %d", rank,
          (int)note.kind);
    CHECK(halay_coordinator_decide(m->coordinator, 1, &emitted) == HALAY_OK);
}

/* Rank 0 calls the coordinator, the others' messages are on their way. */
static void say(struct model *m, int rank, struct note note)
{
    push(&m->ranks[rank].out, note);
    while (rank == 0 && m->ranks[0].out.count)
        deliver(m, 0);
}

static void submit(struct model *m, int rank)
{
    struct rank *r = &m->ranks[rank];

    r->submitted++;
    r->withdrawals = 0;
    if (r->id == (uint32_t)HALAY_NO_ID) {
        say(m, rank, (struct note){ .kind = HALAY_ITEM_ANNOUNCE });
    } else if (r->enrolment.pair && r->enrolment.round >= r->held) {
        r->is_put = 1;
        r->is_told = 0;
        m->slots[(r->enrolment.round + 1) % 2][rank] = r->enrolment.round + 1;
    } else {
        say(m, rank, (struct note){ .kind = HALAY_ITEM_READY, .id = r->id });
    }
}

static void tell_late(struct model *m, int rank)
{
    struct rank *r = &m->ranks[rank];

    r->is_told = 1;
    say(m, rank, (struct note){ .kind = HALAY_ITEM_LATE, .id = r->id, .round = r->enrolment.round + 1 });
}

static void withdraw(struct model *m, int rank)
{
    struct rank *r = &m->ranks[rank];

    if (r->is_put && !r->is_told)
        tell_late(m, rank);
    r->withdrawals++;
    say(m, rank, (struct note){ .kind = HALAY_ITEM_WITHDRAW, .status = HALAY_ERR_CANCELED });
}

/* What a rank can do now, one bit each. */
enum { SUBMIT = 1, WITHDRAW = 2, DELIVER = 4, TAKE = 8, LOOK = 16, LATE = 32, KINDS = 6 };

static int possible(const struct model *m, int rank)
{
    const struct rank *r = &m->ranks[rank];
    int is_in_flight = r->submitted > r->ended, can = 0;

    if (!is_in_flight && r->submitted < m->times)
        can |= SUBMIT;
    if (is_in_flight && r->submitted > m->warm && r->withdrawals < 1)
        can |= WITHDRAW;
    can |= r->out.count ? DELIVER : 0;
    can |= r->in.count ? TAKE : 0;
    if (r->is_put) {
        can |= is_complete(m, r->enrolment.round + 1) ? LOOK : 0;
        can |= r->is_told ? 0 : LATE;
    }
    return can;
}

static void act(struct model *m, int rank, int what)
{
    if (what == SUBMIT)
        submit(m, rank);
    else if (what == WITHDRAW)
        withdraw(m, rank);
    else if (what == DELIVER)
        deliver(m, rank);
    else if (what == LOOK)
        look(m, rank);
    else if (what == LATE)
        tell_late(m, rank);
    else {
        look(m, rank);
        take(m, rank, pop(&m->ranks[rank].in));
    }
    while (m->ranks[0].out.count) /* rank 0's answers to what that caused */
        deliver(m, 0);
}

static int step(struct model *m, struct choices *choices)
{
    int count = 0, rank[RANKS * KINDS], what[RANKS * KINDS];

    for (int r = 0; r < m->size; r++)
        for (int k = 1; k <= LATE; k <<= 1)
            if (possible(m, r) & k) {
                rank[count] = r;
                what[count++] = k;
            }
    if (!count)
        return 0;
    int chosen = count > 1 ? choose(choices, count) : 0;
    act(m, rank[chosen], what[chosen]);
    return 1;
}

/* One run. Nonzero: a submission was withdrawn. */
static int run(int size, int times, int warm, size_t pairs, struct choices *choices)
{
    static struct halay_log log;
    struct model m = { .size = size, .times = times, .warm = warm, .enrolled = pairs };
    const struct halay_coordinator_options options = {
        .size = size, .threshold = 1, .ids_max = 100, .log = &log, .emit = emit, .arg = &m
    };
    int withdrawn = 0;

    halay_log_init(&log, HALAY_LOG_ERROR);
    for (int r = 0; r < size; r++)
        m.ranks[r].id = (uint32_t)HALAY_NO_ID;
    REQUIRE(halay_coordinator_create(&options, &m.coordinator) == HALAY_OK);
    halay_coordinator_set_express(m.coordinator, pairs);
    for (int k = 0; k < warm; k++) { /* by the coordinator, in one order */
        for (int r = 0; r < size; r++) {
            submit(&m, r);
            while (m.ranks[r].out.count)
                deliver(&m, r);
        }
        for (int r = 1; r < size; r++)
            while (m.ranks[r].in.count)
                take(&m, r, pop(&m.ranks[r].in));
    }
    while (!test_failed && step(&m, choices))
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

/* Two ranks; the warm ones make it go by express. */
static void run_all(int times, int warm, size_t pairs)
{
    static struct choices choices;
    size_t runs = 0, withdrawn = 0;

    memset(&choices, 0, sizeof choices);
    choices.most = CHOICES_MOST;
    do {
        withdrawn += run(2, warm + times, warm, pairs, &choices) != 0;
        runs++;
    } while (!test_failed && next_sequence(&choices));
    printf("%d submissions%s: %zu interleavings, in %zu of them something is withdrawn\n", times,
           pairs ? " by express" : "", runs, withdrawn);
    CHECK(withdrawn && withdrawn < runs);
}

int main(int argc, char **argv)
{
    enum { WALKS = 30000 };
    struct random random = { random_seed(argc, argv) };
    static struct choices choices;
    size_t withdrawn = 0;

    run_all(1, 0, 0);
    run_all(2, 0, 0);
    run_all(1, 2, 1);
    choices.random = &random;
    for (int i = 0; i < WALKS && !test_failed; i++)
        withdrawn += run(2 + i % 3, TIMES + (i & 1 ? 2 : 0), i & 1 ? 2 : 0, (size_t)(i & 1), &choices) != 0;
    CHECK(withdrawn > 100);
    return test_end();
}
