/* SPDX-License-Identifier: Apache-2.0
 *
 * Hierarchical all-reduce: inside each node in shared memory, between nodes by messages, inside again.
 *
 *     two nodes of two ranks; each rank owns a block of its node's data
 *
 *             sum inside           sum across              spread inside
 *     A       0 = 0A+0B     \    / 0 = 0AB + 0CD  (A, C)   0 1
 *     B       1 = 1A+1B      \  /  1 = 1AB + 1CD  (B, D)   0 1
 *     - - - - - - - - - - - -  X  - - - - - - - - - - - - - - - - -
 *     C       0 = 0C+0D      /  \  0 = 0AB + 0CD           0 1
 *     D       1 = 1C+1D     /    \ 1 = 1AB + 1CD           0 1
 *
 * Nodes may have different numbers of ranks: nodes.h defines who owns what then. Between the owners of a strip runs an
 * all-reduce by messages, the one that the table would choose for this number of nodes and bytes.
 *
 * The data go in chunks, and the three stages overlap: while one chunk is on the wire, the next is summed and the one
 * before is spread. DEPTH chunks are under way.
 *
 *     chunk     0         1         2         3
 *     inside    t0        t1        t2        t3
 *     across    t1        t2        t3        ..
 *     spread    t2 or later, in order
 *
 *   arrive   where this rank's input is: shared memory, where others read it, or private
 *   fill     a private input goes into this rank's slot, but for its own block
 *   reduce   own block of every rank's input, into this rank's result slot; the messages go from there and arrive there
 *   done     the result is complete; chunks in order
 *   take     when all have done the chunk: out of every rank's result slot into this rank's output; taken
 *
 * A slot is used again when those who read it have counted past it: inputs by done, results by taken (shared.h; chunks
 * are numbered through all collectives of the channel). Nobody writes into another's memory. An owner that reads the
 * input of a rank that has given up may read anything: it checks afterwards, and does not send that on (shared_copy.c).
 *
 * Cost between nodes: what the inner all-reduce takes for 1/L of the data, L ranks a node. Memory: DEPTH chunks in
 * slots, and scratch for DEPTH inner collectives for each strip. Any count, in and out of place, lists of pieces. The
 * sum of a node is rounded before it travels; all ranks get the same bits, since each strip has one sum.
 */
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/choice.h"
#include "collectives/group/nodes.h"
#include "collectives/shared/shared.h"
#include <string.h>

enum { DEPTH = HALAY_NODES_DEPTH, CHUNK_MAX = HALAY_CHUNK_MAX };

/* Own tags: half of packed.c, then lane, strip and what the inner algorithm needs. */
enum { OWN_TAGS = DEPTH * HALAY_STRIPS_MAX * HALAY_COLL_INNER_TAGS };
_Static_assert((int)OWN_TAGS <= (int)HALAY_COLL_OWN_TAGS, "room for all tags");
/* Inputs and results; a rank that is alone on its node needs no slots for inputs. */
_Static_assert(DEPTH *(CHUNK_MAX + CHUNK_MAX / 2 + HALAY_CACHE_LINE) <= HALAY_SLOTS_BYTES, "room for all slots");

/* A rank of this node, as it announced itself on arrival. */
struct local {
    const unsigned char *in; /* its input here; NULL: in its slots */
};

struct state {
    uint64_t base;                       /* chunks of this channel before this collective */
    size_t chunk, chunks;                /* elements of one; how many */
    size_t unit;                         /* elements of a cache line: cuts are there */
    size_t result_bytes;                 /* of one result slot */
    int arrived;                         /* local ranks below have */
    int is_private;                      /* this rank's input */
    size_t filled, reduced, done, taken; /* chunks of this rank */
    struct halay_cursor filling, reducing, taking;
    size_t inner_bytes; /* of scratch, for one strip of a chunk */
    /* In scratch after those: */
    const void **src; /* [local] */
    struct local *local;
};

