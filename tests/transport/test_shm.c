/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared-memory transport conforms, with ranks as processes: more than there are cores, one killed in the middle of
 * a transfer, one that leaves, little address space, too large an allocation, and strangers at the socket.
 */
#include "../test.h"
#include "base/clock.h"
#include "base/net/local_socket.h"
#include "collectives/transport/shm/shm.h"
#include "collectives/transport/shm/shm_segment.h"
#include "conformance.h"
#include "peers_of_boot.h"
#include "shared_boot.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct flood;

typedef void job_function(struct conformance *c, struct halay_log *log);

struct job {
    job_function *run;
    int size;
    int killed;           /* the rank that ends by SIGKILL, or -1 */
    size_t segment_bytes; /* 0: 2 GiB */
    size_t address_space; /* limit; 0: none */
    int is_quiet;         /* error lines are what is wanted */
    int without_barrier;
    int polls;           /* the bells watch descriptors */
    struct flood *flood; /* of strangers, at rank 0; NULL: none */
    int short_at;        /* rank 1 has no memory for that call of calloc when it opens the transport; 0: it has */
};

static struct halay_boot *flooded_boot(struct flood *flood, struct halay_boot *under);

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

/* ---- memory that is short (the linker has this called) ---- */

static int callocs_left; /* 1: the next one fails; 0: none */

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (callocs_left && !--callocs_left)
        return NULL;
    return __real_calloc(count, bytes);
}

/* All know, and the bootstrap's next exchange is the same for all. */
static void check_in_step(struct conformance *c, enum halay_status status)
{
    int32_t mine = 100 + c->boot->rank, all[8] = { 0 };

    CHECK(status == HALAY_ERR_NO_MEMORY, "rank %d: '%s'", c->boot->rank, halay_status_string(status));
    CHECK(c->boot->ops->allgather(c->boot, &mine, sizeof mine, all, 60000) == HALAY_OK);
    for (int r = 0; r < c->boot->size; r++)
        CHECK(all[r] == 100 + r, "rank %d heard %d from rank %d", c->boot->rank, all[r], r);
}

/* A descriptor that is never readable. */
static void watch_silence(struct halay_bell *bell)
{
    int ends[2];

    REQUIRE(!pipe(ends));
    CHECK(halay_bell_watch(bell, ends[0]) == HALAY_OK);
}

static int run_rank(const struct job *job, struct shared_board *board, int rank)
{
    struct halay_log log;
    struct halay_peers *peers;
    struct halay_bell bell;
    struct conformance c = {
        .bell = &bell,
        .seed = (unsigned)job->size,
        .large = job->size <= 3 ? (size_t)3 << 20 : (size_t)1 << 20, /* the pile of them must exceed ring and budget */
        .iterations = job->size <= 3 ? 1000 : 200,
    };
    struct halay_shm_options options = {
        .segment_bytes = job->segment_bytes ? job->segment_bytes : (size_t)2 << 30,
        .timeout_ms = 60000,
        .numa_node = rank % 2 ? -1 : 0,
        .without_barrier = job->without_barrier && rank == 0, /* one is enough: all have to do without */
        .bell = &bell,
        .bell_polls = job->polls,
    };

    alarm(200);
    if (job->address_space) {
        struct rlimit limit = { job->address_space, job->address_space };
        REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    }
    halay_log_init(&log, HALAY_LOG_ERROR);
    log.rank = rank;
    log.write = job->is_quiet ? drop_line : NULL;
    c.boot = shared_boot_create(board, rank, &log);
    if (job->flood)
        c.boot = flooded_boot(job->flood, c.boot);
    if (!CHECK(peers_of_boot(&log, c.boot, NULL, 60000, &peers) == HALAY_OK))
        return 1;
    halay_bell_init(&bell, &log);
    callocs_left = rank == 1 ? job->short_at : 0;
    enum halay_status status = halay_shm_open(&log, &options, c.boot, peers, &c.link);
    callocs_left = 0;
    if (job->short_at) {
        check_in_step(&c, status);
    } else if (CHECK(status == HALAY_OK)) {
        if (job->polls)
            watch_silence(&bell);
        job->run(&c, &log);
        if (c.link)
            c.link->ops->close(c.link);
    }
    halay_bell_fini(&bell);
    halay_peers_destroy(peers);
    c.boot->ops->destroy(c.boot);
    halay_log_fini(&log);
    return conformance_failed() || test_failed;
}

