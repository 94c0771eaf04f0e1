/* SPDX-License-Identifier: Apache-2.0
 *
 * The start's tree: its shape, and allgathers over it by local sockets and by a store, with ranks that are missing, end
 * early, or differ. Ranks are threads; the store is a list of keys.
 */
#include "../test.h"
#include "base/clock.h"
#include "collectives/transport/bootstrap/boot_socket.h"
#include "collectives/transport/bootstrap/boot_tree.h"
#include "collectives/transport/bootstrap/table_code.h"
#include "start_model.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#endif
#endif
#ifndef HAS_THREAD_SANITIZER
#define HAS_THREAD_SANITIZER 0
#endif

/* ---- shape ---- */

static void check_shape(int size, int block)
{
    const struct halay_tree tree = { .size = size, .block = block, .degree = HALAY_TREE_DEGREE };
    long covered = 0;
    int wrong = 0;

    for (int r = 0; r < size; r++) {
        int next = r + 1;
        for (int c = halay_tree_next_child(&tree, r, r); c >= 0; c = halay_tree_next_child(&tree, r, c)) {
            wrong += c != next || halay_tree_parent(&tree, c) != r || halay_tree_span(&tree, c) < 1;
            next = c + halay_tree_span(&tree, c);
            covered++;
        }
        wrong += next != r + halay_tree_span(&tree, r);
    }
    CHECK(!wrong && covered == size - 1 && halay_tree_span(&tree, 0) == size && halay_tree_parent(&tree, 0) == -1,
          "%d ranks in blocks of %d: %d wrong, %ld children", size, block, wrong, covered);
}

static void check_shapes(void)
{
    static const int blocks[] = { 1, 2, 3, 8, 15, 16, 17, 40, 64, 256, 1000 };

    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        for (int size = 1; size <= 1024; size += size < 70 ? 1 : 37)
            check_shape(size, blocks[b]);
        check_shape(16384, blocks[b]);
    }
}

/* ---- what a start costs ---- */

/* All rounds of a start: 16,384 ranks are to need a tenth of a second at most. perf/bench/start prints this. */
static void check_costs(void)
{
    static const int sizes[] = { 64, 256, 1024, 16384 };

    printf("computed, 64 ranks a host, %d us a message, without the programs and the store:\n", START_MODEL_MESSAGE_US);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct start_cost cost = start_model_round(sizes[i], 64);
        int rounds = start_model_rounds(sizes[i], 64);
        double ms = rounds * cost.round_us * 1e-3;
        printf("%5d ranks: %d rounds, %.1f ms; %d requests of the store, %d messages of a rank at most\n", sizes[i],
               rounds, ms, start_model_requests(sizes[i], 64), rounds * cost.messages_max);
        CHECK(ms <= 100 && cost.messages_max <= 100 && start_model_requests(sizes[i], 64) <= 2.2 * sizes[i] / 64);
    }
}

/* ---- tables in few bytes ---- */

/* Records of which some bytes differ from one to the next, coded, and cut or changed at each byte: they come back as
 * they were, or not at all, and nothing outside of them is written. */
static void check_table(size_t count, size_t record, unsigned every)
{
    size_t bytes = count * record, wrong = 0;
    unsigned char *records = calloc(1, bytes + 1), *back = calloc(1, bytes + 1),
                  *code = malloc(halay_table_most(bytes));
    unsigned seed = (unsigned)(bytes + every);

    REQUIRE(records && back && code);
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1103515245 + 12345;
        records[i] = every && (seed >> 16) % every == 0 ? (unsigned char)(seed >> 8)
                     : i < record                       ? 7
                                                        : records[i - record];
    }
    size_t n = halay_table_encode(records, bytes, record, code);
    CHECK(n <= halay_table_most(bytes) && halay_table_decode(code, n, back, bytes, record) &&
              !memcmp(records, back, bytes),
          "%zu records of %zu", count, record);
    for (size_t i = 0; i < n && bytes <= 5000; i += 1 + n / 100) {
        unsigned char kept = code[i];
        wrong += halay_table_decode(code, i, back, bytes, record);
        code[i] = (unsigned char)~kept;
        (void)halay_table_decode(code, n, back, bytes, record);
        code[i] = kept;
    }
    CHECK(!wrong && !back[bytes], "%zu records of %zu: %zu cuts not seen", count, record, wrong);
    free(records);
    free(back);
    free(code);
}

