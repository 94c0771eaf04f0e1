/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills. An asynchronous copy needs pinned memory. What one will write at the host is filled with NaN as it
 * is enqueued, so that who looks too early sees it; what one will read there must be the same when it runs.
 */
#include "emu.hh"
#include <cstring>

namespace emu
{
static accessor accessor_of(const operation &o)
{
    accessor by;

    by.operation = o.number, by.agent = new_agent(o.number, 0, 0), by.device = o.device, by.knows = o.start;
    return by;
}

static bool is_kind(const void *p, size_t bytes, decltype(region::kind) kind)
{
    region *r = whole_region(p, bytes);

    return r && r->kind == kind;
}

static uint64_t sum_of(const void *p, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325ull;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
    return h;
}

/* Whether an operation of a device wrote there, after that agent came. */
static bool device_wrote(const void *p, size_t bytes, uint32_t agent)
{
    region *r = whole_region(p, bytes);

    for (size_t i = 0; r && r->cells && i < bytes; i++)
        if (r->cells[(const char *)p - r->base + (ptrdiff_t)i].written >> 32 > agent)
            return true;
    return false;
}

/* Which ends are the host's. */
struct ends {
    bool from_host, to_host;
};

static ends ends_of(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    ends e = { kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost,
               kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost };

    if (kind == cudaMemcpyDefault)
        e = { !is_kind(from, bytes, region::DEVICE), !is_kind(to, bytes, region::DEVICE) };
    if (!e.to_host && !is_kind(to, bytes, region::DEVICE))
        found("bounds", "a copy of %zu bytes to %s, which is not as much device memory", bytes, describe(to).c_str());
    if (!e.from_host && !is_kind(from, bytes, region::DEVICE))
        found("bounds", "a copy of %zu bytes from %s, which is not as much device memory", bytes,
              describe(from).c_str());
    return e;
}

static operation copy(void *to, const void *from, size_t bytes, ends e)
{
    bool from_pinned = e.from_host && is_kind(from, bytes, region::PINNED);
    bool to_pinned = e.to_host && is_kind(to, bytes, region::PINNED);
    operation work;

    work.name = "a copy of " + std::to_string(bytes) + " bytes";
    if (from_pinned)
        work.uses[0] = { (const char *)from, bytes };
    if (to_pinned)
        work.uses[1] = { (const char *)to, bytes };
    work.step = [=](operation &o) {
        accessor by = accessor_of(o);
        if (!e.from_host || from_pinned)
            check_range(by, from, bytes, READ, "a copy from");
        if (!e.to_host || to_pinned)
            check_range(by, to, bytes, WRITE, "a copy to");
        memmove(to, from, bytes);
        return DONE;
    };
    return work;
}

static cudaError_t copy_async(held &l, void *to, const void *from, size_t bytes, ends e, cudaStream_t stream)
{
    if (!bytes)
        return cudaSuccess;
    if ((e.from_host && !is_kind(from, bytes, region::PINNED)) || (e.to_host && !is_kind(to, bytes, region::PINNED)))
        found("pageable", "an asynchronous copy of %zu bytes with %s, which is not pinned, is not asynchronous", bytes,
              describe(e.from_host ? from : to).c_str());
    if (e.from_host)
        count("bytes_to_devices", bytes);
    if (e.to_host)
        count("bytes_from_devices", bytes);
    operation work = copy(to, from, bytes, e);
    bool captured = stream_of(stream)->capture;
    if (e.from_host && !captured) {
        uint64_t sum = sum_of(from, bytes);
        uint32_t agent = new_agent(0, 0, 0);
        work.step = [=, then = work.step](operation &o) {
            if (sum_of(from, bytes) != sum && !device_wrote(from, bytes, agent))
                found("early-write",
                      "the host changed %s, of which an asynchronous copy of %zu bytes had not been done",
                      describe(from).c_str(), bytes);
            return then(o);
        };
    }
    if (e.to_host && !captured && !is_used((const char *)to, bytes) && !is_off("early-read"))
        memset(to, 0xff, bytes);
    enqueue(l, stream, std::move(work));
    return cudaSuccess;
}

static operation fill(void *memory, int value, size_t bytes)
{
    operation work;

    work.name = "a fill of " + std::to_string(bytes) + " bytes";
    work.step = [=](operation &o) {
        accessor by = accessor_of(o);
        check_range(by, memory, bytes, WRITE, "a fill of");
        memset(memory, value, bytes);
        return DONE;
    };
    return work;
}

static cudaError_t fill_async(held &l, void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (bytes && !is_kind(memory, bytes, region::DEVICE))
        found("bounds", "a fill of %zu bytes of %s", bytes, describe(memory).c_str());
    if (bytes)
        enqueue(l, stream, fill(memory, value, bytes));
    return cudaSuccess;
}
} // namespace emu

using namespace emu;

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    EMU_CALL(cudaMemcpyAsync);
    return copy_async(call.l, to, from, bytes, ends_of(to, from, bytes, kind), stream);
}

/* Devices copy from each other also where neither reaches the other's memory. */
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    EMU_CALL(cudaMemcpyPeerAsync);
    region *a = whole_region(to, bytes), *b = whole_region(from, bytes);
    if (!a || !b || a->device != to_device || b->device != from_device)
        return call.fail(cudaErrorInvalidValue);
    return copy_async(call.l, to, from, bytes, { false, false }, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    EMU_CALL(cudaMemcpy);
    CUstream_st *s = stream_of(nullptr);
    if (forbidden_in_capture(nullptr))
        return call.fail(cudaErrorStreamCaptureUnsupported);
    if (!bytes)
        return cudaSuccess;
    enqueue(call.l, nullptr, copy(to, from, bytes, ends_of(to, from, bytes, kind)));
    auto here = mark_here(call.l, s);
    drive(
        call.l, [=] { return here->done; }, s, "cudaMemcpy");
    host_knows() = join(host_knows(), here->knows);
    return call.fail(context_state());
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    EMU_CALL(cudaMemsetAsync);
    return fill_async(call.l, memory, value, bytes, stream);
}

/* Does not wait, as CUDA's does not for device memory. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    EMU_CALL(cudaMemset);
    return fill_async(call.l, memory, value, bytes, nullptr);
}
