/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank is killed at each message by which a plan of replay is made and left (fusion/protocol/replay.h): immediately
 * before and after it sends the message, or acts on it. Four ranks are processes, in a tree of degree 2:
 *
 *     0 -+- 1
 *        +- 2 --- 3      rank 3 leaves the plan, in the middle of a step that the others have submitted
 *
 * A first run counts the messages; then there is a run for each of them. On all survivors each submission ends once,
 * with the right data or with the error that names the victim, and none of them hangs.
 *
 * The control link's sends come by here, and the program is linked so that halay_item_read does.
 * HALAY_TRANSPORT names the transport (shm).
 * usage: test_break [--all]                  with TEST_BRIEF every fourth run, unless --all
 *        test_break RANK WAY KIND NUMBER MOMENT   one of them, as a failure names it
 */
#include "fusion/protocol/messenger.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/tensor.h"
#include "halay.h"
#include "tests/spawn.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

enum { RANKS = 4, BREAKER = 3, TENSORS = 8, ELEMENTS = 100, STEPS_BEFORE = 7, STEPS_AFTER = 3, KINDS = 8 };
enum { WAIT_MS = 60000, HANG_S = 100, TOGETHER = 4, STRAY = TENSORS };

enum way { SENT, RECEIVED, WAYS };
enum moment { BEFORE, AFTER, MOMENTS };

/* The place where a rank dies. number: of its messages of that kind, from 0; rank -1: nowhere. */
struct death {
    int rank, way, kind, number, moment;
};

/* State of a run, shared by its processes. */
struct run {
    struct death death;
    _Atomic int has_died;
    int counts[RANKS][WAYS][KINDS];
};

static const char *const kinds[KINDS] = { "PLANNED", "PLAN",     "BREAK",   "FREEZE",
                                          "ENTERED", "COMPLETE", "SETTLED", "RESUME" };
static const enum halay_item_kind first_kind = HALAY_ITEM_PLANNED;
static struct run *run;
static struct halay_context *ctx;

/* ---- messages ---- */

static int is_due; /* the rank dies at the next call of its engine */

static void die(void)
{
    run->has_died = 1;
    raise(SIGKILL);
}

/* Returns nonzero if messages with this item count: those of the first plan. */
static int counts(const struct halay_item *item)
{
    return item->kind == first_kind || (item->kind > first_kind && item->epoch == 1);
}

/* Counts a message of this kind. Returns nonzero if it is the chosen one. */
static int note_message(enum way way, enum halay_item_kind kind)
{
    const struct death *d = &run->death;
    int number = run->counts[ctx->rank][way][kind - first_kind]++;

    return d->rank == ctx->rank && d->way == (int)way && d->kind == (int)(kind - first_kind) && d->number == number;
}

enum halay_status __real_halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                         struct halay_item *item);
enum halay_status __wrap_halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                         struct halay_item *item);

/* A message may have several items of a kind: it counts once. */
enum halay_status __wrap_halay_item_read(const unsigned char *bytes, size_t size_bytes, size_t *at, int size,
                                         struct halay_item *item)
{
    static unsigned seen;

    seen = *at == HALAY_MESSAGE_HEADER ? 0 : seen;
    enum halay_status status = __real_halay_item_read(bytes, size_bytes, at, size, item);
    if (status != HALAY_OK || !counts(item) || seen & 1u << item->kind || !ctx)
        return status;
    seen |= 1u << item->kind;
    if (note_message(RECEIVED, item->kind)) {
        if (run->death.moment == BEFORE)
            die();
        is_due = 1;
    }
    return status;
}

static const struct halay_link_ops *real_ops;

/* Returns nonzero if the message is the chosen one. The items that matter here fit in its first part. */
static int note_sent(const unsigned char *bytes)
{
    struct halay_message_header header;
    size_t at = HALAY_MESSAGE_HEADER;
    unsigned seen = 0;
    int is_it = 0;

    REQUIRE(halay_message_get_header(bytes, &header) == HALAY_OK);
    size_t end = header.bytes < HALAY_FRAME_BYTES ? header.bytes : HALAY_FRAME_BYTES;
    for (struct halay_item item; at < end && __real_halay_item_read(bytes, end, &at, RANKS, &item) == HALAY_OK;) {
        if (!counts(&item) || seen & 1u << item.kind)
            continue;
        seen |= 1u << item.kind;
        is_it |= note_message(SENT, item.kind);
    }
    return is_it;
}

static void hooked_send(struct halay_link *link, int peer, uint64_t tag, const void *buf, size_t bytes,
                        struct halay_transfer *x)
{
    int is_it = tag == halay_tag(HALAY_CONTROL_GROUP, 0, 0) && note_sent(buf);

    if (is_it && run->death.moment == BEFORE)
        die();
    real_ops->send(link, peer, tag, buf, bytes, x);
    if (is_it) {
        real_ops->progress(link);
        die();
    }
}

static enum halay_status hooked_progress(struct halay_link *link)
{
    if (is_due)
        die();
    return real_ops->progress(link);
}

