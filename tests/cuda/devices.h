/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks with devices, for tests: data that lie on a device, pinned or the host's, brought there by a stream.
 */
#ifndef TESTS_CUDA_DEVICES_H
#define TESTS_CUDA_DEVICES_H

#include "base/half.h"
#include "emu.h"
#include "halay_tools.h"
#include "tests/fusion/ranks.h"
#include <cuda_runtime_api.h>

enum kind { HOST, PINNED, DEVICE, OURS, KINDS }; /* a device's by cudaMalloc, and by halay_alloc_device */
enum after { NOTHING, STREAM, EVENT, AFTERS };   /* what a submission follows */

#define GOOD(call) REQUIRE((call) == cudaSuccess)

struct area {
    enum kind kind;
    void *data;
    size_t bytes;
};

struct user {
    struct halay_context *ctx;
    int rank, size, device;
    cudaStream_t stream;
    cudaEvent_t event;
    void *arg;
};

/* For the log of ranks whose errors are expected. */
static inline void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static inline const char *kind_name(const struct area *a)
{
    static const char *const names[] = { "host's", "pinned", "device's", "device's by halay" };

    return names[a->kind];
}

static inline struct area area_get(struct user *u, enum kind kind, size_t bytes)
{
    struct area a = { .kind = kind, .bytes = bytes };
    size_t room = bytes ? bytes : 1;

    if (kind == HOST)
        REQUIRE((a.data = calloc(1, room)));
    else if (kind == PINNED)
        GOOD(cudaHostAlloc(&a.data, room, cudaHostAllocDefault));
    else if (kind == DEVICE)
        GOOD(cudaMalloc(&a.data, room));
    else
        REQUIRE(halay_alloc_device(u->ctx, HALAY_DEVICE_CURRENT, room, &a.data) == HALAY_OK);
    return a;
}

static inline void area_put(struct user *u, struct area *a)
{
    if (a->kind == HOST)
        free(a->data);
    else if (a->kind == PINNED)
        GOOD(cudaFreeHost(a->data));
    else if (a->kind == DEVICE)
        GOOD(cudaFree(a->data));
    else
        halay_free(u->ctx, a->data);
}

static inline void number_put(void *data, enum halay_dtype dtype, size_t i, int value)
{
    if (dtype == HALAY_F32)
        ((float *)data)[i] = (float)value;
    else if (dtype == HALAY_F64)
        ((double *)data)[i] = value;
    else if (dtype == HALAY_F16)
        ((uint16_t *)data)[i] = halay_f32_to_f16((float)value);
    else if (dtype == HALAY_BF16)
        ((uint16_t *)data)[i] = halay_f32_to_bf16((float)value);
    else if (dtype == HALAY_U16 || dtype == HALAY_I16)
        ((uint16_t *)data)[i] = (uint16_t)value;
    else if (dtype == HALAY_I32)
        ((int *)data)[i] = value;
    else if (dtype == HALAY_I64)
        ((int64_t *)data)[i] = value;
    else
        ((unsigned char *)data)[i] = (unsigned char)value;
}

static inline double number_get(const void *data, enum halay_dtype dtype, size_t i)
{
    if (dtype == HALAY_F32)
        return ((const float *)data)[i];
    if (dtype == HALAY_F64)
        return ((const double *)data)[i];
    if (dtype == HALAY_F16)
        return halay_f16_to_f32(((const uint16_t *)data)[i]);
    if (dtype == HALAY_BF16)
        return halay_bf16_to_f32(((const uint16_t *)data)[i]);
    if (dtype == HALAY_U16 || dtype == HALAY_I16)
        return ((const uint16_t *)data)[i];
    if (dtype == HALAY_I32)
        return ((const int *)data)[i];
    return dtype == HALAY_I64 ? (double)((const int64_t *)data)[i] : ((const unsigned char *)data)[i];
}

