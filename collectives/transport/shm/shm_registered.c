/* SPDX-License-Identifier: Apache-2.0
 *
 * Registered memory: see shm_registered.h.
 *
 * The kernel has no call that shares pages of private memory, so they are replaced: mmap with MAP_FIXED on the way
 * there, mremap on the way back, both at once for every other thread. A store of another thread between the copy and
 * the replacement would be lost, which the program has to see to (include/halay.h).
 *
 * What the program frees without a word may be mapped again as something else at the same address. So before each use
 * /proc/self/pagemap says whether the pages are a file's, as those of the segment are, or private: 8 bytes a page, 3 us
 * a megabyte, no privilege needed, since Linux 4.2.
 */
#include "collectives/transport/shm/shm_registered.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct halay_shm_range {
    struct halay_shm_place place;
    struct halay_shm_range *next;
};

void halay_shm_registered_init(struct halay_shm_registered *registered)
{
    atomic_init(&registered->count, 0);
    atomic_init(&registered->has_warned, 0);
    registered->ranges = NULL;
    registered->pagemap = -1;
    pthread_mutex_init(&registered->lock, NULL);
}

void halay_shm_registered_fini(struct halay_shm_registered *registered)
{
    for (struct halay_shm_range *r = registered->ranges, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    registered->ranges = NULL;
    if (registered->pagemap >= 0)
        close(registered->pagemap);
    registered->pagemap = -1;
    atomic_store_explicit(&registered->count, 0, memory_order_relaxed);
    pthread_mutex_destroy(&registered->lock);
}

/* ---- what is mapped ---- */

struct mapping {
    uintptr_t begin, end;
    char access[5]; /* "rw-p" */
    uint64_t offset;
    unsigned major, minor;
    unsigned long inode;
    char name[64];
};

/* Reads the mapping that a line of /proc/self/maps describes. */
static int mapping_read(const char *line, struct mapping *m)
{
    unsigned long begin, end, offset;

    m->name[0] = '\0';
    int fields = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %63s", &begin, &end, m->access, &offset, &m->major, &m->minor,
                        &m->inode, m->name);
    m->begin = begin;
    m->end = end;
    m->offset = offset;
    return fields >= 7;
}

/* Returns nonzero if the pages are private memory of nothing but the process. */
static int is_anonymous(const struct mapping *m, const struct halay_shm_place *place)
{
    (void)place; /* as is_registered has it */
    return !strcmp(m->access, "rw-p") && !m->inode && strncmp(m->name, "[stack", 6) &&
           (m->name[0] == '\0' || m->name[0] == '[');
}

/* Returns nonzero if the pages are those of the segment that were put there. */
static int is_registered(const struct mapping *m, const struct halay_shm_place *place)
{
    struct stat s;

    if (fstat(place->fd, &s) < 0 || m->inode != s.st_ino || m->major != major(s.st_dev) || m->minor != minor(s.st_dev))
        return 0;
    return m->offset - m->begin == place->offset - (uintptr_t)place->pages; /* modulo the address space */
}

/* Checks each mapping that the pages lie in. HALAY_ERR_ARGUMENT: some are not mapped; HALAY_ERR_UNSUPPORTED: fits said
 * no; HALAY_ERR_SYSTEM. */
static enum halay_status check_mapped(const struct halay_shm_place *place,
                                      int (*fits)(const struct mapping *m, const struct halay_shm_place *place))
{
    uintptr_t at = (uintptr_t)place->pages, end = at + place->length;
    enum halay_status status = HALAY_OK;
    struct mapping m;
    char line[512];

    FILE *file = fopen("/proc/self/maps", "re");
    if (!file)
        return HALAY_ERR_SYSTEM;
    while (at < end && status == HALAY_OK && fgets(line, sizeof line, file)) {
        if (!mapping_read(line, &m) || m.end <= at)
            continue;
        if (m.begin > at)
            break;
        status = fits(&m, place) ? HALAY_OK : HALAY_ERR_UNSUPPORTED;
        at = m.end;
    }
    fclose(file);
    return status == HALAY_OK && at < end ? HALAY_ERR_ARGUMENT : status;
}

/* ---- ranges ---- */