/* Codes two equal records in the fewest bytes, and refuses malformed codes. */
static void check_codes(void)
{
    enum { RECORD = 8, BYTES = 2 * RECORD };
    static const unsigned char records[BYTES] = { 1, 2, [RECORD] = 1, 2 }, least[] = { 0, 2, 1, 2, 14, 0 };
    static const struct {
        const char *what;
        size_t bytes;
        unsigned char code[16];
    } refused[] = {
        { "a byte follows", 7, { 0, 2, 1, 2, 14, 0, 0 } },
        { "a pair says nothing", 8, { 0, 0, 0, 2, 1, 2, 14, 0 } },
        { "more zeros than records", 6, { 0, 2, 1, 2, 15, 0 } },
        { "more literals than code", 5, { 12, 4, 1, 2, 3 } },
        { "a number of eleven bytes", 16, { 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 2, 1, 2, 14, 0 } },
    };
    unsigned char code[64], back[BYTES];

    CHECK(halay_table_most(BYTES) <= sizeof code && halay_table_encode(records, BYTES, RECORD, code) == sizeof least &&
          !memcmp(code, least, sizeof least));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        unsigned char *exact = malloc(refused[i].bytes); /* so that sanitizers see who reads on */
        REQUIRE(exact);
        memcpy(exact, refused[i].code, refused[i].bytes);
        CHECK(!halay_table_decode(exact, refused[i].bytes, back, BYTES, RECORD), "%s", refused[i].what);
        free(exact);
    }
}

static void check_tables(void)
{
    check_codes();
    for (size_t record = 1; record < 1000; record += record < 9 ? 1 : 97)
        for (unsigned every = 0; every < 400; every += every < 7 ? 1 : 131)
            check_table(1 + record % 5, record, every);
    check_table(1, 5000, 4);
    check_table(2000, 720, 100);
}

/* ---- a store, and a start over it ---- */

enum { KEYS_MAX = 4000, RANKS_MAX = 512, ROUNDS = 3, LONG_MS = 60000, SLOW_CHILDREN = 3 };

struct store {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int count;
    struct {
        char key[64];
        void *value;
        size_t bytes;
    } all[KEYS_MAX];
};

static enum halay_status store_set(void *arg, const char *key, const void *value, size_t bytes)
{
    struct store *store = arg;

    pthread_mutex_lock(&store->lock);
    REQUIRE(store->count < KEYS_MAX);
    snprintf(store->all[store->count].key, sizeof store->all->key, "%s", key);
    REQUIRE((store->all[store->count].value = malloc(bytes)));
    memcpy(store->all[store->count].value, value, bytes);
    store->all[store->count++].bytes = bytes;
    pthread_cond_broadcast(&store->change);
    pthread_mutex_unlock(&store->lock);
    return HALAY_OK;
}

static enum halay_status store_find_locked(struct store *store, const char *key, void *value, size_t bytes)
{
    for (int i = 0; i < store->count; i++) {
        if (strcmp(store->all[i].key, key) != 0)
            continue;
        if (store->all[i].bytes != bytes)
            return HALAY_ERR_FORMAT;
        memcpy(value, store->all[i].value, bytes);
        return HALAY_OK;
    }
    return HALAY_ERR_TIMEOUT;
}

static enum halay_status store_get(void *arg, const char *key, void *value, size_t bytes, int timeout_ms)
{
    struct store *store = arg;
    struct timespec until;
    enum halay_status status;

    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + timeout_ms * INT64_C(1000000);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&store->lock);
    while ((status = store_find_locked(store, key, value, bytes)) == HALAY_ERR_TIMEOUT &&
           pthread_cond_timedwait(&store->change, &store->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&store->lock);
    return status;
}

