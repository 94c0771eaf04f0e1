/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA threads as fibers: those of a block (block.cc), the blocks of a launch (grid.cc), atomics (atomics.cc).
 */
#ifndef EMU_BLOCK_HH
#define EMU_BLOCK_HH

#include "../emu.h"
#include "emu.hh"
#include <tuple>

namespace emu
{
/* What a release told, to those whom its scope reaches. */
struct publication {
    past knows;
    emu_scope scope;
    uint32_t block;
    int device;
};
using publications = std::vector<publication>;

struct fiber : accessor {
    uint3 thread;
    unsigned number;
    struct block *in;
    char *stack;
    void *sp;
    enum { RUNS, BARRIER, WARP, GRID, ENDED } is;
    bool spins; // it has read what it read before, and done nothing else since
    struct {
        const void *p;
        uint64_t value;
    } reads[4];     // by atomic loads, lately
    emu_warp_op op; // of the warp, if it waits there
    unsigned mask, source;
    uint64_t value, result;
    past fenced; // what a relaxed store tells
    emu_scope fence_scope;
    publications seen; // by relaxed loads: known after a fence
    size_t accesses;   // width.cc
    const void *end;   // of the last one
    bool is_active;
    std::map<const void *, size_t> times; // of the code there

    bool reads_again(const void *p, uint64_t value)
    {
        for (auto &r : reads)
            if (r.p == p && r.value == value)
                return true;
        std::move_backward(reads, reads + 3, reads + 4);
        reads[0] = { p, value };
        return false;
    }
    void forget_reads()
    {
        std::fill(reads, reads + 4, reads[3] = {});
        spins = false;
    }
};

/* The shared memory of a block, while another block's stands in its place. */
struct shared_memory {
    char *place;
    size_t bytes;
    cell *cells;
    size_t low, high; // touched
    std::vector<char> kept;
};

struct block {
    grid *of;
    uint3 at;
    uint32_t id, first; // agent of the first thread
    std::vector<fiber> fibers;
    std::vector<unsigned> runnable;
    unsigned live, arrived, in_grid_barrier;
    int brought, counted; // to the barrier: so far, and to the last one
    shared_memory variables, dynamic;
    past ended; // what the last thread to end knew
    std::map<const void *, publications> told; // by atomics in shared memory
    std::map<std::tuple<unsigned, const void *, size_t>, std::set<size_t>> sectors; // of a warp, code and time
};

struct grid {
    operation *work;
    dim3 blocks, threads;
    emu_kernel kernel;
    std::shared_ptr<std::vector<char>> arguments;
    size_t dynamic;
    bool cooperative;
    size_t resident_most, in_vain; // so many blocks in a row had no progress
    std::vector<uint3> to_start;
    std::vector<std::unique_ptr<block>> resident;
    past end; // what its threads knew
    emu_limits limit;
    size_t accesses, active; // active: threads
    emu::random random;
};

std::unique_ptr<block> new_block_of(grid &g, uint3 at);
outcome run_block(block &b);
void end_block(block &b);
void let_all_on(grid &g); // over the grid's barrier
void limit_grid(grid &g); // width.cc
void check_width(const grid &g);
void find_variables(const void *function, char **place, size_t *bytes);
extern thread_local fiber *self;
} // namespace emu

#endif
