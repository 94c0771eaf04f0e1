/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory: what the engine asks of the module that knows a kind of devices (libhalay-cuda.so).
 *
 * Streams are the devices' own (cudaStream_t), so that the program's work as those made here. A device is a number, as
 * the devices' library counts them in this process. No call but load and free waits for work of a device, and none
 * touches a device but the one that it names: a rank has a context, and its memory, on none that it does not use. The
 * thread's current device and its last error stay as they were, but that an error of ours is taken off the thread. Any
 * thread; every error has been logged when a call returns it.
 *
 * When the process ends, the devices' library may end before our threads. Then calls that start work return HALAY_OK
 * and start none, no event comes, and all else returns HALAY_ERR_CLOSED, without a line in the log.
 */
#ifndef HALAY_DEVICE_OPS_H
#define HALAY_DEVICE_OPS_H

#include "base/log.h"
#include "collectives/transport/device_work.h"

/* Functions of the library for the module; lives as long as anything that was made with it. */
struct halay_device_host {
    struct halay_log *log;
    void (*log_write)(struct halay_log *log, enum halay_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    void *state; /* the module's, from open to close */
};

/* A place in the work of a stream. */
struct halay_device_point {
    void *event; /* of event_create */
    uint32_t at; /* which of its records */
};

enum {
    HALAY_NCCL_ID = 128, /* bytes */
    HALAY_NCCL_OLDEST = 21800,
};

/* NCCL as the user has it: libnccl.so.2, which nothing links. A communicator is one rank's. No call waits for another
 * rank, except leave where no thread can be started; after join and reduce, look until it returns HALAY_OK, before the
 * next call. */
struct halay_device_nccl {
    /* Loads it. Nonzero: it is there, *version of it. Zero: why not, in text. The device's UUID; 0 if unknown. */
    int (*load)(const struct halay_device_host *host, int device, int *version, unsigned char *uuid, char *text,
                size_t size);
    /* Makes an id of HALAY_NCCL_ID bytes, for the ranks of one communicator. */
    enum halay_status (*identify)(const struct halay_device_host *host, unsigned char *id);
    /* *comm is owned by the caller, also after an error, until leave; NULL: there is none. */
    enum halay_status (*join)(const struct halay_device_host *host, int device, const unsigned char *id, int ranks,
                              int rank, void **comm);
    /* HALAY_IN_PROGRESS, HALAY_OK, or an error of NCCL's, also one of what the device has been given; HALAY_ERR_PEER,
     * not logged: another rank's. */
    enum halay_status (*look)(const struct halay_device_host *host, void *comm);
    /* Returns NCCL's words for its last error. */
    const char *(*last_error)(const struct halay_device_host *host, void *comm);
    /* Gives the stream the sums, or averages, of the pieces' in, without factors, to their out. */
    enum halay_status (*reduce)(const struct halay_device_host *host, int device, void *comm,
                                const struct halay_device_work *work, int is_average, void *stream);
    /* Starts to end the communicator, and whatever the device has of it, on a thread: NCCL asks for this on all ranks
     * that are alive, and waits for its own threads. Returns what has_left takes; NULL: it has ended already, as it
     * waited for the other ranks because no thread could be started. */
    void *(*leave)(const struct halay_device_host *host, int device, void *comm);
    /* Returns nonzero once it has ended, and frees `leaving`, which need not be asked about. */
    int (*has_left)(const struct halay_device_host *host, void *leaving);
};

struct halay_device_ops {
    size_t struct_size; /* sizeof: ops are added at the end */
    const char *name;   /* "cuda" */

    /* HALAY_OK: devices can be used, until close. HALAY_ERR_UNSUPPORTED, with why not; HALAY_ERR_NO_MEMORY. Before all
     * else. */
    enum halay_status (*open)(struct halay_device_host *host);
    void (*close)(struct halay_device_host *host);
    /* The device whose memory this is (that it shares with the host counts); -1: the host's, pinned or not. */
    int (*owner)(const struct halay_device_host *host, const void *ptr);
    /* The calling thread's current device. */
    int (*current)(const struct halay_device_host *host);

    /* HALAY_ERR_NO_MEMORY, with how much is free; HALAY_ERR_ARGUMENT: unknown device. */
    enum halay_status (*alloc)(const struct halay_device_host *host, int device, size_t bytes, void **ptr);
    /* May wait until the device has nothing to do. */
    void (*free)(const struct halay_device_host *host, int device, void *ptr);