struct start {
    struct store store;
    int size, block, timeout_ms;
    int isolated_every; /* ranks r with r % isolated_every == 1 cannot connect; 0: none */
    int missing;        /* this rank does not take part; -1: none */
    int hurried_ms;     /* the time-out of rank 0; 0: that of all */
    int ends;           /* this one ends after the first round; -1: none */
    int gives_up;       /* this one gives up after the first round; -1: none */
    int has_names;      /* the hosts' names are known */
    int portless;       /* this one finds no port that is free; -1: none */
    int cut_off;        /* this one reaches no other host; -1: none */
    int tampers;        /* what this one sends other hosts after the first round arrives changed; -1: none */
    int orphan;         /* this one connects with its parent once that one has failed; -1: none */
    int late;           /* this one begins half a second after the others; -1: none */
    int port;           /* that is not free */
    int differs;        /* this one exchanges a byte more; -1: none */
    int cancels;        /* the start of this one is canceled before it begins; -1: none */
    int is_described;   /* the launcher has described the ranks of each host, which are those of a block */
    int is_slow;        /* no child sends before its parent has accepted all of them one at a time */
    struct halay_host_ranks hosts[RANKS_MAX]; /* of each host, if they are described */
    pthread_barrier_t begun;
};

struct rank {
    struct start *start;
    struct halay_boot boot;
    struct halay_log log;
    struct halay_boot_watch watch;
    char text[400];
    enum halay_status status;
    int wrong;
    pthread_t thread;
};

/* Of the calling thread's rank. */
static _Thread_local int is_isolated, is_slow_parent, is_cut_off, is_tampering, is_orphan;
static _Thread_local uint64_t network; /* its own network namespace; 0: that of all */
static _Thread_local int turn;         /* of a slow start: the parent's first child, or its second, ... ; 0: none */

/* A slow start. Child k connects once child k - 1 has been accepted, and sends once it has been accepted itself. Both
 * have happened when the parent looks again. */
static atomic_int connected, accepted, rested, sent;
static atomic_int has_failed; /* the parent of the orphan */

static void wait_for(const atomic_int *count, int least)
{
    for (int64_t deadline_us = halay_deadline_us(LONG_MS); atomic_load(count) < least;) {
        REQUIRE(!halay_deadline_passed(deadline_us));
        sched_yield();
    }
}

/* A rank of another host, or in a network namespace of its own, finds no socket, and its own is not found. */
int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_un local;

    if (!network || address->sa_family != AF_UNIX)
        return __real_bind(fd, address, length);
    memcpy(&local, address, length);
    local.sun_path[1] = 'x';
    return __real_bind(fd, (struct sockaddr *)&local, length);
}

int __real_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about);

int __wrap_stat(const char *path, struct stat *about)
{
    int failed = __real_stat(path, about);

    if (network && !strcmp(path, "/proc/self/ns/net"))
        about->st_ino = network;
    return failed;
}

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (address->sa_family == AF_UNIX ? is_isolated : is_cut_off) {
        errno = ECONNREFUSED;
        return -1;
    }
    if (turn > 1)
        wait_for(&rested, turn - 1);
    if (is_orphan && address->sa_family != AF_UNIX)
        wait_for(&has_failed, 1);
    int failed = __real_connect(fd, address, length);
    if (turn && !failed)
        atomic_fetch_add(&connected, 1);
    return failed;
}

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    int got = __real_accept4(fd, address, length, flags), error = errno;

    if (is_slow_parent && got >= 0)
        atomic_fetch_add(&accepted, 1);
    if (is_slow_parent && got < 0 && error == EAGAIN && atomic_load(&accepted) < SLOW_CHILDREN) {
        atomic_store(&rested, atomic_load(&accepted));
        wait_for(&connected, atomic_load(&accepted) + 1);
        wait_for(&sent, atomic_load(&accepted));
    }
    errno = error;
    return got;
}

ssize_t __real_send(int fd, const void *bytes, size_t count, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags);

/* With the last bit of all another one, except to ranks of the same host. */
static ssize_t send_changed(int fd, const void *bytes, size_t count, int flags)
{
    int domain = AF_UNIX;
    socklen_t length = sizeof domain;
    unsigned char *changed = malloc(count);

    REQUIRE(changed && count && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0);
    memcpy(changed, bytes, count);
    changed[count - 1] ^= domain != AF_UNIX;
    ssize_t n = __real_send(fd, changed, count, flags);
    free(changed);
    return n;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t count, int flags)
{
    if (turn)
        wait_for(&rested, turn < SLOW_CHILDREN ? turn : 0);
    ssize_t n = is_tampering ? send_changed(fd, bytes, count, flags) : __real_send(fd, bytes, count, flags);
    if (turn)
        atomic_fetch_add(&sent, 1);
    turn = 0;
    return n;
}

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    struct rank *rank = arg;

    if (level <= HALAY_LOG_ERROR && !*rank->text)
        snprintf(rank->text, sizeof rank->text, "%s", line);
}

