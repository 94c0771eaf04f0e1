/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the program that is registered: results of every operation from any part of it, with ends of every length,
 * with ranks that have not registered theirs; its contents before, after and without halay_unregister; calls that are
 * refused without any effect.
 */
#include "halay.h"
#include "tests/fusion/random.h"
#include "tests/spawn.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { PAGE = 4096, RANKS = 4, LARGE = 40 * PAGE, STEPS = 150, SKIP = 77 };

static void no_log(void *arg, enum halay_log_level level, const char *line)
{
    if (*(int *)arg && level <= HALAY_LOG_WARNING)
        printf("%s\n", line);
}

static int wants_log = 1;

static enum halay_status job_join(struct halay_context **ctx)
{
    struct halay_options options = { .struct_size = sizeof options, .log = no_log, .log_arg = &wants_log };

    return halay_init(&options, ctx);
}

/* Returns the number of the process's shared mappings of a segment of at most `bytes`. */
static int count_shared(size_t bytes)
{
    unsigned long begin, end;
    char line[512];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "re");

    REQUIRE(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "rw-s") && strstr(line, "/memfd:halay ") && sscanf(line, "%lx-%lx", &begin, &end) == 2 &&
                 end - begin <= bytes;
    fclose(file);
    return count;
}

/* ---- results ---- */

struct part {
    unsigned char *memory; /* of malloc, [LARGE + PAGE] */
    unsigned char *ptr;    /* registered, or not */
    size_t bytes;
    int is_registered;
};

static void fill_memory(struct part *p, int value)
{
    memset(p->memory, value, LARGE + PAGE);
}

/* Ends of every length: as malloc returns them, on a page, and elsewhere. */
static void part_open(struct halay_context *ctx, struct random *random, struct part *p)
{
    static const size_t starts[] = { 16, 64, 0, PAGE - 16, 2000 };
    size_t page = PAGE - (size_t)(uintptr_t)(p->memory = malloc(LARGE + PAGE)) % PAGE;

    REQUIRE(p->memory);
    p->ptr = p->memory + (page + starts[random_below(random, 5)]) % PAGE;
    p->bytes = LARGE - random_below(random, 20) * 16;
    p->is_registered = random_below(random, 4) > 0;
    fill_memory(p, 0x5a);
    if (p->is_registered)
        CHECK(halay_memory_register(ctx, p->ptr, p->bytes) == HALAY_OK);
}

static void part_close(struct halay_context *ctx, struct part *p)
{
    if (p->is_registered)
        CHECK(halay_memory_unregister(ctx, p->ptr) == HALAY_OK);
    free(p->memory);
}

static int32_t value_of(int rank, size_t i)
{
    return (int32_t)(i * 7 + (size_t)rank * 1000);
}

/* Checks that only these elements have changed. */
static void check_rest(const struct part *p, const void *begin, size_t bytes)
{
    const unsigned char *first = begin;
    size_t wrong = 0;

    for (const unsigned char *at = p->memory; at < p->memory + LARGE + PAGE; at++)
        wrong += (at < first || at >= first + bytes) && *at != 0x5a;
    CHECK(!wrong, "%zu bytes beside it have changed", wrong);
}

struct operation {
    enum halay_collective collective;
    size_t count, in_at, out_at; /* elements, and bytes from ptr on */
    int in_place, root, rank, size;
};

static int has_sum(const struct operation *o)
{
    return o->collective != HALAY_REDUCE || o->rank == o->root;
}

static void check_sums(const struct operation *o, const int32_t *out)
{
    size_t first = 0, rows = o->count, wrong = 0;

    if (o->collective == HALAY_REDUCE_SCATTER)
        rows = halay_scatter_rows(o->count, o->size, o->rank, &first);
    for (size_t i = 0; i < rows && has_sum(o); i++) {
        int32_t sum = 0;
        for (int r = 0; r < o->size; r++)
            sum += value_of(r, first + i);
        wrong += out[i] != sum;
    }
    CHECK(!wrong, "collective %d of %zu: %zu are wrong, in place %d", (int)o->collective, o->count, wrong, o->in_place);
}

