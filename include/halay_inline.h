/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: the bodies of what halay.h declares static inline. Include halay.h; nothing else here is for programs.
 */
#ifndef HALAY_INLINE_H
#define HALAY_INLINE_H

#include "halay.h"
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- questions ---- */

static inline struct halay_context_info halay_inline_context(const struct halay_context *ctx)
{
    struct halay_context_info info;

    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    halay_context_read(ctx, &info);
    return info;
}

static inline int halay_rank(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).rank;
}

static inline int halay_size(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).size;
}

static inline int halay_local_rank(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).local_rank;
}

static inline int halay_local_size(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).local_size;
}

static inline int halay_cross_rank(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).cross_rank;
}

static inline int halay_cross_size(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).cross_size;
}

static inline int halay_is_homogeneous(const struct halay_context *ctx)
{
    return halay_inline_context(ctx).is_homogeneous;
}

static inline struct halay_process_set_info halay_inline_set(const struct halay_process_set *set, int *ranks)
{
    struct halay_process_set_info info;

    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    info.ranks = ranks;
    info.room = ranks ? SIZE_MAX : 0;
    halay_process_set_read(set, &info);
    return info;
}

static inline int halay_process_set_number(const struct halay_process_set *set)
{
    return halay_inline_set(set, NULL).number;
}

static inline int halay_process_set_size(const struct halay_process_set *set)
{
    return halay_inline_set(set, NULL).size;
}

static inline int halay_process_set_rank(const struct halay_process_set *set)
{
    return halay_inline_set(set, NULL).rank;
}

static inline int halay_process_set_is_included(const struct halay_process_set *set)
{
    return halay_process_set_rank(set) >= 0;
}

static inline void halay_process_set_ranks(const struct halay_process_set *set, int *ranks)
{
    (void)halay_inline_set(set, ranks);
}

static inline size_t halay_scatter_rows(size_t rows, int size, int rank, size_t *first)
{
    if (size < 1 || rank < 0 || rank >= size)
        return 0;
    size_t each = rows / (size_t)size, more = rows % (size_t)size, r = (size_t)rank;

    if (first)
        *first = r * each + (r < more ? r : more);
    return each + (r < more);
}

/* ---- descriptions ---- */

static inline struct halay_tensor_info halay_inline_info(const char *name, enum halay_collective collective,
                                                         const void *in, void *out, size_t count,
                                                         enum halay_dtype dtype)
{
    struct halay_tensor_info info;

    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    info.name = name;
    info.collective = collective;
    info.dtype = dtype;
    info.dimensions = 1;
    info.shape[0] = count;
    info.in = in;
    info.out = out;
    return info;
}

static inline struct halay_tensor_info halay_inline_reduction(const char *name, enum halay_collective collective,
                                                              const void *in, void *out, size_t count,
                                                              enum halay_dtype dtype, enum halay_reduction reduction)
{
    struct halay_tensor_info info = halay_inline_info(name, collective, in, out, count, dtype);

    info.reduction = reduction;
    return info;
}

/* rows of columns elements. */
static inline struct halay_tensor_info halay_inline_rows(const char *name, enum halay_collective collective,
                                                         const void *in, size_t rows, size_t columns,
                                                         enum halay_dtype dtype, void *out, size_t out_rows)
{
    struct halay_tensor_info info = halay_inline_info(name, collective, in, out, rows, dtype);
    size_t row = columns * halay_dtype_size(dtype);

    info.dimensions = 2;
    info.shape[1] = columns;
    info.out_bytes = row && out_rows > SIZE_MAX / row ? SIZE_MAX : out_rows * row;
    return info;
}

static inline struct halay_tensor_info halay_inline_point(const char *name, enum halay_collective collective,
                                                          const void *in, void *out, size_t count,
                                                          enum halay_dtype dtype, int peer, int64_t tag)
{
    struct halay_tensor_info info = halay_inline_info(name, collective, in, out, count, dtype);