static int host_named(void *arg, int rank, struct halay_store_host *host)
{
    (void)arg;
    snprintf(host->name, sizeof host->name, "node%d", rank / 16);
    return 1;
}

static void one_round(struct rank *rank, struct halay_boot_tree *tree, int round)
{
    unsigned char secret[HALAY_SECRET_BYTES] = { 7 };
    struct start *start = rank->start;
    int me = rank->boot.rank;
    int timeout_ms = start->hurried_ms && !me ? start->hurried_ms : start->timeout_ms;
    size_t bytes = (size_t)(8 + 100 * round + (me == start->differs));
    unsigned char *all = malloc((size_t)start->size * bytes), *mine = calloc(1, bytes);

    REQUIRE(all && mine);
    memcpy(secret + 1, &(pid_t){ getpid() }, sizeof(pid_t)); /* local sockets are named by it */
    mine[0] = (unsigned char)me;
    mine[bytes - 1] = (unsigned char)(me + round);
    rank->status = halay_boot_tree_allgather(tree, secret, mine, bytes, all, timeout_ms);
    for (int r = 0; r < start->size && rank->status == HALAY_OK; r++)
        rank->wrong += all[(size_t)r * bytes] != (unsigned char)r ||
                       all[(size_t)(r + 1) * bytes - 1] != (unsigned char)(r + round);
    mine[0] = (unsigned char)(me ? 0 : 200 + round);
    if (rank->status == HALAY_OK)
        rank->status = halay_boot_tree_broadcast(tree, secret, mine, bytes, timeout_ms);
    rank->wrong += rank->status == HALAY_OK &&
                   (mine[0] != (unsigned char)(200 + round) || (me && mine[bytes - 1] != (unsigned char)round));
    free(mine);
    free(all);
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    struct start *start = rank->start;
    struct halay_boot_tree tree = { .boot = &rank->boot,
                                    .keys = { .arg = &start->store, .set = store_set, .get = store_get } };

    is_isolated = start->isolated_every && rank->boot.rank % start->isolated_every == 1;
    turn = start->is_slow ? rank->boot.rank : 0;
    is_slow_parent = start->is_slow && !turn;
    is_cut_off = rank->boot.rank == start->cut_off;
    is_orphan = rank->boot.rank == start->orphan;
    if (rank->boot.rank == start->portless)
        tree.network.ports[0] = tree.network.ports[1] = start->port;
    network = is_isolated && start->is_described ? (uint64_t)(1000 + rank->boot.rank) : 0;
    pthread_barrier_wait(&start->begun);
    if (rank->boot.rank == start->late)
        poll(NULL, 0, 500);
    if (start->is_described) {
        REQUIRE(halay_host_ranks_open(&rank->log, start->hosts[rank->boot.rank / start->block].fd, rank->boot.rank,
                                      start->size, &tree.host) == HALAY_OK);
        halay_host_ranks_begin(&tree.host);
    }
    snprintf(tree.name, sizeof tree.name, "test %d %p", (int)getpid(), (void *)start);
    tree.block = start->block;
    if (start->has_names)
        tree.keys.host = host_named;
    for (int round = 0; round < ROUNDS && rank->status == HALAY_OK; round++)
        if (round == 0 || (rank->boot.rank != start->ends && rank->boot.rank != start->gives_up)) {
            is_tampering = round > 0 && rank->boot.rank == start->tampers;
            one_round(rank, &tree, round);
        }
    if (rank->boot.rank == start->gives_up) {
        halay_error(rank->boot.log, "a test");
        halay_boot_tree_give_up(&tree);
    }
    if (start->orphan >= 0 && rank->boot.rank == halay_tree_parent(&tree.shape, start->orphan))
        atomic_store(&has_failed, 1);
    halay_boot_tree_fini(&tree);
    return NULL;
}

