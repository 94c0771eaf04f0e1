/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, errors, and what every call does first.
 */
#include "../emu.h"
#include "emu.hh"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace emu
{
struct plan {
    std::string call;
    int nth, code;
    bool turns; // not all
};
static std::vector<plan> &plans = *new std::vector<plan>;
static std::map<std::string, size_t> &calls = *new std::map<std::string, size_t>;
static cudaError_t context_error;
static pid_t process;
static std::atomic<bool> has_ended;
static std::set<int> &destroyed = *new std::set<int>; // devices whose primary context has ended once
static int capability = 90;                           // of all devices: 10 * major + minor
static thread_local cudaError_t last_error;
static thread_local int chosen_device;
static thread_local std::vector<int> pushed;                   // by the driver interface; the last one is current
static std::map<int, int> &retained = *new std::map<int, int>; // by device, of its primary context
static std::set<int> &initialised = *new std::set<int>;        // devices: the runtime keeps their context

past &host_knows()
{
    static past *all = new past;
    return *all;
}
int current_device()
{
    return pushed.empty() ? chosen_device : pushed.back();
}
void context_fails(cudaError_t code)
{
    context_error = code;
}
cudaError_t context_state()
{
    return context_error;
}

/* The runtime makes the current device's context for whatever needs one; the driver interface never does. */
static bool makes_context(const std::string &call)
{
    static const std::set<std::string> without = { "cudaDeviceCanAccessPeer", "cudaDeviceGetAttribute",
                                                   "cudaGetDevice",           "cudaGetDeviceCount",
                                                   "cudaSetDevice",           "cudaGetDriverEntryPointByVersion" };
    return call.compare(0, 4, "cuda") == 0 && !without.count(call);
}

/* The runtime keeps the context that it has made, but none that was pushed: what it has there ends with it. */
static void use_context()
{
    int device = current_device();

    if (pushed.empty())
        initialised.insert(device);
    if (destroyed.count(device))
        found("context", "the runtime is used on device %d, whose context it knew was destroyed", device);
}

cudaError_t planned(const char *name)
{
    if (context_error)
        return context_error;
    for (plan &p : plans)
        if (p.call == name && p.nth >= 0 && (p.nth == 0 || --p.nth == 0)) {
            p.nth -= p.turns; // it was that one alone
            return (cudaError_t)p.code;
        }
    return cudaSuccess;
}

size_t shared_most()
{
    return (size_t)(capability < 80 ? 64 : capability == 80 ? 163 : capability < 90 ? 99 : 227) << 10;
}

void count(const char *what, size_t n)
{
    calls[what] += n;
}

/* Writes a line "name count" for each kind of call. */
static void write_counts()
{
    FILE *file = fopen(getenv("EMU_COUNTS"), "w");

    for (auto &c : calls)
        if (file)
            fprintf(file, "%s %zu\n", c.first.c_str(), c.second);
    if (file)
        fclose(file);
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
    if (!process && getenv("EMU_COUNTS"))
        atexit(write_counts);
    if (!process)
        atexit([] { has_ended = true; });
    process = getpid();
    calls[name]++;
    refused = has_ended ? cudaErrorCudartUnloading : planned("init");
    if (!refused && !setting().devices)
        refused = cudaErrorNoDevice;
    if (!refused)
        refused = planned(name);
    if (!refused && makes_context(name))
        use_context();
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
    NAME(cudaErrorCudartUnloading),
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

    plans.push_back({ call, nth, code, nth > 0 });
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
    (pushed.empty() ? chosen_device : pushed.back()) = device;
    initialised.insert(device);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    EMU_CALL(cudaGetDevice);
    *device = current_device();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    const std::map<int, int> values = {
        { cudaDevAttrMaxThreadsPerBlock, 1024 },
        { cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10 },
        { cudaDevAttrMaxThreadsPerMultiProcessor, 2048 },
        { cudaDevAttrComputeCapabilityMajor, capability / 10 },
        { cudaDevAttrComputeCapabilityMinor, capability % 10 },
        { cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)shared_most() + 1024 },
        { cudaDevAttrCanUseHostPointerForRegisteredMem, 1 },
        { cudaDevAttrCooperativeLaunch, 1 },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)shared_most() },
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
    static const std::map<std::string, void *> functions = {
        { "cuCtxPopCurrent", (void *)cuCtxPopCurrent },
        { "cuCtxPushCurrent", (void *)cuCtxPushCurrent },
        { "cuDeviceGetUuid", (void *)cuDeviceGetUuid },
        { "cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease },
        { "cuDevicePrimaryCtxRetain", (void *)cuDevicePrimaryCtxRetain },
        { "cuEventQuery", (void *)cuEventQuery },
        { "cuPointerGetAttributes", (void *)cuPointerGetAttributes },
        { "cuStreamWaitValue32", (void *)cuStreamWaitValue32 },
        { "cuStreamWriteValue32", (void *)cuStreamWriteValue32 },
    };
    auto i = functions.find(symbol);
    *function = i == functions.end() ? nullptr : i->second;
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

/* ---- contexts of the driver interface: the devices' primary ones ---- */

static CUcontext context_of(int device)
{
    return (CUcontext)(uintptr_t)(device + 1);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    *uuid = { "GPU" };
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    emu::call call("cuDevicePrimaryCtxRetain");
    if (call.refused)
        return (CUresult)call.refused;
    if (device < 0 || device >= setting().devices)
        return CUDA_ERROR_INVALID_DEVICE;
    retained[device]++;
    *context = context_of(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    emu::call call("cuDevicePrimaryCtxRelease");
    if (!retained[device])
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!--retained[device] && !initialised.count(device))
        destroyed.insert(device);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    emu::call call("cuCtxPushCurrent");
    if (call.refused == cudaErrorCudartUnloading)
        return (CUresult)call.refused;
    int device = (int)(uintptr_t)context - 1;
    if (!retained[device] && !initialised.count(device))
        return CUDA_ERROR_INVALID_CONTEXT;
    pushed.push_back(device);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    emu::call call("cuCtxPopCurrent");
    if (call.refused == cudaErrorCudartUnloading)
        return (CUresult)call.refused;
    if (pushed.empty())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = context_of(pushed.back());
    pushed.pop_back();
    return CUDA_SUCCESS;
}

void emu_capability(int major_minor)
{
    held l(gate);

    capability = major_minor;
}

int emu_has_context(int device)
{
    held l(gate);

    return retained[device] || initialised.count(device);
}
