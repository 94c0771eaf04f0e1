/* SPDX-License-Identifier: Apache-2.0
 *
 * Autotune: a program whose step takes a known time for each threshold, with noise; the search ends after a bounded
 * number of steps at the best, stays at what is configured where nothing is better, can be stopped, and its file is
 * read back.
 */
#include "fusion/coordinator/autotune.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSORS = 20, STEPS_MAX = 2000 };
#define TENSOR_BYTES ((size_t)1 << 20)

static char path[] = "/tmp/halay-autotune.XXXXXX";

/* How large chunks are best. */
static int best_shift;

/* Microseconds of a step: each bucket costs, and what is fused too long is not overlapped. */
static double step_us(size_t threshold, size_t best)
{
    double ratio = threshold > best ? (double)threshold / (double)best : (double)best / (double)(threshold + 1);

    return 10000 * (1 + 0.2 * (ratio > 16 ? 16 : ratio - 1));
}

/* Run steps until it is done, at most `most`; how many. best 0: every threshold is as good. */
static int run_steps(struct halay_autotune *tune, struct random *random, size_t best, int most)
{
    uint64_t seen[TENSORS] = { 0 };
    int64_t now_us = 1000000;
    int steps = 0, changes = 0;

    for (; steps < most && tune->phase != HALAY_AUTOTUNE_DONE; steps++) {
        double slower = 1 + 0.1 * abs(tune->chunk_shift - best_shift);
        double us =
            (best ? step_us(tune->threshold, best) * slower : 10000) * (1 + (double)random_below(random, 100) / 10000);
        if (random_below(random, 50) == 0)
            us *= 3; /* now and then something else has the machine */
        for (int t = 0; t < TENSORS; t++) {
            changes += halay_autotune_submitted(tune, &seen[t], TENSOR_BYTES, now_us);
            now_us += (int64_t)(us / TENSORS);
        }
    }
    CHECK(changes <= 1 + HALAY_AUTOTUNE_ROUNDS * (HALAY_AUTOTUNE_CANDIDATES + 3 + 4));
    return steps;
}

static void check_search(struct random *random)
{
    static const size_t bests[] = { (size_t)256 << 10, (size_t)1 << 20, (size_t)2 << 20, (size_t)8 << 20,
                                    (size_t)16 << 20 };
    struct halay_autotune tune;

    for (size_t i = 0; i < sizeof bests / sizeof *bests; i++) {
        best_shift = (int)(i % 4) - 1;
        halay_autotune_init(&tune, (size_t)64 << 20, 4);
        int steps = run_steps(&tune, random, bests[i], STEPS_MAX);
        CHECK(tune.phase == HALAY_AUTOTUNE_DONE && steps < 500, "%d steps", steps);
        CHECK(tune.chunk_shift == best_shift, "chunks by %d instead of %d", tune.chunk_shift, best_shift);
        CHECK(tune.threshold == bests[i] && tune.is_measured && tune.bytes == TENSORS * TENSOR_BYTES,
              "%zu instead of %zu", tune.threshold, bests[i]);
    }
    halay_autotune_init(&tune, 12345678, 4);
    run_steps(&tune, random, 0, STEPS_MAX);
    CHECK(tune.phase == HALAY_AUTOTUNE_DONE && tune.threshold == 12345678 && !tune.chunk_shift, "%zu", tune.threshold);
    halay_autotune_init(&tune, 0, 4); /* no fusion is a threshold too */
    run_steps(&tune, random, (size_t)4 << 20, STEPS_MAX);
    CHECK(tune.phase == HALAY_AUTOTUNE_DONE && tune.threshold == (size_t)4 << 20, "%zu", tune.threshold);
}

static void check_stop(struct random *random)
{
    struct halay_autotune tune;

    for (int steps = 0; steps < 300; steps += 7) {
        halay_autotune_init(&tune, (size_t)64 << 20, 2);
        run_steps(&tune, random, (size_t)1 << 20, steps);
        halay_autotune_give_up(&tune);
        CHECK(tune.phase == HALAY_AUTOTUNE_DONE && (tune.threshold == (size_t)64 << 20 || tune.is_measured), "%d",
              steps);
        CHECK(steps < 200 || tune.threshold == (size_t)1 << 20, "after %d steps %zu", steps, tune.threshold);
        CHECK(!halay_autotune_give_up(&tune));
    }
}