    /* Whole pages of the host's memory become memory that devices copy from and to by themselves. */
    enum halay_status (*pin)(const struct halay_device_host *host, int device, void *ptr, size_t bytes);
    void (*unpin)(const struct halay_device_host *host, int device, void *ptr);

    /* A stream that waits for no other but by events; its work goes before the program's. */
    enum halay_status (*stream_create)(const struct halay_device_host *host, int device, void **stream);
    /* Work that it has is still done. */
    void (*stream_destroy)(const struct halay_device_host *host, int device, void *stream);

    /* An event: what a stream had been given when it was recorded. is_one_streams: all its records are in one stream,
     * and streams may wait for it. Otherwise a record makes the points of those before it void. */
    enum halay_status (*event_create)(const struct halay_device_host *host, int device, int is_one_streams,
                                      void **event);
    void (*event_destroy)(const struct halay_device_host *host, int device, void *event);
    /* Record point->event, and set point->at. The stream is of the event's device; it may be destroyed afterwards. */
    enum halay_status (*event_record)(const struct halay_device_host *host, int device, void *stream,
                                      struct halay_device_point *point);
    /* HALAY_IN_PROGRESS while it has not come; HALAY_OK: what was done before it can be seen by this thread. Cheap: a
     * load, and now and then a call to see errors. */
    enum halay_status (*event_done)(const struct halay_device_host *host, int device,
                                    const struct halay_device_point *point);
    /* Later work of the stream, of any device, waits for the event, one stream's of this one, as it was recorded
     * last. */
    enum halay_status (*event_wait)(const struct halay_device_host *host, int device, void *stream, void *event);
    /* The same with all that another stream of this device has been given. */
    enum halay_status (*stream_join)(const struct halay_device_host *host, int device, void *stream, void *other);
    /* The same with an event of the program's (cudaEvent_t), of any device. */
    enum halay_status (*stream_wait)(const struct halay_device_host *host, int device, void *stream, void *event);
    /* Copy between a device and pinned memory, either way, in a stream of that device. */
    enum halay_status (*copy_start)(const struct halay_device_host *host, int device, void *to, const void *from,
                                    size_t bytes, void *stream);

    /* share describes memory of alloc for other devices and processes; reach maps such memory for this device. That
     * needs access between the devices and, from another process, permission: HALAY_ERR_UNSUPPORTED, logged at level
     * debug. The memory must not be freed until unreach. */
    enum halay_status (*share)(const struct halay_device_host *host, int device, void *ptr, size_t bytes,
                               struct halay_device_share *share);
    enum halay_status (*reach)(const struct halay_device_host *host, int device, const struct halay_device_share *share,
                               void **ptr);
    void (*unreach)(const struct halay_device_host *host, int device, const struct halay_device_share *share,
                    void *ptr);

    /* The pieces' in to this rank's segment; reductions in the order of the ranks, f16 and bf16 in f32 and rounded
     * once, to the pieces' out or, if each rank has a share, to all ranks' segments in place; segments to the pieces'
     * out. */
    enum halay_status (*pack)(const struct halay_device_host *host, int device, const struct halay_device_work *work,
                              void *stream);
    enum halay_status (*reduce)(const struct halay_device_host *host, int device, const struct halay_device_work *work,
                                void *stream);
    enum halay_status (*unpack)(const struct halay_device_host *host, int device, const struct halay_device_work *work,
                                void *stream);
    /* pack, and once all ranks have done that, reduce: in one launch, whose blocks wait for the other ranks' by flags.
     * Each rank has a device of its own. At most HALAY_DEVICE_PIECES. */
    enum halay_status (*exchange)(const struct halay_device_host *host, int device,
                                  const struct halay_device_work *work, void *stream);
    /* The stream sets the bytes to 0. */
    enum halay_status (*zero)(const struct halay_device_host *host, int device, void *ptr, size_t bytes, void *stream);
    /* A word, 0, that the host writes and the device's kernels read; for the life of the process. */
    enum halay_status (*word_get)(const struct halay_device_host *host, int device, void **word);
    const struct halay_device_nccl *nccl;
    /* Loads the kernels of pack, reduce, unpack and exchange, which each of these else does when it first needs one.
     * Unlike them it may wait for all work of the device. */
    enum halay_status (*load)(const struct halay_device_host *host, int device);
};

#endif
