/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's reports: counters, as a struct and as text; stalls and stragglers, by the coordinator alone with a clock
 * of the test's, and by engines over the fake transport; timelines that start and stop.
 */
#include "fusion/coordinator/coordinator.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"
#include <jansson.h>
#include <signal.h>
#include <unistd.h>

static struct halay_counters counters_of(struct halay_context *ctx)
{
    struct halay_counters c = { .struct_size = sizeof c };

    CHECK(halay_counters_read(ctx, &c) == HALAY_OK);
    return c;
}

/* ---- counters ---- */

enum { STEPS = 5, TENSORS = 10, COUNT = 100 };

/* Runs STEPS steps of TENSORS tensors in flight together. */
static void run_steps(struct halay_context *ctx, float (*data)[COUNT])
{
    struct halay_request *requests[TENSORS];
    char name[8];

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < TENSORS; i++) {
            snprintf(name, sizeof name, "t%d", i);
            CHECK(halay_allreduce_async(ctx, name, NULL, data[i], COUNT, HALAY_F32, HALAY_SUM, &requests[i]) ==
                  HALAY_OK);
        }
        for (int i = 0; i < TENSORS; i++) {
            CHECK(halay_wait(requests[i], -1) == HALAY_OK);
            halay_request_free(requests[i]);
        }
    }
}

static void check_text(struct halay_context *ctx, int rank)
{
    static const char *const lines[] = { "halay_submissions_total{rank=\"%d\"} 51\n",
                                         "halay_in_flight{rank=\"%d\"} 0\n",
                                         "halay_errors_total{rank=\"%d\",status=\"ranks disagree\"} 1\n",
                                         "halay_bytes_total{rank=\"%d\"} 20000\n",
                                         "halay_program_value{rank=\"%d\",name=\"loss\"} 0.125\n" };
    char text[8192], small[100], line[100];
    size_t length, again;

    CHECK(halay_gauge_set(ctx, "loss", 0.125) == HALAY_OK);
    CHECK(halay_gauge_set(ctx, "no name", 1) == HALAY_ERR_ARGUMENT && halay_gauge_set(NULL, "x", 1));
    CHECK(halay_counters_write(ctx, text, sizeof text, &length) == HALAY_OK);
    CHECK(length == strlen(text) && length && text[length - 1] == '\n');
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, lines[i], rank);
        CHECK(strstr(text, line), "'%s' in '%s'", line, text);
    }
    /* Checks that each line is a comment, or a name, labels and a value. */
    for (char *at = text; *at; at = strchr(at, '\n') + 1)
        CHECK(!strncmp(at, "# HELP halay_", 13) || !strncmp(at, "# TYPE halay_", 13) ||
                  (!strncmp(at, "halay_", 6) && at[strcspn(at, "{\n")] == '{'),
              "'%.40s'", at);
    CHECK(halay_counters_write(ctx, small, sizeof small, &again) == HALAY_ERR_ARGUMENT);
    CHECK(strlen(small) == sizeof small - 1 && !strncmp(small, text, sizeof small - 1));
    CHECK(halay_counters_write(ctx, NULL, 0, &again) == HALAY_ERR_ARGUMENT && again > 1000);
    CHECK(halay_counters_write(ctx, NULL, 1, NULL) == HALAY_ERR_ARGUMENT);
}

/* A program that was built against another version of the struct. */
static void check_sizes(struct halay_context *ctx)
{
    struct {
        struct halay_counters known;
        uint64_t later;
    } larger = { .known = { .struct_size = sizeof larger }, .later = 7 };
    struct halay_counters smaller = { .struct_size = offsetof(struct halay_counters, completions), .completions = 7 };

    CHECK(halay_counters_read(ctx, &larger.known) == HALAY_OK);
    CHECK(larger.known.struct_size == sizeof larger && larger.known.completions == STEPS * TENSORS && !larger.later);
    CHECK(halay_counters_read(ctx, &smaller) == HALAY_OK);
    CHECK(smaller.submissions == STEPS * TENSORS + 1 && smaller.completions == 7);
    CHECK(halay_counters_read(ctx, &(struct halay_counters){ .struct_size = 0 }) == HALAY_ERR_ARGUMENT);
    CHECK(halay_counters_read(ctx, NULL) == HALAY_ERR_ARGUMENT);
}