/* Another kind of step for a while, and back: each has its own, the second time without a search. */
static void check_phases(void)
{
    static const size_t bytes[] = { 100, 3 * TENSOR_BYTES, 100, 3 * TENSOR_BYTES };
    struct halay_autotune tune;
    uint64_t seen[2][2] = { { 0 } };
    int64_t now_us = 1;
    int steps[4];

    halay_autotune_init(&tune, (size_t)64 << 20, 2);
    for (int phase = 0; phase < 4; phase++) {
        int begun = 0;
        for (steps[phase] = 0; !(begun && tune.phase == HALAY_AUTOTUNE_DONE) && steps[phase] < STEPS_MAX;
             steps[phase]++) {
            for (int t = 0; t < 2; t++)
                halay_autotune_submitted(&tune, &seen[phase % 2][t], bytes[phase], now_us);
            now_us += (int64_t)(10 * step_us(tune.threshold, phase % 2 ? (size_t)2 << 20 : (size_t)256 << 10));
            begun |= tune.bytes == 2 * bytes[phase];
        }
        CHECK(tune.is_measured == (phase < 2) && tune.threshold == (phase % 2 ? (size_t)2 << 20 : (size_t)256 << 10),
              "%d: %zu", phase, tune.threshold);
    }
    CHECK(steps[0] > 20 && steps[1] > 20 && steps[2] < 10 && steps[3] < 10 && tune.known_count == 2);
}

static void check_file(struct random *random)
{
    struct halay_autotune tune;

    halay_autotune_init(&tune, (size_t)64 << 20, 4);
    CHECK(halay_autotune_load(NULL, path, &tune) == HALAY_OK && !tune.known_count, "an empty file");
    CHECK(halay_autotune_save(NULL, path, &tune) == HALAY_OK, "nothing to save");
    best_shift = 2;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        halay_autotune_init(&tune, (size_t)64 << 20, ranks);
        CHECK(halay_autotune_load(NULL, path, &tune) == HALAY_OK && tune.known_count == ranks / 2 - 1);
        run_steps(&tune, random, (size_t)ranks << 20, STEPS_MAX);
        CHECK(halay_autotune_save(NULL, path, &tune) == HALAY_OK);
    }
    /* The next job takes it over as soon as its steps are alike, one of other ranks or tensors does not. */
    halay_autotune_init(&tune, (size_t)64 << 20, 4);
    CHECK(halay_autotune_load(NULL, path, &tune) == HALAY_OK && tune.known_count == 2);
    CHECK(run_steps(&tune, random, (size_t)1 << 20, STEPS_MAX) == 5 && tune.threshold == (size_t)4 << 20 &&
          tune.chunk_shift == 2 && !tune.is_measured);
    halay_autotune_init(&tune, (size_t)64 << 20, 3);
    CHECK(halay_autotune_load(NULL, path, &tune) == HALAY_OK);
    CHECK(run_steps(&tune, random, (size_t)1 << 20, STEPS_MAX) > 5 && tune.is_measured);
}

static void check_lines(void)
{
    static const char *const lines[] = { "4 100 much",    "4 100",        "4 100 200 x",
                                         "4 100 200 1 x", "4 100 200 -4", "4 100 200 4" };
    struct halay_autotune tune;
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_ERROR);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        FILE *file = fopen(path, "we");
        REQUIRE(file && fprintf(file, "# comment\n\n%s\n", lines[i]) > 0 && !fclose(file));
        halay_autotune_init(&tune, (size_t)64 << 20, 4);
        CHECK(halay_autotune_load(&log, path, &tune) == HALAY_ERR_FORMAT, "'%s'", lines[i]);
    }
    FILE *file = fopen(path, "we");
    REQUIRE(file && fputs("2 100 200\n4 100 200 -3", file) >= 0 && !fclose(file)); /* the first: as it was once */
    halay_autotune_init(&tune, (size_t)64 << 20, 4);
    CHECK(halay_autotune_load(&log, path, &tune) == HALAY_OK && tune.known_count == 2);
    CHECK(tune.known[0].chunk_shift == 0 && tune.known[1].chunk_shift == -3 && tune.known[1].threshold == 200);
    halay_log_fini(&log);
}

int main(void)
{
    struct random random = { 1 }; /* always the same noise: how much of it is too much is not the question */
    int fd = mkstemp(path);

    REQUIRE(fd >= 0 && !close(fd));
    check_search(&random);
    check_stop(&random);
    check_phases();
    check_file(&random);
    check_lines();
    REQUIRE(!unlink(path));
    return test_end();
}
