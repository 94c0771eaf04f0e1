/* SPDX-License-Identifier: Apache-2.0
 *
 * A handler of XLA's foreign function interface. What XLA computes after a call runs on the thread that completes the
 * call's future: a thread of its own, because the engine's has all tensors to move.
 */
#include "base/error_text.h"
#include "fusion/api/xla_abi.h"
#include "halay_xla.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call in flight. */
struct call {
    struct call *next;
    struct halay_xla *xla;
    const struct xla_api *api;
    struct xla_future *future;
    struct halay_tensor_info info;
    struct halay_request *request; /* written within the gate */
    enum halay_status status;
    char text[1024];
};

struct halay_xla {
    pthread_mutex_t gate;      /* held during a submission, never on the engine's thread */
    struct halay_context *ctx; /* NULL: closed; guarded by gate */
    pthread_mutex_t lock;
    pthread_cond_t changes;
    struct call *first, **end; /* the ended calls; these and the following members are guarded by lock */
    size_t under_way;
    int is_closed;
};

/* ---- XLA's values ------------------------------------------------------------------------------------------------ */

static struct xla_error *make_error(const struct xla_api *api, int code, const char *text)
{
    struct xla_error_create create = { .head = { .struct_size = sizeof create }, .message = text, .code = code };

    return api->error_create(&create);
}

/* Returns the attribute of that name, a u64; 0: no such attribute. */
static uint64_t find_word(const struct xla_attributes *attributes, const char *name)
{
    for (int64_t i = 0; i < attributes->count; i++) {
        const struct xla_text *text = attributes->names[i];
        const struct xla_scalar *scalar = attributes->values[i];

        if (attributes->types[i] == XLA_SCALAR && scalar->dtype == XLA_U64 && text->length == strlen(name) &&
            !memcmp(text->text, name, text->length)) {
            uint64_t word;
            memcpy(&word, scalar->value, sizeof word);
            return word;
        }
    }
    return 0;
}

static int find_type(int dtype, enum halay_dtype *found)
{
    static const struct {
        int theirs;
        enum halay_dtype ours;
    } types[] = {
        { XLA_F32, HALAY_F32 }, { XLA_F64, HALAY_F64 }, { XLA_F16, HALAY_F16 },   { XLA_BF16, HALAY_BF16 },
        { XLA_S32, HALAY_I32 }, { XLA_S64, HALAY_I64 }, { XLA_U8, HALAY_U8 },     { XLA_S8, HALAY_I8 },
        { XLA_U16, HALAY_U16 }, { XLA_S16, HALAY_I16 }, { XLA_PRED, HALAY_BOOL },
    };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].theirs == dtype) {
            *found = types[i].ours;
            return 1;
        }
    }
    return 0;
}

static size_t elements_of(const struct xla_buffer *buffer)
{
    size_t count = 1;

    for (int64_t i = 0; i < buffer->dimensions; i++)
        count *= (size_t)buffer->shape[i];
    return count;
}

/* Sets the shape. Of too many dimensions for halay all after the first are combined into one. */
static void set_shape(struct halay_tensor_info *info, const struct xla_buffer *buffer)
{
    if (buffer->dimensions <= HALAY_DIMENSIONS_MAX) {
        info->dimensions = (int)buffer->dimensions;
        for (int i = 0; i < info->dimensions; i++)
            info->shape[i] = (size_t)buffer->shape[i];
        return;
    }
    size_t rows = (size_t)buffer->shape[0];
    info->dimensions = 2;
    info->shape[0] = rows;
    info->shape[1] = rows ? elements_of(buffer) / rows : 0;
}

/* Fills in the fields that the call's argument and result determine. Returns NULL, or the fault. */
static const char *call_describe(const struct xla_frame *frame, struct halay_tensor_info *info)
{
    if (frame->arguments.count != 1 || frame->results.count != 1 || frame->arguments.types[0] != XLA_BUFFER ||
        frame->results.types[0] != XLA_BUFFER)
        return "halay: a call has one array and one result";
    const struct xla_buffer *in = frame->arguments.values[0], *out = frame->results.values[0];
    if (in->dtype != out->dtype || !find_type(in->dtype, &info->dtype))
        return "halay: the element type is not supported, or the result has another one";
    set_shape(info, in);
    info->in = in->data;
    info->out = out->data;
    info->out_bytes = elements_of(out) * halay_dtype_size(info->dtype);
    return NULL;
}

