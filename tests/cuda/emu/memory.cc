/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory. A device's is a part of an arena that only the device thread can touch (a host that does is found by the
 * fault): the processor's protection keys are a thread's. Where there are none, the pages are protected whenever the
 * device thread does not run, which takes half of a test's time. Each piece begins at a page, is followed by a page of
 * no piece, and its address is never given out again, so that a use after it was freed is found. Its first FILLED bytes
 * are NaN, no more, since each page that is there costs time. The arena is a file in memory: another process maps a
 * piece of it.
 */
#include "emu.hh"
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu
{
enum : size_t { PAGE = 4096, FILLED = (size_t)256 << 10, ARENA = (size_t)8 << 30 };

static std::map<char *, region> &regions = *new std::map<char *, region>;
static std::set<std::pair<int, int>> &peers = *new std::set<std::pair<int, int>>; // device, and whose memory it reaches
static char *arena;
static int arena_file = -1;
static size_t arena_used;
static std::vector<size_t> &in_use = *new std::vector<size_t>(64); // of each device
static int key = -1;                                               // of device memory; -1: the processor has none
static bool is_open; // without a key: whether all threads may touch device memory

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static region *found_last[4]; // so that most accesses need no search; NULL: none

region *find_region(const void *p)
{
    region *&last = found_last[(size_t)p >> 12 & 3];

    if (last && (size_t)((const char *)p - last->base) < last->bytes)
        return last;
    auto i = regions.upper_bound((char *)p);
    return i == regions.begin() ? nullptr : last = &(--i)->second;
}

region *whole_region(const void *p, size_t bytes)
{
    region *r = find_region(p);

    return r && r->live && (const char *)p + bytes <= r->base + r->bytes ? r : nullptr;
}

bool may_reach(int device, const region &r)
{
    return r.kind == region::PINNED || !r.ours || r.device == device || peers.count({ device, r.device });
}

/* "byte 64 of 64 of device memory", for messages. */
std::string describe(const void *p)
{
    region *r = find_region(p);
    shared_place place;
    char text[200];

    if (running() && find_shared(p, place))
        snprintf(text, sizeof text, "%s, %zu bytes before its end", place.name, place.left);
    else if (r && (const char *)p < r->base + r->bytes + PAGE)
        snprintf(text, sizeof text, "byte %td of %zu of %s%s (device %d)", (const char *)p - r->base, r->bytes,
                 r->kind == region::DEVICE ? "device memory" : "pinned memory", r->live ? "" : " that was freed",
                 r->device);
    else
        snprintf(text, sizeof text, "%s %p",
                 (char *)p >= arena && (char *)p < arena + ARENA ? "device memory that nobody has,"
                                                                 : "memory of the host,",
                 p);
    return text;
}

static struct sigaction others; // what handled the signal before

static void on_fault(int signal, siginfo_t *info, void *context)
{
    region *r = find_region(info->si_addr);
    char *p = (char *)info->si_addr;

    if (running())
        found("bounds", "%s touches %s", running_name().c_str(), describe(p).c_str());
    else if ((r && r->kind == region::DEVICE && p < r->base + r->span) || (p >= arena && p < arena + ARENA))
        found("host-touch", "the host touches %s", describe(p).c_str());
    if (others.sa_flags & SA_SIGINFO && others.sa_sigaction)
        others.sa_sigaction(signal, info, context);
    else
        ::signal(SIGSEGV, SIG_DFL);
}

int arena_fd()
{
    if (arena)
        return arena_file;
    if (setting().keys)
        key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    arena_file = memfd_create("emu", MFD_CLOEXEC);
    if (arena_file < 0 || ftruncate(arena_file, ARENA))
        broken("no file in memory of %zu bytes", (size_t)ARENA);
    arena = (char *)mmap(nullptr, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, arena_file, 0);
    if (arena == MAP_FAILED)
        broken("no addresses for an arena of %zu bytes", (size_t)ARENA);
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &others);
    return arena_file;
}

static void protect(int how)
{
    if (arena_used)
        mprotect(arena, arena_used, how);
    for (auto &[base, r] : regions)
        if (r.kind == region::DEVICE && !r.ours && r.live)
            mprotect(base, r.span, how);
}

/* Leaves device memory to the device thread. */
static void guard(char *base, size_t span)
{
    if (is_off("host-touch"))
        return;
    if (key >= 0 ? pkey_mprotect(base, span, PROT_READ | PROT_WRITE, key)
                 : mprotect(base, span, is_open ? PROT_READ | PROT_WRITE : PROT_NONE))
        broken("device memory cannot be protected");
}

