/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: overflow is refused and leaves the result alone; blocks are aligned; a list
 * grows by doubling; a region frees all of its own; a segment cannot shrink, grow or lose
 * its seals; what is no sealed segment, or is shorter than announced, is not mapped; two mappings are one memory.
 */
#include "base/memory.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void keep_quiet(void *arg, enum halay_log_level level, const char *line)
{
    (void)level;
    (void)line;
    ++*(int *)arg;
}

static void check_sizes(void)
{
    size_t value = 7;

    CHECK(!halay_mul_overflows(3, 5, &value) && value == 15);
    CHECK(halay_mul_overflows(SIZE_MAX / 2 + 1, 2, &value) && value == 15);
    CHECK(!halay_mul_overflows(SIZE_MAX, 1, &value) && value == SIZE_MAX);
    CHECK(!halay_add_overflows(3, 5, &value) && value == 8);
    CHECK(halay_add_overflows(SIZE_MAX, 1, &value) && value == 8);
    CHECK(halay_round_up(0, 64) == 0 && halay_round_up(1, 64) == 64 && halay_round_up(64, 64) == 64);
}

static void check_blocks(void)
{
    static const size_t alignments[] = { 1, 8, 64, 4096, 1 << 21 };

    for (size_t a = 0; a < sizeof alignments / sizeof *alignments; a++)
        for (size_t bytes = 0; bytes < 3; bytes++) {
            char *block = halay_aligned_alloc(alignments[a], bytes);
            REQUIRE(block);
            CHECK((uintptr_t)block % alignments[a] == 0, "%zu", alignments[a]);
            *block = 1;
            free(block);
        }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* their allocators abort */
    volatile size_t all = PTRDIFF_MAX;                              /* volatile: the compiler would warn of it */
    CHECK(halay_aligned_alloc(64, all) == NULL);
#endif
}

static void check_list(void)
{
    int *list = NULL;
    size_t size = 0, wide = SIZE_MAX / 4;

    for (int i = 0; i < 100; i++) {
        REQUIRE(!halay_list_grow(&list, (size_t)i, &size, sizeof *list));
        list[i] = i;
    }
    CHECK(size == 128 && list[0] == 0 && list[99] == 99);
    const int *before = list;
    CHECK(halay_list_grow(&list, wide, &wide, sizeof *list) == HALAY_ERR_NO_MEMORY && list == before);
    free(list);
}