static void run_one(struct halay_context *ctx, const struct operation *o, struct part *in, struct part *out)
{
    int32_t *from = (int32_t *)(void *)(in->ptr + o->in_at), *to = (int32_t *)(void *)(out->ptr + o->out_at);
    size_t first = 0, rows = o->count;
    enum halay_status status;

    if (o->in_place)
        to = from;
    if (o->collective == HALAY_REDUCE_SCATTER) {
        rows = halay_scatter_rows(o->count, o->size, o->rank, &first);
        to = o->in_place ? from + first : to;
    }
    for (size_t i = 0; i < o->count; i++)
        from[i] = value_of(o->rank, i);
    if (o->collective == HALAY_ALLREDUCE)
        status = halay_allreduce(ctx, NULL, from, to, o->count, HALAY_I32, HALAY_SUM);
    else if (o->collective == HALAY_REDUCE)
        status = halay_reduce(ctx, NULL, from, to, o->count, HALAY_I32, HALAY_SUM, o->root);
    else
        status = halay_reduce_scatter(ctx, NULL, from, to, o->count, 1, HALAY_I32, HALAY_SUM);
    if (!CHECK(status == HALAY_OK, "%s", halay_status_string(status)))
        return;
    check_sums(o, to);
    if (o->in_place)
        check_rest(in, from, o->count * sizeof *from);
    else if (o->collective != HALAY_REDUCE)
        check_rest(out, to, rows * sizeof *to);
}

/* Each rank uses parts of its own, all have the same operations. */
static void run_operations(struct halay_context *ctx, uint64_t seed)
{
    static const enum halay_collective kinds[] = { HALAY_ALLREDUCE, HALAY_ALLREDUCE, HALAY_REDUCE,
                                                   HALAY_REDUCE_SCATTER };
    struct random same = { seed }, own = { seed + 1 + (uint64_t)halay_rank(ctx) };
    struct part in, out;

    for (int step = 0; step < STEPS; step++) {
        struct operation o = { .rank = halay_rank(ctx), .size = halay_size(ctx) };
        part_open(ctx, &own, &in);
        part_open(ctx, &own, &out);
        for (int k = 0; k < 3; k++) {
            o.collective = kinds[random_below(&same, 4)];
            o.in_place = random_below(&same, 2) == 0;
            o.root = (int)random_below(&same, (size_t)o.size);
            o.count = (LARGE / 2 + random_below(&same, LARGE / 4)) / 4;
            o.in_at = random_below(&own, 3) * random_below(&own, LARGE / 32) * 4;
            o.out_at = random_below(&own, 3) * random_below(&own, LARGE / 32) * 4;
            fill_memory(&in, 0x5a);
            fill_memory(&out, 0x5a);
            run_one(ctx, &o, &in, &out);
        }
        if (step % 2)
            fill_memory(&in, 0x33);
        part_close(ctx, &in);
        part_close(ctx, &out);
    }
}

/* A float tensor as in PyTorch, through other operations, too. */
static void run_others(struct halay_context *ctx)
{
    size_t count = 100000;
    float *data = NULL;
    int size = halay_size(ctx), rank = halay_rank(ctx);

    REQUIRE(!posix_memalign((void **)&data, 64, count * sizeof *data));
    CHECK(halay_memory_register(ctx, data, count * sizeof *data) == HALAY_OK);
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < count; i++)
            data[i] = (float)(i % 100) + (float)rank;
        CHECK(halay_allreduce(ctx, "average", NULL, data, count, HALAY_F32, HALAY_AVERAGE) == HALAY_OK);
        CHECK(data[1] == 1 + (float)(size - 1) / 2 && data[count - 1] == data[99]);
        CHECK(halay_broadcast(ctx, "broadcast", data + 5, count - 7, HALAY_F32, size - 1) == HALAY_OK);
        size_t rows = count / (size_t)size;
        CHECK(halay_allgather(ctx, "gather", data + (size_t)rank * rows, rows, 1, HALAY_F32, data, count, NULL) ==
              HALAY_OK);
        CHECK(data[1] == 1 + (float)(size - 1) / 2 && data[99] == data[199]);
    }
    CHECK(halay_memory_unregister(ctx, data) == HALAY_OK);
    free(data);
}

