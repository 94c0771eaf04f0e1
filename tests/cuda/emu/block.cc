/* SPDX-License-Identifier: Apache-2.0
 *
 * A block: its threads are fibers, and which one goes on is drawn whenever one waits, or now and then as it accesses
 * memory. Who completes a barrier or an operation of a warp lets the others on.
 */
#include "block.hh"
#include <cstring>
#include <sys/mman.h>

/* Kernels have these symbols as constants. */
uint3 thread_index asm("threadIdx"), block_index asm("blockIdx"),
    block_size asm("emu_block_dim"), grid_size asm("emu_grid_dim");
alignas(1024) thread_local unsigned char dynamic_shared[228 << 10];

namespace emu
{
enum : size_t { STACK = 64 << 10, STACKS = 64 };

thread_local fiber *self;
static std::vector<char *> &stacks = *new std::vector<char *>;
static void *scheduler; // its stack pointer, while a fiber runs
static block *placed;   // whose shared memory stands in its place
static long until_preempted;

extern "C" void emu_switch(void **save, void *load);
asm(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
    " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n.size emu_switch,.-emu_switch\n");

fiber *running()
{
    return self;
}
accessor *running_accessor()
{
    return self;
}
bool on_stack(const void *p)
{
    return (size_t)((const char *)p - self->stack) < STACK;
}

std::string running_name()
{
    return who(self->agent);
}

static void leave(fiber *f)
{
    emu_switch(&f->sp, scheduler);
}

static void let(fiber &f)
{
    f.is = fiber::RUNS;
    f.in->runnable.push_back(f.number);
}

static void draw_preemption(random &r)
{
    until_preempted = setting().when == AT_ONCE ? -1 : 1 + (long)(r() % 400);
}

void preempt()
{
    if (--until_preempted)
        return;
    draw_preemption(self->in->of->random);
    let(*self);
    leave(self);
}

void spin()
{
    self->spins = true;
    let(*self);
    leave(self);
}

void no_spin()
{
    self->spins = false;
}

/* ---- shared memory ---- */

static void keep(shared_memory &m)
{
    if (m.high > m.low)
        m.kept.assign(m.place + m.low, m.place + m.high);
}

static void restore(shared_memory &m)
{
    if (m.high > m.low)
        memcpy(m.place + m.low, m.kept.data(), m.high - m.low);
}

static void place(block &b)
{
    if (placed == &b)
        return;
    if (placed)
        keep(placed->variables), keep(placed->dynamic);
    restore(b.variables), restore(b.dynamic);
    placed = &b;
}

static bool in_shared(shared_memory &m, size_t most, const void *p, const char *name, shared_place &found)
{
    size_t at = (size_t)((const char *)p - m.place);

    if (at >= most)
        return false;
    found = { m.cells + at, at < m.bytes ? m.bytes - at : 0, name };
    m.low = m.high ? std::min(m.low, at) : at;
    m.high = std::min(m.bytes, std::max(m.high, at + 16));
    return true;
}

bool find_shared(const void *p, shared_place &found)
{
    block &b = *self->in;

    return in_shared(b.dynamic, sizeof dynamic_shared, p, "dynamic shared memory", found) ||
           in_shared(b.variables, b.variables.bytes, p, "a __shared__ variable", found);
}

static shared_memory new_shared(char *place, size_t bytes)
{
    return { place, bytes, new_cells(bytes + 16), 0, 0, {} };
}

/* ---- barriers ---- */

/* All accesses of the threads of a block until now are ordered before what they do next. */
static void join_block(block &b, const past &more)
{
    uint32_t base = 0;
    past all = more, last;

    for (fiber &f : b.fibers) {
        base = std::max(base, f.clock + 1);
        if (f.knows != last)
            all = join(all, last = f.knows);
    }
    if (all) { // what the threads knew of each other is in `base`
        auto others = std::make_shared<std::vector<known>>();
        for (const known &k : *all)
            if (k.key < b.first || k.key >= b.first + b.fibers.size())
                others->push_back(k);
        if (others->size() < all->size())
            all = others;
    }
    for (fiber &f : b.fibers)
        f.clock = f.base = base, f.knows = all;
}

static void pass_barrier(block &b)
{
    if (b.live < b.fibers.size())
        found("barrier", "%u threads of block (%u,%u,%u) of %s have ended before a __syncthreads of the others",
              (unsigned)b.fibers.size() - b.live, b.at.x, b.at.y, b.at.z, operation_name(b.of->work->number).c_str());
    b.arrived = 0;
    b.counted = b.brought;
    b.brought = 0;
    join_block(b, nullptr);
    for (fiber &f : b.fibers)
        if (f.is == fiber::BARRIER)
            let(f);
}

static bool grid_is_complete(grid &g)
{
    if (!g.to_start.empty())
        return false;
    for (auto &b : g.resident)
        if (b->in_grid_barrier < b->live)
            return false;
    return true;
}

void let_all_on(grid &g)
{
    past all;

    if (!grid_is_complete(g))
        return;
    for (auto &b : g.resident) {
        join_block(*b, nullptr);
        all = join(all, join(b->fibers[0].knows, { { block_key(b->id), b->fibers[0].base } }));
    }
    for (auto &b : g.resident) {
        b->in_grid_barrier = 0;
        for (fiber &f : b->fibers) {
            f.knows = all;
            if (f.is == fiber::GRID)
                let(f);
        }
    }
}

/* ---- the life of a thread ---- */

static void end_thread(fiber *f)
{
    block &b = *f->in;
    grid &g = *b.of;

    if (f->knows != b.ended) // mostly all of a block know the same
        g.end = join(g.end, b.ended = f->knows);
    f->is = fiber::ENDED;
    b.live--;
    if (b.live && b.arrived == b.live)
        pass_barrier(b);
    leave(f);
    broken("a thread that had ended went on");
}

static void fiber_main()
{
    fiber *f = self;
    const grid &g = *f->in->of;
    alignas(64) char arguments[4096];

    memcpy(arguments, g.arguments->data(), g.arguments->size());
    g.kernel.call(g.kernel.function, arguments);
    end_thread(f);
}

static char *new_stack()
{
    if (stacks.empty()) {
        char *many = (char *)mmap(nullptr, STACK * STACKS, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (many == MAP_FAILED)
            broken("no stacks for more CUDA threads");
        for (size_t i = 0; i < STACKS; i++)
            stacks.push_back(many + i * STACK);
    }
    char *stack = stacks.back();
    stacks.pop_back();
    return stack;
}

static void start_thread(block &b, unsigned number, const past &start)
{
    fiber &f = b.fibers[number];
    const dim3 &size = b.of->threads;

    f.number = number, f.in = &b, f.stack = new_stack();
    f.thread = { number % size.x, number / size.x % size.y, number / size.x / size.y };
    f.operation = b.of->work->number, f.block = b.id, f.device = b.of->work->device;
    f.agent = new_agent(f.operation, b.id, number);
    f.knows = start;
    void **top = (void **)(f.stack + STACK) - 2;
    top[0] = nullptr;
    top[-1] = (void *)fiber_main;
    f.sp = top - 7;
    let(f);
}

std::unique_ptr<block> new_block_of(grid &g, uint3 at)
{
    auto b = std::make_unique<block>();
    char *variables;
    size_t bytes;

    b->of = &g, b->at = at, b->id = new_block(g.work->number, at);
    find_variables(g.kernel.function, &variables, &bytes);
    b->variables = new_shared(variables, bytes);
    b->dynamic = new_shared((char *)dynamic_shared, g.dynamic);
    b->live = g.threads.x * g.threads.y * g.threads.z;
    b->fibers.resize(b->live);
    for (unsigned i = 0; i < b->live; i++)
        start_thread(*b, i, g.work->start);
    b->first = b->fibers[0].agent;
    return b;
}

void end_block(block &b)
{
    for (fiber &f : b.fibers)
        stacks.push_back(f.stack);
    free_cells(b.variables.cells, b.variables.bytes + 16);
    free_cells(b.dynamic.cells, b.dynamic.bytes + 16);
    if (placed == &b)
        placed = nullptr;
}

static void resume(fiber &f)
{
    thread_index = f.thread;
    self = &f;
    emu_switch(&scheduler, f.sp);
    self = nullptr;
}

/* Nobody can go on, and not all have ended or wait for other blocks. */
static void check_stuck(const block &b)
{
    unsigned waits[5] = {};

    if (b.in_grid_barrier == b.live)
        return;
    for (const fiber &f : b.fibers)
        waits[f.is]++;
    const char *kind = waits[fiber::WARP] ? "warp" : "barrier";
    found(kind,
          "of block (%u,%u,%u) of %s %u threads wait in __syncthreads, %u in an operation of a warp, %u in a "
          "barrier of the grid, and %u have ended",
          b.at.x, b.at.y, b.at.z, operation_name(b.of->work->number).c_str(), waits[fiber::BARRIER], waits[fiber::WARP],
          waits[fiber::GRID], waits[fiber::ENDED]);
    broken("a block cannot go on");
}

/* Lets the block's threads run for a while. */
outcome run_block(block &b)
{
    bool progress = false;
    size_t in_vain = 0;
    random &r = b.of->random;

    place(b);
    block_index = b.at;
    block_size = { b.of->threads.x, b.of->threads.y, b.of->threads.z };
    grid_size = { b.of->blocks.x, b.of->blocks.y, b.of->blocks.z };
    draw_preemption(r);
    for (int left = 1000; left && !b.runnable.empty() && in_vain <= 2 * b.runnable.size(); left--) {
        size_t k = r() % b.runnable.size();
        fiber &f = b.fibers[b.runnable[k]];
        b.runnable[k] = b.runnable.back();
        b.runnable.pop_back();
        resume(f);
        bool vain = f.is == fiber::RUNS && f.spins;
        in_vain = vain ? in_vain + 1 : 0;
        progress = progress || !vain;
    }
    if (b.live && b.runnable.empty())
        check_stuck(b);
    return !b.live ? DONE : progress ? ADVANCED : STUCK;
}
} // namespace emu

using namespace emu;

int emu_barrier(int value)
{
    fiber *f = self;
    block &b = *f->in;

    f->is = fiber::BARRIER;
    b.brought += value != 0;
    if (++b.arrived == b.live)
        pass_barrier(b);
    leave(f);
    return b.counted; // the next barrier needs this thread, too
}

void emu_grid_barrier()
{
    fiber *f = self;

    if (!f->in->of->cooperative)
        found("barrier", "%s waits for its grid, which was not launched cooperatively", running_name().c_str());
    f->is = fiber::GRID;
    f->in->in_grid_barrier++;
    let_all_on(*f->in->of);
    leave(f);
}

static float bf16_of(unsigned word, unsigned half)
{
    return __uint_as_float(half ? word & 0xffff0000u : word << 16);
}

/* Products of a warp's fragments, added to the sums (PTX ISA, mma.m16n8k16): row and column of lane 4 g + p. */
static void multiply_fragments(const fiber *warp)
{
    float a[16][16], b[16][8];
    auto of = [warp](unsigned lane) { return *(const emu_fragments *)warp[lane].value; };

    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned half = 0; half < 2; half++) {
            unsigned g = lane / 4, k = lane % 4 * 2 + half;
            for (unsigned i = 0; i < 4; i++)
                a[g + i % 2 * 8][k + i / 2 * 8] = bf16_of(of(lane).a[i], half);
            for (unsigned i = 0; i < 2; i++)
                b[k + i * 8][g] = bf16_of(of(lane).b[i], half);
        }
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++)
            for (unsigned k = 0; k < 16; k++)
                of(lane).d[i] += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
}

