/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of one tensor with devices, each in a process of its own, as some end CUDA for the process.
 */
#ifndef TESTS_CUDA_CASES_H
#define TESTS_CUDA_CASES_H

#include "tests/cuda/devices.h"
#include <cuda.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 100, WAIT_MS = 60000 };

static inline int one_more(int rank, size_t i)
{
    return rank + (int)(i % 5);
}

static inline struct halay_tensor_info describe(const char *name, void *data, int is_device)
{
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = name,
                                       .dtype = HALAY_F32,
                                       .dimensions = 1,
                                       .shape = { N },
                                       .out = data,
                                       .memory = is_device ? HALAY_MEMORY_DEVICE : HALAY_MEMORY_ANY };
}

/* Fills an area and submits its sum on devices, after the user's stream. A job that has failed refuses it. */
static inline enum halay_status submit_filled(struct user *u, struct area *a, size_t count,
                                              int (*value)(int rank, size_t i), struct halay_request **request)
{
    struct halay_tensor_info info = describe("x", a->data, 1);

    area_fill(u, a, HALAY_F32, count, value, u->rank);
    info.shape[0] = count;
    info.memory = HALAY_MEMORY_DEVICES;
    info.after_stream = u->stream;
    return halay_submit_named(u->ctx, &info, NULL, NULL, request);
}

static inline struct halay_request *submit(struct user *u, const struct halay_tensor_info *info)
{
    struct halay_request *request = NULL;

    REQUIRE(halay_submit_named(u->ctx, info, NULL, NULL, &request) == HALAY_OK);
    return request;
}

/* The submission is refused with this status, and a text with these words. */
static inline void refused(struct user *u, const struct halay_tensor_info *info, enum halay_status with,
                           const char *words)
{
    struct halay_request *request = NULL;

    enum halay_status status = halay_submit_named(u->ctx, info, NULL, NULL, &request);
    CHECK(status == with && !request, "%s", halay_status_string(status));
    CHECK(strstr(halay_error_text(), words), "'%s' lacks '%s'", halay_error_text(), words);
}

static inline void compare_sum(struct user *u, struct area *a)
{
    double want[N];

    for (size_t i = 0; i < N; i++) {
        want[i] = 0;
        for (int r = 0; r < u->size; r++)
            want[i] += one_more(r, i);
    }
    area_compare(u, a, HALAY_F32, want, N, 0, "the sum");
}

static inline void users_quiet(int size, void (*body)(struct user *u), const char *expected,
                               void (*configure)(struct halay_config *config, void *arg), struct rank_run *runs)
{
    struct users users = { .body = body };

    ranks_run(size, 0,
              &(struct rank_run){ .body = users_body, .arg = &users, .expected = expected, .configure = configure },
              users_place, runs);
}

/* Until the word is 1. */
static inline void block(cudaStream_t stream, _Atomic uint32_t *word)
{
    CUresult (*wait_value)(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);
    enum cudaDriverEntryPointQueryResult found;
    void *function;

    GOOD(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000, 0, &found));
    *(void **)&wait_value = function;
    REQUIRE(wait_value(stream, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
}

static inline _Atomic uint32_t *word_get(void)
{
    void *word;

    GOOD(cudaHostAlloc(&word, sizeof(uint32_t), cudaHostAllocDefault));
    *(_Atomic uint32_t *)word = 0;
    return word;
}

struct gate {
    _Atomic int is_closed, is_open; /* stored by the rank's callback, and by the other rank */
};

/* A callback that holds its rank up until the gate is opened. */
static inline void stay(void *arg, enum halay_status status, const char *text)
{
    struct gate *gate = arg;

    (void)status;
    (void)text;
    atomic_store(&gate->is_closed, 1);
    while (!atomic_load(&gate->is_open))
        sched_yield();
}

static inline void apart(const char *name, void (*run)(void))
{
    int status;

    fflush(stdout);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (!child) {
        alarm(200);
        test_failed = 0;
        run();
        fflush(stdout);
        _exit(test_failed != 0 || !test_passed);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0, "%s: %d", name, status);
}

#endif
