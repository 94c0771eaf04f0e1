/* SPDX-License-Identifier: Apache-2.0
 *
 * Events, also between processes, and operations of streams on words of memory.
 */
#include "emu.hh"
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu
{
struct counts { // of an event that processes share, in a file in memory
    std::atomic<uint64_t> recorded, done;
};
struct event_handle {
    pid_t process;
    int file;
};
} // namespace emu

struct CUevent_st {
    explicit CUevent_st(unsigned flags) : flags(flags)
    {
    }
    unsigned flags;
    std::shared_ptr<emu::mark> last; // NULL: not recorded by this process
    CUgraph_st *capture = nullptr;
    std::set<emu::node *> tail;
    int file = -1;
    emu::counts *shared = nullptr;
};

namespace emu
{
static std::set<CUevent_st *> &events = *new std::set<CUevent_st *>;

static CUevent_st *known_event(CUevent_st *e)
{
    if (!events.count(e))
        found("freed", "an event that was destroyed is used");
    return e;
}

static bool map_counts(CUevent_st *e)
{
    void *p = e->file < 0 ? MAP_FAILED : mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, e->file, 0);

    e->shared = p == MAP_FAILED ? nullptr : (counts *)p;
    return e->shared;
}

/* What must be done for the event to be: its last record by anybody. */
static std::function<bool()> when_done(CUevent_st *e)
{
    if (counts *c = e->shared) {
        uint64_t recorded = c->recorded;
        return [=] { return c->done >= recorded; };
    }
    auto last = e->last;
    return [=] { return !last || last->done; };
}

static void learn(CUevent_st *e)
{
    if (e->last && e->last->done)
        host_knows() = join(host_knows(), e->last->knows);
}
} // namespace emu

using namespace emu;

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    EMU_CALL(cudaEventCreateWithFlags);
    if (flags & ~(unsigned)(cudaEventDisableTiming | cudaEventInterprocess) || flags == cudaEventInterprocess)
        return call.fail(cudaErrorInvalidValue);
    auto e = new CUevent_st(flags);
    if (flags & cudaEventInterprocess) {
        e->file = memfd_create("emu-event", MFD_CLOEXEC);
        if (e->file < 0 || ftruncate(e->file, 4096) || !map_counts(e))
            broken("no file for an event");
    }
    events.insert(*event = e);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    EMU_CALL(cudaEventDestroy);
    if (!events.erase(event))
        return call.fail(cudaErrorInvalidResourceHandle);
    if (event->file >= 0)
        close(event->file); // operations under way still look at the counts
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    EMU_CALL(cudaEventRecord);
    CUstream_st *s = stream_of(stream);
    CUevent_st *e = known_event(event);
    e->capture = s->capture;
    e->tail = s->tail;
    if (s->capture)
        return cudaSuccess;
    counts *shared = e->shared;
    uint64_t turn = shared ? ++shared->recorded : 0;
    e->last = mark_here(call.l, s);
    if (!shared)
        return cudaSuccess;
    operation tell;
    tell.name = "an event for other processes";
    tell.step = [=](operation &) {
        for (uint64_t was = shared->done; was < turn && !shared->done.compare_exchange_weak(was, turn);) {
        }
        return DONE;
    };
    enqueue(call.l, stream, std::move(tell));
    return cudaSuccess;
}

static cudaError_t query(emu::call &call, CUevent_st *e)
{
    if (e->capture)
        return cudaErrorCapturedEvent;
    if (forbidden_in_capture(nullptr))
        return cudaErrorStreamCaptureUnsupported;
    if (!when_done(e)()) {
        drive_some(call.l, e->last ? e->last->stream : nullptr);
        return cudaErrorNotReady;
    }
    learn(e);
    return cudaSuccess;
}