    info.peer = peer;
    info.tag = tag;
    return info;
}

static inline enum halay_status halay_inline_submit(struct halay_context *ctx, const struct halay_tensor_info *info,
                                                    struct halay_request **request)
{
    return halay_submit_named(ctx, info, NULL, NULL, request);
}

/* ---- operations by name ---- */

static inline enum halay_status halay_allreduce_async(struct halay_context *ctx, const char *name, const void *in,
                                                      void *out, size_t count, enum halay_dtype dtype,
                                                      enum halay_reduction reduction, struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_reduction(name, HALAY_ALLREDUCE, in, out, count, dtype, reduction);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_allreduce(struct halay_context *ctx, const char *name, const void *in, void *out,
                                                size_t count, enum halay_dtype dtype, enum halay_reduction reduction)
{
    struct halay_tensor_info info = halay_inline_reduction(name, HALAY_ALLREDUCE, in, out, count, dtype, reduction);

    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_broadcast_async(struct halay_context *ctx, const char *name, void *data,
                                                      size_t count, enum halay_dtype dtype, int root,
                                                      struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_info(name, HALAY_BROADCAST, data, data, count, dtype);

    info.root = root;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_broadcast(struct halay_context *ctx, const char *name, void *data, size_t count,
                                                enum halay_dtype dtype, int root)
{
    struct halay_tensor_info info = halay_inline_info(name, HALAY_BROADCAST, data, data, count, dtype);

    info.root = root;
    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_reduce_scatter_async(struct halay_context *ctx, const char *name, const void *in,
                                                           void *out, size_t rows, size_t columns,
                                                           enum halay_dtype dtype, enum halay_reduction reduction,
                                                           struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_REDUCE_SCATTER, in, rows, columns, dtype, out, 0);

    info.reduction = reduction;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_reduce_scatter(struct halay_context *ctx, const char *name, const void *in,
                                                     void *out, size_t rows, size_t columns, enum halay_dtype dtype,
                                                     enum halay_reduction reduction)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_REDUCE_SCATTER, in, rows, columns, dtype, out, 0);

    info.reduction = reduction;
    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_allgather_async(struct halay_context *ctx, const char *name, const void *in,
                                                      size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                      size_t out_rows, struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_ALLGATHER, in, rows, columns, dtype, out, out_rows);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_allgather(struct halay_context *ctx, const char *name, const void *in,
                                                size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                size_t out_rows, size_t *rows_from)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_ALLGATHER, in, rows, columns, dtype, out, out_rows);

    return halay_run(ctx, &info, NULL, rows_from);
}

static inline enum halay_status halay_alltoall_async(struct halay_context *ctx, const char *name, const void *in,
                                                     const size_t *splits, size_t rows, size_t columns,
                                                     enum halay_dtype dtype, void *out, size_t out_rows,
                                                     struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_ALLTOALL, in, rows, columns, dtype, out, out_rows);

    info.splits = splits;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_alltoall(struct halay_context *ctx, const char *name, const void *in,
                                               const size_t *splits, size_t rows, size_t columns,
                                               enum halay_dtype dtype, void *out, size_t out_rows, size_t *rows_from)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_ALLTOALL, in, rows, columns, dtype, out, out_rows);

    info.splits = splits;
    return halay_run(ctx, &info, NULL, rows_from);
}