static void check_segment(struct halay_log *log)
{
    int fd = -1;
    void *a = NULL, *b = NULL;
    enum { BYTES = 3 * HALAY_PAGE };

    REQUIRE(halay_segment_create(log, "halay-test", BYTES, &fd) == HALAY_OK);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(ftruncate(fd, HALAY_PAGE) < 0 && ftruncate(fd, 2 * BYTES) < 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    REQUIRE(halay_segment_map(log, fd, BYTES, &a) == HALAY_OK &&
            halay_segment_map(log, fd, HALAY_PAGE, &b) == HALAY_OK);
    CHECK(a != b);
    for (size_t i = 0; i < BYTES; i++)
        if (((char *)a)[i])
            CHECK(0, "byte %zu is not zero", i);
    strcpy(a, "here");
    CHECK(!strcmp(b, "here"));
    halay_segment_unmap(b, HALAY_PAGE);
    halay_segment_unmap(a, BYTES);
    halay_segment_unmap(NULL, 1);
    void *kept = a;
    CHECK(halay_segment_map(log, fd, BYTES + 1, &a) == HALAY_ERR_FORMAT && a == kept);
    CHECK(halay_segment_map(log, fd, SIZE_MAX, &a) == HALAY_ERR_FORMAT);
    CHECK(halay_segment_map(log, fd, 0, &a) == HALAY_ERR_ARGUMENT);
    close(fd);
    CHECK(halay_segment_map(log, fd, BYTES, &a) == HALAY_ERR_ARGUMENT);
    CHECK(halay_segment_create(log, "halay-test", SIZE_MAX, &fd) == HALAY_ERR_ARGUMENT);
    /* Address space, not memory: far more than this machine has. */
    REQUIRE(halay_segment_create(log, "halay-test", (size_t)1 << 42, &fd) == HALAY_OK);
    close(fd);
}

/* A large segment lies so that huge pages can serve, and asking for them changes nothing that can be seen. */
static void check_huge(struct halay_log *log)
{
    const size_t bytes = 3 * HALAY_HUGE_PAGE, step = HALAY_PAGE / sizeof(size_t), words = bytes / sizeof(size_t);
    void *a = NULL, *b = NULL;
    int fd = -1;

    REQUIRE(halay_segment_create(log, "halay-test", bytes, &fd) == HALAY_OK);
    REQUIRE(halay_segment_map(log, fd, bytes, &a) == HALAY_OK && halay_segment_map(log, fd, bytes, &b) == HALAY_OK);
    CHECK((uintptr_t)a % HALAY_HUGE_PAGE == 0 && (uintptr_t)b % HALAY_HUGE_PAGE == 0, "%p %p", a, b);
    size_t *written = a, *read = b;
    for (size_t i = 0; i < words; i += step)
        written[i] = i + 1;
    halay_segment_wish_huge((char *)a + 1, bytes - 1);
    halay_segment_wish_huge(a, HALAY_HUGE_PAGE - 1);
    halay_segment_wish_huge(a, 0);
    for (size_t i = 0; i < words; i += step)
        if (written[i] != i + 1 || read[i] != i + 1)
            CHECK(0, "word %zu has changed", i);
    halay_segment_unmap(b, bytes);
    halay_segment_unmap(a, bytes);
    close(fd);
}

static void check_strangers(struct halay_log *log)
{
    void *base = NULL;
    char name[] = "/tmp/halay-test-memory.XXXXXX";
    int file = mkstemp(name), pipes[2], plain = memfd_create("halay-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    REQUIRE(file >= 0 && plain >= 0 && !pipe(pipes));
    REQUIRE(!unlink(name) && !ftruncate(file, HALAY_PAGE) && !ftruncate(plain, HALAY_PAGE));
    CHECK(halay_segment_map(log, file, HALAY_PAGE, &base) == HALAY_ERR_FORMAT, "ordinary file");
    CHECK(halay_segment_map(log, pipes[0], HALAY_PAGE, &base) == HALAY_ERR_FORMAT, "pipe");
    CHECK(halay_segment_map(log, plain, HALAY_PAGE, &base) == HALAY_ERR_FORMAT, "not sealed");
    REQUIRE(!fcntl(plain, F_ADD_SEALS, F_SEAL_GROW));
    CHECK(halay_segment_map(log, plain, HALAY_PAGE, &base) == HALAY_ERR_FORMAT, "sealed against growing only");
    CHECK(halay_segment_map(log, -1, HALAY_PAGE, &base) == HALAY_ERR_ARGUMENT, "no descriptor");
    CHECK(base == NULL);
    close(file);
    close(plain);
    close(pipes[0]);
    close(pipes[1]);
}

/* Blocks of a region are zeroed and apart; one that cannot be makes the region failed until it ends. */
static void check_region(void)
{
    struct halay_region region = { 0 };
    char *blocks[3];

    for (size_t i = 0; i < 3; i++) {
        blocks[i] = halay_region_alloc(&region, i, 24);
        REQUIRE(blocks[i] && (uintptr_t)blocks[i] % sizeof(double) == 0);
        for (size_t k = 0; k < 24 * i; k++)
            CHECK(!blocks[i][k]);
        memset(blocks[i], 1, 24 * i);
    }
    CHECK(!region.failed && blocks[1][23] == 1 && blocks[2][0] == 1);
    CHECK(!halay_region_alloc(&region, SIZE_MAX / 2, 4) && region.failed);
    CHECK(halay_region_alloc(&region, 1, 1) && region.failed);
    halay_region_fini(&region);
    CHECK(!region.failed && !region.blocks);
    halay_region_fini(&region);
}

/* Every place in a page, sizes about a piece's and a page's. */
static void check_copy(void)
{
    static unsigned char from[3 * HALAY_PAGE], to[4 * HALAY_PAGE];
    const size_t sizes[] = { 0, 1, 2047, 2048, 2049, 4095, 4096, 4097, 6145, 8192 };

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t shift = 0; shift < 80; shift++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(to, 0, sizeof to);
            halay_copy(to + 1 + shift, from + 16, sizes[i]);
            CHECK(!to[shift] && !to[1 + shift + sizes[i]] && !memcmp(to + 1 + shift, from + 16, sizes[i]),
                  "%zu bytes, %zu after", sizes[i], shift);
        }
}

int main(void)
{
    struct halay_log log;
    int lines = 0;

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = keep_quiet;
    log.arg = &lines;
    check_sizes();
    check_copy();
    check_blocks();
    check_list();
    check_region();
    check_segment(&log);
    CHECK(lines == 5, "one line for each fault, %d", lines);
    check_huge(&log);
    check_strangers(&log);
    CHECK(lines == 10, "one line for each fault, %d", lines);
    halay_log_fini(&log);
    return test_end();
}