static void hook_link(void)
{
    static struct halay_link_ops ops;

    real_ops = ctx->control->ops;
    ops = *real_ops;
    ops.send = hooked_send;
    ops.progress = hooked_progress;
    __atomic_store_n(&ctx->control->ops, &ops, __ATOMIC_RELEASE);
}

/* ---- a rank's program ---- */

struct tensor {
    struct halay_tensor *handle;
    float data[ELEMENTS];
    int number; /* the step */
    struct halay_request *request;
    _Atomic int calls, status;
};

static struct tensor tensors[TENSORS + 1];
static int is_broken;

static void called(void *arg, enum halay_status status, const char *text)
{
    struct tensor *t = arg;

    (void)text;
    t->status = (int)status;
    t->calls++;
}

static void register_all(void)
{
    for (int i = 0; i <= TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, i < TENSORS ? "tensor %d" : "stray", i);
        struct halay_tensor_info info = {
            .struct_size = sizeof info, .name = name, .dimensions = 1, .shape = { ELEMENTS }, .out = tensors[i].data
        };
        REQUIRE(halay_register(ctx, &info, &tensors[i].handle) == HALAY_OK);
    }
}

static int value(int rank, int number, int i, int k)
{
    return rank * 7 + number * 3 + i + k;
}

static void submit(int i, int number)
{
    struct tensor *t = &tensors[i];

    t->number = number;
    t->calls = 0;
    t->request = NULL;
    for (int k = 0; k < ELEMENTS; k++)
        t->data[k] = (float)value(ctx->rank, number, i, k);
    enum halay_status status = halay_submit(t->handle, called, t, &t->request);
    CHECK(status == HALAY_OK || status == HALAY_ERR_PEER, "%s", halay_status_string(status));
    is_broken |= status != HALAY_OK;
    if (status != HALAY_OK)
        t->request = NULL;
}

/* Checks a submission on a survivor: it ends once, with the sum of that step or the death. */
static void finish(int i)
{
    struct tensor *t = &tensors[i];

    if (!t->request)
        return;
    enum halay_status status = halay_wait(t->request, WAIT_MS);
    CHECK(status == HALAY_OK || (status == HALAY_ERR_PEER && run->has_died), "step %d tensor %d: %s", t->number, i,
          halay_status_string(status));
    CHECK(t->calls == 1 && t->status == (int)status, "step %d tensor %d: called %d times", t->number, i, t->calls);
    for (int k = 0; status == HALAY_OK && k < ELEMENTS; k++) {
        int want = 0;
        for (int r = 0; r < RANKS; r++)
            want += value(r, t->number, i, k);
        if (!CHECK(t->data[k] == (float)want, "step %d tensor %d: %g, not %d", t->number, i, (double)t->data[k], want))
            break;
    }
    is_broken |= status != HALAY_OK;
    halay_request_free(t->request);
    t->request = NULL;
}

static void finish_all(void)
{
    for (int i = 0; i <= TENSORS; i++)
        finish(i);
}

static void run_plain(int number)
{
    for (int i = 0; i < TENSORS; i++)
        submit(i, number);
    finish_all();
}

static int has_plan(void)
{
    pthread_mutex_lock(&ctx->lock);
    int is_planned = tensors[0].handle->entry->planned != NULL;
    pthread_mutex_unlock(&ctx->lock);
    return is_planned;
}

/* Only rank 3 has a reason to leave the plan, with a part of its step submitted. */
static void run_breaking(int number)
{
    for (int i = 0; i < TENSORS; i++) {
        if (ctx->rank == BREAKER && i == TENSORS / 2)
            submit(STRAY, number);
        submit(i, number);
    }
    while (ctx->rank != BREAKER && has_plan() && halay_context_status(ctx, NULL, 0) == HALAY_OK)
        sched_yield();
    if (ctx->rank != BREAKER)
        submit(STRAY, number);
    finish_all();
}

static void check_lost(void)
{
    char want[40], text[200];

    snprintf(want, sizeof want, "rank %d has died", run->death.rank);
    CHECK(halay_context_status(ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, want), "'%s'", text);
}

