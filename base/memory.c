/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: checked sizes, aligned blocks, regions, shared segments.
 *
 * A segment is an anonymous memory file (memfd): it has no name in any file system, so it vanishes with its owners
 * however they end. Its seals make it safe to read in another process: a file that cannot shrink cannot raise SIGBUS in
 * a process that maps it. A process that maps a peer's segment checks the seals itself and trusts no message about
 * them.
 *
 * Huge pages. With small ones, reading two buffers of tens of megabytes misses the translation cache at every page, and
 * under a hypervisor each miss costs two walks. Most systems allow no huge pages for shared memory, but MADV_COLLAPSE
 * is not subject to that setting: it makes a huge page of small ones at once, if a free one is found.
 *
 * References: memfd_create(2), fcntl(2) "File sealing", madvise(2) (MADV_COLLAPSE, Linux 6.1).
 */
#include "base/memory.h"
#include "base/number_text.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* C libraries older than the kernel */
#endif

void halay_copy_in_pieces(void *to, const void *from, size_t bytes)
{
    size_t after = ((uintptr_t)to - (uintptr_t)from) % HALAY_PAGE;
    size_t piece = after - 1 < 31 ? HALAY_VECTOR_COPY : bytes;

    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < piece ? bytes - at : piece;
        memcpy((unsigned char *)to + at, (const unsigned char *)from + at, n);
    }
}

enum halay_status halay_no_memory(struct halay_log *log, const char *what, ...)
{
    char text[400];
    va_list args;

    va_start(args, what);
    halay_vsnprintf(text, sizeof text, what, args);
    va_end(args);
    return halay_fail(log, HALAY_ERR_NO_MEMORY, "no memory %s", text);
}

void *halay_aligned_alloc(size_t alignment, size_t bytes)
{
    void *block;

    if (posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes ? bytes : 1))
        return NULL;
    return block;
}

/* Header of the memory that the caller gets. */
struct halay_region_block {
    struct halay_region_block *next;
    max_align_t memory[];
};

void *halay_region_alloc(struct halay_region *region, size_t count, size_t size)
{
    struct halay_region_block *block = NULL;
    size_t bytes;

    if (!halay_mul_overflows(count, size, &bytes) && !halay_add_overflows(bytes, sizeof *block + 1, &bytes))
        block = calloc(1, bytes);
    if (!block) {
        region->failed = 1;
        return NULL;
    }
    block->next = region->blocks;
    region->blocks = block;
    return block->memory;
}

void halay_region_fini(struct halay_region *region)
{
    for (struct halay_region_block *block = region->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *region = (struct halay_region){ 0 };
}

enum halay_status halay_segment_create(struct halay_log *log, const char *name, size_t bytes, int *fd)
{
    if (bytes > PTRDIFF_MAX)
        return halay_fail(log, HALAY_ERR_ARGUMENT,
                          "shared segment '%s' of %zu bytes is more than an address space holds", name, bytes);
    int file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot create shared segment '%s': %s", name, strerror(errno));
    if (ftruncate(file, (off_t)bytes) < 0) {
        halay_error(log, "cannot give shared segment '%s' %zu bytes: %s", name, bytes, strerror(errno));
        goto err_close;
    }
    /* F_SEAL_SEAL: no process can add F_SEAL_WRITE later and so take the memory from its users. */
    if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        halay_error(log, "cannot seal shared segment '%s': %s", name, strerror(errno));
        goto err_close;
    }
    *fd = file;
    return HALAY_OK;

err_close:
    close(file);
    return HALAY_ERR_SYSTEM;
}

