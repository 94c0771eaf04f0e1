/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: rings in memory and in files, that wrap, that several threads write while one reads, that outlive a process
 * that is killed, and files that are damaged; names that are too long; paths of ranks.
 */
#include "base/record.h"
#include "tests/test.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 3, EACH = 20000 };

static char folder[] = "/tmp/halay-record.XXXXXX", path[64];
static struct halay_log quiet;

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static struct halay_record numbered(uint64_t n)
{
    return (struct halay_record){
        .kind = HALAY_RECORD_SUBMITTED,
        .time_ns = (int64_t)n,
        .ordinal = n,
        .bytes = 3 * n,
        .hash = ~n,
        .count = 0x10000u + (uint32_t)n /* a bucket may have more tensors than 16 bits count */
    };
}

static int is_numbered(const struct halay_record *r)
{
    return r->time_ns == (int64_t)r->ordinal && r->bytes == 3 * r->ordinal && r->hash == ~r->ordinal &&
           r->count == 0x10000u + (uint32_t)r->ordinal;
}

/* Gauges by name, as many as there is room for; a damaged list is none. */
static void check_meters(struct halay_meters *meters)
{
    char name[] = "gauge-00";
    double value = 0;

    CHECK(!halay_meters_gauge(meters, 0, &value));
    CHECK(!halay_meters_set_gauge(meters, "", 1) && !halay_meters_set_gauge(meters, "a\"b", 1));
    CHECK(!halay_meters_set_gauge(meters, "a-name-of-forty-eight-letters-which-is-one-too-x", 1));
    CHECK(halay_meters_set_gauge(meters, "loss", 2) && halay_meters_set_gauge(meters, "loss", -0.25));
    CHECK(!strcmp(halay_meters_gauge(meters, 0, &value), "loss") && value == -0.25);
    for (int i = 1; i < HALAY_GAUGES; i++) {
        name[6] = (char)('0' + i / 10);
        name[7] = (char)('0' + i % 10);
        CHECK(halay_meters_set_gauge(meters, name, i));
    }
    CHECK(!halay_meters_set_gauge(meters, "one-more", 1) && halay_meters_set_gauge(meters, name, 7));
    CHECK(!strcmp(halay_meters_gauge(meters, HALAY_GAUGES - 1, &value), "gauge-31") && value == 7);
    CHECK(!halay_meters_gauge(meters, HALAY_GAUGES, &value));
    meters->gauges[1].name[0] = '\n';
    CHECK(!halay_meters_gauge(meters, 1, &value));
    meters->gauge_count = HALAY_GAUGES + 1;
    CHECK(!halay_meters_gauge(meters, 0, &value));
    meters->gauge_count = 0;
}

static void check_wrap(const char *file)
{
    struct halay_ring *ring;
    struct halay_record r;

    REQUIRE(halay_ring_create(NULL, file, 100 * sizeof r, 2, 5, &ring) == HALAY_OK);
    const struct halay_ring_head *head = halay_ring_head(ring);
    CHECK(head->rank == 2 && head->size == 5 && head->capacity == 100 && head->pid == getpid() && *head->boot_id);
    CHECK(halay_ring_begun(ring) == 0 && !halay_ring_get(ring, 1, &r));
    for (uint64_t n = 1; n <= 250; n++) {
        r = numbered(n);
        halay_ring_add(ring, &r);
    }
    CHECK(halay_ring_begun(ring) == 250);
    check_meters(halay_ring_meters(ring));
    for (uint64_t n = 1; n <= 251; n++) {
        int there = halay_ring_get(ring, n, &r);
        CHECK(there == (n > 150 && n <= 250) && (!there || (r.number == n && r.ordinal == n && is_numbered(&r))), "%d",
              (int)n);
    }
    halay_ring_destroy(ring);
}

/* ---- several threads ---- */

static struct halay_ring *shared;
static _Atomic int writing;

static void *write_many(void *arg)
{
    for (uint64_t n = 1; n <= EACH; n++) {
        struct halay_record r = numbered(n);
        r.op = *(unsigned char *)arg;
        halay_ring_add(shared, &r);
    }
    writing--;
    return NULL;
}