void memory_open()
{
    if (key >= 0)
        pkey_set(key, 0);
    else if (!is_open)
        protect(PROT_READ | PROT_WRITE);
    is_open = true;
}

void memory_shut()
{
    if (is_off("host-touch"))
        return;
    if (key >= 0)
        pkey_set(key, PKEY_DISABLE_ACCESS);
    else if (is_open)
        protect(PROT_NONE);
    is_open = false;
}

/* Of so many bytes: all 0, and memory only where they are used. */
cell *new_cells(size_t bytes)
{
    void *cells =
        mmap(nullptr, bytes * sizeof(cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (cells == MAP_FAILED)
        broken("no memory to note accesses to %zu bytes", bytes);
    return (cell *)cells;
}

void free_cells(cell *cells, size_t bytes)
{
    munmap(cells, bytes * sizeof *cells);
}

static region *add_region(region &&r)
{
    r.cells = r.bytes ? new_cells(r.bytes) : nullptr;
    return &(regions[r.base] = r);
}

region *new_region(size_t bytes, int device)
{
    size_t span = pages(bytes ? bytes : 1);

    arena_fd();
    if (in_use[device] + span > setting().memory)
        return nullptr;
    if (arena_used + span + PAGE > ARENA)
        broken("all addresses of the arena have been used");
    in_use[device] += span;
    region r = {};
    r.base = arena + arena_used, r.bytes = bytes, r.span = span, r.offset = arena_used;
    r.kind = region::DEVICE, r.device = device, r.live = r.ours = true;
    arena_used += span + PAGE;
    if (mprotect(r.base, span, PROT_READ | PROT_WRITE))
        broken("mprotect");
    memset(r.base, 0xff, std::min(span, (size_t)FILLED));
    guard(r.base, span);
    return add_region(std::move(r));
}

region *import_region(int fd, size_t offset, size_t span, size_t bytes, int device)
{
    arena_fd();
    void *p = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (p == MAP_FAILED)
        return nullptr;
    guard((char *)p, span);
    region r = {};
    r.base = (char *)p, r.bytes = bytes, r.span = span, r.kind = region::DEVICE, r.device = device;
    r.live = r.foreign = true;
    return add_region(std::move(r));
}

void forget_region(region *r)
{
    if (r->cells)
        free_cells(r->cells, r->bytes);
    r->cells = nullptr;
    r->live = false;
    if (r->kind == region::DEVICE && !r->ours)
        munmap(r->base, r->span);
    if (r->kind != region::PINNED && r->ours)
        return;
    std::fill(found_last, found_last + 4, nullptr);
    regions.erase(r->base);
}

void free_device_memory(region *r)
{
    in_use[r->device] -= r->span;
    forget_region(r);
    if (fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r->offset, (off_t)r->span))
        broken("fallocate");
}

static cudaError_t pin(void *memory, size_t bytes, bool ours)
{
    region r = {};

    r.base = (char *)memory, r.bytes = bytes, r.span = pages(bytes), r.kind = region::PINNED,
    r.device = current_device();
    r.live = r.foreign = true, r.ours = ours;
    add_region(std::move(r));
    return cudaSuccess;
}

static region *pinned_at(void *p, bool ours)
{
    region *r = find_region(p);

    return r && r->base == p && r->kind == region::PINNED && r->live && r->ours == ours ? r : nullptr;
}
} // namespace emu

using namespace emu;

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    EMU_CALL(cudaMalloc);
    if (forbidden_in_capture(nullptr))
        return call.fail(cudaErrorStreamCaptureUnsupported);
    region *r = new_region(bytes, current_device());
    if (!r)
        return call.fail(cudaErrorMemoryAllocation);
    *memory = r->base;
    return cudaSuccess;
}

static region *to_free(const char *call, void *memory)
{
    region *r = find_region(memory);

    if (r && r->base == memory && r->kind == region::DEVICE && r->live && r->ours)
        return r;
    found("freed", "%s of %s, which is no piece of device memory", call, describe(memory).c_str());
    return nullptr;
}

cudaError_t cudaFree(void *memory)
{
    EMU_CALL(cudaFree);
    region *r = memory ? to_free("cudaFree", memory) : nullptr;
    if (!r)
        return memory ? call.fail(cudaErrorInvalidValue) : cudaSuccess;
    wait_for_all(call.l, r->device);
    check_exports(memory);
    free_device_memory(r);
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    EMU_CALL(cudaMallocAsync);
    region *r = new_region(bytes, stream_of(stream)->device);
    if (!r)
        return call.fail(cudaErrorMemoryAllocation);
    r->pooled = true;
    *memory = r->base;
    return cudaSuccess;
}

