/* SPDX-License-Identifier: Apache-2.0
 *
 * The checking mode: ranks compare what they call before anything moves.
 *
 *     rank 0                                          the others
 *       |  <------ signature: call, type, count ...  --- |
 *       | compares                                       |
 *       |  ------- verdict: agreed, or who differs ----> |
 *       |          or: let me see your counts            |
 *       |  <------ counts, splits ---------------------- |    calls with a count for each rank or tensor
 *       | compares                                       |
 *       |  ------- verdict ----------------------------> |
 *
 * It is a schedule like any other, driven in the place of the chosen algorithm, and starts that one when all agree; so
 * groups that overlap can be in the middle of it at once. Counts are asked for when the signatures agree, and with them
 * how many there are: no message has another length than the one that is waited for. Every rank writes the verdict as
 * the same line of text.
 *
 * Cost: 2 (N - 1) small messages in two steps, twice that with counts; rank 0 then has all ranks' counts in its
 * scratch.
 */
#include "collectives/group/check.h"
#include "base/memory.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "halay_tools.h"
#include <stdio.h>
#include <string.h>

/* The channel's last tags: no algorithm uses that many. */
enum { SIGNATURE_TAG = (1 << HALAY_TAG_BITS) - 3, VERDICT_TAG, COUNTS_TAG };

enum { FIRST = 0 }; /* the rank that compares */

/* The fields that are compared, in this order: causes before their effects, so counts before ALGORITHM. */
enum field { CALL, DTYPE, OP, ROOT, COUNT, ALGORITHM, CHUNK, SLOT, FIELDS };

struct signature {
    uint64_t field[FIELDS];
};

enum what { AGREED, WANTS_COUNTS, FIELD_DIFFERS, COUNTS_DIFFER, SPLITS_DIFFER };

struct verdict {
    uint64_t what;
    uint64_t call;     /* of all, where that is not what differs */
    uint64_t index;    /* which field, or whose count */
    uint64_t rank[2];  /* the two that differ; of splits: the sender and the receiver */
    uint64_t value[2]; /* theirs */
};

struct state {
    int is_sent;    /* rank 0: the verdict is being sent */
    int has_counts; /* rank 0: the counts have been asked for */
    struct verdict verdict;
    /* Rank 0: one a rank; others: a send and a receive. */
    struct halay_transfer *transfers;
    struct signature *signatures; /* rank 0: [rank]; others: their own */
};

static size_t header_bytes(void)
{
    return halay_round_up(sizeof(struct state), HALAY_CACHE_LINE);
}

static size_t state_bytes(int size)
{
    return header_bytes() + (size_t)size * (sizeof(struct halay_transfer) + sizeof(struct signature));
}

/* ---- what is compared ---- */

static const char *const calls[HALAY_COLL_COUNT][2] = {
    /* [][with a list of counts] */
    [HALAY_COLL_ALLREDUCE] = { "allreduce", "allreduce" },
    [HALAY_COLL_ALLREDUCE_ADASUM] = { "allreduce", "allreduce_adasum" },
    [HALAY_COLL_REDUCE] = { "reduce", "reduce" },
    [HALAY_COLL_REDUCE_SCATTER] = { "reduce_scatter", "reduce_scatterv" },
    [HALAY_COLL_BROADCAST] = { "broadcast", "broadcast" },
    [HALAY_COLL_ALLGATHER] = { "allgather", "allgatherv" },
    [HALAY_COLL_ALLTOALL] = { "alltoall", "alltoallv" },
    [HALAY_COLL_BARRIER] = { "barrier", "barrier" },
};

/* Forms of the all-to-all, the first one after the calls above. */
static const char *const forms[][2] = {
    [HALAY_FORM_GATHER - 1] = { "gather", "gatherv" },
    [HALAY_FORM_SCATTER - 1] = { "scatter", "scatterv" },
};
enum { CALLS = HALAY_COLL_COUNT + sizeof forms / sizeof *forms };

