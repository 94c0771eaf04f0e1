/* SPDX-License-Identifier: Apache-2.0
 *
 * The replay protocol, explored state by state: three ranks and the root, three buckets, two channels, in every order
 * in which their steps and messages can interleave. With each known mistake in the protocol, a property has to break.
 *
 * A training submits the same tensors step after step. At first the root negotiates: it dispatches a tensor as soon as
 * all ranks have announced it. Once it has seen the same cycle several times it sends a plan: the cycle's buckets in a
 * fixed order. In a plan a rank asks no one. It enters a bucket when it has submitted all the bucket's tensors, and the
 * data are the vote, since a collective cannot complete on any rank before all ranks have entered it:
 *
 *     complete anywhere  =>  entered everywhere     every rank can finish it
 *     not entered by one rank  =>  complete nowhere  every rank can take it back, inputs being intact
 *
 * So agreement is needed only to leave the plan, by BREAK:
 *
 *     rank 0           root           rank 1          rank 2
 *       |--- READY ---->|<--------------|<--------------|    negotiation
 *       |<-- BUCKET ----|-------------->|-------------->|
 *       |<-- PLAN ------|-------------->|-------------->|
 *       |<======== data of buckets, turn by turn ======>|    the plan: no messages
 *       |               |<-- BREAK -----|               |    rank 1 submits what is not in the plan
 *       |<-- FREEZE ----|-------------->|-------------->|    no rank enters another bucket
 *       |--- STATE ---->|<--------------|<--------------|
 *       |<-- DECIDE ----|-------------->|-------------->|    each finishes or takes back what it has entered
 *       |--- DONE ----->|<--------------|<--------------|
 *       |<-- GO --------|-------------->|-------------->|    negotiation
 *
 * | message  | to    | content                 | effect                                                              |
 * |----------|-------|-------------------------|---------------------------------------------------------------------|
 * | READY    | root  | tensor                  | counts towards its dispatch; ignored from PLAN until GO             |
 * | WITHDRAW | root  | tensor                  | ends the submission on all ranks; ignored from PLAN until GO        |
 * | BUCKET   | ranks | tensor                  | takes the next number and runs                                      |
 * | ERROR    | rank  | tensor                  | its submission ends: a rank has withdrawn it                        |
 * | PLAN     | ranks | buckets                 | what is submitted and not dispatched counts for the first turn;     |
 * |          |       |                         | if it is withdrawn or not in the plan: BREAK                        |
 * | PLANNED  | root  |                         | the sender has received PLAN; when all have, FREEZE may be sent     |
 * | BREAK    | root  |                         | the first of a plan: FREEZE; later ones are ignored                 |
 * | FREEZE   | ranks |                         | enters no more buckets, starts what was dispatched; STATE           |
 * | STATE    | root  | last entered, a channel | when all have sent it: DECIDE                                       |
 * | DECIDE   | ranks | their minimum           | takes back what is above it, completes the rest, then sends DONE    |
 * | DONE     | root  | next number and group   | when all have sent it: GO                                           |
 * | GO       | ranks | their maximum           | renumbers; sends READY, WITHDRAW for what has not ended             |
 *
 * BREAK and the messages below it go along a tree: ranks 0 and 1 exchange them with the root, rank 2 with rank 1. Rank
 * 1 passes BREAK on, merges STATE and DONE with its own, and forwards the others before it acts on them. All other
 * messages go between the root and a rank. What goes the one way overtakes what goes the other way: so PLAN is answered
 * by PLANNED, and a rank keeps what the root sends between its DONE and GO.
 *
 * Numbers: turn t of bucket k of K has number base + t * K + k, base being the number after the last that was
 * dispatched. It runs on channel number mod W, and a channel runs its numbers strictly in order. What was dispatched
 * before the plan counts as entered in STATE, for it may complete where others have not started it (a broadcast), and a
 * rank starts it in any mode.
 *
 * Data match by order on the tag (group, channel) between hosts, by their number in slots of shared memory. The new
 * group of GO and its numbers, which are above all that any rank has used, separate the data of two plans.
 *
 * A rank sends BREAK for what is not in the plan: another tensor, a withdrawal, a join. It also does when its program
 * has submitted nothing for a while and the rank lacks tensors of a bucket of which it has submitted some, or tensors
 * of an older bucket that holds the channel. It must do so whether or not its program waits for that bucket, as those
 * of other ranks may: with tensors a and b in one bucket and c in another, rank 0 submits a, b, waits for a, submits c;
 * rank 1 submits a, c, waits for c, submits b. Both have submitted a, and neither waits for a bucket that it lacks
 * tensors of (FAULT_WAITED_ONLY).
 *
 * A dead rank fails all submissions on the others, each of which notices the death by its own watch, in any mode.
 *
 * The properties:
 *     (a) no collective completes on some ranks and is taken back on others; a submission ends in the same way on all
 *     (b) a submission ends once, and no message announces one that is not there
 *     (c) the exploration ends only where nothing is left to do: what all ranks have submitted is complete, what is
 *         withdrawn has ended, no message is awaited
 *     (d) all ranks have the same numbers after PLAN and after GO
 *     (e) data match only within their plan and number
 *     (f) no message is sent between PLAN and BREAK, and without a reason there is no BREAK
 *
 * In most scenarios, READY, BUCKET and the entering of a bucket take no time, as a message under way is like one that
 * is not sent yet; in some they do. Joins and tensors that disagree are left out: they are submissions that
 * are not in the plan, and negotiation judges them. TEST_LONG=1 explores larger scenarios, too.
 */
