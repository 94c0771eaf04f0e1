/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake of steady submissions, explored state by state: two threads that submit and the driver, in every order
 * in which their accesses to memory can follow one another. With each known mistake in it, a check has to fail.
 *
 * A plan has buckets of tensors; a bucket runs once all of its tensors are submitted. A tensor has one request for all
 * turns of a plan, whose word has the turn in which it was submitted last:
 *
 *     submit   word: load; bucket: load; released: load    not equal: submits with the lock held
 *              word: turn t -> t + 1, BUSY (CAS)           failed: submits with the lock held
 *              bucket: missing - 1                         the thread that makes it 0 gives the bucket to the driver
 *              word: not BUSY
 *     driver   bucket: missing = count; released = t + 1; callbacks; completed = t + 1
 *     test     word: load; completed: load; word: unchanged    completed >= turn: complete
 *     leave    with the lock held, for each tensor: word: MOVED, once it is not BUSY (CAS)
 *              completed < turn: in flight, and negotiated from now on
 *
 * Turns are numbered across plans: those of a new plan are above all that a word has had. So a CAS fails on a word that
 * was loaded in an older plan, and a thread counts down no bucket that serves another plan meanwhile.
 *
 * A tensor is in flight until its turn is released. It may be BUSY for longer: the thread that has counted it down need
 * not have taken that back when another thread completes the bucket. To submit it then, a thread waits until it is not
 * BUSY; it must not refuse (FAULT_BUSY_IN_FLIGHT).
 *
 * The checks: a bucket runs with all of its tensors, and each submission ends once; the driver that leaves a plan finds
 * in flight what is in flight; no bucket is counted down for a plan that is over; no submission is refused after the
 * one before has ended; no test returns that a submission is complete which is not. Memory is sequentially consistent.
 */
#include "tests/fusion/explore.h"
#include <stddef.h>

enum { THREADS = 2, TENSORS = 2, BUCKETS = 2, EVENTS = 6, OPS = 8 };
enum { BUSY = 1, HELD = 2, DONE = 4, MOVED = 8, FLAGS = 15, TURN_SHIFT = 4 };

enum fault {
    FAULT_NONE,
    FAULT_RELEASE_FIRST,   /* released is stored before missing */
    FAULT_IDLE_FIRST,      /* BUSY is taken back before missing is counted down */
    FAULT_LEAVE_BUSY,      /* the driver leaves while a thread is BUSY */
    FAULT_LEAVE_STORES,    /* it stores MOVED without comparing */
    FAULT_LEAVE_UNLOCKED,  /* it leaves without the lock */
    FAULT_TURNS_AGAIN,     /* a new plan begins with the last turn of the one before */
    FAULT_BUSY_IN_FLIGHT,  /* a tensor that is BUSY is refused, though its turn is released */
    FAULT_READY_UNCHECKED, /* the driver runs a bucket for an event of an older plan */
    FAULT_TEST_ONCE,       /* a test does not read the word again */
    FAULT_COUNT_MISSING,   /* leaving decides by missing whether a tensor is in flight */
    FAULTS
};

/* ---- states ---- */

/* AWAIT: waits until the tensor's callback has been called. TRY: a SUBMIT that may be refused. POLL: tests until it is
 * complete. */
enum op_kind { END, SUBMIT, TRY, SUBMIT_HELD, AWAIT, POLL, FREE };

struct op {
    unsigned char kind, tensor;
};

struct scenario {
    const char *name;
    struct op programs[THREADS][OPS];
    int buckets; /* of a plan: 1, or one a tensor */
    int leaves;  /* how often the driver leaves a plan; a new one begins after each */
};

enum ordinary { ORDINARY_NONE, ORDINARY_QUEUED, ORDINARY_PLANNED, ORDINARY_NEGOTIATED };
enum bucket_state { FILLING, READY, RUNNING };
enum event { NO_EVENT, EVENT_READY, EVENT_SUBMITTED = EVENT_READY + BUCKETS };

