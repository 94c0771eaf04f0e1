/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of a context: of all ranks and of process sets, on one host and on several, while the engine works; a member
 * that does not call, and the next start, which succeeds; a member that dies; wrong calls.
 */
#include "halay.h"
#include "halay_coll.h"
#include "tests/fusion/folder_store.h"
#include "tests/test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { RANKS_MAX = 4, TIMES = 200, COUNT = 3000 };

struct rank_run {
    struct halay_context *ctx;
    int rank, size;
    const char *const *settings;
    void (*body)(struct rank_run *run);
};

/* One rank, in a process of its own. */
static void be_rank(struct rank_run *run, const char *folder, const char *node)
{
    struct folder_store store = { .folder = folder };
    struct halay_rendezvous rendezvous = { .struct_size = sizeof rendezvous,
                                           .rank = run->rank,
                                           .size = run->size,
                                           .arg = &store,
                                           .put = folder_put,
                                           .get = folder_get };
    struct halay_options options = {
        .struct_size = sizeof options, .rendezvous = &rendezvous, .settings = run->settings, .reports_errors = 1
    };

    if (node)
        setenv("HALAY_NODE", node, 1);
    if (!CHECK(halay_init(&options, &run->ctx) == HALAY_OK, "rank %d: %s", run->rank, halay_error_text()))
        exit(1);
    run->body(run);
    halay_fini(run->ctx);
    fflush(stdout);
    exit(test_failed != 0);
}

/* nodes: a letter for each rank; NULL: all on this host. victim: the rank that a signal may end; -1: none. */
static void run_ranks(int size, const char *nodes, const char *const *settings, void (*body)(struct rank_run *run),
                      int victim)
{
    pid_t pids[RANKS_MAX];
    char folder[32];
    int status;

    folder_make(folder);
    fflush(stdout);
    for (int r = 0; r < size; r++) {
        struct rank_run run = { .rank = r, .size = size, .settings = settings, .body = body };
        const char node[2] = { nodes ? nodes[r] : 0 };
        REQUIRE((pids[r] = fork()) >= 0);
        if (!pids[r])
            be_rank(&run, folder, nodes ? node : NULL);
    }
    for (int r = 0; r < size; r++) {
        REQUIRE(waitpid(pids[r], &status, 0) == pids[r]);
        CHECK(r == victim ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status), "rank %d of %d: %x", r,
              size, (unsigned)status);
    }
    folder_remove(folder);
}

/* ---- successful starts ---- */

struct use {
    struct halay_group *group;
    int ranks; /* sum of 1 + each member's number */
};

static void *use_group(void *arg)
{
    struct use *use = arg;
    float data[COUNT];

    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < COUNT; k++)
            data[k] = (float)(halay_group_rank(use->group) + 1);
        enum halay_status status =
            halay_group_allreduce(use->group, data, data, (size_t)(i % 2 ? COUNT : 3), HALAY_F32, HALAY_SUM);
        if (!CHECK(status == HALAY_OK && data[0] == (float)use->ranks && data[2] == (float)use->ranks, "%s",
                   halay_status_string(status)))
            break;
    }
    return NULL;
}

/* Another thread drives the group, while this one waits for the engine. */
static void use_both(struct rank_run *run, struct halay_group *group)
{
    struct use use = { .group = group };
    pthread_t thread;
    int sum = run->size * (run->size + 1) / 2;

    for (int r = 0; r < halay_group_size(group); r++)
        use.ranks += r + 1;
    REQUIRE(!pthread_create(&thread, NULL, use_group, &use));
    for (int i = 0; i < TIMES; i++) {
        int number = run->rank + 1, got = 0;
        if (!CHECK(halay_allreduce(run->ctx, "t", &number, &got, 1, HALAY_I32, HALAY_SUM) == HALAY_OK && got == sum))
            break;
    }
    pthread_join(thread, NULL);
}

/* Groups of all ranks, twice, and of the first and the last rank, which outlives its set. */
static void check_use(struct rank_run *run)
{
    const int ends[] = { 0, run->size - 1 };
    struct halay_process_set *set = NULL;
    struct halay_group *groups[2], *pair = NULL;
    int is_member = run->size > 1 && (run->rank == ends[0] || run->rank == ends[1]);

    for (int i = 0; i < 2; i++)
        if (!CHECK(halay_group_of(run->ctx, NULL, &groups[i]) == HALAY_OK, "%s", halay_error_text()))
            return;
    CHECK(halay_group_rank(groups[0]) == run->rank && halay_group_size(groups[0]) == run->size);
    CHECK(halay_group_local_size(groups[1]) == halay_local_size(run->ctx));
    if (is_member) {
        REQUIRE(halay_process_set_create(run->ctx, ends, 2, &set) == HALAY_OK);
        if (CHECK(halay_group_of(run->ctx, set, &pair) == HALAY_OK, "%s", halay_error_text()))
            CHECK(halay_group_size(pair) == 2 && halay_group_rank(pair) == (run->rank > 0));
        CHECK(halay_process_set_remove(set) == HALAY_OK);
    }
    use_both(run, groups[0]);
    use_both(run, groups[1]);
    halay_group_close(groups[0]);
    if (pair)
        CHECK(halay_group_barrier(pair) == HALAY_OK);
    halay_group_close(pair);
    CHECK(halay_group_barrier(groups[1]) == HALAY_OK);
    halay_group_close(groups[1]);
}

