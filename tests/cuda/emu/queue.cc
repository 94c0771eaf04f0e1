/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams are queues of operations; the device thread runs them, in steps. When, EMU_ORDER says:
 *
 *   0 at once: a call that enqueues returns when nothing more can be done
 *   1 random:  each call lets some steps be done, of whichever streams
 *   2 late:    nothing is done but what somebody waits for, and what that needs
 *
 * Which of those that could run does is drawn. A host that makes no call for a while sees the devices go on as well.
 */
#include "emu.hh"
#include <algorithm>
#include <chrono>
#include <list>
#include <thread>
#include <unistd.h>

namespace emu
{
using clock = std::chrono::steady_clock;
enum { IDLE_US = 100000, WATCHED_US = 200, STUCK_US = 50 };

struct demand {
    std::function<bool()> over; // NULL: after so many steps, or when nothing goes on
    long steps;
    CUstream_st *stream;
    const char *what;
    bool done;
    clock::time_point since; // it last went on
};

std::mutex &gate = *new std::mutex;
static std::condition_variable &changed = *new std::condition_variable;
static std::list<demand *> &demands = *new std::list<demand *>;
static std::set<CUstream_st *> &streams = *new std::set<CUstream_st *>;
static std::map<int, CUstream_st *> &defaults = *new std::map<int, CUstream_st *>;
static uint64_t queues, submitted;
static unsigned lanes;
static bool is_started, host_runs;
static held *device_lock;
static thread_local bool is_device;

uint64_t new_queue()
{
    return ++queues;
}
random &draw()
{
    static random all(setting().seed);
    return all;
}
const std::set<CUstream_st *> &all_streams()
{
    return streams;
}
bool in_host_function()
{
    return is_device && host_runs;
}

void let_host_run(const std::function<void()> &run)
{
    memory_shut();
    device_lock->unlock();
    host_runs = true;
    run();
    host_runs = false;
    device_lock->lock();
    memory_open();
}

/* ---- what can run ---- */

/* Whether no stream that shares its hardware queue has something that was submitted before. */
static bool is_first(const CUstream_st *s)
{
    if (setting().queues)
        for (const CUstream_st *t : streams)
            if (t != s && t->device == s->device && t->lane % setting().queues == s->lane % setting().queues &&
                !t->waiting.empty() && t->waiting.front().submitted < s->waiting.front().submitted)
                return false;
    return true;
}

/* An order that does not depend on addresses. */
static bool is_older(const CUstream_st *a, const CUstream_st *b)
{
    return a->queue < b->queue;
}

static bool can_run(const CUstream_st *s)
{
    if (s->under_way)
        return true;
    if (s->waiting.empty() || !is_first(s))
        return false;
    const operation &o = s->waiting.front();
    return (!o.waits || o.waits->done) && (!o.ready || o.ready());
}

/* What must run for this stream to go on. */
static void find_needed(CUstream_st *s, std::set<CUstream_st *> &seen, std::vector<CUstream_st *> &able)
{
    if (!seen.insert(s).second || (!s->under_way && s->waiting.empty()))
        return;
    if (can_run(s))
        able.push_back(s);
    else if (!s->waiting.empty() && s->waiting.front().waits && s->waiting.front().waits->stream)
        find_needed(s->waiting.front().waits->stream, seen, able);
}

/* Its address never becomes another stream's. */
static void bury(CUstream_st *s)
{
    static std::vector<CUstream_st *> &dead = *new std::vector<CUstream_st *>;

    streams.erase(s);
    s->knows = nullptr;
    dead.push_back(s);
}

static void finish(CUstream_st *s)
{
    s->knows = s->under_way->after();
    s->under_way.reset();
    s->done++;
    if (s->doomed && s->waiting.empty())
        bury(s);
}

void begin_operation(operation &work, const past &before)
{
    work.start = join(work.start, before);
    work.number = new_operation(work.name.c_str(), work.kernel, work.queue, work.turn);
    if (work.waits)
        work.start = join(work.start, work.waits->knows);
    work.end = work.start;
}

static outcome step_stream(CUstream_st *s)
{
    if (!s->under_way) {
        s->under_way = std::make_unique<operation>(std::move(s->waiting.front()));
        s->waiting.pop_front();
        begin_operation(*s->under_way, s->knows);
    }
    outcome o = s->under_way->step ? s->under_way->step(*s->under_way) : DONE;
    if (o == DONE)
        finish(s);
    return o == DONE ? ADVANCED : o;
}

/* One step of something; STUCK: nothing goes on. */
static outcome step(CUstream_st *wanted)
{
    std::vector<CUstream_st *> able;
    std::set<CUstream_st *> seen;

    if (setting().when == LATE && wanted)
        find_needed(wanted, seen, able);
    std::shuffle(able.begin(), able.end(), draw());
    for (CUstream_st *s : able)
        if (step_stream(s) == ADVANCED)
            return ADVANCED;
    able.clear();
    for (CUstream_st *s : streams)
        if (!seen.count(s) && can_run(s))
            able.push_back(s);
    std::sort(able.begin(), able.end(), is_older);
    std::shuffle(able.begin(), able.end(), draw());
    for (CUstream_st *s : able)
        if (streams.count(s) && step_stream(s) == ADVANCED)
            return ADVANCED;
    return STUCK;
}

/* ---- the device thread ---- */

static void end_demand(demand *d)
{
    d->done = true;
    demands.remove(d);
    changed.notify_all();
}

static void rest(demand *d)
{
    auto now = clock::now();

    if (d->over && now - d->since > std::chrono::milliseconds(setting().patience_ms)) {
        std::string list;
        for (CUstream_st *s : streams)
            if (s->under_way || !s->waiting.empty())
                list += (list.empty() ? "" : ", ") +
                        (s->under_way ? operation_name(s->under_way->number) + " under way"
                                      : s->waiting.front().name + (is_first(s) ? " waits" : " is behind others"));
        found("hang", "%s does not return: %s", d->what, list.empty() ? "nothing is under way" : list.c_str());
        d->since = now;
    }
    memory_shut();
    device_lock->unlock();
    usleep(STUCK_US);
    device_lock->lock();
    memory_open();
}

static void serve(demand *d)
{
    if (d->over && d->over()) {
        end_demand(d);
        return;
    }
    outcome o = step(d->stream);
    if (o == ADVANCED)
        d->since = clock::now();
    if (!d->over && (o != ADVANCED || --d->steps == 0))
        end_demand(d);
    else if (o != ADVANCED)
        rest(d);
    if (!demands.empty()) // take turns
        demands.splice(demands.end(), demands, demands.begin());
}

/* A stream whose words a host may look at. */
static CUstream_st *watched()
{
    for (CUstream_st *s : streams)
        if (s->words)
            return s;
    return nullptr;
}

static void device_main()
{
    held l(gate);

    is_device = true;
    device_lock = &l;
    for (;;) {
        int us = watched() ? WATCHED_US : IDLE_US;
        bool called = changed.wait_for(l, std::chrono::microseconds(us), [] { return !demands.empty(); });
        memory_open();
        while (!demands.empty())
            serve(demands.front());
        for (int left = called ? 0 : 100; left && step(watched()) == ADVANCED; left--) {
        }
        memory_shut();
    }
}

static void start_device_thread()
{
    if (is_started)
        return;
    is_started = true;
    arena_fd();
    std::thread(device_main).detach();
}

static void wait_for(held &l, demand &d)
{
    start_device_thread();
    d.since = clock::now();
    demands.push_back(&d);
    changed.notify_all();
    changed.wait(l, [&] { return d.done; });
}

void drive(held &l, const std::function<bool()> &over, CUstream_st *stream, const char *what)
{
    demand d = { over, 0, stream, what, false, {} };

    wait_for(l, d);
}

void drive_some(held &l, CUstream_st *stream)
{
    demand d = { nullptr, setting().when == LATE ? 1 : 1 + (long)(draw()() % 4), stream, "", false, {} };

    if (setting().when == AT_ONCE)
        d.steps = -1;
    wait_for(l, d);
}

/* ---- streams ---- */

CUstream_st *stream_of(cudaStream_t stream)
{
    if (stream == (cudaStream_t)1) /* cudaStreamLegacy */
        stream = nullptr;
    if (stream && !streams.count(stream))
        found("freed", "a stream that was destroyed is used");
    if (stream)
        return stream;
    CUstream_st *&one = defaults[current_device()];
    if (!one)
        streams.insert(one = new CUstream_st(current_device(), new_queue(), lanes++));
    return one;
}

void enqueue(held &l, cudaStream_t which, operation &&work)
{
    CUstream_st *s = stream_of(which);

    work.device = s->device;
    if (s->capture) {
        auto made = std::make_unique<node>();
        made->work = std::move(work);
        made->needs = s->tail;
        s->tail = { made.get() };
        s->capture->nodes.push_back(std::move(made));
        return;
    }
    work.queue = s->queue;
    work.turn = ++s->issued;
    work.submitted = ++submitted;
    work.start = join(work.start, host_knows());
    s->waiting.push_back(std::move(work));
    start_device_thread();
    if (setting().when == AT_ONCE || (setting().when == RANDOM && draw()() % 2))
        drive_some(l, s);
}

std::shared_ptr<mark> mark_here(held &l, CUstream_st *stream)
{
    auto here = std::make_shared<mark>();
    operation work;

    here->stream = stream;
    work.name = "a mark";
    work.step = [here](operation &o) {
        here->knows = o.start;
        here->at_ms = std::chrono::duration<double, std::milli>(clock::now().time_since_epoch()).count();
        here->done = true;
        return DONE;
    };
    enqueue(l, stream, std::move(work));
    return here;
}

static void come_to_end(held &l, CUstream_st *s, const char *what)
{
    auto here = mark_here(l, s);

    drive(
        l, [=] { return here->done; }, s, what);
    host_knows() = join(host_knows(), here->knows);
}

void wait_for_all(held &l, int device)
{
    std::vector<CUstream_st *> all(streams.begin(), streams.end());

    std::sort(all.begin(), all.end(), is_older);
    for (CUstream_st *s : all)
        if (streams.count(s) && s->device == device && !s->capture) {
            if (s->under_way || !s->waiting.empty())
                come_to_end(l, s, "waiting for a device");
            host_knows() = join(host_knows(), s->knows);
        }
}

bool is_used(const char *p, size_t bytes)
{
    auto uses = [&](const operation &o) {
        for (auto &u : o.uses)
            if (u.bytes && u.p < p + bytes && p < u.p + u.bytes)
                return true;
        return false;
    };

    for (CUstream_st *s : streams)
        if ((s->under_way && uses(*s->under_way)) || std::any_of(s->waiting.begin(), s->waiting.end(), uses))
            return true;
    return false;
}
} // namespace emu