struct tensor {
    unsigned char word, exists, bucket; /* of the steady request; exists: there is one */
    unsigned char ordinary, status;     /* of the ordinary request; status: 1 is complete */
    unsigned char accepted, ended, called;
};

struct bucket {
    unsigned char missing, released, completed, state, epoch;
};

struct thread {
    unsigned char op, at, word, bucket, completed, is_ready, epoch, is_ordinary;
};

enum driver_at { IDLE, LEAVING, COMPLETING = LEAVING + 2 * TENSORS };

struct state {
    struct tensor tensors[TENSORS];
    struct bucket buckets[BUCKETS];
    struct thread threads[THREADS];
    unsigned char is_planned, epoch, turn, leaves; /* the driver's */
    unsigned char at, bucket, word;                /* of its action */
    unsigned char events[EVENTS];
    unsigned char padding[9];
};

_Static_assert(sizeof(struct state) % 16 == 0, "see explore.h");

static const struct scenario *scenario;
static enum fault fault;
static const char *broken;

static void break_property(const char *text)
{
    if (!broken)
        broken = text;
}

static int turn_of(int word)
{
    return word >> TURN_SHIFT;
}

static int bucket_of_tensor(const struct state *s, int tensor)
{
    return (s->epoch + (scenario->buckets == 1 ? 0 : tensor)) % BUCKETS;
}

static int size_of_bucket(const struct state *s, int bucket)
{
    int count = 0;

    for (int t = 0; t < TENSORS; t++)
        count += bucket_of_tensor(s, t) == bucket;
    return count;
}

static int is_in_flight(const struct tensor *t)
{
    return t->accepted > t->ended;
}

static int is_locked(const struct state *s)
{
    return s->at >= LEAVING && s->at < COMPLETING && fault != FAULT_LEAVE_UNLOCKED;
}

static void push_event(struct state *s, int event)
{
    int at = 0;

    while (at < EVENTS && s->events[at])
        at++;
    REQUIRE(at < EVENTS);
    s->events[at] = (unsigned char)event;
}

/* ---- threads ---- */

enum thread_at { START, LOADED, LOOKED, TAKEN, COUNTED, LAST, LOCKED };

static const struct op *op_of(const struct state *s, int thread)
{
    return &scenario->programs[thread][s->threads[thread].op];
}

static void end_op(struct thread *th)
{
    const struct thread ended = { .op = (unsigned char)(th->op + 1), .is_ordinary = th->is_ordinary };

    *th = ended;
}

static void count_down(struct state *s, struct thread *th)
{
    struct bucket *b = &s->buckets[th->bucket];

    if (b->epoch != th->epoch)
        break_property("a bucket is counted down for a plan that is over");
    if (!b->missing)
        break_property("a submission counts twice");
    b->missing--;
    th->is_ready = b->missing == 0;
}

static void take_turn(struct state *s, struct thread *th, struct tensor *t)
{
    t->word = (unsigned char)((turn_of(th->word) + 1) << TURN_SHIFT);
    t->accepted++;
    t->status = 0;
    th->epoch = s->epoch;
    th->is_ordinary = 0;
}

/* Begins to serve the tensor by its steady request, and submits it; the thread has the lock. */
static void attach_locked(struct state *s, struct thread *th, int tensor, int holds)
{
    struct tensor *t = &s->tensors[tensor];

    t->exists = 1;
    t->bucket = th->bucket = (unsigned char)bucket_of_tensor(s, tensor);
    th->word = (unsigned char)(s->buckets[t->bucket].released << TURN_SHIFT);
    take_turn(s, th, t);
    t->word |= (unsigned char)(holds ? HELD : 0);
    count_down(s, th);
    if (th->is_ready)
        push_event(s, EVENT_READY + th->bucket);
}