static const char *call_name(uint64_t call)
{
    if (call >= 2 * CALLS)
        return "?";
    return call < 2 * HALAY_COLL_COUNT ? calls[call / 2][call % 2] : forms[call / 2 - HALAY_COLL_COUNT][call % 2];
}

/* All-reduces with adasum and with other reductions count as the same call. */
static uint64_t call_of(const struct halay_coll *c)
{
    if (c->operation == HALAY_COLL_ALLREDUCE_ADASUM && !c->has_counts)
        return HALAY_COLL_ALLREDUCE * 2;
    uint64_t call = c->form ? HALAY_COLL_COUNT + (uint64_t)c->form - 1 : (uint64_t)c->operation;

    return call * 2 + (uint64_t)c->has_counts;
}

/* The one count of a call without a list of them. */
static uint64_t one_count(const struct halay_coll *c)
{
    int is_cut = c->operation == HALAY_COLL_REDUCE_SCATTER || c->operation == HALAY_COLL_ALLGATHER ||
                 c->operation == HALAY_COLL_ALLTOALL;

    if (c->form)
        return c->rooted[1];
    return is_cut ? c->starts[1] : c->in.count;
}

/* How long the list of counts is, where ranks may give lists of different lengths: one a tensor, not one a rank. */
static uint64_t list_length(const struct halay_coll *c)
{
    return c->operation == HALAY_COLL_ALLREDUCE_ADASUM ? c->tensors : 0;
}

static struct signature signature_of(const struct halay_coll *c)
{
    const struct halay_choice *chosen = halay_coll_choose(c);
    struct signature s = { .field = {
                               [CALL] = call_of(c),
                               [DTYPE] = (uint64_t)c->dtype,
                               [OP] = (uint64_t)c->op,
                               [ROOT] = (uint64_t)c->root,
                               [COUNT] = c->has_counts ? list_length(c) : one_count(c),
                               [ALGORITHM] =
                                   chosen ? (uint64_t)(chosen->algorithm - halay_algorithms) : halay_algorithm_count,
                               [CHUNK] = c->group->world->config.chunk_bytes,
                               [SLOT] = chosen ? chosen->slot : 0,
                           } };

    return s;
}

/* Returns nonzero for an all-to-all whose counts are each rank's own. */
static int is_exchange(const struct halay_coll *c)
{
    return c->operation == HALAY_COLL_ALLTOALL && !c->form;
}

/* Returns the number of counts that this rank sends. Those of a row are sent as the ends of its blocks. */
static size_t counts_length(const struct halay_coll *c)
{
    size_t size = (size_t)c->size;

    if (!c->has_counts)
        return 0;
    if (c->operation == HALAY_COLL_ALLREDUCE_ADASUM)
        return c->tensors;
    return is_exchange(c) ? 2 * (size + 1) : size + 1;
}

static const size_t *counts_of(const struct halay_coll *c)
{
    if (c->form)
        return c->rooted;
    return c->operation == HALAY_COLL_ALLREDUCE_ADASUM ? c->counts : c->starts; /* in_starts follow those */
}

/* ---- comparing ---- */

static int find_difference(const struct halay_coll *c, const struct state *s, int from, int to, struct verdict *v)
{
    const struct signature *first = &s->signatures[FIRST];

    for (int f = from; f < to; f++)
        for (int r = 0; r < c->size; r++) {
            uint64_t value = s->signatures[r].field[f];
            if (value == first->field[f])
                continue;
            *v = (struct verdict){ .what = FIELD_DIFFERS,
                                   .call = first->field[CALL],
                                   .index = (uint64_t)f,
                                   .rank = { (uint64_t)r, FIRST },
                                   .value = { value, first->field[f] } };
            return 1;
        }
    return 0;
}

/* Returns the counts of rank r. */
static size_t *counts_from(const struct halay_coll *c, int r)
{
    return (size_t *)(void *)c->scratch + (size_t)r * counts_length(c);
}