/* ---- its life ---- */

static unsigned char *map_pages(size_t pages)
{
    unsigned char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(at != MAP_FAILED);
    for (size_t i = 0; i < pages * PAGE; i++)
        at[i] = (unsigned char)(i * 7 + i / PAGE);
    return at;
}

static int is_as_mapped(const unsigned char *at, size_t pages)
{
    for (size_t i = 0; i < pages * PAGE; i++)
        if (at[i] != (unsigned char)(i * 7 + i / PAGE))
            return 0;
    return 1;
}

/* Only whole pages are replaced, and all of them are restored. */
static void check_contents(struct halay_context *ctx)
{
    unsigned char *at = map_pages(20);

    for (int i = 0; i < 5; i++) {
        CHECK(count_shared(30 * PAGE) == 0);
        CHECK(halay_memory_register(ctx, at + PAGE - 1, 10 * PAGE) == HALAY_OK);
        CHECK(count_shared(9 * PAGE) == 1 && is_as_mapped(at, 20));
        CHECK(halay_memory_register(ctx, at + 15 * PAGE, 2 * PAGE) == HALAY_OK);
        CHECK(count_shared(9 * PAGE) == 2 && is_as_mapped(at, 20));
        CHECK(halay_memory_unregister(ctx, at + PAGE - 1) == HALAY_OK);
        CHECK(halay_memory_unregister(ctx, at + 15 * PAGE) == HALAY_OK);
        CHECK(count_shared(30 * PAGE) == 0 && is_as_mapped(at, 20));
    }
    REQUIRE(!munmap(at, 20 * PAGE));
}

