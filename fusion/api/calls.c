/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: the operations by name with plain arguments, asynchronous and blocking; each fills in a description and
 * submits it.
 */
#include "base/memory.h"
#include "fusion/api/submit.h"
#include "fusion/api/wait.h"
#include "fusion/state/context.h"
#include "fusion/state/request.h"
#include <string.h>

static struct halay_tensor_info describe(const char *name, enum halay_collective collective, const void *in, void *out,
                                         size_t count, enum halay_dtype dtype)
{
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = name,
                                       .collective = collective,
                                       .dtype = dtype,
                                       .dimensions = 1,
                                       .shape = { count },
                                       .in = in,
                                       .out = out };
}

static struct halay_tensor_info describe_allreduce(const char *name, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, enum halay_reduction reduction)
{
    struct halay_tensor_info info = describe(name, HALAY_ALLREDUCE, in, out, count, dtype);

    info.reduction = reduction;
    return info;
}

static struct halay_tensor_info describe_reduce(const char *name, const void *in, void *out, size_t count,
                                                enum halay_dtype dtype, enum halay_reduction reduction, int root)
{
    struct halay_tensor_info info = describe(name, HALAY_REDUCE, in, out, count, dtype);

    info.reduction = reduction;
    info.root = root;
    return info;
}

static struct halay_tensor_info describe_broadcast(const char *name, void *data, size_t count, enum halay_dtype dtype,
                                                   int root)
{
    struct halay_tensor_info info = describe(name, HALAY_BROADCAST, data, data, count, dtype);

    info.root = root;
    return info;
}

/* rows of columns elements. */
static struct halay_tensor_info describe_rows(const char *name, enum halay_collective collective, const void *in,
                                              size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                              size_t out_rows)
{
    struct halay_tensor_info info = describe(name, collective, in, out, rows, dtype);

    info.dimensions = 2;
    info.shape[1] = columns;
    if (halay_mul_overflows(out_rows, columns * halay_dtype_size(dtype), &info.out_bytes))
        info.out_bytes = SIZE_MAX;
    return info;
}

static struct halay_tensor_info describe_reduce_scatter(const char *name, const void *in, void *out, size_t rows,
                                                        size_t columns, enum halay_dtype dtype,
                                                        enum halay_reduction reduction)
{
    struct halay_tensor_info info = describe_rows(name, HALAY_REDUCE_SCATTER, in, rows, columns, dtype, out, 0);

    info.reduction = reduction;
    return info;
}

static struct halay_tensor_info describe_alltoall(const char *name, const void *in, const size_t *splits, size_t rows,
                                                  size_t columns, enum halay_dtype dtype, void *out, size_t out_rows)
{
    struct halay_tensor_info info = describe_rows(name, HALAY_ALLTOALL, in, rows, columns, dtype, out, out_rows);

    info.splits = splits;
    return info;
}

static struct halay_tensor_info describe_gather(const char *name, const void *in, size_t rows, size_t columns,
                                                enum halay_dtype dtype, void *out, size_t out_rows, int root)
{
    struct halay_tensor_info info = describe_rows(name, HALAY_GATHER, in, rows, columns, dtype, out, out_rows);

    info.root = root;
    return info;
}

static struct halay_tensor_info describe_scatter(const char *name, const void *in, const size_t *splits, size_t rows,
                                                 size_t columns, enum halay_dtype dtype, void *out, size_t out_rows)
{
    struct halay_tensor_info info = describe_rows(name, HALAY_SCATTER, in, rows, columns, dtype, out, out_rows);

    info.splits = splits;
    return info;
}

static struct halay_tensor_info describe_point(const char *name, enum halay_collective collective, const void *in,
                                               void *out, size_t count, enum halay_dtype dtype, int peer, int64_t tag)
{
    struct halay_tensor_info info = describe(name, collective, in, out, count, dtype);

    info.peer = peer;
    info.tag = tag;
    return info;
}

static struct halay_tensor_info describe_barrier(const char *name)
{
    return describe(name, HALAY_BARRIER, NULL, NULL, 0, HALAY_F32);
}

/* ---- asynchronous ---- */

static enum halay_status submit_call(struct halay_context *ctx, struct halay_tensor_info info,
                                     struct halay_request **request)
{
    return halay_submit_info(ctx, &info, NULL, NULL, HALAY_MAY_WAIT, request);
}