/* Fork the ranks, and judge how each ended. */
static void run(const struct job *job)
{
    struct shared_board *board = shared_board_create(job->size);
    pid_t *pid = calloc((size_t)job->size, sizeof *pid);
    int status;

    REQUIRE(pid);
    fflush(stdout);
    for (int r = 0; r < job->size; r++) {
        REQUIRE((pid[r] = fork()) >= 0);
        if (!pid[r]) {
            test_failed = 0; /* a rank answers for itself */
            int failed = run_rank(job, board, r);
            fflush(stdout);
            _exit(failed);
        }
    }
    /* In no order: a dead rank must be a zombie for the others while they find out. */
    for (int r = 0; r < job->size; r++) {
        REQUIRE(waitpid(pid[r], &status, 0) == pid[r]);
        if (r == job->killed)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "rank %d of %d", r, job->size);
        else
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d of %d ended with %#x", r, job->size, status);
    }
    free(pid);
    shared_board_destroy(board);
}

/* ---- jobs ---- */

static void job_run(struct conformance *c, struct halay_log *log)
{
    (void)log;
    conformance_run(c);
}

static void job_leave(struct conformance *c, struct halay_log *log)
{
    (void)log;
    conformance_leave(c);
}

static void kill_self(void *arg)
{
    (void)arg;
    raise(SIGKILL);
}

static void job_death(struct conformance *c, struct halay_log *log)
{
    char text[256];

    c->large = 20 << 20; /* more than a ring holds: it dies in the middle of it */
    conformance_death(c, c->link->size - 1, kill_self, NULL);
    halay_log_last_error(log, text, sizeof text);
    CHECK(strstr(text, "is dead"), "the log says how: '%s'", text);
}

/* Asleep, with nothing posted at all: the end of a peer ends the sleep within its second, and progress says so. */
/* Rank 2 dies; rank 1 finds out, and has left when rank 0 first looks: rank 0 still names rank 2. */
static void job_death_then_leave(struct conformance *c, struct halay_log *log)
{
    struct halay_link *link = c->link;
    struct halay_transfer in = { 0 };
    int64_t deadline_us = halay_deadline_us(60000);
    enum halay_status status = HALAY_OK;
    char byte;

    (void)log;
    if (link->rank == 2)
        raise(SIGKILL);
    link->ops->recv(link, link->rank == 0 ? 1 : 2, halay_tag(0, 0, 1), &byte, 1, &in);
    while (link->rank == 0 && !halay_shm_has_left(link, 1) && halay_now_us() < deadline_us)
        sched_yield();
    while (status == HALAY_OK && halay_now_us() < deadline_us)
        status = link->ops->progress(link);
    link->ops->cancel(link, &in);
    CHECK(status == HALAY_ERR_PEER && link->failed_peer == 2, "rank %d: %s, names rank %d", link->rank,
          halay_status_string(status), link->failed_peer);
}

static void job_death_asleep(struct conformance *c, struct halay_log *log)
{
    struct halay_link *link = c->link;
    enum halay_status status = HALAY_OK;
    int all[8], one = 1;

    (void)log;
    CHECK(c->boot->ops->allgather(c->boot, &one, sizeof one, all, 60000) == HALAY_OK);
    if (link->rank == link->size - 1)
        raise(SIGKILL);
    while (status == HALAY_OK) {
        uint32_t token = halay_bell_arm(c->bell);
        status = link->ops->progress(link);
        if (status == HALAY_OK)
            conformance_sleep(link, c->bell, token, -1);
        else
            halay_bell_disarm(c->bell);
    }
    CHECK(status == HALAY_ERR_PEER && link->failed_peer == link->size - 1);
}

