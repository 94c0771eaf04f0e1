/* SPDX-License-Identifier: Apache-2.0
 *
 * A transport of a module conforms, and does what is beyond the suite: cut messages at and around its part size, take
 * back what the library below has already matched, say who has left, and open again after a close. One program a
 * module:
 *
 *     test_ucx              ranks are forked here
 *     mpirun test_mpi       ranks are mpirun's
 *     test_ucx_parts, ...   the module's sources with parts of a few hundred bytes; over UCX three endpoints a peer
 *
 * Under mpirun the argument says what: nothing (the cases of this file), "conform", or "die": one rank kills itself.
 */
#include "base/clock.h"
#include "collectives/transport/module.h"
#include "tests/test.h"
#include "tests/transport/conformance.h"
#include "tests/transport/rig.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef UCX_CASES
#include "collectives/transport/ucx/ucx_frames.h"
#endif

/* Read by the address sanitizer: what UCX leaves allocated is its own, and the leak checker crashes on its threads. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

#ifndef PART_BYTES /* of the module under test */
#define PART_BYTES (((size_t)1 << 20) + 64)
#endif
#ifdef MODULE_IS_LINKED /* with tiny parts: long enough */
#define LARGE_BYTES (100 * PART_BYTES)
#else
#define LARGE_BYTES ((size_t)3 << 20)
#endif
enum { TAGS = 3, DEADLINE_S = 200 };

static unsigned char pattern(int from, int to, uint64_t tag, size_t i)
{
    return (unsigned char)((size_t)from * 7 + (size_t)to * 31 + tag * 13 + i * 5 + i / 251);
}

static void fill(unsigned char *buf, size_t bytes, int from, int to, uint64_t tag)
{
    for (size_t i = 0; i < bytes; i++)
        buf[i] = pattern(from, to, tag, i);
}

static size_t wrong(const unsigned char *buf, size_t bytes, int from, int to, uint64_t tag)
{
    size_t count = 0;

    for (size_t i = 0; i < bytes; i++)
        count += buf[i] != pattern(from, to, tag, i);
    return count;
}

static unsigned char *take(size_t bytes)
{
    unsigned char *memory = calloc(1, bytes ? bytes : 1);

    REQUIRE(memory);
    return memory;
}

static struct halay_link *opened(struct rig *rig)
{
    struct halay_link *link = NULL;
    enum halay_status status = rig->api->transport_create(&rig->host, rig->boot, &link);

    CHECK(status == HALAY_OK, "%s: %s", halay_status_string(status), rig->last_line);
    if (status != HALAY_OK)
        exit(1);
    CHECK(link->rank == rig->boot->rank && link->size == rig->boot->size && link->failed_peer == -1);
    return link;
}

/* Whose memory messages travel in: the program's, copied; or the transport's, used as it is. */
enum whose { OURS, ITS };

static unsigned char *take_from(struct halay_link *link, enum whose whose, int is_send, size_t bytes)
{
    void *memory = NULL;

    if (whose == OURS)
        return take(bytes);
    REQUIRE(link->ops->alloc(link, bytes, !is_send, &memory) == HALAY_OK && memory);
    memset(memory, 0, bytes);
    return memory;
}

static void give_to(struct halay_link *link, enum whose whose, unsigned char *memory)
{
    if (whose == OURS)
        free(memory);
    else
        link->ops->free(link, memory);
}

