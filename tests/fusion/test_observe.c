/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine tells about itself, over the fake transport: counters, as a struct and as text.
 */
#include "tests/fusion/ranks.h"

static struct halay_counters counters_of(struct halay_context *ctx)
{
    struct halay_counters c = { .struct_size = sizeof c };

    CHECK(halay_counters_read(ctx, &c) == HALAY_OK);
    return c;
}

/* ---- counters ---- */

enum { STEPS = 5, TENSORS = 10, COUNT = 100 };

/* STEPS steps of TENSORS tensors in flight together. */
static void work(struct halay_context *ctx, float (*data)[COUNT])
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
                                         "halay_bytes_total{rank=\"%d\"} 20000\n" };
    char text[8192], small[100], line[100];
    size_t length, again;

    CHECK(halay_counters_write(ctx, text, sizeof text, &length) == HALAY_OK);
    CHECK(length == strlen(text) && length && text[length - 1] == '\n');
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(line, sizeof line, lines[i], rank);
        CHECK(strstr(text, line), "'%s' in '%s'", line, text);
    }
    /* Each line is a comment or a name, labels and a value. */
    for (char *at = text; *at; at = strchr(at, '\n') + 1)
        CHECK(!strncmp(at, "# HELP halay_", 13) || !strncmp(at, "# TYPE halay_", 13) ||
                  (!strncmp(at, "halay_", 6) && at[strcspn(at, "{\n")] == '{'),
              "'%.40s'", at);
    CHECK(halay_counters_write(ctx, small, sizeof small, &again) == HALAY_ERR_ARGUMENT);
    CHECK(strlen(small) == sizeof small - 1 && !strncmp(small, text, sizeof small - 1));
    CHECK(halay_counters_write(ctx, NULL, 0, &again) == HALAY_ERR_ARGUMENT && again > 1000);
    CHECK(halay_counters_write(ctx, NULL, 1, NULL) == HALAY_ERR_ARGUMENT);
}

/* A program that knows another version of the struct. */
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
    work(ctx, data[run->rank]);
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

int main(void)
{
    ranks_run(1, 0, &(struct rank_run){ .body = body_counters }, NULL, NULL);
    ranks_run(2, 0, &(struct rank_run){ .body = body_counters, .expected = "odd" }, NULL, NULL);
    ranks_run(3, 91, &(struct rank_run){ .body = body_counters, .expected = "odd" }, NULL, NULL);
    return test_end();
}