/* A peer that left and then ended is no failure for those who do not wait for it. */
static void job_leave_quietly(struct conformance *c, struct halay_log *log)
{
    struct halay_link *link = c->link;

    (void)log;
    if (link->rank == link->size - 1)
        return;
    while (!halay_shm_has_left(link, link->size - 1)) {
        uint32_t token = halay_bell_arm(c->bell);
        if (halay_shm_has_left(link, link->size - 1)) {
            halay_bell_disarm(c->bell);
            break;
        }
        conformance_sleep(link, c->bell, token, -1);
    }
    for (int64_t until = halay_now_us() + 50000; halay_now_us() < until;)
        if (!CHECK(link->ops->progress(link) == HALAY_OK))
            return;
    /* But sending to it is one. */
    struct halay_transfer x = { 0 };
    char byte = 0;
    link->ops->send(link, link->size - 1, 1, &byte, 1, &x);
    enum halay_status status = HALAY_OK;
    while (status == HALAY_OK && !halay_transfer_is_done(&x))
        status = link->ops->progress(link);
    CHECK(status == HALAY_ERR_PEER && link->failed_peer == link->size - 1);
    link->ops->cancel(link, &x);
}

/* Memory that cannot be is an error, and a segment that is full; afterwards all is as before. */
static void job_memory(struct conformance *c, struct halay_log *log)
{
    struct halay_link *link = c->link;
    void *ptr;

    (void)log;
    CHECK(link->memory->ops->alloc(link->memory, SIZE_MAX, &ptr) == HALAY_ERR_NO_MEMORY);
    CHECK(link->memory->ops->alloc(link->memory, (size_t)1 << 50, &ptr) == HALAY_ERR_NO_MEMORY);
    CHECK(link->memory->ops->alloc(link->memory, (size_t)300 << 30, &ptr) == HALAY_ERR_NO_MEMORY);
    CHECK(link->memory->ops->alloc(link->memory, 1 << 20, &ptr) == HALAY_OK);
    memset(ptr, 1, 1 << 20);
    link->memory->ops->free(link->memory, (char *)ptr + 4096); /* not what alloc gave: said, and nothing done */
    link->memory->ops->free(link->memory, ptr);
    CHECK(link->memory->ops->alloc(link->memory, 1 << 20, &ptr) == HALAY_OK);
    CHECK(*(char *)ptr == 0, "what was given back has been given to the system");
    link->memory->ops->free(link->memory, ptr);
}

/* ---- strangers ---- */

/* Connects to every abstract socket of this library that there is, says nothing or rubbish, and holds on. */
static void strangers(const _Atomic int *stop)
{
    int held[200], count = 0;

    while (!atomic_load_explicit(stop, memory_order_acquire)) {
        char line[512], name[128];
        FILE *list = fopen("/proc/net/unix", "re");
        REQUIRE(list);
        while (fgets(line, sizeof line, list)) {
            char *at = strstr(line, "@halay-");
            if (!at || sscanf(at + 1, "%127s", name) != 1)
                continue;
            struct sockaddr_un address = { .sun_family = AF_UNIX };
            memcpy(address.sun_path + 1, name, strlen(name));
            int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            if (fd < 0)
                continue;
            if (connect(fd, (struct sockaddr *)&address,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) == 0 &&
                count % 2)
                (void)!send(fd, "let me in", 9, MSG_NOSIGNAL);
            if (count >= 200)
                close(held[count % 200]);
            held[count++ % 200] = fd;
        }
        fclose(list);
    }
    _exit(0);
}

static void job_open_only(struct conformance *c, struct halay_log *log)
{
    struct halay_transfer out = { 0 }, in = { 0 };
    int n = c->link->size;
    unsigned char a = 1, b = 0;

    (void)log;
    c->link->ops->recv(c->link, (c->link->rank + n - 1) % n, 1, &b, 1, &in);
    c->link->ops->send(c->link, (c->link->rank + 1) % n, 1, &a, 1, &out);
    while (!halay_transfer_is_done(&in))
        if (!CHECK(c->link->ops->progress(c->link) == HALAY_OK))
            return;
    CHECK(b == 1);
}

