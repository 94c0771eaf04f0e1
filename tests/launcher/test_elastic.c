/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions of elastic_policy.h: stories of events, each with what must follow. A story is a text: events, and
 * after '>' the acts that elastic_next returns until it waits.
 *
 *     @N      it is second N                        hosts=a:2,b:1   these are listed
 *     rN      the process on worker N is ready         rN!M           it left the generation because of rank M
 *     rN-     it is ready and has no state; otherwise one has it once there has been a generation
 *     xN      it has failed                          oN  it has ended with 0         lN  its host is lost
 */
#include "launcher/job/elastic_policy.h"
#include "tests/test.h"
#include <string.h>

static const struct story {
    const char *what;
    int least, most, reset_limit;
    const char *text;
} stories[] = {
    { "start", 2, 4, 0, "hosts=a:2,b:2 > S0a S1a S2b S3b W  r0 r1 r2 > W  r3 > F4 W" },
    { "one does not come at the start", 2, 3, 0,
      "hosts=a:3 > S0a S1a S2a W  r0 r1 > W  @29 > W  @31 > F2 W  r2 > C W  r0 r1 > F3 W" },
    { "too few at the start", 3, 3, 0, "hosts=a:2 > S0a S1a W  r0 r1 > W  @99 > W  @101 > E" },
    { "a lost one is replaced", 2, 3, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  @10 x1 > O S1a W  r0!1 > W  r2!1 > W  r1 > F3 W" },
    { "its replacement is late", 2, 3, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  @10 x1 > O S1a W  r0 r2 > W  @14 > W  @16 > F2 W  @60 r1 > C W  r0 "
      "r2 > F3 W" },
    { "its replacement fails, too", 2, 3, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  @10 x1 > O S1a W  r0 r2 > W  x1 > F2 W  @19 > W  @21 > S1a W  r1 > C "
      "W r0 r2 > F3 W" },
    { "left out for a growing time", 1, 2, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  x1 > O S1a W r0 r1 > F2 W  x1 > O W r0 > F1 W @11 > S1a W r1 > C W r0 > F2 W"
      "  x1 > O W r0 > F1 W  @30 > W  @32 > S1a W" },
    { "and is forgiven", 1, 2, 0, "hosts=a:2 > S0a S1a W r0 r1 > F2 W  x1 > O S1a W r0 r1 > F2 W  @70 x1 > O S1a W" },
    { "a lost host", 1, 4, 0,
      "hosts=a:2,b:2 > S0a S1a S2b S3b W r0 r1 r2 r3 > F4 W  l2 l3 > O W  r0 r1 > F2 W  @9 > W @11 > S2b S3b W" },
    { "two at once count as one", 1, 3, 0, "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  x0 x2 > O S0a S2a W" },
    { "none is left", 1, 2, 0, "hosts=a:2 > S0a S1a W r0 r1 > F2 W  x0 > O S0a W  x1 > E W" },
    { "below the least", 2, 2, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  x1 > O S1a W  x1 > W r0 > W @9 > W @11 > S1a W r1 > F2 W" },
    { "below the least for too long", 2, 2, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  l1 > O W  hosts=a:1 > W  r0 > W  @99 > W  @101 > E N0 W" },
    { "a stopped one", 1, 3, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  @40 r0!2 > O W  r1!2 > W  @44 > W @46 > K2 W  x2 > S2a W  r2 > F3 "
      "W" },
    { "the accused had only left first", 1, 3, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  @40 x0 > O S0a W  r1!2 > W  r2!0 > W  @46 > F2 W" },
    { "one that never comes", 1, 2, 0, "hosts=a:2 > S0a S1a W r0 r1 > F2 W  @10 r0 > O W  @109 > W  @111 > K1 W" },
    { "a generation that fails at once", 1, 2, 0, "hosts=a:2 > S0a S1a W r0 r1 > F2 W  r0 > O W  r1 > F2 W" },
    { "new slots", 1, 4, 0, "hosts=a:1 > S0a W r0 > F1 W  hosts=a:1,b:2 > S1b S2b W r1 > C W r2 > W r0 > F3 W" },
    { "a host goes", 1, 4, 0,
      "hosts=a:1,b:1 > S0a S1b W r0 r1 > F2 W  hosts=a:1 > C W r0 > W r1 > D1 W  @10 > W @12 > K1 W x1 > F1 W" },
    { "the highest ranks of a smaller host go", 1, 4, 0,
      "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  hosts=a:1 > C W r0 r1 r2 > D1 D2 W x1 > W o2 > F1 W" },
    { "a host goes while it starts", 1, 4, 0, "hosts=a:1,b:1 > S0a S1b W  hosts=a:1 > K1 W r0 > F1 W" },
    { "no more than most", 1, 2, 0, "hosts=a:8 > S0a S1a W" },
    { "the limit", 1, 2, 1, "hosts=a:2 > S0a S1a W r0 r1 > F2 W  x1 > O S1a W r0 r1 > F2 W  x1 > O W r0 > E N0 W" },
    { "the first one has finished", 1, 3, 0, "hosts=a:3 > S0a S1a S2a W r0 r1 r2 > F3 W  o1 > W  x2 > W  r0!2 > N0 W" },
    { "a stopped one while a change is called", 1, 3, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  hosts=a:3 > S2a W r2 > C W  @40 r0!1 > O W  @44 > W @46 > K1 W  x1 > S1a W "
      "r1 > F3 W" },
    { "one that does not come though a change is called", 1, 3, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  hosts=a:3 > S2a W r2 > C W  @10 r0 > W @109 > W @111 > K1 W" },
    { "a host that is to go dies", 1, 3, 0,
      "hosts=a:2,b:1 > S0a S1a S2b W r0 r1 r2 > F3 W  hosts=a:2 > C W  @10 l2 > O W r0 > W @109 > W @111 > K1 W" },
    { "a host that is to go is stopped", 1, 2, 0,
      "hosts=a:1,b:1 > S0a S1b W r0 r1 > F2 W  hosts=a:1 > C W  @40 r0!1 > O W @44 > W @46 > K1 W x1 > F1 W" },
    { "those that are left have no state", 1, 3, 0,
      "hosts=a:1 > S0a W r0 > F1 W  hosts=a:1,b:2 > S1b S2b W r1 r2 > C W r0 > F3 W  x0 > O S0a W r1- > W r2- > E" },
    { "one of them has got it", 1, 3, 0,
      "hosts=a:1 > S0a W r0 > F1 W  hosts=a:1,b:2 > S1b S2b W r1 r2 > C W r0 > F3 W  x0 > O S0a W r1- r2 r0- > F3 W" },
    { "there was none before", 1, 2, 0, "hosts=a:2 > S0a S1a W r0- r1- > F2 W  x0 > O S0a W r1- r0- > F2 W" },
    { "all hosts are replaced at once", 1, 3, 0,
      "hosts=a:2 > S0a S1a W r0 r1 > F2 W  hosts=b:2 > S2b C W  r0 r1 > D1 W x1 > S1b W r1- > W r2- > F3 W  "
      "hosts=b:2 > C W r1 r2 r0 > D0 W x0 > F2 W" },
    { "and nobody can come in their place", 1, 1, 0, "hosts=a:1 > S0a W r0 > F1 W  hosts=b:1 > W" },
    { "lost before the first generation, and tried again", 2, 2, 0,
      "hosts=a:2 > S0a S1a W r1 > W  x0 > W  @2 > S0a W  r0 > F2 W" },
    { "which forms without it", 1, 2, 0, "hosts=a:2 > S0a S1a W r1 > W  x0 > F1 W  @2 > S0a W  r0 > C W  r1 > F2 W" },
    { "not more than three times", 2, 2, 0,
      "hosts=a:2 > S0a S1a W r1 > W  x0 > W  @2 > S0a W  x0 > W  @5 > S0a W  x0 > W  @10 > S0a W  x0 > N1 W" },
    { "a host that is lost before it", 2, 2, 0,
      "hosts=a:1,b:1 > S0a S1b W r0 > W  l1 > W  @9 > W  @11 > S1b W  r1 > F2 W" },
    { "lost before any process is ready", 1, 2, 0, "hosts=a:2 > S0a S1a W  x0 > W  r1 > N1 W" },
};

static char letter(enum elastic_act act)
{
    static const char letters[] = { [ELASTIC_WAIT] = 'W',   [ELASTIC_START] = 'S', [ELASTIC_OVER] = 'O',
                                    [ELASTIC_CALL] = 'C',   [ELASTIC_KILL] = 'K',  [ELASTIC_DISMISS] = 'D',
                                    [ELASTIC_REFUSE] = 'N', [ELASTIC_FORM] = 'F',  [ELASTIC_END] = 'E' };

    return letters[act];
}

/* "S0a", "K2", "F3", "W" */
static void print(const struct elastic *e, const struct elastic_next *next, char *text, size_t size)
{
    if (next->act == ELASTIC_START)
        snprintf(text, size, "S%d%s", next->worker, e->hosts[next->host].name);
    else if (next->act == ELASTIC_KILL || next->act == ELASTIC_DISMISS || next->act == ELASTIC_REFUSE)
        snprintf(text, size, "%c%d", letter(next->act), next->worker);
    else if (next->act == ELASTIC_FORM)
        snprintf(text, size, "F%d", e->members);
    else
        snprintf(text, size, "%c", letter(next->act));
}

static void happen(struct elastic *e, const char *word, int64_t *now_us)
{
    struct host_list hosts;
    char why[256];
    int worker = word[1] - '0';

    if (word[0] == '@') {
        *now_us = (int64_t)atoi(word + 1) * 1000000;
    } else if (!strncmp(word, "hosts=", 6)) {
        REQUIRE(hosts_parse(word + 6, 1, &hosts, why, sizeof why) == HALAY_OK && elastic_list(e, &hosts, *now_us));
        hosts_fini(&hosts);
    } else if (word[0] == 'r') {
        const struct halay_ready ready = { .generation = e->generation,
                                           .lost = word[2] == '!' ? word[3] - '0' : -1,
                                           .has_state = word[2] != '-' && e->workers[worker].state != WORKER_STARTING };
        elastic_ready(e, worker, &ready, *now_us);
    } else {
        elastic_ended(e, worker,
                      word[0] == 'x'   ? ELASTIC_FAILED
                      : word[0] == 'o' ? ELASTIC_ENDED_WELL
                                       : ELASTIC_HOST_LOST,
                      *now_us);
    }
}

static int is_act(const char *word)
{
    return strchr("SOCKDNFEW", word[0]) != NULL;
}

static void tell(const struct story *story)
{
    const struct elastic_setting setting = { .least = story->least,
                                             .most = story->most,
                                             .reset_limit = story->reset_limit,
                                             .timeout_us = 100000000,
                                             .start_us = 30000000,
                                             .cooldown_us = 10000000,
                                             .cooldown_max_us = 60000000 };
    char text[1024], *rest = text, *word, got[300];
    struct elastic e;
    int64_t now_us = 1000000;

    snprintf(text, sizeof text, "%s", story->text);
    REQUIRE(elastic_init(&e, &setting));
    while ((word = strsep(&rest, " "))) {
        if (!*word || *word == '>')
            continue;
        if (!is_act(word)) {
            happen(&e, word, &now_us);
            continue;
        }
        struct elastic_next next = elastic_next(&e, now_us);
        print(&e, &next, got, sizeof got);
        if (!CHECK(!strcmp(got, word), "%s: '%s' in place of '%s' before '%s'", story->what, got, word,
                   rest ? rest : ""))
            break;
        CHECK(next.act != ELASTIC_WAIT || next.wake_us > now_us, "%s: it would wake at once", story->what);
    }
    elastic_fini(&e);
}

int main(void)
{
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)
        tell(&stories[i]);
    return test_end();
}