/* All lanes of the mask have come: what each gets. */
static void end_warp_op(fiber *warp, unsigned mask, emu_warp_op op)
{
    past all;
    std::vector<known> clocks;
    unsigned bits = 0;

    if (op == EMU_MMA)
        multiply_fragments(warp);
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1) {
            bits |= (unsigned)(warp[l].value & 1) << l;
            if (op != EMU_SYNC)
                continue;
            all = join(all, warp[l].knows);
            clocks.push_back({ thread_key(warp[l].agent), warp[l].clock });
        }
    all = join(all, clocks);
    for (unsigned l = 0; l < 32; l++) {
        fiber &f = warp[l];
        if (!(mask >> l & 1))
            continue;
        if (op == EMU_SHUFFLE && (f.source > 31 || !(mask >> f.source & 1)))
            found("warp", "lane %u of %s shuffles from lane %u, which is not in the mask %#x", l, who(f.agent).c_str(),
                  f.source, mask);
        f.result = op == EMU_SHUFFLE ? warp[f.source & 31].value : bits;
        if (op == EMU_SYNC)
            f.knows = all, f.clock++;
        let(f);
    }
}

uint64_t emu_warp(emu_warp_op op, unsigned mask, uint64_t value, unsigned source)
{
    fiber *f = self;
    block &b = *f->in;
    unsigned lane = f->number % 32, first = f->number - lane;
    unsigned lanes = std::min<unsigned>(32, (unsigned)b.fibers.size() - first);
    fiber *warp = &b.fibers[first];
    bool all = true;

    if (lanes < 32 && op == EMU_MMA)
        found("warp", "%s multiplies by a warp of %u threads", running_name().c_str(), lanes);
    if (lanes < 32)
        mask &= (1u << lanes) - 1;
    if (!(mask >> lane & 1)) {
        found("warp", "%s calls an operation of its warp with the mask %#x, which leaves it out",
              running_name().c_str(), mask);
        mask |= 1u << lane;
    }
    f->op = op, f->mask = mask, f->value = value, f->source = source, f->is = fiber::WARP;
    for (unsigned l = 0; l < lanes; l++) {
        if (!(mask >> l & 1))
            continue;
        if (warp[l].is == fiber::ENDED)
            found("warp", "%s waits for lane %u, which has ended", running_name().c_str(), l);
        all = all && warp[l].is == fiber::WARP && warp[l].mask == mask && warp[l].op == op;
    }
    if (all)
        end_warp_op(warp, mask, op);
    leave(f);
    return f->result;
}
