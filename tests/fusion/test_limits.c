/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of a system.
 *
 *   many          more ranks than processors start, reduce, and lose one, whose number each of the others reports.
 *                 Descriptors and memory stay within the limits below.
 *                 TEST_LONG=1 (tools/check -l long): 512 ranks.
 *   descriptors   ranks with 64 each work or, if there are too many ranks, report the number that they need.
 *   memory        allocations of ranks in a control group beyond its limit are refused, and the ranks are not killed.
 */
#include "halay.h"
#include "tests/spawn.h"
#include "tests/test.h"
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { COUNTS_MEMORY = 0 }; /* most of it is the sanitizer's */
#else
enum { COUNTS_MEMORY = 1 };
#endif
enum {
    FEW_RANKS = 24,
    MANY_RANKS = SPAWN_RANKS_MAX,
    FILES_MAX = 10, /* and one for each rank of the host, to detect its death */
    FILES_LIMIT = 64,
    KIB_OF_A_RANK = 2000, /* memory of its own */
    KIB_PER_RANK = 4,     /* and for each other rank */
};

/* Returns the descriptors and memory of this process. Prints those of rank 0. */
static void count_holdings(int rank, int size)
{
    long all, resident = 0, shared = 0, page = sysconf(_SC_PAGESIZE);
    DIR *folder = opendir("/proc/self/fd");
    FILE *file = fopen("/proc/self/statm", "r");
    int files = -4; /* ".", "..", and these two files */

    REQUIRE(folder && file && fscanf(file, "%ld %ld %ld", &all, &resident, &shared) == 3);
    while (readdir(folder))
        files++;
    closedir(folder);
    fclose(file);
    CHECK(files <= FILES_MAX + size, "%d descriptors are open", files);
    long kib = (resident - shared) * page / 1024;
    CHECK(!COUNTS_MEMORY || kib <= KIB_OF_A_RANK + KIB_PER_RANK * size, "%ld KiB", kib);
    if (rank == 0)
        printf("%d ranks: %d descriptors, %ld KiB each\n", size, files, kib);
}

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

/* ---- many ranks ---- */

static int be_one_of_many(void)
{
    const struct halay_options options = { .struct_size = sizeof options, .log = drop_line };
    enum halay_status status = HALAY_OK;
    struct halay_context *ctx;
    char text[200], want[64];

    REQUIRE(halay_init(&options, &ctx) == HALAY_OK);
    int rank = halay_rank(ctx), size = halay_size(ctx), victim = size / 2;
    for (int i = 0; status == HALAY_OK; i++) {
        float one = 1;
        status = halay_allreduce(ctx, "x", NULL, &one, 1, HALAY_F32, HALAY_SUM);
        CHECK(status == HALAY_ERR_PEER || (status == HALAY_OK && one == (float)size), "%s", halay_error_text());
        if (i == 0)
            count_holdings(rank, size);
        if (i == 1 && rank == victim)
            raise(SIGKILL);
    }
    snprintf(want, sizeof want, "rank %d has died", victim);
    CHECK(halay_context_status(ctx, text, sizeof text) == HALAY_ERR_PEER && !strcmp(text, want), "'%s'", text);
    halay_fini(ctx);
    return test_failed != 0;
}

/* Runs in the parent, which serves the store. */
static void close_inherited(int except)
{
    for (int fd = 3; fd < 10 * SPAWN_RANKS_MAX; fd++)
        if (fd != except)
            close(fd);
}

static void run_ranks(int size, int (*be_rank)(void), int victim)
{
    int status, rank, good = 0;
    struct spawn s;

    spawn_begin(&s, size);
    for (int r = 0; r < size; r++)
        if (!spawn_rank(&s, r)) {
            alarm(300);
            test_failed = 0;
            close_inherited(s.secret_fd);
            status = be_rank();
            fflush(stdout);
            _exit(status);
        }
    while ((rank = spawn_wait(&s, &status)) >= 0) {
        int is_good = rank == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0;
        CHECK(is_good, "rank %d of %d: status %d", rank, size, status);
        good += is_good;
    }
    CHECK(good == size, "%d of %d", good, size);
    spawn_end(&s);
}

/* ---- few descriptors ---- */

static char last_line[400];

static void keep_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static int be_one_with_few(void)
{
    const struct rlimit few = { .rlim_cur = FILES_LIMIT, .rlim_max = FILES_LIMIT };
    const struct halay_options options = { .struct_size = sizeof options, .log = keep_line };
    struct halay_context *ctx;
    float one = 1;

    REQUIRE(!setrlimit(RLIMIT_NOFILE, &few));
    enum halay_status status = halay_init(&options, &ctx);
    if (status != HALAY_OK) {
        CHECK(atoi(getenv("HALAY_SIZE")) == FEW_RANKS && status == HALAY_ERR_SYSTEM, "%s", halay_status_string(status));
        CHECK(strstr(last_line, "the limit is 64") || strstr(last_line, "rank 0 cannot share memory"), "'%s'",
              last_line);
        return test_failed != 0;
    }
    CHECK(halay_size(ctx) < FEW_RANKS, "the limit cannot be too low for a test of it");
    CHECK(halay_allreduce(ctx, "x", NULL, &one, 1, HALAY_F32, HALAY_SUM) == HALAY_OK && one == (float)halay_size(ctx));
    halay_fini(ctx);
    return test_failed != 0;
}

/* ---- memory of a control group ---- */

static char group[128]; /* its folder */

static int put_file(const char *name, const char *text)
{
    char path[192];

    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "we");
    int is_good = file && fputs(text, file) >= 0;
    return (!file || !fclose(file)) && is_good;
}

/* Finds the limit file of either version of control groups. */
static int group_make(void)
{
    static const char *const versions[][2] = { { "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
                                               { "/sys/fs/cgroup", "memory.max" } };

    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/halay-test-%d", versions[i][0], (int)getpid());
        if (mkdir(group, 0700) == 0 && put_file(versions[i][1], "256M"))
            return 1;
        rmdir(group);
    }
    return 0;
}

static int be_limited(void)
{
    enum { TOO_MUCH = 400 << 20, LITTLE = 1 << 20 };
    const struct halay_options options = { .struct_size = sizeof options, .log = drop_line };
    struct halay_context *ctx;
    void *data;

    REQUIRE(put_file("cgroup.procs", "0") && halay_init(&options, &ctx) == HALAY_OK);
    enum halay_status status = halay_alloc(ctx, TOO_MUCH, &data);
    CHECK(status == HALAY_ERR_NO_MEMORY, "%s", halay_status_string(status));
    REQUIRE(halay_alloc(ctx, LITTLE, &data) == HALAY_OK);
    memset(data, 0, LITTLE);
    status = halay_allreduce(ctx, "x", NULL, data, LITTLE / sizeof(float), HALAY_F32, HALAY_SUM);
    CHECK(status == HALAY_OK, "%s", halay_error_text());
    halay_free(ctx, data);
    halay_fini(ctx);
    return test_failed != 0;
}

static void check_memory(void)
{
    if (!group_make()) {
        printf("skipped: no control group of memory can be made\n");
        return;
    }
    run_ranks(2, be_limited, -1);
    CHECK(rmdir(group) == 0);
}

int main(void)
{
    check_memory();
    run_ranks(FEW_RANKS / 2, be_one_with_few, -1);
    run_ranks(FEW_RANKS, be_one_with_few, -1);
    run_ranks(FEW_RANKS, be_one_of_many, FEW_RANKS / 2);
    if (getenv("TEST_LONG"))
        run_ranks(MANY_RANKS, be_one_of_many, MANY_RANKS / 2);
    return test_end();
}