/* ---- the end of a call ------------------------------------------------------------------------------------------- */

static void call_complete(const struct call *call)
{
    struct xla_future_set set = { .head = { .struct_size = sizeof set }, .future = call->future };
    struct xla_future_fail fail = { .head = { .struct_size = sizeof fail }, .future = call->future };

    if (call->status == HALAY_OK) {
        call->api->future_set(&set);
        return;
    }
    fail.error = make_error(call->api, XLA_ABORTED, call->text);
    call->api->future_fail(&fail);
}

static void note_error(struct call *call, enum halay_status status, const char *text)
{
    call->status = status;
    snprintf(call->text, sizeof call->text, "halay: '%s': %s", call->info.name,
             *text ? text : halay_status_string(status));
}

/* Checks that the result of an all-gather or all-to-all has the size that the program was compiled for. */
static void check_size(struct call *call)
{
    struct halay_result result = { .struct_size = sizeof result };
    char text[128];

    if (call->status != HALAY_OK || !call->request ||
        (call->info.collective != HALAY_ALLGATHER && call->info.collective != HALAY_ALLTOALL) ||
        halay_wait(call->request, -1) != HALAY_OK || /* its status is final when the callback has returned */
        halay_request_result(call->request, &result) != HALAY_OK || result.bytes == call->info.out_bytes)
        return;
    snprintf(text, sizeof text, "the ranks gave %zu bytes, and the program was compiled for %zu", result.bytes,
             call->info.out_bytes);
    note_error(call, HALAY_ERR_MISMATCH, text);
}

/* Queues a call that has ended. The engine's callback. */
static void call_ended(void *arg, enum halay_status status, const char *text)
{
    struct call *call = arg;
    struct halay_xla *xla = call->xla;

    if (status != HALAY_OK)
        note_error(call, status, text);
    pthread_mutex_lock(&xla->lock);
    *xla->end = call;
    xla->end = &call->next;
    pthread_cond_signal(&xla->changes);
    pthread_mutex_unlock(&xla->lock);
}

/* Returns the next call that has ended; NULL: no more will end. */
static struct call *ended_take(struct halay_xla *xla)
{
    pthread_mutex_lock(&xla->lock);
    while (!xla->first && (xla->under_way || !xla->is_closed))
        pthread_cond_wait(&xla->changes, &xla->lock);
    struct call *call = xla->first;
    if (call) {
        xla->first = call->next;
        if (!xla->first)
            xla->end = &xla->first;
    }
    pthread_mutex_unlock(&xla->lock);
    return call;
}

static void under_way_add(struct halay_xla *xla, int more)
{
    pthread_mutex_lock(&xla->lock);
    xla->under_way += (size_t)more;
    pthread_mutex_unlock(&xla->lock);
}