/* In a small ring writers meet in the same place all the time. */
static void check_threads(size_t bytes)
{
    static unsigned char who[WRITERS] = { 0, 1, 2 };
    pthread_t threads[WRITERS];
    struct halay_record r;
    uint64_t seen[WRITERS] = { 0 }, got = 0;
    int whole = 1, ordered = 1;

    writing = WRITERS;
    REQUIRE(halay_ring_create(NULL, NULL, bytes, 0, 1, &shared) == HALAY_OK);
    uint64_t capacity = halay_ring_head(shared)->capacity;
    for (int i = 0; i < WRITERS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, write_many, &who[i]));
    for (uint64_t n = 1; writing || n <= halay_ring_begun(shared);) {
        uint64_t begun = halay_ring_begun(shared);
        if (n > begun)
            continue;
        if (begun - n >= capacity)
            n = begun - capacity + 1;
        if (halay_ring_get(shared, n, &r)) {
            whole &= is_numbered(&r) && r.number == n && r.op < WRITERS;
            ordered &= r.op < WRITERS && r.ordinal > seen[r.op];
            seen[r.op % WRITERS] = r.ordinal;
            got++;
            n++;
        } else if (begun - n >= capacity / 2 || !writing) {
            n++; /* overwritten, or never */
        }
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(whole && ordered && got > 0 && halay_ring_begun(shared) == WRITERS * EACH);
    halay_ring_destroy(shared);
}

/* ---- files ---- */

static void write_bytes(long at, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "r+e");

    REQUIRE(file && !fseek(file, at, SEEK_SET) && fwrite(bytes, 1, count, file) == count && !fclose(file));
}

/* What a place's number says while a writer that was held up has it, and after a faster one was there. */
static void check_held_up(uint64_t in_place)
{
    struct halay_ring *ring;
    struct halay_record r;

    REQUIRE(halay_ring_create(NULL, path, 64 * sizeof r, 0, 1, &ring) == HALAY_OK);
    for (uint64_t n = 1; n <= 64; n++) {
        r = numbered(n);
        halay_ring_add(ring, &r);
    }
    write_bytes(HALAY_RING_HEAD + 9 * (long)sizeof r, &in_place, sizeof in_place);
    for (uint64_t n = 65; n <= 128; n++) {
        r = numbered(n);
        halay_ring_add(ring, &r);
        CHECK(halay_ring_get(ring, n, &r) == (n != 74) && (n == 74 || is_numbered(&r)), "%d", (int)n);
    }
    halay_ring_destroy(ring);
    FILE *file = fopen(path, "re");
    REQUIRE(file && !fseek(file, HALAY_RING_HEAD + 9 * (long)sizeof r, SEEK_SET));
    CHECK(fread(&r, sizeof r, 1, file) == 1 && r.number == in_place && r.ordinal == 10, "it is still the other's");
    REQUIRE(!fclose(file) && !unlink(path));
}