static void body_counters(struct rank_run *run)
{
    static float data[RANKS_MAX][TENSORS][COUNT];
    struct halay_context *ctx = run->ctx;
    struct halay_counters c = counters_of(ctx);
    const uint64_t submitted = STEPS * TENSORS;

    CHECK(!c.submissions && !c.completions && !c.errors && !c.collectives && !c.bytes && !c.communication_ns);
    run_steps(ctx, data[run->rank]);
    c = counters_of(ctx);
    CHECK(c.submissions == submitted && c.completions == submitted && !c.errors && !c.in_flight);
    CHECK(c.negotiations >= TENSORS && c.negotiations + c.cache_hits == submitted, "%llu by name, %llu by number",
          (unsigned long long)c.negotiations, (unsigned long long)c.cache_hits);
    CHECK(c.collectives >= STEPS && c.collectives <= submitted && c.fused_tensors <= submitted);
    CHECK(c.bytes == submitted * COUNT * sizeof(float) && c.communication_ns > 0 && c.steps > 0);
    CHECK((c.messages_sent > 0) == (run->size > 1) && (c.messages_received > 0) == (run->size > 1));
    if (run->size == 1)
        return;
    CHECK(halay_allreduce(ctx, "odd", NULL, data[run->rank][0], run->rank ? 2 : 1, HALAY_F32, HALAY_SUM) ==
          HALAY_ERR_MISMATCH);
    c = counters_of(ctx);
    CHECK(c.errors == 1 && c.errors_by_status[HALAY_ERR_MISMATCH] == 1 && c.completions == submitted);
    check_sizes(ctx);
    check_text(ctx, run->rank);
}

/* ---- the coordinator alone: a clock of the test's, messages and log lines kept ---- */

enum { JOB = 12, LINES_MAX = 32 };
#define SECOND INT64_C(1000000)

struct bench {
    struct halay_coordinator *c;
    struct halay_log log;
    int size, asked[JOB], shown[JOB], fails, lines, forgotten;
    uint32_t forget[JOB];
    char text[HALAY_TEXT_MAX + 1], line[LINES_MAX][1200];
};

static enum halay_status bench_emit(void *arg, int rank, const struct halay_item *item)
{
    struct bench *b = arg;

    if (item->kind == HALAY_ITEM_ASK) {
        b->asked[rank]++;
        b->shown[rank] += item->shows_stacks;
    } else if (item->kind == HALAY_ITEM_FORGET) {
        REQUIRE(b->forgotten < JOB);
        b->forget[b->forgotten++] = item->id;
    } else if (item->kind == HALAY_ITEM_FAIL) {
        b->fails++;
        CHECK(rank == -1 && item->status == HALAY_ERR_PEER);
        snprintf(b->text, sizeof b->text, "%.*s", (int)item->text_length, item->text);
    }
    return HALAY_OK;
}

static void bench_log(void *arg, enum halay_log_level level, const char *line)
{
    struct bench *b = arg;

    (void)level;
    REQUIRE(b->lines < LINES_MAX);
    snprintf(b->line[b->lines++], sizeof *b->line, "%s", line);
}

static void bench_open(struct bench *b, int size, enum halay_log_level level)
{
    memset(b, 0, sizeof *b);
    halay_log_init(&b->log, level);
    b->size = size;
    b->log.write = bench_log;
    b->log.arg = b;
    struct halay_coordinator_options options = {
        .size = size, .threshold = 1 << 20, .ids_max = 4, .log = &b->log, .emit = bench_emit, .arg = b
    };
    REQUIRE(halay_coordinator_create(&options, &b->c) == HALAY_OK);
}

static void bench_close(struct bench *b)
{
    halay_coordinator_destroy(b->c);
    halay_log_fini(&b->log);
}

static void submit_item(struct bench *b, int rank, const char *name, int64_t now_us)
{
    struct halay_item item = { .kind = HALAY_ITEM_ANNOUNCE,
                               .name = name,
                               .name_length = strlen(name),
                               .signature = { .dimensions = 1, .shape = { 4 } } };
    int emitted;

    CHECK(halay_coordinator_receive(b->c, rank, &item, now_us) == HALAY_OK);
    CHECK(halay_coordinator_decide(b->c, 1, &emitted) == HALAY_OK);
    for (; b->forgotten; b->forgotten--) /* the other ranks withdraw it, too: its entry is freed */
        for (int r = 1; r < b->size; r++)
            CHECK(halay_coordinator_receive(
                      b->c, r, &(struct halay_item){ .kind = HALAY_ITEM_FORGET, .id = b->forget[b->forgotten - 1] },
                      now_us) == HALAY_OK);
}

