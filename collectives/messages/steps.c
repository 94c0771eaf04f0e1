/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs algorithms that are schedules (schedule/step.h).
 *
 * Lane i takes chunks i, i + lanes, ...; a chunk is the same span of every block, or a span of the vector that is cut
 * into blocks. Each lane walks through the steps once a chunk, independently of the others: while one waits for a
 * message, another adds. Of a lane's steps a window is under way:
 *
 *     done | posted, done, waiting, posted ... (WINDOW) | not looked at
 *          head                                         ahead
 *
 * A buffer holds elements as they are added: f32 for f16 and bf16 where the algorithm is wide. f16 and bf16 that arrive
 * as they are go to the upper half of their buffer, and are widened from there to its beginning.
 */
#include "collectives/messages/steps.h"
#include "base/memory.h"
#include "collectives/group/channel.h"
#include <string.h>

enum { WINDOW = HALAY_STEP_WINDOW, LANES = HALAY_STEP_LANES, BUFFERS = HALAY_STEP_BUFFERS, WIDENED = 1024 };

enum entry_state { WAITING, POSTED, DONE };

struct entry {
    struct halay_step step;   /* as it is run */
    struct halay_step merged; /* with IN as OUT in place: what waits for what */
    struct halay_span span;   /* elements of the vector */
    enum entry_state state;
    unsigned char token; /* where a token is sent from or received into */
    struct halay_transfer transfer;
};

struct lane {
    size_t chunk; /* >= chunks: nothing left to do */
    int head, ahead;
    int is_ended; /* `ahead` is the last step's successor */
};

struct state {
    struct halay_place place;
    int tokens; /* still to be received before anything goes to the output */
    int blocks, is_wide, is_aliased;
    size_t length; /* elements of a chunk */
    size_t chunks;
    size_t wide;       /* bytes of an element in a buffer */
    size_t lane_bytes; /* of scratch */
    struct lane lanes[LANES];
    /* From here on not cleared at the start. */
    size_t buffer_at[BUFFERS];     /* in a lane's scratch */
    size_t filled[LANES][BUFFERS]; /* the first element of what a buffer holds */
    struct entry entries[LANES][WINDOW];
};

size_t halay_steps_state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

static const struct halay_schedule *schedule_of(const struct halay_coll *c)
{
    return c->ops->schedule;
}

/* ---- how the vector is cut ---- */

static int has_rank_blocks(enum halay_coll_kind operation)
{
    return operation == HALAY_COLL_REDUCE_SCATTER || operation == HALAY_COLL_ALLGATHER ||
           operation == HALAY_COLL_ALLTOALL;
}

static size_t longest_block(const struct halay_coll *c, int blocks)
{
    if (schedule_of(c)->cut == HALAY_CUT_CHUNKS)
        return c->in.count;
    if (!has_rank_blocks(c->operation))
        return halay_block_span(c->in.count, blocks, 0).length;
    size_t longest = coll_longest_block(c);
    for (int r = 0; c->operation == HALAY_COLL_ALLTOALL && r < c->size; r++) {
        size_t length = c->in_starts[r + 1] - c->in_starts[r];
        longest = length > longest ? length : longest;
    }
    return longest;
}

static size_t cut_length(const struct halay_coll *c, size_t longest)
{
    const struct halay_schedule *by = schedule_of(c);
    size_t most = (size_t)by->multiple * c->group->world->config.chunk_bytes / c->element;
    size_t length = longest / (size_t)by->lanes, least = by->least / c->element;

    if (by->cut == HALAY_CUT_WHOLE)
        return longest ? longest : 1;
    length = length > least ? length : least;
    length = length < most ? length : most;
    length = length < longest ? length : longest;
    return length ? length : 1;
}

static struct halay_span blocks_span(size_t count, int of, int block, int blocks)
{
    struct halay_span first = halay_block_span(count, of, block), last = first;

