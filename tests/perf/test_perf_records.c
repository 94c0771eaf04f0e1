/* SPDX-License-Identifier: Apache-2.0
 *
 * What halay-perf makes of records: where ranks differ, in the files of invented jobs; and how far two clocks are
 * apart, in timelines with known clocks.
 */
#include "base/trace.h"
#include "perf/src/records/flight.h"
#include "perf/src/records/timeline.h"
#include "tests/test.h"
#include <float.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, CAPACITY = 64 };

static char folder[] = "/tmp/halay-flight.XXXXXX";
static struct halay_ring *rings[RANKS];
static int64_t now_ns = 1000000000; /* of the invented job */

static const char *path_of(int rank)
{
    static char path[RANKS][64];

    snprintf(path[rank], sizeof *path, "%s/f.%d", folder, rank);
    return path[rank];
}

static void begin_job(void)
{
    for (int r = 0; r < RANKS; r++)
        REQUIRE(halay_ring_create(NULL, path_of(r), CAPACITY * sizeof(struct halay_record), r, RANKS, &rings[r]) ==
                HALAY_OK);
}

static struct halay_record tensor(enum halay_record_kind kind, const char *name, uint64_t ordinal, uint64_t bytes)
{
    struct halay_record r = {
        .kind = (uint8_t)kind, .time_ns = ++now_ns, .ordinal = ordinal, .bytes = bytes, .count = 1
    };

    for (const char *p = name; *p; p++)
        r.hash = r.hash * 131 + (unsigned char)*p;
    halay_record_set_name(&r, name, strlen(name));
    return r;
}

static void submit(int rank, const char *name, uint64_t ordinal)
{
    struct halay_record r = tensor(HALAY_RECORD_SUBMITTED, name, ordinal, 400);

    halay_ring_add(rings[rank], &r);
}

static void end(int rank, const char *name, uint64_t ordinal)
{
    struct halay_record r = tensor(HALAY_RECORD_ENDED, name, ordinal, 400);

    r.begin_ns = r.time_ns - 1;
    halay_ring_add(rings[rank], &r);
}

static void collective(int rank, enum halay_record_kind kind, const char *name, uint64_t number)
{
    struct halay_record r = tensor(kind, name, 0, 400);

    r.collective = number;
    halay_ring_add(rings[rank], &r);
}

/* A step of one tensor that succeeded on all ranks. */
static void step(const char *name, uint64_t ordinal, uint64_t number)
{
    for (int r = 0; r < RANKS; r++)
        submit(r, name, ordinal);
    for (int r = 0; r < RANKS; r++) {
        collective(r, HALAY_RECORD_STARTED, name, number);
        collective(r, HALAY_RECORD_FINISHED, name, number);
        end(r, name, ordinal);
    }
}

/* The job is over: its differences must be these texts, in this order; NULL ends them. */
static void expect(const char *what, const char *const *wanted)
{
    struct perf_flight flights[RANKS];
    struct perf_difference *found;
    size_t count, n = 0;

    for (int r = 0; r < RANKS; r++) {
        halay_ring_destroy(rings[r]);
        REQUIRE(perf_flight_read(NULL, path_of(r), &flights[r]) == HALAY_OK);
    }
    perf_flight_align(flights, RANKS);
    REQUIRE(perf_flight_compare(flights, RANKS, &found, &count) == HALAY_OK);
    for (; wanted[n]; n++)
        CHECK(n < count && !strcmp(found[n].text, wanted[n]), "%s: '%s' instead of '%s'", what,
              n < count ? found[n].text : "nothing", wanted[n]);
    CHECK(n == count, "%s: %d differences, the last '%s'", what, (int)count, count ? found[count - 1].text : "");
    free(found);
    for (int r = 0; r < RANKS; r++)
        perf_flight_fini(&flights[r]);
}

#define EXPECT(what, ...) expect(what, (const char *const[]){ __VA_ARGS__, NULL })