/* Everyone with everyone, under several tags; receives are posted in another order than sends. */
static void check_exchange(struct halay_link *link, size_t bytes, enum whose whose)
{
    int n = link->size, count = 0;
    size_t slots = (size_t)n * TAGS;
    unsigned char *out = take_from(link, whose, 1, slots * bytes), *in = take_from(link, whose, 0, slots * bytes);
    struct halay_transfer *x = calloc(2 * slots, sizeof *x);

    REQUIRE(x);
    for (int peer = 0; peer < n; peer++)
        for (uint32_t k = 0; k < TAGS && peer != link->rank; k++) {
            uint64_t tag = halay_tag(k, 7 - (int)k, 3 * k);
            unsigned char *at = out + ((size_t)peer * TAGS + k) * bytes;
            fill(at, bytes, link->rank, peer, tag);
            link->ops->send(link, peer, tag, at, bytes, &x[count++]);
        }
    for (int peer = n - 1; peer >= 0; peer--)
        for (uint32_t k = TAGS; k-- > 0 && peer != link->rank;)
            link->ops->recv(link, peer, halay_tag(k, 7 - (int)k, 3 * k), in + ((size_t)peer * TAGS + k) * bytes, bytes,
                            &x[count++]);
    enum halay_status status = rig_wait(link, x, count);
    CHECK(status == HALAY_OK, "%zu bytes: %s", bytes, halay_status_string(status));
    for (int peer = 0; peer < n; peer++)
        for (uint32_t k = 0; k < TAGS && peer != link->rank; k++) {
            size_t bad =
                wrong(in + ((size_t)peer * TAGS + k) * bytes, bytes, peer, link->rank, halay_tag(k, 7 - (int)k, 3 * k));
            CHECK(!bad, "%zu of %zu bytes from rank %d", bad, bytes, peer);
        }
    free(x);
    give_to(link, whose, in);
    give_to(link, whose, out);
}