static void check_strangers(void)
{
    _Atomic int *stop = mmap(NULL, sizeof *stop, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(stop != MAP_FAILED);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (!pid)
        strangers(stop);
    for (int i = 0; i < 10; i++)
        run(&(struct job){ .run = job_open_only, .size = 4, .killed = -1, .is_quiet = 1 });
    atomic_store_explicit(stop, 1, memory_order_release);
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    munmap((void *)stop, sizeof *stop);
}

/* ---- a flood of strangers ---- */

enum { FLOOD = 10000, FLOODERS_MAX = 64, NAME_BYTES = HALAY_LOCAL_NAME_BYTES, LEAST = 100 };

struct flood {
    char name[NAME_BYTES]; /* of rank 0's socket */
    int flooders;
    _Atomic int is_named; /* release, acquire: name */
    _Atomic int is_full;  /* a stranger has found no room, or all have found some */
    _Atomic int connected, ready, stop;
};

/* The test's bootstrap, but for this: when rank 0 has said where its socket is, the other ranks wait until the
 * strangers are there. */
struct flooded_boot {
    struct halay_boot base;
    struct halay_boot *under; /* owned */
    struct flood *flood;      /* borrowed */
    int has_waited;
};

static const char *find_name(const char *mine, size_t bytes)
{
    for (size_t i = 0; i + NAME_BYTES <= bytes; i++)
        if (!memcmp(mine + i, "halay-", 6) && strspn(mine + i + 6, "0123456789abcdef") >= NAME_BYTES - 6)
            return mine + i;
    return NULL;
}

static enum halay_status flooded_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                           int timeout_ms)
{
    struct flooded_boot *self = (struct flooded_boot *)boot;
    const char *name = find_name(mine, bytes);

    if (name && boot->rank == 0 && !self->has_waited) {
        memcpy(self->flood->name, name, NAME_BYTES);
        atomic_store_explicit(&self->flood->is_named, 1, memory_order_release);
    }
    enum halay_status status = self->under->ops->allgather(self->under, mine, bytes, all, timeout_ms);
    if (status == HALAY_OK && all)
        name = find_name(all, (size_t)boot->size * bytes);
    while (name && boot->rank != 0 && !self->has_waited && !atomic_load(&self->flood->is_full))
        sched_yield();
    self->has_waited |= name != NULL;
    return status;
}

static void flooded_destroy(struct halay_boot *boot)
{
    struct flooded_boot *self = (struct flooded_boot *)boot;

    self->under->ops->destroy(self->under);
    free(self);
}

static const struct halay_boot_ops flooded_ops = {
    .name = "flooded",
    .allgather = flooded_allgather,
    .destroy = flooded_destroy,
};

static struct halay_boot *flooded_boot(struct flood *flood, struct halay_boot *under)
{
    struct flooded_boot *self = calloc(1, sizeof *self);

    REQUIRE(self);
    self->base = *under;
    self->base.ops = &flooded_ops;
    self->under = under;
    self->flood = flood;
    return &self->base;
}

/* Connects, and again where there was no room; holds on. */
static void knock(struct flood *flood)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    memcpy(address.sun_path + 1, flood->name, NAME_BYTES);
    int failed;
    while ((failed = connect(fd, (struct sockaddr *)&address, length)) < 0 && errno == EAGAIN &&
           !atomic_load(&flood->stop)) {
        atomic_store(&flood->is_full, 1);
        sched_yield();
    }
    atomic_fetch_add(&flood->connected, !failed);
}

static void be_flooder(struct flood *flood, int count)
{
    while (!atomic_load_explicit(&flood->is_named, memory_order_acquire) && !atomic_load(&flood->stop))
        sched_yield();
    for (int i = 0; i < count; i++)
        knock(flood);
    if (atomic_fetch_add(&flood->ready, 1) + 1 == flood->flooders)
        atomic_store(&flood->is_full, 1);
    while (!atomic_load(&flood->stop))
        sched_yield();
    _exit(0);
}

