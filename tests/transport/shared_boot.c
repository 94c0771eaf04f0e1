/* SPDX-License-Identifier: Apache-2.0
 *
 * A bootstrap for tests: rounds on a board. Everybody writes his blob, the last one opens the next round. Two rounds
 * alternate between two halves of the board, so that nobody overwrites what somebody still reads.
 */
#include "shared_boot.h"
#include "../test.h"
#include "base/sync.h"
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

enum { BLOB_MOST = 4096, RANKS_MOST = 64 };

struct shared_board {
    int size;
    _Atomic uint32_t arrived; /* in this round */
    _Atomic uint32_t round;   /* futex */
    unsigned char blobs[2][RANKS_MOST * BLOB_MOST];
};

struct shared_boot {
    struct halay_boot base;
    struct shared_board *board; /* borrowed */
};

struct shared_board *shared_board_create(int size)
{
    struct shared_board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(board != MAP_FAILED && size <= RANKS_MOST);
    board->size = size;
    return board;
}

void shared_board_destroy(struct shared_board *board)
{
    munmap(board, sizeof *board);
}

static enum halay_status shared_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                          int timeout_ms)
{
    struct shared_board *board = ((struct shared_boot *)boot)->board;
    uint32_t round = atomic_load_explicit(&board->round, memory_order_acquire);
    unsigned char *blobs = board->blobs[round % 2];
    int64_t deadline_us = halay_deadline_us(timeout_ms);

    REQUIRE(bytes <= BLOB_MOST);
    memcpy(blobs + (size_t)boot->rank * bytes, mine, bytes);
    if (atomic_fetch_add_explicit(&board->arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)board->size) {
        atomic_store_explicit(&board->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&board->round, round + 1, memory_order_release);
        halay_futex_wake(&board->round, INT_MAX);
    }
    while (atomic_load_explicit(&board->round, memory_order_acquire) == round) {
        if (halay_deadline_passed(deadline_us))
            return HALAY_ERR_TIMEOUT;
        halay_futex_wait(&board->round, round, halay_deadline_left_us(deadline_us));
    }
    if (all)
        memcpy(all, blobs, (size_t)board->size * bytes);
    return HALAY_OK;
}

static void shared_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops shared_ops = {
    .name = "shared",
    .allgather = shared_allgather,
    .destroy = shared_destroy,
};

struct halay_boot *shared_boot_create(struct shared_board *board, int rank, struct halay_log *log)
{
    struct shared_boot *self = calloc(1, sizeof *self);

    REQUIRE(self);
    self->base = (struct halay_boot){ .ops = &shared_ops, .rank = rank, .size = board->size, .log = log };
    self->board = board;
    return &self->base;
}
