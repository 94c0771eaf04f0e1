/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a world: alone, and not where a launcher's variables tell of others; over the store, several ranks as
 * processes; again after the first; with one rank that cannot, which all learn at once; with settings that are wrong;
 * with a module that is none.
 */
#include "../test.h"
#include "base/clock.h"
#include "base/store/host_ranks.h"
#include "base/store/store.h"
#include "collectives/group/world.h"
#include "start_model.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level, (void)line;
}

static void keep_error(void *arg, enum halay_log_level level, const char *line)
{
    if (level == HALAY_LOG_ERROR)
        snprintf(arg, 1000, "%s", line);
}

/* ---- alone ---- */

static void check_alone(void)
{
    struct halay_world *world;
    void *memory;
    int rank;

    if (!CHECK(halay_world_open(NULL, &world) == HALAY_OK))
        return;
    CHECK(world->rank == 0 && world->size == 1 && world->local_size == 1 && world->cross_size == 1);
    CHECK(world->control == world->data && !strcmp(world->data->ops->name, "shm"));
    CHECK(world->is_homogeneous && halay_world_check_peers(world, &rank) == HALAY_OK);
    CHECK(world->memory->ops->alloc(world->memory, 1000, &memory) == HALAY_OK);
    CHECK(world->memory->ops->locate(world->memory, memory, 1000) != HALAY_PRIVATE);
    halay_world_close(world);
    halay_world_close(NULL);
}

static void check_wrong_settings(void)
{
    struct halay_world_options options = { .transport = "smh", .log_write = drop_line };
    struct halay_world *world;

    CHECK(halay_world_open(&options, &world) == HALAY_ERR_CONFIG);
    options = (struct halay_world_options){ .bootstrap = "magic", .log_write = drop_line };
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_CONFIG);
    options = (struct halay_world_options){ .bootstrap = "store", .log_write = drop_line };
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_CONFIG, "no store was given");
    setenv("HALAY_START_TIMEOUT", "soon", 1);
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_CONFIG);
    unsetenv("HALAY_START_TIMEOUT");
}

/* What is around the ranks of launchers that halay cannot join, and of MPI's where there is no module: none is
 * alone. */
static void check_other_launchers(void)
{
    static const char *const jobs[][3] = {
        { "WORLD_SIZE=4", "RANK=2", "MASTER_ADDR=10.0.0.1" },
        { "HOROVOD_SIZE=4", "HOROVOD_RANK=2" },
        { "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=2" },
        { "JSM_NAMESPACE_SIZE=4", "JSM_NAMESPACE_RANK=2" },
        { "FLUX_JOB_SIZE=4", "FLUX_TASK_RANK=2" },
        { "HALAY_SIZE=4", "HALAY_RANK=2" },
        { "PMIX_RANK=3" },
        { "PALS_RANKID=3" },
    };
    enum { JOBS = sizeof jobs / sizeof *jobs, VARIABLES = sizeof *jobs / sizeof **jobs };

    for (size_t j = 0; j < JOBS; j++) {
        char text[1000] = "", name[VARIABLES][32];
        struct halay_world_options options = { .log_write = keep_error, .log_arg = text };
        struct halay_world *world;
        for (size_t v = 0; v < VARIABLES && jobs[j][v]; v++) {
            size_t length = strcspn(jobs[j][v], "=");
            snprintf(name[v], sizeof *name, "%.*s", (int)length, jobs[j][v]);
            setenv(name[v], jobs[j][v] + length + 1, 1);
        }
        if (CHECK(halay_world_open(&options, &world) == HALAY_ERR_UNSUPPORTED, "%s", jobs[j][0]))
            CHECK(strstr(text, "one of 4 (") && strstr(text, jobs[j][0]) && strstr(text, "halayrun") &&
                      strstr(text, "struct halay_options"),
                  "%s", text);
        else
            halay_world_close(world);
        options.bootstrap = "self";
        if (CHECK(halay_world_open(&options, &world) == HALAY_OK && world->size == 1, "%s: meant", jobs[j][0]))
            halay_world_close(world);
        for (size_t v = 0; v < VARIABLES && jobs[j][v]; v++)
            unsetenv(name[v]);
    }
}

