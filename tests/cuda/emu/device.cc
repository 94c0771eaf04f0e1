/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, errors, and what every call does first.
 */
#include "../emu.h"
#include "emu.hh"
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace emu
{
struct plan {
    std::string call;
    int nth, code;
};
static std::vector<plan> &plans = *new std::vector<plan>;
static std::map<std::string, size_t> &calls = *new std::map<std::string, size_t>;
static cudaError_t context_error;
static pid_t process;
static thread_local cudaError_t last_error;
static thread_local int chosen_device;

past &host_knows()
{
    static past *all = new past;
    return *all;
}
int &current_device()
{
    return chosen_device;
}
void context_fails(cudaError_t code)
{
    context_error = code;
}
cudaError_t context_state()
{
    return context_error;
}

cudaError_t planned(const char *name)
{
    if (context_error)
        return context_error;
    for (plan &p : plans)
        if (p.call == name && (p.nth == 0 || --p.nth == 0)) {
            if (p.nth == 0 && p.call != "init")
                p.nth = -1;
            return (cudaError_t)p.code;
        }
    return cudaSuccess;
}

call::call(const char *name)
{
    if (running())
        broken("a kernel calls %s", name);
    if (in_host_function())
        found("host-function", "a host function calls %s", name);
    if (process && process != getpid())
        found("fork", "%s after a fork: the child cannot use CUDA", name);
    l = held(gate);
    process = getpid();
    calls[name]++;
    refused = planned("init");
    if (!refused && !setting().devices)
        refused = cudaErrorNoDevice;
    if (!refused)
        refused = planned(name);
}

cudaError_t call::fail(cudaError_t code)
{
    if (code)
        last_error = code;
    return code;
}

static const struct {
    cudaError_t code;
    const char *name;
} names[] = {
#define NAME(error)   \
    {                 \
        error, #error \
    }
    NAME(cudaSuccess),
    NAME(cudaErrorInvalidValue),
    NAME(cudaErrorMemoryAllocation),
    NAME(cudaErrorInitializationError),
    NAME(cudaErrorInvalidConfiguration),
    NAME(cudaErrorInsufficientDriver),
    NAME(cudaErrorDevicesUnavailable),
    NAME(cudaErrorNoDevice),
    NAME(cudaErrorInvalidDevice),
    NAME(cudaErrorPeerAccessUnsupported),
    NAME(cudaErrorInvalidResourceHandle),
    NAME(cudaErrorNotReady),
    NAME(cudaErrorIllegalAddress),
    NAME(cudaErrorPeerAccessAlreadyEnabled),
    NAME(cudaErrorPeerAccessNotEnabled),
    NAME(cudaErrorHostMemoryAlreadyRegistered),
    NAME(cudaErrorHostMemoryNotRegistered),
    NAME(cudaErrorLaunchFailure),
    NAME(cudaErrorCooperativeLaunchTooLarge),
    NAME(cudaErrorNotPermitted),
    NAME(cudaErrorNotSupported),
    NAME(cudaErrorStreamCaptureUnsupported),
    NAME(cudaErrorStreamCaptureInvalidated),
    NAME(cudaErrorStreamCaptureMerge),
    NAME(cudaErrorStreamCaptureUnmatched),
    NAME(cudaErrorStreamCaptureUnjoined),
    NAME(cudaErrorStreamCaptureIsolation),
    NAME(cudaErrorCapturedEvent),
};
} // namespace emu

using namespace emu;

void emu_fail(const char *call, int nth, int code)
{
    held l(gate);

    plans.push_back({ call, nth, code });
}

size_t emu_calls(const char *call)
{
    held l(gate);
    auto found = calls.find(call);

    return found == calls.end() ? 0 : found->second;
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (auto &n : names)
        if (n.code == error)
            return n.name;
    return "cudaErrorUnknown";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaPeekAtLastError(void)
{
    return context_error ? context_error : last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();

    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    EMU_CALL(cudaGetDeviceCount);
    *count = setting().devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    EMU_CALL(cudaSetDevice);
    if (device < 0 || device >= setting().devices)
        return call.fail(cudaErrorInvalidDevice);
    chosen_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    EMU_CALL(cudaGetDevice);
    *device = chosen_device;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    static const std::map<int, int> values = {
        { cudaDevAttrMaxThreadsPerBlock, 1024 },
        { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 },
        { cudaDevAttrMaxThreadsPerMultiProcessor, 2048 },
        { cudaDevAttrComputeCapabilityMajor, 9 },
        { cudaDevAttrComputeCapabilityMinor, 0 },
        { cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 << 10 },
        { cudaDevAttrCanUseHostPointerForRegisteredMem, 1 },
        { cudaDevAttrCooperativeLaunch, 1 },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 << 10 },
        { cudaDevAttrMultiProcessorCount, setting().multiprocessors },
    };
    EMU_CALL(cudaDeviceGetAttribute);
    auto i = values.find(attribute);
    if (device < 0 || device >= setting().devices)
        return call.fail(cudaErrorInvalidDevice);
    if (i == values.end())
        return call.fail(cudaErrorInvalidValue);
    *value = i->second;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *result)
{
    EMU_CALL(cudaGetDriverEntryPointByVersion);
    *function = !strcmp(symbol, "cuStreamWaitValue32")    ? (void *)cuStreamWaitValue32
                : !strcmp(symbol, "cuStreamWriteValue32") ? (void *)cuStreamWriteValue32
                                                          : nullptr;
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