static int find_count(const struct halay_coll *c, struct verdict *v)
{
    const int is_row = c->operation != HALAY_COLL_ALLREDUCE_ADASUM;
    const size_t *first = counts_from(c, FIRST);

    for (size_t i = 0; i < counts_length(c); i++)
        for (int r = 0; r < c->size; r++) {
            const size_t *theirs = counts_from(c, r);
            if (theirs[i] == first[i])
                continue;
            *v = (struct verdict){
                .what = COUNTS_DIFFER, .index = i, .rank = { (uint64_t)r, FIRST }, .value = { theirs[i], first[i] }
            };
            for (int k = 0; k < 2 && is_row; k++) /* ends differ first after the part that differs */
                v->value[k] -= first[i - 1];
            v->index -= (uint64_t)is_row;
            return 1;
        }
    return 0;
}

static int find_split(const struct halay_coll *c, struct verdict *v)
{
    int n = c->size;

    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            const size_t *in = counts_from(c, from) + n + 1 + to, *out = counts_from(c, to) + from;
            if (in[1] - in[0] == out[1] - out[0] || from == to) /* what a rank keeps is its own affair */
                continue;
            *v = (struct verdict){ .what = SPLITS_DIFFER,
                                   .rank = { (uint64_t)from, (uint64_t)to },
                                   .value = { in[1] - in[0], out[1] - out[0] } };
            return 1;
        }
    return 0;
}

static struct verdict judge_calls(const struct halay_coll *c, const struct state *s)
{
    struct verdict v = { .what = AGREED };

    if (!s->has_counts && find_difference(c, s, CALL, ALGORITHM, &v))
        return v;
    if (!s->has_counts && counts_length(c))
        return (struct verdict){ .what = WANTS_COUNTS };
    if (s->has_counts && (is_exchange(c) ? find_split(c, &v) : find_count(c, &v)))
        v.call = s->signatures[FIRST].field[CALL];
    else
        find_difference(c, s, ALGORITHM, FIELDS, &v);
    return v;
}

/* ---- the verdict as text ---- */

static void write_value(char *text, size_t size, enum field field, uint64_t value)
{
    switch (field) {
    case DTYPE:
        snprintf(text, size, "type %s", halay_dtype_name((enum halay_dtype)value));
        return;
    case OP:
        snprintf(text, size, "reduction %s", halay_reduction_name((enum halay_reduction)value));
        return;
    case ROOT:
        snprintf(text, size, "root %llu", (unsigned long long)value);
        return;
    case ALGORITHM:
        snprintf(text, size, "algorithm %s", value < halay_algorithm_count ? halay_algorithms[value].name : "none");
        return;
    case CHUNK:
        snprintf(text, size, "chunks of %llu bytes", (unsigned long long)value);
        return;
    case SLOT:
        snprintf(text, size, "slots of %llu bytes", (unsigned long long)value);
        return;
    default:
        snprintf(text, size, "count %llu", (unsigned long long)value);
    }
}

static void report_field(const struct halay_coll *c, const struct verdict *v, const int rank[2])
{
    char text[2][64];

    if (v->index == CALL) {
        halay_error(c->group->world->log, "collective %llu: rank %d calls %s, rank %d calls %s",
                    (unsigned long long)c->number, rank[0], call_name(v->value[0]), rank[1], call_name(v->value[1]));
        return;
    }
    for (int i = 0; i < 2; i++)
        write_value(text[i], sizeof text[i], (enum field)v->index, v->value[i]);
    halay_error(c->group->world->log, "collective %llu, %s: rank %d has %s, rank %d has %s",
                (unsigned long long)c->number, call_name(v->call), rank[0], text[0], rank[1], text[1]);
}

static void report_difference(const struct halay_coll *c, const struct verdict *v)
{
    const int rank[2] = { halay_group_world_rank(c->group, (int)v->rank[0]),
                          halay_group_world_rank(c->group, (int)v->rank[1]) };

    if (v->what == FIELD_DIFFERS)
        report_field(c, v, rank);
    else if (v->what == COUNTS_DIFFER)
        halay_error(c->group->world->log, "collective %llu, %s: rank %d has counts[%llu] = %llu, rank %d has %llu",
                    (unsigned long long)c->number, call_name(v->call), rank[0], (unsigned long long)v->index,
                    (unsigned long long)v->value[0], rank[1], (unsigned long long)v->value[1]);
    else
        halay_error(c->group->world->log,
                    "collective %llu, %s: rank %d has %llu elements for rank %d, which expects %llu",
                    (unsigned long long)c->number, call_name(v->call), rank[0], (unsigned long long)v->value[0],
                    rank[1], (unsigned long long)v->value[1]);
}