/* Messages of one stream keep their order, whatever their lengths. */
static void check_order(struct halay_link *link)
{
    static const size_t lengths[] = { 3, 2 * PART_BYTES + 1, 1, PART_BYTES, 17, 6 * PART_BYTES + 5, 2 };
    enum { COUNT = sizeof lengths / sizeof *lengths };
    struct halay_transfer x[2 * COUNT] = { 0 };
    unsigned char *out[COUNT], *in[COUNT];
    int to = (link->rank + 1) % link->size, from = (link->rank + link->size - 1) % link->size;

    if (link->size == 1)
        return;
    for (size_t i = 0; i < COUNT; i++) {
        out[i] = take(lengths[i]);
        in[i] = take(lengths[i]);
        fill(out[i], lengths[i], link->rank, to, (uint32_t)i);
        link->ops->send(link, to, 5, out[i], lengths[i], &x[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        link->ops->recv(link, from, 5, in[i], lengths[i], &x[COUNT + i]);
    CHECK(rig_wait(link, x, 2 * COUNT) == HALAY_OK);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(!wrong(in[i], lengths[i], from, link->rank, (uint32_t)i), "message %zu", i);
        free(out[i]);
        free(in[i]);
    }
}

/* Waits until all ranks have come here. */
static void synchronize(struct halay_link *link, uint64_t tag)
{
    struct halay_transfer x[64] = { 0 };
    unsigned char token[64];

    REQUIRE(link->size <= 32);
    for (int peer = 0, i = 0; peer < link->size; peer++)
        if (peer != link->rank) {
            link->ops->recv(link, peer, tag, &token[peer], 1, &x[i++]);
            link->ops->send(link, peer, tag, &token[32], 1, &x[i++]);
        }
    CHECK(rig_wait(link, x, 2 * (link->size - 1)) == HALAY_OK);
}

/* So that a loop of looks doesn't fail a thousand times. */
static void progress_times(struct halay_link *link, int times)
{
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < times && status == HALAY_OK; i++)
        status = link->ops->progress(link);
    CHECK(status == HALAY_OK, "%s", halay_status_string(status));
}

/* A long send nobody receives and a receive nobody sends for are taken back; what is sent for it later goes nowhere.
 * The last message, under another tag, shows that the transport lives and that the late one has been there. */
static void check_cancel(struct halay_link *link, enum whose whose)
{
    struct halay_transfer lost = { 0 }, wanted = { 0 }, x[4] = { 0 };
    int to = (link->rank + 1) % link->size, from = (link->rank + link->size - 1) % link->size;
    uint64_t tag = 100 + 20 * whose;
    size_t bytes = 3 * PART_BYTES + 11;
    unsigned char *out = take_from(link, whose, 1, bytes), *in = take_from(link, whose, 0, bytes), token = 0;

    if (link->size == 1)
        goto out_free;
    link->ops->send(link, to, tag, out, bytes, &lost);
    link->ops->recv(link, from, tag + 1, in, bytes, &wanted);
    progress_times(link, 100);
    link->ops->cancel(link, &lost);
    link->ops->cancel(link, &wanted);
    memset(out, 0xee, bytes); /* may be touched: it is ours again */

    synchronize(link, tag + 2); /* all have cancelled */
    link->ops->send(link, to, tag + 1, out, 64, &x[2]);
    link->ops->send(link, to, tag + 3, "b", 1, &x[3]);
    link->ops->recv(link, from, tag + 3, &token, 1, &x[0]);
    CHECK(rig_wait(link, x, 1) == HALAY_OK && token == 'b');
    CHECK(rig_wait(link, &x[3], 1) == HALAY_OK);
    link->ops->cancel(link, &x[2]);
    for (size_t i = 0; i < bytes && whose == OURS; i++)
        if (in[i]) {
            CHECK(0, "byte %zu of a receive that was taken back", i);
            break;
        }

out_free:
    give_to(link, whose, in);
    give_to(link, whose, out);
}

/* A receive that is taken back while its message is coming in: from then on its buffer stays as it is, unless it is
 * held memory. That, and what is being sent, may be given back at once: it is kept for what is still on its way. */
static void check_cancel_matched(struct halay_link *link, enum whose whose)
{
    struct halay_transfer big = { 0 }, x[2] = { 0 };
    size_t bytes = 9 * PART_BYTES;
    int peer = link->rank ^ 1, is_receiver = link->rank & 1;
    uint64_t tag = 110 + 20 * whose;
    unsigned char *buf = take_from(link, whose, !is_receiver, bytes), *copy = take(bytes), token = 0;

    if (peer >= link->size)
        goto out_free;
    memset(buf, is_receiver ? 0 : 0x55, bytes);
    if (is_receiver)
        link->ops->recv(link, peer, tag, buf, bytes, &big);
    else
        link->ops->send(link, peer, tag, buf, bytes, &big);
    for (int i = 0; i < 20000 && is_receiver && !big.moved && link->ops->progress(link) == HALAY_OK; i++)
        sched_yield();
    progress_times(link, is_receiver ? 0 : 200);
    link->ops->cancel(link, &big);
    if (whose == ITS) {
        give_to(link, whose, buf);
        buf = NULL;
    } else {
        memcpy(copy, buf, bytes);
    }
    link->ops->recv(link, peer, tag + 1, &token, 1, &x[0]);
    link->ops->send(link, peer, tag + 1, "c", 1, &x[1]);
    CHECK(rig_wait(link, x, 2) == HALAY_OK && token == 'c');
    progress_times(link, 200);
    CHECK(!buf || !memcmp(copy, buf, bytes), "a receive that was taken back was written to");

out_free:
    free(copy);
    give_to(link, whose, buf);
}

/* A rank sends far ahead of its neighbour's receives. Only so much goes (over UCX: 4 MiB a peer, of which each message
 * here takes a sixteenth or a little less), and messages under other tags still do. Then either the receives come, or
 * all is given up: what went ahead is never received, and from then on the neighbour has to be asked. */
static void check_ahead(struct halay_link *link, int is_given_up)
{
    enum { COUNT = 24, MOST = 16 };
    const size_t bytes = PART_BYTES > 4096 ? PART_BYTES - 64 : 60 * PART_BYTES;
    struct halay_transfer x[2 * COUNT] = { 0 };
    unsigned char *out = take(COUNT * bytes), *in = take(COUNT * bytes);
    int to = (link->rank + 1) % link->size, from = (link->rank + link->size - 1) % link->size, done = 0;
    uint64_t tag = 300 + (uint32_t)is_given_up;

    for (int i = 0; i < COUNT && link->size > 1; i++) {
        fill(out + (size_t)i * bytes, bytes, link->rank, to, (uint32_t)i);
        link->ops->send(link, to, tag, out + (size_t)i * bytes, bytes, &x[COUNT + i]);
    }
    synchronize(link, 302);
    progress_times(link, 100);
    for (int i = 0; i < COUNT; i++)
        done += halay_transfer_is_done(&x[COUNT + i]);
    synchronize(link, 303); /* all have counted */
    CHECK(done <= MOST || strcmp(MODULE, "ucx") != 0, "%d messages went ahead", done);
    for (int i = 0; i < COUNT && link->size > 1 && !is_given_up; i++)
        link->ops->recv(link, from, tag, in + (size_t)i * bytes, bytes, &x[i]);
    if (link->size > 1 && !is_given_up)
        CHECK(rig_wait(link, x, 2 * COUNT) == HALAY_OK);
    for (int i = 0; i < COUNT && link->size > 1 && !is_given_up; i++)
        CHECK(!wrong(in + (size_t)i * bytes, bytes, from, link->rank, (uint32_t)i), "message %d", i);
    for (int i = 0; i < 2 * COUNT; i++)
        link->ops->cancel(link, &x[i]);
    synchronize(link, 304);
    free(in);
    free(out);
}

/* Rank 0 leaves while the others go on among themselves; then they wait for it, in vain. */
static void check_leave(struct rig *rig)
{
    struct halay_link *link = opened(rig);
    struct halay_transfer x[2] = { 0 };
    unsigned char last = 0, ring = 0;

    if (link->size == 1 || link->rank == 0) {
        for (int peer = 1; peer < link->size; peer++) {
            link->ops->send(link, peer, 1, "z", 1, &x[0]);
            CHECK(rig_wait(link, x, 1) == HALAY_OK);
        }
        link->ops->close(link); /* what is done arrives all the same */
        return;
    }
    for (int i = 0; i < 50 && link->size > 2; i++) {
        link->ops->send(link, link->rank % (link->size - 1) + 1, 2, &ring, 1, &x[0]);
        link->ops->recv(link, (link->rank + link->size - 3) % (link->size - 1) + 1, 2, &ring, 1, &x[1]);
        enum halay_status status = rig_wait(link, x, 2);
        CHECK(status == HALAY_OK, "round %d: %s: %s", i, halay_status_string(status), rig->last_line);
    }
    link->ops->recv(link, 0, 1, &last, 1, &x[0]);
    CHECK(rig_wait(link, x, 1) == HALAY_OK && last == 'z', "%s", rig->last_line);
    link->ops->recv(link, 0, 3, &last, 1, &x[0]);
    enum halay_status status = rig_wait(link, x, 1);
    CHECK(status == HALAY_ERR_PEER && link->failed_peer == 0, "%s, peer %d", halay_status_string(status),
          link->failed_peer);
    CHECK(link->ops->progress(link) == status, "the first error stays");
    link->ops->cancel(link, &x[0]);
    link->ops->close(link);
}

/* Lengths that disagree, by a little or by whole parts, on either side. */
static void check_lengths(struct rig *rig, size_t sent, size_t expected, enum whose whose)
{
    struct halay_link *link = opened(rig);
    struct halay_transfer x = { 0 };
    int peer = link->rank ^ 1, is_send = !(link->rank & 1);
    unsigned char *buf = take_from(link, whose, is_send, is_send ? sent : expected);

    synchronize(link, 2); /* so that none connects at its end with one that is gone: UCX may end that by an assertion */
    if (peer < link->size && link->rank & 1) {
        link->ops->recv(link, peer, 1, buf, expected, &x);
        enum halay_status status = rig_wait(link, &x, 1);
        CHECK(status == HALAY_ERR_FORMAT, "%zu sent, %zu expected: %s", sent, expected, halay_status_string(status));
    } else if (peer < link->size) {
        link->ops->send(link, peer, 1, buf, sent, &x);
        enum halay_status status = rig_wait(link, &x, 1);
        CHECK(status == HALAY_OK || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    }
    link->ops->cancel(link, &x);
    give_to(link, whose, buf);
    link->ops->close(link);
}

static void *wake_when_told(void *arg)
{
    for (int i = 0; i < 100; i++) { /* whenever it sleeps, or is about to */
        halay_bell_wake(arg);
        sched_yield();
    }
    return NULL;
}

static void bell_open(struct halay_bell *bell, struct halay_link *link)
{
    halay_bell_init(bell, NULL);
    if (link->ops->event_fd)
        CHECK(halay_bell_watch(bell, link->ops->event_fd(link)) == HALAY_OK);
}

static void sleep_in(struct halay_bell *bell, struct halay_link *link, uint32_t token)
{
    long armed_us = link->ops->arm(link);

    if (armed_us)
        halay_bell_sleep(bell, token, armed_us);
    halay_bell_disarm(bell);
}

/* A message ends a sleep, and so does a wake. (One that is lost costs a second.) */
static void check_sleep(struct halay_link *link)
{
    struct halay_transfer x[2] = { 0 };
    unsigned char token = 0;
    int to = (link->rank + 1) % link->size, from = (link->rank + link->size - 1) % link->size;
    struct halay_bell bell;
    pthread_t thread;

    bell_open(&bell, link);
    for (int round = 0; round < 20 && link->size > 1; round++) {
        if (link->rank || round) /* one token goes around */
            link->ops->recv(link, from, 7, &token, 1, &x[0]);
        else
            x[0].state = HALAY_TRANSFER_DONE;
        while (!halay_transfer_is_done(&x[0])) {
            uint32_t armed = halay_bell_arm(&bell);
            if (!CHECK(link->ops->progress(link) == HALAY_OK))
                return;
            if (halay_transfer_is_done(&x[0]))
                halay_bell_disarm(&bell);
            else
                sleep_in(&bell, link, armed);
        }
        link->ops->send(link, to, 7, &token, 1, &x[1]);
        CHECK(rig_wait(link, &x[1], 1) == HALAY_OK);
    }
    if (link->size > 1 && link->rank == 0) {
        link->ops->recv(link, from, 7, &token, 1, &x[0]);
        CHECK(rig_wait(link, x, 1) == HALAY_OK);
    }
    uint32_t armed = halay_bell_arm(&bell);
    halay_bell_wake(&bell);
    sleep_in(&bell, link, armed); /* woken before it sleeps: returns at once */
    armed = halay_bell_arm(&bell);
    REQUIRE(!pthread_create(&thread, NULL, wake_when_told, &bell));
    sleep_in(&bell, link, armed);
    pthread_join(thread, NULL);
    halay_bell_fini(&bell);
}

static int run_cases(struct rig *rig, void *arg)
{
    static const size_t sizes[] = { 1, 4097, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES + 3 };

    (void)arg;
    for (int round = 0; round < 2; round++) { /* opens again */
        struct halay_link *link = opened(rig);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            if (sizes[i] <= 4 * PART_BYTES || link->size <= 3)
                check_exchange(link, sizes[i], round ? ITS : OURS);
        check_order(link);
        if (round)
            check_sleep(link);
        link->ops->close(link);
    }
    struct halay_link *link = opened(rig);
    for (enum whose whose = OURS; whose <= ITS; whose++) {
        check_cancel(link, whose);
        synchronize(link, 200);
        check_cancel_matched(link, whose);
        synchronize(link, 201);
    }
    link->ops->close(link);
    link = opened(rig);
    check_ahead(link, 0);
    check_ahead(link, 1);
    check_exchange(link, PART_BYTES + 1, OURS);
    check_order(link);
    link->ops->close(link);
    check_leave(rig);
    check_lengths(rig, 100, 200, OURS);
    check_lengths(rig, 200, 100, OURS);
    for (enum whose whose = OURS; whose <= ITS; whose++) {
        check_lengths(rig, 2 * PART_BYTES, PART_BYTES, whose);
        check_lengths(rig, PART_BYTES, 2 * PART_BYTES, whose);
    }
    check_lengths(rig, PART_BYTES, PART_BYTES - 100, ITS);
    check_lengths(rig, PART_BYTES - 100, PART_BYTES, ITS);
    return test_failed;
}

static int run_conformance(struct rig *rig, void *arg)
{
    struct halay_bell bell;
    struct conformance c = {
        .bell = &bell, .boot = rig->boot, .seed = (unsigned)rig->boot->size, .iterations = 200, .large = LARGE_BYTES
    };

    (void)arg;
    rig_watch(rig);
    c.link = opened(rig);
    bell_open(&bell, c.link);
    conformance_run(&c);
    c.link->ops->close(c.link);
    halay_bell_fini(&bell);
    if (rig->boot->size > 1) {
        c.link = opened(rig);
        bell_open(&bell, c.link);
        conformance_leave(&c);
        if (c.link)
            c.link->ops->close(c.link);
        halay_bell_fini(&bell);
    }
    return conformance_failed() || test_failed;
}

#ifdef RANKS_ARE_FORKED

/* Pairs that live shortly: one message each way while the connection is still made, one side a little later, and the
 * end. A connection that is lost shows as a wait that ends in vain. */
static int run_pairs(struct rig *rig, void *arg)
{
    const int *rounds = arg;
    unsigned state = 1;

    for (int round = 0; round < *rounds && !test_failed; round++) {
        struct halay_link *link = opened(rig);
        unsigned char out[256] = { 0 }, in[256];
        struct halay_transfer x[2] = { 0 };
        int peer = !link->rank;
        state = state * 1103515245 + 12345;
        link->ops->recv(link, peer, 1, in, sizeof in, &x[0]);
        link->ops->send(link, peer, 1, out, sizeof out, &x[1]);
        CHECK(rig_wait(link, x, 2) == HALAY_OK, "round %d: %s", round, rig->last_line);
        int64_t until = halay_now_us() + (state >> 16) % 2000;
        while ((unsigned)link->rank == (state >> 8 & 1) && halay_now_us() < until)
            sched_yield();
        synchronize(link, 2);
        link->ops->close(link);
    }
    return test_failed;
}

/* The last rank may open few descriptors: either it raises its limit, or no rank gets the transport, and its log has
 * the limit. */
static int run_limited(struct rig *rig, void *arg)
{
    const int *most = arg;
    int is_last = rig->boot->rank == rig->boot->size - 1, next = dup(STDERR_FILENO);
    struct rlimit limit = { .rlim_cur = (rlim_t)(next + 25), .rlim_max = (rlim_t)(next + *most) };
    struct halay_link *link = NULL;

    REQUIRE(next >= 0 && !close(next) && (!is_last || !setrlimit(RLIMIT_NOFILE, &limit)));
    enum halay_status status = rig->api->transport_create(&rig->host, rig->boot, &link);
    if (*most > 100) {
        REQUIRE(CHECK(status == HALAY_OK, "%s: %s", halay_status_string(status), rig->last_line));
        synchronize(link, 1);
        link->ops->close(link);
        return test_failed;
    }
    CHECK(status == HALAY_ERR_UNSUPPORTED && !link, "%s", halay_status_string(status));
    if (is_last)
        CHECK(strstr(rig->last_line, "are needed for connections with 2 ranks over UCX"), "'%s'", rig->last_line);
    else
        CHECK(strstr(rig->last_line, "rank 2 can't"), "'%s'", rig->last_line);
    return test_failed;
}

#endif

#ifdef UCX_CASES

/* A usual part goes ahead without being asked for up to this size of a world; what all peers send fits in 256 MiB. */
static void check_credit(void)
{
    enum { ASKED_FROM = 1010 };
    const size_t part = ((size_t)256 << 10) + 64, all = (size_t)256 << 20;

    CHECK(halay_ucx_cost(0) == 4096 && halay_ucx_cost(4096) == 4096 && halay_ucx_cost(4097) == 8192);
    for (int size = 2; size <= 2 * ASKED_FROM; size++) {
        CHECK((halay_ucx_budget(size) >= halay_ucx_cost(part)) == (size < ASKED_FROM), "%d ranks", size);
        CHECK(halay_ucx_budget(size) * (size_t)(size - 1) <= all, "%d ranks", size);
    }
}

/* Endpoints that have been opened here. */
static int opened_endpoints;

ucs_status_t __real_ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep);
ucs_status_t __wrap_ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep);
ucs_status_t __wrap_ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
    opened_endpoints++;
    return __real_ucp_ep_create(worker, params, ep);
}

