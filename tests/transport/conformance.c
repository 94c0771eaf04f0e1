/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance: the cases. Every byte of a message follows from (sender, receiver, tag, number), so that what arrives in
 * the wrong place, twice or not at all is seen. Waiting spins for a while, then yields or sleeps as the transport can;
 * a test that hangs is ended by the alarm of its program.
 */
#include "conformance.h"
#include "../test.h"
#include <sched.h>
#include <string.h>

#include <pthread.h>

enum {
    TAG_ANY_CASE = 7,
    FORGOTTEN = 200,
    FORGOTTEN_GROUP = 0x7edcba80
}; /* first tag of the cases; each adds its own */

static size_t large_of(const struct conformance *c)
{
    return c->large ? c->large : (size_t)3 << 20;
}

/* ---- what messages hold ---- */

enum { BLOCK = 256 };

/* The four bytes at 4 i. */
static uint32_t word_of(uint32_t key, size_t i)
{
    uint32_t x = key + (uint32_t)i * 2654435761u;

    return x ^ x >> 15;
}

static uint32_t key_of(int from, int to, uint64_t tag, unsigned number)
{
    return (uint32_t)from * 1000003u + (uint32_t)to * 10007u + tag * 101u + number * 7919u + 1;
}

/* Blocks, not words: a sanitizer looks at each access. What begins at byte `at` of a message; returns its bytes. */
static size_t block_make(uint32_t block[BLOCK], size_t bytes, size_t at, uint32_t key)
{
    size_t left = bytes - at;

    for (size_t i = 0; i < BLOCK; i++)
        block[i] = word_of(key, at / 4 + i);
    return left < 4 * BLOCK ? left : 4 * BLOCK;
}

static void fill(unsigned char *buf, size_t bytes, uint32_t key)
{
    uint32_t block[BLOCK];

    for (size_t at = 0, n; at < bytes; at += n) {
        n = block_make(block, bytes, at, key);
        memcpy(buf + at, block, n);
    }
}

static int holds(const unsigned char *buf, size_t bytes, uint32_t key)
{
    uint32_t block[BLOCK];

    for (size_t at = 0, n; at < bytes; at += n) {
        n = block_make(block, bytes, at, key);
        if (memcmp(buf + at, block, n) != 0)
            return 0;
    }
    return 1;
}

static unsigned char *make(size_t bytes, uint32_t key)
{
    unsigned char *buf = malloc(bytes ? bytes : 1);

    REQUIRE(buf);
    fill(buf, bytes, key);
    return buf;
}

/* ---- waiting ---- */

/* Progress until the transfer is done; the first error ends it. */
static enum halay_status finish(struct conformance *c, struct halay_transfer *x)
{
    enum halay_status status = HALAY_OK;

    for (unsigned i = 0; !halay_transfer_is_done(x); i++) {
        status = c->link->ops->progress(c->link);
        if (status != HALAY_OK)
            break;
        if (halay_transfer_is_done(x))
            break;
        if (i % 64 != 63)
            continue;
        uint32_t token = halay_bell_arm(c->bell);
        status = c->link->ops->progress(c->link);
        if (status != HALAY_OK || halay_transfer_is_done(x)) {
            halay_bell_disarm(c->bell);
            break;
        }
        conformance_sleep(c->link, c->bell, token, -1);
    }
    return status;
}

/* Also takes the transfer back after a failure: its buffer is about to be freed. */
static void finish_ok(struct conformance *c, struct halay_transfer *x)
{
    enum halay_status status = finish(c, x);

    if (!CHECK(status == HALAY_OK, "rank %d: %s (seed %u)", c->link->rank, halay_status_string(status), c->seed))
        c->link->ops->cancel(c->link, x);
}

/* All ranks are here: a message each way between all pairs, so that transports without memory are driven too. */
static void synchronize(struct conformance *c, uint64_t tag)
{
    int n = c->link->size, me = c->link->rank;
    unsigned char out = 1, *in = make((size_t)n, 0);
    struct halay_transfer *x = calloc((size_t)n * 2, sizeof *x);

    REQUIRE(x);
    for (int r = 0; r < n; r++)
        if (r != me) {
            c->link->ops->recv(c->link, r, tag, &in[r], 1, &x[r]);
            c->link->ops->send(c->link, r, tag, &out, 1, &x[n + r]);
        }
    for (int i = 0; i < 2 * n; i++)
        if (i % n != me)
            finish_ok(c, &x[i]);
    free(x);
    free(in);
}