#include "tests/fusion/explore.h"
#include "tests/fusion/replay_protocol.h"

/* ---- exploration ---- */

enum act {
    ACT_SUBMIT,
    ACT_ENTER,
    ACT_COMPLETE,
    ACT_WITHDRAW,
    ACT_BREAK_FREELY,
    ACT_BREAK_FOR_REASON,
    ACT_RECEIVE,
    ACT_ROOT_RECEIVE,
    ACT_ROOT_PLAN,
    ACT_RECEIVE_ABOVE,
    ACT_RECEIVE_BELOW,
    ACT_DIE,
    ACT_NOTICE
};

static int add_action(struct action *actions, int count, enum act kind, int who, int what)
{
    actions[count] = (struct action){ (unsigned char)kind, (unsigned char)who, (unsigned char)what };
    return count + 1;
}

static int list_tensor_actions(const struct state *s, int rank, struct action *actions, int count)
{
    const struct rank *r = &s->ranks[rank];

    for (int t = 0; t < TENSORS; t++) {
        if (r->left >> t & 1 && is_free(r, t))
            count = add_action(actions, count, ACT_SUBMIT, rank, t);
        if (s->withdrawals && !is_free(r, t) && !(r->withdrawn >> t & 1))
            count = add_action(actions, count, ACT_WITHDRAW, rank, t);
    }
    return count;
}

static int list_rank_actions(const struct state *s, int rank, struct action *actions, int count)
{
    const struct rank *r = &s->ranks[rank];

    if (is_live(&s->ranks[0]) && r->up.messages[0])
        count = add_action(actions, count, ACT_ROOT_RECEIVE, rank, r->up.messages[0] >> 12);
    if (!is_live(r))
        return count;
    if (can_receive(r))
        count = add_action(actions, count, ACT_RECEIVE, rank, r->down.messages[0] >> 12);
    count = list_tensor_actions(s, rank, actions, count);
    for (int c = 0; c < CHANNELS; c++) {
        if (number_to_enter(r, c) >= 0)
            count = add_action(actions, count, ACT_ENTER, rank, number_to_enter(r, c));
        if (can_complete(s, rank, c))
            count = add_action(actions, count, ACT_COMPLETE, rank, r->entered[c]);
    }
    if (has_reason(rank, r))
        count = add_action(actions, count, ACT_BREAK_FOR_REASON, rank, 0);
    else if (r->mode == RANK_PLAN && !r->has_broken && s->breaks)
        count = add_action(actions, count, ACT_BREAK_FREELY, rank, 0);
    if (s->deaths)
        count = add_action(actions, count, ACT_DIE, rank, 0);
    if (is_one_dead(s) && !(fault == FAULT_FROZEN_BLIND && r->mode == RANK_FROZEN))
        count = add_action(actions, count, ACT_NOTICE, rank, 0);
    return count;
}