/* An all-reduce of one strip of a chunk between its owners: in scratch, state and scratch of its own after it. */
struct inner {
    struct halay_coll coll;
    int is_busy;
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static const struct halay_nodes *nodes_of(const struct halay_coll *c)
{
    return c->group->nodes;
}

/* ---- how it is cut ---- */

static size_t chunk_elements(const struct halay_coll *c)
{
    size_t bytes = halay_nodes_chunk(c->out.count * c->element);

    return bytes / c->element < c->out.count ? bytes / c->element : c->out.count;
}

static size_t unit_of(const struct halay_coll *c)
{
    return HALAY_CACHE_LINE / c->element;
}

static size_t chunk_start(const struct state *s, size_t k)
{
    return k * s->chunk;
}

static size_t chunk_length(const struct halay_coll *c, size_t k)
{
    const struct state *s = c->state;
    size_t left = c->out.count - chunk_start(s, k);

    return left < s->chunk ? left : s->chunk;
}

/* Returns a local rank's block of chunk k, within the chunk. */
static struct halay_span block_of(const struct halay_coll *c, int local, size_t k)
{
    const struct state *s = c->state;

    return halay_node_block_span(local, nodes_of(c)->locals, chunk_length(c, k), s->unit);
}

/* Returns a strip of this rank's block of a chunk of `length` elements, within the chunk. */
static struct halay_span strip_of(const struct halay_coll *c, int index, size_t length)
{
    const struct halay_strip *strip = &nodes_of(c)->strip[index];
    size_t from = halay_cut_at(strip->from, length, unit_of(c));

    return (struct halay_span){ from, halay_cut_at(strip->to, length, unit_of(c)) - from };
}

/* ---- slots ---- */

static size_t slot_number(const struct state *s, size_t k)
{
    return (size_t)((s->base + k) % DEPTH);
}

static unsigned char *input_slot(const struct halay_coll *c, int local, size_t k)
{
    return shared_slots(c, nodes_of(c)->rank[local]) + slot_number(c->state, k) * CHUNK_MAX;
}

static unsigned char *result_slot(const struct halay_coll *c, int local, size_t k)
{
    const struct state *s = c->state;
    size_t inputs = nodes_of(c)->locals > 1 ? (size_t)DEPTH * CHUNK_MAX : 0;

    return shared_slots(c, nodes_of(c)->rank[local]) + inputs + slot_number(s, k) * s->result_bytes;
}

static void publish_number(struct halay_coll *c, _Atomic uint64_t *number, uint64_t value)
{
    const struct halay_nodes *nodes = nodes_of(c);

    atomic_store_explicit(number, value, memory_order_release);
    for (int i = 0; i < nodes->locals; i++)
        if (i != nodes->local)
            halay_group_notify(c->group, nodes->rank[i]);
}

static struct halay_area *area_of(const struct halay_coll *c, int local)
{
    return shared_area(c, nodes_of(c)->rank[local]);
}

/* Returns nonzero if all ranks of this node have counted to that value. of: the number's offset in an area. */
static int all_have(const struct halay_coll *c, size_t of, uint64_t value)
{
    for (int i = 0; i < nodes_of(c)->locals; i++) {
        _Atomic uint64_t *number = (_Atomic uint64_t *)(void *)((unsigned char *)area_of(c, i) + of);
        if (!shared_has_reached(number, value))
            return 0;
    }
    return 1;
}

/* Returns nonzero if slot number k may be used again: all have counted what was in it before. */
static int is_free(const struct halay_coll *c, size_t of, size_t k)
{
    const struct state *s = c->state;

    return s->base + k < DEPTH || all_have(c, of, s->base + k + 1 - DEPTH);
}

/* ---- the all-reduces between nodes ---- */

static size_t inner_header(void)
{
    return halay_round_up(sizeof(struct inner), HALAY_CACHE_LINE);
}

static size_t inner_state(const struct halay_coll *c)
{
    return halay_round_up(halay_algorithm_state_max(nodes_of(c)->count, HALAY_SHARES_NONE), HALAY_CACHE_LINE);
}

/* Chooses by the time of all chunks together, not of one alone. */
static const struct halay_algorithm *inner_algorithm(const struct halay_coll *c, size_t bytes)
{
    struct halay_select_query whole =
        halay_choice_query(c->group, HALAY_COLL_ALLREDUCE, c->out.count * c->element, c->dtype);
    struct halay_select_query query = halay_select_between(&whole, chunk_elements(c) * c->element);

    query.bytes = bytes;
    return halay_select(&query, NULL, 0);
}

/* Chooses for a strip of a whole chunk; a shorter last chunk uses the same algorithm. */
static void make_inner(const struct halay_coll *c, int index, size_t count, struct halay_coll *inner)
{
    const struct halay_strip *strip = &nodes_of(c)->strip[index];
    size_t whole = strip_of(c, index, chunk_elements(c)).length;

    *inner = *c;
    inner->members = strip->owners;
    inner->rank = nodes_of(c)->node;
    inner->size = nodes_of(c)->count;
    inner->algorithm = inner_algorithm(c, whole * c->element);
    inner->ops = inner->algorithm->ops;
    inner->bytes = count * c->element;
    coll_set_array(inner, NULL, count);
}

static size_t inner_scratch(const struct halay_coll *c, int index)
{
    struct halay_coll inner;
    size_t whole = strip_of(c, index, chunk_elements(c)).length;

    if (!whole)
        return 0;
    make_inner(c, index, whole, &inner);
    return inner.ops->scratch_bytes ? halay_round_up(inner.ops->scratch_bytes(&inner), HALAY_CACHE_LINE) : 0;
}

/* Returns the bytes for one strip of a chunk: the longest one's. */
static size_t inner_bytes(const struct halay_coll *c)
{
    size_t most = 0;

    for (int i = 0; i < nodes_of(c)->strips; i++) {
        size_t bytes = inner_scratch(c, i);
        most = bytes > most ? bytes : most;
    }
    return inner_header() + inner_state(c) + most;
}

static size_t lanes_bytes(const struct halay_coll *c)
{
    return DEPTH * (size_t)nodes_of(c)->strips * inner_bytes(c);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return lanes_bytes(c) + (size_t)nodes_of(c)->locals * (sizeof(struct local) + sizeof(void *));
}

static struct inner *inner_of(const struct halay_coll *c, size_t k, int index)
{
    const struct state *s = c->state;
    size_t number = k % DEPTH * (size_t)nodes_of(c)->strips + (size_t)index;