    if (blocks > 1)
        last = halay_block_span(count, of, block + blocks - 1);
    return (struct halay_span){ .start = first.start, .length = last.start + last.length - first.start };
}

static struct halay_span span_of(const struct halay_coll *c, const struct halay_step *step, size_t chunk)
{
    const struct state *s = c->state;
    const struct halay_schedule *by = schedule_of(c);

    if (!step->blocks)
        return (struct halay_span){ .length = 0 };
    if (by->cut == HALAY_CUT_CHUNKS) {
        struct halay_span all = halay_span_cut((struct halay_span){ .length = c->in.count }, s->length, chunk);
        struct halay_span span = blocks_span(all.length, s->blocks, step->block, step->blocks);
        span.start += all.start;
        return span;
    }
    if (!has_rank_blocks(c->operation))
        return halay_span_cut(halay_block_span(c->in.count, s->blocks, step->block), s->length, chunk);
    const size_t *starts = step->what == HALAY_GIVE && c->operation == HALAY_COLL_ALLTOALL ? c->in_starts : c->starts;
    struct halay_span blocks = { .start = starts[step->block],
                                 .length = starts[step->block + step->blocks] - starts[step->block] };
    return by->cut == HALAY_CUT_WHOLE ? blocks : halay_span_cut(blocks, s->length, chunk);
}

/* ---- where data are ---- */

static int is_wide(const struct halay_coll *c)
{
    return c->algorithm->flags & HALAY_ALGORITHM_WIDE && c->reducer->widen[c->dtype];
}

static struct halay_place place_of(const struct halay_coll *c)
{
    return (struct halay_place){ .ranks = c->size,
                                 .rank = c->rank,
                                 .root = c->root,
                                 .bits = schedule_of(c)->bits,
                                 .operation = c->operation,
                                 .is_in_place = c->in.count && c->out.count && coll_in(c) == coll_out(c) };
}

static int blocks_of(const struct halay_coll *c)
{
    return schedule_of(c)->blocks ? schedule_of(c)->blocks(c->size) : c->size;
}

/* Returns the bytes of a lane's buffers; at: where each begins, or NULL. */
static size_t lay_out(const struct halay_coll *c, const struct halay_place *place, size_t *at)
{
    const struct halay_schedule *by = schedule_of(c);
    int blocks = blocks_of(c), held;
    size_t longest = longest_block(c, blocks), length = cut_length(c, longest), bytes = 0;
    size_t block = by->cut == HALAY_CUT_CHUNKS ? halay_block_span(length, blocks, 0).length : length;
    size_t element = is_wide(c) ? sizeof(float) : c->element;

    for (int i = 0; by->buffer && i < BUFFERS && (held = by->buffer(place, i)) > 0; i++) {
        size_t elements = (size_t)held * block;
        if (by->cut == HALAY_CUT_CHUNKS && elements > length)
            elements = length;
        if (at)
            at[i] = bytes;
        bytes += halay_round_up(elements * element, HALAY_CACHE_LINE);
    }
    return bytes;
}

size_t halay_steps_scratch_bytes(const struct halay_coll *c)
{
    struct halay_place place = place_of(c);

    if (!schedule_of(c)->buffer)
        return 0;
    return (size_t)schedule_of(c)->lanes * lay_out(c, &place, NULL);
}

static unsigned char *buffer_of(const struct halay_coll *c, int lane, int buffer)
{
    const struct state *s = c->state;

    return c->scratch + (size_t)lane * s->lane_bytes + s->buffer_at[buffer];
}

static unsigned char *out_at(const struct halay_coll *c, struct halay_span span)
{
    size_t base = c->operation == HALAY_COLL_REDUCE_SCATTER ? c->starts[c->rank] : 0;

    return coll_out(c) + span.start * c->element - base * c->element;
}

