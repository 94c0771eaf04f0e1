/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay protocol as states and steps: three ranks and the root, with all messages and data under way between them.
 * The protocol is described in test_replay_model.c, which explores it. Each enum fault is a mistake that one might make
 * in the protocol; the code below makes it when `fault` is set.
 */
#ifndef HALAY_TEST_REPLAY_PROTOCOL_H
#define HALAY_TEST_REPLAY_PROTOCOL_H

#include "tests/test.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Tensors 0 and 1 are one bucket of the plan, 2 and 3 one each. The stray tensor is in no bucket; it is broadcast from
 * rank 0, which needs no other rank to complete. */
enum { RANKS = 3, TENSORS = 5, STRAY = 4, BUCKETS = 3, CHANNELS = 2, QUEUE = 8, LOG = 16, SENT = 4 };
enum { T0 = 1, T1 = 2, T2 = 4, T3 = 8, ALL = 15, S = 1 << STRAY, ALL_RANKS = (1 << RANKS) - 1 };
static const unsigned char tensors_of_bucket[BUCKETS] = { T0 | T1, T2, T3 };

enum rank_mode { RANK_NEGOTIATE, RANK_PLAN, RANK_FROZEN, RANK_DECIDED, RANK_DONE, RANK_FAILED, RANK_DEAD };
enum root_mode { ROOT_NEGOTIATE, ROOT_PLANNED, ROOT_BROKEN, ROOT_FREEZING, ROOT_DECIDED };
enum message { NO_MESSAGE, READY, WITHDRAW, BREAK, STATE, DONE, BUCKET, ERROR, PLAN, FREEZE, DECIDE, GO, PLANNED };

/* The tree: ranks 0 and 1 are below the root, rank 2 is below rank 1. */
enum { INNER = 1, LEAF = 2, BELOW_INNER = 1 << INNER | 1 << LEAF };

enum fault {
    FAULT_NONE,
    FAULT_DECIDE_MAXIMUM,     /* DECIDE carries the maximum of what was entered */
    FAULT_DECIDE_EARLY,       /* DECIDE follows the first STATE */
    FAULT_ENTER_FROZEN,       /* a rank enters buckets after FREEZE */
    FAULT_TAKE_BACK_ALL,      /* a rank takes back buckets that all have entered, too */
    FAULT_DROP_DISPATCHED,    /* a bucket dispatched before the plan is not started after FREEZE, and taken back */
    FAULT_GO_EARLY,           /* GO follows the first DONE */
    FAULT_NUMBERS_MINIMUM,    /* GO carries the minimum of the numbers */
    FAULT_NUMBERS_OWN,        /* a rank continues with its own number after GO */
    FAULT_GROUP_OWN,          /* a rank takes its own next group number at GO */
    FAULT_SAME_TAG,           /* the group keeps its number at GO */
    FAULT_HEED_STALE,         /* the root counts READYs that are older than its PLAN */
    FAULT_KEEP_ARRIVALS,      /* the root keeps submissions that have arrived before its PLAN */
    FAULT_PLAN_OWED,          /* PLAN while a rank still has to learn of a withdrawal */
    FAULT_COUNT_DISPATCHED,   /* a tensor that a BUCKET announced counts for the plan's first turn, too */
    FAULT_STRAY_AT_PLAN,      /* no BREAK at PLAN for a submission under way that is not in the plan */
    FAULT_WITHDRAWAL_AT_PLAN, /* no BREAK at PLAN for a withdrawal under way */
    FAULT_STRAY_IN_PLAN,      /* no BREAK for a submission that is not in the plan */
    FAULT_WITHDRAWAL_IN_PLAN, /* no BREAK for a withdrawal */
    FAULT_NO_REASON,          /* no BREAK for tensors that a rank lacks */
    FAULT_WAITED_ONLY,        /* BREAK only if the program waits for the bucket that lacks tensors */
    FAULT_OWN_BUCKET_ONLY,    /* no BREAK for a bucket whose channel is held by one that lacks tensors */
    FAULT_NOT_RESENT,         /* submissions that were taken back are not sent again after GO */
    FAULT_ANY_TURN,           /* a channel takes its next bucket in whichever turn that is */
    FAULT_ANY_ORDER,          /* a channel takes buckets in the order in which they are ready */
    FAULT_SPEAK_IN_PLAN,      /* READY is sent in a plan */
    FAULT_FROZEN_BLIND,       /* a frozen rank does not watch for deaths */
    FAULT_FREEZE_EARLY,       /* FREEZE does not wait until all ranks have answered PLAN */
    FAULT_HEED_EARLY,         /* a rank heeds the root's messages about tensors between DONE and GO */
    FAULT_FORWARD_STATE,      /* the inner rank sends STATE without that of the rank below it */
    FAULT_FORWARD_DONE,       /* the same with DONE */
    FAULT_FORWARD_OWN,        /* the inner rank sends STATE with its own numbers */
    FAULT_BREAK_LOST,         /* the inner rank drops a BREAK of a plan that it has not received */
    FAULT_GO_LOST,            /* the inner rank does not forward GO */
    FAULTS
};

