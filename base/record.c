/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: the ring, memory that several threads write and any process reads.
 *
 * A writer takes the next number, which determines the slot, marks the slot as its own, writes the words and then the
 * number. If the slot is another writer's or has a newer record, because one of the two was delayed while others filled
 * the whole ring, it drops its record: no thread waits and no two records mix. A reader loads the number, the words,
 * and the number again: if both are the one that it wants, the words belong together. All are atomic words; each store
 * of a word is a release and each load an acquire, so that none passes the number before it. The records of a process
 * that is killed stay: the kernel keeps the pages of a shared mapping.
 *
 * Cleanup: reverse-order labels.
 */
#include "base/record.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/parse.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6472636579616c68) /* "hlayecrd" */
#define WRITING UINT64_MAX                 /* number of a slot while a writer has it */
enum { FORMAT_VERSION = 7, CAPACITY_MIN = 64, BEGUN_WORD = 4, PLANS_WORD = 20 };
_Static_assert(sizeof(struct halay_ring_head) <= HALAY_RING_HEAD, "the head fits");
_Static_assert(sizeof(struct halay_ring_head) <= HALAY_RING_METERS, "the meters follow it");
_Static_assert(HALAY_RING_METERS + sizeof(struct halay_meters) <= HALAY_RING_HEAD, "and end before the records");
_Static_assert(offsetof(struct halay_ring_head, begun) == 8 * BEGUN_WORD, "begun is where the writers count");
_Static_assert(offsetof(struct halay_ring_head, plans) == 8 * PLANS_WORD, "plans is where the driver stores it");

struct halay_ring {
    struct halay_ring_head head; /* a copy */
    _Atomic uint64_t *words;     /* owned: the mapping, head and records */
    size_t bytes;
};

static _Atomic uint64_t *record_slot(const struct halay_ring *ring, uint64_t number)
{
    return ring->words + HALAY_RING_HEAD / 8 + (number - 1) % ring->head.capacity * HALAY_RECORD_WORDS;
}

/* ---- adding and reading ---- */

void halay_ring_add(struct halay_ring *ring, const struct halay_record *record)
{
    uint64_t number = 1 + atomic_fetch_add_explicit(&ring->words[BEGUN_WORD], 1, memory_order_relaxed);
    uint64_t words[HALAY_RECORD_WORDS];
    _Atomic uint64_t *slot = record_slot(ring, number);
    uint64_t before = atomic_load_explicit(&slot[0], memory_order_relaxed);

    if (before >= number || !atomic_compare_exchange_strong_explicit(&slot[0], &before, WRITING, memory_order_relaxed,
                                                                     memory_order_relaxed))
        return;
    memcpy(words, record, sizeof words);
    for (int i = 1; i < HALAY_RECORD_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_release); /* see the top */
    atomic_store_explicit(&slot[0], number, memory_order_release);
}

void halay_ring_set_plans(struct halay_ring *ring, uint64_t plans)
{
    atomic_store_explicit(&ring->words[PLANS_WORD], plans, memory_order_relaxed);
}

uint64_t halay_ring_begun(const struct halay_ring *ring)
{
    return atomic_load_explicit(&ring->words[BEGUN_WORD], memory_order_relaxed);
}

struct halay_meters *halay_ring_meters(const struct halay_ring *ring)
{
    return (struct halay_meters *)(void *)(ring->words + HALAY_RING_METERS / 8);
}

const struct halay_ring_head *halay_ring_head(const struct halay_ring *ring)
{
    return &ring->head;
}

