/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator's functions are defined here, for the whole process, and pass on to the C library's. While counting is
 * on, a call counts if its return address lies in this program or in one of halay's modules. mmap and munmap are
 * replaced at link time (--wrap), so for what is linked into this program only: UCX patches the C library's for itself.
 */
#include "tests/counting.h"
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IS_POSSIBLE 1
#else
#define IS_POSSIBLE 0
#endif

enum { RANGES_MAX = 16, CALLERS_MAX = 8 };

static struct {
    uintptr_t begin, end, base;
    char name[64];
} ranges[RANGES_MAX]; /* written while nothing is counted */
static int range_count;
static _Atomic int is_on;
static _Atomic long calls;
static long newest; /* number of calls of the newest count that had some; callers are its */
static _Atomic uintptr_t callers[CALLERS_MAX];

static int range_of(uintptr_t address)
{
    for (int i = 0; i < range_count; i++)
        if (address >= ranges[i].begin && address < ranges[i].end)
            return i;
    return -1;
}

static void count(const void *caller)
{
    if (!atomic_load_explicit(&is_on, memory_order_relaxed) || range_of((uintptr_t)caller) < 0)
        return;
    long n = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    if (n < CALLERS_MAX)
        atomic_store_explicit(&callers[n], (uintptr_t)caller, memory_order_relaxed);
}

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;

    (void)size, (void)arg;
    if (*name && strncmp(name, "libhalay", strlen("libhalay")) != 0) /* the program itself has no name */
        return 0;
    for (int i = 0; i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        ranges[range_count].base = info->dlpi_addr;
        ranges[range_count].begin = info->dlpi_addr + p->p_vaddr;
        ranges[range_count].end = ranges[range_count].begin + p->p_memsz;
        snprintf(ranges[range_count++].name, sizeof ranges->name, "%s", *name ? name : "this program");
    }
    return 0;
}

int counting_is_possible(void)
{
    return IS_POSSIBLE;
}

void counting_start(void)
{
    range_count = 0;
    dl_iterate_phdr(add_object, NULL);
    atomic_store(&calls, 0);
    atomic_store(&is_on, 1);
}

long counting_stop(void)
{
    atomic_store(&is_on, 0);
    long n = atomic_load(&calls);
    newest = n ? n : newest;
    return n;
}

void counting_show(int rank)
{
    for (long i = 0; i < newest && i < CALLERS_MAX; i++) {
        uintptr_t caller = atomic_load(&callers[i]);
        int range = range_of(caller);
        printf("rank %d: the allocator was called from %s at 0x%lx\n", rank, ranges[range].name,
               (unsigned long)(caller - ranges[range].base));
    }
}

/* ---- what is replaced ---- */

#if IS_POSSIBLE

#define SEEN_BY_MODULES __attribute__((visibility("default")))

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *ptr, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *ptr);

SEEN_BY_MODULES void *malloc(size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_malloc(bytes);
}

SEEN_BY_MODULES void *calloc(size_t n, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_calloc(n, bytes);
}

SEEN_BY_MODULES void *realloc(void *ptr, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_realloc(ptr, bytes);
}

SEEN_BY_MODULES void *aligned_alloc(size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    return __libc_memalign(alignment, bytes);
}

SEEN_BY_MODULES int posix_memalign(void **ptr, size_t alignment, size_t bytes)
{
    count(__builtin_return_address(0));
    void *block = __libc_memalign(alignment, bytes);
    if (!block)
        return 12; /* ENOMEM */
    *ptr = block;
    return 0;
}

SEEN_BY_MODULES void free(void *ptr)
{
    if (ptr)
        count(__builtin_return_address(0));
    __libc_free(ptr);
}

#endif

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    count(__builtin_return_address(0));
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t bytes)
{
    count(__builtin_return_address(0));
    return __real_munmap(at, bytes);
}