/* Open with a file that is no module where modules are looked for first. */
static enum halay_status open_with_broken_module(const struct halay_world_options *options)
{
    char folder[] = "/tmp/halay-test-XXXXXX", path[64];
    struct halay_world *world;

    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libhalay-ucx.so", folder);
    FILE *file = fopen(path, "w");
    REQUIRE(file && fputs("no module", file) >= 0 && fclose(file) == 0);
    setenv("HALAY_MODULE_PATH", folder, 1);
    enum halay_status status = halay_world_open(options, &world);
    unsetenv("HALAY_MODULE_PATH");
    unlink(path);
    rmdir(folder);
    return status;
}

static void check_broken_module(void)
{
    struct halay_world_options options = { .transport = "ucx", .log_write = drop_line };

    CHECK(open_with_broken_module(&options) == HALAY_ERR_UNSUPPORTED);
}

/* ---- several ---- */

/* That allocation of an int for each rank fails in rank 1; 0: none. */
static size_t failing, seen;
static int is_failing_rank;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (is_failing_rank && count == 3 && bytes == sizeof(int) && ++seen == failing)
        return NULL;
    return __real_calloc(count, bytes);
}

struct job {
    int (*run)(int rank); /* in each rank; nonzero: failed */
    int size;
    int killed; /* or -1 */
    /* The host of each rank, a digit, ascending; the launcher has described them. NULL: it has not. */
    const char *hosts;
    int connections; /* with the store, at most; -1: not counted */
    int is_silent;   /* the launcher does not see that a rank has ended */
};

enum { HOSTS_MAX = 3 };

