/* SPDX-License-Identifier: Apache-2.0
 *
 * Spill: ordinary memory for a quarter of the limit; then chunks of one file, mapped shared, so that the system can
 * write their pages out. madvise takes mapped pages from the process and leaves what is in them to the file. The
 * quarters: this memory, mapped pages, rows that are being collected, and what a single series needs.
 */
#include "base/machine/cgroup.h"
#include "base/memory.h"
#include "tft/core/data/table.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGNMENT = 64, CHUNK = 8 << 20 };

struct chunk {
    char *at; /* owned */
    size_t bytes, used;
    int is_mapped;
};

struct tft_spill {
    struct halay_log *log; /* borrowed */
    char *folder;          /* owned */
    int fd;                /* of the file; -1: not created yet */
    size_t share, held;    /* bytes: a quarter of the limit; ordinary memory given */
    size_t file_bytes, touched;
    size_t count, size;
    struct chunk *chunks; /* owned: (size) */
};

static size_t default_limit(void)
{
    struct halay_cgroup_limits group;
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    size_t host = pages > 0 && bytes > 0 ? (size_t)pages * (size_t)bytes : SIZE_MAX;

    halay_cgroup_read("", &group);
    return (host < group.memory_bytes ? host : group.memory_bytes) / 2;
}

static enum halay_status no_memory(const struct tft_spill *s, size_t bytes)
{
    return halay_no_memory(s->log, "for %zu bytes of the table", bytes);
}

enum halay_status tft_spill_create(struct halay_log *log, const char *beside, size_t limit, struct tft_spill **spill)
{
    struct tft_spill *s = calloc(1, sizeof *s);
    char *copy = strdup(beside);

    if (s)
        *s = (struct tft_spill){ .log = log, .fd = -1, .share = (limit ? limit : default_limit()) / 4 };
    if (s && copy)
        s->folder = strdup(dirname(copy));
    free(copy);
    if (!s || !s->folder) {
        halay_error(log, "no memory for the table");
        tft_spill_destroy(s);
        return HALAY_ERR_NO_MEMORY;
    }
    *spill = s;
    return HALAY_OK;
}

void tft_spill_destroy(struct tft_spill *spill)
{
    if (!spill)
        return;
    for (size_t i = 0; i < spill->count; i++)
        if (spill->chunks[i].is_mapped)
            munmap(spill->chunks[i].at, spill->chunks[i].bytes);
        else
            free(spill->chunks[i].at);
    if (spill->fd >= 0)
        close(spill->fd);
    free(spill->chunks);
    free(spill->folder);
    free(spill);
}

/* A file without a name; where the file system knows none, one that loses its name at once. */
static int open_file(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char *path = NULL;

    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) ||
        asprintf(&path, "%s/halay.XXXXXX", folder) < 0)
        return fd;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    free(path);
    return fd;
}

static enum halay_status no_room(const struct tft_spill *s, size_t bytes, int error)
{
    return halay_fail(s->log, HALAY_ERR_SYSTEM,
                      "no room for %zu bytes of the table in '%s': %s; it is larger than its part of the memory, which "
                      "'--memory' sets",
                      bytes, s->folder, strerror(error));
}

static enum halay_status map_chunk(struct tft_spill *s, size_t bytes, struct chunk *chunk)
{
    size_t size = halay_round_up(bytes > CHUNK ? bytes : CHUNK, (size_t)sysconf(_SC_PAGESIZE));
    int error = 0;

    if (s->fd < 0)
        s->fd = open_file(s->folder);
    if (s->fd < 0)
        error = errno;
    else
        error = posix_fallocate(s->fd, (off_t)s->file_bytes, (off_t)size);
    if (error)
        return no_room(s, bytes, error);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, (off_t)s->file_bytes);
    if (at == MAP_FAILED)
        return no_room(s, bytes, errno);
    s->file_bytes += size;
    *chunk = (struct chunk){ .at = at, .bytes = size, .is_mapped = 1 };
    return HALAY_OK;
}

/* Finds a chunk with room for some bytes: the last one, or a new one. */
static enum halay_status find_chunk(struct tft_spill *s, size_t bytes)
{
    struct chunk *last = s->count ? &s->chunks[s->count - 1] : NULL;

    if (last && last->bytes - last->used >= bytes)
        return HALAY_OK;
    if (halay_list_grow(&s->chunks, s->count, &s->size, sizeof *s->chunks))
        return no_memory(s, bytes);
    struct chunk *chunk = &s->chunks[s->count];
    enum halay_status status = HALAY_OK;
    if (bytes <= s->share - s->held) {
        *chunk = (struct chunk){ .at = halay_aligned_alloc(ALIGNMENT, bytes), .bytes = bytes };
        if (!chunk->at)
            return no_memory(s, bytes);
        s->held += bytes;
    } else {
        status = map_chunk(s, bytes, chunk);
    }
    s->count += !status;
    return status;
}

enum halay_status tft_spill_get(struct tft_spill *spill, size_t bytes, void **memory)
{
    if (bytes > SIZE_MAX / 2)
        return no_memory(spill, bytes);
    bytes = halay_round_up(bytes ? bytes : 1, ALIGNMENT);
    enum halay_status status = find_chunk(spill, bytes);
    if (status)
        return status;
    struct chunk *chunk = &spill->chunks[spill->count - 1];
    *memory = chunk->at + chunk->used;
    chunk->used += bytes;
    return HALAY_OK;
}

void tft_spill_touched(struct tft_spill *spill, size_t bytes)
{
    if (!spill || spill->fd < 0)
        return;
    spill->touched += bytes;
    if (spill->touched < spill->share / 2)
        return;
    spill->touched = 0;
    for (size_t i = 0; i < spill->count; i++)
        if (spill->chunks[i].is_mapped)
            (void)madvise(spill->chunks[i].at, spill->chunks[i].bytes, MADV_DONTNEED); /* a matter of size only */
}

size_t tft_spill_share(const struct tft_spill *spill)
{
    return spill ? spill->share : SIZE_MAX;
}

int tft_spill_has_file(const struct tft_spill *spill)
{
    return spill && spill->fd >= 0;
}