static void check_differences(void)
{
    begin_job();
    step("a", 1, 1);
    EXPECT("nothing is wrong", NULL);

    begin_job();
    EXPECT("nothing happened", NULL);

    begin_job(); /* one rank does not submit; two more are in flight everywhere, which is no difference */
    step("a", 1, 1);
    for (int r = 0; r < RANKS; r++)
        submit(r, "b", 1);
    submit(0, "a", 2);
    submit(2, "a", 2);
    EXPECT("missing", "tensor 'a', submission 2: submitted by ranks 0, 2; not by rank 1");

    begin_job(); /* ranks wait for different tensors: the first one comes first */
    submit(1, "x", 1);
    submit(0, "y", 1);
    submit(2, "x", 1);
    EXPECT("crosswise", "tensor 'x', submission 1: submitted by ranks 1, 2; not by rank 0",
           "tensor 'y', submission 1: submitted by rank 0; not by ranks 1, 2");

    begin_job(); /* as something else, even though it ended with an error everywhere */
    struct halay_record other = tensor(HALAY_RECORD_SUBMITTED, "w", 1, 800);
    other.dtype = HALAY_F64;
    halay_ring_add(rings[1], &other);
    submit(0, "w", 1);
    submit(2, "w", 1);
    for (int r = 0; r < RANKS; r++) {
        struct halay_record ended = tensor(HALAY_RECORD_ENDED, "w", 1, r == 1 ? 800 : 400);
        ended.dtype = r == 1 ? HALAY_F64 : HALAY_F32;
        ended.status = HALAY_ERR_MISMATCH;
        halay_ring_add(rings[r], &ended);
    }
    EXPECT("another type",
           "tensor 'w', submission 1: submitted as allreduce of f32, 400 bytes by ranks 0, 2; as allreduce of "
           "f64, 800 bytes, by rank 1");
}

static void check_collectives(void)
{
    begin_job();
    step("a", 1, 1);
    for (int r = 0; r < RANKS; r++)
        submit(r, "b", 1);
    for (int r = 0; r < RANKS; r++)
        if (r != 1)
            collective(r, HALAY_RECORD_STARTED, "b", 2);
    collective(2, HALAY_RECORD_FINISHED, "b", 2);
    EXPECT("not started",
           "collective 2, 'b' (allreduce of f32): finished by rank 2; started and not finished by rank 0; not "
           "started by rank 1");

    begin_job();
    collective(0, HALAY_RECORD_STARTED, "b", 1);
    collective(1, HALAY_RECORD_STARTED, "c", 1);
    collective(2, HALAY_RECORD_STARTED, "b", 1);
    EXPECT("another one",
           "collective 1, 'b' (allreduce of f32): started and not finished by ranks 0, 2; it is 'c' (allreduce "
           "of f32) on rank 1");

    begin_job(); /* all ranks are in it: none differs */
    for (int r = 0; r < RANKS; r++)
        collective(r, HALAY_RECORD_STARTED, "b", 1);
    EXPECT("together", NULL);

    begin_job(); /* the rings have wrapped, rank 1's further than the others' */
    for (uint64_t n = 1; n <= 40; n++) {
        step("a", n, n);
        submit(1, "only here", n);
        end(1, "only here", n);
    }
    submit(0, "late", 1);
    submit(1, "late", 1);
    EXPECT("wrapped", "tensor 'late', submission 1: submitted by ranks 0, 1; not by rank 2");
}

static void in_set(int rank, enum halay_record_kind kind, const char *name, uint64_t number)
{
    struct halay_record r = tensor(kind, name, kind == HALAY_RECORD_SUBMITTED, 400);

    r.set = 3;
    r.collective = number;
    halay_ring_add(rings[rank], &r);
}

/* Ranks 0 and 2 are process set 3; its collectives and names are apart from those of all ranks. */
static void check_sets(void)
{
    begin_job();
    in_set(0, HALAY_RECORD_SET, "[0,2]", 0);
    in_set(2, HALAY_RECORD_SET, "[0,2]", 0);
    step("a", 1, 1);
    step("a", 2, 2);
    in_set(0, HALAY_RECORD_SUBMITTED, "a", 0);
    in_set(2, HALAY_RECORD_SUBMITTED, "a", 0);
    in_set(0, HALAY_RECORD_STARTED, "a", 1);
    in_set(2, HALAY_RECORD_STARTED, "a", 1);
    EXPECT("a set", NULL);

    begin_job();
    in_set(0, HALAY_RECORD_SET, "[0,2]", 0);
    in_set(2, HALAY_RECORD_SET, "[0,2]", 0);
    step("a", 1, 1);
    in_set(2, HALAY_RECORD_STARTED, "b", 1);
    in_set(0, HALAY_RECORD_SUBMITTED, "c", 0);
    EXPECT("a set differs",
           "collective 1, 'b' of process set 3 (allreduce of f32): started and not finished by rank 2; not started by "
           "rank 0",
           "tensor 'c' of process set 3, submission 1: submitted by rank 0; not by rank 2");
}

static void fail(int rank, const char *cause)
{
    struct halay_record r = tensor(HALAY_RECORD_FAILED, "", 0, 0);

    for (size_t length = strlen(cause); r.bytes < length;) {
        size_t part = halay_record_set_part(&r, cause + r.bytes, length - r.bytes);
        halay_ring_add(rings[rank], &r);
        submit(rank, "another thread's", r.bytes + 1);
        r.bytes += part;
    }
}

