/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: what runs together is a function of the ranks' programs, whatever the interleaving.
 *
 * Each rank has a program: submit some members, wait for one of them, and so on, all members every step. It is played
 * by a small simulation in which a random rank does its next thing; a rank that waits goes on when the member has run.
 * The list of what ran together must be the same (as a set a step) for every interleaving. Programs may have fewer
 * steps than others and join at their end.
 */
#include "fusion/coordinator/streams.h"
#include "tests/fusion/random.h"
#include "tests/test.h"
#include <string.h>

enum { MEMBERS = 5, RANKS = 3, STEPS = 6, ACTIONS = 2 * MEMBERS * STEPS + MEMBERS + 1 };

struct action {
    enum { SUBMITS, WAITS, JOINS } what;
    size_t member;
};

struct program {
    struct action actions[ACTIONS];
    size_t count;
};

struct play {
    int runs[MEMBERS];            /* how often each has run */
    int together[MEMBERS][STEPS]; /* with how many it ran, each time */
};

static void run(void *arg, const size_t *members, size_t count)
{
    struct play *play = arg;

    for (size_t i = 0; i < count; i++) {
        int *runs = &play->runs[members[i]];
        CHECK(*runs < STEPS);
        play->together[members[i]][(*runs)++] = (int)count;
    }
}

/* A step: all members in random order, waits for submitted ones in between; at the end all that have not been waited
 * for. */
static void make_steps(struct random *random, struct program *p, int eager, int steps)
{
    p->count = 0;
    for (int step = 0; step < steps; step++) {
        size_t order[MEMBERS];
        int waited[MEMBERS] = { 0 };
        for (size_t i = 0; i < MEMBERS; i++) {
            size_t j = random_below(random, i + 1);
            order[i] = order[j];
            order[j] = i;
        }
        for (size_t i = 0; i < MEMBERS; i++) {
            p->actions[p->count++] = (struct action){ SUBMITS, order[i] };
            size_t w = order[random_below(random, i + 1)];
            if (eager && !random_below(random, 4) && !waited[w]) {
                waited[w] = 1;
                p->actions[p->count++] = (struct action){ WAITS, w };
            }
        }
        for (size_t i = 0; i < MEMBERS; i++)
            if (!waited[i])
                p->actions[p->count++] = (struct action){ WAITS, i };
    }
}

static void make_program(struct random *random, struct program *p, int eager)
{
    make_steps(random, p, eager, STEPS);
}

/* Returns 0 when no rank can go on. */
static int play(struct random *random, const struct program *programs, struct play *play_out)
{
    struct halay_streams *s;
    size_t at[RANKS] = { 0 };
    int submitted[RANKS][MEMBERS] = { { 0 } }, told[RANKS] = { 0 };

    memset(play_out, 0, sizeof *play_out);
    REQUIRE(halay_streams_create(MEMBERS, RANKS, run, play_out, &s) == HALAY_OK);
    for (int stuck = 0; stuck < 200;) {
        int r = (int)random_below(random, RANKS);
        if (at[r] == programs[r].count) {
            stuck++;
            continue;
        }
        struct action a = programs[r].actions[at[r]];
        if (a.what == JOINS) {
            REQUIRE(halay_streams_feed(s, r, HALAY_STREAM_ALL, HALAY_STREAM_JOINED) == HALAY_OK);
            REQUIRE(halay_streams_feed(s, r, HALAY_STREAM_ALL, HALAY_STREAM_WAITED) == HALAY_OK); /* for the others */
            at[r]++;
        } else if (a.what == SUBMITS) {
            submitted[r][a.member]++;
            REQUIRE(halay_streams_feed(s, r, a.member, HALAY_STREAM_READY) == HALAY_OK);
            at[r]++;
        } else if (play_out->runs[a.member] >= submitted[r][a.member]) {
            at[r]++;
            told[r] = 0;
        } else if (!told[r]) {
            told[r] = 1;
            REQUIRE(halay_streams_feed(s, r, a.member, HALAY_STREAM_WAITED) == HALAY_OK);
        } else {
            stuck++;
            continue;
        }
        stuck = 0;
    }
    halay_streams_destroy(s);
    for (int r = 0; r < RANKS; r++)
        if (at[r] < programs[r].count)
            return 0;
    return 1;
}

static void check_interleavings(struct random *random, int eager)
{
    struct program programs[RANKS];
    struct play first, other;

    /* Blocking waits in different orders can wait for each other in a ring whatever an engine does; the same program on
     * every rank cannot, and neither can programs that wait at the end of a step only. */
    make_program(random, &programs[0], eager);
    for (int r = 1; r < RANKS; r++)
        if (eager)
            programs[r] = programs[0];
        else
            make_program(random, &programs[r], 0);
    CHECK(play(random, programs, &first), "nobody can go on");
    for (int k = 0; k < 10; k++) {
        CHECK(play(random, programs, &other), "nobody can go on");
        CHECK(!memcmp(&first, &other, sizeof first), "another interleaving ran other buckets");
    }
    for (size_t m = 0; m < MEMBERS; m++) {
        CHECK(first.runs[m] == STEPS);
        for (int step = 0; step < STEPS && !eager; step++)
            CHECK(first.together[m][step] == MEMBERS, "all were ready before anybody waited");
    }
}