/* What halay has set in UCX's configuration: NAME=VALUE, a line each. */
static char modified[512];

ucs_status_t __real_ucp_config_modify(ucp_config_t *config, const char *name, const char *value);
ucs_status_t __wrap_ucp_config_modify(ucp_config_t *config, const char *name, const char *value);
ucs_status_t __wrap_ucp_config_modify(ucp_config_t *config, const char *name, const char *value)
{
    size_t used = strlen(modified);
    ucs_status_t status = __real_ucp_config_modify(config, name, value);

    if (status == UCS_OK)
        snprintf(modified + used, sizeof modified - used, "%s=%s\n", name, value);
    return status;
}

/* Where there is only TCP each setting is made, but for one that the user has made. Without the user's TLS there may be
 * more than TCP. */
static int run_settings(struct rig *rig, void *arg)
{
    static const struct {
        const char *variable, *value, *line; /* the user's, and what is set without it */
    } settings[] = {
        { "UCX_TCP_RX_SEG_SIZE", "128K", "RX_SEG_SIZE=260K\n" },
        { "UCX_RNDV_THRESH", "1M", "RNDV_THRESH=2M\n" },
        { "UCX_ZCOPY_THRESH", "16K", "ZCOPY_THRESH=8K\n" },
    };
    enum { COUNT = sizeof settings / sizeof *settings };

    (void)arg;
    REQUIRE(!setenv("UCX_TLS", "tcp,self", 1) && !setenv("UCX_NET_DEVICES", "lo", 1));
    for (int users = 0; users <= COUNT; users++) {
        for (int i = 0; i < COUNT; i++)
            REQUIRE(
                !(i == users ? setenv(settings[i].variable, settings[i].value, 1) : unsetenv(settings[i].variable)));
        *modified = 0;
        struct halay_link *link = opened(rig);
        link->ops->close(link);
        for (int i = 0; i < COUNT; i++)
            CHECK(!strstr(modified, settings[i].line) == (i == users), "%s: '%s'", settings[i].variable, modified);
        CHECK(!strstr(modified, "TLS="), "'%s'", modified);
    }
    REQUIRE(!unsetenv("UCX_TLS"));
    struct halay_link *link = opened(rig);
    link->ops->close(link);
    CHECK(strstr(modified, "TLS=^posix,sysv,cma\n"), "'%s'", modified);
    return test_failed;
}