    return (struct inner *)(void *)(c->scratch + number * s->inner_bytes);
}

static void start_inner(struct halay_coll *c, size_t k, int index)
{
    struct inner *x = inner_of(c, k, index);
    struct halay_span mine = block_of(c, nodes_of(c)->local, k);
    struct halay_span span = strip_of(c, index, chunk_length(c, k));

    x->is_busy = 0;
    if (!span.length)
        return;
    make_inner(c, index, span.length, &x->coll);
    x->coll.out_piece.data = result_slot(c, nodes_of(c)->local, k) + (span.start - mine.start) * c->element;
    x->coll.tag |=
        (uint32_t)(k % DEPTH * HALAY_STRIPS_MAX + (size_t)nodes_of(c)->strip[index].index) * HALAY_COLL_INNER_TAGS;
    x->coll.state = (unsigned char *)x + inner_header();
    x->coll.scratch = (unsigned char *)x->coll.state + inner_state(c);
    coll_clear_state(&x->coll);
    x->is_busy = 1;
    x->coll.ops->start(&x->coll);
}

/* ---- the stages ---- */

static void hierarchical_start(struct halay_coll *c)
{
    const struct halay_nodes *nodes = nodes_of(c);
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);
    size_t row = c->out.count * c->element;

    s->chunk = chunk_elements(c);
    s->chunks = halay_span_cuts(c->out.count, s->chunk);
    s->unit = unit_of(c);
    size_t units = halay_span_cuts(s->chunk, s->unit), locals = (size_t)nodes->locals;
    s->result_bytes = (units / locals + (units % locals != 0)) * HALAY_CACHE_LINE;
    s->inner_bytes = inner_bytes(c);
    s->local = (struct local *)(void *)(c->scratch + lanes_bytes(c));
    s->src = (const void **)(void *)(s->local + locals);
    memset(s->local, 0, locals * sizeof *s->local);
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    area->in_offset = c->in.piece_count == 1 && !c->in.is_converted ? shared_locate(c, coll_in(c), row) : HALAY_PRIVATE;
    s->is_private = area->in_offset == HALAY_PRIVATE;
    publish_number(c, &area->arrived, s->base + 1);
}