/* Returns the elements of a span, wherever they are: read only if they are the input. */
static unsigned char *data_at(const struct halay_coll *c, int lane, int buffer, struct halay_span span)
{
    const struct state *s = c->state;

    if (buffer == HALAY_STEP_IN)
        return (unsigned char *)(uintptr_t)coll_in(c) + span.start * c->element;
    if (buffer == HALAY_STEP_OUT)
        return out_at(c, span);
    return buffer_of(c, lane, buffer) + (span.start - s->filled[lane][buffer]) * s->wide;
}

/* ---- what has arrived ---- */

/* f16 and bf16 that arrived unwidened, after the place where they will be f32. */
static unsigned char *raw_at(const struct halay_coll *c, unsigned char *buffer, size_t count)
{
    const struct state *s = c->state;

    return buffer + count * (s->wide - c->element);
}

/* An operand: as its rank sent it, or f32. */
struct operand {
    const unsigned char *data;
    int is_raw;
};

static const float *operand_widened(const struct halay_coll *c, struct operand o, size_t at, size_t count, float *block)
{
    if (!o.is_raw)
        return (const float *)(const void *)o.data + at;
    c->reducer->widen[c->dtype](block, o.data + at * c->element, count);
    return block;
}

/* Adds in blocks from the beginning on: a block of f32 ends before the raw elements that are still to be read. */
static void add_wide(const struct halay_coll *c, float *sum, struct operand left, struct operand right, size_t count)
{
    float a[WIDENED], b[WIDENED];

    for (size_t at = 0; at < count; at += WIDENED) {
        size_t n = count - at < WIDENED ? count - at : WIDENED;
        const void *src[2] = { operand_widened(c, left, at, n, a), operand_widened(c, right, at, n, b) };
        void *to = sum + at;
        c->reducer->reduce[HALAY_F32][c->op](&to, 1, src, 2, n, 1);
    }
}

/* Stores the total of f32 sums. */
static void round_out(const struct halay_coll *c, float *sum, size_t count, unsigned char *out)
{
    void *dst = sum;
    const void *src = sum;

    if (c->divisor > 1)
        c->reducer->reduce[HALAY_F32][c->op](&dst, 1, &src, 1, count, c->divisor);
    c->reducer->narrow[c->dtype](out, sum, count);
}

static void step_add(const struct halay_coll *c, int lane, const struct entry *e)
{
    const struct state *s = c->state;
    const struct halay_step *step = &e->step;
    unsigned char *buffer = data_at(c, lane, step->buffer, e->span);
    size_t count = e->span.length;
    int is_raw = s->is_wide && step->is_raw;
    struct operand theirs = { is_raw ? raw_at(c, buffer, count) : buffer, is_raw };
    struct operand mine = { data_at(c, lane, step->own, e->span), s->is_wide && step->own < 0 };
    struct operand left = step->what == HALAY_ADD_LEFT ? theirs : mine;
    struct operand right = step->what == HALAY_ADD_LEFT ? mine : theirs;

    if (!count)
        return;
    if (!s->is_wide) {
        coll_reduce2(c, step->is_last ? out_at(c, e->span) : buffer, left.data, right.data, count, step->is_last);
        return;
    }
    float *sum = (float *)(void *)buffer;
    add_wide(c, sum, left, right, count);
    if (step->is_last)
        round_out(c, sum, count, out_at(c, e->span));
}

static void step_place(const struct halay_coll *c, int lane, const struct entry *e)
{
    const struct state *s = c->state;
    const struct halay_step *step = &e->step;
    size_t bytes = e->span.length * c->element;

    if (!bytes)
        return;
    if (!halay_step_has_message(step, c->rank)) {
        unsigned char *to = out_at(c, e->span);
        const unsigned char *from = coll_in(c) + c->in_starts[step->block] * c->element;
        from += (e->span.start - c->starts[step->block]) * c->element;
        size_t in_length = c->in_starts[step->block + 1] - c->in_starts[step->block];
        if (to != from && in_length)
            memcpy(to, from, bytes);
    } else if (step->is_last && step->buffer >= 0) {
        memcpy(out_at(c, e->span), data_at(c, lane, step->buffer, e->span), bytes);
    } else if (step->buffer >= 0 && step->is_raw && s->is_wide) {
        unsigned char *buffer = data_at(c, lane, step->buffer, e->span);
        for (size_t at = 0, n; at < e->span.length; at += n) {
            float block[WIDENED];
            n = e->span.length - at < WIDENED ? e->span.length - at : WIDENED;
            c->reducer->widen[c->dtype](block, raw_at(c, buffer, e->span.length) + at * c->element, n);
            memcpy((float *)(void *)buffer + at, block, n * sizeof *block);
        }
    }
}

