/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of CUDA devices. To record one, the stream is given the order to write a number into a word of pinned memory
 * (cuStreamWriteValue32, which follows a fence for the whole system), and a look at it is a load: a query would take a
 * lock of the driver's, beside the thread of the program that launches kernels. A real event is recorded beside it only
 * where streams are to wait, because CUDA's scheduler does not see an order that words alone express, and instead of it
 * where a device writes no words.
 *
 * No word is written once a kernel of the context has failed. So once a millisecond a look asks the driver, about an
 * event of our own in a stream of our own: any call returns the error of a context that has one.
 *
 * Words are handed on when the last number ordered for them has arrived, and not before: a late write would change the
 * word of another event. They stay for the life of the process, as a stream may write after the last look.
 */
#include "collectives/transport/cuda/cuda_events.h"
#include "base/clock.h"
#include "collectives/transport/cuda/cuda_context.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORDS = 1024, PROBE_US = 1000 };

struct word {
    const _Atomic uint32_t *at; /* written by streams alone */
    uint32_t last;              /* the number that was ordered last */
    struct word *next;          /* in the list of free ones */
};

struct event {
    struct word *word;  /* NULL: none, as the device writes none */
    cudaEvent_t event;  /* NULL: only the host looks */
    int is_one_streams; /* numbers of the word arrive in order */
    int has_no_word;    /* for good: a stream could not write it */
};

/* Asked in place of all events of a device. */
struct probe {
    _Atomic int64_t asked_us;
    _Atomic int is_taken; /* by a thread that asks */
    cudaStream_t stream;
    cudaEvent_t event;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct word *free_first, **free_last = &free_first;
static _Atomic int writes_none[HALAY_CUDA_DEVICES]; /* nonzero: the device cannot write words */
static struct probe probes[HALAY_CUDA_DEVICES];

/* ---- words ---- */

static int has_come(const struct word *w, uint32_t number)
{
    return (int32_t)(atomic_load_explicit(w->at, memory_order_acquire) - number) >= 0;
}

static void word_put(struct word *w)
{
    pthread_mutex_lock(&lock);
    w->next = NULL;
    *free_last = w;
    free_last = &w->next;
    pthread_mutex_unlock(&lock);
}

/* Returns the first free word that no stream will write to. */
static struct word *word_take(void)
{
    struct word **at = &free_first;

    pthread_mutex_lock(&lock);
    while (*at && !has_come(*at, (*at)->last))
        at = &(*at)->next;
    struct word *w = *at;
    if (w)
        *at = w->next;
    if (w && !w->next)
        free_last = at;
    pthread_mutex_unlock(&lock);
    return w;
}

/* Makes a page of words. In a context. */
static enum halay_status words_make(struct halay_cuda_context *c)
{
    struct word *words = calloc(WORDS, sizeof *words);
    void *memory;

