/* SPDX-License-Identifier: Apache-2.0
 *
 * Every access of a kernel. tests/cuda/compile has the compiler call these functions before each access, as it would
 * those of a thread sanitizer. They find what compute-sanitizer's memcheck, racecheck and initcheck find, and races
 * between operations of streams as well: for each byte there is who wrote and who read it last, and two accesses must
 * be ordered by what CUDA orders by: barriers, fences and atomics of the right scope, streams and events. So a missing
 * one is found in whatever order the threads happened to run.
 */
#include "emu.hh"
#include <cstring>
#include <sys/mman.h>

namespace emu
{
struct agent {
    uint32_t operation, block, thread;
};
struct known_block {
    uint32_t operation;
    uint3 at;
};
struct known_operation {
    std::string name;
    const void *kernel;
    uint64_t queue, turn;
};
static std::deque<agent> agents(1);
static std::deque<known_block> blocks(1);
static std::deque<known_operation> operations(1);

uint32_t new_agent(uint32_t operation, uint32_t block, uint32_t thread)
{
    agents.push_back({ operation, block, thread });
    return (uint32_t)agents.size() - 1;
}

uint32_t new_block(uint32_t operation, uint3 at)
{
    blocks.push_back({ operation, at });
    return (uint32_t)blocks.size() - 1;
}

uint32_t new_operation(const char *name, const void *kernel, uint64_t queue, uint64_t turn)
{
    operations.push_back({ name, kernel, queue, turn });
    return (uint32_t)operations.size() - 1;
}

std::string operation_name(uint32_t operation)
{
    const known_operation &o = operations[operation];

    return o.kernel ? "kernel " + code_at(o.kernel) : o.name;
}

std::string who(uint32_t number)
{
    const agent &a = agents[number];
    char place[96] = "";

    if (a.block)
        snprintf(place, sizeof place, "thread %u of block (%u,%u,%u) of ", a.thread, blocks[a.block].at.x,
                 blocks[a.block].at.y, blocks[a.block].at.z);
    return place + operation_name(a.operation);
}

bool ordered(epoch before, const accessor &now)
{
    uint32_t number = (uint32_t)(before >> 32), clock = (uint32_t)before >> 1;

    if (number == now.agent)
        return true;
    const agent &a = agents[number];
    if (a.block && a.block == now.block && clock < now.base)
        return true;
    if (a.operation != now.operation) {
        const known_operation &o = operations[a.operation];
        if (reach(now.knows, queue_key(o.queue)) >= o.turn)
            return true;
    }
    return (a.block && a.block != now.block && reach(now.knows, block_key(a.block)) > clock) ||
           reach(now.knows, thread_key(number)) >= clock;
}

past without(const past &all, uint32_t operation)
{
    auto rest = std::make_shared<std::vector<known>>();

    for (const known &k : all ? *all : std::vector<known>())
        if (k.key >= QUEUE_KEY ||
            (k.key >= BLOCK_KEY ? blocks[(uint32_t)k.key].operation : agents[k.key].operation) != operation)
            rest->push_back(k);
    return rest;
}

static void race(epoch before, bool wrote, const accessor &by, int how, const void *at, const void *code)
{
    found("race", "%s by %s%s%s of %s is not ordered after the %s by %s", how & WRITE ? "the write" : "the read",
          who(by.agent).c_str(), code ? " at " : "", code ? code_at(code).c_str() : "", describe(at).c_str(),
          wrote ? "write" : "read", who((uint32_t)(before >> 32)).c_str());
}

static void note_read(cell &c, epoch now, uint32_t agent)
{
    if (c.read >> 32 == agent) {
        c.read = now;
        return;
    }
    const struct agent &last = agents[(uint32_t)(c.read >> 32)], &reader = agents[agent];
    if (c.read && (!c.read_by_other || last.block != reader.block || last.thread / 32 != reader.thread / 32))
        c.read_by_other = c.read;
    c.read = now;
}

/* Checks one byte's cell, and notes the access. */
static void check_cell(cell &c, epoch now, int how, accessor &by, const void *at, const void *code)
{
    static const bool races = !is_off("race");

    if (races && c.written && !(c.written & how >> 1 & 1) && !ordered(c.written, by))
        race(c.written, true, by, how, at, code);
    if (!(how & WRITE)) {
        note_read(c, now, by.agent);
        return;
    }
    for (epoch e : { c.read, c.read_by_other })
        if (races && e && !(e & how >> 1 & 1) && !ordered(e, by))
            race(e, false, by, how, at, code);
    c = { now, 0, 0 };
}

void check_cells(cell *cells, size_t n, int how, accessor &by, const region *in, const void *at, const void *code)
{
    static const bool initial = !is_off("uninitialised");
    epoch now = (epoch)by.agent << 32 | (epoch)by.clock << 1 | (how & ATOMIC ? 1 : 0);
    cell before = {}, after = {}; // of the byte before: mostly it is the same again

    for (size_t i = 0; i < n; i++) {
        cell &c = cells[i];
        const char *place = (const char *)at + i;
        if (!c.written && initial && !(how & WRITE) && !(in && in->foreign) && by.block)
            found("uninitialised", "%s reads %s at %s, which nothing has written", who(by.agent).c_str(),
                  describe(place).c_str(), code_at(code).c_str());
        if (i && c.written == before.written && c.read == before.read && c.read_by_other == before.read_by_other) {
            c = after;
            continue;
        }
        before = c;
        check_cell(c, now, how, by, place, code);
        after = c;
    }
}

/* The same for a whole range that an operation copies or fills. */
void check_range(accessor &by, const void *p, size_t bytes, int how, const char *what)
{
    region *r = whole_region(p, bytes);

    if (!r) {
        found("bounds", "%s: %zu bytes at %s", what, bytes, describe(p).c_str());
        return;
    }
    if (r->cells)
        check_cells(r->cells + ((const char *)p - r->base), bytes, how, by, r, p, nullptr);
}

/* The cells of what a CUDA thread accesses; NULL: there is nothing to check, or it was found to be wrong. */
static cell *find_cells(const char *p, size_t n, region **in, const void *code)
{
    shared_place place;

    *in = nullptr;
    if (find_shared(p, place)) {
        if (n <= place.left)
            return place.cells;
        found("bounds", "%s accesses %zu bytes at %s, %zu before the end of %s", running_name().c_str(), n,
              code_at(code).c_str(), place.left, place.name);
        return nullptr;
    }
    region *r = find_region(p);
    if (!r || p >= r->base + r->bytes + 4096) {
        found(r || !p ? "bounds" : "host-memory", "%s accesses %s at %s", running_name().c_str(), describe(p).c_str(),
              code_at(code).c_str());
        return nullptr;
    }
    if (!r->live)
        found("freed", "%s accesses %s at %s", running_name().c_str(), describe(p).c_str(), code_at(code).c_str());
    else if (p + n > r->base + r->bytes)
        found("bounds", "%s accesses %zu bytes of %s at %s", running_name().c_str(), n, describe(p).c_str(),
              code_at(code).c_str());
    else {
        *in = r;
        return r->cells ? r->cells + (p - r->base) : nullptr;
    }
    return nullptr;
}

/* A kernel's access, n bytes at p, from the code there. */
void access(const void *p, size_t n, int how, bool aligned, const void *code)
{
    accessor *by = running_accessor();
    region *in;

    if (!by || on_stack(p))
        return;
    if (!(how & ATOMIC))
        no_spin();
    if (aligned && (size_t)p % n) {
        found("alignment", "%s accesses %zu bytes of %s at %s", running_name().c_str(), n, describe(p).c_str(),
              code_at(code).c_str());
        return;
    }
    cell *cells = find_cells((const char *)p, n, &in, code);
    if (in && !may_reach(by->device, *in))
        found("peer", "%s on device %d accesses %s at %s without access to its peer", running_name().c_str(),
              by->device, describe(p).c_str(), code_at(code).c_str());
    if (cells)
        check_cells(cells, n, how, *by, in, p, code);
    note_access(p, n, code, in);
}
} // namespace emu