/* What the launcher has, and what it sees: that one of the ranks has ended. */
static void describe(struct start *start)
{
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_ERROR);
    for (int h = 0; h * start->block < start->size; h++) {
        int first = h * start->block, left = start->size - first;
        REQUIRE(halay_host_ranks_create(&log, first, left < start->block ? left : start->block, start->block,
                                        &start->hosts[h]) == HALAY_OK);
        if (start->missing >= 0)
            halay_host_ranks_ended(&start->hosts[h], start->missing);
    }
    halay_log_fini(&log);
}

static struct rank *begin(struct start *start)
{
    struct rank *ranks = calloc((size_t)start->size, sizeof *ranks);

    REQUIRE(ranks && start->size <= RANKS_MAX);
    if (start->is_described)
        describe(start);
    pthread_mutex_init(&start->store.lock, NULL);
    pthread_cond_init(&start->store.change, NULL);
    pthread_barrier_init(&start->begun, NULL, (unsigned)(start->size - (start->missing >= 0)));
    for (int r = 0; r < start->size; r++) {
        struct rank *rank = &ranks[r];
        halay_log_init(&rank->log, HALAY_LOG_ERROR);
        rank->log.write = keep_line;
        rank->log.arg = rank;
        rank->start = start;
        rank->watch.is_canceled = r == start->cancels;
        rank->boot = (struct halay_boot){ .rank = r, .size = start->size, .log = &rank->log, .watch = &rank->watch };
        if (r != start->missing)
            REQUIRE(!pthread_create(&rank->thread, NULL, rank_main, rank));
    }
    return ranks;
}

static void join(struct start *start, struct rank *ranks)
{
    for (int r = 0; r < start->size; r++)
        if (r != start->missing)
            pthread_join(ranks[r].thread, NULL);
    for (int r = 0; r < start->size; r++)
        if (ranks[r].boot.port.is_open)
            close(ranks[r].boot.port.fd);
    for (int i = 0; i < start->store.count; i++)
        free(start->store.all[i].value);
    for (int h = 0; start->is_described && h * start->block < start->size; h++)
        halay_host_ranks_close(&start->hosts[h]);
}

static struct rank *run(struct start *start)
{
    struct rank *ranks = begin(start);

    join(start, ranks);
    return ranks;
}

static void end(struct start *start, struct rank *ranks)
{
    for (int r = 0; r < start->size; r++)
        halay_log_fini(&ranks[r].log);
    free(ranks);
    free(start);
}

static struct start *start_of(int size, int block, int isolated_every)
{
    struct start *start = calloc(1, sizeof *start);

    REQUIRE(start);
    *start = (struct start){ .size = size, .block = block, .isolated_every = isolated_every, .timeout_ms = LONG_MS };
    start->missing = start->ends = start->gives_up = start->portless = start->cut_off = start->tampers = start->orphan =
        start->late = start->differs = start->cancels = -1;
    return start;
}

static void check_all_ranks(int size, int block, int isolated_every)
{
    struct start *start = start_of(size, block, isolated_every);
    struct rank *ranks = run(start);

    for (int r = 0; r < size; r++)
        CHECK(ranks[r].status == HALAY_OK && !ranks[r].wrong, "%d ranks, block %d, isolated %d: rank %d: %s", size,
              block, isolated_every, r, ranks[r].text);
    end(start, ranks);
}

static struct start *described(int size, int block, int isolated_every)
{
    struct start *start = start_of(size, block, isolated_every);

    start->is_described = 1;
    return start;
}

/* Each rank knows from its launcher which ones are on its host, and whether sockets reach them: none waits. */
static void check_described(int size, int block, int isolated_every)
{
    struct start *start = described(size, block, isolated_every);
    struct rank *ranks = run(start);
    int edges = 0, keys = 0, places = 0, remote_parents = 0;

    for (int r = 0; r < size; r++)
        CHECK(ranks[r].status == HALAY_OK && !ranks[r].wrong, "%d ranks, hosts of %d, %d: rank %d: %s", size, block,
              isolated_every, r, ranks[r].text);
    for (int i = 0; i < start->store.count; i++)
        keys += start->store.all[i].key[0] == 'u', places += start->store.all[i].key[0] == 'a';
    for (int r = 1, last = -1; r < size; r++) {
        int parent =
            halay_tree_parent(&(struct halay_tree){ .size = size, .block = block, .degree = HALAY_TREE_DEGREE }, r);
        int is_here = parent / block == r / block;
        edges += is_here && isolated_every &&
                 (parent % isolated_every == 1 || r % isolated_every == 1); /* not by a local socket */
        remote_parents += !is_here && parent != last;
        last = is_here ? last : parent;
    }
    CHECK(keys == 2 * ROUNDS * edges, "%d ranks, hosts of %d, %d: %d messages up by the store", size, block,
          isolated_every, keys);
    CHECK(places == remote_parents, "%d ranks, hosts of %d: addresses of %d hosts", size, block, places);
    end(start, ranks);
}