/* Some of them differ in the number of the group only, which has all its bits. */
static uint64_t tag_at(uint32_t own)
{
    return halay_tag(0xfedcba90 + own % 4, HALAY_CHANNELS - 1, own / 4);
}

/* ---- cases ---- */

/* All pairs at once, sizes around the limits of chunks and pages, receive first and send first. */
static void case_sizes(struct conformance *c)
{
    static const size_t sizes[] = { 1,     2,     31,    32,    33,    63,    64,    65,    255,    4095,   4096,
                                    32767, 32768, 65503, 65504, 65505, 65535, 65536, 65537, 131071, 1000003 };
    int n = c->link->size, me = c->link->rank;
    struct halay_transfer *x = calloc((size_t)n * 2, sizeof *x);
    unsigned char **buf = calloc((size_t)n * 2, sizeof *buf);

    REQUIRE(x && buf);
    for (size_t s = 0; s <= sizeof sizes / sizeof *sizes; s++) {
        size_t bytes = s < sizeof sizes / sizeof *sizes ? sizes[s] : large_of(c) + 1;
        if (bytes > large_of(c) + 1)
            continue;
        uint64_t tag = tag_at(TAG_ANY_CASE);
        for (int r = 0; r < n; r++) {
            if (r == me)
                continue;
            buf[r] = make(bytes, 0);
            buf[n + r] = make(bytes, key_of(me, r, tag, (unsigned)s));
            if ((s + (size_t)me) % 2)
                c->link->ops->send(c->link, r, tag, buf[n + r], bytes, &x[n + r]);
            c->link->ops->recv(c->link, r, tag, buf[r], bytes, &x[r]);
            if ((s + (size_t)me) % 2 == 0)
                c->link->ops->send(c->link, r, tag, buf[n + r], bytes, &x[n + r]);
        }
        for (int r = 0; r < n; r++) {
            if (r == me)
                continue;
            finish_ok(c, &x[r]);
            finish_ok(c, &x[n + r]);
            CHECK(holds(buf[r], bytes, key_of(r, me, tag, (unsigned)s)), "%zu bytes from %d to %d", bytes, r, me);
            CHECK(holds(buf[n + r], bytes, key_of(me, r, tag, (unsigned)s)), "what was sent has changed");
            free(buf[r]);
            free(buf[n + r]);
        }
    }
    free(buf);
    free(x);
}

enum { ROW = 40 };

/* Many messages of one tag: the n-th sent meets the n-th received, whatever their sizes. */
static void case_order(struct conformance *c)
{
    int n = c->link->size, me = c->link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    uint64_t tag = tag_at(TAG_ANY_CASE + 1);
    struct halay_transfer out[ROW] = { 0 }, in[ROW] = { 0 };
    unsigned char *sent[ROW], *got[ROW];

    if (n < 2)
        return;
    for (unsigned i = 0; i < ROW; i++) {
        size_t bytes = i % 5 == 4 ? 200000 + i : 10 + i;
        sent[i] = make(bytes, key_of(me, to, tag, i));
        got[i] = make(bytes, 0);
        c->link->ops->send(c->link, to, tag, sent[i], bytes, &out[i]);
    }
    for (unsigned i = 0; i < ROW; i++)
        c->link->ops->recv(c->link, from, tag, got[i], i % 5 == 4 ? 200000 + i : 10 + i, &in[i]);
    for (unsigned i = 0; i < ROW; i++) {
        finish_ok(c, &in[i]);
        CHECK(holds(got[i], in[i].bytes, key_of(from, me, tag, i)), "message %u of the tag", i);
    }
    for (unsigned i = 0; i < ROW; i++) {
        finish_ok(c, &out[i]);
        free(sent[i]);
        free(got[i]);
    }
}