/* ---- the exchange ---- */

static size_t scratch_bytes(const struct halay_coll *c)
{
    return c->rank == FIRST ? (size_t)c->size * counts_length(c) * sizeof(size_t) : 0;
}

static void receive_from_all(struct halay_coll *c, uint32_t tag, void *rows, size_t row_bytes)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (r != FIRST)
            coll_recv(c, r, tag, (unsigned char *)rows + (size_t)r * row_bytes, row_bytes, &s->transfers[r]);
}

static void send_verdict(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (r != FIRST)
            coll_send(c, r, VERDICT_TAG, &s->verdict, sizeof s->verdict, &s->transfers[r]);
}

/* Sends rank 0 something and receives its answer. */
static void ask_first(struct halay_coll *c, uint32_t tag, const void *data, size_t bytes)
{
    struct state *s = c->state;

    coll_recv(c, FIRST, VERDICT_TAG, &s->verdict, sizeof s->verdict, &s->transfers[1]);
    coll_send(c, FIRST, tag, data, bytes, &s->transfers[0]);
}

static void check_start(struct halay_coll *c)
{
    struct state *s = c->state;
    unsigned char *rest = (unsigned char *)c->state + header_bytes();

    s->transfers = (struct halay_transfer *)(void *)rest;
    s->signatures = (struct signature *)(void *)(rest + (size_t)c->size * sizeof *s->transfers);
    s->signatures[0] = signature_of(c);
    if (c->rank == FIRST)
        receive_from_all(c, SIGNATURE_TAG, s->signatures, sizeof *s->signatures);
    else
        ask_first(c, SIGNATURE_TAG, s->signatures, sizeof *s->signatures);
}

static int is_settled(const struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (!coll_is_settled(&s->transfers[r]))
            return 0;
    return 1;
}

/* No transfer is under way: the collective itself can reuse the state. */
static enum halay_status finish_check(struct halay_coll *c)
{
    const struct state *s = c->state;

    if (s->verdict.what == AGREED)
        return halay_coll_begin(c);
    report_difference(c, &s->verdict);
    return HALAY_ERR_MISMATCH;
}

static enum halay_status lead_check(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t bytes = counts_length(c) * sizeof(size_t);

    if (!s->is_sent) {
        s->verdict = judge_calls(c, s);
        s->is_sent = 1;
        send_verdict(c);
        return HALAY_IN_PROGRESS;
    }
    if (s->verdict.what != WANTS_COUNTS)
        return finish_check(c);
    s->has_counts = 1;
    s->is_sent = 0;
    memcpy(counts_from(c, FIRST), counts_of(c), bytes);
    receive_from_all(c, COUNTS_TAG, c->scratch, bytes);
    return HALAY_IN_PROGRESS;
}

static enum halay_status check_progress(struct halay_coll *c)
{
    struct state *s = c->state;

    if (!is_settled(c))
        return HALAY_IN_PROGRESS;
    coll_advanced(c);
    if (c->rank == FIRST)
        return lead_check(c);
    if (s->verdict.what != WANTS_COUNTS)
        return finish_check(c);
    ask_first(c, COUNTS_TAG, counts_of(c), counts_length(c) * sizeof(size_t));
    return HALAY_IN_PROGRESS;
}

static void check_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        coll_take_back(c, &s->transfers[r]);
}

static const struct halay_algorithm_ops check_ops = {
    .tags = 1 << HALAY_TAG_BITS, /* packed.c's too: it runs by itself */
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = check_start,
    .progress = check_progress,
    .cancel = check_cancel,
};

const struct halay_algorithm halay_check = { .name = "check", .file = "check", .ops = &check_ops };