static int overlaps_locked(const struct halay_shm_registered *registered, const struct halay_shm_place *place)
{
    for (const struct halay_shm_range *r = registered->ranges; r; r = r->next)
        if (place->ptr < r->place.ptr + r->place.bytes && r->place.ptr < place->ptr + place->bytes)
            return 1;
    return 0;
}

static void range_insert(struct halay_shm_registered *registered, struct halay_shm_range *range)
{
    pthread_mutex_lock(&registered->lock);
    range->next = registered->ranges;
    registered->ranges = range;
    atomic_fetch_add_explicit(&registered->count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registered->lock);
}

/* Takes out the range that begins at ptr; NULL: there is none. */
static struct halay_shm_range *range_take(struct halay_shm_registered *registered, const void *ptr)
{
    struct halay_shm_range **link = &registered->ranges, *range;

    pthread_mutex_lock(&registered->lock);
    while ((range = *link) && range->place.ptr != ptr)
        link = &range->next;
    if (range) {
        *link = range->next;
        atomic_fetch_sub_explicit(&registered->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&registered->lock);
    return range;
}

enum halay_status halay_shm_registered_check(struct halay_shm_registered *registered, struct halay_shm_place *place,
                                             const char **why)
{
    uintptr_t begin = ((uintptr_t)place->ptr + HALAY_PAGE - 1) / HALAY_PAGE * HALAY_PAGE;
    uintptr_t end = ((uintptr_t)place->ptr + place->bytes) / HALAY_PAGE * HALAY_PAGE;

    if (end <= begin) {
        *why = "there is no whole page in it";
        return HALAY_ERR_UNSUPPORTED;
    }
    place->pages = place->ptr + (begin - (uintptr_t)place->ptr);
    place->length = end - begin;
    pthread_mutex_lock(&registered->lock);
    int is_double = overlaps_locked(registered, place);
    if (registered->pagemap < 0)
        registered->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int pagemap = registered->pagemap;
    pthread_mutex_unlock(&registered->lock);
    if (pagemap < 0) {
        *why = "/proc/self/pagemap cannot be read, which shows whether it is still there";
        return HALAY_ERR_UNSUPPORTED;
    }
    if (is_double) {
        *why = "some of it is registered already";
        return HALAY_ERR_DUPLICATE;
    }
    enum halay_status status = check_mapped(place, is_anonymous);
    if (status == HALAY_ERR_UNSUPPORTED)
        *why = "it is not private anonymous memory that can be read and written, as that of malloc is";
    else if (status == HALAY_ERR_ARGUMENT)
        *why = "some of it is not mapped";
    else if (status == HALAY_ERR_SYSTEM)
        *why = "/proc/self/maps cannot be read";
    return status;
}

/* Replaces the pages by private ones with the contents that they have in the segment. */
static int put_private(const struct halay_shm_place *place)
{
    unsigned char *fresh = mmap(NULL, place->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (fresh == MAP_FAILED)
        return 0;
    for (size_t at = 0; at < place->length;) {
        ssize_t got = pread(place->fd, fresh + at, place->length - at, (off_t)(place->offset + at));
        if (got <= 0 && errno == EINTR)
            continue;
        if (got <= 0)
            goto err_unmap;
        at += (size_t)got;
    }
    if (mremap(fresh, place->length, place->length, MREMAP_MAYMOVE | MREMAP_FIXED, place->pages) != MAP_FAILED)
        return 1;

err_unmap:
    munmap(fresh, place->length);
    return 0;
}

static int copy_into_segment(const struct halay_shm_place *place)
{
    for (size_t at = 0; at < place->length;) {
        ssize_t put = pwrite(place->fd, place->pages + at, place->length - at, (off_t)(place->offset + at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        at += (size_t)put;
    }
    return 1;
}

enum halay_status halay_shm_registered_add(struct halay_log *log, struct halay_shm_registered *registered,
                                           const struct halay_shm_place *place)
{
    struct halay_shm_range *range = malloc(sizeof *range);

    if (!range)
        return HALAY_ERR_NO_MEMORY;
    if (!copy_into_segment(place)) {
        halay_error(log, "cannot register memory: cannot copy it: %s", strerror(errno));
        free(range);
        return HALAY_ERR_SYSTEM;
    }
    if (mmap(place->pages, place->length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, place->fd,
             (off_t)place->offset) == MAP_FAILED) {
        halay_error(log, "cannot register memory: cannot map shared pages: %s", strerror(errno));
        if (!put_private(place)) /* the kernel may have removed what was there */
            halay_error(log, "and cannot restore %zu bytes at %p: %s", place->length, (void *)place->pages,
                        strerror(errno));
        free(range);
        return HALAY_ERR_SYSTEM;
    }
    range->place = *place;
    range_insert(registered, range);
    return HALAY_OK;
}

enum halay_status halay_shm_registered_remove(struct halay_shm_registered *registered, void *ptr,
                                              struct halay_shm_place *place)
{
    struct halay_shm_range *range = range_take(registered, ptr);

    if (!range)
        return HALAY_ERR_ARGUMENT;
    int is_there = check_mapped(&range->place, is_registered) == HALAY_OK;
    if (is_there && !put_private(&range->place)) {
        range_insert(registered, range);
        return HALAY_ERR_NO_MEMORY;
    }
    *place = range->place;
    free(range);
    return is_there ? HALAY_OK : HALAY_ERR_CLOSED;
}

/* Cuts [ptr, ptr + bytes), which is in the range, to its whole pages. */
static uint64_t cut_to_pages(const struct halay_shm_place *place, const unsigned char *ptr, size_t bytes, size_t *head,
                             size_t *length)
{
    const unsigned char *begin = ptr > place->pages ? ptr : place->pages, *end = ptr + bytes;

    if (end > place->pages + place->length)
        end = place->pages + place->length;
    if (end <= begin)
        return UINT64_MAX;
    *head = (size_t)(begin - ptr);
    *length = (size_t)(end - begin);
    return place->offset + (size_t)(begin - place->pages);
}

uint64_t halay_shm_registered_find(struct halay_shm_registered *registered, const void *ptr, size_t bytes, size_t *head,
                                   size_t *length)
{
    const unsigned char *at = ptr;
    uint64_t offset = UINT64_MAX;

    /* Relaxed: the thread that submits a range has seen its registration return. */
    if (!atomic_load_explicit(&registered->count, memory_order_relaxed))
        return UINT64_MAX;
    pthread_mutex_lock(&registered->lock);
    for (const struct halay_shm_range *r = registered->ranges; r; r = r->next)
        if (at >= r->place.ptr && at < r->place.ptr + r->place.bytes &&
            bytes <= (size_t)(r->place.ptr + r->place.bytes - at)) {
            offset = cut_to_pages(&r->place, at, bytes, head, length);
            break;
        }
    pthread_mutex_unlock(&registered->lock);
    return offset;
}

/* Reads what pagemap has of the pages; returns nonzero if all are present and a file's. */
static int are_of_a_file(int pagemap, uintptr_t page, size_t pages)
{
    enum { AT_ONCE = 256 };
    const uint64_t wanted = (uint64_t)1 << 63 | (uint64_t)1 << 61; /* present, a file's or shared */
    uint64_t flags[AT_ONCE];

    for (size_t at = 0, count; at < pages; at += count) {
        count = pages - at < AT_ONCE ? pages - at : AT_ONCE;
        ssize_t bytes = (ssize_t)(count * sizeof *flags);
        if (pread(pagemap, flags, (size_t)bytes, (off_t)((page + at) * sizeof *flags)) != bytes)
            return 0;
        for (size_t i = 0; i < count; i++)
            if ((flags[i] & wanted) != wanted)
                return 0;
    }
    return 1;
}

int halay_shm_registered_is_there(struct halay_log *log, struct halay_shm_registered *registered, const void *ptr,
                                  size_t bytes)
{
    uintptr_t first = (uintptr_t)ptr / HALAY_PAGE, last = ((uintptr_t)ptr + bytes - 1) / HALAY_PAGE;

    if (are_of_a_file(registered->pagemap, first, last - first + 1))
        return 1;
    if (!atomic_exchange_explicit(&registered->has_warned, 1, memory_order_relaxed))
        halay_warning(log,
                      "registered memory at %p is not mapped as it was: freed before it was unregistered, or paged "
                      "out. It is reduced like private memory",
                      ptr);
    return 0;
}