/* What halay's clock shows, 0: the time; and by how much each look at it moves it. */
static long stopped_clock_ms, clock_step_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!stopped_clock_ms)
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){ .tv_sec = stopped_clock_ms / 1000, .tv_nsec = stopped_clock_ms % 1000 * 1000000 };
    stopped_clock_ms += clock_step_ms;
    return 0;
}

/* All endpoints are open at the start, those to lower ranks, too. */
static int run_connect(struct rig *rig, void *arg)
{
    struct halay_link *link = opened(rig);

    (void)arg;
    CHECK(opened_endpoints == link->size - 1, "%d at the start", opened_endpoints);
    synchronize(link, 9);
    link->ops->close(link);
    CHECK(!*rig->last_line, "'%s'", rig->last_line);
    return test_failed;
}

/* All ranks have come here, and nothing moves over the transport meanwhile. */
static void line_up(struct rig *rig)
{
    unsigned char one = 1, all[8];

    REQUIRE((size_t)rig->boot->size <= sizeof all);
    REQUIRE(rig->boot->ops->allgather(rig->boot, &one, 1, all, 60000) == HALAY_OK);
}

/* Closes by a clock that moves with each look, so that a wait is a number of looks. */
static void close_by_looks(struct halay_link *link)
{
    stopped_clock_ms = 1000;
    clock_step_ms = 10;
    link->ops->close(link);
    stopped_clock_ms = clock_step_ms = 0;
}

