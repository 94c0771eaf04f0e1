/* SPDX-License-Identifier: Apache-2.0
 *
 * Every schedule (schedule/step.h) is proved by proof.h for many numbers of ranks. Its steps, its bytes and what it
 * adds are compared with the formula of algorithms.def: those of the slowest rank are not more than it says, nor much
 * less.
 *
 * TEST_LONG=1 (tools/check -l long): all numbers of ranks up to 1,024, and some up to 16,384, by two processes.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/schedule/tree.h"
#include "tests/coll/proof.h"
#include "tests/test.h"
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 2 }; /* of the long run */

/* Of the formulas, for a vector of one byte. */
static struct halay_cost_terms terms_of(int size)
{
    int down = 31 - __builtin_clz((unsigned)size), ones = __builtin_popcount((unsigned)size), up = down + (ones > 1);

    return (struct halay_cost_terms){ .N = size,
                                      .S = 1,
                                      .H = size,
                                      .K = 1,
                                      .P = 1,
                                      .W = 1,
                                      .L = up,
                                      .Q = up,
                                      .T = down + ones - 1,
                                      .D = ones > 1,
                                      .F = halay_grid_rows(size),
                                      .J = (up + 1) / 2 };
}

/* Messages that follow each other are about as many as the formula has steps: a rank's count also grows by what a step
 * does not depend on, in a window that is full. The tokens of an all-to-all are not in the formula. */
static void check_depth(const struct halay_algorithm *a, int size, int depth)
{
    struct halay_cost_terms terms = terms_of(size);

    terms.a = 1;
    terms.o = 0.25; /* a window has room for few of a step's messages */
    int has_tokens = a->ops->schedule->has_tokens;
    double expected = a->seconds(&terms) + (has_tokens ? terms.L : 0);
    CHECK(depth <= expected * 1.2 + 2 && (has_tokens || depth * 3 >= expected),
          "%s %s, %d ranks: %d steps, %g by the formula", halay_coll_kind_name(a->operation), a->name, size, depth,
          expected);
}

/* The formula's bytes sent, with partial sums as they are and twice as wide, and bytes added. A broadcast's are those
 * that its root sends, not those that a rank receives. */
static void check_bytes(const struct halay_algorithm *a, int size, const struct proof *proof)
{
    struct halay_cost_terms bytes = terms_of(size), wide = bytes, added = bytes;
    int is_broadcast = a->operation == HALAY_COLL_BROADCAST, is_wide = a->flags & HALAY_ALGORITHM_WIDE;

    bytes.b = wide.b = added.g = 1;
    wide.W = 2;
    const struct {
        const char *what;
        double done, expected;
    } terms[] = {
        { "received", proof->bytes, a->seconds(&bytes) },
        { "received, partial sums wide", is_wide ? proof->wide : proof->bytes, a->seconds(&wide) },
        { "added", proof->added, a->seconds(&added) },
    };

    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        CHECK(terms[i].done <= terms[i].expected * 1.0001 &&
                  (is_broadcast || terms[i].done * 6.01 >= terms[i].expected),
              "%s %s, %d ranks: %g of the bytes %s, %g by the formula", halay_coll_kind_name(a->operation), a->name,
              size, terms[i].done, terms[i].what, terms[i].expected);
}

static void check(const struct halay_algorithm *a, int size, enum proof_way way)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        struct proof proof = proof_run(a, size, in_place, way);
        if (!CHECK(!proof.wrong, "%s %s, %d ranks%s: %s", halay_coll_kind_name(a->operation), a->name, size,
                   in_place ? " in place" : "", proof.wrong))
            continue;
        check_depth(a, size, proof.depth);
        check_bytes(a, size, &proof);
    }
}

static void check_some(const struct halay_algorithm *a)
{
    static const int some[] = { 25, 27, 31, 32, 33, 36, 47, 63, 64, 65, 96, 100, 127, 128, 129, 192, 255, 256, 257 };
    static const int more[] = { 513, 1024 };

    for (int size = 2; size <= 24; size++)
        check(a, size, PROOF_ALL_RANKS);
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        check(a, some[k], PROOF_ALL_RANKS);
        check(a, some[k], PROOF_BY_SYMMETRY);
    }
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
        check(a, more[k], PROOF_BY_SYMMETRY);
}

/* Of all numbers those that leave this remainder, for one of the processes. */
static void check_all(const struct halay_algorithm *a, int remainder)
{
    static const int samples[] = { 1536, 2047, 2048, 3000, 4095, 4096, 5041, 8191, 12288, 16383, 16384 };

    for (int size = 2; size <= 1024; size++)
        if (size % PROCESSES == remainder)
            check(a, size, PROOF_BY_SYMMETRY);
    for (int k = 0; k < (int)(sizeof samples / sizeof *samples); k++)
        if (k % PROCESSES == remainder && (a->operation != HALAY_COLL_ALLTOALL || samples[k] <= 4096)) /* N^2 steps */
            check(a, samples[k], PROOF_BY_SYMMETRY);
}

static void check_long(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid)
            continue;
        for (size_t k = 0; k < halay_algorithm_count; k++)
            if (halay_algorithms[k].ops->schedule)
                check_all(&halay_algorithms[k], i);
        int failed = test_end();
        (void)fflush(stdout);
        _exit(failed);
    }
    for (int i = 0, status; i < PROCESSES; i++)
        CHECK(wait(&status) > 0 && !status, "process status %d", status);
}

int main(void)
{
    if (test_is_long())
        check_long();
    for (size_t i = 0; i < halay_algorithm_count; i++) {
        const struct halay_algorithm *a = &halay_algorithms[i];
        if (!a->ops->schedule)
            continue;
        check_some(a);
        CHECK(a->ops->state_bytes(16384) <= 64 << 10);
    }
    CHECK(halay_algorithm_state_max(16384, 0) <= 64 << 10, "%zu bytes", halay_algorithm_state_max(16384, 0));
    return test_end();
}