/* A step of a rank's program: submit some tensors, in any order, then wait for some. */
struct step {
    unsigned char submit, wait;
};

/* A run of the ranks' programs that is explored, and what may happen in it. */
struct scenario {
    const char *name;
    const struct step *programs[RANKS];     /* each ends with an empty step */
    int starts_planned;                     /* all ranks are in a plan already */
    int plans, breaks, withdrawals, deaths; /* how many PLANs, BREAKs without a reason, ... may happen */
    int at_boundary;                        /* PLAN is sent only between two turns */
    int is_steady;                          /* no rank has a reason for a BREAK */
    int has_outsider;                       /* the stray tensor is dispatched without rank 2, which runs it, too */
    int is_slow; /* messages to the root, BUCKETs and the entering of buckets take time, too */
    int is_long; /* for TEST_LONG=1 */
};

/* Oldest first; 0 is free. A message is its kind (4 bits) and two numbers (6 bits each). */
struct queue {
    uint16_t messages[QUEUE];
};

struct rank {
    struct queue up, down; /* to and from the root */
    unsigned char mode, has_broken;
    unsigned char step, left; /* of the program; tensors of the step that are not submitted */
    unsigned char submitted[TENSORS], ended[TENSORS];
    unsigned char withdrawn, dispatched; /* tensors; dispatched: a BUCKET has announced it, and it has not ended */
    unsigned char epoch, group;
    unsigned char next;          /* the number after the last that BUCKET or GO assigned: a plan's base */
    unsigned char turn[BUCKETS]; /* how often each has completed in this plan */
    unsigned char running;       /* channels whose last number is entered and not complete */
    unsigned char entered[CHANNELS], limit[CHANNELS]; /* last numbers; how far DECIDE lets it go */
    unsigned char sent[CHANNELS][SENT], sends[CHANNELS], receives[CHANNELS]; /* frames of the current group */
    unsigned char slots[CHANNELS][SENT], reached[CHANNELS];                  /* in shared memory */
    unsigned char padding[1];
};

struct state {
    uint32_t completed, taken_back; /* numbers, by any rank */
    struct rank ranks[RANKS];
    struct queue tree_up, tree_down;    /* from rank 2 to rank 1, and back */
    unsigned char gathered, numbers[2]; /* rank 1: whose STATE or DONE it has, and their minimum or maximum */
    unsigned char planned;              /* ranks that have answered PLAN */
    unsigned char root_mode, arrived[TENSORS], owed[TENSORS], answered, least[CHANNELS], root_next, root_group;
    unsigned char cycle;             /* tensors dispatched once more than others */
    unsigned char log[LOG];          /* the tensor of each number that was dispatched */
    unsigned char label[TENSORS][2]; /* how the submissions ended that have ended on some ranks, odd and even ones */
    unsigned char go_epoch, go_next, go_group;
    unsigned char plans, breaks, withdrawals, deaths;
    unsigned char padding[12];
};

_Static_assert(offsetof(struct rank, padding) + 1 == sizeof(struct rank), "bytes without a name");
_Static_assert(offsetof(struct state, padding) + 12 == sizeof(struct state), "bytes without a name");

enum { BY_WITHDRAWAL = 63 }; /* a label in place of a number */

static const struct scenario *scenario;
static enum fault fault;
static const char *broken; /* the first property that the current action breaks */

static void break_property(const char *text)
{
    if (!broken)
        broken = text;
}

static int is_live(const struct rank *r)
{
    return r->mode < RANK_FAILED;
}

static void queue_push(struct queue *q, enum message kind, int a, int b)
{
    int at = 0;

    while (at < QUEUE && q->messages[at])
        at++;
    REQUIRE(at < QUEUE && a < 64 && b < 64);
    q->messages[at] = (uint16_t)((int)kind << 12 | a << 6 | b);
}