/* The launcher's files of the ranks of each host. */
static void open_files(const struct job *job, struct halay_log *log, struct halay_host_ranks hosts[HOSTS_MAX])
{
    int block = job->hosts ? (int)strspn(job->hosts, "0") : 0;

    for (int h = 0; h < HOSTS_MAX; h++) {
        const char digit[] = { (char)('0' + h), 0 };
        int first = job->hosts ? (int)strcspn(job->hosts, digit) : job->size;
        hosts[h] = (struct halay_host_ranks){ .fd = -1 };
        if (first < job->size)
            REQUIRE(halay_host_ranks_create(log, first, (int)strspn(job->hosts + first, digit), block, &hosts[h]) ==
                    HALAY_OK);
    }
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int rank_main(const struct job *job, int rank, const char *address, int secret_fd,
                     const struct halay_host_ranks hosts[HOSTS_MAX])
{
    alarm(100);
    set_number("HALAY_RANK", rank);
    set_number("HALAY_SIZE", job->size);
    set_number("HALAY_STORE_SECRET_FD", secret_fd);
    setenv("HALAY_STORE_ADDRESS", address, 1);
    if (job->hosts) {
        const char digit[] = { job->hosts[rank], 0 };
        setenv("HALAY_NODE", digit, 1);
        set_number("HALAY_HOST_RANKS_FD", hosts[*digit - '0'].fd);
        set_number("HALAY_LOCAL_SIZE", (int)strspn(strchr(job->hosts, *digit), digit));
    }
    return job->run(rank);
}

/* Serve the store until all ranks have ended. */
static void serve(struct halay_store_server *server, const struct job *job, const pid_t *pid,
                  const struct halay_host_ranks hosts[HOSTS_MAX])
{
    for (int left = job->size; left;) {
        struct pollfd fd = { .fd = halay_store_server_fd(server), .events = POLLIN };
        poll(&fd, 1, 10);
        CHECK(halay_store_server_progress(server) == HALAY_OK);
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        for (int r = 0; r < job->size && ended > 0; r++) {
            if (pid[r] != ended)
                continue;
            left--;
            for (int h = 0; h < HOSTS_MAX && !job->is_silent; h++)
                halay_host_ranks_ended(&hosts[h], r);
            if (r == job->killed)
                CHECK(WIFSIGNALED(status), "rank %d", r);
            else
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d ended with %#x", r, status);
        }
    }
}

static void run(const struct job *job)
{
    struct halay_log log;
    struct halay_store_server *server;
    struct halay_store_counts counts;
    unsigned char secret[HALAY_SECRET_BYTES]; /* names the ranks' sockets: two of this test may run at once */
    int fd = memfd_create("secret", 0);
    struct halay_host_ranks hosts[HOSTS_MAX];
    pid_t *pid = calloc((size_t)job->size, sizeof *pid);

    REQUIRE(getrandom(secret, sizeof secret, 0) == (ssize_t)sizeof secret);
    REQUIRE(pid && fd >= 0 && write(fd, secret, sizeof secret) == (ssize_t)sizeof secret);
    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(halay_store_server_create(&log, secret, &server) == HALAY_OK);
    open_files(job, &log, hosts);
    fflush(stdout);
    for (int r = 0; r < job->size; r++) {
        REQUIRE((pid[r] = fork()) >= 0);
        if (!pid[r]) {
            int failed = rank_main(job, r, halay_store_server_address(server), fd, hosts);
            fflush(stdout);
            _exit(failed || test_failed);
        }
    }
    serve(server, job, pid, hosts);
    halay_store_server_count(server, &counts);
    if (job->connections >= 0)
        CHECK(counts.connections <= (size_t)job->connections && !counts.keys,
              "%d ranks on hosts %s: the store has seen %zu connections and %zu requests, and keeps %zu keys",
              job->size, job->hosts, counts.connections, counts.requests, counts.keys);
    for (int h = 0; h < HOSTS_MAX; h++)
        halay_host_ranks_close(&hosts[h]);
    halay_store_server_destroy(server);
    halay_log_fini(&log);
    close(fd);
    free(pid);
}

static int exchange_once(struct halay_world *world)
{
    struct halay_link *t = world->data;
    struct halay_transfer out = { 0 }, in = { 0 };
    int mine = world->rank, got = -1, from = (world->rank + world->size - 1) % world->size;

    if (world->size < 2)
        return 1;
    t->ops->recv(t, from, 1, &got, sizeof got, &in);
    t->ops->send(t, (world->rank + 1) % world->size, 1, &mine, sizeof mine, &out);
    while (!halay_transfer_is_done(&in) || !halay_transfer_is_done(&out))
        if (t->ops->progress(t) != HALAY_OK)
            return 0;
    return got == from;
}

static int job_twice(int rank)
{
    for (int i = 0; i < 2; i++) {
        struct halay_world *world;
        if (!CHECK(halay_world_open(NULL, &world) == HALAY_OK))
            return 1;
        CHECK(world->rank == rank && world->local_rank == rank && world->local_size == world->size);
        CHECK(!strcmp(world->boot->ops->name, "store") && world->control);
        CHECK(world->boot->rounds == START_ROUNDS_ONE_HOST - START_ROUNDS_ENGINE, "%u rounds", world->boot->rounds);
        CHECK(exchange_once(world));
        halay_world_close(world);
    }
    return 0;
}

/* The launcher has described the ranks of each host: a rank asks the store only for one of another host. */
static int job_described(int rank)
{
    struct halay_world_options options = { .transport = "tcp" };

    for (int i = 0; i < 3; i++) {
        struct halay_world *world;
        if (!CHECK(halay_world_open(&options, &world) == HALAY_OK, "rank %d", rank))
            return 1;
        halay_world_finish_start(world);
        CHECK(exchange_once(world));
        halay_world_close(world);
    }
    return 0;
}

static int job_described_once(int rank)
{
    struct halay_world_options options = { .transport = "tcp" };
    struct halay_world *world;

    if (!CHECK(halay_world_open(&options, &world) == HALAY_OK, "rank %d", rank))
        return 1;
    halay_world_finish_start(world);
    CHECK(exchange_once(world));
    halay_world_close(world);
    return 0;
}

static int fails_with(enum halay_status status, const char *text)
{
    char said[1000] = "";
    struct halay_world_options options = { .log_write = keep_error, .log_arg = said };
    struct halay_world *world = NULL;

    CHECK(halay_world_open(&options, &world) == status && strstr(said, text), "said '%s' instead of '%s'", said, text);
    halay_world_close(world);
    return 0;
}

/* Rank 6 ends before its start: the others are told at once, not after the time-out. */
static int job_one_ends(int rank)
{
    return rank == 6 ? 0 : fails_with(HALAY_ERR_PEER, "rank 6 has ended during the start");
}

/* The same with the first rank of a host, which is killed. */
static int job_first_is_killed(int rank)
{
    if (rank == 4)
        raise(SIGKILL);
    return fails_with(HALAY_ERR_PEER, "rank 4 has ended during the start");
}

/* And after its children have been told that it accepts them. */
static int job_parent_is_killed(int rank)
{
    struct halay_host_ranks host;
    struct halay_log log;

    if (rank == 4) {
        halay_log_init(&log, HALAY_LOG_ERROR);
        REQUIRE(halay_host_ranks_open(&log, atoi(getenv("HALAY_HOST_RANKS_FD")), 4, 8, &host) == HALAY_OK);
        halay_host_ranks_begin(&host);
        halay_host_ranks_accept(&host);
        raise(SIGKILL);
    }
    return fails_with(HALAY_ERR_PEER, "rank 4 has ended during the start");
}

/* Where even the launcher does not know, the time-out names the first rank of a host. */
static int job_first_is_missing(int rank)
{
    setenv("HALAY_START_TIMEOUT", "2", 1);
    return rank == 4 ? 0 : fails_with(HALAY_ERR_TIMEOUT, "rank 4 has not come");
}

/* The descriptor is another file's. */
static int job_wrong_file(int rank)
{
    (void)rank;
    set_number("HALAY_HOST_RANKS_FD", atoi(getenv("HALAY_STORE_SECRET_FD")));
    return fails_with(HALAY_ERR_SYSTEM, "was it closed on the way from halayrun?");
}

/* The host of each rank, or the ranks' places, find no memory: the others are told. */
static int job_no_memory(int rank)
{
    char said[1000] = "";
    struct halay_world_options options = { .log_write = keep_error, .log_arg = said };
    struct halay_world *world = NULL;

    is_failing_rank = rank == 1;
    enum halay_status status = halay_world_open(&options, &world);
    CHECK(status == HALAY_ERR_NO_MEMORY, "allocation %zu, rank %d: %s: %s", failing, rank, halay_status_string(status),
          said);
    CHECK(rank != 1 || seen >= failing);
    halay_world_close(world);
    return 0;
}

/* Two hosts of two ranks each. */
static int job_two_hosts(int rank)
{
    struct halay_world_options options = { .transport = "tcp" };
    struct halay_world *world;

    setenv("HALAY_NODE", rank < 2 ? "a" : "b", 1);
    if (!CHECK(halay_world_open(&options, &world) == HALAY_OK))
        return 1;
    CHECK(world->cross_size == 2 && world->local_size == 2 && world->node);
    CHECK(world->boot->rounds == START_ROUNDS_HOSTS - START_ROUNDS_ENGINE, "%u rounds", world->boot->rounds);
    CHECK(exchange_once(world));
    halay_world_close(world);
    return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

/* One rank has no room for the segments: nobody waits for it, all get its status. */
static int job_one_cannot(int rank)
{
    struct halay_world_options options = { .log_write = drop_line };
    struct halay_world *world;

    if (rank == 1) {
        struct rlimit limit = { (size_t)150 << 20, (size_t)150 << 20 };
        REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    }
    setenv("HALAY_START_TIMEOUT", "90", 1);
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_NO_MEMORY);
    return 0;
}

/* The last line at the level of errors. */
/* One rank lacks the transport that all want: the others' logs say at once which, as an error. */
static int job_one_lacks(int rank)
{
    char text[1000] = "", folder[1000];
    struct halay_world_options options = { .transport = "ucx", .log_write = keep_error, .log_arg = text };
    struct halay_world *world;
    const char *top = getenv("top_builddir");

    setenv("HALAY_START_TIMEOUT", "90", 1);
    if (rank == 1) {
        CHECK(open_with_broken_module(&options) == HALAY_ERR_UNSUPPORTED);
        CHECK(strstr(text, "cannot load module"), "%s", text);
        return 0;
    }
    snprintf(folder, sizeof folder, "%s/.libs", top ? top : ".");
    setenv("HALAY_MODULE_PATH", folder, 1);
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_UNSUPPORTED);
    /* Where UCX was not there to be built with, no rank has it. */
    CHECK(strstr(text, "rank 1 cannot continue over ucx") || strstr(text, "module 'ucx' not found"), "%s", text);
    return 0;
}