enum halay_status halay_allreduce_async(struct halay_context *ctx, const char *name, const void *in, void *out,
                                        size_t count, enum halay_dtype dtype, enum halay_reduction reduction,
                                        struct halay_request **request)
{
    return submit_call(ctx, describe_allreduce(name, in, out, count, dtype, reduction), request);
}

enum halay_status halay_broadcast_async(struct halay_context *ctx, const char *name, void *data, size_t count,
                                        enum halay_dtype dtype, int root, struct halay_request **request)
{
    return submit_call(ctx, describe_broadcast(name, data, count, dtype, root), request);
}

enum halay_status halay_reduce_scatter_async(struct halay_context *ctx, const char *name, const void *in, void *out,
                                             size_t rows, size_t columns, enum halay_dtype dtype,
                                             enum halay_reduction reduction, struct halay_request **request)
{
    return submit_call(ctx, describe_reduce_scatter(name, in, out, rows, columns, dtype, reduction), request);
}

enum halay_status halay_allgather_async(struct halay_context *ctx, const char *name, const void *in, size_t rows,
                                        size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                        struct halay_request **request)
{
    return submit_call(ctx, describe_rows(name, HALAY_ALLGATHER, in, rows, columns, dtype, out, out_rows), request);
}

enum halay_status halay_alltoall_async(struct halay_context *ctx, const char *name, const void *in,
                                       const size_t *splits, size_t rows, size_t columns, enum halay_dtype dtype,
                                       void *out, size_t out_rows, struct halay_request **request)
{
    return submit_call(ctx, describe_alltoall(name, in, splits, rows, columns, dtype, out, out_rows), request);
}

enum halay_status halay_reduce_async(struct halay_context *ctx, const char *name, const void *in, void *out,
                                     size_t count, enum halay_dtype dtype, enum halay_reduction reduction, int root,
                                     struct halay_request **request)
{
    return submit_call(ctx, describe_reduce(name, in, out, count, dtype, reduction, root), request);
}

enum halay_status halay_gather_async(struct halay_context *ctx, const char *name, const void *in, size_t rows,
                                     size_t columns, enum halay_dtype dtype, void *out, size_t out_rows, int root,
                                     struct halay_request **request)
{
    return submit_call(ctx, describe_gather(name, in, rows, columns, dtype, out, out_rows, root), request);
}

enum halay_status halay_scatter_async(struct halay_context *ctx, const char *name, const void *in, const size_t *splits,
                                      size_t rows, size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                      int root, struct halay_request **request)
{
    struct halay_tensor_info info = describe_scatter(name, in, splits, rows, columns, dtype, out, out_rows);

    info.root = root;
    return submit_call(ctx, info, request);
}

enum halay_status halay_send_async(struct halay_context *ctx, const char *name, const void *in, size_t count,
                                   enum halay_dtype dtype, int peer, int64_t tag, struct halay_request **request)
{
    return submit_call(ctx, describe_point(name, HALAY_SEND, in, NULL, count, dtype, peer, tag), request);
}

enum halay_status halay_receive_async(struct halay_context *ctx, const char *name, void *out, size_t count,
                                      enum halay_dtype dtype, int peer, int64_t tag, struct halay_request **request)
{
    return submit_call(ctx, describe_point(name, HALAY_RECEIVE, NULL, out, count, dtype, peer, tag), request);
}

enum halay_status halay_barrier_async(struct halay_context *ctx, const char *name, struct halay_request **request)
{
    return submit_call(ctx, describe_barrier(name), request);
}

enum halay_status halay_join_async(struct halay_context *ctx, struct halay_request **request)
{
    return submit_call(ctx, describe(HALAY_JOIN_NAME, HALAY_JOIN, NULL, NULL, 0, HALAY_F32), request);
}

/* ---- blocking ---- */

/* The wait follows at once and drives: waking the background thread as well would only cost. rows_from and got may be
 * NULL. */
static enum halay_status run_call(struct halay_context *ctx, struct halay_tensor_info info, size_t *rows_from,
                                  size_t *got)
{
    struct halay_request *request;

    enum halay_status status = halay_may_block(ctx, "a call that blocks");
    if (status != HALAY_OK)
        return status;
    halay_call_begin(ctx);
    status = halay_submit_info(ctx, &info, NULL, NULL, HALAY_WILL_WAIT, &request);
    if (status == HALAY_OK) {
        status = halay_wait(request, -1);
        if (status != HALAY_ERR_CLOSED && request->has_rows && rows_from)
            memcpy(rows_from, request->rows, (size_t)ctx->size * sizeof *rows_from);
        if (status != HALAY_ERR_CLOSED && request->has_rows && got)
            *got = request->result_rows;
        halay_request_free(request);
    }
    halay_call_end(ctx);
    return status;
}

