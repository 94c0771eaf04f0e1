/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a request (fusion/requests/life.h): each state with each event, and the
 * properties of all ways through the table.
 */
#include "fusion/requests/life.h"
#include "tests/test.h"

/* Every state can be reached from the first one, and the last one from every state. */
static void check_ways(void)
{
    unsigned reached = 1u << HALAY_LIFE_QUEUED, ends = 1u << HALAY_LIFE_ENDED;

    for (int pass = 0; pass < HALAY_LIVES; pass++)
        for (int life = 0; life < HALAY_LIVES; life++)
            for (int event = 0; event < HALAY_LIFE_EVENTS; event++) {
                enum halay_life next = halay_life_next((enum halay_life)life, (enum halay_life_event)event);
                if (next == HALAY_LIVES)
                    continue;
                reached |= (reached >> life & 1u) << next;
                ends |= (ends >> next & 1u) << life;
            }
    CHECK(reached == (1u << HALAY_LIVES) - 1 && ends == reached, "%#x %#x", reached, ends);
}

int main(void)
{
    for (int life = 0; life < HALAY_LIVES; life++) {
        CHECK(halay_life_next((enum halay_life)life, HALAY_LIFE_END) ==
                  (life == HALAY_LIFE_ENDED ? HALAY_LIVES : HALAY_LIFE_ENDED),
              "it ends twice, or never");
        for (int event = 0; event < HALAY_LIFE_EVENTS; event++) {
            enum halay_life next = halay_life_next((enum halay_life)life, (enum halay_life_event)event);
            CHECK(life != HALAY_LIFE_ENDED || next == HALAY_LIVES, "it lives on");
            CHECK(life != HALAY_LIFE_RUNNING || next == HALAY_LIVES || next == HALAY_LIFE_ENDED,
                  "what runs is taken back");
            CHECK(next != HALAY_LIFE_QUEUED || event == HALAY_LIFE_RETURN, "queued twice");
            CHECK((event == HALAY_LIFE_SEND && next != HALAY_LIVES) ==
                      (event == HALAY_LIFE_SEND && life == HALAY_LIFE_QUEUED),
                  "sent twice, or not at all");
            CHECK((event == HALAY_LIFE_RETURN && next != HALAY_LIVES) ==
                      (event == HALAY_LIFE_RETURN && (life == HALAY_LIFE_SENT || life == HALAY_LIFE_PLANNED)),
                  "returned from %d", life);
            CHECK((event == HALAY_LIFE_START && next != HALAY_LIVES) ==
                      (event == HALAY_LIFE_START && (life == HALAY_LIFE_QUEUED || life == HALAY_LIFE_SENT)),
                  "started from %d", life);
            CHECK((event == HALAY_LIFE_PLAN && next != HALAY_LIVES) ==
                      (event == HALAY_LIFE_PLAN && (life == HALAY_LIFE_QUEUED || life == HALAY_LIFE_SENT)),
                  "planned from %d", life);
        }
    }
    check_ways();
    return test_end();
}