static void *xla_run(void *arg)
{
    struct halay_xla *xla = arg;

    for (struct call *call; (call = ended_take(xla));) {
        pthread_mutex_lock(&xla->gate); /* the request exists when its submission has returned */
        if (xla->ctx) {
            check_size(call);
            halay_request_free(call->request);
        }
        pthread_mutex_unlock(&xla->gate);
        call_complete(call);
        free(call);
        under_way_add(xla, -1);
    }
    return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Submits a call. Returns the status, with the text on this thread. */
static enum halay_status call_submit(struct halay_xla *xla, struct call *call)
{
    pthread_mutex_lock(&xla->gate);
    enum halay_status status = HALAY_ERR_CLOSED;
    if (!xla->ctx) {
        note_error(call, status, "the context was closed");
    } else {
        if (call->info.collective == HALAY_BROADCAST && halay_rank(xla->ctx) == call->info.root &&
            call->info.out != call->info.in && call->info.out_bytes)
            memcpy(call->info.out, call->info.in, call->info.out_bytes);
        under_way_add(xla, 1);
        status = halay_submit_named(xla->ctx, &call->info, call_ended, call, &call->request);
        if (status != HALAY_OK) {
            note_error(call, status, halay_error_text());
            under_way_add(xla, -1);
        }
    }
    pthread_mutex_unlock(&xla->gate);
    return status;
}

/* Returns 0 if the context was closed: its description of the call may be gone. */
static int call_take_info(struct call *call, const struct halay_tensor_info *info)
{
    struct halay_xla *xla = call->xla;

    pthread_mutex_lock(&xla->gate);
    int is_open = xla->ctx != NULL;
    if (is_open)
        call->info = *info;
    pthread_mutex_unlock(&xla->gate);
    return is_open;
}

/* Returns nonzero if the call is XLA's query for the version of the handler, after answering it. */
static int answer_metadata(const struct xla_frame *frame)
{
    struct xla_metadata_extension *extension = (void *)frame->head.extensions;

    if (!extension || extension->base.type != XLA_EXTENSION_METADATA)
        return 0;
    extension->metadata->version.major = XLA_MAJOR;
    extension->metadata->version.minor = XLA_MINOR;
    return 1;
}

static void *call_handler(void *arg)
{
    static const char closed[] = "halay: the context was closed";
    struct xla_frame *frame = arg;
    struct xla_future_create create = { .head = { .struct_size = sizeof create } };

    if (answer_metadata(frame) || frame->stage != XLA_STAGE_EXECUTE)
        return NULL;
    const struct xla_api *api = frame->api;
    struct halay_xla *xla = (void *)(uintptr_t)find_word(&frame->attributes, "context"); // NOLINT
    const struct halay_tensor_info *info = (void *)(uintptr_t)find_word(&frame->attributes, "info");
    if (!xla || !info)
        return make_error(api, XLA_INVALID_ARGUMENT, "halay: a call has the attributes context and info");
    if (api->version.major != XLA_MAJOR || api->version.minor < XLA_MINOR)
        return make_error(api, XLA_INVALID_ARGUMENT, "halay: this XLA has an interface of another version");
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return make_error(api, XLA_ABORTED, "halay: out of memory");
    call->xla = xla;
    call->api = api;
    const char *wrong = call_take_info(call, info) ? call_describe(frame, &call->info) : closed;
    struct xla_error *error = wrong ? make_error(api, wrong == closed ? XLA_ABORTED : XLA_INVALID_ARGUMENT, wrong)
                                    : api->future_create(&create);
    if (error) {
        free(call);
        return error;
    }
    frame->future = call->future = create.future;
    if (call_submit(xla, call) != HALAY_OK) {
        call_complete(call);
        free(call);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static enum halay_status open_context(struct halay_context *ctx, struct halay_xla **out)
{
    sigset_t all, before;
    pthread_t thread;

    if (!ctx || !out)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_xla_open: no context, or no place for the result");
    struct halay_xla *xla = calloc(1, sizeof *xla);
    if (!xla)
        return halay_returns(HALAY_ERR_NO_MEMORY);
    xla->ctx = ctx;
    xla->end = &xla->first;
    pthread_mutex_init(&xla->gate, NULL);
    pthread_mutex_init(&xla->lock, NULL);
    pthread_cond_init(&xla->changes, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program handles signals */
    int error = pthread_create(&thread, NULL, xla_run, xla);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        pthread_cond_destroy(&xla->changes);
        pthread_mutex_destroy(&xla->lock);
        pthread_mutex_destroy(&xla->gate);
        free(xla);
        return halay_refuses(HALAY_ERR_SYSTEM, "no thread for XLA's calls: %s", strerror(error));
    }
    pthread_detach(thread);
    *out = xla;
    return HALAY_OK;
}

static void close_context(struct halay_xla *xla)
{
    if (!xla)
        return;
    pthread_mutex_lock(&xla->gate);
    xla->ctx = NULL;
    pthread_mutex_unlock(&xla->gate);
    pthread_mutex_lock(&xla->lock);
    xla->is_closed = 1;
    pthread_cond_signal(&xla->changes);
    pthread_mutex_unlock(&xla->lock);
}

const struct halay_xla_calls *halay_xla_calls(void)
{
    static const struct halay_xla_calls calls = { sizeof calls, open_context, close_context, call_handler };

    return &calls;
}