int halay_ring_get(const struct halay_ring *ring, uint64_t number, struct halay_record *record)
{
    _Atomic uint64_t *slot = record_slot(ring, number);
    uint64_t words[HALAY_RECORD_WORDS];

    words[0] = atomic_load_explicit(&slot[0], memory_order_acquire);
    for (int i = 1; i < HALAY_RECORD_WORDS; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    if (words[0] != number || atomic_load_explicit(&slot[0], memory_order_relaxed) != number)
        return 0;
    memcpy(record, words, sizeof words);
    return record->kind && record->kind < HALAY_RECORD_KINDS && record->name_length <= HALAY_RECORD_NAME;
}

/* ---- names ---- */

const char *halay_record_operation(const struct halay_record *record)
{
    static const char *const names[] = { "allreduce", "broadcast", "allgather", "reduce-scatter", "alltoall", "barrier",
                                         "reduce",    "gather",    "scatter",   "send",           "receive" };

    return record->operation < sizeof names / sizeof *names ? names[record->operation] : "?";
}

static int is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

void halay_record_set_name(struct halay_record *record, const char *name, size_t length)
{
    size_t head = length, tail = length;

    if (length > HALAY_RECORD_NAME) {
        head = HALAY_RECORD_NAME / 2 - 2;
        while (head && is_inside_character(name[head]))
            head--;
        tail = length - (HALAY_RECORD_NAME - 2 - head);
        while (tail < length && is_inside_character(name[tail]))
            tail++;
    }
    memset(record->name, 0, sizeof record->name);
    memcpy(record->name, name, head);
    record->name_length = (uint8_t)head;
    if (tail == length)
        return;
    memcpy(record->name + head, "..", 2);
    memcpy(record->name + head + 2, name + tail, length - tail);
    record->name_length = (uint8_t)(head + 2 + length - tail);
}

size_t halay_record_set_part(struct halay_record *record, const char *text, size_t length)
{
    size_t fits = length;

    if (length > HALAY_RECORD_NAME) {
        fits = HALAY_RECORD_NAME;
        while (fits && is_inside_character(text[fits]))
            fits--;
        if (!fits) /* not UTF-8: cut anywhere */
            fits = HALAY_RECORD_NAME;
    }
    memset(record->name, 0, sizeof record->name);
    memcpy(record->name, text, fits);
    record->name_length = (uint8_t)fits;
    return fits;
}

char *halay_rank_path(const char *pattern, int rank, unsigned generation)
{
    char name[48];
    const char *mark = strstr(pattern, "%r"), *slash = strrchr(pattern, '/');
    const char *base = slash ? slash + 1 : pattern, *dot = strrchr(base, '.');
    size_t size = strlen(pattern) + sizeof name;
    char *path = malloc(size);

    if (!path)
        return NULL;
    if (generation > 1)
        snprintf(name, sizeof name, "%d-generation%u", rank, generation);
    else
        snprintf(name, sizeof name, "%d", rank);
    if (mark)
        snprintf(path, size, "%.*s%s%s", (int)(mark - pattern), pattern, name, mark + 2);
    else if (dot && dot > base)
        snprintf(path, size, "%.*s.%s%s", (int)(dot - pattern), pattern, name, dot);
    else
        snprintf(path, size, "%s.%s", pattern, name);
    return path;
}

/* ---- life ---- */

static void fill_ring_head(struct halay_ring_head *head, uint64_t capacity, int rank, int size)
{
    struct timespec wall;

    *head = (struct halay_ring_head){ .magic = MAGIC,
                                      .version = FORMAT_VERSION,
                                      .record_bytes = sizeof(struct halay_record),
                                      .capacity = capacity,
                                      .rank = rank,
                                      .size = size,
                                      .pid = getpid() };
    if (!clock_gettime(CLOCK_REALTIME, &wall))
        head->wall_ns = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - halay_now_ns();
    if (gethostname(head->host, sizeof head->host - 1))
        head->host[0] = 0;
    if (!halay_read_line(head->boot_id, sizeof head->boot_id, "", "/proc/sys/kernel/random/boot_id") ||
        !head->boot_id[0]) /* the id that distinguishes clocks must not be empty */
        memcpy(head->boot_id, head->host, sizeof head->boot_id - 1);
}

static size_t count_bytes(size_t capacity)
{
    return HALAY_RING_HEAD + capacity * sizeof(struct halay_record);
}

static int is_without_room(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Reserves blocks for *capacity records, or fewer: then an eighth of the free space, since other ranks and programs
 * write there, too. Returns 0 or an error; *capacity is the last number tried. */
static int reserve_records(int fd, size_t *capacity)
{
    struct statvfs files;
    int error;

    while (is_without_room(error = posix_fallocate(fd, 0, (off_t)count_bytes(*capacity))) && *capacity > CAPACITY_MIN) {
        uint64_t eighth = fstatvfs(fd, &files) == 0 ? (uint64_t)files.f_bavail * files.f_frsize / 8 : 0;
        uint64_t fits = eighth > HALAY_RING_HEAD ? (eighth - HALAY_RING_HEAD) / sizeof(struct halay_record) : 0;
        *capacity = *capacity / 2 < fits ? *capacity / 2 : (size_t)fits;
        if (*capacity < CAPACITY_MIN)
            *capacity = CAPACITY_MIN;
        if (ftruncate(fd, 0) < 0) /* what was reserved before the error */
            return errno;
    }
    return error;
}

/* Creates a file for *capacity records, or fewer that fit, with all its blocks. Returns -1 after a logged error;
 * *capacity is 0 if no record fits, which is a warning. */
static int create_file(struct halay_log *log, const char *path, size_t *capacity)
{
    size_t wanted = *capacity;

    if (unlink(path) && errno != ENOENT)
        return halay_fail(log, -1, "cannot replace '%s': %s", path, strerror(errno));
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return halay_fail(log, -1, "cannot create '%s': %s", path, strerror(errno));
    int error = reserve_records(fd, capacity);
    if (!error && *capacity < wanted)
        halay_warning(log, "no room for the %zu bytes of '%s': it keeps %zu records (HALAY_FLIGHT names another place)",
                      count_bytes(wanted), path, *capacity);
    if (!error)
        return fd;
    if (is_without_room(error)) {
        halay_warning(log, "no room for '%s': nothing is recorded (HALAY_FLIGHT names another place)", path);
        *capacity = 0;
    } else {
        halay_error(log, "cannot reserve %zu bytes for '%s': %s", count_bytes(*capacity), path, strerror(error));
    }
    unlink(path);
    close(fd);
    return -1;
}

enum halay_status halay_ring_create(struct halay_log *log, const char *path, size_t bytes, int rank, int size,
                                    struct halay_ring **out)
{
    size_t capacity = bytes / sizeof(struct halay_record);
    struct halay_ring *ring = calloc(1, sizeof *ring);
    int fd = -1;

    if (!ring)
        return HALAY_ERR_NO_MEMORY;
    if (capacity < CAPACITY_MIN)
        capacity = CAPACITY_MIN;
    if (capacity > SIZE_MAX / 2 / sizeof(struct halay_record))
        goto err_free;
    if (path && (fd = create_file(log, path, &capacity)) < 0)
        goto err_free;
    fill_ring_head(&ring->head, capacity, rank, size);
    ring->bytes = count_bytes(capacity);
    void *map = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (map == MAP_FAILED) {
        halay_error(log, "cannot map %zu bytes for '%s': %s", ring->bytes, path ? path : "the timeline",
                    strerror(errno));
        goto err_close;
    }
    if (fd >= 0)
        close(fd);
    memcpy(map, &ring->head, sizeof ring->head);
    ring->words = map;
    *out = ring;
    return HALAY_OK;

err_close:
    if (fd >= 0) {
        unlink(path);
        close(fd);
    }
err_free:
    free(ring);
    if (!capacity)
        *out = NULL;
    return capacity ? HALAY_ERR_SYSTEM : HALAY_OK;
}

static int is_valid_head(const struct halay_ring_head *head, size_t file_bytes)
{
    return head->magic == MAGIC && head->version == FORMAT_VERSION &&
           head->record_bytes == sizeof(struct halay_record) && head->capacity > 0 &&
           head->capacity <= (file_bytes - HALAY_RING_HEAD) / sizeof(struct halay_record) && head->size > 0 &&
           head->rank >= 0 && head->rank < head->size && memchr(head->boot_id, 0, sizeof head->boot_id) &&
           memchr(head->host, 0, sizeof head->host);
}

/* Maps a file that was opened; the ring takes the mapping. */
static enum halay_status map_file(struct halay_log *log, const char *path, int fd, struct halay_ring *ring)
{
    struct stat file;

    if (fd < 0 || fstat(fd, &file)) /* errno is open's, if that failed */
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    if (!S_ISREG(file.st_mode) || file.st_size <= HALAY_RING_HEAD)
        return halay_fail(log, HALAY_ERR_FORMAT, "'%s' is not a flight recorder's file: it is too short", path);
    ring->bytes = (size_t)file.st_size;
    void *map = mmap(NULL, ring->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot map '%s': %s", path, strerror(errno));
    ring->words = map;
    memcpy(&ring->head, map, sizeof ring->head);
    if (is_valid_head(&ring->head, ring->bytes))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_FORMAT, "'%s' is not a flight recorder's file of this version", path);
}

enum halay_status halay_ring_open(struct halay_log *log, const char *path, struct halay_ring **out)
{
    struct halay_ring *ring = calloc(1, sizeof *ring);

    if (!ring)
        return HALAY_ERR_NO_MEMORY;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum halay_status status = map_file(log, path, fd, ring);
    if (fd >= 0)
        close(fd);
    if (status == HALAY_OK)
        *out = ring;
    else
        halay_ring_destroy(ring);
    return status;
}

void halay_ring_destroy(struct halay_ring *ring)
{
    if (!ring)
        return;
    if (ring->words)
        munmap(ring->words, ring->bytes);
    free(ring);
}