static void fill_slot(struct halay_coll *c)
{
    struct state *s = c->state;
    int me = nodes_of(c)->local;
    size_t k = s->filled, start = chunk_start(s, k), length = chunk_length(c, k);
    struct halay_span mine = block_of(c, me, k);
    size_t after = mine.start + mine.length;
    unsigned char *slot = input_slot(c, me, k);

    if (mine.start)
        halay_vector_pack(&c->in, &s->filling, start, mine.start, slot);
    if (after < length)
        halay_vector_pack(&c->in, &s->filling, start + after, length - after, slot + after * c->element);
    s->filled++;
    publish_number(c, &shared_mine(c)->filled, s->base + s->filled);
    coll_advanced(c);
}

static enum halay_status reach_all(struct halay_coll *c)
{
    struct state *s = c->state;
    const struct halay_nodes *nodes = nodes_of(c);

    for (; s->arrived < nodes->locals; s->arrived++) {
        const struct halay_area *area = area_of(c, s->arrived);
        if (s->arrived == nodes->local)
            continue;
        if (!shared_has_reached(&area_of(c, s->arrived)->arrived, s->base + 1))
            return HALAY_IN_PROGRESS;
        if (area->in_offset == HALAY_PRIVATE)
            continue;
        const void *in = shared_reach(c, nodes->rank[s->arrived], area->in_offset, c->out.count * c->element);
        if (!in)
            return shared_reach_failed(c, nodes->rank[s->arrived]);
        s->local[s->arrived].in = in;
    }
    return HALAY_OK;
}

static int all_are_there(const struct halay_coll *c)
{
    const struct state *s = c->state;

    for (int i = 0; i < nodes_of(c)->locals; i++)
        if (i != nodes_of(c)->local && !s->local[i].in &&
            !shared_has_reached(&area_of(c, i)->filled, s->base + s->reduced + 1))
            return 0;
    return 1;
}

/* Returns nonzero if a rank whose input is read in place has given up, so that it may hold anything by now. */
static int is_withdrawn(const struct halay_coll *c)
{
    const struct state *s = c->state;

    for (int i = 0; i < nodes_of(c)->locals; i++)
        if (s->local[i].in && shared_is_abandoned(c, nodes_of(c)->rank[i]))
            return 1;
    return 0;
}

/* Returns this rank's own input from element `at` on, *run elements of it: where it is, or converted into bounce. */
static const void *own_input(const struct halay_coll *c, size_t at, size_t most, unsigned char *bounce, size_t *run)
{
    struct state *s = c->state;

    if (!c->in.is_converted)
        return halay_vector_run(&c->in, &s->reducing, at, most, run);
    *run = most < HALAY_BOUNCE_BYTES / c->element ? most : HALAY_BOUNCE_BYTES / c->element;
    halay_vector_pack(&c->in, &s->reducing, at, *run, bounce);
    return bounce;
}

