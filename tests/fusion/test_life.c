/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a request (fusion/requests/life.h): each state with each other, and the properties of all ways through the
 * table.
 */
#include "fusion/requests/life.h"
#include "tests/test.h"

static int follows(int life, int next)
{
    return halay_life_may_follow((enum halay_life)life, (enum halay_life)next);
}

/* Every state can be reached from the first one, and the last one from every state. */
static void check_ways(void)
{
    unsigned reached = 1u << HALAY_LIFE_QUEUED, ends = 1u << HALAY_LIFE_ENDED;

    for (int pass = 0; pass < HALAY_LIVES; pass++)
        for (int life = 0; life < HALAY_LIVES; life++)
            for (int next = 0; next < HALAY_LIVES; next++) {
                if (!follows(life, next))
                    continue;
                reached |= (reached >> life & 1u) << next;
                ends |= (ends >> next & 1u) << life;
            }
    CHECK(reached == (1u << HALAY_LIVES) - 1 && ends == reached, "%#x %#x", reached, ends);
}

int main(void)
{
    for (int life = 0; life < HALAY_LIVES; life++) {
        int is_queued = life == HALAY_LIFE_QUEUED, is_sent = life == HALAY_LIFE_SENT;
        CHECK(follows(life, HALAY_LIFE_ENDED) == (life != HALAY_LIFE_ENDED), "it ends twice, or never");
        for (int next = 0; next < HALAY_LIFE_ENDED; next++)
            CHECK(life < HALAY_LIFE_RUNNING || !follows(life, next), "what runs is taken back, or it lives on");
        CHECK(follows(life, HALAY_LIFE_SENT) == is_queued, "sent twice, or not at all");
        CHECK(follows(life, HALAY_LIFE_QUEUED) == (is_sent || life == HALAY_LIFE_PLANNED), "queued from %d", life);
        CHECK(follows(life, HALAY_LIFE_RUNNING) == (is_queued || is_sent), "started from %d", life);
        CHECK(follows(life, HALAY_LIFE_PLANNED) == (is_queued || is_sent), "planned from %d", life);
    }
    check_ways();
    return test_end();
}