/* Returns nonzero if the tensor has a steady request in the plan that is in flight. */
static int is_steady_in_flight(const struct state *s, const struct tensor *t)
{
    if (!t->exists || t->word & MOVED)
        return 0;
    return turn_of(t->word) != s->buckets[t->bucket].released || (t->word & BUSY && fault == FAULT_BUSY_IN_FLIGHT);
}

static void submit_locked(struct state *s, struct thread *th, const struct op *op)
{
    struct tensor *t = &s->tensors[op->tensor];
    int was_over = t->called == t->accepted;

    if (t->ordinary || is_steady_in_flight(s, t)) {
        if (was_over && op->kind != TRY)
            break_property("a submission is refused though the one before has ended");
    } else if (s->is_planned && (!t->exists || t->word & MOVED)) {
        attach_locked(s, th, op->tensor, op->kind == SUBMIT_HELD);
    } else {
        if (!(t->word & MOVED)) { /* drops the steady request */
            t->exists = 0;
            t->word |= MOVED;
        }
        t->accepted++;
        t->status = 0;
        t->ordinary = ORDINARY_QUEUED;
        th->is_ordinary = 1;
        push_event(s, EVENT_SUBMITTED + op->tensor);
    }
    end_op(th);
}

/* The steps of a submission. */
static void step_submit(struct state *s, struct thread *th, const struct op *op)
{
    struct tensor *t = &s->tensors[op->tensor];

    switch (th->at) {
    case START:
        th->word = t->word;
        th->at = t->exists ? LOADED : LOCKED;
        break;
    case LOADED:
        th->bucket = t->bucket;
        th->at = LOOKED;
        if (th->word & (BUSY | HELD | MOVED) || turn_of(th->word) != s->buckets[th->bucket].released)
            th->at = LOCKED;
        break;
    case LOOKED:
        th->at = t->word == th->word ? TAKEN : LOCKED;
        if (th->at == LOCKED)
            break;
        take_turn(s, th, t);
        t->word |= (unsigned char)(BUSY | (op->kind == SUBMIT_HELD ? HELD : 0));
        break;
    case TAKEN:
    case COUNTED:
        if ((th->at == TAKEN) == (fault != FAULT_IDLE_FIRST))
            count_down(s, th);
        else
            t->word &= (unsigned char)~BUSY;
        th->at++;
        if (th->at == LAST && !th->is_ready)
            end_op(th);
        break;
    case LAST:
        push_event(s, EVENT_READY + th->bucket);
        end_op(th);
        break;
    default:
        submit_locked(s, th, op);
    }
}

/* The steps of a test. */
static void step_poll(struct state *s, struct thread *th, const struct op *op)
{
    struct tensor *t = &s->tensors[op->tensor];
    int is_complete = 0;

    if (th->is_ordinary) {
        is_complete = t->status;
    } else if (th->at == START) {
        th->word = t->word;
        th->at = LOADED;
        is_complete = t->word & DONE || (t->word & MOVED && t->status);
        th->at = t->word & MOVED ? START : LOADED;
    } else if (th->at == LOADED) {
        th->completed = s->buckets[t->bucket].completed;
        th->at = LOOKED;
    } else {
        is_complete = (t->word == th->word || fault == FAULT_TEST_ONCE) && th->completed >= turn_of(th->word);
        th->at = START;
    }
    if (th->at == START)
        th->word = th->completed = 0;
    if (!is_complete)
        return;
    if (is_in_flight(t))
        break_property("a submission seems complete that is not");
    end_op(th);
}

static void step_free(struct thread *th, struct tensor *t)
{
    if (th->is_ordinary) {
        end_op(th);
    } else if (th->at == START) {
        th->word = t->word;
        th->at = LOADED;
    } else if (t->word == th->word || t->word & MOVED) {
        t->word &= (unsigned char)(t->word & MOVED ? 0xff : ~HELD);
        end_op(th);
    } else {
        th->at = START;
        th->word = 0;
    }
}