static void answer_ask(struct bench *b, int rank, enum halay_doing doing, const char *name)
{
    struct halay_item item = { .kind = HALAY_ITEM_DOING, .doing = doing, .name = name, .name_length = strlen(name) };

    CHECK(halay_coordinator_receive(b->c, rank, &item, 0) == HALAY_OK);
}

/* Looks for stalls; returns the number of logged lines. Rank 0 waits for 'own'. */
static int look_for_stalls(struct bench *b, int64_t now_us, int64_t report_us, int64_t limit_us)
{
    static const struct halay_item own = {
        .kind = HALAY_ITEM_DOING, .doing = HALAY_DOING_WAITS, .name = "own", .name_length = 3
    };

    b->lines = 0;
    CHECK(halay_coordinator_look_for_stalls(b->c, now_us, report_us, limit_us, &own) == HALAY_OK);
    return b->lines;
}

static void expect_line(const struct bench *b, int i, const char *want)
{
    CHECK(i < b->lines && strstr(b->line[i], want), "'%s' instead of '%s'", i < b->lines ? b->line[i] : "nothing",
          want);
}

static void check_stall_report(void)
{
    struct bench b;
    int64_t t = 100 * SECOND;

    bench_open(&b, 4, HALAY_LOG_WARNING);
    submit_item(&b, 1, "before", t);
    submit_item(&b, 1, "late", t + SECOND);
    submit_item(&b, 3, "late", t + 2 * SECOND);
    CHECK(!look_for_stalls(&b, t + 59 * SECOND, 60 * SECOND, 0) && !b.asked[2], "not yet");
    /* Both are old enough now. Each rank that lacks either is asked once, and the report waits for the answers. */
    CHECK(!look_for_stalls(&b, t + 62 * SECOND, 60 * SECOND, 0) && b.asked[2] == 1 && b.asked[3] == 1 && !b.asked[1]);
    CHECK(b.shown[2] == 1 && b.shown[3] == 1 && halay_coordinator_asks_rank0(b.c) &&
          !halay_coordinator_asks_rank0(b.c));
    answer_ask(&b, 2, HALAY_DOING_ELSE, "");
    CHECK(!look_for_stalls(&b, t + 63 * SECOND, 60 * SECOND, 0) && b.asked[2] == 1);
    answer_ask(&b, 3, HALAY_DOING_WAITS, "late");
    CHECK(look_for_stalls(&b, t + 63 * SECOND + 1, 60 * SECOND, 0) == 5);
    expect_line(&b, 0, "stalled for 63 s: tensor 'before': submitted by rank 1, missing: ranks 0, 2, 3");
    expect_line(&b, 1, "stalled for 62 s: tensor 'late': submitted by ranks 1, 3, missing: ranks 0, 2");
    expect_line(&b, 2, "stalled: rank 0 has submitted nothing; its program waits for 'own'");
    expect_line(&b, 3, "stalled: rank 2 has submitted nothing; its program waits for nothing");
    expect_line(&b, 4, "stalled: rank 3 submitted 'late' last, 61 s ago; its program waits for 'late'");
    /* Reported again after the same time, not before, though another tensor has become old; ranks that do not answer
     * are reported as such. */
    for (int s = 64; s < 122; s++)
        CHECK(!look_for_stalls(&b, t + s * SECOND, 60 * SECOND, 0), "after %d s", s);
    submit_item(&b, 0, "late", t + 122 * SECOND);
    CHECK(!look_for_stalls(&b, t + 124 * SECOND, 60 * SECOND, 0) && b.asked[2] == 2);
    answer_ask(&b, 3, HALAY_DOING_WAITS, "");
    CHECK(look_for_stalls(&b, t + 127 * SECOND, 60 * SECOND, 0) == 5);
    expect_line(&b, 1, "tensor 'late': submitted by ranks 0, 1, 3, missing: rank 2");
    expect_line(&b, 3, "stalled: rank 2 has submitted nothing; does not answer");
    expect_line(&b, 4, "its program waits");
    CHECK(!b.fails);
    bench_close(&b);
}