/* The last tag is received first, and completely, before the next receive is posted; large ones among them. */
static void case_overtaking(struct conformance *c)
{
    int n = c->link->size, me = c->link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    struct halay_transfer out[ROW] = { 0 }, in = { 0 };
    unsigned char *sent[ROW];

    if (n < 2)
        return;
    for (unsigned i = 0; i < ROW; i++) {
        size_t bytes = i % 8 == 0 ? large_of(c) : 1000 + i;
        sent[i] = make(bytes, key_of(me, to, tag_at(100 + i), 0));
        c->link->ops->send(c->link, to, tag_at(100 + i), sent[i], bytes, &out[i]);
    }
    for (unsigned i = ROW; i-- > 0;) {
        size_t bytes = i % 8 == 0 ? large_of(c) : 1000 + i;
        unsigned char *got = make(bytes, 0);
        c->link->ops->recv(c->link, from, tag_at(100 + i), got, bytes, &in);
        finish_ok(c, &in);
        CHECK(holds(got, bytes, key_of(from, me, tag_at(100 + i), 0)), "tag %u of %d", i, from);
        free(got);
    }
    for (unsigned i = 0; i < ROW; i++) {
        finish_ok(c, &out[i]);
        free(sent[i]);
    }
}

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Random plans, the same on every rank, all in flight at once; receives are posted in another order of tags. */
static void case_many(struct conformance *c)
{
    enum { MANY = 120, TAGS = 13 };
    int n = c->link->size, me = c->link->rank;
    unsigned state = c->seed ^ 0x5eed;
    struct plan {
        int from, to;
        uint64_t tag;
        size_t bytes;
        struct halay_transfer x;
        unsigned char *buf;
    } *plan = calloc(MANY, sizeof *plan);

    REQUIRE(plan);
    if (n < 2) {
        free(plan);
        return;
    }
    for (int i = 0; i < MANY; i++) {
        plan[i].from = (int)(next_random(&state) % (unsigned)n);
        plan[i].to = (plan[i].from + 1 + (int)(next_random(&state) % (unsigned)(n - 1))) % n;
        plan[i].tag = tag_at(200 + next_random(&state) % TAGS);
        plan[i].bytes = 1 + next_random(&state) % (next_random(&state) % 10 == 0 ? 300000u : 3000u);
    }
    for (int i = 0; i < MANY; i++)
        if (plan[i].from == me) {
            plan[i].buf = make(plan[i].bytes, key_of(me, plan[i].to, plan[i].tag, (unsigned)i));
            c->link->ops->send(c->link, plan[i].to, plan[i].tag, plan[i].buf, plan[i].bytes, &plan[i].x);
        }
    for (uint64_t tag = TAGS; tag-- > 0;)
        for (int i = 0; i < MANY; i++)
            if (plan[i].to == me && plan[i].tag == tag_at(200 + tag)) {
                plan[i].buf = make(plan[i].bytes, 0);
                c->link->ops->recv(c->link, plan[i].from, plan[i].tag, plan[i].buf, plan[i].bytes, &plan[i].x);
            }
    for (int i = 0; i < MANY; i++) {
        if (!plan[i].buf)
            continue;
        finish_ok(c, &plan[i].x);
        CHECK(holds(plan[i].buf, plan[i].bytes, key_of(plan[i].from, plan[i].to, plan[i].tag, (unsigned)i)),
              "plan %d of seed %u: %zu bytes from %d to %d", i, c->seed, plan[i].bytes, plan[i].from, plan[i].to);
        free(plan[i].buf);
    }
    free(plan);
}

/* More than any buffer holds arrives without a receive; other tags go on, then all of it is received. */
static void case_unexpected(struct conformance *c)
{
    enum { PILE = 100 };
    int n = c->link->size, me = c->link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    size_t bytes = large_of(c) / 16;
    struct halay_transfer *out = calloc(PILE, sizeof *out), in = { 0 };
    unsigned char **sent = calloc(PILE, sizeof *sent), *got = make(bytes, 0);

    REQUIRE(out && sent);
    for (unsigned i = 0; n > 1 && i < PILE; i++) {
        sent[i] = make(bytes, key_of(me, to, tag_at(300), i));
        c->link->ops->send(c->link, to, tag_at(300), sent[i], bytes, &out[i]);
    }
    synchronize(c, tag_at(301));
    for (unsigned i = 0; n > 1 && i < PILE; i++) {
        memset(got, 0, bytes);
        c->link->ops->recv(c->link, from, tag_at(300), got, bytes, &in);
        finish_ok(c, &in);
        CHECK(holds(got, bytes, key_of(from, me, tag_at(300), i)), "unexpected message %u", i);
    }
    for (unsigned i = 0; n > 1 && i < PILE; i++) {
        finish_ok(c, &out[i]);
        free(sent[i]);
    }
    free(got);
    free(sent);
    free(out);
}

/* Transfers that never meet, that have begun, and that are done are taken back; what was taken back is not touched any
 * more, and other tags still work. */
