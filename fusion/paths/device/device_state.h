/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the carrier of data on devices: its devices, stagings, and results in progress.
 */
#ifndef HALAY_DEVICE_STATE_H
#define HALAY_DEVICE_STATE_H

#include "collectives/group/transit.h"
#include "collectives/group/world.h"
#include "collectives/transport/device_ops.h"
#include "collectives/transport/devices.h"
#include "fusion/requests/carrier.h"

struct halay_bucket;
struct halay_coll;
struct halay_staging;

enum { HALAY_STAGING_CLASSES = 256 }; /* of sizes: staging.c */

struct halay_staging_device {
    struct halay_device device;                        /* first */
    struct halay_staging *idle[HALAY_STAGING_CLASSES]; /* unused stagings; guarded by the context's lock */
};

/* The state of collectives by the devices of a host (direct.c): the same on all ranks from one bucket to the next. */
enum halay_direct_state {
    HALAY_DIRECT_REFUSED, /* the data are copied to host memory, and reduced there */
    HALAY_DIRECT_UNKNOWN, /* not determined yet */
    HALAY_DIRECT_OPEN,
};

enum halay_direct_step {
    HALAY_DIRECT_NCCL,   /* NCCL is wanted: nccl.c */
    HALAY_DIRECT_MAKE,   /* several hosts: the ranks make their groups */
    HALAY_DIRECT_CREATE, /* each rank makes its segment */
    HALAY_DIRECT_SHARE,  /* once its device has cleared it, it sends the handle */
    HALAY_DIRECT_AGREE,  /* each rank sends whether it can access the others' segments */
    HALAY_DIRECT_AGREE_HOSTS,
    HALAY_DIRECT_CONCLUDE,
    HALAY_DIRECT_STAGE, /* refused: the data are copied to the host */
    HALAY_DIRECT_TURN,
    HALAY_DIRECT_WIRE, /* several hosts: the rest of a turn, in which this rank's share is summed over them */
    HALAY_DIRECT_END,
};

/* The time after a failure in which other ranks, which may not have its message yet, may still do what this one's
 * kernels wait for. */
enum { HALAY_DEVICE_GRACE_US = 500000 };

enum {
    HALAY_HOSTS_DEPTH = 4,   /* chunks between hosts at a time */
    HALAY_HOSTS_CHUNKS = 64, /* of a share at most */
};

/* The part of a direct all-reduce that leaves the host (hosts.c). */
struct halay_hosts {
    int count, locals, local;          /* hosts; ranks of each; this rank's number on its own */
    struct halay_group *near, *rail;   /* owned: the ranks of this host; those of this number. NULL: not made */
    struct halay_group_making *making; /* owned: of the first of them that is NULL */
    struct halay_transit transit;      /* its block only: of a whole share */
    struct halay_device_point summed;  /* of the direct stream; its event is owned, as the next two */
    struct halay_device_point arrived, returned;          /* the last copies to the host and to the device */
    int has_returned;                                     /* `returned` is of the share under way */
    struct halay_device_point points[HALAY_HOSTS_CHUNKS]; /* when each chunk has arrived in host memory */
    struct halay_coll *colls[HALAY_HOSTS_DEPTH];          /* owned: of chunks under way */
    void *share;                                          /* borrowed: on the device, `total` elements */
    size_t total, chunk;                                  /* elements */
    size_t chunks, started, ended; /* of the share; those given to the rail; those whose sums have arrived */
    enum halay_dtype dtype;
};

/* A tensor of a bucket, or a rank's block of it, as it passes through the segments. */
struct halay_direct_part {
    const char *in; /* NULL: this rank gives none of it */
    char *out;      /* NULL: this rank takes none of it */
    size_t count;   /* elements */
    int rank;       /* whose segment the result is in */
    float prescale, postscale;
};

enum halay_nccl_step {
    HALAY_NCCL_OFFER,    /* each rank sends what it has */
    HALAY_NCCL_IDENTIFY, /* all have: rank 0 sends an id */
    HALAY_NCCL_JOIN,     /* the communicator is made */
    HALAY_NCCL_WAIT,     /* until it is there */
    HALAY_NCCL_REDUCE,   /* the bucket */
    HALAY_NCCL_END,      /* until NCCL has given it to the stream */
};

struct halay_nccl_offer; /* nccl.c */

struct halay_nccl_id {
    unsigned char is_there, bytes[HALAY_NCCL_ID];
};

struct halay_nccl {
    _Atomic int state;               /* enum halay_direct_state, as that of struct halay_direct */
    enum halay_nccl_step step;       /* of the bucket under way */
    struct halay_coll *coll;         /* owned: of offers, or of the id */
    struct halay_nccl_offer *offers; /* owned: [size], until all have been seen */
    struct halay_nccl_id id;         /* rank 0's */
    void *comm;                      /* owned; NULL: none */
    int is_aborted;                  /* its sums are worth nothing */
    int has_dropped;                 /* it may still give the stream a bucket that has been dropped */
    void *leaving;                   /* owned: the abort under way; NULL: none */
    int64_t joined_us;               /* when it was asked for; 0: a warning has been given */
    int64_t looked_us, lost_us;      /* the last look; when NCCL reported another rank's error; 0: never */
};