/* One does not come: the others say so in time. */
static int job_one_is_missing(int rank)
{
    struct halay_world_options options = { .log_write = drop_line };
    struct halay_world *world;

    if (rank == 1)
        return 0;
    setenv("HALAY_START_TIMEOUT", "1", 1);
    CHECK(halay_world_open(&options, &world) == HALAY_ERR_TIMEOUT);
    return 0;
}

static int job_death(int rank)
{
    struct halay_world_options options = { .log_write = drop_line };
    struct halay_world *world;
    int dead = -1;

    if (!CHECK(halay_world_open(&options, &world) == HALAY_OK))
        return 1;
    if (rank == 2)
        raise(SIGKILL);
    while (halay_world_check_peers(world, &dead) == HALAY_OK)
        poll(NULL, 0, 1);
    CHECK(dead == 2);
    halay_world_close(world);
    return 0;
}

int main(void)
{
    alarm(300);
    check_alone();
    check_wrong_settings();
    check_other_launchers();
    check_broken_module();
    run(&(struct job){ job_described_once, 4, -1, "0000", 0, 0 });
    run(&(struct job){ job_described_once, 8, -1, "00001111", 2, 0 });
    run(&(struct job){ job_described, 8, -1, "00001111", -1, 0 });
    run(&(struct job){ job_described, 8, -1, "00011111", -1, 0 });
    run(&(struct job){ job_described, 9, -1, "000000112", -1, 0 });
    run(&(struct job){ job_one_ends, 8, -1, "00001111", -1, 0 });
    run(&(struct job){ job_first_is_killed, 8, 4, "00001111", -1, 0 });
    run(&(struct job){ job_parent_is_killed, 8, 4, "00001111", -1, 1 });
    run(&(struct job){ job_first_is_missing, 8, -1, "00001111", -1, 1 });
    run(&(struct job){ job_wrong_file, 1, -1, "0", -1, 0 });
    run(&(struct job){ job_twice, 1, -1, NULL, -1, 0 });
    run(&(struct job){ job_twice, 3, -1, NULL, -1, 0 });
    run(&(struct job){ job_two_hosts, 4, -1, NULL, -1, 0 });
    if (!IS_SANITIZED) /* a sanitizer needs its address space */
        run(&(struct job){ job_one_cannot, 3, -1, NULL, -1, 0 });
    for (failing = 1; failing <= 6; failing++)
        run(&(struct job){ job_no_memory, 3, -1, NULL, -1, 0 });
    run(&(struct job){ job_one_lacks, 2, -1, NULL, -1, 0 });
    run(&(struct job){ job_one_is_missing, 3, -1, NULL, -1, 0 });
    run(&(struct job){ job_death, 3, 2, NULL, -1, 0 });
    return test_end();
}