static void case_cancel(struct conformance *c)
{
    int n = c->link->size, me = c->link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    size_t bytes = large_of(c);
    struct halay_transfer never = { 0 }, lonely = { 0 }, out = { 0 }, in = { 0 };
    unsigned char *a = make(bytes, 1), *b = make(bytes, 2), *s = make(bytes, 3), *r = make(bytes, 4);

    if (n > 1) {
        c->link->ops->recv(c->link, from, tag_at(400), a, bytes, &never); /* has no sender */
        c->link->ops->send(c->link, to, tag_at(401), b, bytes, &lonely);  /* has no receiver */
        c->link->ops->send(c->link, to, tag_at(402), s, bytes, &out);
        c->link->ops->recv(c->link, from, tag_at(402), r, bytes, &in);
        for (unsigned i = 0; i < 1 + c->seed % 7; i++)
            CHECK(c->link->ops->progress(c->link) == HALAY_OK);
        c->link->ops->cancel(c->link, &never);
        c->link->ops->cancel(c->link, &lonely);
        c->link->ops->cancel(c->link, &in); /* in the middle of it, perhaps */
        memset(r, 9, bytes);
        memset(b, 8, bytes);
    }
    synchronize(c, tag_at(403));
    if (n > 1) {
        c->link->ops->cancel(c->link, &out);
        memset(s, 7, bytes);
        synchronize(c, tag_at(404));
        size_t touched = 0;
        for (size_t i = 0; i < bytes; i++)
            touched += r[i] != 9;
        CHECK(!touched, "%zu bytes of a cancelled receive were written", touched);
        CHECK(holds(a, bytes, 1));
    }
    free(r);
    free(s);
    free(b);
    free(a);
}

/* Sends a pile that no rank receives, to the next rank. */
static void pile_send(struct conformance *c, const unsigned char *bytes, struct halay_transfer *out)
{
    for (uint32_t i = 0; i < FORGOTTEN; i++)
        c->link->ops->send(c->link, c->link->rank + 1, halay_tag(FORGOTTEN_GROUP, 0, i % 3), bytes,
                           large_of(c) / (i % 40 ? 64 : 4), &out[i]);
}

static void pile_finish(struct conformance *c, struct halay_transfer *out)
{
    for (int i = 0; i < FORGOTTEN; i++)
        finish_ok(c, &out[i]);
}

/* More than any window has come of a group when odd ranks forget it, and as much comes later: no sender is held up. A
 * receive was taken back before, and so was a send. */
static void case_forget(struct conformance *c)
{
    struct halay_link *link = c->link;
    int is_sender = link->rank % 2 == 0 && link->rank + 1 < link->size, is_receiver = link->rank % 2;
    struct halay_transfer *out = calloc(FORGOTTEN, sizeof *out), in = { 0 }, taken_back = { 0 };
    unsigned char *bytes = make(large_of(c), 1), *got = make(large_of(c), 0);

    REQUIRE(out);
    if (is_receiver)
        link->ops->recv(link, link->rank - 1, halay_tag(FORGOTTEN_GROUP, 0, 0), got, large_of(c) / 4, &in);
    if (is_sender) {
        pile_send(c, bytes, out);
        link->ops->send(link, link->rank + 1, halay_tag(FORGOTTEN_GROUP, 0, 7), bytes, large_of(c), &taken_back);
    }
    synchronize(c, tag_at(900));
    if (is_receiver) {
        link->ops->cancel(link, &in);
        link->ops->forget(link, (struct halay_group_range){ FORGOTTEN_GROUP - 1, FORGOTTEN_GROUP + 2 });
    }
    if (is_sender) {
        link->ops->cancel(link, &taken_back);
        pile_finish(c, out);
        pile_send(c, bytes, out);
    }
    synchronize(c, tag_at(901));
    if (is_sender)
        pile_finish(c, out);
    synchronize(c, tag_at(902));
    free(got);
    free(bytes);
    free(out);
}