/* ---- failing starts ---- */

/* The last rank calls when the others have given up: it fails, too, and all ranks take part in the next start. */
static void check_late(struct rank_run *run)
{
    struct halay_group *group = NULL;

    if (run->rank < run->size - 1) {
        CHECK(halay_group_of(run->ctx, NULL, &group) == HALAY_ERR_TIMEOUT && !group);
        CHECK(strstr(halay_error_text(), "halay group"), "%s", halay_error_text());
    }
    CHECK(halay_barrier(run->ctx, "they have given up") == HALAY_OK);
    if (run->rank == run->size - 1)
        CHECK(halay_group_of(run->ctx, NULL, &group) == HALAY_ERR_TIMEOUT && !group);
    CHECK(halay_group_of(run->ctx, NULL, &group) == HALAY_OK, "%s", halay_error_text());
    CHECK(halay_group_barrier(group) == HALAY_OK);
    halay_group_close(group);
}

/* The group ends, and then the context. */
static void check_death(struct rank_run *run)
{
    struct halay_group *group;
    float x = 1;

    REQUIRE(halay_group_of(run->ctx, NULL, &group) == HALAY_OK);
    REQUIRE(halay_group_barrier(group) == HALAY_OK);
    if (run->rank == 1)
        kill(getpid(), SIGKILL);
    CHECK(halay_group_allreduce(group, &x, &x, 1, HALAY_F32, HALAY_SUM) == HALAY_ERR_PEER);
    CHECK(strstr(halay_error_text(), "rank 1"), "%s", halay_error_text());
    halay_group_close(group);
}

static void call_back(void *arg, enum halay_status status, const char *text)
{
    struct rank_run *run = arg;
    struct halay_group *group = NULL;

    (void)status, (void)text;
    CHECK(halay_group_of(run->ctx, NULL, &group) == HALAY_ERR_UNSUPPORTED && !group);
}

static void check_wrong(struct rank_run *run)
{
    const int one[] = { 0 };
    struct halay_options options = { .struct_size = sizeof options, .bootstrap = "self" };
    struct halay_process_set *set;
    struct halay_context *other;
    struct halay_group *group = NULL;
    struct halay_request *request;

    CHECK(halay_group_of(NULL, NULL, &group) == HALAY_ERR_ARGUMENT && strstr(halay_error_text(), "no context"));
    CHECK(halay_group_of(run->ctx, NULL, NULL) == HALAY_ERR_ARGUMENT && strstr(halay_error_text(), "no place"));
    REQUIRE(halay_init(&options, &other) == HALAY_OK);
    CHECK(halay_group_of(run->ctx, halay_process_set_find(other, 0), &group) == HALAY_ERR_ARGUMENT);
    halay_fini(other);
    if (run->rank == 0)
        REQUIRE(halay_process_set_create(run->ctx, one, 1, &set) == HALAY_OK);
    REQUIRE(halay_barrier(run->ctx, "made") == HALAY_OK);
    set = halay_process_set_find(run->ctx, 1);
    if (run->rank)
        CHECK(halay_group_of(run->ctx, set, &group) == HALAY_ERR_ARGUMENT &&
              strstr(halay_error_text(), "not a member"));
    struct halay_tensor_info info = { .struct_size = sizeof info, .name = "b", .collective = HALAY_BARRIER };
    REQUIRE(halay_submit_named(run->ctx, &info, call_back, run, &request) == HALAY_OK);
    CHECK(halay_wait(request, -1) == HALAY_OK);
    halay_request_free(request);
    CHECK(!group);
}

int main(void)
{
    static const char *const soon[] = { "HALAY_START_TIMEOUT=2", NULL };
    static const char *const messages[] = { "HALAY_TRANSPORT=tcp", "HALAY_CHECK=1", NULL };
    static const char *const sealed[] = { "HALAY_ENCRYPT=1", NULL };

    for (int n = 1; n <= RANKS_MAX; n++)
        run_ranks(n, NULL, NULL, check_use, -1);
    run_ranks(3, NULL, messages, check_use, -1);
    run_ranks(3, "abb", NULL, check_use, -1);
    run_ranks(2, "ab", sealed, check_use, -1);
    run_ranks(3, NULL, soon, check_late, -1);
    run_ranks(3, NULL, NULL, check_death, 1);
    run_ranks(2, NULL, NULL, check_wrong, -1);
    return test_end();
}