static int list_actions(const void *state, struct action *actions)
{
    const struct state *s = state;
    int count = 0;

    for (int r = 0; r < RANKS; r++)
        count = list_rank_actions(s, r, actions, count);
    if (is_live(&s->ranks[LEAF]) && s->tree_down.messages[0])
        count = add_action(actions, count, ACT_RECEIVE_ABOVE, LEAF, s->tree_down.messages[0] >> 12);
    if (is_live(&s->ranks[INNER]) && s->tree_up.messages[0])
        count = add_action(actions, count, ACT_RECEIVE_BELOW, INNER, s->tree_up.messages[0] >> 12);
    if (can_send_plan(s))
        count = add_action(actions, count, ACT_ROOT_PLAN, 0, 0);
    return count;
}

/* Does one of a rank's actions that are done at once, as their order with others does not matter. Returns nonzero if
 * there was one. is_last: all negotiate, and there will be no plan any more. */
static int hurry_rank(struct state *s, int rank, int is_last)
{
    struct rank *r = &s->ranks[rank];
    int kind = r->down.messages[0] >> 12;

    advance_program(rank, r);
    send_done(s, rank);
    if (scenario->is_slow && !is_last)
        return 0;
    if (is_live(&s->ranks[0]) && r->up.messages[0]) {
        root_receive_message(s, rank);
        return 1;
    }
    if (rank == INNER && is_live(r) && s->tree_up.messages[0]) {
        receive_below(s);
        return 1;
    }
    if (is_live(r) && can_receive(r) && (kind == BUCKET || kind == ERROR)) {
        receive_message(s, rank, &r->down);
        return 1;
    }
    for (int c = 0; c < CHANNELS; c++) {
        int number = number_to_enter(r, c);
        if (number >= 0) {
            enter_number(r, c, number);
            return 1;
        }
        if (is_last && can_complete(s, rank, c)) {
            complete_number(s, rank, c);
            return 1;
        }
    }
    return 0;
}

static int hurry_all(struct state *s)
{
    int is_last = !s->plans && s->root_mode == ROOT_NEGOTIATE, any = 0;

    for (int r = 0; r < RANKS; r++)
        is_last = is_last && (s->ranks[r].mode == RANK_NEGOTIATE || !is_live(&s->ranks[r]));
    for (int r = 0; r < RANKS; r++)
        any |= hurry_rank(s, r, is_last);
    return any;
}

/* Returns the last number on the channel that is over on all ranks. */
static int past_number(const struct state *s, int channel)
{
    int past = 31;

    for (int r = 0; r < RANKS; r++) {
        const struct rank *of = &s->ranks[r];
        int done = of->entered[channel] - (of->running >> channel & 1 ? CHANNELS : 0);
        if (is_live(of) && done < past)
            past = done;
    }
    return past;
}

static void forget_numbers(struct state *s)
{
    for (int c = 0; c < CHANNELS; c++) {
        int past = past_number(s, c);
        for (int n = c; n <= past; n += CHANNELS) {
            s->completed &= ~(1U << n);
            s->taken_back &= ~(1U << n);
            if (n + LOG >= s->root_next)
                s->log[n % LOG] = 0;
        }
        for (int r = 0; r < RANKS; r++)
            for (int i = 0; i < SENT; i++)
                if ((s->ranks[r].slots[c][i] & 63) <= past)
                    s->ranks[r].slots[c][i] = 0;
    }
}