/* Shared memory: alloc and free, where it is, and what peers see there. */
static void case_memory(struct conformance *c)
{
    enum { BLOCKS = 12 };
    struct halay_shared_memory *m = c->link->memory;
    void *block[BLOCKS];
    int n = c->link->size, me = c->link->rank;

    if (!m)
        return;
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = (size_t)1 << (i * 2);
        if (!CHECK(m->ops->alloc(m, bytes, &block[i]) == HALAY_OK, "%zu bytes", bytes))
            return;
        CHECK((uintptr_t)block[i] % 4096 == 0);
        fill(block[i], bytes, (uint32_t)i);
    }
    for (int i = 0; i < BLOCKS; i++)
        CHECK(holds(block[i], (size_t)1 << (i * 2), (uint32_t)i), "block %d was overwritten", i);
    for (int i = 0; i < BLOCKS; i += 2)
        m->ops->free(m, block[i]);
    for (int i = 0; i < BLOCKS; i += 2)
        if (!CHECK(m->ops->alloc(m, 5000, &block[i]) == HALAY_OK))
            return;
    for (int i = 1; i < BLOCKS; i += 2)
        CHECK(holds(block[i], (size_t)1 << (i * 2), (uint32_t)i), "block %d was overwritten", i);
    for (int i = 0; i < BLOCKS; i++)
        m->ops->free(m, block[i]);
    m->ops->free(m, NULL);
    int stack = 0;
    void *mine;
    if (!CHECK(m->ops->alloc(m, 100000, &mine) == HALAY_OK))
        return;
    fill(mine, 100000, key_of(me, me, 0, 0));
    uint64_t offset = m->ops->locate(m, mine, 100000), *offsets = calloc((size_t)n, sizeof *offsets);
    REQUIRE(offsets);
    CHECK(offset != HALAY_PRIVATE);
    CHECK(m->ops->reach(m, me, offset, 100000) == mine);
    CHECK(m->ops->locate(m, (char *)mine + 17, 3) == offset + 17);
    CHECK(m->ops->locate(m, &stack, sizeof stack) == HALAY_PRIVATE);
    CHECK(m->ops->locate(m, mine, SIZE_MAX / 2) == HALAY_PRIVATE);
    CHECK(m->ops->reach(m, 0, UINT64_MAX - 10, 5) == NULL);
    CHECK(m->ops->reach(m, 0, offset, SIZE_MAX - 5) == NULL);
    CHECK(c->boot->ops->allgather(c->boot, &offset, sizeof offset, offsets, 60000) == HALAY_OK);
    for (int r = 0; r < n; r++) {
        const unsigned char *there = m->ops->reach(m, r, offsets[r], 100000);
        CHECK(there && holds(there, 100000, key_of(r, r, 0, 0)), "memory of rank %d seen by %d", r, me);
    }
    synchronize(c, tag_at(500));
    m->ops->free(m, mine);
    free(offsets);
}

/* Memory from which messages go without a copy, if there is such. */
static void *memory_get(struct conformance *c, size_t bytes)
{
    struct halay_link *link = c->link;
    void *memory = NULL;

    if (link->memory)
        CHECK(link->memory->ops->alloc(link->memory, bytes, &memory) == HALAY_OK);
    else if (link->ops->alloc)
        CHECK(link->ops->alloc(link, bytes, 0, &memory) == HALAY_OK);
    else
        memory = malloc(bytes);
    return memory;
}

static void memory_put(struct conformance *c, void *memory)
{
    if (c->link->memory)
        c->link->memory->ops->free(c->link->memory, memory);
    else if (c->link->ops->alloc)
        c->link->ops->free(c->link, memory);
    else
        free(memory);
}

/* Large messages from and into memory of alloc. */
static void case_shared_messages(struct conformance *c)
{
    struct halay_link *link = c->link;
    int n = link->size, me = link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    size_t bytes = large_of(c);
    struct halay_transfer out[4] = { 0 }, in[4] = { 0 };

    if (n < 2)
        return;
    void *s = memory_get(c, 4 * bytes), *r = memory_get(c, 4 * bytes);
    REQUIRE(s && r);
    for (unsigned i = 0; i < 4; i++) {
        fill((unsigned char *)s + i * bytes, bytes, key_of(me, to, 600, i));
        link->ops->send(link, to, tag_at(600 + i % 2), (unsigned char *)s + i * bytes, bytes, &out[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        link->ops->recv(link, from, tag_at(600 + i % 2), (unsigned char *)r + i * bytes, bytes, &in[i]);
    for (unsigned i = 4; i-- > 0;) {
        finish_ok(c, &in[i]);
        finish_ok(c, &out[i]);
        CHECK(holds((unsigned char *)r + i * bytes, bytes, key_of(from, me, 600, i)), "shared message %u", i);
    }
    memory_put(c, s);
    memory_put(c, r);
}

/* The last of a group's areas of rank r. */
static uint32_t *last_area(struct halay_shared_memory *m, int r, uint64_t offset)
{
    unsigned char *areas = m->ops->reach(m, r, offset, HALAY_GROUP_BYTES);

    REQUIRE(areas);
    return (uint32_t *)(areas + HALAY_GROUP_BYTES - HALAY_AREA_BYTES);
}

static void wait_for_flag(struct conformance *c, const uint32_t *flag, uint32_t least)
{
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < least) {
        uint32_t token = halay_bell_arm(c->bell);
        if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) >= least)
            halay_bell_disarm(c->bell);
        else
            conformance_sleep(c->link, c->bell, token, -1);
    }
}

