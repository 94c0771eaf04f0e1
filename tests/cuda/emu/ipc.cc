/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory of another process: a piece of the file in memory that its arena is. A handle stands for the whole
 * piece, wherever in it the pointer pointed.
 */
#include "emu.hh"
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu
{
struct memory_handle {
    pid_t process;
    int file, device, users; // users: a file with a count of those who have it open
    size_t offset, span, bytes;
};

struct opened {
    std::atomic<int> *users;
    int count; // times that this process opened it
    memory_handle handle;
};
static std::map<void *, opened> &imports = *new std::map<void *, opened>;
static std::map<void *, std::pair<int, std::atomic<int> *>> &exports =
    *new std::map<void *, std::pair<int, std::atomic<int> *>>;

static std::atomic<int> *map_users(int file)
{
    void *p = file < 0 ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

    return p == MAP_FAILED ? nullptr : (std::atomic<int> *)p;
}

static int open_of(pid_t process, int file)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, file);
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Freed by the process that made it: then nobody else may have it open. */
void check_exports(void *memory)
{
    auto i = exports.find(memory);

    if (i == exports.end())
        return;
    if (*i->second.second)
        found("ipc", "cudaFree of %s, which another process has open", describe(memory).c_str());
    munmap(i->second.second, 4096);
    close(i->second.first);
    exports.erase(i);
}
} // namespace emu

using namespace emu;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    EMU_CALL(cudaIpcGetMemHandle);
    region *r = whole_region(memory, 1);
    if (!r || r->kind != region::DEVICE || !r->ours || r->pooled)
        return call.fail(cudaErrorInvalidValue);
    auto &[file, users] = exports[r->base];
    if (!users) {
        file = memfd_create("emu-users", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, 4096) || !(users = map_users(file)))
            broken("no file for the users of a handle");
    }
    r->foreign = true;
    memory_handle h = { getpid(), arena_fd(), r->device, file, r->offset, r->span, r->bytes };
    static_assert(sizeof h <= sizeof *handle);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    EMU_CALL(cudaIpcOpenMemHandle);
    memory_handle h;
    memcpy(&h, &handle, sizeof h);
    if (flags != cudaIpcMemLazyEnablePeerAccess)
        return call.fail(cudaErrorInvalidValue);
    if (h.process == getpid())
        found("ipc", "cudaIpcOpenMemHandle in the process that made the handle");
    if (h.device != current_device() && !setting().peers)
        return call.fail(cudaErrorPeerAccessUnsupported);
    for (auto &[base, o] : imports)
        if (!memcmp(&o.handle, &h, sizeof h)) {
            o.count++;
            *memory = base;
            return cudaSuccess;
        }
    int file = open_of(h.process, h.file), counter = open_of(h.process, h.users);
    std::atomic<int> *users = map_users(counter);
    region *r = users ? import_region(file, h.offset, h.span, h.bytes, h.device) : nullptr;
    if (file >= 0)
        close(file);
    if (counter >= 0)
        close(counter);
    if (!r)
        return call.fail(cudaErrorInvalidResourceHandle);
    ++*users;
    imports[r->base] = { users, 1, h };
    *memory = r->base;
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    EMU_CALL(cudaIpcCloseMemHandle);
    auto i = imports.find(memory);
    if (i == imports.end())
        return call.fail(cudaErrorInvalidValue);
    if (--i->second.count)
        return cudaSuccess;
    --*i->second.users;
    munmap(i->second.users, 4096);
    imports.erase(i);
    forget_region(find_region(memory));
    return cudaSuccess;
}