enum halay_status halay_allreduce(struct halay_context *ctx, const char *name, const void *in, void *out, size_t count,
                                  enum halay_dtype dtype, enum halay_reduction reduction)
{
    return run_call(ctx, describe_allreduce(name, in, out, count, dtype, reduction), NULL, NULL);
}

enum halay_status halay_broadcast(struct halay_context *ctx, const char *name, void *data, size_t count,
                                  enum halay_dtype dtype, int root)
{
    return run_call(ctx, describe_broadcast(name, data, count, dtype, root), NULL, NULL);
}

enum halay_status halay_reduce_scatter(struct halay_context *ctx, const char *name, const void *in, void *out,
                                       size_t rows, size_t columns, enum halay_dtype dtype,
                                       enum halay_reduction reduction)
{
    return run_call(ctx, describe_reduce_scatter(name, in, out, rows, columns, dtype, reduction), NULL, NULL);
}

enum halay_status halay_allgather(struct halay_context *ctx, const char *name, const void *in, size_t rows,
                                  size_t columns, enum halay_dtype dtype, void *out, size_t out_rows, size_t *rows_from)
{
    return run_call(ctx, describe_rows(name, HALAY_ALLGATHER, in, rows, columns, dtype, out, out_rows), rows_from,
                    NULL);
}

enum halay_status halay_alltoall(struct halay_context *ctx, const char *name, const void *in, const size_t *splits,
                                 size_t rows, size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                 size_t *rows_from)
{
    return run_call(ctx, describe_alltoall(name, in, splits, rows, columns, dtype, out, out_rows), rows_from, NULL);
}

enum halay_status halay_reduce(struct halay_context *ctx, const char *name, const void *in, void *out, size_t count,
                               enum halay_dtype dtype, enum halay_reduction reduction, int root)
{
    return run_call(ctx, describe_reduce(name, in, out, count, dtype, reduction, root), NULL, NULL);
}

enum halay_status halay_gather(struct halay_context *ctx, const char *name, const void *in, size_t rows, size_t columns,
                               enum halay_dtype dtype, void *out, size_t out_rows, int root, size_t *rows_from)
{
    return run_call(ctx, describe_gather(name, in, rows, columns, dtype, out, out_rows, root), rows_from, NULL);
}

enum halay_status halay_scatter(struct halay_context *ctx, const char *name, const void *in, const size_t *splits,
                                size_t rows, size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                int root, size_t *got)
{
    struct halay_tensor_info info = describe_scatter(name, in, splits, rows, columns, dtype, out, out_rows);

    info.root = root;
    return run_call(ctx, info, NULL, got);
}

enum halay_status halay_send(struct halay_context *ctx, const char *name, const void *in, size_t count,
                             enum halay_dtype dtype, int peer, int64_t tag)
{
    return run_call(ctx, describe_point(name, HALAY_SEND, in, NULL, count, dtype, peer, tag), NULL, NULL);
}

enum halay_status halay_receive(struct halay_context *ctx, const char *name, void *out, size_t count,
                                enum halay_dtype dtype, int peer, int64_t tag)
{
    return run_call(ctx, describe_point(name, HALAY_RECEIVE, NULL, out, count, dtype, peer, tag), NULL, NULL);
}

enum halay_status halay_barrier(struct halay_context *ctx, const char *name)
{
    return run_call(ctx, describe_barrier(name), NULL, NULL);
}

enum halay_status halay_join(struct halay_context *ctx, int *last_joined)
{
    struct halay_result result = { .struct_size = sizeof result };
    struct halay_request *request;

    enum halay_status status = halay_may_block(ctx, "halay_join");
    if (status != HALAY_OK)
        return status;
    halay_call_begin(ctx);
    status = halay_join_async(ctx, &request);
    if (status == HALAY_OK) {
        status = halay_wait(request, -1);
        if (status == HALAY_OK && last_joined && halay_request_result(request, &result) == HALAY_OK)
            *last_joined = result.last_joined;
        halay_request_free(request);
    }
    halay_call_end(ctx);
    return status;
}