    if (!words)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = halay_cuda_status(
        c->host, cudaHostAlloc(&memory, WORDS * sizeof *words->at, cudaHostAllocPortable), "cudaHostAlloc");
    if (status != HALAY_OK) {
        free(words);
        return status;
    }
    for (size_t i = 0; i < WORDS; i++) {
        atomic_init((_Atomic uint32_t *)memory + i, 0);
        words[i].at = (_Atomic uint32_t *)memory + i;
        word_put(&words[i]);
    }
    return HALAY_OK;
}

/* Gives the event a word whose last number has arrived. In a context. */
static enum halay_status word_give(struct halay_cuda_context *c, struct event *e)
{
    if (e->word && (e->is_one_streams || has_come(e->word, e->word->last)))
        return HALAY_OK;
    if (e->word)
        word_put(e->word);
    e->word = word_take();
    if (e->word)
        return HALAY_OK;
    enum halay_status status = words_make(c);
    if (status == HALAY_OK)
        e->word = word_take();
    return status;
}

enum halay_status halay_cuda_word_get(const struct halay_device_host *host, int device, void **word)
{
    struct event e = { 0 };
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    if (c.status == HALAY_OK)
        c.status = word_give(&c, &e);
    if (c.status == HALAY_OK) {
        *word = (void *)(uintptr_t)e.word->at;
        *(_Atomic uint32_t *)*word = 0;
    }
    return halay_cuda_leave(&c, cudaSuccess, "cudaHostAlloc");
}

/* ---- events ---- */

enum halay_status halay_cuda_event_create(const struct halay_device_host *host, int device, int is_one_streams,
                                          void **event)
{
    struct event *e = calloc(1, sizeof *e);

    (void)host;
    (void)device;
    if (!e)
        return HALAY_ERR_NO_MEMORY;
    e->is_one_streams = is_one_streams;
    *event = e;
    return HALAY_OK;
}

void halay_cuda_event_destroy(const struct halay_device_host *host, int device, void *event)
{
    struct event *e = event;

    if (e->word)
        word_put(e->word);
    if (e->event) {
        struct halay_cuda_context c = halay_cuda_enter(host, device);
        (void)halay_cuda_leave(&c, HALAY_CUDA_CALL(&c, cudaEventDestroy(e->event)), "cudaEventDestroy");
    }
    free(e);
}

/* Has the stream write the next number. If it cannot, the event gives up its word, and its records are real ones. */
static enum halay_status order_number(struct halay_cuda_context *c, int device, struct event *e, void *stream)
{
    if (e->has_no_word || atomic_load_explicit(&writes_none[device], memory_order_relaxed))
        return HALAY_OK;
    enum halay_status status = word_give(c, e);
    if (status != HALAY_OK)
        return status;
    CUresult result = halay_cuda_state_of(c->host)->driver.write_value(
        stream, (CUdeviceptr)(uintptr_t)e->word->at, e->word->last + 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (result == CUDA_SUCCESS) {
        e->word->last++;
        return HALAY_OK;
    }
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        atomic_store_explicit(&writes_none[device], 1, memory_order_relaxed);
    e->has_no_word = 1;
    word_put(e->word);
    e->word = NULL;
    return HALAY_OK;
}

enum halay_status halay_cuda_event_record(const struct halay_device_host *host, int device, void *stream,
                                          struct halay_device_point *point)
{
    struct event *e = point->event;
    cudaError_t error = cudaSuccess;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    halay_cuda_check_stream(&c, stream);
    if (c.status == HALAY_OK)
        c.status = order_number(&c, device, e, stream);
    point->at = e->word ? e->word->last : 0;
    int is_real = e->is_one_streams || !e->word;
    if (is_real && !e->event)
        error = HALAY_CUDA_CALL(&c, cudaEventCreateWithFlags(&e->event, cudaEventDisableTiming));
    if (is_real && error == cudaSuccess)
        error = HALAY_CUDA_CALL(&c, cudaEventRecord(e->event, stream));
    return halay_cuda_leave_started(&c, error, "cudaEventRecord");
}

/* Asks about the probe, which is recorded again each time it has completed. In a context. */
static CUresult probe_ask(struct halay_cuda_context *c, struct probe *p)
{
    cudaError_t error = cudaSuccess;

    if (p->event) {
        CUresult result = halay_cuda_state_of(c->host)->driver.event_query(p->event);
        if (result != CUDA_SUCCESS)
            return result;
    } else {
        if (!p->stream)
            error = cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking);
        if (error == cudaSuccess)
            error = cudaEventCreateWithFlags(&p->event, cudaEventDisableTiming);
    }
    if (error == cudaSuccess)
        error = cudaEventRecord(p->event, p->stream);
    if (error != cudaSuccess)
        cudaGetLastError();
    int is_unknown = error == cudaSuccess || error == cudaErrorMemoryAllocation; /* no error of the device's work */
    return is_unknown ? CUDA_ERROR_NOT_READY : (CUresult)error;
}

/* Asks the driver once a millisecond and device whether there is an error. */
static enum halay_status look_for_errors(const struct halay_device_host *host, int device)
{
    struct probe *p = &probes[device];
    int64_t now_us = halay_now_us();

    if (now_us - atomic_load_explicit(&p->asked_us, memory_order_relaxed) < PROBE_US ||
        atomic_exchange_explicit(&p->is_taken, 1, memory_order_acquire))
        return HALAY_IN_PROGRESS;
    atomic_store_explicit(&p->asked_us, now_us, memory_order_relaxed);
    struct halay_cuda_context c = halay_cuda_enter(host, device);
    CUresult result = c.status == HALAY_OK ? probe_ask(&c, p) : CUDA_ERROR_NOT_READY;
    enum halay_status status = halay_cuda_leave(&c, cudaSuccess, "cuEventQuery");
    atomic_store_explicit(&p->is_taken, 0, memory_order_release);
    if (status == HALAY_OK && result != CUDA_ERROR_NOT_READY)
        status = halay_cuda_driver_status(host, result, "work of a device");
    return status == HALAY_OK || status == HALAY_ERR_CLOSED ? HALAY_IN_PROGRESS : status;
}

static enum halay_status ask_event(const struct halay_device_host *host, int device, const struct event *e)
{
    struct halay_cuda_context c = halay_cuda_enter(host, device);
    CUresult result =
        c.status == HALAY_OK ? halay_cuda_state_of(host)->driver.event_query(e->event) : CUDA_ERROR_NOT_READY;
    enum halay_status status = halay_cuda_leave(&c, cudaSuccess, "cuEventQuery");

    if (status == HALAY_OK && result != CUDA_ERROR_NOT_READY)
        status = halay_cuda_driver_status(host, result, "work of a device");
    else if (status == HALAY_OK)
        status = HALAY_IN_PROGRESS;
    return status == HALAY_ERR_CLOSED ? HALAY_IN_PROGRESS : status;
}

enum halay_status halay_cuda_event_done(const struct halay_device_host *host, int device,
                                        const struct halay_device_point *point)
{
    const struct event *e = point->event;

    if (!e->word)
        return ask_event(host, device, e);
    return has_come(e->word, point->at) ? HALAY_OK : look_for_errors(host, device);
}

enum halay_status halay_cuda_event_wait(const struct halay_device_host *host, int device, void *stream, void *event)
{
    struct event *e = event;
    struct halay_cuda_context c = halay_cuda_enter(host, device);

    halay_cuda_check_stream(&c, stream);
    return halay_cuda_leave_started(&c, HALAY_CUDA_CALL(&c, cudaStreamWaitEvent(stream, e->event, 0)),
                                    "cudaStreamWaitEvent");
}
