/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups that are started with the options of a context, by ranks as threads: over a store of the program's own, with
 * a unique id, with settings and a log function; options that only a context has are refused, and the others' starts
 * end too.
 */
#include "halay_coll.h"
#include "tests/fusion/folder_store.h"
#include "tests/test.h"
#include <pthread.h>

enum { RANKS_MAX = 4, ROUNDS = 2 };

struct rank_start {
    struct halay_rendezvous rendezvous;
    struct folder_store store;
    struct halay_options options;
    enum halay_status status; /* of the last start */
    char text[1000];          /* of the first error */
    char transport[16];       /* of the last group */
    int infos;                /* lines of the log at level info */
};

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    struct rank_start *rank = arg;

    if (level == HALAY_LOG_ERROR && !*rank->text)
        snprintf(rank->text, sizeof rank->text, "%s", line);
    rank->infos += level == HALAY_LOG_INFO;
}

static void *start(void *arg)
{
    struct rank_start *rank = arg;
    struct halay_group *group;

    for (int round = 0; round < ROUNDS; round++) {
        int number = rank->rendezvous.rank + 1, size = rank->rendezvous.size, sum = 0;
        rank->status = halay_group_open(&rank->options, &group);
        if (rank->status != HALAY_OK)
            return NULL;
        int calls = rank->store.calls;
        snprintf(rank->transport, sizeof rank->transport, "%s", halay_group_transport(group));
        CHECK(halay_group_rank(group) == rank->rendezvous.rank && halay_group_size(group) == size);
        CHECK(halay_group_allreduce(group, &number, &sum, 1, HALAY_I32, HALAY_SUM) == HALAY_OK);
        CHECK(sum == size * (size + 1) / 2);
        halay_group_close(group);
        CHECK(rank->store.calls == calls, "the store is used after the start");
        if (rank->options.unique_id) /* good for one start */
            break;
    }
    return NULL;
}

static void prepare(struct rank_start *ranks, int n, const char *folder)
{
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int r = 0; r < n; r++) {
        struct rank_start *rank = &ranks[r];
        rank->rendezvous = (struct halay_rendezvous){ .struct_size = sizeof rank->rendezvous,
                                                      .rank = r,
                                                      .size = n,
                                                      .arg = &rank->store,
                                                      .put = folder_put,
                                                      .get = folder_get };
        rank->store.folder = folder;
        rank->options = (struct halay_options){
            .struct_size = sizeof rank->options, .log = keep_line, .log_arg = rank, .rendezvous = &rank->rendezvous
        };
    }
}

static void run_threads(struct rank_start *ranks, int n)
{
    pthread_t threads[RANKS_MAX];

    for (int r = 0; r < n; r++)
        REQUIRE(!pthread_create(&threads[r], NULL, start, &ranks[r]));
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

static void expect_all(const struct rank_start *ranks, int n, const char *transport)
{
    for (int r = 0; r < n; r++) {
        CHECK(ranks[r].status == HALAY_OK, "rank %d of %d: %s", r, n, ranks[r].text);
        CHECK(n == 1 || !strcmp(ranks[r].transport, transport), "rank %d: %s", r, ranks[r].transport);
    }
}

static void check_rendezvous(void)
{
    struct rank_start ranks[RANKS_MAX];
    char folder[32];

    for (int n = 1; n <= RANKS_MAX; n++) {
        folder_make(folder);
        prepare(ranks, n, folder);
        run_threads(ranks, n);
        expect_all(ranks, n, "shm");
        folder_remove(folder);
    }
}

static void check_unique_id(void)
{
    struct rank_start ranks[RANKS_MAX];
    struct halay_unique_id id;

    for (int n = 1; n <= RANKS_MAX; n++) {
        REQUIRE(halay_unique_id_create(&id) == HALAY_OK);
        prepare(ranks, n, "/nowhere");
        for (int r = 0; r < n; r++) {
            ranks[r].options.rendezvous = NULL;
            ranks[r].options.unique_id = &id;
            ranks[r].options.rank = r;
            ranks[r].options.size = n;
        }
        run_threads(ranks, n);
        expect_all(ranks, n, "shm");
    }
}

/* The transport comes from the settings, the lines of the start go to the log function. */
static void check_settings(void)
{
    static const char *const settings[] = { "HALAY_TRANSPORT=tcp", "HALAY_LOG=info", NULL };
    static const char *const wrong[] = { "HALAY_TRANSPORT=tpc", NULL };
    struct rank_start ranks[2];
    char folder[32];

    folder_make(folder);
    prepare(ranks, 2, folder);
    for (int r = 0; r < 2; r++)
        ranks[r].options.settings = settings;
    run_threads(ranks, 2);
    expect_all(ranks, 2, "tcp");
    for (int r = 0; r < 2; r++)
        CHECK(ranks[r].infos > 0);
    prepare(ranks, 2, folder);
    for (int r = 0; r < 2; r++) {
        ranks[r].rendezvous.prefix = "wrong";
        ranks[r].options.settings = r ? wrong : NULL;
    }
    run_threads(ranks, 2);
    CHECK(ranks[0].status == HALAY_ERR_CONFIG && strstr(ranks[0].text, "rank 1 cannot continue"), "%s", ranks[0].text);
    CHECK(ranks[1].status == HALAY_ERR_CONFIG && strstr(ranks[1].text, "tpc"), "%s", ranks[1].text);
    folder_remove(folder);
}

/* One rank asks for what only a context has: all starts end. */
static void check_refusals(void)
{
    static const int both[] = { 0, 1 };
    static const struct halay_rank_list list = { both, 2 };
    struct rank_start ranks[2];
    char folder[32];

    folder_make(folder);
    for (int what = 0; what < 2; what++) {
        prepare(ranks, 2, folder);
        if (what) {
            ranks[1].options.join_average = "present";
        } else {
            ranks[1].options.process_sets = &list;
            ranks[1].options.process_set_count = 1;
        }
        run_threads(ranks, 2);
        for (int r = 0; r < 2; r++)
            CHECK(ranks[r].status == HALAY_ERR_ARGUMENT, "rank %d: %s", r, halay_status_string(ranks[r].status));
        CHECK(strstr(ranks[0].text, "rank 1 cannot continue"), "%s", ranks[0].text);
    }
    folder_remove(folder);
}

int main(void)
{
    unsetenv("HALAY_TRANSPORT");
    unsetenv("HALAY_LOG");
    check_rendezvous();
    check_unique_id();
    check_settings();
    check_refusals();
    return test_end();
}