/* Areas of two groups: zero at the start, at the same offsets on all ranks; what is stored there with a flag is seen
 * with the flag, and they are zero again when their owner has given them back and taken them anew. */
static void case_areas(struct conformance *c)
{
    struct halay_link *link = c->link;
    struct halay_shared_memory *m = link->memory;
    const size_t end = HALAY_AREA_BYTES / 4 - 1;
    int n = link->size, me = link->rank;
    uint64_t at[2], again;

    if (!m)
        return;
    for (int i = 0; i < 2; i++) {
        REQUIRE(m->ops->take_areas(m, &at[i]) == HALAY_OK);
        CHECK(!last_area(m, me, at[i])[0] && !last_area(m, me, at[i])[end], "area %d is not zero", i);
    }
    synchronize(c, tag_at(700));
    for (int i = 0; i < 2; i++) {
        last_area(m, me, at[i])[end] = key_of(me, i, 0, 0);
        __atomic_store_n(last_area(m, me, at[i]), 1, __ATOMIC_RELEASE);
        for (int r = 0; r < n; r++)
            if (r != me)
                m->ops->notify(m, r);
    }
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < n; r++) {
            wait_for_flag(c, last_area(m, r, at[i]), 1);
            CHECK(last_area(m, r, at[i])[end] == key_of(r, i, 0, 0), "area %d of rank %d", i, r);
        }
    synchronize(c, tag_at(701));
    m->ops->give_areas(m, at[1]);
    REQUIRE(m->ops->take_areas(m, &again) == HALAY_OK);
    CHECK(again == at[1], "areas that were given back are not taken first");
    synchronize(c, tag_at(702));
    for (int r = 0; r < n; r++) {
        uint32_t *new = last_area(m, r, at[1]), *kept = last_area(m, r, at[0]);
        CHECK(new[0] == 0 && new[end] == 0, "an area of rank %d is not zero", r);
        CHECK(kept[0] == 1, "another area of rank %d is gone", r);
    }
    synchronize(c, tag_at(703));
    m->ops->give_areas(m, at[0]);
    m->ops->give_areas(m, at[1]);
    CHECK(!m->ops->reach(m, me, UINT64_MAX - 4096, HALAY_GROUP_BYTES), "areas outside of the segment");
}

/* A ball goes around the ring by a flag and notify, everybody sleeps in between: a wake that is lost costs a second. */
static void case_sleep_by_notify(struct conformance *c)
{
    struct halay_link *link = c->link;
    int n = link->size, me = link->rank, to = (me + 1) % n, rounds = c->iterations ? c->iterations : 2000;

    struct halay_shared_memory *m = link->memory;
    if (n < 2 || !m)
        return;
    uint64_t at;
    REQUIRE(m->ops->take_areas(m, &at) == HALAY_OK);
    uint32_t *mine = last_area(m, me, at), *next = last_area(m, to, at);
    synchronize(c, tag_at(710));
    for (uint32_t i = 1; i <= (uint32_t)rounds; i++) {
        if (me != 0 || i > 1)
            wait_for_flag(c, mine, i - (me == 0));
        __atomic_store_n(next, i, __ATOMIC_RELEASE);
        m->ops->notify(m, to);
    }
    CHECK(__atomic_load_n(mine, __ATOMIC_ACQUIRE) >= (uint32_t)rounds - 1);
    synchronize(c, tag_at(800));
}