/* A rank closes, and is gone before the other one does, which has not looked since they opened, or a few times. */
static int run_gone(struct rig *rig, void *arg)
{
    enum { LOOKS = 1, SENDS = 2, ALL = 4 };
    const int *leaver = arg;

    for (int round = 0; round < ALL; round++) {
        struct halay_link *link = opened(rig);
        struct halay_transfer x = { 0 };
        unsigned char out[400] = { 0 };
        int looks = round & LOOKS ? 100 : 0, is_leaver = link->rank == *leaver;

        if (round & SENDS)
            link->ops->send(link, !link->rank, 1, out, sizeof out, &x);
        for (int turn = 0; turn < 3; turn++) {
            progress_times(link, is_leaver == !(turn & 1) ? looks : 0);
            line_up(rig);
        }
        link->ops->cancel(link, &x);
        if (is_leaver)
            close_by_looks(link);
        line_up(rig);
        if (!is_leaver)
            close_by_looks(link);
        line_up(rig);
        CHECK(!*rig->last_line, "round %d: '%s'", round, rig->last_line);
        *rig->last_line = 0;
    }
    return test_failed;
}

/* A rank hears that another one leaves which has not looked since they opened. */
static int run_unmet(struct rig *rig, void *arg)
{
    struct halay_link *link = opened(rig);
    struct halay_transfer x = { 0 };
    unsigned char token = 0;

    (void)arg;
    if (link->rank == 0) {
        link->ops->recv(link, 1, 1, &token, 1, &x);
        CHECK(rig_wait(link, &x, 1) == HALAY_ERR_PEER);
        CHECK(strstr(rig->last_line, "rank 1 has left"), "'%s'", rig->last_line);
    }
    link->ops->close(link);
    CHECK(rig->boot->rank == 0 || !*rig->last_line, "'%s'", rig->last_line);
    return test_failed;
}