/* A child that comes late, of this host or another one, has not ended. */
static void check_late(int late)
{
    struct start *start = described(100, 5, 0);

    start->late = late;
    struct rank *ranks = run(start);
    for (int r = 0; r < start->size; r++)
        CHECK(ranks[r].status == HALAY_OK && !ranks[r].wrong, "rank %d is late: rank %d: %s", late, r, ranks[r].text);
    end(start, ranks);
}

/* Connections that are accepted before their child has sent anything are kept, however many there are. */
static void check_slow(void)
{
    struct start *start = start_of(SLOW_CHILDREN + 1, 16, 0);

    start->is_slow = 1;
    struct rank *ranks = run(start);
    for (int r = 0; r < start->size; r++)
        CHECK(ranks[r].status == HALAY_OK && !ranks[r].wrong, "slow: rank %d: %s", r, ranks[r].text);
    end(start, ranks);
}

/* Joins. Every rank that took part got this status, and a line with this text. */
static void check_told(struct start *start, struct rank *ranks, enum halay_status status, const char *text)
{
    join(start, ranks);
    for (int r = 0; r < start->size; r++)
        if (r != start->missing && r != start->ends && r != start->gives_up)
            CHECK(ranks[r].status == status && strstr(ranks[r].text, text),
                  "%d ranks, isolated %d: rank %d: %s: %s; expected '%s'", start->size, start->isolated_every, r,
                  halay_status_string(ranks[r].status), ranks[r].text, text);
    end(start, ranks);
}

/* All at once, for they take as long as the time-out: long enough for a machine that is busy with other things. */
static void check_missing(void)
{
    static const struct {
        int size, missing, isolated_every;
        const char *more;
    } all[] = { { 3, 2, 0, "" },
                { 3, 0, 0, "" },
                { 20, 17, 0, "; its host is node1" },
                { 20, 16, 0, "; nothing is known of host node1, ranks 16-19" },
                { 40, 16, 0, "; nothing is known of its host, ranks 16-31" },
                { 40, 35, 2, "" } };
    enum { ALL = sizeof all / sizeof *all };
    struct start *starts[ALL];
    struct rank *ranks[ALL];
    char text[128];

    for (int i = 0; i < ALL; i++) {
        starts[i] = start_of(all[i].size, 16, all[i].isolated_every);
        starts[i]->timeout_ms = 2000;
        starts[i]->missing = all[i].missing;
        starts[i]->has_names = strstr(all[i].more, "node") != NULL;
        ranks[i] = begin(starts[i]);
    }
    for (int i = 0; i < ALL; i++) {
        snprintf(text, sizeof text, "rank %d has not come within 2 s (HALAY_START_TIMEOUT)%s", all[i].missing,
                 all[i].more);
        check_told(starts[i], ranks[i], HALAY_ERR_TIMEOUT, text);
    }
}

/* Rank 0, which gives up long before the others, names the missing one that its child waits for, not its child. */
static void check_hurried(int isolated_every, const char *named)
{
    struct start *start = start_of(40, 16, isolated_every);
    char text[64];

    start->hurried_ms = 2000;
    start->missing = 35; /* a child of 32, which is one of 0 */
    snprintf(text, sizeof text, "%s has not come within 2 s", named);
    check_told(start, begin(start), HALAY_ERR_TIMEOUT, text);
}