static uint16_t queue_pop(struct queue *q)
{
    uint16_t message = q->messages[0];

    memmove(q->messages, q->messages + 1, sizeof q->messages - sizeof *q->messages);
    q->messages[QUEUE - 1] = 0;
    return message;
}

/* ---- a rank: its program ---- */

static const struct step *step_of(int rank, const struct rank *r)
{
    return &scenario->programs[rank][r->step];
}

static int is_free(const struct rank *r, int tensor)
{
    return r->submitted[tensor] == r->ended[tensor];
}

/* Returns nonzero if the tensor is submitted and no BUCKET has announced it. */
static int is_open(const struct rank *r, int tensor)
{
    return !is_free(r, tensor) && !(r->dispatched >> tensor & 1);
}

static int have_ended(const struct rank *r, int tensors)
{
    for (int t = 0; t < TENSORS; t++)
        if (tensors >> t & 1 && !is_free(r, t))
            return 0;
    return 1;
}

static void advance_program(int rank, struct rank *r)
{
    const struct step *step = step_of(rank, r);

    while (!r->left && (step->submit || step->wait) && have_ended(r, step->wait)) {
        r->step++;
        step = step_of(rank, r);
        r->left = step->submit;
    }
}

/* Returns the tensors that the program waits for; -1 if it can submit one. */
static int waited_for(int rank, const struct rank *r)
{
    if (!r->left)
        return step_of(rank, r)->wait;
    for (int t = 0; t < TENSORS; t++)
        if (r->left >> t & 1 && is_free(r, t))
            return -1;
    return r->left;
}

static void send_up(struct rank *r, enum message kind, int a, int b)
{
    if (r->mode == RANK_PLAN && kind != PLANNED && (kind != BREAK || scenario->is_steady))
        break_property("(f) a rank sends a message in a steady plan");
    queue_push(&r->up, kind, a, b);
}

/* BREAK of this rank, or of the one below it. */
static void send_break(struct state *s, int rank)
{
    struct rank *r = &s->ranks[rank];

    if (r->has_broken)
        return;
    r->has_broken = 1;
    if (rank == LEAF)
        queue_push(&s->tree_up, BREAK, 0, 0);
    else
        send_up(r, BREAK, 0, 0);
}

/* The inner rank has its own STATE or DONE, or that of the rank below it. It sends one for both. */
static void gather_answer(struct state *s, int from, enum message kind, const int *numbers)
{
    int is_early = fault == (kind == STATE ? FAULT_FORWARD_STATE : FAULT_FORWARD_DONE);

    for (int i = 0; i < 2; i++)
        if (!s->gathered || (kind == STATE ? numbers[i] < s->numbers[i] : numbers[i] > s->numbers[i]))
            if (from == INNER || kind != STATE || fault != FAULT_FORWARD_OWN)
                s->numbers[i] = (unsigned char)numbers[i];
    s->gathered |= (unsigned char)(1 << from);
    if (s->gathered != BELOW_INNER && !is_early)
        return;
    send_up(&s->ranks[INNER], kind, s->numbers[0], s->numbers[1]);
    s->gathered = s->numbers[0] = s->numbers[1] = 0;
}

static void send_answer(struct state *s, int rank, enum message kind, const int *numbers)
{
    if (rank == LEAF)
        queue_push(&s->tree_up, kind, numbers[0], numbers[1]);
    else if (rank == INNER)
        gather_answer(s, INNER, kind, numbers);
    else
        send_up(&s->ranks[rank], kind, numbers[0], numbers[1]);
}

static void submit_tensor(struct state *s, int rank, int tensor)
{
    struct rank *r = &s->ranks[rank];

    r->submitted[tensor]++;
    r->left &= (unsigned char)~(1 << tensor);
    if (r->mode == RANK_NEGOTIATE || (r->mode == RANK_PLAN && fault == FAULT_SPEAK_IN_PLAN))
        send_up(r, READY, tensor, 0);
    else if (r->mode == RANK_PLAN && tensor == STRAY && fault != FAULT_STRAY_IN_PLAN)
        send_break(s, rank);
}

static void withdraw_tensor(struct state *s, int rank, int tensor)
{
    struct rank *r = &s->ranks[rank];

    r->withdrawn |= (unsigned char)(1 << tensor);
    if (r->mode == RANK_NEGOTIATE)
        send_up(r, WITHDRAW, tensor, 0);
    else if (r->mode == RANK_PLAN && fault != FAULT_WITHDRAWAL_IN_PLAN)
        send_break(s, rank);
}