static void forget_labels(struct state *s, int tensor)
{
    int least = 255, most = 0;

    for (int r = 0; r < RANKS; r++)
        if (is_live(&s->ranks[r])) {
            int ended = s->ranks[r].ended[tensor];
            least = ended < least ? ended : least;
            most = ended > most ? ended : most;
        }
    REQUIRE(most - least <= 2);
    for (int i = most; i < least + 2; i++)
        s->label[tensor][i % 2] = 0;
}

/* Clears what cannot matter any more, so that states that differ in it alone are one. */
static void forget_past(struct state *s)
{
    int is_same_epoch = 1;

    forget_numbers(s);
    for (int r = 0; r < RANKS; r++)
        is_same_epoch &= !is_live(&s->ranks[r]) || s->ranks[r].epoch >= s->go_epoch;
    if (is_same_epoch)
        s->go_epoch = s->go_next = s->go_group = 0;
    for (int t = 0; t < TENSORS; t++)
        forget_labels(s, t);
}

static void perform_death(struct state *s, int rank, int is_dying)
{
    s->deaths = is_dying ? (unsigned char)(s->deaths - 1) : s->deaths;
    stop_rank(&s->ranks[rank], is_dying ? RANK_DEAD : RANK_FAILED);
}

static const char *perform_action(void *state, struct action action)
{
    struct state *s = state;
    struct rank *r = &s->ranks[action.who];

    broken = NULL;
    switch (action.kind) {
    case ACT_SUBMIT:
        submit_tensor(s, action.who, action.what);
        break;
    case ACT_ENTER:
        enter_number(r, action.what % CHANNELS, action.what);
        break;
    case ACT_COMPLETE:
        complete_number(s, action.who, action.what % CHANNELS);
        break;
    case ACT_WITHDRAW:
        s->withdrawals--;
        withdraw_tensor(s, action.who, action.what);
        break;
    case ACT_BREAK_FREELY:
        s->breaks--;
        send_break(s, action.who);
        break;
    case ACT_BREAK_FOR_REASON:
        send_break(s, action.who);
        break;
    case ACT_RECEIVE:
        receive_message(s, action.who, &r->down);
        break;
    case ACT_RECEIVE_ABOVE:
        receive_message(s, LEAF, &s->tree_down);
        break;
    case ACT_RECEIVE_BELOW:
        receive_below(s);
        break;
    case ACT_ROOT_RECEIVE:
        root_receive_message(s, action.who);
        break;
    case ACT_ROOT_PLAN:
        send_plan(s);
        break;
    default:
        perform_death(s, action.who, action.kind == ACT_DIE);
    }
    while (!broken && hurry_all(s))
        ;
    forget_past(s);
    return broken;
}

static const char *judge_end(const void *state)
{
    const struct state *s = state;
    int is_dead = is_one_dead(s);

    for (int r = 0; r < RANKS; r++) {
        const struct rank *of = &s->ranks[r];
        if (is_dead && is_live(of))
            return "(c) a rank never learns of a death";
        if (!is_dead && (of->mode > RANK_PLAN || of->up.messages[0] || of->down.messages[0]))
            return "(c) a rank waits for a message that never arrives";
        if (!is_dead && (s->tree_up.messages[0] || s->tree_down.messages[0] || s->gathered))
            return "(c) a message of the tree is not received";
        if (!is_dead && of->withdrawn)
            return "(c) a submission that is withdrawn never ends";
        for (int t = 0; t < TENSORS && !is_dead; t++)
            if (s->ranks[0].submitted[t] > of->ended[t] && s->ranks[1].submitted[t] > of->ended[t] &&
                s->ranks[2].submitted[t] > of->ended[t])
                return "(c) a tensor never completes that all ranks have submitted";
    }
    return NULL;
}