static inline enum halay_status halay_reduce_async(struct halay_context *ctx, const char *name, const void *in,
                                                   void *out, size_t count, enum halay_dtype dtype,
                                                   enum halay_reduction reduction, int root,
                                                   struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_reduction(name, HALAY_REDUCE, in, out, count, dtype, reduction);

    info.root = root;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_reduce(struct halay_context *ctx, const char *name, const void *in, void *out,
                                             size_t count, enum halay_dtype dtype, enum halay_reduction reduction,
                                             int root)
{
    struct halay_tensor_info info = halay_inline_reduction(name, HALAY_REDUCE, in, out, count, dtype, reduction);

    info.root = root;
    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_gather_async(struct halay_context *ctx, const char *name, const void *in,
                                                   size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                   size_t out_rows, int root, struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_GATHER, in, rows, columns, dtype, out, out_rows);

    info.root = root;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_gather(struct halay_context *ctx, const char *name, const void *in, size_t rows,
                                             size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                             int root, size_t *rows_from)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_GATHER, in, rows, columns, dtype, out, out_rows);

    info.root = root;
    return halay_run(ctx, &info, NULL, rows_from);
}

static inline enum halay_status halay_scatter_async(struct halay_context *ctx, const char *name, const void *in,
                                                    const size_t *splits, size_t rows, size_t columns,
                                                    enum halay_dtype dtype, void *out, size_t out_rows, int root,
                                                    struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_SCATTER, in, rows, columns, dtype, out, out_rows);

    info.splits = splits;
    info.root = root;
    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_scatter(struct halay_context *ctx, const char *name, const void *in,
                                              const size_t *splits, size_t rows, size_t columns, enum halay_dtype dtype,
                                              void *out, size_t out_rows, int root, size_t *got)
{
    struct halay_tensor_info info = halay_inline_rows(name, HALAY_SCATTER, in, rows, columns, dtype, out, out_rows);
    struct halay_result result;

    memset(&result, 0, sizeof result);
    result.struct_size = sizeof result;
    info.splits = splits;
    info.root = root;
    enum halay_status status = halay_run(ctx, &info, got ? &result : NULL, NULL);
    if (got && result.dimensions)
        *got = result.shape[0];
    return status;
}

static inline enum halay_status halay_send_async(struct halay_context *ctx, const char *name, const void *in,
                                                 size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                 struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_point(name, HALAY_SEND, in, NULL, count, dtype, peer, tag);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_send(struct halay_context *ctx, const char *name, const void *in, size_t count,
                                           enum halay_dtype dtype, int peer, int64_t tag)
{
    struct halay_tensor_info info = halay_inline_point(name, HALAY_SEND, in, NULL, count, dtype, peer, tag);

    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_receive_async(struct halay_context *ctx, const char *name, void *out,
                                                    size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                    struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_point(name, HALAY_RECEIVE, NULL, out, count, dtype, peer, tag);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_receive(struct halay_context *ctx, const char *name, void *out, size_t count,
                                              enum halay_dtype dtype, int peer, int64_t tag)
{
    struct halay_tensor_info info = halay_inline_point(name, HALAY_RECEIVE, NULL, out, count, dtype, peer, tag);

    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_barrier_async(struct halay_context *ctx, const char *name,
                                                    struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_info(name, HALAY_BARRIER, NULL, NULL, 0, HALAY_F32);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_barrier(struct halay_context *ctx, const char *name)
{
    struct halay_tensor_info info = halay_inline_info(name, HALAY_BARRIER, NULL, NULL, 0, HALAY_F32);

    return halay_run(ctx, &info, NULL, NULL);
}

static inline enum halay_status halay_join_async(struct halay_context *ctx, struct halay_request **request)
{
    struct halay_tensor_info info = halay_inline_info(NULL, HALAY_JOIN, NULL, NULL, 0, HALAY_F32);

    return halay_inline_submit(ctx, &info, request);
}

static inline enum halay_status halay_join(struct halay_context *ctx, int *last_joined)
{
    struct halay_tensor_info info = halay_inline_info(NULL, HALAY_JOIN, NULL, NULL, 0, HALAY_F32);
    struct halay_result result;

    memset(&result, 0, sizeof result);
    result.struct_size = sizeof result;
    enum halay_status status = halay_run(ctx, &info, last_joined ? &result : NULL, NULL);
    if (status == HALAY_OK && last_joined)
        *last_joined = result.last_joined;
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
