/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomics and fences, and what they order: a release (or a fence before a relaxed store) tells what the thread knows to
 * whoever acquires it (or reads it and has a fence then), if the scopes of both reach from one to the other.
 */
#include "block.hh"
#include <unordered_map>

namespace emu
{
void access(const void *p, size_t n, int how, bool aligned, const void *code);

static std::unordered_map<const void *, publications> &told = *new std::unordered_map<const void *, publications>;

static publications &told_at(const void *p)
{
    shared_place place;

    return find_shared(p, place) ? self->in->told[p] : told[p];
}

static bool reaches(const publication &by, emu_scope scope, const accessor &to)
{
    if (by.block && by.block == to.block)
        return true;
    scope = std::min(scope, by.scope);
    return scope == EMU_SYSTEM || (scope == EMU_DEVICE && by.device == to.device);
}

static bool acquires(emu_order o)
{
    return o == EMU_ACQUIRE || o == EMU_BOTH;
}
static bool releases(emu_order o)
{
    return o == EMU_RELEASE || o == EMU_BOTH;
}

static void take(const publications &all, emu_order order, emu_scope scope)
{
    fiber *f = self;

    for (const publication &one : all) {
        if (acquires(order)) {
            if (reaches(one, scope, *f))
                f->knows = join(f->knows, one.knows);
            continue;
        }
        bool had = false;
        for (const publication &s : f->seen)
            had = had || s.knows == one.knows;
        if (!had)
            f->seen.push_back({ one.knows, std::min(one.scope, scope), one.block, one.device });
    }
}

static past everything(fiber *f)
{
    past all = join(f->knows, { { thread_key(f->agent), f->clock }, { block_key(f->block), f->base } });

    f->clock++;
    return all;
}

static void tell(publications &to, bool replace, emu_order order, emu_scope scope)
{
    fiber *f = self;
    past what = releases(order) ? everything(f) : f->fenced;

    if (!releases(order) && f->fenced)
        scope = std::min(scope, f->fence_scope);
    if (replace)
        to.clear();
    if (what)
        to.push_back({ what, scope, f->block, f->device });
}

/* For operations of streams on a word of memory. */
void tell_by_stream(const void *p, const past &knows)
{
    told[p] = { { knows, EMU_SYSTEM, 0, -1 } };
}

past taken_by_stream(const void *p)
{
    past all;

    for (const publication &one : told[p])
        if (one.scope == EMU_SYSTEM)
            all = join(all, one.knows);
    return all;
}
} // namespace emu

using namespace emu;

#define CODE __builtin_return_address(0)

uint64_t emu_peek(const void *p, unsigned bytes)
{
    preempt();
    access(p, bytes, READ | ATOMIC, true, CODE);
    return bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED)
                      : __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

uint64_t emu_load(const void *p, unsigned bytes, emu_order order, emu_scope scope)
{
    fiber *f = self;

    preempt();
    access(p, bytes, READ | ATOMIC, true, CODE);
    uint64_t v = bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE)
                            : __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
    take(told_at(p), order, scope);
    if (f->reads_again(p, v))
        spin();
    return v;
}

void emu_store(void *p, unsigned bytes, uint64_t v, emu_order order, emu_scope scope)
{
    preempt();
    access(p, bytes, WRITE | ATOMIC, true, CODE);
    tell(told_at(p), true, order, scope);
    self->forget_reads();
    if (bytes == 4)
        __atomic_store_n((uint32_t *)p, (uint32_t)v, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)p, v, __ATOMIC_RELEASE);
}

bool emu_exchange_if(void *p, unsigned bytes, uint64_t *expected, uint64_t v, emu_order order, emu_scope scope)
{
    uint32_t narrow = (uint32_t)*expected;
    bool done =
        bytes == 4 ? __atomic_compare_exchange_n((uint32_t *)p, &narrow, (uint32_t)v, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE)
                   : __atomic_compare_exchange_n((uint64_t *)p, expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);

    if (bytes == 4)
        *expected = narrow;
    if (!done)
        return false;
    access(p, bytes, WRITE | ATOMIC, true, CODE);
    take(told_at(p), order, scope);
    tell(told_at(p), false, order, scope);
    if (v != *expected)
        self->forget_reads();
    else if (self->reads_again(p, v)) // perhaps it waits for another value
        spin();
    return true;
}

void emu_fence(emu_order order, emu_scope scope)
{
    fiber *f = self;

    if (acquires(order)) {
        for (const publication &one : f->seen)
            if (reaches(one, scope, *f))
                f->knows = join(f->knows, one.knows);
        f->seen.clear();
    }
    if (releases(order))
        f->fenced = everything(f), f->fence_scope = scope;
}