/* The same by messages of random sizes, the receiver always asleep; both directions at once. */
static void case_sleep_by_message(struct conformance *c)
{
    struct halay_link *link = c->link;
    int n = link->size, me = link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    int rounds = (c->iterations ? c->iterations : 2000) / 2;
    unsigned state = c->seed;
    unsigned char *s = make(100000, 0), *r = make(100000, 0);

    for (int i = 0; n > 1 && i < rounds; i++) {
        size_t bytes = next_random(&state) % 50 == 0 ? 100000 : 1 + next_random(&state) % 200;
        struct halay_transfer out = { 0 }, in = { 0 };
        s[0] = (unsigned char)i;
        link->ops->recv(link, from, tag_at(900), r, bytes, &in);
        link->ops->send(link, to, tag_at(900), s, bytes, &out);
        if (finish(c, &in) != HALAY_OK || finish(c, &out) != HALAY_OK || r[0] != (unsigned char)i) {
            CHECK(0, "message %d", i);
            link->ops->cancel(link, &in);
            link->ops->cancel(link, &out);
            break;
        }
    }
    free(r);
    free(s);
}

struct waker {
    struct conformance *c;
    uint32_t flag;
};

static void *wake_it(void *arg)
{
    struct waker *w = arg;

    __atomic_store_n(&w->flag, 1, __ATOMIC_RELEASE);
    halay_bell_wake(w->c->bell);
    return NULL;
}

/* Drives while the other one sleeps, and wakes it then. */
static void *disarm_and_wake_it(void *arg)
{
    struct waker *w = arg;

    halay_bell_disarm(w->c->bell);
    CHECK(w->c->link->ops->progress(w->c->link) == HALAY_OK);
    return wake_it(arg);
}

/* Another thread of this rank ends its sleep. */
static void case_wake(struct conformance *c)
{
    for (int i = 0; i < 50; i++) {
        struct waker w = { c, 0 };
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, wake_it, &w) == 0);
        while (!__atomic_load_n(&w.flag, __ATOMIC_ACQUIRE)) {
            uint32_t token = halay_bell_arm(c->bell);
            if (__atomic_load_n(&w.flag, __ATOMIC_ACQUIRE)) {
                halay_bell_disarm(c->bell);
                break;
            }
            conformance_sleep(c->link, c->bell, token, -1);
        }
        pthread_join(thread, NULL);
    }
    uint32_t token = halay_bell_arm(c->bell);
    conformance_sleep(c->link, c->bell, token, 1000); /* no wake: it ends by its time-out */
    CHECK(c->link->ops->progress(c->link) == HALAY_OK);
}

/* The same for one whose role has been taken while it sleeps. A wake that is lost costs a second. */
static void case_robbed(struct conformance *c)
{
    for (int i = 0; i < 50; i++) {
        struct waker w = { c, 0 };
        pthread_t thread;
        uint32_t token = halay_bell_arm(c->bell);
        CHECK(c->link->ops->progress(c->link) == HALAY_OK);
        (void)c->link->ops->arm(c->link);
        REQUIRE(pthread_create(&thread, NULL, disarm_and_wake_it, &w) == 0);
        while (!__atomic_load_n(&w.flag, __ATOMIC_ACQUIRE))
            halay_bell_sleep(c->bell, token, -1);
        pthread_join(thread, NULL);
    }
}

enum { CUT_SHORT = 12, CUT_SHORT_GROUP = 0x7edcba90 };

static size_t cut_bytes(const struct conformance *c, int i)
{
    return i % 3 ? 100 + (size_t)i * 8 : large_of(c) / (size_t)(i + 2);
}

/* A series under one tag is taken back by its sender, at any moment: what arrives of it is what each receive is for. */
static void case_cut_short(struct conformance *c)
{
    struct halay_link *link = c->link;
    int is_sender = link->rank % 2 == 0 && link->rank + 1 < link->size, is_receiver = link->rank % 2;
    int peer = is_sender ? link->rank + 1 : link->rank - 1;
    struct halay_transfer x[CUT_SHORT] = { 0 };
    unsigned char *bytes[CUT_SHORT] = { NULL };

    for (int i = 0; i < CUT_SHORT && (is_sender || is_receiver); i++) {
        bytes[i] = make(cut_bytes(c, i), is_sender ? (uint32_t)i : 100);
        if (is_receiver)
            link->ops->recv(link, peer, halay_tag(CUT_SHORT_GROUP, 0, 0), bytes[i], cut_bytes(c, i), &x[i]);
        else
            link->ops->send(link, peer, halay_tag(CUT_SHORT_GROUP, 0, 0), bytes[i], cut_bytes(c, i), &x[i]);
    }
    for (unsigned i = 0; i < c->seed % 11; i++)
        CHECK(link->ops->progress(link) == HALAY_OK);
    for (int i = 0; i < CUT_SHORT && is_sender; i++)
        link->ops->cancel(link, &x[i]);
    synchronize(c, tag_at(910));
    for (int i = 0; i < CUT_SHORT && is_receiver; i++) {
        CHECK(!halay_transfer_is_done(&x[i]) || holds(bytes[i], cut_bytes(c, i), (uint32_t)i), "message %d", i);
        link->ops->cancel(link, &x[i]);
    }
    link->ops->forget(link, (struct halay_group_range){ CUT_SHORT_GROUP, CUT_SHORT_GROUP });
    synchronize(c, tag_at(911));
    for (int i = 0; i < CUT_SHORT; i++)
        free(bytes[i]);
}

