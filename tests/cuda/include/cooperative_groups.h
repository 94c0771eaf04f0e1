/* SPDX-License-Identifier: Apache-2.0
 *
 * Cooperative groups: a block, a grid launched cooperatively, a warp.
 */
#ifndef EMU_COOPERATIVE_GROUPS_H
#define EMU_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

#ifdef __cplusplus
namespace cooperative_groups
{
struct thread_block {
    void sync() const
    {
        emu_barrier();
    }
    unsigned thread_rank() const
    {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    unsigned size() const
    {
        return blockDim.x * blockDim.y * blockDim.z;
    }
};
struct grid_group {
    void sync() const
    {
        emu_grid_barrier();
    }
    bool is_valid() const
    {
        return true;
    }
    unsigned long long num_blocks() const
    {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z;
    }
    unsigned long long block_rank() const
    {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    unsigned long long size() const
    {
        return num_blocks() * thread_block().size();
    }
    unsigned long long thread_rank() const
    {
        return block_rank() * thread_block().size() + thread_block().thread_rank();
    }
};
template <unsigned N> struct thread_block_tile {
    static_assert(N > 0 && N <= 32 && !(N & (N - 1)));
    unsigned mask() const
    {
        return (N == 32 ? ~0u : ((1u << N % 32) - 1) << (emu_lane() & ~(N - 1)));
    }
    unsigned thread_rank() const
    {
        return emu_lane() & (N - 1);
    }
    static constexpr unsigned size()
    {
        return N;
    }
    void sync() const
    {
        __syncwarp(mask());
    }
    template <class T> T shfl(T v, unsigned source) const
    {
        return __shfl_sync(mask(), v, source, N);
    }
    template <class T> T shfl_xor(T v, unsigned x) const
    {
        return __shfl_xor_sync(mask(), v, x, N);
    }
    template <class T> T shfl_down(T v, unsigned d) const
    {
        return __shfl_down_sync(mask(), v, d, N);
    }
};
inline thread_block this_thread_block()
{
    return {};
}
inline grid_group this_grid()
{
    return {};
}
template <unsigned N> thread_block_tile<N> tiled_partition(const thread_block &)
{
    return {};
}
} // namespace cooperative_groups
#endif

#endif