/* ---- steps ---- */

static struct entry *entry_of(const struct halay_coll *c, int lane, int index)
{
    struct state *s = c->state;

    return &s->entries[lane][index % WINDOW];
}

static void lane_look_ahead(struct halay_coll *c, int number)
{
    struct state *s = c->state;
    struct lane *lane = &s->lanes[number];

    while (!lane->is_ended && lane->ahead < lane->head + WINDOW) {
        struct entry *e = entry_of(c, number, lane->ahead);
        s->place.is_first = !lane->chunk;
        e->step = (struct halay_step){ .own = HALAY_STEP_IN };
        if (!schedule_of(c)->steps(&s->place, lane->ahead, &e->step)) {
            lane->is_ended = 1;
            break;
        }
        e->merged = e->step;
        if (s->is_aliased)
            halay_step_merge(&e->merged);
        e->span = span_of(c, &e->step, lane->chunk);
        e->state = WAITING;
        e->transfer.is_optional = 0;
        atomic_store_explicit(&e->transfer.state, HALAY_TRANSFER_IDLE, memory_order_relaxed);
        lane->ahead++;
    }
}

/* Returns nonzero if an earlier step holds the message (or the result) of step `index`. */
static int step_is_held(const struct halay_coll *c, int number, int index, int is_result)
{
    const struct state *s = c->state;
    const struct halay_step *step = &entry_of(c, number, index)->merged;

    for (int j = s->lanes[number].head; j < index; j++) {
        const struct entry *e = entry_of(c, number, j);
        if (e->state == DONE)
            continue;
        if (is_result ? halay_step_holds_result(&e->merged, step)
                      : halay_step_holds_post(&e->merged, e->state == POSTED, step))
            return 1;
    }
    return 0;
}

static void step_post(struct halay_coll *c, int number, struct entry *e)
{
    struct state *s = c->state;
    const struct halay_step *step = &e->step;
    uint32_t tag = (uint32_t)(number * HALAY_STEP_TAGS + step->tag);

    e->state = POSTED;
    if (!halay_step_has_message(step, c->rank))
        return;
    int is_partial = s->is_wide && (step->what == HALAY_GIVE ? step->buffer >= 0 : !step->is_raw && step->buffer >= 0);
    size_t bytes = e->span.length * (is_partial ? s->wide : c->element);
    unsigned char *data = &e->token;
    if (step->block == HALAY_STEP_TOKEN) {
        bytes = 1;
    } else if (step->what == HALAY_GIVE || step->buffer < 0) {
        data = data_at(c, number, step->buffer, e->span);
    } else {
        s->filled[number][step->buffer] = e->span.start;
        data = buffer_of(c, number, step->buffer);
        if (!is_partial && s->is_wide)
            data = raw_at(c, data, e->span.length);
    }
    if (step->what == HALAY_GIVE)
        coll_send(c, step->peer, tag, data, bytes, &e->transfer);
    else
        coll_recv(c, step->peer, tag, data, bytes, &e->transfer);
}