/* Connects with a listener from an end of this name, none if it is empty. Returns the descriptor. */
static int connect_from(const struct halay_boot_socket *listener, const char *name)
{
    struct sockaddr_un to, from = { .sun_family = AF_UNIX };
    socklen_t bytes = sizeof to;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(from.sun_path + 1, name, strlen(name));
    REQUIRE(fd >= 0 && getsockname(listener->fd, (struct sockaddr *)&to, &bytes) == 0);
    REQUIRE(!*name || bind(fd, (struct sockaddr *)&from, (socklen_t)(sizeof from.sun_family + 1 + strlen(name))) == 0);
    REQUIRE(connect(fd, (struct sockaddr *)&to, bytes) == 0);
    return fd;
}

/* A parent takes the connections of its children, and closes others: without a name or with a wrong one, and those of
 * another user, also if he knows the secret. */
static void check_listener(void)
{
    struct halay_boot_socket listener;
    struct halay_log log;
    unsigned char secret[HALAY_SECRET_BYTES] = { 9 };
    char name[48], byte;
    int rank = -1;

    memcpy(secret + 1, &(pid_t){ getpid() }, sizeof(pid_t));
    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(halay_boot_socket_listen(&listener, secret, "a listener"));
    snprintf(name, sizeof name, "%032d7", (int)getpid()); /* as long as a child's */
    int unnamed = connect_from(&listener, ""), misnamed = connect_from(&listener, name);
    pid_t other = fork();
    REQUIRE(other >= 0);
    if (!other) {
        int has_user = geteuid() == 0 && setgid(65534) == 0 && setuid(65534) == 0;
        _exit(has_user && halay_boot_socket_connect(secret, "a listener", 8) >= 0);
    }
    int status = -1;
    REQUIRE(waitpid(other, &status, 0) == other);
    CHECK(status == 0, "another user has a connection");
    CHECK(halay_boot_socket_accept(&listener, &log, &rank) < 0, "rank %d", rank);
    CHECK(recv(unnamed, &byte, 1, MSG_DONTWAIT) == 0 && recv(misnamed, &byte, 1, MSG_DONTWAIT) == 0);
    int child = halay_boot_socket_connect(secret, "a listener", 7);
    int accepted_fd = halay_boot_socket_accept(&listener, &log, &rank);
    CHECK(child >= 0 && accepted_fd >= 0 && rank == 7, "rank %d", rank);
    close(child);
    close(accepted_fd);
    close(unnamed);
    close(misnamed);
    halay_boot_socket_close(&listener);
    halay_log_fini(&log);
}

static void check_ended(struct start *start, int ends)
{
    char text[64];

    start->ends = ends;
    snprintf(text, sizeof text, "rank %d has ended during the start", ends);
    check_told(start, begin(start), HALAY_ERR_PEER, text);
}

/* No rank waits for the time-out, also where the store connects them. */
static void check_gives_up(struct start *start, int gives_up)
{
    char text[64];

    start->gives_up = gives_up;
    snprintf(text, sizeof text, "rank %d has given up the start: a test", gives_up);
    check_told(start, begin(start), HALAY_ERR_PEER, text);
}

static void check_all_give_up(void)
{
    for (int isolated_every = 0; isolated_every <= 3; isolated_every++)
        for (int gives_up = 0; gives_up < 40; gives_up += 13)
            check_gives_up(start_of(40, 16, isolated_every), gives_up);
    check_gives_up(described(100, 5, 0), 80);
    check_gives_up(described(100, 5, 3), 81);
}

/* The launcher has seen a rank end that has not begun: none waits for the time-out. */
static void check_gone(struct start *start, int gone)
{
    char text[64];

    start->missing = gone;
    snprintf(text, sizeof text, "rank %d has ended during the start", gone);
    check_told(start, begin(start), HALAY_ERR_PEER, text);
}

/* The parent of a first rank fails before it has accepted that one's connection: it looks into the store meanwhile. */
static void check_orphan(int orphan, int gone)
{
    struct start *start = described(100, 5, 0);

    start->orphan = orphan;
    atomic_store(&has_failed, 0);
    check_gone(start, gone);
}

static void check_differs(int size, int differs, int isolated_every)
{
    struct start *start = start_of(size, 16, isolated_every);

    start->differs = differs;
    check_told(start, begin(start), HALAY_ERR_FORMAT, "bytes at the start");
}