static int can_step(const struct state *s, int thread)
{
    const struct thread *th = &s->threads[thread];
    const struct op *op = op_of(s, thread);
    const struct tensor *t = &s->tensors[op->tensor];

    if (op->kind == END)
        return 0;
    if (op->kind == AWAIT)
        return t->called == t->accepted;
    if (op->kind > AWAIT || th->at < LAST)
        return 1;
    if (th->at == LOCKED && t->exists && t->word & BUSY && !(t->word & MOVED) &&
        turn_of(t->word) == s->buckets[t->bucket].released && fault != FAULT_BUSY_IN_FLIGHT)
        return 0; /* waits for the other thread */
    return !is_locked(s);
}

static void step_thread(struct state *s, int thread)
{
    struct thread *th = &s->threads[thread];
    const struct op *op = op_of(s, thread);

    if (op->kind == AWAIT)
        end_op(th);
    else if (op->kind == POLL)
        step_poll(s, th, op);
    else if (op->kind == FREE)
        step_free(th, &s->tensors[op->tensor]);
    else
        step_submit(s, th, op);
}

/* ---- the driver ---- */

static void end_submission(struct tensor *t)
{
    if (!is_in_flight(t))
        break_property("a submission ends twice");
    t->ended++;
}

static void bucket_is_ready(struct state *s, int bucket)
{
    s->buckets[bucket].state = READY;
    for (int t = 0; t < TENSORS; t++)
        if (bucket_of_tensor(s, t) == bucket && !is_in_flight(&s->tensors[t]))
            break_property("a bucket is ready without one of its tensors");
}

static void count_ordinary(struct state *s, int tensor)
{
    struct bucket *b = &s->buckets[bucket_of_tensor(s, tensor)];

    s->tensors[tensor].ordinary = ORDINARY_PLANNED;
    if (!b->missing)
        break_property("a submission counts twice");
    else if (--b->missing == 0)
        bucket_is_ready(s, bucket_of_tensor(s, tensor));
}

static void take_event(struct state *s)
{
    int event = s->events[0];

    memmove(s->events, s->events + 1, sizeof s->events - 1);
    s->events[EVENTS - 1] = 0;
    if (event >= EVENT_SUBMITTED) {
        if (s->is_planned)
            count_ordinary(s, event - EVENT_SUBMITTED);
        else
            s->tensors[event - EVENT_SUBMITTED].ordinary = ORDINARY_NEGOTIATED;
        return;
    }
    const struct bucket *b = &s->buckets[event - EVENT_READY];
    if (s->is_planned && b->state == FILLING && (!b->missing || fault == FAULT_READY_UNCHECKED))
        bucket_is_ready(s, event - EVENT_READY);
}

/* The steps by which a bucket completes in its plan. */
static void step_completion(struct state *s)
{
    struct bucket *b = &s->buckets[s->bucket];
    int step = s->at++ - COMPLETING;

    if (step == (fault == FAULT_RELEASE_FIRST)) {
        b->missing = (unsigned char)size_of_bucket(s, s->bucket);
        b->state = FILLING;
    } else if (step < 2) {
        b->released++;
    }
    if (step == 3)
        b->completed = b->released;
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *t = &s->tensors[i];
        if (bucket_of_tensor(s, i) != s->bucket)
            continue;
        if (step == 2) {
            end_submission(t);
            t->called += t->ordinary != ORDINARY_PLANNED;
        }
        if (step == 4 && t->ordinary == ORDINARY_PLANNED) {
            t->ordinary = ORDINARY_NONE;
            t->status = 1;
            t->called++;
        }
    }
    if (step == 4)
        s->at = s->bucket = IDLE;
}