void conformance_run(struct conformance *c)
{
    CHECK(c->link->failed_peer == -1);
    case_sizes(c);
    case_order(c);
    case_overtaking(c);
    case_many(c);
    case_unexpected(c);
    case_memory(c);
    case_shared_messages(c);
    case_areas(c);
    case_sleep_by_notify(c);
    case_sleep_by_message(c);
    case_wake(c);
    case_robbed(c);
    case_forget(c);
    case_cut_short(c);
    case_cancel(c); /* last: the order of its tags is broken then */
    synchronize(c, tag_at(1));
}

/* ---- death and leaving ---- */

void conformance_death(struct conformance *c, int victim, void (*die)(void *arg), void *arg)
{
    struct halay_link *link = c->link;
    int n = link->size, me = link->rank, to = (me + 1) % n, from = (me + n - 1) % n;
    size_t bytes = large_of(c);
    unsigned char *s = make(bytes, 0), *r = make(bytes, 0);
    struct halay_transfer out = { 0 }, in = { 0 };
    enum halay_status status = HALAY_OK;

    synchronize(c, tag_at(1000));
    for (int i = 0; status == HALAY_OK; i++) {
        link->ops->recv(link, from, tag_at(1001), r, bytes, &in);
        link->ops->send(link, to, tag_at(1001), s, bytes, &out);
        if (me == victim && i == 3) {
            status = link->ops->progress(link);
            die(arg);
            break;
        }
        status = finish(c, &in);
        if (status == HALAY_OK)
            status = finish(c, &out);
    }
    link->ops->cancel(link, &in);
    link->ops->cancel(link, &out);
    if (me != victim) {
        CHECK(status == HALAY_ERR_PEER, "rank %d: %s", me, halay_status_string(status));
        CHECK(link->failed_peer == victim, "rank %d names rank %d, not %d", me, link->failed_peer, victim);
        CHECK(link->ops->progress(link) == HALAY_ERR_PEER, "the same error from then on");
    }
    free(r);
    free(s);
}

void conformance_leave(struct conformance *c)
{
    struct halay_link *link = c->link;
    int n = link->size, me = link->rank, leaver = n - 1;
    unsigned char *buf = make(1000, key_of(leaver, me, tag_at(1100), 0)), *got = make(1000, 0);
    struct halay_transfer x = { 0 };

    synchronize(c, tag_at(1101));
    if (me == leaver) {
        for (int r = 0; r < n - 1; r++) {
            fill(buf, 1000, key_of(me, r, tag_at(1100), 0));
            link->ops->send(link, r, tag_at(1100), buf, 1000, &x);
            finish_ok(c, &x);
        }
        link->ops->close(link);
        c->link = NULL;
    } else {
        link->ops->recv(link, leaver, tag_at(1100), got, 1000, &x);
        finish_ok(c, &x);
        CHECK(holds(got, 1000, key_of(leaver, me, tag_at(1100), 0)), "what was sent before it left");
        /* The others are not disturbed by it. */
        struct halay_transfer out = { 0 }, in = { 0 };
        unsigned char one = 1, back = 0;
        if (n > 2) {
            link->ops->recv(link, (me + n - 2) % (n - 1), tag_at(1102), &back, 1, &in);
            link->ops->send(link, (me + 1) % (n - 1), tag_at(1102), &one, 1, &out);
            finish_ok(c, &in);
            finish_ok(c, &out);
            CHECK(back == 1);
        }
        link->ops->recv(link, leaver, tag_at(1103), got, 1000, &x);
        enum halay_status status = finish(c, &x);
        CHECK(status == HALAY_ERR_PEER, "rank %d: %s", me, halay_status_string(status));
        CHECK(link->failed_peer == leaver, "rank %d names rank %d", me, link->failed_peer);
        link->ops->cancel(link, &x);
    }
    free(got);
    free(buf);
}

int conformance_failed(void)
{
    return test_failed;
}
