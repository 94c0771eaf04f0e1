/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts over a store of the program's own, and with a unique id: ranks as processes and as threads; repeated and
 * several at once over one store; callbacks that fail, at every call; ranks that are missing, or have different
 * arguments; settings.
 */
#include "halay.h"
#include "tests/fusion/folder_store.h"
#include "tests/test.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <pthread.h>
#include <sys/wait.h>

enum { RANKS_MAX = 5, ROUNDS = 3 };

/* Time limits of starts that fail: the next one where the machine was too busy for the ranks to arrive within this
 * one. */
static const char *const times[][2] = { { "HALAY_START_TIMEOUT=2" },
                                        { "HALAY_START_TIMEOUT=10" },
                                        { "HALAY_START_TIMEOUT=60" } };
enum { TIMES = sizeof times / sizeof *times };
static const char *const *const soon = times[0];

/* One rank. */
struct rank_start {
    struct halay_rendezvous rendezvous;
    struct folder_store store;
    const struct halay_unique_id *id; /* instead of the store */
    int *pipe;                        /* rank 0 makes such an id, and the others read it there; NULL: none */
    const char *bootstrap;
    const char *const *settings;
    int rounds;
    const char *node;         /* HALAY_NODE, in a process of its own; NULL: this host's */
    int may_lose;             /* another rank's start may fail after this one's has succeeded */
    enum halay_status status; /* of the last round's start */
    char text[1000];          /* of the first error */
};

/* The engine's thread may log while the start still waits for another rank. */
static void keep_error(void *arg, enum halay_log_level level, const char *line)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct rank_start *rank = arg;

    pthread_mutex_lock(&lock);
    if (level == HALAY_LOG_ERROR && !*rank->text)
        snprintf(rank->text, sizeof rank->text, "%s", line);
    pthread_mutex_unlock(&lock);
}

static void run_work(struct halay_context *ctx, const struct rank_start *rank)
{
    int n = rank->rendezvous.size, number = rank->rendezvous.rank + 1, sum = 0;

    CHECK(halay_rank(ctx) == rank->rendezvous.rank && halay_size(ctx) == n);
    if (rank->node)
        CHECK(halay_local_size(ctx) == 1 && halay_cross_size(ctx) == n);
    else
        CHECK(halay_local_rank(ctx) == rank->rendezvous.rank && halay_local_size(ctx) == n);
    if (halay_allreduce(ctx, "sum", &number, &sum, 1, HALAY_I32, HALAY_SUM) == HALAY_OK)
        CHECK(sum == n * (n + 1) / 2);
    else
        CHECK(rank->may_lose, "%s", rank->text);
}

/* id: instead of the store; NULL: the store. */
static struct halay_options options_of(struct rank_start *rank, const struct halay_unique_id *id)
{
    struct halay_options options = { .struct_size = sizeof options,
                                     .bootstrap = rank->bootstrap,
                                     .log = keep_error,
                                     .log_arg = rank,
                                     .settings = rank->settings };

    if (id) {
        options.unique_id = id;
        options.rank = rank->rendezvous.rank;
        options.size = rank->rendezvous.size;
    } else {
        options.rendezvous = &rank->rendezvous;
    }
    return options;
}

static void *start_rank(void *arg)
{
    struct rank_start *rank = arg;
    struct halay_options options = options_of(rank, rank->id);
    struct halay_context *ctx;

    for (int round = 0; round < rank->rounds; round++) {
        rank->status = halay_init(&options, &ctx);
        if (rank->status != HALAY_OK)
            return NULL;
        int calls = rank->store.calls;
        run_work(ctx, rank);
        halay_fini(ctx);
        CHECK(rank->store.calls == calls, "the store is used after the start");
    }
    CHECK(!rank->store.used_twice);
    return NULL;
}

static void prepare_start(struct rank_start *ranks, int n, const char *folder)
{
    memset(ranks, 0, (size_t)n * sizeof *ranks);
    for (int r = 0; r < n; r++) {
        ranks[r].rendezvous = (struct halay_rendezvous){
            .struct_size = sizeof ranks[r].rendezvous,
            .rank = r,
            .size = n,
            .arg = &ranks[r].store,
            .put = folder_put,
            .get = folder_get,
        };
        ranks[r].store.folder = folder;
        ranks[r].rounds = 1;
    }
}