/* Few lines, whatever the number of stalls. */
static void check_stall_bounds(void)
{
    struct bench b;
    char name[16];

    bench_open(&b, JOB, HALAY_LOG_WARNING);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i);
        submit_item(&b, JOB - 1, name, SECOND);
    }
    look_for_stalls(&b, 10 * SECOND, SECOND, 0);
    for (int r = 1; r < JOB - 1; r++) {
        CHECK(b.asked[r] == 1 && b.shown[r] == (r < 8), "rank %d is one of the first eight, with rank 0", r);
        answer_ask(&b, r, HALAY_DOING_LEAVES, "");
    }
    CHECK(look_for_stalls(&b, 11 * SECOND, SECOND, 0) == 6 + 1 + 8 + 1);
    expect_line(&b, 6, "stalled: 94 more tensors");
    expect_line(&b, 8, "stalled: rank 1 has submitted nothing; its program is leaving");
    expect_line(&b, 15, "stalled: 3 more ranks");
    bench_close(&b);
}

static void check_stall_limit(void)
{
    struct bench b;

    bench_open(&b, 3, HALAY_LOG_WARNING);
    submit_item(&b, 0, "late", SECOND);
    CHECK(!look_for_stalls(&b, 1000 * SECOND, 0, 0) && !b.asked[1], "off");
    CHECK(!look_for_stalls(&b, 10 * SECOND, 0, 10 * SECOND) && !b.fails);
    look_for_stalls(&b, 11 * SECOND, 0, 10 * SECOND);
    CHECK(b.fails == 1 && !strcmp(b.text, "stalled for 10 s: tensor 'late': submitted by rank 0, missing: ranks 1, 2"),
          "'%s'", b.text);
    look_for_stalls(&b, 12 * SECOND, 0, 10 * SECOND);
    CHECK(b.fails == 1, "once");
    bench_close(&b);
}

static void check_stragglers(void)
{
    struct bench b;
    struct halay_straggler s;

    bench_open(&b, 3, HALAY_LOG_INFO);
    /* Rank 2 is last by 3 ms, once by 7; rank 0 once by 1; the others submit together. */
    for (int64_t i = 1; i <= 10; i++) {
        int last = i == 4 ? 0 : 2, late_us = i == 7 ? 7000 : 3000;
        for (int r = 0; r < 3; r++)
            if (r != last)
                submit_item(&b, r, i % 2 ? "a" : "b", i * SECOND);
        submit_item(&b, last, i % 2 ? "a" : "b", i * SECOND + (last == 0 ? 1000 : late_us));
    }
    for (int r = 0; r < 3; r++) /* together: no rank is last */
        for (int k = 0; k < 8; k++)
            submit_item(&b, r, (char[]){ (char)('c' + k), 0 }, 20 * SECOND);
    halay_coordinator_straggler(b.c, 2, &s);
    CHECK(s.tensors == 18 && s.times_last == 9 && s.late_ns == 31000000 && s.latest_ns == 7000000);
    halay_coordinator_straggler(b.c, 0, &s);
    CHECK(s.times_last == 1 && s.late_ns == 1000000 && s.latest_ns == 1000000);
    halay_coordinator_straggler(b.c, 1, &s);
    CHECK(s.times_last == 0 && s.late_ns == 0 && s.latest_ns == 0);
    b.lines = 0;
    halay_coordinator_report_stragglers(b.c);
    CHECK(b.lines == 2);
    expect_line(&b, 0,
                "stragglers: rank 2 was the last one for 9 of 18 tensors, late by 3.44 ms on average, 7 ms at most");
    expect_line(&b, 1, "stragglers: rank 0 was the last one for 1 of 18 tensors");
    /* Names are forgotten, also the one that rank 1 submitted last: the report then omits it. */
    for (int k = 0; k < 8; k++) {
        submit_item(&b, 0, (char[]){ (char)('r' - k), 0 }, 30 * SECOND);
        submit_item(&b, 1, (char[]){ (char)('k' + k), 0 }, 30 * SECOND);
    }
    for (int k = 0; k < 8; k++)
        submit_item(&b, 2, (char[]){ (char)('r' - k), 0 }, 30 * SECOND);
    submit_item(&b, 0, "z", 31 * SECOND);
    look_for_stalls(&b, 40 * SECOND, SECOND, 0);
    CHECK(look_for_stalls(&b, 43 * SECOND, SECOND, 0) == 3);
    expect_line(&b, 1, "stalled: rank 1 submitted something last, 13 s ago; does not answer");
    expect_line(&b, 2, "stalled: rank 2 submitted 'k' last, 13 s ago; does not answer");
    bench_close(&b);
}

/* ---- stalls and stragglers over engines ---- */

static _Atomic int saw_waits, saw_else, stacks_shown;

static void show_stacks(int signal)
{
    (void)signal;
    stacks_shown++;
}