static void check_refused(struct halay_context *ctx)
{
    unsigned char *at = map_pages(20), *file, *shared;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *ours;

    REQUIRE((file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)) != MAP_FAILED);
    REQUIRE((shared = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    REQUIRE(halay_alloc(ctx, 10 * PAGE, &ours) == HALAY_OK);
    REQUIRE(!munmap(at + 10 * PAGE, PAGE) && !mprotect(at + 15 * PAGE, PAGE, PROT_READ));
    wants_log = 0;
    CHECK(halay_memory_register(NULL, at, PAGE) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_register(ctx, NULL, PAGE) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_register(ctx, at, 0) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_register(ctx, at + 1, PAGE) == HALAY_ERR_UNSUPPORTED, "no whole page");
    CHECK(halay_memory_register(ctx, file, PAGE) == HALAY_ERR_UNSUPPORTED, "a file's");
    CHECK(halay_memory_register(ctx, shared, PAGE) == HALAY_ERR_UNSUPPORTED, "shared");
    CHECK(halay_memory_register(ctx, at + 9 * PAGE, 3 * PAGE) == HALAY_ERR_ARGUMENT, "a hole");
    CHECK(halay_memory_register(ctx, at + 14 * PAGE, 3 * PAGE) == HALAY_ERR_UNSUPPORTED, "partly read-only");
    CHECK(halay_memory_register(ctx, ours, PAGE) == HALAY_ERR_DUPLICATE, "of halay_alloc");
    CHECK(halay_memory_register(ctx, at, 5 * PAGE) == HALAY_OK);
    CHECK(halay_memory_register(ctx, at + 4 * PAGE, 2 * PAGE) == HALAY_ERR_DUPLICATE);
    CHECK(halay_memory_unregister(ctx, at + PAGE) == HALAY_ERR_ARGUMENT);
    CHECK(halay_memory_unregister(ctx, at) == HALAY_OK);
    CHECK(halay_memory_unregister(ctx, at) == HALAY_ERR_ARGUMENT, "once");
    /* Freed before halay_unregister: this is logged, and nothing else is affected. */
    CHECK(halay_memory_register(ctx, at, 5 * PAGE) == HALAY_OK && !munmap(at, 2 * PAGE));
    CHECK(halay_memory_unregister(ctx, at) == HALAY_ERR_ARGUMENT);
    CHECK(at[3 * PAGE + 5] == (unsigned char)((3 * PAGE + 5) * 7 + 3));
    wants_log = 1;
    halay_free(ctx, ours);
    REQUIRE(!munmap(at + 2 * PAGE, 18 * PAGE) && !munmap(file, PAGE) && !munmap(shared, PAGE) && !close(fd));
}

/* Freed without halay_unregister, and allocated again at the same address: this is noticed, and the memory is reduced
 * like private memory. */
static void check_freed(struct halay_context *ctx)
{
    int size = halay_size(ctx);

    for (int all = 0; all < 2; all++) {
        size_t first = all ? 0 : 20, count = 40 * PAGE / sizeof(int32_t);
        unsigned char *at = map_pages(40);
        CHECK(halay_memory_register(ctx, at, 40 * PAGE) == HALAY_OK);
        wants_log = 0;
        REQUIRE(!munmap(at + first * PAGE, (40 - first) * PAGE));
        REQUIRE(mmap(at + first * PAGE, (40 - first) * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
        int32_t *data = (int32_t *)(void *)at;
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            data[i] = value_of(0, i);
        CHECK(halay_allreduce(ctx, "freed", NULL, data, count, HALAY_I32, HALAY_SUM) == HALAY_OK);
        for (size_t i = 0; i < count; i++)
            wrong += data[i] != size * value_of(0, i);
        CHECK(!wrong, "%zu of %zu", wrong, count);
        CHECK(halay_memory_unregister(ctx, at) == HALAY_ERR_ARGUMENT);
        wants_log = 1;
        REQUIRE(!munmap(at, 40 * PAGE));
    }
}

/* Memory that is registered when the context ends is private memory afterwards, and another context may register it. */
static int check_ends(void)
{
    unsigned char *at = map_pages(20);
    struct halay_context *ctx;

    for (int i = 0; i < 3; i++) {
        enum halay_status status = job_join(&ctx);
        if (status == HALAY_ERR_UNSUPPORTED)
            return SKIP;
        REQUIRE(status == HALAY_OK);
        CHECK(halay_memory_register(ctx, at + (size_t)i * 3 * PAGE, 3 * PAGE) == HALAY_OK);
        halay_fini(ctx);
        CHECK(is_as_mapped(at, 20), "%d", i);
    }
    REQUIRE(!munmap(at, 20 * PAGE));
    CHECK(count_shared(SIZE_MAX) == 0);
    return 0;
}

static int be_rank(uint64_t seed)
{
    struct halay_context *ctx;

    if (check_ends() == SKIP) {
        printf("skipped: no shared memory here\n");
        return SKIP;
    }
    REQUIRE(job_join(&ctx) == HALAY_OK);
    check_contents(ctx);
    check_refused(ctx);
    check_freed(ctx);
    run_others(ctx);
    run_operations(ctx, seed);
    halay_fini(ctx);
    return test_failed != 0;
}

static int spawn_all(int n, uint64_t seed)
{
    struct spawn s;
    int result = 0, status;

    spawn_begin(&s, n);
    for (int r = 0; r < n; r++)
        if (!spawn_rank(&s, r))
            exit(be_rank(seed));
    while (spawn_wait(&s, &status) >= 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    spawn_end(&s);
    return result;
}

int main(int argc, char **argv)
{
    uint64_t seed = random_seed(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0);
    REQUIRE(!setenv("HALAY_TRANSPORT", "shm", 1));
    for (int n = 1; n <= RANKS; n++) {
        int result = spawn_all(n, seed + (uint64_t)n);
        if (result == SKIP)
            return SKIP;
        CHECK(result == 0, "%d ranks", n);
    }
    return test_end();
}