/* To a device by the user's stream, which is not waited for. */
static inline void area_fill(struct user *u, struct area *a, enum halay_dtype dtype, size_t count,
                             int (*value)(int rank, size_t i), int rank)
{
    size_t bytes = count * halay_dtype_size(dtype);
    void *from = a->data;

    if (a->kind >= DEVICE)
        GOOD(cudaHostAlloc(&from, bytes + 1, cudaHostAllocDefault)); /* stays: the copy may be late */
    for (size_t i = 0; i < count; i++)
        number_put(from, dtype, i, value(rank, i));
    if (a->kind >= DEVICE)
        GOOD(cudaMemcpyAsync(a->data, from, bytes, cudaMemcpyHostToDevice, u->stream));
}

/* by_stream: only the user's stream is known to follow the result. */
static inline void area_compare(struct user *u, struct area *a, enum halay_dtype dtype, const double *want,
                                size_t count, int by_stream, const char *what)
{
    size_t bytes = count * halay_dtype_size(dtype), wrong = 0;
    void *at = a->data;

    if (a->kind >= DEVICE && bytes) {
        GOOD(cudaHostAlloc(&at, bytes, cudaHostAllocDefault));
        if (by_stream) {
            GOOD(cudaMemcpyAsync(at, a->data, bytes, cudaMemcpyDeviceToHost, u->stream));
            GOOD(cudaStreamSynchronize(u->stream));
        } else {
            GOOD(cudaMemcpy(at, a->data, bytes, cudaMemcpyDeviceToHost));
        }
    }
    for (size_t i = 0; i < count; i++)
        wrong += !(number_get(at, dtype, i) == want[i]);
    CHECK(!wrong, "%s: %zu of %zu %s elements are wrong", what, wrong, count, halay_dtype_name(dtype));
    if (a->kind >= DEVICE && bytes)
        GOOD(cudaFreeHost(at));
}

/* Data are there when the stream has come so far: the submission follows it, or they are waited for. */
static inline void user_follow(struct user *u, enum after after, struct halay_tensor_info *info)
{
    info->after_stream = info->after_event = NULL;
    if (after == NOTHING) {
        GOOD(cudaStreamSynchronize(u->stream));
    } else if (after == STREAM) {
        info->after_stream = u->stream;
    } else {
        GOOD(cudaEventRecord(u->event, u->stream));
        info->after_event = u->event;
    }
}

static inline void user_open(struct user *u)
{
    int devices;

    GOOD(cudaGetDeviceCount(&devices));
    u->rank = halay_rank(u->ctx);
    u->size = halay_size(u->ctx);
    u->device = u->rank % devices;
    GOOD(cudaSetDevice(u->device));
    GOOD(cudaStreamCreateWithFlags(&u->stream, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&u->event, cudaEventDisableTiming));
}

static inline void user_close(struct user *u)
{
    int device;

    GOOD(cudaGetDevice(&device));
    CHECK(device == u->device, "the current device is %d, was %d", device, u->device);
    GOOD(cudaStreamSynchronize(u->stream));
    GOOD(cudaStreamDestroy(u->stream));
    GOOD(cudaEventDestroy(u->event));
}

struct users {
    void (*body)(struct user *u);
    void *arg;
};

static inline void users_body(struct rank_run *run)
{
    const struct users *users = run->arg;
    struct user u = { .ctx = run->ctx, .arg = users->arg };

    user_open(&u);
    users->body(&u);
    user_close(&u);
}

/* TEST_HOSTS: how many hosts the ranks are on; those of one follow each other. */
static inline void users_place(struct halay_fake_hub *hub)
{
    const char *hosts = getenv("TEST_HOSTS");
    int size = halay_fake_hub_size(hub), node[RANKS_MAX];

    for (int r = 0; r < size; r++)
        node[r] = hosts && atoi(hosts) < size ? r * atoi(hosts) / size : r;
    if (hosts)
        REQUIRE(halay_fake_hub_set_nodes(hub, node) == HALAY_OK);
}

/* Threads as ranks, over the fake transport. */
static inline void users_run(int size, void (*body)(struct user *u),
                             void (*configure)(struct halay_config *config, void *arg), void *arg)
{
    struct users users = { .body = body, .arg = arg };

    ranks_run(size, 0, &(struct rank_run){ .body = users_body, .arg = &users, .configure = configure }, users_place,
              NULL);
}

#endif