/* As many strangers as it takes are in the queue of rank 0, and say nothing, while the others want to connect. */
static void check_flood(void)
{
    struct flood *flood = mmap(NULL, sizeof *flood, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[FLOODERS_MAX];
    struct rlimit usual, most;
    int status;

    REQUIRE(flood != MAP_FAILED && !getrlimit(RLIMIT_NOFILE, &usual));
    most = (struct rlimit){ usual.rlim_max, usual.rlim_max };
    int each = most.rlim_max > 3000 ? 2500 : (int)most.rlim_max - 100;
    flood->flooders = (FLOOD + each - 1) / each;
    REQUIRE(flood->flooders <= FLOODERS_MAX && !setrlimit(RLIMIT_NOFILE, &most));
    for (int i = 0; i < flood->flooders; i++) {
        REQUIRE((pids[i] = fork()) >= 0);
        if (!pids[i])
            be_flooder(flood, each);
    }
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &usual));
    run(&(struct job){ .run = job_open_only, .size = 4, .killed = -1, .is_quiet = 1, .flood = flood });
    CHECK(atomic_load(&flood->is_full) && atomic_load(&flood->connected) >= LEAST, "%d strangers were there",
          atomic_load(&flood->connected));
    atomic_store(&flood->stop, 1);
    for (int i = 0; i < flood->flooders; i++)
        REQUIRE(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(flood, sizeof *flood);
}

static void check_jobs(void)
{
    static const int sizes[] = { 1, 3, 5, 2, 4, 7, 8 };
    size_t count = test_is_brief() ? 3 : sizeof sizes / sizeof *sizes;

    for (size_t i = 0; i < count; i++)
        run(&(struct job){ .run = job_run, .size = sizes[i], .killed = -1 });
    run(&(struct job){ .run = job_run, .size = 3, .killed = -1, .without_barrier = 1 });
    run(&(struct job){ .run = job_run, .size = 3, .killed = -1, .polls = 1 });
    run(&(struct job){ .run = job_run, .size = 2, .killed = -1, .polls = 1, .without_barrier = 1 });
    run(&(struct job){ .run = job_death, .size = 2, .killed = 1, .is_quiet = 1 });
    run(&(struct job){ .run = job_death, .size = 5, .killed = 4, .is_quiet = 1 });
    run(&(struct job){ .run = job_death_then_leave, .size = 3, .killed = 2, .is_quiet = 1 });
    run(&(struct job){ .run = job_death_asleep, .size = 3, .killed = 2, .is_quiet = 1 });
    run(&(struct job){ .run = job_leave, .size = 2, .killed = -1, .is_quiet = 1 });
    run(&(struct job){ .run = job_leave, .size = 4, .killed = -1, .is_quiet = 1 });
    run(&(struct job){ .run = job_leave_quietly, .size = 3, .killed = -1, .is_quiet = 1 });
    for (int call = 1; call <= 4; call++)
        run(&(struct job){ .size = 3, .killed = -1, .is_quiet = 1, .short_at = call });
    run(&(struct job){ .run = job_memory, .size = 2, .killed = -1, .is_quiet = 1, .segment_bytes = (size_t)4 << 40 });
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* 64 GiB each are asked for, 3 GiB can be had. */
    run(&(struct job){ .run = job_open_only,
                       .size = 4,
                       .killed = -1,
                       .segment_bytes = (size_t)64 << 30,
                       .address_space = (size_t)6 << 30 });
#endif
}

/* A place of all ranks' segments has addresses that differ in low bits, too. */
static void check_distances(void)
{
    static const size_t wanted[] = { 0, (size_t)4 << 20, (size_t)1 << 30, (size_t)64 << 30 };
    struct halay_log log = { .level = HALAY_LOG_ERROR };

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t bytes = 0;
        CHECK(halay_shm_fit(&log, 2, wanted[i], &bytes) == HALAY_OK);
        CHECK(bytes >= wanted[i] && bytes / HALAY_HUGE_PAGE % 2 == 1 && bytes % HALAY_HUGE_PAGE == 0);
    }
}

int main(int argc, char **argv)
{
    check_distances();
    if (argc < 2 || strcmp(argv[1], "--strangers") != 0)
        check_jobs();
    check_strangers();
    check_flood();
    return test_end();
}