/* ---- a rank: collectives ---- */

static int bucket_of_number(const struct rank *r, int number)
{
    return (number - r->next) % BUCKETS;
}

/* Returns the number of the bucket's next collective, or of the one that is running. */
static int current_number(const struct rank *r, int bucket)
{
    return r->next + r->turn[bucket] * BUCKETS + bucket;
}

/* Returns the last number on the channel that is below a limit. */
static int last_below(int limit, int channel)
{
    int number = limit - 1;

    while (number % CHANNELS != channel)
        number--;
    return number;
}

static int is_entered(const struct rank *r, int number)
{
    return r->entered[number % CHANNELS] >= number;
}

/* Returns nonzero if all tensors of the bucket are submitted for its current turn. */
static int is_ready(const struct rank *r, int bucket)
{
    for (int t = 0; t < TENSORS; t++)
        if (tensors_of_bucket[bucket] >> t & 1 && !is_open(r, t))
            if (is_free(r, t) || fault != FAULT_COUNT_DISPATCHED)
                return 0;
    return 1;
}

/* Returns nonzero if the rank may enter buckets: it has a plan, and has started all that was dispatched before. */
static int may_enter(const struct rank *r)
{
    if (r->mode != RANK_PLAN && (r->mode != RANK_FROZEN || fault != FAULT_ENTER_FROZEN))
        return 0;
    for (int c = 0; c < CHANNELS; c++)
        if (r->entered[c] < last_below(r->next, c))
            return 0;
    return 1;
}

/* Returns the number that the rank may enter on this channel, or -1. */
static int number_to_enter(const struct rank *r, int channel)
{
    int number = r->entered[channel] + CHANNELS;

    if (r->running >> channel & 1 || !is_live(r))
        return -1;
    if (number < r->next) /* dispatched */
        return r->mode <= RANK_PLAN || fault != FAULT_DROP_DISPATCHED ? number : -1;
    if (!may_enter(r))
        return -1;
    for (int n = number; n < r->next + 3 * BUCKETS; n += CHANNELS) {
        int bucket = bucket_of_number(r, n), current = current_number(r, bucket);
        if (is_ready(r, bucket) && (current == n || (fault == FAULT_ANY_TURN && !is_entered(r, current))))
            return n;
        if (fault != FAULT_ANY_ORDER)
            break;
    }
    return -1;
}

/* Returns the contents of a collective's data. */
static unsigned char id_of(const struct rank *r, int number)
{
    REQUIRE(number < 63 && r->epoch < 4);
    return (unsigned char)(r->epoch << 6 | number);
}

static void enter_number(struct rank *r, int channel, int number)
{
    r->entered[channel] = (unsigned char)number;
    r->running |= (unsigned char)(1 << channel);
    r->sent[channel][r->sends[channel]++ % SENT] = id_of(r, number);
    r->slots[channel][number / CHANNELS % SENT] = id_of(r, number);
    r->reached[channel] = (unsigned char)number;
}

/* Returns what the rank would accept as the data of rank `from` on this channel; -1: nothing has arrived. Ranks 0 and 1
 * share a host: a slot is valid once its number is reached. Between others it is the group's next frame. */
static int matching_id(const struct state *s, int rank, int from, int channel)
{
    const struct rank *r = &s->ranks[rank], *other = &s->ranks[from];
    int number = r->entered[channel], at = r->receives[channel];

    if (rank + from == 1)
        return other->reached[channel] < number ? -1 : other->slots[channel][number / CHANNELS % SENT];
    if (other->group != r->group || at >= other->sends[channel])
        return -1;
    REQUIRE(at + SENT >= other->sends[channel]);
    return other->sent[channel][at % SENT];
}

/* Returns nonzero if the rank needs the data of rank `from` for the collective on this channel. */
static int needs_data(const struct state *s, int rank, int from, int channel)
{
    int number = s->ranks[rank].entered[channel];

    if (number < s->ranks[rank].next && s->log[number % LOG] == STRAY)
        return from == 0 && rank != 0;
    return rank != from;
}

static int can_complete(const struct state *s, int rank, int channel)
{
    if (!is_live(&s->ranks[rank]) || !(s->ranks[rank].running >> channel & 1))
        return 0;
    for (int from = 0; from < RANKS; from++)
        if (needs_data(s, rank, from, channel) && matching_id(s, rank, from, channel) < 0)
            return 0;
    return 1;
}

