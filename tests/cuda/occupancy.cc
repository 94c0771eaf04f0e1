/* SPDX-License-Identifier: Apache-2.0
 *
 * How many of a multiprocessor's warps kernels keep busy, by CUDA's own calculator. Each line of standard input is a
 * kernel: name, architecture (75, 80, 90, 100), registers of a thread, shared memory of a block, threads of a block.
 * Prints the name, the architecture and the share in percent. What the architectures have is from the CUDA C++
 * Programming Guide's table of compute capabilities.
 */
#include <cuda_occupancy.h>
#include <iostream>
#include <string>

static cudaOccDeviceProp properties_of(int architecture)
{
    cudaOccDeviceProp p = {};
    const size_t shared_kb = architecture == 75 ? 64 : architecture == 80 ? 164 : 228;
    const size_t reserved_kb = architecture == 75 ? 0 : 1;

    p.computeMajor = architecture / 10;
    p.computeMinor = architecture % 10;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsPerMultiprocessor = architecture == 75 ? 1024 : 2048;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.sharedMemPerBlock = 48 << 10;
    p.sharedMemPerMultiprocessor = shared_kb << 10;
    p.sharedMemPerBlockOptin = (shared_kb - reserved_kb) << 10;
    p.reservedSharedMemPerBlock = reserved_kb << 10;
    p.numSms = 1;
    return p;
}

int main()
{
    std::string name;
    int architecture, registers, shared, threads;

    while (std::cin >> name >> architecture >> registers >> shared >> threads) {
        const cudaOccDeviceProp properties = properties_of(architecture);
        cudaOccFuncAttributes kernel = {};
        const cudaOccDeviceState state = {};
        cudaOccResult result = {};

        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.sharedSizeBytes = shared;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_DEFAULT;
        kernel.maxDynamicSharedSizeBytes = properties.sharedMemPerBlockOptin;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &kernel, &state, threads, 0)) {
            std::cerr << "the calculator refuses " << name << " for sm_" << architecture << '\n';
            return 1;
        }
        std::cout << name << ' ' << architecture << ' '
                  << 100 * result.activeBlocksPerMultiprocessor * threads / properties.maxThreadsPerMultiprocessor
                  << '\n';
    }
    return 0;
}