static void print_action(struct action action)
{
    static const char *const acts[] = { "submits tensor",
                                        "enters collective",
                                        "completes collective",
                                        "withdraws tensor",
                                        "sends BREAK",
                                        "sends BREAK for a reason",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "",
                                        "dies",
                                        "notices the death" };
    static const char *const messages[] = { "",      "READY", "WITHDRAW", "BREAK",  "STATE", "DONE",   "BUCKET",
                                            "ERROR", "PLAN",  "FREEZE",   "DECIDE", "GO",    "PLANNED" };

    if (action.kind == ACT_ROOT_PLAN)
        printf("the root sends PLAN");
    else if (action.kind == ACT_ROOT_RECEIVE)
        printf("the root receives %s from rank %d", messages[action.what], action.who);
    else if (action.kind == ACT_RECEIVE_ABOVE || action.kind == ACT_RECEIVE_BELOW)
        printf("rank %d receives %s by the tree", action.who, messages[action.what]);
    else if (action.kind == ACT_RECEIVE)
        printf("rank %d receives %s", action.who, messages[action.what]);
    else if (action.kind <= ACT_WITHDRAW)
        printf("rank %d %s %d", action.who, acts[action.kind], action.what);
    else
        printf("rank %d %s", action.who, acts[action.kind]);
}

static const struct explored_model model = { sizeof(struct state), list_actions, perform_action, judge_end,
                                             print_action };

static struct exploration explore_scenario(const struct scenario *of, enum fault with)
{
    struct state start;

    scenario = of;
    fault = with;
    memset(&start, 0, sizeof start);
    start.plans = (unsigned char)of->plans;
    start.breaks = (unsigned char)of->breaks;
    start.withdrawals = (unsigned char)of->withdrawals;
    start.deaths = (unsigned char)of->deaths;
    start.root_mode = of->starts_planned ? ROOT_PLANNED : ROOT_NEGOTIATE;
    start.planned = of->starts_planned ? ALL_RANKS : 0;
    start.root_next = CHANNELS;
    for (int r = 0; r < RANKS; r++) {
        struct rank *rank = &start.ranks[r];
        rank->mode = of->starts_planned ? RANK_PLAN : RANK_NEGOTIATE;
        rank->group = 1;
        rank->next = CHANNELS;
        rank->left = of->programs[r][0].submit;
        for (int c = 0; c < CHANNELS; c++)
            rank->entered[c] = (unsigned char)c;
    }
    return explore_model(&model, &start);
}

/* ---- programs ---- */

#define FORWARD                      \
    { T0, 0 }, { T1, 0 }, { T2, 0 }, \
    {                                \
        T3, ALL                      \
    }
#define BACKWARD                     \
    { T3, 0 }, { T2, 0 }, { T1, 0 }, \
    {                                \
        T0, ALL                      \
    }
#define MIXED                        \
    { T2, 0 }, { T0, 0 }, { T3, 0 }, \
    {                                \
        T1, ALL                      \
    }
#define END  \
    {        \
        0, 0 \
    }

static const struct step forward_once[] = { FORWARD, END }, forward_twice[] = { FORWARD, FORWARD, END };
static const struct step backward_once[] = { BACKWARD, END }, backward_twice[] = { BACKWARD, BACKWARD, END };
static const struct step mixed_once[] = { MIXED, END }, mixed_twice[] = { MIXED, MIXED, END };
static const struct step forward_thrice[] = { FORWARD, FORWARD, FORWARD, END };
static const struct step backward_thrice[] = { BACKWARD, BACKWARD, BACKWARD, END };
static const struct step mixed_thrice[] = { MIXED, MIXED, MIXED, END };
static const struct step any_once[] = { { ALL, ALL }, END }, any_twice[] = { { ALL, ALL }, { ALL, ALL }, END };
static const struct step one[] = { { T2, T2 }, END }, another[] = { { T0 | T1, T0 | T1 }, END };
static const struct step one_twice[] = { { T2, T2 }, { T2, T2 }, END };
static const struct step pair[] = { { T0, 0 }, { T1, T0 | T1 }, END },
                         pair_other[] = { { T1, 0 }, { T0, T0 | T1 }, END };