/* Freed when the stream comes to it: what is not ordered before it may then find it gone. */
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    EMU_CALL(cudaFreeAsync);
    region *r = to_free("cudaFreeAsync", memory);
    if (!r)
        return call.fail(cudaErrorInvalidValue);
    operation work;
    work.name = "cudaFreeAsync";
    work.step = [r](operation &o) {
        accessor by;
        by.operation = o.number, by.agent = new_agent(o.number, 0, 0), by.device = o.device, by.knows = o.start;
        check_range(by, r->base, r->bytes, WRITE, "cudaFreeAsync");
        free_device_memory(r);
        return DONE;
    };
    enqueue(call.l, stream, std::move(work));
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    EMU_CALL(cudaMemGetInfo);
    *total = setting().memory;
    *free = *total - in_use[current_device()];
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    EMU_CALL(cudaHostAlloc);
    void *p = mmap(nullptr, pages(bytes ? bytes : 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return call.fail(cudaErrorMemoryAllocation);
    memset(p, 0xff, bytes);
    *memory = p;
    return pin(p, bytes, true);
}

cudaError_t cudaFreeHost(void *memory)
{
    EMU_CALL(cudaFreeHost);
    region *r = memory ? pinned_at(memory, true) : nullptr;
    if (!r)
        return memory ? call.fail(cudaErrorInvalidValue) : cudaSuccess;
    for (int device = 0; device < setting().devices; device++)
        wait_for_all(call.l, device);
    size_t span = r->span;
    forget_region(r);
    munmap(memory, span ? span : PAGE);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    EMU_CALL(cudaHostRegister);
    if (forbidden_in_capture(nullptr))
        return call.fail(cudaErrorStreamCaptureUnsupported);
    region *r = find_region((char *)memory + bytes - 1);
    if (!memory || !bytes)
        return call.fail(cudaErrorInvalidValue);
    if (r && r->live && r->base + r->bytes > (char *)memory)
        return call.fail(cudaErrorHostMemoryAlreadyRegistered);
    return pin(memory, bytes, false);
}

cudaError_t cudaHostUnregister(void *memory)
{
    EMU_CALL(cudaHostUnregister);
    region *r = pinned_at(memory, false);
    if (!r)
        return call.fail(cudaErrorHostMemoryNotRegistered);
    if (is_used(r->base, r->bytes))
        found("freed", "cudaHostUnregister of %s, which a copy uses", describe(memory).c_str());
    forget_region(r);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    EMU_CALL(cudaHostGetDevicePointer);
    region *r = whole_region(host, 1);
    if (!r || r->kind != region::PINNED)
        return call.fail(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
{
    EMU_CALL(cudaPointerGetAttributes);
    region *r = whole_region(pointer, 1);
    void *p = (void *)pointer;
    if (!r)
        *attributes = { cudaMemoryTypeUnregistered, -2, nullptr, p };
    else if (r->kind == region::PINNED)
        *attributes = { cudaMemoryTypeHost, r->device, p, p };
    else
        *attributes = { cudaMemoryTypeDevice, r->device, p, nullptr };
    return cudaSuccess;
}

/* Memory that it does not know has zeros. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    emu::call call("cuPointerGetAttributes");
    if (call.refused)
        return (CUresult)call.refused;
    region *r = whole_region((const void *)pointer, 1);
    for (unsigned i = 0; i < count; i++)
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)data[i] = !r ? 0 : r->kind == region::PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)data[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)data[i] = r ? r->device : -2;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    EMU_CALL(cudaDeviceCanAccessPeer);
    if (device < 0 || peer < 0 || device >= setting().devices || peer >= setting().devices)
        return call.fail(cudaErrorInvalidDevice);
    *can = device != peer && setting().peers;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    EMU_CALL(cudaDeviceEnablePeerAccess);
    if (peer < 0 || peer >= setting().devices || peer == current_device())
        return call.fail(cudaErrorInvalidDevice);
    if (flags)
        return call.fail(cudaErrorInvalidValue);
    if (!setting().peers)
        return call.fail(cudaErrorPeerAccessUnsupported);
    return peers.insert({ current_device(), peer }).second ? cudaSuccess : call.fail(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    EMU_CALL(cudaDeviceDisablePeerAccess);
    return peers.erase({ current_device(), peer }) ? cudaSuccess : call.fail(cudaErrorPeerAccessNotEnabled);
}
