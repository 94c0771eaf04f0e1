/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: the bodies of what halay_coll.h declares static inline. Include halay_coll.h; nothing else here is for
 * programs.
 */
#ifndef HALAY_COLL_INLINE_H
#define HALAY_COLL_INLINE_H

#include "halay_coll.h"
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- questions ---- */

static inline struct halay_group_info halay_inline_group(const struct halay_group *group)
{
    struct halay_group_info info;

    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    halay_group_read(group, &info);
    return info;
}

static inline int halay_group_rank(const struct halay_group *group)
{
    return halay_inline_group(group).rank;
}

static inline int halay_group_size(const struct halay_group *group)
{
    return halay_inline_group(group).size;
}

static inline int halay_group_local_rank(const struct halay_group *group)
{
    return halay_inline_group(group).local_rank;
}

static inline int halay_group_local_size(const struct halay_group *group)
{
    return halay_inline_group(group).local_size;
}

static inline const char *halay_group_transport(const struct halay_group *group)
{
    return halay_inline_group(group).transport;
}

/* ---- blocking collectives ---- */

static inline enum halay_status halay_inline_finish(enum halay_status started, struct halay_coll *coll)
{
    return started == HALAY_OK ? halay_coll_finish(coll) : started;
}

static inline enum halay_status halay_group_allreduce(struct halay_group *group, const void *in, void *out,
                                                      size_t count, enum halay_dtype dtype,
                                                      enum halay_reduction reduction)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_allreduce_start(group, in, out, count, dtype, reduction, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_allreduce_adasum(struct halay_group *group, const void *in, void *out,
                                                             const size_t *counts, size_t tensors,
                                                             enum halay_dtype dtype)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_allreduce_adasum_start(group, in, out, counts, tensors, dtype, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_broadcast(struct halay_group *group, void *buf, size_t count,
                                                      enum halay_dtype dtype, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_broadcast_start(group, buf, count, dtype, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_allgather(struct halay_group *group, const void *in, void *out,
                                                      size_t count, enum halay_dtype dtype)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_allgather_start(group, in, out, count, dtype, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_allgatherv(struct halay_group *group, const void *in, void *out,
                                                       const size_t *counts, enum halay_dtype dtype)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_allgatherv_start(group, in, out, counts, dtype, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_reduce(struct halay_group *group, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, enum halay_reduction reduction, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_reduce_start(group, in, out, count, dtype, reduction, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_reduce_scatter(struct halay_group *group, const void *in, void *out,
                                                           size_t count, enum halay_dtype dtype,
                                                           enum halay_reduction reduction)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_reduce_scatter_start(group, in, out, count, dtype, reduction, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_reduce_scatterv(struct halay_group *group, const void *in, void *out,
                                                            const size_t *counts, enum halay_dtype dtype,
                                                            enum halay_reduction reduction)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_reduce_scatterv_start(group, in, out, counts, dtype, reduction, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_alltoall(struct halay_group *group, const void *in, void *out, size_t count,
                                                     enum halay_dtype dtype)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_alltoall_start(group, in, out, count, dtype, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_alltoallv(struct halay_group *group, const void *in,
                                                      const size_t *in_counts, void *out, const size_t *out_counts,
                                                      enum halay_dtype dtype)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_alltoallv_start(group, in, in_counts, out, out_counts, dtype, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_barrier(struct halay_group *group)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_barrier_start(group, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_gather_start(struct halay_group *group, const void *in, void *out,
                                                         size_t count, enum halay_dtype dtype, int root,
                                                         struct halay_coll **coll)
{
    return halay_group_gatherv_start(group, in, out, NULL, count, dtype, root, coll);
}

static inline enum halay_status halay_group_gather(struct halay_group *group, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_gather_start(group, in, out, count, dtype, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_gatherv(struct halay_group *group, const void *in, void *out,
                                                    const size_t *counts, enum halay_dtype dtype, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_gatherv_start(group, in, out, counts, 0, dtype, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_scatter_start(struct halay_group *group, const void *in, void *out,
                                                          size_t count, enum halay_dtype dtype, int root,
                                                          struct halay_coll **coll)
{
    return halay_group_scatterv_start(group, in, out, NULL, count, dtype, root, coll);
}

static inline enum halay_status halay_group_scatter(struct halay_group *group, const void *in, void *out, size_t count,
                                                    enum halay_dtype dtype, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_scatter_start(group, in, out, count, dtype, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_scatterv(struct halay_group *group, const void *in, void *out,
                                                     const size_t *counts, enum halay_dtype dtype, int root)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_scatterv_start(group, in, out, counts, 0, dtype, root, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_send(struct halay_group *group, const void *buf, size_t count,
                                                 enum halay_dtype dtype, int peer, int tag)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_send_start(group, buf, count, dtype, peer, tag, &coll);

    return halay_inline_finish(status, coll);
}

static inline enum halay_status halay_group_receive(struct halay_group *group, void *buf, size_t count,
                                                    enum halay_dtype dtype, int peer, int tag)
{
    struct halay_coll *coll = NULL;
    enum halay_status status = halay_group_receive_start(group, buf, count, dtype, peer, tag, &coll);

    return halay_inline_finish(status, coll);
}

#ifdef __cplusplus
}
#endif
#endif