static const struct step three[] = { { T0, 0 }, { T2, 0 }, { T1, ALL }, END };
static const struct step three_other[] = { { T2, 0 }, { T1, 0 }, { T0, ALL }, END };
static const struct step stray_first[] = { { S, 0 }, { T2, T2 | S }, END };
static const struct step stray_only[] = { { S, S }, { ALL, ALL }, END };
static const struct step stray_early[] = { { S, 0 }, FORWARD, END };
static const struct step stray_within[] = { { T3, 0 }, { S, 0 }, { T0 | T1, 0 }, { T2, ALL | S }, END };
static const struct step stray_late[] = { FORWARD, { S, S }, END };
static const struct step stray_third[] = { { T2, 0 }, { T3, 0 }, { S, T2 | T3 | S }, END };
static const struct step without[] = { { T0, 0 }, { T2, 0 }, { T3, T2 | T3 }, END };
static const struct step all_but[] = { { T2, 0 }, { T1, 0 }, { T0, 0 }, { T3, T0 | T2 | T3 }, END };
static const struct step waits_within[] = { { T0, 0 }, { T1, T0 }, { T2, ALL }, END };
static const struct step waits_elsewhere[] = { { T0, 0 }, { T2, T2 }, { T1, ALL }, END };
static const struct step singly[] = { { T0, T0 }, { T1, T1 }, { T2, T2 }, { T3, T3 }, { T0, T0 }, { T2, T2 }, END };
static const struct step singly_other[] = { { T3, T3 }, { T1, T1 }, { T2, T2 }, { T0, T0 }, { T3, T3 }, END };

/* Those that a fault names. */
enum {
    STEADY,
    PLAN_SLOWLY,
    STRAYS,
    STRAYS_BEFORE,
    BROADCAST,
    WAITS,
    WAITS_BEFORE,
    SINGLY,
    WITHDRAWN,
    ALONE,
    ALONE_BEFORE,
    ALONE_BELOW,
    KILLED,
    OUTSIDER
};

