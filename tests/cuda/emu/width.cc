/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a launch, against the limits of emu_limit: how much one thread does, how many threads do something, and
 * how the accesses of a warp lie. An instruction of a warp is what its lanes do at the same place in the code for the
 * same time.
 */
#include "../emu.h"
#include "block.hh"

namespace emu
{
enum : size_t { SECTOR = 32, VECTOR = 16, WORTH_A_THREAD = 32 };

static emu_limits given;

void limit_grid(grid &g)
{
    g.limit = given;
}

void note_access(const void *p, size_t n, const void *code, bool in_device)
{
    fiber &f = *self;
    grid &g = *f.in->of;
    const emu_limits &most = g.limit;

    if (!most.accesses && !most.threads && !most.sectors)
        return;
    bool is_part = p == f.end && (size_t)p % VECTOR; // the compiler takes vectors apart
    f.end = (const char *)p + n;
    g.accesses += !is_part;
    g.active += in_device && !f.is_active;
    f.is_active = f.is_active || in_device;
    if (!is_part && ++f.accesses == most.accesses + 1 && most.accesses)
        found("span", "%s accesses memory more than %zu times, lately at %s", running_name().c_str(), most.accesses,
              code_at(code).c_str());
    if (!in_device || !most.sectors)
        return;
    auto &sectors = f.in->sectors[{ f.number / 32, code, f.times[code]++ }];
    for (size_t at = (size_t)p / SECTOR; at <= ((size_t)p + n - 1) / SECTOR; at++)
        sectors.insert(at);
    if (sectors.size() > most.sectors)
        found("sectors", "the warp of %s accesses more than %zu sectors at once at %s", running_name().c_str(),
              most.sectors, code_at(code).c_str());
}

void check_width(const grid &g)
{
    if (g.active < g.limit.threads && g.accesses > WORTH_A_THREAD * g.limit.threads)
        found("width", "%zu threads of %s make all of its %zu accesses, not %zu threads", g.active,
              operation_name(g.work->number).c_str(), g.accesses, g.limit.threads);
}
} // namespace emu

void emu_limit(const emu_limits *limits)
{
    std::lock_guard<std::mutex> l(emu::gate);
    emu::given = limits ? *limits : emu_limits{};
}