struct halay_direct {
    _Atomic int state; /* enum halay_direct_state; stored by the driver, relaxed: a hint for the program's threads */
    /* The device of all direct data, set by the first submission; guarded by the devices' lock. */
    struct halay_device *device;
    void *stream, *copies; /* owned: the engine's streams on the device: for sums, and for copies beside them */
    struct halay_device_point done;   /* after the last work of both; its event, of `stream`, is owned */
    struct halay_device_point copied; /* after the last work of `copies`; its event is owned */
    void *segment; /* owned, [bytes]; kept until the end, so that no rank loses memory that it has opened */
    size_t bytes;
    int wants_segment; /* this rank's settings allow it one; set before the driver starts */
    int is_shared;     /* other ranks have the handle of the segment */
    int is_lent;       /* another rank may still have the segment open: not all ranks have reached the last barrier */
    struct halay_hosts hosts;
    struct halay_nccl nccl;
    struct halay_device_share mine, shares[HALAY_DEVICE_RANKS]; /* of this host's ranks, as the next ones */
    void *segments[HALAY_DEVICE_RANKS];                         /* as mapped on this rank; NULL: not mapped */
    unsigned char reaches_all; /* this rank can access all segments; the same for each rank: */
    unsigned char all_reach[HALAY_DEVICE_RANKS];
    int64_t agreed[2];           /* of all hosts: which rank refuses, if one does (segments.c), and room */
    size_t room;                 /* bytes of half of the smallest segment */
    struct halay_bucket *bucket; /* borrowed: under way; without a plan no other one of the set starts until its end */
    enum halay_direct_step step; /* the next */
    struct halay_coll *coll;     /* owned: a barrier of the ranks */
    int64_t cleared_by_us;       /* until when a rank waits for its device */
    int is_launched;             /* the stream has work that the other ranks wait for */
    int is_lost;                 /* `done` does not mark the end of all work */
    struct halay_direct_part *parts; /* owned array, kept: of the bucket */
    size_t part_count, part_capacity;
    int is_one_shot;                   /* nothing is unpacked: each rank takes its results from all segments */
    size_t total;                      /* elements of the bucket */
    size_t slice;                      /* elements of a part in a window; 0: parts lie one after the other */
    size_t windows, turn;              /* of the bucket: that many halves, and the next turn */
    size_t exchange_max;               /* bytes of a sum in one launch whose kernels wait for the other ranks' */
    _Atomic uint32_t *failed;          /* borrowed: ends such waits */
    int is_exchange;                   /* the bucket is summed in one launch */
    uint32_t exchanges;                /* launches of that kind up to now */
    size_t passed;                     /* windows of the buckets before: whether this one begins in the first half */
    struct halay_device_piece *pieces; /* owned array, kept */
    size_t piece_count, piece_capacity;
    void *copy; /* owned, [copy_bytes], kept: of rows that others would overwrite */
    size_t copy_bytes;
    void **outgrown; /* owned array, [outgrown_count]: what `copy` was */
    size_t outgrown_count, outgrown_capacity;
};

struct halay_device_carrier {
    struct halay_carrier carrier;   /* first */
    struct halay_devices devices;   /* each is a struct halay_staging_device */
    struct halay_staging *stagings; /* owned: all of them; guarded by the context's lock */
    struct halay_direct direct;

    /* Driver only. */
    struct halay_events deferred; /* owned: of submissions whose data have not arrived (deferred.c) */
    /* Requests that have succeeded, whose results are being copied back; those from launched on are not published. */
    struct halay_request *landing, **landing_last, *launched;
    enum halay_status status; /* an error: results on a device have failed */
    int64_t failed_us;        /* when the engine failed; 0: it works */
    int64_t copied_us;        /* when copies were last started, or found to have completed */
    unsigned long hosts_work; /* halay_hosts_work at the last step */
};

/* Creates the carrier (requests/carrier.h), NULL without memory. */
struct halay_carrier *halay_device_carrier_create(void);

/* Return the carrier of the context, and its devices. */
static inline struct halay_device_carrier *halay_device_carrier_of(const struct halay_context *ctx)
{
    return (struct halay_device_carrier *)ctx->carrier;
}
static inline struct halay_devices *halay_devices_of(const struct halay_context *ctx)
{
    return &halay_device_carrier_of(ctx)->devices;
}

/* Returns the table of device functions, NULL while no device has been used. */
static inline const struct halay_device_ops *halay_devices_ops(const struct halay_context *ctx)
{
    return halay_devices_table(halay_devices_of(ctx));
}

/* Returns nonzero if NCCL may take such a submission of all ranks. Any thread. */
static inline int halay_nccl_may_take(const struct halay_context *ctx, const struct halay_signature *s)
{
    return atomic_load_explicit(&halay_device_carrier_of(ctx)->direct.nccl.state, memory_order_relaxed) !=
               HALAY_DIRECT_REFUSED &&
           s->collective == HALAY_ALLREDUCE && !s->members && halay_sums_floats(s->reduction, s->dtype);
}

/* Returns nonzero if devices can take such a submission of all ranks: always the same, and on all ranks. */
static inline int halay_direct_can_take(const struct halay_context *ctx, const struct halay_signature *s)
{
    int is_sum = s->collective == HALAY_ALLREDUCE && !s->members && halay_sums_floats(s->reduction, s->dtype);

    return s->is_on_devices && (halay_world_devices_can_take(ctx->world, is_sum) ||
                                (is_sum && ctx->world->config.device_algorithm == HALAY_DEVICE_ALGORITHM_NCCL));
}

/* Returns nonzero if devices take it, bar a fall-back of its bucket. Any thread. */
static inline int halay_direct_takes(const struct halay_context *ctx, const struct halay_signature *s)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return halay_direct_can_take(ctx, s) &&
           (halay_nccl_may_take(ctx, s) ||
            atomic_load_explicit(&d->state, memory_order_relaxed) != HALAY_DIRECT_REFUSED);
}

#endif
