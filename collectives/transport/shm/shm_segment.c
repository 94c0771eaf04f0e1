/* SPDX-License-Identifier: Apache-2.0
 *
 * Segment: its layout and its largest size. Pure arithmetic but for one trial mapping.
 */
#include "collectives/transport/shm/shm_segment.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* Every rank has a ring from every other: with many ranks they are small. */
static size_t fifo_bytes_for(int size)
{
    if (size <= 8)
        return (size_t)1 << 20;
    return size <= 64 ? (size_t)1 << 18 : (size_t)1 << 16;
}

static void layout_fifos(int size, struct halay_shm_layout *layout)
{
    layout->fifo_bytes = fifo_bytes_for(size);
    layout->data = halay_round_up((size_t)size * sizeof(struct halay_shm_fifo), HALAY_PAGE);
    layout->areas = halay_round_up(layout->data + (size_t)size * layout->fifo_bytes, HALAY_HUGE_PAGE);
}

void halay_shm_layout(int size, size_t bytes, struct halay_shm_layout *layout)
{
    layout_fifos(size, layout);
    size_t groups = (bytes - layout->areas) / 2 / HALAY_GROUP_BYTES;
    size_t most = HALAY_SHM_AREAS_MOST / HALAY_GROUP_BYTES;
    layout->heap = layout->areas + (groups < most ? groups : most) * HALAY_GROUP_BYTES;
    layout->bytes = bytes / HALAY_PAGE * HALAY_PAGE;
}

size_t halay_shm_least_bytes(int size)
{
    struct halay_shm_layout layout;

    layout_fifos(size, &layout);
    return layout.areas + 2 * HALAY_GROUP_BYTES;
}

/* An odd number of huge pages: segments follow each other, and where their distance is a large power of two, the same
 * place of all ranks' buffers falls on one tag of the first cache's way predictor (AMD), so that a reduction of four
 * ranks takes 1.5 times as long, of eight 2.4 times. */
static size_t spread_bytes(size_t bytes)
{
    return bytes > SIZE_MAX / 2 ? SIZE_MAX : halay_round_up(bytes, HALAY_HUGE_PAGE) | HALAY_HUGE_PAGE;
}

static int address_space_holds(int size, size_t bytes)
{
    size_t all;

    if (halay_mul_overflows((size_t)size, bytes, &all))
        return 0;
    void *trial = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (trial == MAP_FAILED)
        return 0;
    munmap(trial, all);
    return 1;
}

enum halay_status halay_shm_fit(struct halay_log *log, int size, size_t wanted, size_t *bytes)
{
    size_t least = halay_shm_least_bytes(size), fit = wanted > least ? wanted : least;

    while (!address_space_holds(size, spread_bytes(fit))) {
        if (fit == least)
            return halay_fail(log, HALAY_ERR_NO_MEMORY,
                              "no address space for %d shared segments of %zu bytes: is 'ulimit -v' set?", size, least);
        fit = fit / 2 > least ? fit / 2 : least;
    }
    *bytes = spread_bytes(fit);
    return HALAY_OK;
}
