/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving a plan with many ranks: the engines of all ranks in one process, over a network with a simulated clock. In
 * the gate, 64 ranks: a steady step takes no message, and no rank exchanges more messages to leave than the tree
 * requires. With arguments, figures: test_leave RANKS DEGREE WIRE_US END_US (perf/bench/leave).
 *
 * The engine is real, except for its thread: submissions, negotiation, capture, plans, messages as bytes. The data are
 * not simulated: each rank's group has only itself, so a bucket that it enters completes at once. That makes no
 * difference to messages, as long as ranks leave between two steps, when all have entered the same buckets.
 *
 * The time of a message: END_US on its sender, WIRE_US under way, END_US on its receiver. A process does one thing at a
 * time, in the order of arrival. The engine uses this clock, too: clock_gettime is this file's.
 *
 *     rank 0 --END--+
 *           --END--+ \--WIRE--> END rank 1
 *                   \--WIRE--> END rank 2
 */
#include "base/fork.h"
#include "collectives/transport/bootstrap/tree.h"
#include "fusion/api/open.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/driver.h"
#include "fusion/engine/negotiate.h"
#include "fusion/engine/step.h"
#include "fusion/paths/paths.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/branch.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/reasons.h"
#include "fusion/replay/replay.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/context.h"
#include "fusion/run/bucket.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TENSORS = 4, WARM_TURNS = 8, STEADY_TURNS = 5, STEPS_MAX = 1000, RANKS_MAX = 64 };
#define HELD_NS 10000000

/* A message under way. */
struct frame {
    struct frame *next; /* in the list of those that no receive waits for */
    int64_t at_ns;
    uint64_t order; /* order among those that arrive at the same time */
    int from, to;
    uint64_t tag;
    size_t bytes;
    unsigned char data[];
};

struct sim_rank {
    struct halay_link link;    /* first: the link of the engine's messages */
    struct halay_link nothing; /* the link of collectives: of one rank, so it moves no data */
    struct halay_world world;
    struct halay_context *ctx;
    struct halay_tensor *tensors[TENSORS], *stray;
    float data[TENSORS + 1];
    int64_t free_ns; /* it is busy until then */
    uint64_t sent, received;
    struct halay_transfer *posted;   /* receives; a list */
    struct halay_transfer **by_peer; /* owned: of rank 0 instead, one a peer */
    struct frame *early;             /* arrived; a list, oldest first */
    int64_t resumed_ns;              /* when it had left the plan */
    uint64_t exchanged;              /* messages sent and received until then */
    size_t ended;
};

static struct sim_rank *ranks;
static int rank_count;
static unsigned char *none_lost;
static int64_t wire_ns = 12000, end_ns = 4000;
static int held = -1; /* the rank to which messages along the tree take HELD_NS longer */
static int64_t now_ns = (int64_t)1000 * 1000000000;

/* A heap with the earliest message first. */
static struct frame **heap;
static size_t heap_count, heap_room;
static uint64_t frames_ever;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    t->tv_sec = now_ns / 1000000000;
    t->tv_nsec = now_ns % 1000000000;
    return 0;
}