/* The driver has left the tensor. */
static void tensor_is_left(struct state *s, int tensor, int word)
{
    struct tensor *t = &s->tensors[tensor];
    const struct bucket *b = &s->buckets[t->bucket];
    int is_over = !t->exists || b->completed >= turn_of(word);

    if (fault == FAULT_COUNT_MISSING && t->exists)
        is_over = b->state == FILLING && b->missing == size_of_bucket(s, t->bucket);
    if (t->exists && !(word & MOVED)) {
        t->word = (unsigned char)(word | MOVED | (is_over ? DONE : 0));
        if (!is_over && !t->ordinary)
            t->ordinary = ORDINARY_NEGOTIATED;
    }
    if (t->ordinary == ORDINARY_PLANNED)
        t->ordinary = ORDINARY_NEGOTIATED;
    if ((t->ordinary != ORDINARY_NONE) != is_in_flight(t))
        break_property("what is in flight is not what the driver finds");
}

/* A tensor in two steps: look at its word until it is not BUSY; change it. */
static void step_leaving(struct state *s)
{
    int step = s->at - LEAVING, tensor = step / 2;
    struct tensor *t = &s->tensors[tensor];

    if (step % 2 == 0) {
        s->word = t->word;
        s->at++;
        return;
    }
    if (t->word != s->word && fault != FAULT_LEAVE_STORES) {
        s->at--;
    } else {
        tensor_is_left(s, tensor, s->word);
        s->at++;
    }
    s->word = 0;
    if (s->at < COMPLETING)
        return;
    s->at = IDLE;
    s->is_planned = 0;
}

static int can_step_driver(const struct state *s)
{
    int step = s->at - LEAVING;

    if (s->at >= LEAVING && s->at < COMPLETING && step % 2 == 0 && fault != FAULT_LEAVE_BUSY)
        return !(s->tensors[step / 2].word & BUSY);
    return s->at != IDLE;
}

/* A submission outside of a plan ends by negotiation, or with its bucket that was running when the plan was left. */
static void end_negotiated(struct tensor *t)
{
    end_submission(t);
    t->ordinary = ORDINARY_NONE;
    t->status = 1;
    t->called++;
}

static void begin_plan(struct state *s)
{
    unsigned char last = s->turn;

    s->is_planned = 1;
    s->epoch++;
    for (int b = 0; b < BUCKETS; b++)
        last = s->buckets[b].completed > last ? s->buckets[b].completed : last;
    s->turn = (unsigned char)(last + (fault == FAULT_TURNS_AGAIN ? 0 : 2));
    REQUIRE(s->turn < 12);
    for (int b = 0; b < BUCKETS; b++)
        s->buckets[b] = (struct bucket){
            .missing = (unsigned char)size_of_bucket(s, b), .released = s->turn, .completed = s->turn, .epoch = s->epoch
        };
    for (int t = 0; t < TENSORS; t++)
        if (s->tensors[t].ordinary == ORDINARY_NEGOTIATED)
            count_ordinary(s, t);
}

/* ---- exploration ---- */

enum act { ACT_THREAD, ACT_DRIVER, ACT_TAKE_EVENT, ACT_RUN, ACT_COMPLETE, ACT_LEAVE, ACT_END, ACT_TAKE_BACK, ACT_PLAN };

static int add_action(struct action *actions, int count, enum act kind, int who)
{
    actions[count] = (struct action){ (unsigned char)kind, (unsigned char)who, 0 };
    return count + 1;
}

static int list_bucket_actions(const struct state *s, struct action *actions, int count)
{
    for (int b = 0; b < BUCKETS; b++) {
        if (s->is_planned && s->buckets[b].state == READY)
            count = add_action(actions, count, ACT_RUN, b);
        if (s->buckets[b].state == RUNNING)
            count = add_action(actions, count, s->is_planned ? ACT_COMPLETE : ACT_TAKE_BACK, b);
    }
    return count;
}

/* Returns nonzero if the thread would test a submission that cannot be complete, and that leaving a plan cannot change:
 * it would do so forever, and hide that nothing else is left to do. */