static const struct scenario scenarios[] = {
    [STEADY] = { "a plan, two turns",
                 { forward_twice, backward_twice, mixed_twice },
                 .starts_planned = 1,
                 .is_steady = 1,
                 .is_slow = 1 },
    [PLAN_SLOWLY] = { "PLAN at any moment, messages slow", { pair, pair_other, pair }, .plans = 1, .is_slow = 1 },
    [STRAYS] = { "a tensor that is not in the plan", { stray_early, stray_within, stray_late }, .starts_planned = 1 },
    [STRAYS_BEFORE] = { "the same first of all, PLAN at any moment",
                        { stray_first, stray_first, stray_first },
                        .plans = 1 },
    [BROADCAST] = { "a broadcast before PLAN", { stray_third, stray_third, stray_third }, .plans = 1, .breaks = 1 },
    [WAITS] = { "waits for parts of a bucket", { waits_within, waits_elsewhere, waits_within }, .starts_planned = 1 },
    [WAITS_BEFORE] = { "the same, PLAN at any moment", { waits_within, waits_elsewhere, waits_elsewhere }, .plans = 1 },
    [SINGLY] = { "one tensor after the other on one rank",
                 { any_twice, singly_other, mixed_twice },
                 .starts_planned = 1 },
    [WITHDRAWN] = { "a withdrawal, PLAN at any moment",
                    { one_twice, one_twice, one_twice },
                    .plans = 1,
                    .withdrawals = 1 },
    [ALONE] = { "a withdrawal of one rank's own tensor",
                { one, another, another },
                .starts_planned = 1,
                .withdrawals = 1 },
    [ALONE_BEFORE] = { "the same, PLAN at any moment", { one, another, another }, .plans = 1, .withdrawals = 1 },
    [ALONE_BELOW] = { "a withdrawal of the last rank's own tensor, PLAN at any moment",
                      { another, another, one },
                      .plans = 1,
                      .withdrawals = 1 },
    [KILLED] = { "a death, PLAN at any moment", { three, three_other, three }, .plans = 1, .deaths = 1 },
    [OUTSIDER] = { "a tensor that two ranks dispatch for all",
                   { stray_only, stray_only, any_once },
                   .starts_planned = 1,
                   .has_outsider = 1 },
    { "a plan, any order", { any_twice, any_twice, any_twice }, .starts_planned = 1, .is_steady = 1 },
    { "three turns, PLAN between two",
      { forward_thrice, backward_thrice, mixed_thrice },
      .plans = 1,
      .at_boundary = 1 },
    { "BREAK at any moment by all", { forward_twice, backward_twice, mixed_twice }, .starts_planned = 1, .breaks = 3 },
    { "BREAK at any moment, any order", { any_once, backward_once, forward_once }, .starts_planned = 1, .breaks = 1 },
    { "BREAK at any moment, messages slow",
      { three, three_other, mixed_once },
      .starts_planned = 1,
      .breaks = 1,
      .is_slow = 1 },
    { "PLAN and BREAK at any moment", { three, three_other, mixed_once }, .plans = 1, .breaks = 1 },
    { "three plans", { pair, pair_other, pair }, .plans = 3, .breaks = 1 },
    { "strays and PLAN at any moment", { stray_early, stray_within, stray_late }, .plans = 1 },
    { "a tensor that one rank never submits", { all_but, without, all_but }, .starts_planned = 1 },
    { "one after the other on rank 0", { singly, any_twice, mixed_twice }, .starts_planned = 1 },
    { "one after the other on two ranks", { any_twice, singly_other, singly }, .starts_planned = 1, .plans = 1 },
    { "a withdrawal from a bucket of two, PLAN at any moment",
      { pair, pair_other, pair },
      .plans = 1,
      .withdrawals = 1 },
    { "a withdrawal in a plan", { forward_once, mixed_once, forward_once }, .starts_planned = 1, .withdrawals = 1 },
    { "a death in a plan",
      { forward_once, mixed_once, backward_once },
      .starts_planned = 1,
      .breaks = 1,
      .deaths = 1,
      .is_long = 1 },
    { "a withdrawal of three, PLAN at any moment",
      { three, three_other, three },
      .plans = 1,
      .withdrawals = 1,
      .is_long = 1 },
    { "two turns, PLAN and BREAK at any moment",
      { forward_twice, mixed_twice, backward_twice },
      .plans = 1,
      .breaks = 1,
      .is_long = 1 },
    { "two turns, two plans",
      { forward_twice, mixed_twice, backward_twice },
      .plans = 2,
      .at_boundary = 1,
      .breaks = 1,
      .is_long = 1 },
    { "three plans, PLAN at any moment",
      { forward_once, mixed_once, backward_once },
      .plans = 3,
      .breaks = 1,
      .is_long = 1 },
    { "two turns, BREAK by two, messages slow",
      { forward_twice, backward_twice, mixed_twice },
      .starts_planned = 1,
      .breaks = 2,
      .is_slow = 1,
      .is_long = 1 },
    { "two turns and a death",
      { forward_twice, mixed_twice, backward_twice },
      .starts_planned = 1,
      .breaks = 1,
      .deaths = 1,
      .is_long = 1 },
    { "a death, messages slow",
      { three, three_other, three },
      .starts_planned = 1,
      .breaks = 1,
      .deaths = 1,
      .is_slow = 1,
      .is_long = 1 },
    { "strays on all, PLAN at any moment", { stray_early, stray_early, stray_early }, .plans = 2, .is_long = 1 },
};