/* Reduces the own block of chunk number `reduced`, of all inputs of this node. */
static void reduce_block(struct halay_coll *c)
{
    _Alignas(HALAY_CACHE_LINE) unsigned char bounce[HALAY_BOUNCE_BYTES];
    struct state *s = c->state;
    const struct halay_nodes *nodes = nodes_of(c);
    size_t k = s->reduced, start = chunk_start(s, k), run;
    struct halay_span mine = block_of(c, nodes->local, k);

    for (size_t done = 0; done < mine.length; done += run) {
        size_t at = mine.start + done;
        void *dst = result_slot(c, nodes->local, k) + done * c->element;
        s->src[nodes->local] = own_input(c, start + at, mine.length - done, bounce, &run);
        for (int i = 0; i < nodes->locals; i++)
            if (i != nodes->local)
                s->src[i] =
                    s->local[i].in ? s->local[i].in + (start + at) * c->element : input_slot(c, i, k) + at * c->element;
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, nodes->locals, run, 1);
    }
}

/* Not done if an input was withdrawn meanwhile: the next check of the peers finds out by which rank. */
static void reduce_chunk(struct halay_coll *c)
{
    struct state *s = c->state;

    if (is_withdrawn(c))
        return;
    reduce_block(c);
    halay_full_fence(); /* the reading before the look */
    if (is_withdrawn(c))
        return;
    for (int i = 0; i < nodes_of(c)->strips; i++)
        start_inner(c, s->reduced, i);
    s->reduced++;
    coll_advanced(c);
}

static enum halay_status drive_inner(struct inner *x)
{
    enum halay_status status = x->is_busy ? x->coll.ops->progress(&x->coll) : HALAY_OK;

    if (status == HALAY_OK)
        x->is_busy = 0;
    return status;
}

/* Drives all chunks between nodes, then counts those that are complete, in order. */
static enum halay_status drive_between(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t complete = s->done;

    for (size_t k = s->done; k < s->reduced; k++) {
        int busy = 0;
        for (int i = 0; i < nodes_of(c)->strips; i++) {
            enum halay_status status = drive_inner(inner_of(c, k, i));
            if (status != HALAY_OK && status != HALAY_IN_PROGRESS)
                return status;
            busy |= status == HALAY_IN_PROGRESS;
        }
        complete += !busy && complete == k;
    }
    if (complete > s->done) {
        s->done = complete;
        publish_number(c, &shared_mine(c)->done, s->base + s->done);
        coll_advanced(c);
    }
    return HALAY_OK;
}

static void take_chunk(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t k = s->taken;

    for (int i = 0; i < nodes_of(c)->locals; i++) {
        struct halay_span span = block_of(c, i, k);
        if (span.length)
            halay_vector_unpack(&c->out, &s->taking, chunk_start(s, k) + span.start, span.length, result_slot(c, i, k));
    }
    s->taken++;
    publish_number(c, &shared_mine(c)->taken, s->base + s->taken);
    coll_advanced(c);
}

static enum halay_status hierarchical_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    const struct halay_nodes *nodes = nodes_of(c);
    enum halay_status status = HALAY_OK;

    if (s->is_private && nodes->locals > 1 && s->filled < s->chunks &&
        is_free(c, offsetof(struct halay_area, done), s->filled))
        fill_slot(c);
    if (s->arrived < nodes->locals)
        status = reach_all(c);
    if (status == HALAY_OK && s->reduced < s->chunks && s->reduced < s->done + DEPTH && all_are_there(c) &&
        is_free(c, offsetof(struct halay_area, taken), s->reduced))
        reduce_chunk(c);
    if (status == HALAY_OK)
        status = drive_between(c);
    if (status != HALAY_OK)
        return status;
    if (s->taken < s->chunks && all_have(c, offsetof(struct halay_area, done), s->base + s->taken + 1))
        take_chunk(c);
    return s->taken == s->chunks ? HALAY_OK : HALAY_IN_PROGRESS;
}

static void hierarchical_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (size_t k = s->done; k < s->reduced; k++)
        for (int i = 0; i < nodes_of(c)->strips; i++) {
            struct inner *x = inner_of(c, k, i);
            if (x->is_busy && x->coll.ops->cancel)
                x->coll.ops->cancel(&x->coll);
        }
}

const struct halay_algorithm_ops halay_allreduce_hierarchical = {
    .tags = OWN_TAGS,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = hierarchical_start,
    .progress = hierarchical_progress,
    .cancel = hierarchical_cancel,
};