/* Ends the rank's current submission of a tensor. label: the collective's number, or BY_WITHDRAWAL. */
static void end_tensor(struct state *s, int rank, int tensor, int label)
{
    struct rank *r = &s->ranks[rank];
    unsigned char *at = &s->label[tensor][r->ended[tensor] % 2];
    int is_first = 1;

    if (is_free(r, tensor)) {
        break_property("(b) a submission ends twice");
        return;
    }
    for (int q = 0; q < RANKS; q++)
        if (is_live(&s->ranks[q]) && s->ranks[q].ended[tensor] > r->ended[tensor])
            is_first = 0;
    if (is_first)
        *at = (unsigned char)label;
    else if (*at != label)
        break_property("(a) a submission ends in different ways on two ranks");
    r->ended[tensor]++;
    r->dispatched &= (unsigned char)~(1 << tensor);
    r->withdrawn &= (unsigned char)~(1 << tensor);
}

static void complete_number(struct state *s, int rank, int channel)
{
    struct rank *r = &s->ranks[rank];
    int number = r->entered[channel];

    for (int from = 0; from < RANKS; from++)
        if (needs_data(s, rank, from, channel) && matching_id(s, rank, from, channel) != id_of(r, number))
            break_property("(e) the data of another collective are matched");
    if (s->taken_back >> number & 1)
        break_property("(a) a collective completes that another rank has taken back");
    s->completed |= 1U << number;
    r->running &= (unsigned char)~(1 << channel);
    r->receives[channel]++;
    if (number < r->next) {
        end_tensor(s, rank, s->log[number % LOG], number);
        return;
    }
    int bucket = bucket_of_number(r, number);
    for (int t = 0; t < TENSORS; t++)
        if (tensors_of_bucket[bucket] >> t & 1)
            end_tensor(s, rank, t, number);
    r->turn[bucket]++;
}

static void take_back_number(struct state *s, struct rank *r, int channel)
{
    int number = r->entered[channel];

    if (s->completed >> number & 1)
        break_property("(a) a collective is taken back that another rank has completed");
    s->taken_back |= 1U << number;
    r->running &= (unsigned char)~(1 << channel);
}

/* ---- a rank: reasons for a BREAK ---- */

/* Returns nonzero if the bucket is not entered because this rank lacks tensors: the bucket's own, or those of an older
 * one that its channel waits for. */
static int lacks_tensors(const struct rank *r, int bucket)
{
    int number = current_number(r, bucket), channel = number % CHANNELS;
    int first = r->entered[channel] + CHANNELS;

    if (is_entered(r, number))
        return 0;
    if (!is_ready(r, bucket))
        return 1;
    if (r->running >> channel & 1 || first == number || first < r->next || fault == FAULT_OWN_BUCKET_ONLY)
        return 0;
    return lacks_tensors(r, bucket_of_number(r, first));
}

/* Returns nonzero if the rank has submitted a tensor, its bucket is not entered because the rank lacks others, and the
 * program submits nothing for now. */
static int has_reason(int rank, const struct rank *r)
{
    int waited = waited_for(rank, r);

    if (r->mode != RANK_PLAN || r->has_broken || waited < 0 || fault == FAULT_NO_REASON)
        return 0;
    for (int b = 0; b < BUCKETS; b++)
        for (int t = 0; t < TENSORS; t++)
            if (tensors_of_bucket[b] >> t & 1 && is_open(r, t) && lacks_tensors(r, b))
                if (fault != FAULT_WAITED_ONLY || waited >> t & 1)
                    return 1;
    return 0;
}

/* ---- a rank: messages from the root ---- */

static void receive_bucket(int rank, struct rank *r, int tensor)
{
    if (r->mode != RANK_NEGOTIATE)
        break_property("(d) a BUCKET is received in a plan");
    if (scenario->has_outsider && rank == LEAF && tensor == STRAY)
        r->submitted[STRAY]++;
    if (!is_open(r, tensor))
        break_property("(b) a BUCKET announces what is not submitted");
    r->dispatched |= (unsigned char)(1 << tensor);
    r->next++;
}

