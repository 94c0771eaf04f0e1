/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks as threads over the fake transport, each with an engine of its own.
 */
#ifndef HALAY_TEST_RANKS_H
#define HALAY_TEST_RANKS_H

#include "fusion/api/open.h"
#include "fusion/protocol/messenger.h"
#include "fusion/requests/context.h"
#include "fusion/requests/names.h"
#include "fusion/requests/requests.h"
#include "tests/fake/fake.h"
#include "tests/test.h"
#include <string.h>

enum { RANKS_MAX = 8 };

struct rank_run {
    struct halay_fake_hub *hub;
    int rank, size;
    struct halay_context *ctx;
    void (*body)(struct rank_run *run);
    void *arg;
    /* Changes to the configuration, before the engine starts; NULL: none. */
    void (*configure)(struct halay_config *config, void *arg);
    void (*configure_rank)(struct rank_run *run, struct halay_config *config); /* the same for each rank by itself */
    void (*sink)(struct rank_run *run, const char *line); /* takes all log lines; NULL: what follows */
    /* Log lines with this text are counted instead of printed. NULL: all are printed. */
    const char *expected;
    _Atomic int expected_lines;
    char expected_line[1200]; /* the first of them; written before the count */
};

static inline void ranks_log(void *arg, enum halay_log_level level, const char *line)
{
    struct rank_run *run = arg;

    (void)level;
    if (run->sink) {
        run->sink(run, line);
        return;
    }
    if (!run->expected || (*run->expected && !strstr(line, run->expected))) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    if (!run->expected_lines) /* one thread at a time drives, and the programs' threads log nothing meanwhile */
        snprintf(run->expected_line, sizeof run->expected_line, "%s", line);
    run->expected_lines++;
}

static inline void *ranks_main(void *arg)
{
    struct rank_run *run = arg;
    struct halay_world *world;

    REQUIRE(halay_world_open_fake(run->hub, run->rank, &world) == HALAY_OK);
    world->log->write = ranks_log;
    world->log->arg = run;
    if (run->configure)
        run->configure(&world->config, run->arg);
    if (run->configure_rank)
        run->configure_rank(run, &world->config);
    world->log->level = world->config.log_level;
    REQUIRE(halay_context_create(world, &run->ctx) == HALAY_OK);
    run->body(run);
    halay_fini(run->ctx);
    return NULL;
}

/* Run body on `size` ranks. prototype: body, arg, configure, expected. delay: halay_fake_hub_set_delay. prepare may be
 * NULL; it gets the hub before the ranks start. runs (size of them) may be NULL. */
static inline void ranks_run(int size, uint64_t delay, const struct rank_run *prototype,
                             void (*prepare)(struct halay_fake_hub *hub), struct rank_run *runs_out)
{
    struct rank_run own[RANKS_MAX], *runs = runs_out ? runs_out : own;
    struct halay_fake_hub *hub;
    pthread_t threads[RANKS_MAX];

    REQUIRE(halay_fake_hub_create(size, &hub) == HALAY_OK);
    halay_fake_hub_set_delay(hub, delay);
    if (prepare)
        prepare(hub);
    for (int r = 0; r < size; r++) {
        memset(&runs[r], 0, sizeof runs[r]);
        runs[r].hub = hub;
        runs[r].rank = r;
        runs[r].size = size;
        runs[r].body = prototype->body;
        runs[r].arg = prototype->arg;
        runs[r].configure = prototype->configure;
        runs[r].configure_rank = prototype->configure_rank;
        runs[r].expected = prototype->expected;
        runs[r].sink = prototype->sink;
        REQUIRE(!pthread_create(&threads[r], NULL, ranks_main, &runs[r]));
    }
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
    halay_fake_hub_destroy(hub);
}

#endif