#endif

static void kill_self(void *arg)
{
    (void)arg;
    raise(SIGKILL);
}

/* The last rank dies in the middle of messages. */
static int run_death(struct rig *rig, void *arg)
{
    struct halay_bell bell;
    struct conformance c = { .bell = &bell, .boot = rig->boot, .seed = 1, .large = LARGE_BYTES };

    (void)arg;
    rig_watch(rig);
    c.link = opened(rig);
    bell_open(&bell, c.link);
    conformance_death(&c, rig->boot->size - 1, kill_self, NULL);
    int64_t start = halay_now_us();
    c.link->ops->close(c.link);
    CHECK(c.boot, "closed after %lld ms", (long long)(halay_now_us() - start) / 1000);
    halay_bell_fini(&bell);
    return conformance_failed() || test_failed;
}

#ifdef RANKS_ARE_FORKED

/* UCX delivers headers first, as it does where the network can write into place: much is with UCX when ranks end. */
static int fork_rendezvous(const struct halay_module_api *api)
{
    REQUIRE(!setenv("UCX_RNDV_THRESH", "200", 1));
    return rig_fork(api, 3, -1, DEADLINE_S, run_cases, NULL);
}

int main(void)
{
    const struct halay_module_api *api = rig_module(MODULE);
    static const int sizes[] = { 1, 3, 5, 2, 4, 7, 8 };
    size_t count = test_is_brief() ? 3 : sizeof sizes / sizeof *sizes;
    int rounds = 60, failed = 0; /* apart from test_failed, which a rank would inherit */

    setvbuf(stdout, NULL, _IOLBF, 0);
#ifdef UCX_CASES
    check_credit();
    failed += rig_fork(api, 1, -1, DEADLINE_S, run_settings, NULL);
    failed += rig_fork(api, 2, -1, DEADLINE_S, run_connect, NULL);
    failed += rig_fork(api, 4, -1, DEADLINE_S, run_connect, NULL);
    for (int leaver = 0; leaver < 2; leaver++)
        failed += rig_fork(api, 2, -1, DEADLINE_S, run_gone, &leaver);
    failed += rig_fork(api, 2, -1, DEADLINE_S, run_unmet, NULL);
#endif
    for (size_t i = 0; i < count; i++) {
        failed += rig_fork(api, sizes[i], -1, DEADLINE_S, run_conformance, NULL);
        if (sizes[i] <= 4)
            failed += rig_fork(api, sizes[i], -1, DEADLINE_S, run_cases, NULL);
    }
    failed += rig_fork(api, 2, -1, DEADLINE_S, run_pairs, &rounds);
    for (int most = 30; most <= 300; most *= 10)
        failed += rig_fork(api, 3, -1, DEADLINE_S, run_limited, &most);
    failed += rig_fork(api, 2, 1, DEADLINE_S, run_death, NULL);
    failed += rig_fork(api, 5, 4, DEADLINE_S, run_death, NULL);
    failed += fork_rendezvous(api);
#ifdef UCX_CASES
    for (int leaver = 0; leaver < 2; leaver++)
        failed += rig_fork(api, 2, -1, DEADLINE_S, run_gone, &leaver);
#endif
    CHECK(!failed, "%d ranks failed", failed);
    return test_end();
}

#else

int main(int argc, char **argv)
{
    const struct halay_module_api *api = rig_module(MODULE);
    struct rig rig;

    setvbuf(stdout, NULL, _IOLBF, 0);
    enum halay_status status = rig_open_mpi(&rig, api);
    CHECK(status == HALAY_OK, "%s: %s", halay_status_string(status), rig.last_line);
    if (status != HALAY_OK)
        return 1;
    alarm(DEADLINE_S);
    int failed;
    if (argc < 2)
        failed = run_cases(&rig, NULL);
    else
        failed = strcmp(argv[1], "conform") ? run_death(&rig, NULL) : run_conformance(&rig, NULL);
    rig_close(&rig);
    return failed || test_end();
}

#endif