static void ignore_log(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static int be_rank(void)
{
    static const char *const settings[] = { "HALAY_REPLAY=1", "HALAY_FUSION_THRESHOLD=900", NULL };
    struct halay_options options = { .struct_size = sizeof options, .log = ignore_log, .settings = settings };
    struct halay_context *opened;
    int step = 0;

    alarm(HANG_S);
    if (!CHECK(halay_init(&options, &opened) == HALAY_OK))
        return 1;
    ctx = opened;
    ctx->degree = 2; /* no plan begins before all have submitted */
    hook_link();
    register_all();
    for (; step < STEPS_BEFORE && !is_broken; step++)
        run_plain(step);
    int planned = has_plan();
    run_breaking(100);
    for (step = 101; !is_broken && (step < 101 + STEPS_AFTER || run->has_died); step++)
        run_plain(step);
    CHECK(is_broken || planned, "no plan");
    if (is_broken)
        check_lost();
    halay_fini(ctx);
    return test_failed != 0;
}

/* ---- runs ---- */

static void print_death(const struct death *d)
{
    printf("that was: test_break %d %s %s %d %s\n", d->rank, d->way == SENT ? "sent" : "received", kinds[d->kind],
           d->number, d->moment == BEFORE ? "before" : "after");
}

/* Runs the ranks once. Returns nonzero if the victim died, or no victim was chosen. */
static int run_once(const struct death *death)
{
    int status, rank, failed = test_failed;
    struct spawn s;

    memset(run, 0, sizeof *run);
    run->death = *death;
    spawn_begin(&s, RANKS);
    for (int r = 0; r < RANKS; r++)
        if (!spawn_rank(&s, r)) {
            test_failed = 0;
            exit(be_rank());
        }
    while ((rank = spawn_wait(&s, &status)) >= 0)
        if (rank == death->rank && run->has_died)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else
            CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "rank %d: status %#x", rank, (unsigned)status);
    spawn_end(&s);
    if (test_failed > failed)
        print_death(death);
    return death->rank < 0 || run->has_died;
}

/* Another rank may leave the plan, too, as on a busy machine, so that a message is missing: then it is repeated. */
static void kill_at(const struct death *death)
{
    int tries = 0;

    while (tries < 5 && !run_once(death))
        tries++;
    if (!CHECK(tries < 5, "the message was never sent"))
        print_death(death);
}

static size_t list_deaths(const struct run *counted, struct death *deaths)
{
    size_t count = 0;

    for (int rank = 0; rank < RANKS; rank++)
        for (int way = 0; way < WAYS; way++)
            for (int kind = 0; kind < KINDS; kind++)
                for (int number = 0; number < counted->counts[rank][way][kind]; number++)
                    for (int moment = 0; moment < MOMENTS; moment++)
                        deaths[count++] = (struct death){ rank, way, kind, number, moment };
    return count;
}

static struct run *share_run(void)
{
    void *shared = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(shared != MAP_FAILED);
    return shared;
}

/* Several runs at a time, since a run mostly waits. */
static void kill_at_each(const struct death *deaths, size_t count, size_t step)
{
    pid_t pids[TOGETHER];

    for (size_t k = 0; k < TOGETHER; k++) {
        fflush(stdout);
        pids[k] = fork();
        REQUIRE(pids[k] >= 0);
        if (pids[k])
            continue;
        run = share_run();
        for (size_t i = k * step; i < count; i += TOGETHER * step)
            kill_at(&deaths[i]);
        exit(test_failed != 0);
    }
    for (size_t k = 0; k < TOGETHER; k++) {
        int status;
        CHECK(waitpid(pids[k], &status, 0) == pids[k] && WIFEXITED(status) && !WEXITSTATUS(status));
    }
}

/* Makes a run in which every message of the plan is sent, as the tree requires. */
static void count_messages(void)
{
    static const struct death none = { .rank = -1 };
    int below_inner = 0;

    run_once(&none);
    for (int kind = 0; kind < KINDS; kind++) {
        int sent = 0, received = 0;
        for (int r = 0; r < RANKS; r++) {
            sent += run->counts[r][SENT][kind];
            received += run->counts[r][RECEIVED][kind];
        }
        CHECK(sent == received && sent >= (kind + first_kind == HALAY_ITEM_BREAK ? 2 : RANKS - 1),
              "%s: sent %d times, received %d times", kinds[kind], sent, received);
        below_inner += run->counts[BREAKER][RECEIVED][kind];
    }
    CHECK(below_inner >= 5);
}

static int parse(char **argv, struct death *d)
{
    *d = (struct death){ .rank = atoi(argv[1]),
                         .way = strcmp(argv[2], "sent") ? RECEIVED : SENT,
                         .kind = -1,
                         .number = atoi(argv[4]),
                         .moment = strcmp(argv[5], "before") ? AFTER : BEFORE };
    for (int kind = 0; kind < KINDS; kind++)
        if (!strcmp(argv[3], kinds[kind]))
            d->kind = kind;
    return d->kind >= 0 && d->rank >= 0 && d->rank < RANKS;
}

int main(int argc, char **argv)
{
    static struct death deaths[1000];
    int is_all = argc == 2 && !strcmp(argv[1], "--all");

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 1 && !is_all && (argc != 6 || !parse(argv, &deaths[0]))) {
        fprintf(stderr, "usage: test_break [--all | RANK sent|received KIND NUMBER before|after]\n");
        return 99;
    }
    setenv("HALAY_TRANSPORT", "shm", 0);
    run = share_run();
    if (argc == 6) {
        kill_at(&deaths[0]);
        return test_end();
    }
    count_messages();
    size_t count = list_deaths(run, deaths);
    printf("%zu deaths\n", count);
    kill_at_each(deaths, count, test_is_brief() && !is_all ? 4 : 1);
    return test_end();
}