/* The scenario in which each fault shows. */
static const struct {
    const char *name;
    int scenario;
} faults[FAULTS] = {
    [FAULT_DECIDE_MAXIMUM] = { "DECIDE with the maximum", WAITS },
    [FAULT_DECIDE_EARLY] = { "DECIDE after the first STATE", WAITS },
    [FAULT_ENTER_FROZEN] = { "buckets entered after FREEZE", WAITS_BEFORE },
    [FAULT_TAKE_BACK_ALL] = { "all is taken back", WAITS_BEFORE },
    [FAULT_DROP_DISPATCHED] = { "dispatched ones are taken back", BROADCAST },
    [FAULT_GO_EARLY] = { "GO after the first DONE", WAITS },
    [FAULT_NUMBERS_MINIMUM] = { "GO with the minimum", WAITS },
    [FAULT_NUMBERS_OWN] = { "own numbers after GO", WAITS },
    [FAULT_GROUP_OWN] = { "own groups after GO", WAITS },
    [FAULT_SAME_TAG] = { "the same tag after GO", WAITS },
    [FAULT_HEED_STALE] = { "old READYs count", WAITS_BEFORE },
    [FAULT_KEEP_ARRIVALS] = { "arrivals outlive PLAN", WAITS_BEFORE },
    [FAULT_PLAN_OWED] = { "PLAN during a withdrawal", WITHDRAWN },
    [FAULT_COUNT_DISPATCHED] = { "dispatched ones count in the plan", PLAN_SLOWLY },
    [FAULT_STRAY_AT_PLAN] = { "no BREAK at PLAN for a stray tensor", STRAYS_BEFORE },
    [FAULT_WITHDRAWAL_AT_PLAN] = { "no BREAK at PLAN for a withdrawal", ALONE_BEFORE },
    [FAULT_STRAY_IN_PLAN] = { "no BREAK for a stray tensor", STRAYS },
    [FAULT_WITHDRAWAL_IN_PLAN] = { "no BREAK for a withdrawal", ALONE },
    [FAULT_NO_REASON] = { "no BREAK for lacking tensors", WAITS },
    [FAULT_WAITED_ONLY] = { "BREAK only for a bucket that is waited for", WAITS },
    [FAULT_OWN_BUCKET_ONLY] = { "no BREAK for an older bucket", SINGLY },
    [FAULT_NOT_RESENT] = { "nothing is sent again after GO", WAITS },
    [FAULT_ANY_TURN] = { "buckets of any turn", STEADY },
    [FAULT_ANY_ORDER] = { "channels in any order", STEADY },
    [FAULT_SPEAK_IN_PLAN] = { "READY in a plan", STEADY },
    [FAULT_FROZEN_BLIND] = { "no watch while frozen", KILLED },
    [FAULT_FREEZE_EARLY] = { "FREEZE before all have answered PLAN", WAITS_BEFORE },
    [FAULT_HEED_EARLY] = { "BUCKET heeded before GO", OUTSIDER },
    [FAULT_FORWARD_STATE] = { "STATE without that of the rank below", WAITS },
    [FAULT_FORWARD_DONE] = { "DONE without that of the rank below", WAITS },
    [FAULT_FORWARD_OWN] = { "STATE with the inner rank's own numbers", WAITS_BEFORE },
    [FAULT_BREAK_LOST] = { "BREAK dropped before PLAN", ALONE_BELOW },
    [FAULT_GO_LOST] = { "GO is not forwarded", WAITS },
};

static size_t check_scenarios(void)
{
    size_t states = 0;

    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (scenarios[i].is_long && !test_is_long())
            continue;
        struct exploration found = explore_scenario(&scenarios[i], FAULT_NONE);
        printf("%s: %zu states, %zu ends\n", scenarios[i].name, found.states, found.ends);
        if (!CHECK(!found.broken && found.ends, "%s", scenarios[i].name) && found.broken)
            explore_print(&model, &found);
        states += found.states;
    }
    return states;
}

static size_t check_faults(void)
{
    size_t states = 0;

    for (int f = FAULT_NONE + 1; f < FAULTS; f++) {
        struct exploration found = explore_scenario(&scenarios[faults[f].scenario], (enum fault)f);
        CHECK(found.broken != NULL, "%s: no property breaks", faults[f].name);
        printf("fault: %s: %s, %d steps, %zu states\n", faults[f].name, found.broken ? found.broken : "not found",
               found.count, found.states);
        states += found.states;
    }
    return states;
}

int main(void)
{
    size_t states = check_scenarios(), with_faults = check_faults();

    printf("%zu states, and %zu with faults\n", states, with_faults);
    return test_end();
}