static double true_seconds(void)
{
    struct timespec t;

    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the network ---- */

static int is_before(const struct frame *a, const struct frame *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct frame *frame)
{
    size_t at = heap_count;

    REQUIRE(halay_list_grow(&heap, heap_count, &heap_room, sizeof(struct frame *)) == HALAY_OK);
    heap_count++;
    for (; at && is_before(frame, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = frame;
}

static struct frame *heap_pop(void)
{
    struct frame *first = heap[0], *last = heap[--heap_count];
    size_t at = 0, child;

    for (; (child = 2 * at + 1) < heap_count; at = child) {
        child += child + 1 < heap_count && is_before(heap[child + 1], heap[child]);
        if (!is_before(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

static void match(struct halay_transfer *x, struct frame *frame)
{
    REQUIRE(x->bytes == frame->bytes);
    memcpy(x->buf, frame->data, frame->bytes);
    free(frame);
    halay_transfer_end(x);
}

/* A message is a frame; the rest of a long one travels with it. */
static int is_first_part(uint64_t tag)
{
    return tag == halay_tag(HALAY_CONTROL_GROUP, 0, 0);
}

static void link_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    struct sim_rank *r = (struct sim_rank *)link;
    struct frame *frame = malloc(sizeof *frame + bytes);

    REQUIRE(frame != NULL);
    if (is_first_part(tag)) {
        r->sent++;
        r->free_ns += end_ns;
    }
    *frame = (struct frame){ .at_ns = r->free_ns + wire_ns + (peer == held && link->rank ? HELD_NS : 0),
                             .order = frames_ever++,
                             .from = link->rank,
                             .to = peer,
                             .tag = tag,
                             .bytes = bytes };
    memcpy(frame->data, buf, bytes);
    heap_push(frame);
    halay_transfer_post(x, peer, tag, (void *)(uintptr_t)buf, bytes);
    halay_transfer_end(x);
}

static struct halay_transfer **list_of(struct sim_rank *r, int peer)
{
    return r->by_peer ? &r->by_peer[peer] : &r->posted;
}

static void link_recv(struct halay_link *link, int peer, uint64_t tag, void *buf, size_t bytes,
                      struct halay_transfer *x)
{
    struct sim_rank *r = (struct sim_rank *)link;
    struct frame **at = &r->early, *found;

    halay_transfer_post(x, peer, tag, buf, bytes);
    while (*at && ((*at)->from != peer || (*at)->tag != tag))
        at = &(*at)->next;
    found = *at;
    if (found) {
        *at = found->next;
        match(x, found);
        return;
    }
    struct halay_transfer **list = list_of(r, peer);
    x->next = *list;
    *list = x;
}

/* Takes a posted receive out of the list; NULL: none is posted. */
static struct halay_transfer *take_posted(struct sim_rank *r, int from, uint64_t tag)
{
    struct halay_transfer **at = list_of(r, from), *x;

    while (*at && ((*at)->peer != from || (*at)->tag != tag))
        at = &(*at)->next;
    x = *at;
    if (x)
        *at = x->next;
    return x;
}

static void arrive(struct frame *frame)
{
    struct sim_rank *r = &ranks[frame->to];
    struct halay_transfer *x = take_posted(r, frame->from, frame->tag);
    struct frame **last = &r->early;

    if (x) {
        match(x, frame);
        return;
    }
    while (*last)
        last = &(*last)->next;
    frame->next = NULL;
    *last = frame;
}

static enum halay_status link_progress(struct halay_link *link)
{
    (void)link;
    return HALAY_OK;
}

static void link_cancel(struct halay_link *link, struct halay_transfer *x)
{
    take_posted((struct sim_rank *)link, x->peer, x->tag);
}

static void link_forget(struct halay_link *link, struct halay_group_range groups)
{
    (void)link;
    (void)groups;
}

static long link_arm(struct halay_link *link)
{
    (void)link;
    return HALAY_RINGS;
}

static const struct halay_link_ops link_ops = { .name = "sim",
                                                .send = link_send,
                                                .recv = link_recv,
                                                .progress = link_progress,
                                                .cancel = link_cancel,
                                                .forget = link_forget,
                                                .arm = link_arm };

/* ---- ranks ---- */

static struct halay_log sim_log;
static struct halay_config config;
static struct halay_tuning *tuning;

/* A world of one rank for the groups; the engine gets the number of all ranks. */
static void open_world(struct sim_rank *r, unsigned char *is_parent)
{
    struct halay_world *w = &r->world;

    *w = (struct halay_world){ .log = &sim_log, .config = config, .size = 1, .is_parent = is_parent };
    r->nothing =
        (struct halay_link){ .ops = &link_ops, .size = 1, .failed_peer = -1, .lost = none_lost, .log = &sim_log };
    w->data = &r->nothing;
    w->control = &r->link;
    w->tuning = tuning;
    halay_bell_init(&w->bell, &sim_log);
    w->node_of = calloc(1, sizeof *w->node_of);
    REQUIRE(w->node_of && halay_world_lay_out(w) == HALAY_OK && halay_world_settle(w) == HALAY_OK);
}

static void open_coordinator(struct halay_context *ctx)
{
    struct halay_coordinator_options options = { .size = ctx->size,
                                                 .threshold = config.fusion_threshold,
                                                 .replay = 1,
                                                 .ids_max = 1024,
                                                 .log = &sim_log,
                                                 .emit = halay_negotiate_emit,
                                                 .arg = &ctx->all };

    REQUIRE(halay_coordinator_create(&options, &ctx->all.coordinator) == HALAY_OK);
}

/* Does the part of fusion/api/open.c that needs no thread. */
static void open_engine(struct sim_rank *r, int rank, int degree, unsigned char *is_parent)
{
    struct halay_context *ctx = r->ctx = halay_context_new();

    REQUIRE(ctx != NULL);
    r->link = (struct halay_link){
        .ops = &link_ops, .rank = rank, .size = rank_count, .failed_peer = -1, .lost = none_lost, .log = &sim_log
    };
    if (!rank)
        REQUIRE((r->by_peer = calloc((size_t)rank_count, sizeof(struct halay_transfer *))));
    open_world(r, is_parent);
    ctx->is_parent = is_parent;
    halay_process_set_init(&ctx->all, ctx, rank_count, rank);
    REQUIRE(halay_paths_create(ctx) == HALAY_OK);
    ctx->world = &r->world;
    ctx->log = &sim_log;
    ctx->rank = rank;
    ctx->size = rank_count;
    ctx->control = &r->link;
    ctx->execution->ended_last = &ctx->execution->ended;
    ctx->degree = degree;
    REQUIRE(halay_messenger_create(ctx->control, rank, rank_count, &sim_log, &ctx->messenger) == HALAY_OK);
    if (!rank)
        open_coordinator(ctx);
    REQUIRE(halay_group_create(&r->world, &ctx->all.group) == HALAY_OK);
    ctx->carrier->ops->open(ctx);
}

static void register_tensors(struct sim_rank *r)
{
    for (int i = 0; i <= TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, i < TENSORS ? "tensor %d" : "stray", i);
        struct halay_tensor_info info = {
            .struct_size = sizeof info, .name = name, .dimensions = 1, .shape = { 1 }, .out = &r->data[i]
        };
        REQUIRE(halay_register(r->ctx, &info, i < TENSORS ? &r->tensors[i] : &r->stray) == HALAY_OK);
    }
}

static void count_end(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    CHECK(status == HALAY_OK);
    ((struct sim_rank *)arg)->ended++;
}

/* Steps the engine until it has nothing to do. */
static void drive(struct sim_rank *r)
{
    int was_off = halay_replay_is_off(&r->ctx->all), steps = 0;

    now_ns = r->free_ns;
    while (halay_engine_step(r->ctx))
        REQUIRE(++steps < STEPS_MAX);
    REQUIRE(r->ctx->status == HALAY_OK);
    if (!was_off && halay_replay_is_off(&r->ctx->all)) {
        r->resumed_ns = r->free_ns;
        r->exchanged = r->sent + r->received;
    }
}

/* Delivers the next message, and drives its receiver. is_batch: messages that have arrived while a rank was busy are
 * taken together, as rank 0 does with thousands of announcements; otherwise one after the other. */
static void deliver_next(int is_batch)
{
    struct frame *frame = heap_pop();
    struct sim_rank *r = &ranks[frame->to];
    int is_more = 1;

    r->free_ns = r->free_ns > frame->at_ns ? r->free_ns : frame->at_ns;
    while (is_more) {
        r->free_ns += is_first_part(frame->tag) ? end_ns : 0;
        r->received += is_first_part(frame->tag);
        arrive(frame);
        is_more = is_batch && heap_count && &ranks[heap[0]->to] == r && heap[0]->at_ns <= r->free_ns;
        frame = is_more ? heap_pop() : NULL;
    }
    drive(r);
}

/* Runs until no message is under way. */
static void run_network(int is_batch)
{
    while (heap_count)
        deliver_next(is_batch);
}

/* Sets all ranks to the same time, that of the last one to become free. */
static int64_t meet(void)
{
    int64_t last = 0;

    for (int r = 0; r < rank_count; r++)
        last = ranks[r].free_ns > last ? ranks[r].free_ns : last;
    for (int r = 0; r < rank_count; r++)
        ranks[r].free_ns = last;
    return last;
}

static void submit(struct sim_rank *r, struct halay_tensor *tensor)
{
    now_ns = r->free_ns;
    REQUIRE(halay_submit(tensor, count_end, r, NULL) == HALAY_OK);
}

static void submit_some(struct sim_rank *r, int first, int end)
{
    for (int i = first; i < end; i++)
        submit(r, r->tensors[i]);
    drive(r);
}

static void submit_turn(struct sim_rank *r)
{
    submit_some(r, 0, TENSORS);
}

static void run_turn(int is_batch)
{
    meet();
    for (int r = 0; r < rank_count; r++)
        submit_turn(&ranks[r]);
    run_network(is_batch);
    for (int r = 0; r < rank_count; r++)
        CHECK(ranks[r].ended % TENSORS == 0 && ranks[r].ended == ranks[0].ended, "rank %d: %zu of %zu", r,
              ranks[r].ended, ranks[0].ended);
}

/* Returns the number of messages since the last call. */
static uint64_t count_messages(void)
{
    uint64_t all = 0;

    for (int r = 0; r < rank_count; r++) {
        all += ranks[r].sent;
        ranks[r].sent = ranks[r].received = 0;
    }
    return all;
}

/* ---- measurements ---- */

struct figures {
    uint64_t steady;         /* messages of STEADY_TURNS steps */
    double root_us, last_us; /* processor time of a steady step on rank 0, and on the last rank */
    double plan_ms;          /* from the step that completes the capture until all have answered PLAN */
    double one_ms, all_ms;   /* from the submission until the last rank has left: on the last rank alone, or on all */
    uint64_t one_most, all_most; /* messages of the rank that has the most */
};

static void warm_up(struct figures *f)
{
    int64_t began = 0;

    for (int turn = 0; turn < WARM_TURNS && halay_replay_is_off(&ranks[rank_count - 1].ctx->all); turn++) {
        began = meet();
        run_turn(1);
    }
    f->plan_ms = (double)(meet() - began) / 1e6;
    for (int r = 0; r < rank_count; r++)
        CHECK(!halay_replay_is_off(&ranks[r].ctx->all), "rank %d has no plan", r);
    run_turn(1);
    count_messages();
}

static double time_turn(struct sim_rank *r)
{
    double begin = true_seconds();

    submit_turn(r);
    return (true_seconds() - begin) * 1e6;
}

static void run_steady(struct figures *f)
{
    for (int turn = 0; turn < STEADY_TURNS; turn++) {
        meet();
        for (int r = 0; r < rank_count; r++) {
            double us = time_turn(&ranks[r]);
            double *least = r == 0 ? &f->root_us : &f->last_us;
            if ((r == 0 || r == rank_count - 1) && (!turn || us < *least))
                *least = us;
        }
        run_network(0);
    }
    f->steady = count_messages();
}

/* The first `count` ranks submit the tensor that the others have submitted, which is not in a plan. */
static void submit_strays(int count)
{
    for (int r = 0; r < count; r++) {
        submit(&ranks[r], ranks[r].stray);
        drive(&ranks[r]);
    }
    run_network(1);
    for (int r = 0; r < rank_count; r++) {
        CHECK(ranks[r].ended % TENSORS == 1, "rank %d: the tensor that is not in the plan", r);
        ranks[r].ended--;
    }
}

/* The ranks from `first` on submit a tensor that is not in the plan; the rest of its step follows later. */
static double break_plan(int first, uint64_t *most)
{
    int64_t began = meet(), last = 0;

    for (int r = first; r < rank_count; r++) {
        submit(&ranks[r], ranks[r].stray);
        drive(&ranks[r]);
    }
    run_network(0);
    *most = 0;
    for (int r = 0; r < rank_count; r++) {
        CHECK(halay_replay_is_off(&ranks[r].ctx->all), "rank %d is in a plan", r);
        last = ranks[r].resumed_ns > last ? ranks[r].resumed_ns : last;
        *most = ranks[r].exchanged > *most ? ranks[r].exchanged : *most;
    }
    submit_strays(first);
    return (double)(last - began) / 1e6;
}

static void open_all(int count, int degree)
{
    unsigned char *is_parent = halay_fork_mark();

    rank_count = count;
    ranks = calloc((size_t)count, sizeof *ranks);
    none_lost = calloc((size_t)count, 1);
    REQUIRE(ranks && none_lost);
    halay_log_init(&sim_log, HALAY_LOG_WARNING);
    REQUIRE(halay_config_load(&sim_log, &config) == HALAY_OK);
    config.replay = 1;
    config.peer_timeout_ms = config.stall_check_ms = 0;
    for (int r = 0; r < count; r++) {
        ranks[r].free_ns = now_ns;
        open_engine(&ranks[r], r, degree, is_parent);
        register_tensors(&ranks[r]);
    }
}

static struct figures simulate(int count, int degree)
{
    struct figures f = { 0 };

    open_all(count, degree);
    warm_up(&f);
    run_steady(&f);
    f.one_ms = break_plan(count - 1, &f.one_most);
    warm_up(&f);
    for (int turn = 0; turn < 30; turn++) /* a plan that is left early delays the next one */
        run_turn(1);
    count_messages();
    f.all_ms = break_plan(0, &f.all_most);
    return f;
}

/* ---- what a plan overtakes ---- */

/* Runs steps, each of two buckets, until rank 0 has sent a plan that the last rank, which is returned, has not
 * received. */
static struct sim_rank *run_until_sent(void)
{
    struct sim_rank *last = &ranks[rank_count - 1];

    for (int turn = 0; turn < 2 * WARM_TURNS && halay_replay_is_off(&ranks[0].ctx->all); turn++) {
        meet();
        for (int r = 0; r < rank_count; r++)
            submit_some(&ranks[r], 0, TENSORS / 2);
        run_network(1);
        meet();
        for (int r = 0; r < rank_count; r++)
            submit_some(&ranks[r], TENSORS / 2, TENSORS);
        while (heap_count && halay_replay_is_off(&ranks[0].ctx->all))
            deliver_next(1);
    }
    REQUIRE(!halay_replay_is_off(&ranks[0].ctx->all) && halay_replay_is_off(&last->ctx->all));
    return last;
}

static void check_all_off(void)
{
    for (int r = 0; r < rank_count; r++)
        CHECK(halay_replay_is_off(&ranks[r].ctx->all), "rank %d is in a plan", r);
}

/* Returns the number of plans that were made so far. */
static uint32_t count_plans(void)
{
    return ranks[0].ctx->all.replay->epoch;
}

/* No plan is made while a tensor waits that would break it. */
static void check_waiting(void)
{
    struct sim_rank *last = &ranks[rank_count - 1];
    uint32_t plans = count_plans();

    submit(last, last->stray);
    drive(last);
    run_network(1);
    for (int turn = 0; turn < 2 * WARM_TURNS; turn++)
        run_turn(1);
    CHECK(count_plans() == plans, "%u plans, not %u", count_plans(), plans);
    submit_strays(rank_count - 1);
}

static void note_end(void *arg, enum halay_status status, const char *text)
{
    (void)text;
    *(enum halay_status *)arg = status;
}

/* Rank 1 has left the plan, and cancels a tensor before the last rank has, which all others have submitted too: it ends
 * on all. */
static void check_canceled(void)
{
    struct sim_rank *last = &ranks[rank_count - 1];
    enum halay_status statuses[RANKS_MAX];
    struct halay_request *request;
    struct figures f;

    warm_up(&f);
    for (int r = 0; r < rank_count; r++) {
        statuses[r] = HALAY_IN_PROGRESS;
        now_ns = ranks[r].free_ns;
        if (r != 1)
            REQUIRE(halay_submit(ranks[r].tensors[0], note_end, &statuses[r], NULL) == HALAY_OK);
    }
    submit(last, last->stray);
    drive(last);
    held = rank_count - 1;
    while (heap_count && !halay_replay_is_off(&ranks[1].ctx->all))
        deliver_next(0);
    REQUIRE(halay_submit(ranks[1].tensors[0], note_end, &statuses[1], &request) == HALAY_OK);
    REQUIRE(halay_cancel(request) == HALAY_OK);
    halay_request_free(request);
    drive(&ranks[1]);
    run_network(0);
    held = -1;
    check_all_off();
    for (int r = 0; r < rank_count; r++)
        CHECK(statuses[r] == HALAY_ERR_CANCELED, "rank %d: %s", r, halay_status_string(statuses[r]));
    submit_strays(rank_count - 1);
    run_turn(1);
}

/* A submission that the last rank has sent before it receives a plan without it breaks the plan, and is sent again. */
static void check_stray(void)
{
    struct sim_rank *last = run_until_sent();

    submit(last, last->stray);
    drive(last);
    run_network(1);
    check_all_off();
    submit_strays(rank_count - 1);
}

/* A submission of a tensor in the plan counts in it. */
static void check_early(void)
{
    struct sim_rank *last = run_until_sent();

    submit_some(last, 0, TENSORS / 2);
    run_network(1);
    submit_some(last, TENSORS / 2, TENSORS);
    for (int r = 0; r < rank_count - 1; r++)
        submit_turn(&ranks[r]);
    run_network(1);
    for (int r = 0; r < rank_count; r++)
        CHECK(!halay_replay_is_off(&ranks[r].ctx->all) && ranks[r].ended == ranks[0].ended,
              "rank %d: %zu submissions have ended, not %zu", r, ranks[r].ended, ranks[0].ended);
    for (int turn = 0; turn < 30; turn++) /* so that the next plan is not delayed */
        run_turn(1);
    uint64_t most;
    break_plan(0, &most);
}

/* Returns the number of turns until all ranks have a plan. */
static int count_turns(void)
{
    int turns = 0;

    for (; halay_replay_is_off(&ranks[rank_count - 1].ctx->all) && turns < 10 * WARM_TURNS; turns++)
        run_turn(1);
    return turns;
}

/* Ranks report how long a plan has lasted: the next one is made later if it was short. */
static void check_pause(void)
{
    uint64_t most;

    count_turns();
    for (int turn = 0; turn < 30; turn++)
        run_turn(1);
    break_plan(0, &most);
    int soon = count_turns();
    break_plan(0, &most);
    int late = count_turns();
    CHECK(late > soon, "%d turns after a short plan, %d after a long one", late, soon);
    for (int turn = 0; turn < 30; turn++)
        run_turn(1);
    break_plan(0, &most);
}

/* The rest of a step, of which all have submitted this number of tensors, and which no plan has. */
static void complete_turn(int first)
{
    check_all_off();
    for (int r = 0; r < rank_count; r++)
        CHECK(ranks[r].ended % TENSORS == (size_t)first, "rank %d: %zu", r, ranks[r].ended);
    for (int r = 0; r < rank_count; r++)
        submit_some(&ranks[r], first, TENSORS);
    run_network(1);
    for (int turn = 0; turn < 30; turn++) /* so that the next plan is not delayed for long */
        run_turn(1);
}

static void advance(struct sim_rank *r, int64_t us)
{
    r->free_ns += us * 1000;
    drive(r);
}

/* A rank whose program holds a bucket up, and does not wait, leaves the plan after 50 ms; one whose program waits for a
 * tensor of that bucket after 1 ms. The driver wakes in time for it, and sleeps without end if nothing is held up. */
static void check_held(void)
{
    struct sim_rank *last = &ranks[rank_count - 1];
    struct halay_request *request;

    count_turns();
    run_turn(1);
    meet();
    CHECK(halay_replay_sleep_us(last->ctx) == LONG_MAX);
    for (int r = 0; r < rank_count; r++)
        submit_some(&ranks[r], 0, 2);
    CHECK(halay_replay_sleep_us(last->ctx) == 50000);
    advance(last, 300); /* it looks from time to time */
    advance(last, 45000);
    CHECK(!heap_count && !halay_replay_is_off(&last->ctx->all));
    advance(last, 10000);
    run_network(1);
    complete_turn(2);

    count_turns();
    meet();
    for (int r = 0; r < rank_count - 1; r++)
        submit_some(&ranks[r], 0, 2);
    now_ns = last->free_ns;
    REQUIRE(halay_submit(last->tensors[0], count_end, last, &request) == HALAY_OK);
    submit_some(last, 1, 2);
    atomic_store(&last->ctx->waiting.waited, request);
    CHECK(halay_replay_sleep_us(last->ctx) == 1000);
    advance(last, 300);
    advance(last, 500);
    CHECK(!heap_count && !halay_replay_is_off(&last->ctx->all));
    advance(last, 1000);
    atomic_store(&last->ctx->waiting.waited, NULL);
    run_network(1);
    halay_request_free(request);
    complete_turn(2);
}

/* A rank that has joined leaves the plan at once, and there is none until all have. */
static void check_join(void)
{
    struct sim_rank *last = run_until_sent();
    struct halay_request *requests[RANKS_MAX];

    REQUIRE(rank_count <= RANKS_MAX);
    now_ns = last->free_ns;
    REQUIRE(halay_join_async(last->ctx, &requests[rank_count - 1]) == HALAY_OK);
    drive(last);
    run_network(1);
    check_all_off();
    uint32_t plans = count_plans();
    for (int turn = 0; turn < 2 * WARM_TURNS; turn++) {
        meet();
        for (int r = 0; r < rank_count - 1; r++)
            submit_turn(&ranks[r]);
        run_network(1);
    }
    CHECK(count_plans() == plans, "%u plans, not %u", count_plans(), plans);
    for (int r = 0; r < rank_count - 1; r++) {
        now_ns = ranks[r].free_ns;
        REQUIRE(halay_join_async(ranks[r].ctx, &requests[r]) == HALAY_OK);
        drive(&ranks[r]);
    }
    run_network(1);
    for (int r = 0; r < rank_count; r++) {
        CHECK(halay_test(requests[r]) == HALAY_OK, "rank %d has not joined", r);
        halay_request_free(requests[r]);
    }
}

/* The set counts its collectives, with and without plans. */
static void check_numbers(void)
{
    for (int r = 0; r < rank_count; r++) {
        struct halay_counters c = { .struct_size = sizeof c };
        CHECK(halay_counters_read(ranks[r].ctx, &c) == HALAY_OK && ranks[r].ctx->all.collectives == c.collectives,
              "rank %d: %llu collectives, not %llu", r, (unsigned long long)ranks[r].ctx->all.collectives,
              (unsigned long long)c.collectives);
    }
}

/* Returns the number of children of a rank. */
static uint64_t children(int count, int degree, int rank)
{
    struct halay_tree tree = { .size = count, .block = 1, .degree = degree };
    uint64_t n = 0;

    for (int child = rank; (child = halay_tree_next_child(&tree, rank, child)) > 0;)
        n++;
    return n;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 64, degree = argc > 2 ? atoi(argv[2]) : HALAY_BRANCH_DEGREE;

    if (argc > 4) {
        wire_ns = (int64_t)(atof(argv[3]) * 1000);
        end_ns = (int64_t)(atof(argv[4]) * 1000);
    }
    struct figures f = simulate(count, degree);
    printf("ranks %d degree %d steady %llu root %.2f last %.2f plan %.3f one %.3f %llu all %.3f %llu\n", count, degree,
           (unsigned long long)f.steady, f.root_us, f.last_us, f.plan_ms, f.one_ms, (unsigned long long)f.one_most,
           f.all_ms, (unsigned long long)f.all_most);
    CHECK(f.steady == 0, "%llu messages in steady steps", (unsigned long long)f.steady);
    /* FREEZE, COMPLETE, RESUME down, BREAK, ENTERED, SETTLED up; for rank 0, which has the most children. */
    uint64_t most = 6 * children(count, degree, 0) + 1;
    CHECK(f.one_most <= most && f.all_most <= most, "%llu, %llu messages of one rank, %llu at most",
          (unsigned long long)f.one_most, (unsigned long long)f.all_most, (unsigned long long)most);
    if (argc == 1) {
        check_early();
        check_stray();
        check_numbers();
        check_pause();
        check_held();
        check_waiting();
        check_canceled();
        check_join();
    }
    return test_end();
}