/* Returns address space at a multiple of the huge page, or MAP_FAILED. Reserves more than needed, returns the rest. */
static unsigned char *reserve_aligned(size_t bytes)
{
    size_t more = halay_round_up(bytes, HALAY_PAGE) + HALAY_HUGE_PAGE;

    if (more <= bytes) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    unsigned char *space = mmap(NULL, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return MAP_FAILED;
    size_t before = halay_round_up((uintptr_t)space, HALAY_HUGE_PAGE) - (uintptr_t)space;
    size_t end = before + halay_round_up(bytes, HALAY_PAGE);
    if (before)
        munmap(space, before);
    munmap(space + end, more - end); /* before < HALAY_HUGE_PAGE, so this is never empty */
    return space + before;
}

enum halay_status halay_segment_reserve(struct halay_log *log, size_t bytes, void **base)
{
    void *space = reserve_aligned(bytes);

    if (space == MAP_FAILED)
        return halay_fail(log, HALAY_ERR_NO_MEMORY, "cannot reserve %zu bytes of address space: %s", bytes,
                          strerror(errno));
    *base = space;
    return HALAY_OK;
}

static enum halay_status segment_check(struct halay_log *log, int fd, size_t bytes)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);

    if (bytes == 0)
        return halay_fail(log, HALAY_ERR_ARGUMENT, "cannot map 0 bytes of a shared segment");
    if (seals < 0)
        return halay_fail(log, errno == EBADF ? HALAY_ERR_ARGUMENT : HALAY_ERR_FORMAT,
                          "descriptor %d is not a shared segment: %s", fd, strerror(errno));
    if (!(seals & F_SEAL_SHRINK))
        return halay_fail(log, HALAY_ERR_FORMAT, "shared segment on descriptor %d is not sealed against shrinking", fd);
    if (fstat(fd, &file) < 0)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot examine shared segment on descriptor %d: %s", fd,
                          strerror(errno));
    if (file.st_size < 0 || (uintmax_t)file.st_size < bytes)
        return halay_fail(log, HALAY_ERR_FORMAT, "shared segment on descriptor %d has %jd bytes, %zu were announced",
                          fd, (intmax_t)file.st_size, bytes);
    return HALAY_OK;
}

enum halay_status halay_segment_map_at(struct halay_log *log, int fd, size_t bytes, void *at)
{
    enum halay_status status = segment_check(log, fd, bytes);

    if (status != HALAY_OK)
        return status;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
        return HALAY_OK;
    status = errno == ENOMEM ? HALAY_ERR_NO_MEMORY : HALAY_ERR_SYSTEM;
    return halay_fail(log, status, "cannot map %zu bytes of a shared segment: %s", bytes, strerror(errno));
}

enum halay_status halay_segment_map(struct halay_log *log, int fd, size_t bytes, void **base)
{
    void *space = NULL;

    enum halay_status status = segment_check(log, fd, bytes);
    if (status == HALAY_OK)
        status = halay_segment_reserve(log, bytes, &space);
    if (status != HALAY_OK)
        return status;
    if ((status = halay_segment_map_at(log, fd, bytes, space)) != HALAY_OK) {
        munmap(space, bytes);
        return status;
    }
    *base = space;
    return HALAY_OK;
}

void halay_segment_unmap(void *base, size_t bytes)
{
    if (base)
        munmap(base, bytes);
}

/* A shared file's policy belongs to the file, not to the mapping: it holds for every process that touches a page. */
void halay_segment_wish_numa_node(struct halay_log *log, void *base, size_t bytes, int node)
{
    enum { BITS = CHAR_BIT * sizeof(unsigned long), NODES_MAX = 1024 };
    unsigned long nodes[NODES_MAX / BITS] = { 0 };

    if (node < 0 || node >= NODES_MAX)
        return;
    nodes[(size_t)node / BITS] = 1ul << (size_t)node % BITS;
    /* One more than there are bits: the kernel takes one off. */
    if (syscall(SYS_mbind, base, bytes, MPOL_PREFERRED, nodes, (unsigned long)NODES_MAX + 1, 0))
        halay_debug(log, "shared memory stays where it is first touched: cannot prefer NUMA node %d: %s", node,
                    strerror(errno));
}

void halay_segment_wish_huge(void *ptr, size_t bytes)
{
    uintptr_t from = halay_round_up((uintptr_t)ptr, HALAY_HUGE_PAGE);
    uintptr_t to = ((uintptr_t)ptr + bytes) / HALAY_HUGE_PAGE * HALAY_HUGE_PAGE;

    if (from < to)
        (void)!madvise((void *)from, to - from, MADV_COLLAPSE);
}