using namespace emu;

static cudaError_t create(cudaStream_t *stream)
{
    streams.insert(*stream = new CUstream_st(current_device(), new_queue(), lanes++));
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    EMU_CALL(cudaStreamCreateWithFlags);
    return flags == cudaStreamNonBlocking ? create(stream) : call.fail(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    EMU_CALL(cudaDeviceGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    EMU_CALL(cudaStreamCreateWithPriority);
    if (flags != cudaStreamNonBlocking)
        return call.fail(cudaErrorInvalidValue);
    create(stream);
    (*stream)->priority = priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    EMU_CALL(cudaStreamGetPriority);
    *priority = stream->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    EMU_CALL(cudaStreamDestroy);
    if (!stream || !streams.count(stream))
        return call.fail(cudaErrorInvalidResourceHandle);
    stream->doomed = true;
    if (!stream->under_way && stream->waiting.empty())
        bury(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    EMU_CALL(cudaStreamSynchronize);
    CUstream_st *s = stream_of(stream);
    if (forbidden_in_capture(s))
        return call.fail(cudaErrorStreamCaptureUnsupported);
    come_to_end(call.l, s, "cudaStreamSynchronize");
    return call.fail(context_state());
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    EMU_CALL(cudaStreamQuery);
    CUstream_st *s = stream_of(stream);
    if (forbidden_in_capture(s))
        return call.fail(cudaErrorStreamCaptureUnsupported);
    if (s->done < s->issued) {
        drive_some(call.l, s);
        return cudaErrorNotReady;
    }
    host_knows() = join(host_knows(), s->knows);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    EMU_CALL(cudaDeviceSynchronize);
    wait_for_all(call.l, current_device());
    return call.fail(context_state());
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    EMU_CALL(cudaLaunchHostFunc);
    operation work;
    work.name = "a host function";
    work.step = [=](operation &) {
        let_host_run([=] { function(data); });
        return DONE;
    };
    enqueue(call.l, stream, std::move(work));
    return cudaSuccess;
}