static void note_stall(struct rank_run *run, const char *line)
{
    (void)run;
    if (strstr(line, "stalled: rank 2 submitted 'go' last") && strstr(line, "its program waits for 'go'"))
        saw_waits = 1;
    else if (strstr(line, "stalled: rank 1 submitted 'first' last") && strstr(line, "its program waits for nothing"))
        saw_else = 1;
    else if (!strstr(line, "stalled") && !strstr(line, "stragglers"))
        fprintf(stderr, "%s\n", line);
}

static void configure_stall(struct halay_config *config, void *arg)
{
    (void)arg;
    config->stall_check_ms = 20;
}

/* Rank 1 computes, rank 2 waits for another tensor; rank 0 reports both, and lets them continue. */
static void body_stall(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    struct halay_request *request = NULL;
    float x = 1, go = 0;

    CHECK(halay_allreduce(ctx, "first", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_OK);
    if (run->rank == 0) {
        CHECK(halay_allreduce_async(ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
        while (!saw_waits || !saw_else)
            halay_wait(request, 10);
    } else if (run->rank == 1) {
        while (!saw_waits || !saw_else)
            usleep(1000);
    }
    CHECK(halay_broadcast(ctx, "go", &go, 1, HALAY_F32, 0) == HALAY_OK);
    if (!request)
        CHECK(halay_allreduce_async(ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK && x == 9);
    halay_request_free(request);

    struct halay_straggler s = { .struct_size = sizeof s };
    CHECK(halay_stragglers_read(ctx, 3, &s) == HALAY_ERR_ARGUMENT);
    CHECK(halay_stragglers_read(ctx, 1, &s) == (run->rank ? HALAY_ERR_UNSUPPORTED : HALAY_OK));
    if (run->rank)
        return;
    CHECK(s.tensors == 3 && s.times_last <= 3 && s.latest_ns <= s.late_ns);
    CHECK(stacks_shown >= 2, "of ranks 1 and 2: %d", stacks_shown);
    char text[16384];
    CHECK(halay_counters_write(ctx, text, sizeof text, NULL) == HALAY_OK);
    CHECK(strstr(text, "halay_arrivals_total{rank=\"0\"} 3\n") &&
          strstr(text, "halay_late_seconds_total{rank=\"0\",arrived=\"2\"} "));
}

static void configure_limit(struct halay_config *config, void *arg)
{
    config->stall_check_ms = 0;
    config->stall_shutdown_ms = *(int *)arg;
}

enum { LIMIT_MOST_MS = 10000 };

static _Atomic int were_right; /* of three ranks */

/* The last rank never submits: every rank gets an error that names it. */
static void body_limit(struct rank_run *run)
{
    struct halay_context *ctx = run->ctx;
    static const char want[] = "tensor 'late': submitted by ranks 0, 1, missing: rank 2";
    int is_last_try = *(int *)run->arg == LIMIT_MOST_MS;
    char text[HALAY_TEXT_MAX];
    float x = 1;

    if (run->rank != 2)
        CHECK(halay_allreduce(ctx, "late", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    while (halay_context_status(ctx, text, sizeof text) == HALAY_OK)
        usleep(1000);
    CHECK(!strncmp(text, "stalled for ", 12) && halay_context_status(ctx, NULL, 0) == HALAY_ERR_PEER, "'%s'", text);
    were_right += strstr(text, want) != NULL;
    CHECK(strstr(text, want) || !is_last_try, "'%s'", text);
    CHECK(halay_allreduce(ctx, "later", NULL, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
}

/* The limit may expire before the second rank has submitted: then it is repeated with a longer one. */
static void check_limit(void)
{
    for (int ms = 100; were_right < 3 && ms <= LIMIT_MOST_MS; ms *= 10) {
        were_right = 0;
        ranks_run(
            3, 0,
            &(struct rank_run){ .body = body_limit, .arg = &ms, .configure = configure_limit, .expected = "stalled" },
            NULL, NULL);
    }
}

/* ---- timelines ---- */

static char folder[] = "/tmp/halay-observe.XXXXXX";

/* Reads and removes the rank's file; returns the number of events of a category whose names have this prefix. */
static int count_events(const char *name, int rank, const char *category, const char *begin)
{
    json_t *event, *root;
    char path[128];
    size_t i;
    int count = 0;

    snprintf(path, sizeof path, "%s/%s.%d.json", folder, name, rank);
    if (!CHECK((root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL)), "%s", path))
        return -1;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *its = json_string_value(json_object_get(event, "cat")),
                   *phase = json_string_value(json_object_get(event, "ph"));
        count += its && !strcmp(its, category) && strchr("bXi", *phase) &&
                 !strncmp(json_string_value(json_object_get(event, "name")), begin, strlen(begin));
    }
    CHECK(json_integer_value(json_object_get(json_object_get(root, "otherData"), "rank")) == rank);
    json_decref(root);
    return count;
}

static void drop_file(const char *name, int rank)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s.%d.json", folder, name, rank);
    REQUIRE(!unlink(path));
}

/* A step that repeats is not negotiated from the fourth time on; its collectives are in the timeline all the same. */
static void check_replay_is_drawn(struct halay_context *ctx, int rank, float *data)
{
    char path[128];

    snprintf(path, sizeof path, "%s/alone.json", folder);
    CHECK(halay_timeline_start(ctx, path) == HALAY_OK);
    for (int step = 0; step < STEPS; step++)
        CHECK(halay_allreduce(ctx, "alone", NULL, data, COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
    CHECK(halay_timeline_stop(ctx) == HALAY_OK);
    CHECK(count_events("alone", rank, "collective", "alone") == STEPS);
    drop_file("alone", rank);
}

static void body_timeline(struct rank_run *run)
{
    static float data[RANKS_MAX][TENSORS][COUNT];
    struct halay_context *ctx = run->ctx;
    char path[128];

    CHECK(halay_timeline_stop(ctx) == HALAY_ERR_ARGUMENT && halay_timeline_start(ctx, "") == HALAY_ERR_ARGUMENT);
    run_steps(ctx, data[run->rank]);
    for (int round = 0; round < 2;
         round++) { /* each has the events of its own time, and the second none of the first */
        snprintf(path, sizeof path, "%s/%d.json", folder, round);
        CHECK(halay_timeline_start(ctx, path) == HALAY_OK);
        CHECK(halay_timeline_start(ctx, path) == HALAY_ERR_DUPLICATE);
        for (int i = 0; i <= round; i++)
            run_steps(ctx, data[run->rank]);
        CHECK(halay_timeline_stop(ctx) == HALAY_OK);
    }
    run_steps(ctx, data[run->rank]);
    check_replay_is_drawn(ctx, run->rank, data[run->rank][0]);
    CHECK(count_events("0", run->rank, "tensor", "t") == STEPS * TENSORS &&
          count_events("0", run->rank, "tensor", "t3") == STEPS);
    CHECK(count_events("1", run->rank, "tensor", "t") == 2 * STEPS * TENSORS);
    CHECK(count_events("1", run->rank, "collective", "t") >= 2 * STEPS &&
          count_events("1", run->rank, "failure", "") == 0);
    drop_file("0", run->rank);
    drop_file("1", run->rank);
    snprintf(path, sizeof path, "%s/no/where.json", folder);
    CHECK(halay_timeline_start(ctx, path) == HALAY_OK && halay_timeline_stop(ctx) == HALAY_ERR_SYSTEM);
    /* The last one is ended by halay_fini. */
    snprintf(path, sizeof path, "%s/last.json", folder);
    CHECK(halay_timeline_start(ctx, path) == HALAY_OK);
    CHECK(halay_allreduce(ctx, "final", NULL, data[run->rank][0], COUNT, HALAY_F32, HALAY_SUM) == HALAY_OK);
}

int main(void)
{
    REQUIRE(mkdtemp(folder));
    ranks_run(3, 0, &(struct rank_run){ .body = body_timeline, .expected = "timeline" }, NULL, NULL);
    for (int r = 0; r < 3; r++) {
        CHECK(count_events("last", r, "tensor", "final") == 1 && count_events("last", r, "collective", "final") == 1);
        drop_file("last", r);
    }
    REQUIRE(!rmdir(folder));
    check_stall_report();
    check_stall_bounds();
    check_stall_limit();
    check_stragglers();
    signal(HALAY_STACKS_SIGNAL, show_stacks);
    ranks_run(3, 0, &(struct rank_run){ .body = body_stall, .configure = configure_stall, .sink = note_stall }, NULL,
              NULL);
    check_limit();
    ranks_run(1, 0, &(struct rank_run){ .body = body_counters }, NULL, NULL);
    ranks_run(2, 0, &(struct rank_run){ .body = body_counters, .expected = "odd" }, NULL, NULL);
    ranks_run(3, 91, &(struct rank_run){ .body = body_counters, .expected = "odd" }, NULL, NULL);
    return test_end();
}