static int is_test_idle(const struct state *s, int thread)
{
    const struct op *op = op_of(s, thread);

    return op->kind == POLL && s->threads[thread].at == START && is_in_flight(&s->tensors[op->tensor]) && !s->leaves &&
           fault != FAULT_TEST_ONCE;
}

static int list_actions(const void *state, struct action *actions)
{
    const struct state *s = state;
    int count = 0;

    for (int i = 0; i < THREADS; i++)
        if (can_step(s, i) && !is_test_idle(s, i))
            actions[count++] = (struct action){ ACT_THREAD, (unsigned char)i, s->threads[i].at };
    if (can_step_driver(s))
        return add_action(actions, count, ACT_DRIVER, 0);
    if (s->at != IDLE)
        return count;
    if (s->events[0])
        count = add_action(actions, count, ACT_TAKE_EVENT, 0);
    count = list_bucket_actions(s, actions, count);
    if (s->is_planned)
        return s->leaves ? add_action(actions, count, ACT_LEAVE, 0) : count;
    for (int t = 0; t < TENSORS; t++)
        if (s->tensors[t].ordinary == ORDINARY_NEGOTIATED)
            count = add_action(actions, count, ACT_END, t);
    for (int b = 0; b < BUCKETS; b++)
        if (s->buckets[b].state == RUNNING)
            return count;
    return add_action(actions, count, ACT_PLAN, 0);
}

static const char *perform_action(void *state, struct action action)
{
    struct state *s = state;

    broken = NULL;
    switch (action.kind) {
    case ACT_THREAD:
        step_thread(s, action.who);
        break;
    case ACT_DRIVER:
        s->at >= COMPLETING ? step_completion(s) : step_leaving(s);
        break;
    case ACT_TAKE_EVENT:
        take_event(s);
        break;
    case ACT_RUN:
        s->buckets[action.who].state = RUNNING;
        break;
    case ACT_COMPLETE:
        s->at = COMPLETING;
        s->bucket = action.who;
        break;
    case ACT_LEAVE:
        s->leaves--;
        s->at = LEAVING;
        break;
    case ACT_END:
        end_negotiated(&s->tensors[action.who]);
        break;
    case ACT_TAKE_BACK:
        s->buckets[action.who].state = READY;
        break;
    default:
        begin_plan(s);
    }
    return broken;
}

static const char *judge_end(const void *state)
{
    const struct state *s = state;

    for (int b = 0; b < BUCKETS; b++) {
        int missing = 0;
        for (int t = 0; t < TENSORS; t++)
            missing += bucket_of_tensor(s, t) == b && !is_in_flight(&s->tensors[t]);
        if (!size_of_bucket(s, b))
            continue;
        if (s->buckets[b].missing != missing || !missing)
            return "a submission is lost";
    }
    for (int i = 0; i < THREADS; i++)
        if (op_of(s, i)->kind != END && !is_in_flight(&s->tensors[op_of(s, i)->tensor]))
            return "a thread waits for nothing";
    return NULL;
}

static void print_action(struct action action)
{
    static const char *const acts[] = { "thread",
                                        "next step of the driver",
                                        "the driver takes an event",
                                        "the driver runs bucket",
                                        "the driver completes bucket",
                                        "the driver leaves the plan",
                                        "negotiation ends tensor",
                                        "the driver takes a bucket back",
                                        "the driver begins a plan" };
    static const char *const steps[] = {
        "looks at the word", "looks at the bucket",       "takes the turn", "counts down", "is idle",
        "pushes the event",  "submits with the lock held"
    };

    printf("%s", acts[action.kind]);
    if (action.kind == ACT_THREAD)
        printf(" %d %s", action.who, steps[action.what]);
    else if (action.kind == ACT_RUN || action.kind == ACT_COMPLETE || action.kind == ACT_END)
        printf(" %d", action.who);
}

static const struct explored_model model = { sizeof(struct state), list_actions, perform_action, judge_end,
                                             print_action };