static void check_killed(void)
{
    struct halay_ring *ring;
    struct halay_record r;
    int status;

    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (!pid) {
        REQUIRE(halay_ring_create(NULL, path, 1 << 16, 1, 2, &ring) == HALAY_OK);
        for (uint64_t n = 1; n <= 10; n++) {
            r = numbered(n);
            halay_ring_add(ring, &r);
        }
        raise(SIGKILL);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    if (!CHECK(halay_ring_open(NULL, path, &ring) == HALAY_OK))
        return;
    CHECK(halay_ring_begun(ring) == 10 && halay_ring_head(ring)->rank == 1 && halay_ring_head(ring)->pid == pid);
    for (uint64_t n = 1; n <= 10; n++)
        CHECK(halay_ring_get(ring, n, &r) && is_numbered(&r) && r.ordinal == n);
    halay_ring_destroy(ring);
}

static void check_damage(void)
{
    static const struct {
        long at;
        uint32_t value;
    } damages[] = { { 0, 1 }, { 8, 99 }, { 12, 64 }, { 16, 0 }, { 20, 7 }, { 24, 5 }, { 28, 0 } };
    struct halay_ring *ring;

    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        REQUIRE(halay_ring_create(NULL, path, 1 << 16, 1, 2, &ring) == HALAY_OK);
        halay_ring_destroy(ring);
        write_bytes(damages[i].at, &damages[i].value, 4);
        CHECK(halay_ring_open(&quiet, path, &ring) == HALAY_ERR_FORMAT, "%d", (int)i);
    }
    /* A record of a kind that there is none, or with a name beyond its end, is not there. */
    REQUIRE(halay_ring_create(NULL, path, 1 << 16, 0, 1, &ring) == HALAY_OK);
    struct halay_record r = numbered(1);
    for (int i = 0; i < 3; i++)
        halay_ring_add(ring, &r);
    halay_ring_destroy(ring);
    write_bytes(HALAY_RING_HEAD + (long)offsetof(struct halay_record, kind), "\xff", 1);
    write_bytes(HALAY_RING_HEAD + (long)sizeof r + (long)offsetof(struct halay_record, name_length), "\xff", 1);
    REQUIRE(halay_ring_open(NULL, path, &ring) == HALAY_OK);
    CHECK(!halay_ring_get(ring, 1, &r) && !halay_ring_get(ring, 2, &r) && halay_ring_get(ring, 3, &r));
    halay_ring_destroy(ring);
    REQUIRE(!truncate(path, HALAY_RING_HEAD));
    CHECK(halay_ring_open(&quiet, path, &ring) == HALAY_ERR_FORMAT);
    CHECK(halay_ring_open(&quiet, folder, &ring) == HALAY_ERR_FORMAT);
    REQUIRE(!unlink(path));
    CHECK(halay_ring_open(&quiet, path, &ring) == HALAY_ERR_SYSTEM);
    CHECK(halay_ring_create(&quiet, "/nowhere/at/all", 1 << 16, 0, 1, &ring) == HALAY_ERR_SYSTEM);
    CHECK(halay_ring_create(&quiet, folder, 1 << 16, 0, 1, &ring) == HALAY_ERR_SYSTEM, "a folder is not replaced");
    CHECK(halay_ring_create(&quiet, NULL, (size_t)-1, 0, 1, &ring) == HALAY_ERR_SYSTEM);
}

/* A limit of the process replaces a full file system: the calls fail alike. */
static struct halay_ring *create_within(size_t bytes)
{
    struct halay_ring *ring = NULL;
    struct rlimit before, limit;