/* Returns nonzero if the step is done now. *has_added: it was work. */
static int step_finish(struct halay_coll *c, int number, int index, int *has_added)
{
    struct state *s = c->state;
    struct entry *e = entry_of(c, number, index);

    if (!coll_is_settled(&e->transfer))
        return 0;
    if (e->step.what != HALAY_GIVE) {
        int is_work = halay_step_adds(&e->step) || e->step.buffer >= 0 || !halay_step_has_message(&e->step, c->rank);
        if (is_work && (*has_added || (e->step.is_last && s->tokens) || step_is_held(c, number, index, 1)))
            return 0;
        s->tokens -= halay_step_takes_token(&e->step);
        *has_added |= is_work;
        if (halay_step_adds(&e->step))
            step_add(c, number, e);
        else
            step_place(c, number, e);
    }
    e->state = DONE;
    return 1;
}

/* Posts what can be posted and finishes what has arrived, but adds once only: a bounded piece of work. */
static void lane_advance(struct halay_coll *c, int number)
{
    struct state *s = c->state;
    struct lane *lane = &s->lanes[number];
    int has_added = 0, further;

    do {
        further = 0;
        lane_look_ahead(c, number);
        for (int i = lane->head; i < lane->ahead; i++) {
            struct entry *e = entry_of(c, number, i);
            if (e->state == WAITING && !step_is_held(c, number, i, 0)) {
                step_post(c, number, e);
                further |= e->step.what == HALAY_GIVE;
            }
            if (e->state == POSTED)
                further |= step_finish(c, number, i, &has_added);
        }
        while (lane->head < lane->ahead && entry_of(c, number, lane->head)->state == DONE)
            lane->head++;
        if (further)
            coll_advanced(c);
    } while (further && lane->head < lane->ahead);
    if (lane->is_ended && lane->head == lane->ahead) {
        lane->chunk += (size_t)schedule_of(c)->lanes; /* the same lane takes the same chunks on every rank */
        lane->head = lane->ahead = lane->is_ended = 0;
    }
}

void halay_steps_start(struct halay_coll *c)
{
    struct state *s = c->state;
    const struct halay_schedule *by = schedule_of(c);

    memset(s, 0, offsetof(struct state, buffer_at));
    s->place = place_of(c);
    s->blocks = blocks_of(c);
    s->is_wide = is_wide(c);
    s->wide = s->is_wide ? sizeof(float) : c->element;
    s->is_aliased = s->place.is_in_place;
    if (c->operation == HALAY_COLL_REDUCE_SCATTER)
        s->is_aliased = coll_in(c) + c->starts[c->rank] * c->element == coll_out(c);
    if (c->operation != HALAY_COLL_BARRIER) {
        size_t longest = longest_block(c, s->blocks);
        s->length = cut_length(c, longest);
        s->chunks = halay_span_cuts(longest, s->length);
        if (by->has_tokens) {
            s->chunks = s->chunks ? s->chunks : 1;
            s->tokens = 32 - __builtin_clz((unsigned)c->size - 1);
        }
        s->lane_bytes = lay_out(c, &s->place, s->buffer_at);
    } else {
        s->chunks = 1;
    }
    for (int i = 0; i < by->lanes; i++)
        s->lanes[i].chunk = (size_t)i;
    if (c->operation == HALAY_COLL_ALLGATHER && c->in.count) {
        unsigned char *mine = coll_out(c) + c->starts[c->rank] * c->element;
        if (coll_in(c) != mine)
            memcpy(mine, coll_in(c), c->in.count * c->element);
    }
    for (int i = 0; i < by->lanes; i++)
        if (s->lanes[i].chunk < s->chunks)
            lane_advance(c, i);
}

enum halay_status halay_steps_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (int i = 0; i < schedule_of(c)->lanes; i++) {
        if (s->lanes[i].chunk < s->chunks)
            lane_advance(c, i);
        busy |= s->lanes[i].chunk < s->chunks;
    }
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

void halay_steps_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int i = 0; i < schedule_of(c)->lanes; i++)
        for (int k = s->lanes[i].head; k < s->lanes[i].ahead; k++)
            coll_take_back(c, &entry_of(c, i, k)->transfer);
}