/* A host without a free port fails on all ranks of the job, those of hosts below it, too. */
static void check_portless(int portless)
{
    struct start *start = described(100, 5, 0);
    struct rank *ranks;
    struct halay_log log;
    struct halay_address address;
    int fd, count;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(halay_listen(&log, NULL, 1, &fd, &address, &count) == HALAY_OK);
    start->portless = portless;
    start->port = address.port;
    ranks = run(start);
    for (int r = 0; r < start->size; r++)
        CHECK(ranks[r].status == HALAY_ERR_CONFIG && (r == portless || strstr(ranks[r].text, "cannot go on")),
              "rank %d: %s: %s", r, halay_status_string(ranks[r].status), ranks[r].text);
    end(start, ranks);
    close(fd);
    halay_log_fini(&log);
}

static void check_cut_off(int cut_off)
{
    struct start *start = described(100, 5, 0);
    char text[64];

    start->cut_off = cut_off;
    snprintf(text, sizeof text, "rank %d cannot reach rank", cut_off);
    check_told(start, begin(start), HALAY_ERR_SYSTEM, text);
}

/* A message between hosts is signed, and believed only as it was sent. */
static void check_tampered(int tampers, int told)
{
    struct start *start = described(100, 5, 0);
    char text[96];

    start->tampers = tampers;
    snprintf(text, sizeof text, "what rank %d has sent rank %d for the start was changed on its way", tampers, told);
    check_told(start, begin(start), HALAY_ERR_AUTH, text);
}

static void check_canceled(int size, int cancels)
{
    struct start *start = start_of(size, 16, 0);
    struct rank *ranks;

    start->cancels = cancels;
    start->missing = size - 1;
    ranks = run(start);
    for (int r = 0; r < size - 1; r++)
        CHECK(ranks[r].status == HALAY_ERR_CANCELED, "rank %d: %s: %s", r, halay_status_string(ranks[r].status),
              ranks[r].text);
    end(start, ranks);
}

int main(int argc, char **argv)
{
    check_costs();
    if (argc > 1 && !strcmp(argv[1], "--model"))
        return test_end();
    check_shapes();
    check_tables();
    for (int size = 1; size <= 40; size += size < 6 ? 1 : 11)
        for (int isolated_every = 0; isolated_every <= 3; isolated_every++)
            check_all_ranks(size, 8, isolated_every);
    check_all_ranks(90, 40, 0);
    check_all_ranks(HAS_THREAD_SANITIZER ? 100 : 300, 0, 0);
    for (int size = 1; size <= 40; size += size < 6 ? 1 : 11)
        for (int isolated_every = 0; isolated_every <= 3; isolated_every++)
            check_described(size, 8, isolated_every);
    check_described(90, 40, 7);
    check_late(3);
    check_late(80);
    check_slow();
    check_listener();
    check_missing();
    check_hurried(0, "rank 35");
    check_hurried(31, "rank 32"); /* which its parent meets in the store, where it cannot say for whom it waits */
    for (int gone = 0; gone < 40; gone += gone < 3 ? 1 : 9)
        check_gone(described(40, 20, gone % 2 ? 3 : 0), gone);
    check_gone(described(40, 20, 0), 20);
    check_gone(described(40, 20, 0), 36);
    check_ended(start_of(2, 16, 0), 1);
    check_ended(start_of(40, 16, 0), 0);
    check_ended(start_of(40, 16, 0), 33);
    check_ended(start_of(40, 16, 0), 16);
    check_ended(start_of(HAS_THREAD_SANITIZER ? 80 : RANKS_MAX, 16, 0), 64);
    check_ended(start_of(HAS_THREAD_SANITIZER ? 80 : RANKS_MAX, 16, 0), 77);
    check_ended(described(40, 20, 0), 20);
    check_ended(described(40, 20, 0), 0);
    check_ended(described(100, 5, 0), 81); /* below a host that is below another one */
    check_ended(described(100, 5, 0), 80);
    check_all_give_up();
    check_portless(0);
    check_portless(80);
    check_cut_off(10);
    check_cut_off(85);
    check_orphan(85, 82);
    check_tampered(10, 0);
    check_tampered(85, 80);
    check_differs(40, 33, 0);
    check_differs(40, 35, 2);
    check_canceled(40, 33);
    return test_end();
}