static struct exploration explore_scenario(const struct scenario *of, enum fault with)
{
    struct state start;

    scenario = of;
    fault = with;
    memset(&start, 0, sizeof start);
    start.is_planned = 1;
    start.leaves = (unsigned char)of->leaves;
    for (int b = 0; b < BUCKETS; b++)
        start.buckets[b].missing = (unsigned char)size_of_bucket(&start, b);
    return explore_model(&model, &start);
}

#define TWICE(t)                                \
    { SUBMIT, t }, { AWAIT, t }, { SUBMIT, t }, \
    {                                           \
        AWAIT, t                                \
    }
#define POLLED(t)                    \
    { SUBMIT_HELD, t }, { POLL, t }, \
    {                                \
        FREE, t                      \
    }

enum { PAIR, PLANS, SINGLES, FOLLOWS, HANDLES, CONTEND };

static const struct scenario scenarios[] = {
    [PAIR] = { "a bucket of two tensors", { { TWICE(0), { SUBMIT, 0 } }, { TWICE(1), { SUBMIT, 1 } } }, 1, 0 },
    [PLANS] = { "the same, and two new plans", { { TWICE(0), { SUBMIT, 0 } }, { TWICE(1), { SUBMIT, 1 } } }, 1, 2 },
    [SINGLES] = { "a bucket for each of two tensors, two new plans", { { TWICE(0) }, { TWICE(1) } }, 2, 2 },
    [FOLLOWS] = { "a thread that submits what another one has submitted",
                  { { TWICE(0) }, { TWICE(1), { SUBMIT, 0 } } },
                  1,
                  1 },
    [HANDLES] = { "tests, and two new plans", { { POLLED(0), POLLED(0) }, { POLLED(1), POLLED(1) } }, 1, 2 },
    [CONTEND] = { "threads that submit the same tensor",
                  { { { TRY, 0 }, { TRY, 0 }, { TRY, 0 } }, { { TRY, 0 }, { TRY, 1 }, { TRY, 0 } } },
                  1,
                  1 },
};

/* The scenario in which each fault shows. */
static const struct {
    const char *name;
    int scenario;
} faults[FAULTS] = {
    [FAULT_RELEASE_FIRST] = { "released before missing", CONTEND },
    [FAULT_IDLE_FIRST] = { "idle before missing", PLANS },
    [FAULT_LEAVE_BUSY] = { "leaving while a thread is busy", PLANS },
    [FAULT_LEAVE_STORES] = { "leaving without a comparison", PLANS },
    [FAULT_LEAVE_UNLOCKED] = { "leaving without the lock", PLANS },
    [FAULT_TURNS_AGAIN] = { "turns used again", CONTEND },
    [FAULT_BUSY_IN_FLIGHT] = { "busy as in flight", FOLLOWS },
    [FAULT_READY_UNCHECKED] = { "an old event runs a bucket", PLANS },
    [FAULT_TEST_ONCE] = { "a test that looks once", HANDLES },
    [FAULT_COUNT_MISSING] = { "missing shows what is in flight", PLANS },
};

static void check_scenarios(void)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        struct exploration found = explore_scenario(&scenarios[i], FAULT_NONE);
        printf("%s: %zu states, %zu ends\n", scenarios[i].name, found.states, found.ends);
        if (!CHECK(!found.broken && found.ends, "%s", scenarios[i].name) && found.broken)
            explore_print(&model, &found);
    }
}

static void check_faults(void)
{
    for (int f = FAULT_NONE + 1; f < FAULTS; f++) {
        struct exploration found = explore_scenario(&scenarios[faults[f].scenario], (enum fault)f);
        CHECK(found.broken != NULL, "%s: no check fails", faults[f].name);
        printf("fault: %s: %s, %d steps, %zu states\n", faults[f].name, found.broken ? found.broken : "not found",
               found.count, found.states);
    }
}

int main(void)
{
    check_scenarios();
    check_faults();
    return test_end();
}