static void receive_plan(struct state *s, int rank)
{
    struct rank *r = &s->ranks[rank];

    r->mode = RANK_PLAN;
    for (int q = 0; q < RANKS; q++)
        if (is_live(&s->ranks[q]) && s->ranks[q].mode >= RANK_PLAN && s->ranks[q].epoch == r->epoch)
            if (s->ranks[q].next != r->next)
                break_property("(d) a plan begins at different numbers");
    send_up(r, PLANNED, 0, 0);
    if (is_open(r, STRAY) && fault != FAULT_STRAY_AT_PLAN)
        send_break(s, rank);
    for (int t = 0; t < STRAY; t++)
        if (r->withdrawn >> t & 1 && is_open(r, t) && fault != FAULT_WITHDRAWAL_AT_PLAN)
            send_break(s, rank);
}

static void receive_freeze(struct state *s, int rank)
{
    struct rank *r = &s->ranks[rank];
    int entered[CHANNELS];

    if (r->mode != RANK_PLAN)
        break_property("(d) a rank freezes without a plan");
    r->mode = RANK_FROZEN;
    for (int c = 0; c < CHANNELS; c++) {
        entered[c] = r->entered[c];
        if (entered[c] < last_below(r->next, c) && fault != FAULT_DROP_DISPATCHED)
            entered[c] = last_below(r->next, c);
    }
    send_answer(s, rank, STATE, entered);
}

static void receive_decision(struct state *s, struct rank *r, const int *limit)
{
    r->mode = RANK_DECIDED;
    for (int c = 0; c < CHANNELS; c++) {
        if (r->running >> c & 1 && (r->entered[c] > limit[c] || fault == FAULT_TAKE_BACK_ALL))
            take_back_number(s, r, c);
        r->limit[c] = (unsigned char)limit[c];
    }
}

/* Returns the rank's next group number. Rank 2 is in one more group at first. */
static int next_group(int rank, const struct rank *r)
{
    return r->epoch ? r->group + 1 : 2 + (rank == 2);
}

static int next_number(const struct rank *r)
{
    int next = r->next;

    for (int c = 0; c < CHANNELS; c++)
        if (r->entered[c] >= next)
            next = r->entered[c] + 1;
    return next;
}

/* Sends DONE if the rank has received DECIDE, and the buckets below it are complete. */
static void send_done(struct state *s, int rank)
{
    struct rank *r = &s->ranks[rank];

    if (r->mode != RANK_DECIDED || r->running)
        return;
    for (int c = 0; c < CHANNELS; c++)
        if (r->entered[c] < r->limit[c] && fault != FAULT_TAKE_BACK_ALL)
            return;
    r->mode = RANK_DONE;
    send_answer(s, rank, DONE, (int[]){ next_number(r), next_group(rank, r) });
}

static void renumber_group(struct rank *r, int next, int group)
{
    r->next = (unsigned char)next;
    for (int c = 0; c < CHANNELS; c++)
        r->entered[c] = (unsigned char)last_below(next, c);
    if (fault == FAULT_SAME_TAG)
        return;
    r->group = (unsigned char)group;
    memset(r->sent, 0, sizeof r->sent);
    memset(r->sends, 0, sizeof r->sends);
    memset(r->receives, 0, sizeof r->receives);
}

static void receive_go(struct state *s, int rank, int next, int group)
{
    struct rank *r = &s->ranks[rank];

    if (fault == FAULT_NUMBERS_OWN)
        next = next_number(r);
    if (fault == FAULT_GROUP_OWN)
        group = next_group(rank, r);
    if (group < next_group(rank, r))
        break_property("(e) the tag of another group is used again");
    r->mode = RANK_NEGOTIATE;
    r->running = r->dispatched = r->has_broken = 0;
    r->epoch++;
    memset(r->turn, 0, sizeof r->turn);
    memset(r->limit, 0, sizeof r->limit);
    renumber_group(r, next, group);
    if (s->go_epoch == r->epoch && (s->go_next != next || s->go_group != group))
        break_property("(d) numbers differ after GO");
    s->go_epoch = r->epoch;
    s->go_next = (unsigned char)next;
    s->go_group = (unsigned char)group;
    for (int t = 0; t < TENSORS; t++) {
        if (!is_free(r, t) && (t == STRAY || fault != FAULT_NOT_RESENT))
            send_up(r, READY, t, 0);
        if (r->withdrawn >> t & 1)
            send_up(r, WITHDRAW, t, 0);
    }
}

/* Returns nonzero if the rank can receive the next message of the root. Between DONE and GO it keeps those about
 * tensors and plans, which travel another route than GO. */