/* That it has not come is remembered, too, for cudaGetLastError. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    EMU_CALL(cudaEventQuery);
    return call.fail(query(call, known_event(event)));
}

CUresult cuEventQuery(CUevent event)
{
    emu::call call("cuEventQuery");
    return (CUresult)(call.refused ? call.refused : query(call, known_event(event)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    EMU_CALL(cudaEventSynchronize);
    CUevent_st *e = known_event(event);
    if (e->capture)
        return call.fail(cudaErrorCapturedEvent);
    drive(call.l, when_done(e), e->last ? e->last->stream : nullptr, "cudaEventSynchronize");
    learn(e);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    EMU_CALL(cudaEventElapsedTime);
    for (CUevent_st *e : { known_event(from), known_event(to) }) {
        if (!e->last || e->flags & cudaEventDisableTiming)
            return call.fail(cudaErrorInvalidResourceHandle);
        if (!e->last->done)
            return cudaErrorNotReady;
    }
    *ms = (float)(to->last->at_ms - from->last->at_ms);
    return cudaSuccess;
}

static cudaError_t join_capture(CUstream_st *s, CUevent_st *e)
{
    if (!e->capture)
        return cudaErrorStreamCaptureIsolation;
    if (s->capture && s->capture != e->capture)
        return cudaErrorStreamCaptureMerge;
    s->capture = e->capture;
    s->tail.insert(e->tail.begin(), e->tail.end());
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    EMU_CALL(cudaStreamWaitEvent);
    CUstream_st *s = stream_of(stream);
    CUevent_st *e = known_event(event);
    if (flags)
        return call.fail(cudaErrorInvalidValue);
    if (s->capture || e->capture) {
        cudaError_t error = join_capture(s, e);
        return error ? call.fail(error) : cudaSuccess;
    }
    if (!e->last && !e->shared)
        found("event", "cudaStreamWaitEvent on an event that was never recorded waits for nothing");
    operation work;
    work.name = "a wait for an event";
    work.waits = e->shared ? nullptr : e->last;
    work.ready = e->shared ? when_done(e) : nullptr;
    work.step = [](operation &) { return DONE; };
    if (e->shared && e->last) { // ours: then more is known than that it is done
        auto last = e->last;
        work.step = [=](operation &o) {
            o.end = join(o.end, last->done ? last->knows : nullptr);
            return DONE;
        };
    }
    enqueue(call.l, stream, std::move(work));
    return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    EMU_CALL(cudaIpcGetEventHandle);
    event_handle h = { getpid(), known_event(event)->file };
    if (!event->shared)
        return call.fail(cudaErrorInvalidResourceHandle);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    EMU_CALL(cudaIpcOpenEventHandle);
    event_handle h;
    char path[64];
    memcpy(&h, &handle, sizeof h);
    if (h.process == getpid())
        found("ipc", "cudaIpcOpenEventHandle in the process that made the handle");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h.process, h.file);
    auto e = new CUevent_st(cudaEventDisableTiming | cudaEventInterprocess);
    e->file = open(path, O_RDWR | O_CLOEXEC);
    if (!map_counts(e)) {
        delete e;
        return call.fail(cudaErrorInvalidResourceHandle);
    }
    events.insert(*event = e);
    return cudaSuccess;
}

/* ---- words of memory ---- */

static bool is_word(CUdeviceptr address)
{
    return address % 4 == 0 && whole_region((const void *)address, 4);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    emu::call call("cuStreamWaitValue32");
    const uint32_t *p = (const uint32_t *)address;
    if (call.refused)
        return (CUresult)call.refused;
    if (!is_word(address) || flags > CU_STREAM_WAIT_VALUE_EQ)
        return CUDA_ERROR_INVALID_VALUE;
    operation work;
    work.name = "a wait for a value";
    work.ready = [=] {
        uint32_t now = __atomic_load_n(p, __ATOMIC_ACQUIRE);
        return flags == CU_STREAM_WAIT_VALUE_EQ ? now == value : (int32_t)(now - value) >= 0;
    };
    work.step = [=](operation &o) {
        o.end = join(o.end, taken_by_stream(p));
        return DONE;
    };
    enqueue(call.l, stream, std::move(work));
    return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    emu::call call("cuStreamWriteValue32");
    uint32_t *p = (uint32_t *)address;
    if (call.refused)
        return (CUresult)call.refused;
    if (!is_word(address) || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUstream_st *s = stream_of(stream);
    bool is_hosts = find_region(p)->kind == region::PINNED && !s->capture;
    s->words += is_hosts;
    operation work;
    work.name = "a write of a value";
    work.step = [=](operation &o) {
        if (setting().when == RANDOM && draw()() % 2) // what was before it is done, and cannot be seen yet
            return ADVANCED;
        accessor by;
        by.operation = o.number, by.agent = new_agent(o.number, 0, 0), by.device = o.device, by.knows = o.start;
        check_range(by, p, 4, WRITE | ATOMIC, "cuStreamWriteValue32");
        tell_by_stream(p, o.after());
        __atomic_store_n(p, value, __ATOMIC_RELEASE);
        if (is_hosts) { // it may have looked as soon as it could
            s->words--;
            host_knows() = join(host_knows(), o.after());
        }
        return DONE;
    };
    enqueue(call.l, stream, std::move(work));
    return CUDA_SUCCESS;
}
