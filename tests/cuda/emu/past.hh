/* SPDX-License-Identifier: Apache-2.0
 *
 * What is ordered before a moment: a vector clock with few entries. A key is a CUDA thread, a block or a queue of
 * operations; up to `reach` of it is known. Shared and never changed, so that the threads of a block hold one after a
 * barrier.
 */
#ifndef EMU_PAST_HH
#define EMU_PAST_HH

#include <cstdint>
#include <memory>
#include <vector>

namespace emu
{
struct known {
    uint64_t key, reach;
};
using past = std::shared_ptr<const std::vector<known>>; // sorted by key; NULL: nothing

enum : uint64_t { BLOCK_KEY = 1ull << 62, QUEUE_KEY = 2ull << 62 };
inline uint64_t thread_key(uint32_t agent)
{
    return agent;
}
inline uint64_t block_key(uint32_t block)
{
    return BLOCK_KEY | block;
}
inline uint64_t queue_key(uint64_t queue)
{
    return QUEUE_KEY | queue;
}

past join(const past &a, const past &b);
past join(const past &a, std::vector<known> more);
uint64_t reach(const past &p, uint64_t key);
} // namespace emu

#endif