static int can_receive(const struct rank *r)
{
    int kind = r->down.messages[0] >> 12;

    return kind && (r->mode != RANK_DONE || kind >= FREEZE || fault == FAULT_HEED_EARLY);
}

/* Forwards a message down the tree, before the inner rank acts on it. */
static void forward_down(struct state *s, uint16_t message)
{
    int kind = message >> 12;

    if (is_live(&s->ranks[LEAF]) && kind >= FREEZE && !(kind == GO && fault == FAULT_GO_LOST))
        queue_push(&s->tree_down, (enum message)kind, message >> 6 & 63, message & 63);
}

static void receive_message(struct state *s, int rank, struct queue *from)
{
    struct rank *r = &s->ranks[rank];
    uint16_t message = queue_pop(from);
    int a = message >> 6 & 63, b = message & 63;

    if (rank == INNER)
        forward_down(s, message);
    switch (message >> 12) {
    case BUCKET:
        receive_bucket(rank, r, a);
        break;
    case ERROR:
        end_tensor(s, rank, a, BY_WITHDRAWAL);
        break;
    case PLAN:
        receive_plan(s, rank);
        break;
    case FREEZE:
        receive_freeze(s, rank);
        break;
    case DECIDE:
        receive_decision(s, r, (int[]){ a, b });
        break;
    default:
        receive_go(s, rank, a, b);
    }
}

/* The inner rank receives a message of the rank below it. */
static void receive_below(struct state *s)
{
    const struct rank *r = &s->ranks[INNER];
    uint16_t message = queue_pop(&s->tree_up);
    int kind = message >> 12;

    if (kind != BREAK)
        gather_answer(s, LEAF, (enum message)kind, (int[]){ message >> 6 & 63, message & 63 });
    else if (r->mode > RANK_FROZEN)
        break_property("(d) a BREAK is received after STATE");
    else if (r->mode == RANK_PLAN || (r->mode == RANK_NEGOTIATE && fault != FAULT_BREAK_LOST))
        send_break(s, INNER);
}

/* ---- the root ---- */

static void send_down(struct state *s, enum message kind, int a, int b)
{
    if (s->root_mode == ROOT_PLANNED && kind == BUCKET)
        break_property("(f) the root sends a message in a steady plan");
    for (int r = 0; r < RANKS; r++)
        if (is_live(&s->ranks[r]) && (kind < FREEZE || r != LEAF))
            queue_push(&s->ranks[r].down, kind, a, b);
}

static int can_send_plan(const struct state *s)
{
    if (s->root_mode != ROOT_NEGOTIATE || !s->plans || s->arrived[STRAY] || !is_live(&s->ranks[0]))
        return 0;
    for (int t = 0; t < TENSORS; t++)
        if (s->owed[t] && fault != FAULT_PLAN_OWED)
            return 0;
    return !scenario->at_boundary || s->cycle == 0;
}

static void send_plan(struct state *s)
{
    s->plans--;
    send_down(s, PLAN, 0, 0);
    s->root_mode = ROOT_PLANNED;
    s->planned = 0;
    if (fault != FAULT_KEEP_ARRIVALS)
        memset(s->arrived, 0, sizeof s->arrived);
}

static void send_error(struct state *s, int rank, int tensor)
{
    if (is_live(&s->ranks[rank]))
        queue_push(&s->ranks[rank].down, ERROR, tensor, 0);
}

static void root_receive_ready(struct state *s, int rank, int tensor)
{
    if (s->root_mode != ROOT_NEGOTIATE && fault != FAULT_HEED_STALE)
        return;
    if (s->owed[tensor] >> rank & 1) {
        s->owed[tensor] &= (unsigned char)~(1 << rank);
        send_error(s, rank, tensor);
        return;
    }
    if (s->arrived[tensor] >> rank & 1)
        break_property("(b) the root counts a submission twice");
    s->arrived[tensor] |= (unsigned char)(1 << rank);
    if (s->arrived[tensor] != (tensor == STRAY && scenario->has_outsider ? ALL_RANKS & ~(1 << LEAF) : ALL_RANKS))
        return;
    s->arrived[tensor] = 0;
    s->log[s->root_next++ % LOG] = (unsigned char)tensor;
    s->cycle ^= (unsigned char)(1 << tensor & ALL);
    s->cycle = s->cycle == ALL ? 0 : s->cycle;
    send_down(s, BUCKET, tensor, 0);
}