/* One rank is more eager than the others: still the same buckets each time. */
static void check_one_eager(struct random *random)
{
    struct program programs[RANKS];
    struct play first, other;

    for (int r = 0; r < RANKS; r++)
        make_program(random, &programs[r], 0);
    make_program(random, &programs[random_below(random, RANKS)], 1);
    CHECK(play(random, programs, &first), "nobody can go on");
    for (int k = 0; k < 10; k++) {
        CHECK(play(random, programs, &other), "nobody can go on");
        CHECK(!memcmp(&first, &other, sizeof first), "another interleaving ran other buckets");
    }
}

/* Ranks have different numbers of steps, one of them all; some submit a part of a step more before they join. */
static void check_joins(struct random *random, int eager)
{
    struct program programs[RANKS];
    struct play first, other;
    int longest = (int)random_below(random, RANKS);

    for (int r = 0; r < RANKS; r++) {
        int steps = r == longest ? STEPS : (int)random_below(random, STEPS);
        make_steps(random, &programs[r], eager && r == longest, steps);
        for (size_t m = 0; m < random_below(random, MEMBERS) && r != longest; m++)
            programs[r].actions[programs[r].count++] = (struct action){ SUBMITS, m };
        programs[r].actions[programs[r].count++] = (struct action){ JOINS, 0 };
    }
    CHECK(play(random, programs, &first), "nobody can go on");
    for (int k = 0; k < 10; k++) {
        CHECK(play(random, programs, &other), "nobody can go on");
        CHECK(!memcmp(&first, &other, sizeof first), "another interleaving ran other buckets");
    }
    for (size_t m = 0; m < MEMBERS; m++)
        CHECK(first.runs[m] == STEPS, "%d", first.runs[m]);
}

/* Two ranks; the other one has had enough twice. */
static void check_unjoin(void)
{
    struct halay_streams *s;
    struct play p = { .runs = { 0 } };

    REQUIRE(halay_streams_create(2, 2, run, &p, &s) == HALAY_OK);
    for (int round = 0; round < 2; round++) {
        halay_streams_feed(s, 1, 1, HALAY_STREAM_READY);
        halay_streams_feed(s, 1, HALAY_STREAM_ALL, HALAY_STREAM_JOINED);
        CHECK(p.runs[1] == 2 * round && p.runs[0] == round);
        halay_streams_feed(s, 0, 0, HALAY_STREAM_READY);
        CHECK(p.runs[0] == round);
        halay_streams_feed(s, 0, 1, HALAY_STREAM_READY);
        CHECK(p.runs[0] == round + 1 && p.together[0][round] == 2, "what the other lacks does not count");
        halay_streams_feed(s, 0, 1, HALAY_STREAM_READY);
        CHECK(p.runs[1] == 2 * round + 1);
        halay_streams_feed(s, 0, HALAY_STREAM_ALL, HALAY_STREAM_JOINED);
        CHECK(p.runs[1] == 2 * round + 2 && p.together[1][2 * round + 1] == 1, "what is left runs");
        halay_streams_unjoin(s);
    }
    halay_streams_feed(s, 0, 0, HALAY_STREAM_READY);
    halay_streams_feed(s, 0, 1, HALAY_STREAM_READY);
    CHECK(p.runs[0] == 2 && p.runs[1] == 4, "it is awaited again");
    halay_streams_destroy(s);
}

static void check_drop_and_retract(void)
{
    struct halay_streams *s;
    struct play p = { .runs = { 0 } };

    REQUIRE(halay_streams_create(3, 2, run, &p, &s) == HALAY_OK);
    for (int r = 0; r < 2; r++)
        for (size_t m = 0; m < 2; m++)
            halay_streams_feed(s, r, m, HALAY_STREAM_READY);
    CHECK(!p.runs[0] && !p.runs[1]);
    CHECK(halay_streams_drop(s, 2) == 2);
    CHECK(p.together[0][0] == 2 && p.together[1][0] == 2, "what is left is complete now");
    halay_streams_feed(s, 0, 0, HALAY_STREAM_READY);
    halay_streams_feed(s, 0, 1, HALAY_STREAM_READY);
    halay_streams_feed(s, 1, 1, HALAY_STREAM_READY);
    halay_streams_retract(s, 1);
    halay_streams_feed(s, 1, 0, HALAY_STREAM_READY);
    CHECK(p.runs[0] == 1);
    halay_streams_feed(s, 1, 0, HALAY_STREAM_WAITED);
    halay_streams_feed(s, 0, 0, HALAY_STREAM_WAITED);
    CHECK(p.runs[0] == 2 && p.together[0][1] == 1 && p.runs[1] == 1);
    CHECK(halay_streams_drop(s, 0) == 1 && halay_streams_drop(s, 1) == 0);
    halay_streams_destroy(s);
}

int main(int argc, char **argv)
{
    struct random random = { random_seed(argc, argv) };

    check_drop_and_retract();
    check_unjoin();
    for (int i = 0; i < 400; i++) {
        check_interleavings(&random, 0);
        check_interleavings(&random, 1);
        check_one_eager(&random);
        check_joins(&random, i % 2);
    }
    return test_end();
}