#define STALL                                                                                                          \
    "tensor 'encoder.layers.11.attention.output.dense.weight' stalled for 60 s: ranks 0 to 6 have submitted it, rank " \
    "7 has not"

static void check_last(void)
{
    struct perf_flight flight;
    struct halay_record r;
    char text[512];

    begin_job();
    submit(0, "a", 1);
    r = tensor(HALAY_RECORD_WAITS, "a", 1, 0);
    halay_ring_add(rings[0], &r);
    fail(0, "rank 2 has died");
    submit(1, "b", 1);
    r = tensor(HALAY_RECORD_WAITS, "b", 1, 0);
    halay_ring_add(rings[1], &r);
    r.kind = HALAY_RECORD_WAITED;
    r.begin_ns = r.time_ns;
    halay_ring_add(rings[1], &r);
    fail(1, STALL);
    r = tensor(HALAY_RECORD_LEFT, "", 0, 0);
    halay_ring_add(rings[2], &r);
    static const char *const wanted[RANKS] = {
        "waits for 'a', submitted 'another thread's' last; failed: rank 2 has died",
        "waits for nothing, submitted 'another thread's' last; failed: " STALL, "has left"
    };
    for (int k = 0; k < RANKS; k++) {
        halay_ring_destroy(rings[k]);
        REQUIRE(perf_flight_read(NULL, path_of(k), &flight) == HALAY_OK);
        perf_flight_last(&flight, text, sizeof text);
        CHECK(!strcmp(text, wanted[k]), "'%s'", text);
        perf_flight_fini(&flight);
    }
}

/* ---- clocks ---- */

static void check_bounds(void)
{
    /* b's clock is 1000 us ahead. In the first collective a comes last, in the second b does; each knows one side. */
    struct perf_common of_a[] = { { 1, 500, 510 }, { 2, 600, 710 }, { 4, 900, 905 } };
    struct perf_common of_b[] = { { 1, 1400, 1512 }, { 2, 1700, 1712 }, { 3, 1800, 1810 }, { 4, 1890, 1906 } };
    struct perf_timeline a = { .commons = of_a, .count = 3 }, b = { .commons = of_b, .count = 4 };
    double least = -DBL_MAX, most = DBL_MAX;

    CHECK(perf_timeline_bounds(&a, &b, &least, &most) == 3);
    CHECK(least == 990 && most == 1006, "%g to %g", least, most);
    b.count = 0;
    CHECK(perf_timeline_bounds(&a, &b, &least, &most) == 0 && least == 990 && most == 1006);
}

/* A ring's timeline is one object, whatever the names are, and is read back with its collectives. */
static void check_trace(void)
{
    struct perf_timeline timeline;
    struct halay_record r;

    begin_job();
    step("w \"quoted\\\"", 1, 1);
    step("w \xc3\xbc", 1, 2);
    r = tensor(HALAY_RECORD_FINISHED, "from a root", 0, 400);
    r.collective = 3;
    r.operation = 1; /* a broadcast does not bound clocks */
    halay_ring_add(rings[1], &r);
    r = tensor(HALAY_RECORD_FAILED, "a \x01 broken file", 0, 0);
    halay_ring_add(rings[1], &r);
    fail(1, STALL);
    for (int k = 0; k < RANKS; k++)
        halay_ring_destroy(rings[k]);
    if (!CHECK(perf_timeline_read(NULL, path_of(1), &timeline) == HALAY_OK))
        return;
    CHECK(timeline.rank == 1 && timeline.count == 2 && timeline.commons[1].number == 2);
    double before =
        json_number_value(json_object_get(json_array_get(json_object_get(timeline.root, "traceEvents"), 4), "ts"));
    perf_timeline_shift(&timeline, 100);
    double after =
        json_number_value(json_object_get(json_array_get(json_object_get(timeline.root, "traceEvents"), 4), "ts"));
    char *written = json_dumps(timeline.root, 0);
    CHECK(written && strstr(written, "\"" STALL "\""), "the cause is whole");
    free(written);
    CHECK(before > 0 && before - after == 100, "%f, %f", before, after);
    perf_timeline_fini(&timeline);
}

int main(void)
{
    REQUIRE(mkdtemp(folder));
    check_differences();
    check_collectives();
    check_sets();
    check_last();
    check_bounds();
    check_trace();
    for (int r = 0; r < RANKS; r++)
        REQUIRE(!unlink(path_of(r)));
    REQUIRE(!rmdir(folder));
    return test_end();
}