static void run_threads(struct rank_start *ranks, int n)
{
    pthread_t threads[2 * RANKS_MAX];

    for (int r = 0; r < n; r++)
        REQUIRE(!pthread_create(&threads[r], NULL, start_rank, &ranks[r]));
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

/* Runs in a process of its own, which makes the id if its rank is 0. */
static void get_id(struct rank_start *rank, struct halay_unique_id *id)
{
    rank->id = id;
    if (rank->rendezvous.rank) {
        REQUIRE(read(rank->pipe[0], id, sizeof *id) == sizeof *id);
        return;
    }
    REQUIRE(halay_unique_id_create(id) == HALAY_OK);
    for (int r = 1; r < rank->rendezvous.size; r++)
        REQUIRE(write(rank->pipe[1], id, sizeof *id) == sizeof *id);
}

static void be_process(struct rank_start *rank)
{
    struct halay_unique_id id;

    if (rank->node)
        setenv("HALAY_NODE", rank->node, 1);
    if (rank->pipe)
        get_id(rank, &id);
    start_rank(rank);
    CHECK(rank->status == HALAY_OK, "rank %d of %d: %s", rank->rendezvous.rank, rank->rendezvous.size, rank->text);
    exit(test_failed != 0);
}

static void run_processes(struct rank_start *ranks, int n)
{
    pid_t pids[RANKS_MAX];
    int status;

    fflush(stdout);
    for (int r = 0; r < n; r++) {
        REQUIRE((pids[r] = fork()) >= 0);
        if (!pids[r])
            be_process(&ranks[r]);
    }
    for (int r = 0; r < n; r++)
        CHECK(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* ---- successful starts ---- */

static void check_sizes(void)
{
    struct rank_start ranks[RANKS_MAX];
    char folder[32];

    for (int n = 1; n <= RANKS_MAX; n++) {
        folder_make(folder);
        prepare_start(ranks, n, folder);
        for (int r = 0; r < n; r++)
            ranks[r].rounds = ROUNDS;
        run_processes(ranks, n);
        run_threads(ranks, n); /* these are the fourth start and those after it */
        for (int r = 0; r < n; r++)
            CHECK(ranks[r].status == HALAY_OK, "rank %d of %d: %s", r, n, ranks[r].text);
        folder_remove(folder);
    }
}

/* Two jobs over one store, at the same time. */
static void check_prefixes(void)
{
    struct rank_start ranks[6];
    char folder[32];

    folder_make(folder);
    prepare_start(ranks, 3, folder);
    prepare_start(ranks + 3, 3, folder);
    for (int r = 0; r < 6; r++)
        ranks[r].rendezvous.prefix = r < 3 ? "even" : "odd";
    run_threads(ranks, 6);
    for (int r = 0; r < 6; r++)
        CHECK(ranks[r].status == HALAY_OK, "%s", ranks[r].text);
    folder_remove(folder);
}

/* On such nodes the engine's connections use the secret. */
static void check_nodes(void)
{
    static const char *const nodes[] = { "a", "b", "c" };
    struct rank_start ranks[3];
    char folder[32];

    folder_make(folder);
    prepare_start(ranks, 3, folder);
    for (int r = 0; r < 3; r++)
        ranks[r].node = nodes[r];
    run_processes(ranks, 3);
    folder_remove(folder);
}

/* With a unique id, also on several nodes. */
static void check_ids_of_processes(void)
{
    static const char *const nodes[] = { "a", "b", "c" };
    struct rank_start ranks[RANKS_MAX];
    int ends[2];

    REQUIRE(pipe(ends) == 0);
    for (int n = 1; n <= RANKS_MAX; n++) {
        prepare_start(ranks, n, "/nowhere");
        for (int r = 0; r < n; r++) {
            ranks[r].pipe = ends;
            ranks[r].node = n == 3 ? nodes[r] : NULL;
        }
        run_processes(ranks, n);
    }
    close(ends[0]);
    close(ends[1]);
}

/* Works between nodes; errors name ranks with different settings, and a transport that cannot encrypt. */
static void check_encryption(void)
{
    static const char *const nodes[] = { "a", "b" }, *const on[] = { "HALAY_ENCRYPT=1", NULL };
    static const char *const ucx[] = { "HALAY_ENCRYPT=1", "HALAY_TRANSPORT=ucx", NULL };
    struct rank_start ranks[2];
    struct halay_unique_id id;
    int ends[2];

    REQUIRE(pipe(ends) == 0);
    prepare_start(ranks, 2, "/nowhere");
    for (int r = 0; r < 2; r++) {
        ranks[r].pipe = ends;
        ranks[r].node = nodes[r];
        ranks[r].settings = on;
    }
    run_processes(ranks, 2);
    close(ends[0]);
    close(ends[1]);
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        REQUIRE(halay_unique_id_create(&id) == HALAY_OK);
        prepare_start(ranks, 2, "/nowhere");
        for (int r = 0; r < 2; r++) {
            ranks[r].id = &id;
            ranks[r].settings = is_wrong ? ucx : r ? on : NULL;
        }
        run_threads(ranks, 2);
        for (int r = 0; r < 2; r++) {
            CHECK(ranks[r].status == (is_wrong ? HALAY_ERR_CONFIG : HALAY_ERR_MISMATCH), "rank %d: %s", r,
                  ranks[r].text);
            CHECK(strstr(ranks[r].text,
                         is_wrong ? "transport 'ucx' does not encrypt" : "rank 1 has HALAY_ENCRYPT=1, rank 0 has 0"),
                  "rank %d: %s", r, ranks[r].text);
        }
    }
}

static void check_ids_of_threads(void)
{
    struct rank_start ranks[RANKS_MAX];
    struct halay_unique_id ids[2];

    for (int n = 1; n <= RANKS_MAX; n++) {
        prepare_start(ranks, n, "/nowhere");
        REQUIRE(halay_unique_id_create(&ids[0]) == HALAY_OK && halay_unique_id_create(&ids[1]) == HALAY_OK);
        CHECK(memcmp(&ids[0], &ids[1], sizeof *ids) != 0);
        for (int r = 0; r < n; r++)
            ranks[r].id = &ids[1];
        run_threads(ranks, n);
        for (int r = 0; r < n; r++)
            CHECK(ranks[r].status == HALAY_OK, "rank %d of %d: %s", r, n, ranks[r].text);
    }
}

static void check_wrong_ids(void)
{
    static const char *const wrong_network[] = { "HALAY_NETWORK_INTERFACE", "none0" };
    struct rank_start ranks[3];
    struct halay_unique_id id = { { 0 } }, other;

    CHECK(halay_unique_id_create(NULL) == HALAY_ERR_ARGUMENT);
    prepare_start(ranks, 3, "/nowhere");
    ranks[0].id = &id;
    start_rank(&ranks[0]);
    CHECK(ranks[0].status == HALAY_ERR_ARGUMENT && strstr(ranks[0].text, "unique id"), "%s", ranks[0].text);

    setenv(wrong_network[0], wrong_network[1], 1);
    CHECK(halay_unique_id_create(&id) == HALAY_ERR_CONFIG && strstr(halay_error_text(), "none0"));
    /* Networks of other tests exist for a while: a server at the address of one that has gone is not this host. */
    setenv(wrong_network[0], "lo", 1);

    for (int t = 0; t < TIMES && !strstr(ranks[0].text, "rank 2 has not come"); t++) {
        REQUIRE(halay_unique_id_create(&id) == HALAY_OK);
        prepare_start(ranks, 3, "/nowhere");
        for (int r = 0; r < 3; r++) {
            ranks[r].id = &id;
            ranks[r].settings = times[t];
        }
        run_threads(ranks, 2);
        CHECK(ranks[0].status == HALAY_ERR_TIMEOUT);
    }
    CHECK(strstr(ranks[0].text, "rank 2 has not come"), "%s", ranks[0].text);

    other = id;
    other.bytes[12] ^= 1; /* the secret */
    ranks[2].id = &other;
    ranks[2].settings = NULL; /* a refusal is reported after a second of attempts */
    start_rank(&ranks[2]);
    CHECK(ranks[2].status == HALAY_ERR_AUTH, "%s", ranks[2].text);
    other.bytes[10] = 0, other.bytes[11] = 1; /* the port */
    ranks[2].settings = soon;
    *ranks[2].text = 0;
    start_rank(&ranks[2]);
    CHECK(ranks[2].status == HALAY_ERR_TIMEOUT && strstr(ranks[2].text, "no answer at"), "%s", ranks[2].text);
    unsetenv(wrong_network[0]);
}

/* Called by the library: this host's interfaces, or others. */
static struct ifaddrs *interfaces;

__attribute__((visibility("default"))) int getifaddrs(struct ifaddrs **all)
{
    int (*real)(struct ifaddrs **) = dlsym(RTLD_NEXT, "getifaddrs");

    *all = interfaces;
    return interfaces ? 0 : real(all);
}

__attribute__((visibility("default"))) void freeifaddrs(struct ifaddrs *all)
{
    void (*real)(struct ifaddrs *) = dlsym(RTLD_NEXT, "freeifaddrs");

    if (all != interfaces)
        real(all);
}

/* Captures stderr from the first call to the second, which stores it in text. */
static void capture_stderr(char *text, size_t size)
{
    static int kept = -1;
    static FILE *file;

    fflush(stderr);
    if (kept < 0) {
        REQUIRE((file = tmpfile()) && (kept = dup(STDERR_FILENO)) >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
        return;
    }
    REQUIRE(dup2(kept, STDERR_FILENO) >= 0 && !close(kept));
    kept = -1;
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

/* An id has ten of a host's addresses, the loopback's last, and one log line reports that. */
static void check_many_addresses(void)
{
    enum { MANY = 12, AT = 44, BYTES = 17 };
    char name[] = "lo9", text[2000];
    struct sockaddr_in at[MANY];
    struct ifaddrs list[MANY];
    struct halay_unique_id id;

    for (int i = 0; i < MANY; i++) {
        at[i] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001 + (unsigned)i) };
        list[i] = (struct ifaddrs){ .ifa_next = i + 1 < MANY ? &list[i + 1] : NULL,
                                    .ifa_name = name,
                                    .ifa_flags = i ? IFF_UP : IFF_UP | IFF_LOOPBACK,
                                    .ifa_addr = (struct sockaddr *)&at[i] };
    }
    interfaces = list;
    capture_stderr(NULL, 0);
    enum halay_status status = halay_unique_id_create(&id);
    capture_stderr(text, sizeof text);
    interfaces = NULL;
    REQUIRE(CHECK(status == HALAY_OK, "%s", text));
    CHECK(id.bytes[9] == 10, "%d addresses", id.bytes[9]);
    for (int i = 0; i < 10; i++)
        CHECK(id.bytes[AT + i * BYTES + 4] == (i < 9 ? i + 2 : 1), "address %d: %d", i, id.bytes[AT + i * BYTES + 4]);
    const char *first = strstr(text, "likely ones first");
    CHECK(first && strstr(text, "this host has 12 addresses; other hosts get 10 of them"), "'%s'", text);
    CHECK(first && !strstr(first + 1, "likely ones first"), "'%s'", text);
}

static void *leave_one(void *ctx)
{
    halay_fini(ctx);
    return NULL;
}

/* At the same time: each thread waits for the others. */
static void leave_job(struct halay_context **contexts, int n)
{
    pthread_t threads[RANKS_MAX];

    for (int r = 0; r < n; r++)
        REQUIRE(!pthread_create(&threads[r], NULL, leave_one, contexts[r]));
    for (int r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

/* Two ranks wait for the third, which starts when they are ready; and two ranks, of which the first times out. */
static void check_progress(int with_id)
{
    struct rank_start ranks[3];
    struct halay_options options[3];
    struct halay_start *starts[3];
    struct halay_context *contexts[3], *ctx;
    struct halay_unique_id ids[2];
    char folder[32];
    int missing = -1;

    folder_make(folder);
    prepare_start(ranks, 3, folder);
    REQUIRE(!with_id || (halay_unique_id_create(&ids[0]) == HALAY_OK && halay_unique_id_create(&ids[1]) == HALAY_OK));
    for (int r = 0; r < 3; r++) {
        options[r] = options_of(&ranks[r], with_id ? &ids[0] : NULL);
        if (r == 2)
            for (int waiter = 0; waiter < 2; waiter++, missing = -1)
                while (missing != 2)
                    REQUIRE(halay_init_test(starts[waiter], 10, &ctx, &missing) == HALAY_IN_PROGRESS);
        REQUIRE(halay_init_start(&options[r], &starts[r]) == HALAY_OK);
    }
    for (int r = 0; r < 3; r++)
        REQUIRE(halay_init_test(starts[r], -1, &contexts[r], NULL) == HALAY_OK);
    for (int r = 0; r < 3; r++)
        CHECK(halay_rank(contexts[r]) == r && halay_size(contexts[r]) == 3);
    leave_job(contexts, 3);

    ranks[1].settings = soon;
    for (int r = 0; r < 2; r++) {
        options[r] = options_of(&ranks[r], with_id ? &ids[1] : NULL);
        REQUIRE(halay_init_start(&options[r], &starts[r]) == HALAY_OK);
    }
    halay_init_cancel(starts[0]);
    CHECK(halay_init_test(starts[1], -1, &ctx, NULL) != HALAY_OK && *halay_error_text(), "%s", halay_error_text());
    folder_remove(folder);
}

static void check_start_alone(void)
{
    struct halay_start *start_alone;
    struct halay_context *ctx;

    CHECK(halay_init_start(NULL, NULL) == HALAY_ERR_ARGUMENT &&
          halay_init_test(NULL, 0, &ctx, NULL) == HALAY_ERR_ARGUMENT);
    REQUIRE(halay_init_start(NULL, &start_alone) == HALAY_OK);
    CHECK(halay_init_test(start_alone, -1, &ctx, NULL) == HALAY_OK && halay_size(ctx) == 1);
    halay_fini(ctx);
    REQUIRE(halay_init_start(NULL, &start_alone) == HALAY_OK);
    halay_init_cancel(start_alone); /* whether it has succeeded or not */
    halay_init_cancel(NULL);
}

/* The program's settings take precedence over its launcher's variables. */
static void check_launcher(void)
{
    struct rank_start ranks[2];
    char folder[32];

    setenv("WORLD_SIZE", "2", 1);
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("HALAY_BOOTSTRAP", "mpi", 1);
    folder_make(folder);
    prepare_start(ranks, 2, folder);
    run_threads(ranks, 2);
    CHECK(ranks[0].status == HALAY_OK && ranks[1].status == HALAY_OK, "%s%s", ranks[0].text, ranks[1].text);
    folder_remove(folder);
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
    unsetenv("MASTER_ADDR");
    unsetenv("HALAY_BOOTSTRAP");
}

/* ---- failing starts ---- */

/* Two ranks, of which one's call fails_at fails; 0: none. */
struct pair_start {
    struct rank_start ranks[2];
    char folder[32];
    pthread_t thread;
    int ended_rightly;
};

static void *run_pair(void *arg)
{
    struct pair_start *pair = arg;

    run_threads(pair->ranks, 2);
    return NULL;
}

static void start_pair(struct pair_start *pair, int fails_at, const char *const *settings)
{
    folder_make(pair->folder);
    prepare_start(pair->ranks, 2, pair->folder);
    pair->ranks[0].settings = pair->ranks[1].settings = settings;
    pair->ranks[0].may_lose = 1;
    pair->ranks[1].store.fails_at = fails_at;
    pair->ranks[1].store.failure = HALAY_ERR_CANCELED;
    REQUIRE(!pthread_create(&pair->thread, NULL, run_pair, pair));
}

/* Rank 1's status is that of its failed call, if it was reached. */
static void end_pair(struct pair_start *pair, int calls_before)
{
    const struct rank_start *rank = &pair->ranks[1];

    pthread_join(pair->thread, NULL);
    folder_remove(pair->folder);
    pair->ended_rightly = rank->store.calls > calls_before ? rank->status == HALAY_ERR_CANCELED &&
                                                                 strstr(rank->text, "start over the program's store")
                                                           : rank->status == HALAY_OK;
}

/* Each call of rank 1 fails once, in pairs at the same time, as each rank 0 waits in vain. Rank 0 ends, too, before the
 * alarm. If it had received all it needed, its start may succeed. */
static void check_failures(void)
{
    enum { CALLS_LEAST = 4 };
    struct pair_start whole, *pairs;

    start_pair(&whole, 0, times[TIMES - 1]);
    end_pair(&whole, INT_MAX);
    CHECK(whole.ranks[0].status == HALAY_OK && whole.ranks[1].status == HALAY_OK, "the one without a failure");
    /* A rank that has to wait calls again, so that another start may need fewer calls. */
    int calls = whole.ranks[1].store.calls;
    CHECK(calls >= CALLS_LEAST, "%d calls", calls);
    REQUIRE((pairs = calloc((size_t)calls, sizeof *pairs)));
    for (int t = 0; t < TIMES; t++) {
        for (int i = 0; i < calls; i++)
            if (!pairs[i].ended_rightly)
                start_pair(&pairs[i], i + 1, times[t]);
        for (int i = 0; i < calls; i++)
            if (!pairs[i].ended_rightly)
                end_pair(&pairs[i], i);
    }
    for (int i = 0; i < calls; i++)
        CHECK(pairs[i].ended_rightly, "call %d: %s: %s", i + 1, halay_status_string(pairs[i].ranks[1].status),
              pairs[i].ranks[1].text);
    free(pairs);
}

static void check_missing(void)
{
    struct rank_start ranks[4];
    char folder[32];
    int told = 0;

    for (int t = 0; t < TIMES && told < 3; t++) {
        folder_make(folder);
        prepare_start(ranks, 4, folder);
        for (int r = 0; r < 3; r++)
            ranks[r].settings = times[t];
        run_threads(ranks, 3);
        told = 0;
        for (int r = 0; r < 3; r++)
            told += ranks[r].status == HALAY_ERR_TIMEOUT && strstr(ranks[r].text, "rank 3 has not come");
        folder_remove(folder);
    }
    CHECK(told == 3, "%s; %s; %s", ranks[0].text, ranks[1].text, ranks[2].text);
}

static void check_sizes_that_differ(void)
{
    struct rank_start ranks[2];
    char folder[32];

    folder_make(folder);
    prepare_start(ranks, 2, folder);
    ranks[0].settings = soon;
    ranks[1].settings = times[TIMES - 1];
    ranks[0].rendezvous.size = 3;
    run_threads(ranks, 2);
    CHECK(ranks[0].status == HALAY_ERR_TIMEOUT);
    CHECK(ranks[1].status == HALAY_ERR_MISMATCH && strstr(ranks[1].text, "size 2, rank 0 was given 3"), "%s",
          ranks[1].text);
    folder_remove(folder);
}

static void check_refusals(void)
{
    static char long_prefix[130];
    const struct {
        struct halay_rendezvous differs;
        const char *bootstrap, *settings[2], *says;
        enum halay_status status;
    } cases[] = {
        { .differs.struct_size = 8, .says = "struct_size", .status = HALAY_ERR_ARGUMENT },
        { .differs.size = -1, .says = "size is less than 1", .status = HALAY_ERR_ARGUMENT },
        { .differs.rank = 2, .says = "rank is not from 0", .status = HALAY_ERR_ARGUMENT },
        { .differs.prefix = "", .says = "prefix", .status = HALAY_ERR_ARGUMENT },
        { .differs.prefix = long_prefix, .says = "prefix", .status = HALAY_ERR_ARGUMENT },
        { .settings = { "HALAY_LOGG=info" }, .says = "'HALAY_LOG'?", .status = HALAY_ERR_CONFIG },
        { .bootstrap = "store", .says = "one of them", .status = HALAY_ERR_CONFIG },
    };
    struct rank_start rank;

    memset(long_prefix, 'x', sizeof long_prefix - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare_start(&rank, 1, "/nowhere");
        rank.bootstrap = cases[i].bootstrap;
        rank.settings = cases[i].settings;
        rank.rendezvous.prefix = cases[i].differs.prefix;
        if (cases[i].differs.struct_size)
            rank.rendezvous.struct_size = cases[i].differs.struct_size;
        if (cases[i].differs.size)
            rank.rendezvous.size = cases[i].differs.size;
        if (cases[i].differs.rank)
            rank.rendezvous.rank = cases[i].differs.rank;
        start_rank(&rank);
        CHECK(rank.status == cases[i].status && strstr(rank.text, cases[i].says), "case %zu: %s: %s", i,
              halay_status_string(rank.status), rank.text);
        CHECK(!rank.store.calls);
    }
    prepare_start(&rank, 1, "/nowhere");
    rank.rendezvous.get = NULL;
    start_rank(&rank);
    CHECK(rank.status == HALAY_ERR_ARGUMENT && strstr(rank.text, "put and get"), "%s", rank.text);
}

int main(void)
{
    alarm(300);
    check_sizes();
    check_nodes();
    check_ids_of_processes();
    check_encryption();
    check_prefixes();
    check_ids_of_threads(); /* no process is forked any more: the ids' threads remain for a while */
    check_many_addresses();
    check_wrong_ids();
    check_progress(0);
    check_progress(1);
    check_start_alone();
    check_launcher();
    check_failures();
    check_missing();
    check_sizes_that_differ();
    check_refusals();
    return test_end();
}