/* What the compiler calls, renamed by tests/cuda/compile. */
#define CODE __builtin_return_address(0)
#define ACCESS(name, n, how, aligned)              \
    extern "C" void name(void *p)                  \
    {                                              \
        if (emu::running()) {                      \
            emu::preempt();                        \
            emu::access(p, n, how, aligned, CODE); \
        }                                          \
    }
#define ACCESSES(n)                                                 \
    ACCESS(emu_tsan_read##n, n, emu::READ, true)                    \
    ACCESS(emu_tsan_write##n, n, emu::WRITE, true)                  \
    ACCESS(emu_tsan_unaligned_read##n, n, emu::READ, false)         \
    ACCESS(emu_tsan_unaligned_write##n, n, emu::WRITE, false)       \
    extern "C" void emu_tsan_volatile_read##n(void *p)              \
    {                                                               \
        if (emu::running()) {                                       \
            emu::access(p, n, emu::READ | emu::ATOMIC, true, CODE); \
            emu::spin();                                            \
        }                                                           \
    }                                                               \
    ACCESS(emu_tsan_volatile_write##n, n, emu::WRITE | emu::ATOMIC, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

extern "C" void emu_tsan_read_range(void *p, size_t n)
{
    if (emu::running())
        emu::access(p, n, emu::READ, false, CODE);
}
extern "C" void emu_tsan_write_range(void *p, size_t n)
{
    if (emu::running())
        emu::access(p, n, emu::WRITE, false, CODE);
}
extern "C" void *emu_memcpy(void *to, const void *from, size_t n)
{
    if (emu::running() && n) {
        emu::access(from, n, emu::READ, false, CODE);
        emu::access(to, n, emu::WRITE, false, CODE);
    }
    return memcpy(to, from, n);
}
extern "C" void *emu_memset(void *to, int v, size_t n)
{
    if (emu::running() && n)
        emu::access(to, n, emu::WRITE, false, CODE);
    return memset(to, v, n);
}
extern "C" void emu_tsan_init()
{
}
extern "C" void emu_tsan_func_entry(void *)
{
}
extern "C" void emu_tsan_func_exit()
{
}

/* An index outside of an array whose size the compiler knows. */
extern "C" void emu_ubsan_handle_out_of_bounds(void *where, size_t index)
{
    const struct {
        const char *file;
        unsigned line;
    } *at = static_cast<decltype(at)>(where);

    if (emu::running())
        emu::found("bounds", "%s: index %zu outside of an array at %s:%u", emu::running_name().c_str(), index, at->file,
                   at->line);
}

/* A pointer to a type that must be aligned. */
extern "C" void emu_ubsan_handle_type_mismatch_v1(void *where, size_t p)
{
    const struct {
        const char *file;
        unsigned line;
    } *at = static_cast<decltype(at)>(where);

    if (emu::running())
        emu::found("alignment", "%s accesses %s at %s:%u, where its type must be aligned", emu::running_name().c_str(),
                   emu::describe((void *)p).c_str(), at->file, at->line);
}