/* Ends the submission on all ranks: at once on those that have submitted it, on the others when they do. */
static void root_receive_withdraw(struct state *s, int rank, int tensor)
{
    if (s->root_mode != ROOT_NEGOTIATE || !(s->arrived[tensor] >> rank & 1))
        return;
    for (int r = 0; r < RANKS; r++)
        if (s->arrived[tensor] >> r & 1)
            send_error(s, r, tensor);
    REQUIRE(!s->owed[tensor]);
    s->owed[tensor] = ALL_RANKS & ~s->arrived[tensor];
    s->arrived[tensor] = 0;
}

/* A BREAK, or the answer to PLAN. Once all have answered, no message is under way that is older than their plan. */
static void root_receive_break(struct state *s, int is_break)
{
    if (is_break && s->root_mode == ROOT_PLANNED)
        s->root_mode = ROOT_BROKEN;
    if (s->root_mode != ROOT_BROKEN || (s->planned != ALL_RANKS && fault != FAULT_FREEZE_EARLY))
        return;
    s->root_mode = ROOT_FREEZING;
    memset(s->least, fault == FAULT_DECIDE_MAXIMUM ? 0 : 63, sizeof s->least);
    send_down(s, FREEZE, 0, 0);
}

static void root_receive_state(struct state *s, int rank, const int *entered)
{
    if (s->root_mode != ROOT_FREEZING)
        return;
    for (int c = 0; c < CHANNELS; c++)
        if (fault == FAULT_DECIDE_MAXIMUM ? entered[c] > s->least[c] : entered[c] < s->least[c])
            s->least[c] = (unsigned char)entered[c];
    s->answered |= rank == INNER ? BELOW_INNER : (unsigned char)(1 << rank);
    if (s->answered != ALL_RANKS && fault != FAULT_DECIDE_EARLY)
        return;
    s->root_mode = ROOT_DECIDED;
    s->answered = 0;
    send_down(s, DECIDE, s->least[0], s->least[1]);
    memset(s->least, 0, sizeof s->least);
    s->root_next = fault == FAULT_NUMBERS_MINIMUM ? 63 : 0;
    s->root_group = 0;
}

static void root_receive_done(struct state *s, int rank, int next, int group)
{
    if (s->root_mode != ROOT_DECIDED)
        return;
    if (fault == FAULT_NUMBERS_MINIMUM ? next < s->root_next : next > s->root_next)
        s->root_next = (unsigned char)next;
    if (group > s->root_group)
        s->root_group = (unsigned char)group;
    s->answered |= rank == INNER ? BELOW_INNER : (unsigned char)(1 << rank);
    if (s->answered != ALL_RANKS && fault != FAULT_GO_EARLY)
        return;
    s->root_mode = ROOT_NEGOTIATE;
    s->answered = 0;
    s->cycle = 0;
    send_down(s, GO, s->root_next, s->root_group);
}

static void root_receive_message(struct state *s, int rank)
{
    uint16_t message = queue_pop(&s->ranks[rank].up);
    int a = message >> 6 & 63, b = message & 63;

    switch (message >> 12) {
    case READY:
        root_receive_ready(s, rank, a);
        break;
    case WITHDRAW:
        root_receive_withdraw(s, rank, a);
        break;
    case PLANNED:
        s->planned |= (unsigned char)(1 << rank);
        root_receive_break(s, 0);
        break;
    case BREAK:
        root_receive_break(s, 1);
        break;
    case STATE:
        root_receive_state(s, rank, (int[]){ a, b });
        break;
    default:
        root_receive_done(s, rank, a, b);
    }
}

/* ---- death ---- */

/* Stops a rank that is dead or has failed because another is. What it has sent remains under way. */
static void stop_rank(struct rank *r, enum rank_mode mode)
{
    struct rank stopped;

    memset(&stopped, 0, sizeof stopped);
    stopped.up = r->up;
    stopped.mode = (unsigned char)mode;
    stopped.group = r->group;
    memcpy(stopped.sent, r->sent, sizeof r->sent);
    memcpy(stopped.sends, r->sends, sizeof r->sends);
    memcpy(stopped.slots, r->slots, sizeof r->slots);
    memcpy(stopped.reached, r->reached, sizeof r->reached);
    *r = stopped;
}

static int is_one_dead(const struct state *s)
{
    for (int r = 0; r < RANKS; r++)
        if (s->ranks[r].mode == RANK_DEAD)
            return 1;
    return 0;
}

#endif