    REQUIRE(!getrlimit(RLIMIT_FSIZE, &before) && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    limit = (struct rlimit){ bytes, before.rlim_max };
    REQUIRE(!setrlimit(RLIMIT_FSIZE, &limit));
    CHECK(halay_ring_create(&quiet, path, 1 << 20, 0, 1, &ring) == HALAY_OK);
    REQUIRE(!setrlimit(RLIMIT_FSIZE, &before));
    return ring;
}

/* No job ends because there is no room for its records. */
static void check_room(void)
{
    struct halay_ring *ring = create_within(HALAY_RING_HEAD + 300 * sizeof(struct halay_record));

    REQUIRE(ring);
    uint64_t capacity = halay_ring_head(ring)->capacity;
    CHECK(capacity >= 64 && capacity <= 300, "%d", (int)capacity);
    for (uint64_t i = 1; i <= 2 * capacity; i++) {
        struct halay_record r = numbered(i);
        halay_ring_add(ring, &r);
    }
    halay_ring_destroy(ring);
    REQUIRE(halay_ring_open(NULL, path, &ring) == HALAY_OK);
    CHECK(halay_ring_head(ring)->capacity == capacity && halay_ring_begun(ring) == 2 * capacity);
    halay_ring_destroy(ring);
    CHECK(!create_within(HALAY_RING_HEAD));
    CHECK(access(path, F_OK) < 0);
}

/* ---- names ---- */

static void check_names(void)
{
    struct halay_record r;
    char name[300];

    memset(name, 'x', sizeof name);
    halay_record_set_name(&r, "weight", 6);
    CHECK(r.name_length == 6 && !memcmp(r.name, "weight", 6) && !r.name[6]);
    halay_record_set_name(&r, name, HALAY_RECORD_NAME);
    CHECK(r.name_length == HALAY_RECORD_NAME && !memchr(r.name, '.', HALAY_RECORD_NAME));
    memcpy(name, "begin", 5);
    memcpy(name + 97, "end", 3);
    halay_record_set_name(&r, name, 100);
    CHECK(r.name_length == HALAY_RECORD_NAME && !memcmp(r.name, "begin", 5) &&
          !memcmp(r.name + r.name_length - 3, "end", 3) && !memcmp(r.name + HALAY_RECORD_NAME / 2 - 3, "x..x", 4));
    /* Characters of three bytes are never cut. */
    for (size_t i = 0; i < 99; i += 3)
        memcpy(name + i, "\xe2\x82\xac", 3);
    for (size_t skip = 0; skip < 3; skip++) {
        memset(name + 96, 'y', skip);
        halay_record_set_name(&r, name, 96 + skip);
        size_t i = 0, dots = 0;
        while (i < r.name_length)
            if ((unsigned char)r.name[i] == 0xe2 && i + 3 <= r.name_length && !memcmp(r.name + i, "\xe2\x82\xac", 3)) {
                i += 3;
            } else {
                CHECK(r.name[i] == '.' || r.name[i] == 'y', "byte %d", (int)i);
                dots += r.name[i++] == '.';
            }
        CHECK(dots == 2 && r.name_length <= HALAY_RECORD_NAME && r.name_length > HALAY_RECORD_NAME - 6);
    }
}

static void check_parts(void)
{
    struct halay_record r;
    char text[200];

    CHECK(halay_record_set_part(&r, "short", 5) == 5 && r.name_length == 5 && !memcmp(r.name, "short", 6));
    CHECK(halay_record_set_part(&r, "", 0) == 0 && r.name_length == 0);
    for (size_t i = 0; i < 99; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    CHECK(halay_record_set_part(&r, text, 99) == 48 && halay_record_set_part(&r, text + 48, 48) == 48);
    text[0] = 'x';
    CHECK(halay_record_set_part(&r, text + 2, 97) == 49 && r.name_length == 49, "whole characters");
    memset(text, 0x80, sizeof text);
    CHECK(halay_record_set_part(&r, text, sizeof text) == HALAY_RECORD_NAME, "no character begins there");
}

static void check_paths(void)
{
    static const char *const cases[][2] = { { "t.json", "t.3.json" },          { "/a.b/t", "/a.b/t.3" },
                                            { "/a/%r/t.json", "/a/3/t.json" }, { "t%r", "t3" },
                                            { ".hidden", ".hidden.3" },        { "a/.hidden", "a/.hidden.3" },
                                            { "t.tar.gz", "t.tar.3.gz" },      { "t", "t.3" } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = halay_rank_path(cases[i][0], 3, 1);
        CHECK(got && !strcmp(got, cases[i][1]), "'%s' gives '%s'", cases[i][0], got ? got : "nothing");
        free(got);
    }
    char *got = halay_rank_path("/a/t.json", 3, 12);
    CHECK(got && !strcmp(got, "/a/t.3-generation12.json"), "'%s'", got ? got : "nothing");
    free(got);
}

int main(void)
{
    halay_log_init(&quiet, HALAY_LOG_ERROR);
    quiet.write = drop_line;
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ring", folder);
    check_wrap(NULL);
    check_wrap(path);
    check_threads(1 << 20);
    check_threads(1);
    check_held_up(UINT64_MAX);
    check_held_up(10 + 5 * 64);
    check_killed();
    check_damage();
    check_room();
    check_names();
    check_parts();
    check_paths();
    REQUIRE(!rmdir(folder));
    halay_log_fini(&quiet);
    return test_end();
}
