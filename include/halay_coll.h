/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: groups of ranks and their collectives, without the engine.
 *
 * A group is an ordered set of ranks that can move data between each other. A collective is an operation that every
 * rank of a group takes part in; all ranks call the same collectives of a group in the same order with matching
 * arguments (the engine in halay.h has no such rule: it agrees on the order by tensor name). Each collective has two
 * forms: one that starts it and is then driven by halay_coll_progress, and one that blocks, which is an inline function
 * that starts the collective and calls halay_coll_finish.
 *
 * Counts are elements (size_t; zero is allowed), not bytes. Unless stated otherwise, in and out are either the same
 * pointer (in place) or do not overlap; both are borrowed until the collective has ended.
 *
 * Errors. See halay_types.h. After HALAY_ERR_PEER, HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT or a cancelled collective the
 * group is closed: the contents of buffers in flight are undefined and every later call returns the first cause's
 * status. HALAY_ERR_PEER is returned when a rank of the group dies or leaves, or is stopped (a signal, a debugger) on
 * this host while nothing arrives for HALAY_PEER_TIMEOUT (30 s; 0: never). The others wait for a rank that is merely
 * slow, or does not call at all: the log reports this after HALAY_STALL_CHECK_TIME (60 s; 0: never), and
 * HALAY_STALL_SHUTDOWN_TIME (0: never) ends it with HALAY_ERR_PEER. Groups without the lost rank continue (over MPI
 * only if the MPI library permits: by default most end all processes when one dies). HALAY_ERR_ARGUMENT and
 * HALAY_ERR_UNSUPPORTED are found before any data move and leave the group unchanged; ensure that every rank gets them.
 *
 * Detectable wrong arguments are refused with a line in the log, or on standard error where the group itself is NULL. A
 * pointer to a closed group or to an ended collective is invalid; its use cannot be detected.
 *
 * Checking. Ranks that call different collectives, or the same one with different arguments, wait as above or get wrong
 * data. By default nothing checks this, because the check costs a message each way. With HALAY_CHECK=1 (rank 0's value
 * is used) the ranks first compare the call, its type, reduction, root and count, the lists of counts (in_counts of
 * halay_group_alltoallv with the others' out_counts), and the settings of halay_group_set_algorithm and
 * halay_group_set_segment. A difference ends the collective on every rank with HALAY_ERR_MISMATCH, from
 * halay_coll_progress or the blocking call; halay_group_last_error and the log name the ranks and both values
 * ("collective 7, broadcast: rank 2 has root 1, rank 0 has root 0"). Then no data have been touched, and the group
 * continues. A call that is refused on one rank alone is not compared. Each collective takes two more messages in
 * sequence, four with lists of counts.
 *
 * Devices. Calls also accept data on CUDA devices, blocking or started, in a group that was opened with uses_devices
 * (struct halay_options), in all groups made of it, and in one that halay_group_of made of a context that had used a
 * device. On each rank in and out of a call are in host memory or on one device (HALAY_ERR_ARGUMENT, which names both
 * places); ranks may differ. Pinned memory counts as the host's, managed memory as a device's. The data are copied to
 * pinned host memory, which the group keeps, and the result is copied back, so this works with every operation, type
 * and transport. In any other group a device pointer is a program error.
 *
 * A call follows the work given to its device's default stream before the start, and so the work of all streams except
 * those of cudaStreamNonBlocking; or, with the function `stream` of the options, the work given to the stream that it
 * returns. A call that starts a collective does not wait for that stream; work given to it later does not precede the
 * call. Until the call is complete its data must be left alone, as in host memory; then the result is on the device,
 * for all work given to any stream from then on. halay_coll_end waits for a copy in progress, at most two seconds. A
 * device error is HALAY_ERR_SYSTEM or HALAY_ERR_NO_MEMORY, and closes the group; a stream that is capturing a graph
 * gives HALAY_ERR_UNSUPPORTED.
 *
 * Threads. A group that was opened, with all groups made of it, is used by one thread at a time; groups that were
 * opened separately are independent. halay_group_alloc, halay_group_free, halay_group_abort, halay_group_status and the
 * queries may be called from any thread.
 *
 * Fork. A child of fork has no groups: collectives, halay_coll_progress, halay_coll_wait, halay_group_subset and
 * halay_group_alloc on the parent's return HALAY_ERR_UNSUPPORTED (Linux 4.14), halay_coll_end, halay_group_free and
 * halay_group_close do nothing, and the parent continues undisturbed. Memory from halay_group_alloc is shared with the
 * parent.
 */
#ifndef HALAY_COLL_H
#define HALAY_COLL_H

#include "halay_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct halay_group; /* the memory of one: docs/reference/algorithms.md, "Memory of a group" */
struct halay_coll;  /* one collective in flight */

/*
 * Finds the other ranks of this job and opens a group of all of them. The ranks were started by halayrun or mpirun, or
 * find each other by the options; otherwise the group has one rank, or is refused as by halay_init. The options are
 * those of halay_init, except process_sets and join_average, which are the engine's and must be NULL
 * (HALAY_ERR_ARGUMENT). NULL: the defaults.
 *
 * Blocks until all ranks have called it, at most HALAY_START_TIMEOUT (30 s). Under mpirun this call initialises MPI if
 * the program has not. Errors: HALAY_ERR_CONFIG, HALAY_ERR_TIMEOUT, HALAY_ERR_AUTH, HALAY_ERR_VERSION,
 * HALAY_ERR_UNSUPPORTED (transport not built in, or not possible here), HALAY_ERR_MISMATCH (ranks request different
 * transports), HALAY_ERR_ARGUMENT (options that cannot be read), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY. An error on one
 * rank ends the start on all, so the call blocks even if its own options are wrong.
 */
HALAY_API enum halay_status halay_group_open(const struct halay_options *options, struct halay_group **group);

/* Calls halay_group_open with the ranks of an MPI communicator, to which comm points. C programs use
 * halay_group_open_mpi of halay_mpi.h; that header has the rules. */
HALAY_API enum halay_status halay_group_open_communicator(const void *comm, enum halay_mpi_abi abi,
                                                          const struct halay_options *options,
                                                          struct halay_group **group);

/*
 * Opens a group of some ranks of another one: ranks (count of them, all different) are numbers in the parent, and get
 * the numbers 0, 1, ... in the order of the list. A rank may be in any number of groups (beyond some 1,000 at a time a
 * shared segment has no room for more, and they use messages). Groups may overlap ({0,1}, {1,2}, {2,0}), and all may
 * have collectives in flight at once: a thread that waits for one also drives the others.
 *
 * The members call it with the same list. Other ranks need not; one that does gets *group = NULL at once. Blocks until
 * all members have called. Members of several groups must open them in the same order (or open {0,1}, {1,2}, {2,0} in
 * this order: ranks must not wait for each other in a cycle). The list is borrowed for the call. Close the group with
 * halay_group_close, before or after its parent; it may then be opened again. It has its own algorithms and failures,
 * and starts with the parent's HALAY_* settings, but not those of halay_group_set_algorithm. Memory from
 * halay_group_alloc of one group is valid in all with the same origin.
 *
 * Errors: HALAY_ERR_ARGUMENT (an invalid list, or members gave different ones), HALAY_ERR_UNSUPPORTED (there have been
 * 2^32 groups), HALAY_ERR_NO_MEMORY, HALAY_ERR_PEER; every member gets the same error, unless its own list is invalid.
 * The parent's status if it is closed.
 */
HALAY_API enum halay_status halay_group_subset(struct halay_group *parent, const int *ranks, int count,
                                               struct halay_group **group);

/* Closes and frees the group and all memory from its halay_group_alloc. Does not wait for the other ranks: call
 * halay_group_barrier first if they may still need this one. NULL is allowed. */
HALAY_API void halay_group_close(struct halay_group *group);

/* Ranks and sizes of a group. Zero-initialise and set struct_size to sizeof. */
struct halay_group_info {
    size_t struct_size;
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    const char *transport;      /* "shm", ...; static storage */
};

/* Reads the ranks and sizes of a group; never blocks. For a struct of another version the common first members are
 * written, the others are set to zero. Errors: HALAY_ERR_ARGUMENT (group or info is NULL, or struct_size is not
 * set). */
HALAY_API enum halay_status halay_group_read(const struct halay_group *group, struct halay_group_info *info);

/* Return one member of what halay_group_read reads; group must not be NULL. */
static inline int halay_group_rank(const struct halay_group *group);              /* This process's number, from 0 */
static inline int halay_group_size(const struct halay_group *group);              /* The number of ranks */
static inline int halay_group_local_rank(const struct halay_group *group);        /* Its number on this host */
static inline int halay_group_local_size(const struct halay_group *group);        /* The number of ranks of this host */
static inline const char *halay_group_transport(const struct halay_group *group); /* "shm", ...; static storage */

/* Writes the text of the newest error, "" without one; truncated to size. */
HALAY_API void halay_group_last_error(struct halay_group *group, char *text, size_t size);

/* Allocates memory that the ranks of this host reduce in place, without a copy (where the transport shares memory;
 * ordinary memory otherwise). 4096-aligned, contents undefined. Local: other ranks need not call it. Freed by
 * halay_group_free or with the group. Errors: HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_group_alloc(struct halay_group *group, size_t bytes, void **ptr);
/* Frees memory. Local; nothing in flight may use it. NULL is allowed. HALAY_ERR_ARGUMENT: not from this group's
 * halay_group_alloc, or freed before; nothing is changed. */
HALAY_API enum halay_status halay_group_free(struct halay_group *group, void *ptr);

/* Reduces count elements over all ranks; every rank gets the result, with the same bits. */
static inline enum halay_status halay_group_allreduce(struct halay_group *group, const void *in, void *out,
                                                      size_t count, enum halay_dtype dtype,
                                                      enum halay_reduction reduction);

/*
 * Reduces by Adasum over all ranks: two vectors a and b are combined as (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b,
 * first in pairs of ranks, then in pairs of these, along the tree over ranks: 3: (0, 1), 2   5: ((0, 1), (2, 3)), 4;
 * any number of ranks. Orthogonal vectors are added, equal ones stay unchanged, a zero changes nothing; unlike a sum,
 * the result does not grow with the number of ranks. This is done for each of `tensors` tensors separately: counts[i]
 * elements of in and of out, consecutive; counts is equal on all ranks and borrowed until the collective has ended.
 * halay_group_allreduce with HALAY_ADASUM treats its whole array as one tensor.
 *
 * Floating types; dot products are summed in f64, f16 and bf16 are rounded once. A tensor with a NaN or an infinity, or
 * one of f64 whose square overflows (1e154), results in NaNs. Errors: HALAY_ERR_UNSUPPORTED also under
 * HALAY_DETERMINISTIC=ranks, because the last bits depend on the counts.
 */
static inline enum halay_status halay_group_allreduce_adasum(struct halay_group *group, const void *in, void *out,
                                                             const size_t *counts, size_t tensors,
                                                             enum halay_dtype dtype);

/* Copies count elements from the root's buf into every rank's. The root may return before others have begun, and so may
 * the ranks of a reduction except its root: only halay_group_barrier is a barrier. */
static inline enum halay_status halay_group_broadcast(struct halay_group *group, void *buf, size_t count,
                                                      enum halay_dtype dtype, int root);

/* Gathers count elements of every rank, in order of rank, on every rank: out (size * count). In place: in is out + rank
 * * count. */
static inline enum halay_status halay_group_allgather(struct halay_group *group, const void *in, void *out,
                                                      size_t count, enum halay_dtype dtype);

/* halay_group_allgather with counts[r] elements from rank r, in order of rank without gaps; counts (size) is equal on
 * all ranks and borrowed for the duration of the call (with _start: of the start call only). */
static inline enum halay_status halay_group_allgatherv(struct halay_group *group, const void *in, void *out,
                                                       const size_t *counts, enum halay_dtype dtype);

/* Reduces count elements over all ranks into the root's out. On the other ranks out is ignored and may be NULL. */
static inline enum halay_status halay_group_reduce(struct halay_group *group, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, enum halay_reduction reduction, int root);

/* Reduces size * count elements over all ranks; rank r gets block r of the result: in (size * count), out (count). In
 * place: out is in + rank * count; the rest of in is only read. */
static inline enum halay_status halay_group_reduce_scatter(struct halay_group *group, const void *in, void *out,
                                                           size_t count, enum halay_dtype dtype,
                                                           enum halay_reduction reduction);

/* halay_group_reduce_scatter with counts[r] elements for rank r, in order of rank without gaps: in (sum of counts), out
 * (counts[rank]); in place: out is the start of this rank's block in in. counts (size) is equal on all ranks and
 * borrowed for the duration of the call (with _start: of the start call only). */
static inline enum halay_status halay_group_reduce_scatterv(struct halay_group *group, const void *in, void *out,
                                                            const size_t *counts, enum halay_dtype dtype,
                                                            enum halay_reduction reduction);

/* Sends count elements from every rank to every rank: block r of in (size * count) goes to rank r, block r of out (size
 * * count) is rank r's. In place (in == out) takes a second copy of the data. */
static inline enum halay_status halay_group_alltoall(struct halay_group *group, const void *in, void *out, size_t count,
                                                     enum halay_dtype dtype);

/*
 * halay_group_alltoall with in_counts[r] elements for rank r and out_counts[r] from rank r, in in and out in order of
 * rank without gaps. A rank needs to know only its own counts; in_counts[r] here must equal out_counts[this rank] on
 * rank r. One of the counts of a rank's own block may be 0: then it is not copied, because it is in place. Over shared
 * memory a difference is always detected (HALAY_ERR_FORMAT on a rank that sees it: the group is closed), over messages
 * only if the lengths of two matching messages differ: otherwise a rank waits forever. HALAY_CHECK detects it in any
 * case. In place in_counts and out_counts must be the same. Both arrays (size) are borrowed for the duration of the
 * call (with _start: of the start call only).
 */
static inline enum halay_status halay_group_alltoallv(struct halay_group *group, const void *in,
                                                      const size_t *in_counts, void *out, const size_t *out_counts,
                                                      enum halay_dtype dtype);

/* Waits until all ranks have called it. */
static inline enum halay_status halay_group_barrier(struct halay_group *group);

/* Start the collectives above, without blocking. halay_coll_progress drives *coll, halay_coll_end ends it. Up to 8
 * collectives of a group may be in flight (all ranks start them in the same order); one more returns
 * HALAY_ERR_UNSUPPORTED. */
HALAY_API enum halay_status halay_group_allreduce_start(struct halay_group *group, const void *in, void *out,
                                                        size_t count, enum halay_dtype dtype,
                                                        enum halay_reduction reduction, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_allreduce_adasum_start(struct halay_group *group, const void *in, void *out,
                                                               const size_t *counts, size_t tensors,
                                                               enum halay_dtype dtype, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_broadcast_start(struct halay_group *group, void *buf, size_t count,
                                                        enum halay_dtype dtype, int root, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_allgather_start(struct halay_group *group, const void *in, void *out,
                                                        size_t count, enum halay_dtype dtype, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_allgatherv_start(struct halay_group *group, const void *in, void *out,
                                                         const size_t *counts, enum halay_dtype dtype,
                                                         struct halay_coll **coll);
HALAY_API enum halay_status halay_group_reduce_start(struct halay_group *group, const void *in, void *out, size_t count,
                                                     enum halay_dtype dtype, enum halay_reduction reduction, int root,
                                                     struct halay_coll **coll);
HALAY_API enum halay_status halay_group_reduce_scatter_start(struct halay_group *group, const void *in, void *out,
                                                             size_t count, enum halay_dtype dtype,
                                                             enum halay_reduction reduction, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_reduce_scatterv_start(struct halay_group *group, const void *in, void *out,
                                                              const size_t *counts, enum halay_dtype dtype,
                                                              enum halay_reduction reduction, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_alltoall_start(struct halay_group *group, const void *in, void *out,
                                                       size_t count, enum halay_dtype dtype, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_alltoallv_start(struct halay_group *group, const void *in,
                                                        const size_t *in_counts, void *out, const size_t *out_counts,
                                                        enum halay_dtype dtype, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_barrier_start(struct halay_group *group, struct halay_coll **coll);

/* Does a bounded part of the collective's work; never blocks. Returns HALAY_IN_PROGRESS, or the final status, the same
 * at every later call. */
HALAY_API enum halay_status halay_coll_progress(struct halay_coll *coll);

/* Drives the collective until it is complete, at most timeout_ms (negative: without a time limit): spins for a while,
 * then sleeps where the transport can. Returns the final status, or HALAY_ERR_TIMEOUT (it is still in flight). */
HALAY_API enum halay_status halay_coll_wait(struct halay_coll *coll, int timeout_ms);

/* Waits until the collective is complete, then ends it. Returns the final status. Faster than halay_coll_wait and
 * halay_coll_end if called directly after the start. HALAY_ERR_ARGUMENT: NULL. */
HALAY_API enum halay_status halay_coll_finish(struct halay_coll *coll);

/*
 * Ends and frees the collective. If it is still in flight, the group is closed with HALAY_ERR_CANCELED, and no rank is
 * left waiting: peers get HALAY_ERR_PEER, at once where the ranks share memory (one host, over any transport) and in a
 * group of halay_group_subset, otherwise when this rank closes the group and all groups opened from it. After return
 * the caller owns the buffers again. NULL is allowed.
 */
HALAY_API void halay_coll_end(struct halay_coll *coll);

/* ---- groups by colour ------------------------------------------------------------------------------------------- */

enum {
    HALAY_COLOR_NONE = -1, /* for a rank outside all new groups */
    HALAY_COLOR_HOST = -2, /* one colour for the ranks of each host */
};

/*
 * Splits a group: all its ranks call it, and those of one colour (0 or more) form a group, numbered in ascending order
 * of their keys, ranks with equal keys in the order of their numbers. A colour may be HALAY_COLOR_HOST; *group is NULL
 * on a rank with HALAY_COLOR_NONE. To group the ranks with the same number on each host, use halay_group_local_rank as
 * the colour. It is a collective of the parent, in order with its others, and blocks until all have called it. The new
 * group is as of halay_group_subset. Errors: as of halay_group_subset; HALAY_ERR_ARGUMENT, on this rank alone (another
 * negative colour).
 */
HALAY_API enum halay_status halay_group_split(struct halay_group *parent, int color, int key,
                                              struct halay_group **group);

/* ---- gather and scatter ----------------------------------------------------------------------------------------- */

/*
 * Gather count elements of every rank on the root, in order of rank: out (size * count), which is ignored on the other
 * ranks. In place the root's in is out + rank * count. gatherv: counts[r] elements from rank r, in order of rank
 * without gaps; counts (size) is equal on all ranks and borrowed for the duration of the start call. If it is NULL,
 * each rank contributes count elements. A gather or scatter is an all-to-all in which only the root's blocks have
 * elements, and uses the algorithms of all-to-all.
 */
HALAY_API enum halay_status halay_group_gatherv_start(struct halay_group *group, const void *in, void *out,
                                                      const size_t *counts, size_t count, enum halay_dtype dtype,
                                                      int root, struct halay_coll **coll);
static inline enum halay_status halay_group_gather_start(struct halay_group *group, const void *in, void *out,
                                                         size_t count, enum halay_dtype dtype, int root,
                                                         struct halay_coll **coll);
static inline enum halay_status halay_group_gather(struct halay_group *group, const void *in, void *out, size_t count,
                                                   enum halay_dtype dtype, int root);
static inline enum halay_status halay_group_gatherv(struct halay_group *group, const void *in, void *out,
                                                    const size_t *counts, enum halay_dtype dtype, int root);

/* Scatter the root's elements, count for every rank: block r of in (size * count), which is ignored on the other ranks,
 * goes to rank r's out (count). In place the root's out is in + rank * count. scatterv: counts as of gatherv. */
HALAY_API enum halay_status halay_group_scatterv_start(struct halay_group *group, const void *in, void *out,
                                                       const size_t *counts, size_t count, enum halay_dtype dtype,
                                                       int root, struct halay_coll **coll);
static inline enum halay_status halay_group_scatter_start(struct halay_group *group, const void *in, void *out,
                                                          size_t count, enum halay_dtype dtype, int root,
                                                          struct halay_coll **coll);
static inline enum halay_status halay_group_scatter(struct halay_group *group, const void *in, void *out, size_t count,
                                                    enum halay_dtype dtype, int root);
static inline enum halay_status halay_group_scatterv(struct halay_group *group, const void *in, void *out,
                                                     const size_t *counts, enum halay_dtype dtype, int root);

/* ---- send and receive ------------------------------------------------------------------------------------------- */

enum { HALAY_TAG_MAX = 0xffffff };

/*
 * Start to send count elements to another rank of the group, or to receive them from it: the n-th send with a tag (0 to
 * HALAY_TAG_MAX) matches the n-th receive with that tag by that peer. Type and count must be equal; if they differ, the
 * group and all with the same origin may end with HALAY_ERR_FORMAT. HALAY_CHECK=1 compares them first: then both get
 * HALAY_ERR_MISMATCH, and the group continues. Any number may be in flight, in both directions; they are not ordered
 * with collectives. They are driven and ended like a collective (halay_coll_wait, halay_coll_finish, halay_coll_end;
 * ending one before it is complete closes the group). A send may wait until its receive has been started; it is
 * complete when the buffer may be reused. With zero elements nothing is sent, and the call is complete at once. A
 * receive from a rank that has closed the group ends with HALAY_ERR_PEER after two seconds without data.
 */
HALAY_API enum halay_status halay_group_send_start(struct halay_group *group, const void *buf, size_t count,
                                                   enum halay_dtype dtype, int peer, int tag, struct halay_coll **coll);
HALAY_API enum halay_status halay_group_receive_start(struct halay_group *group, void *buf, size_t count,
                                                      enum halay_dtype dtype, int peer, int tag,
                                                      struct halay_coll **coll);
/* Blocking forms. Two ranks that both send to each other before they receive may wait forever. */
static inline enum halay_status halay_group_send(struct halay_group *group, const void *buf, size_t count,
                                                 enum halay_dtype dtype, int peer, int tag);
static inline enum halay_status halay_group_receive(struct halay_group *group, void *buf, size_t count,
                                                    enum halay_dtype dtype, int peer, int tag);

/* ---- failures --------------------------------------------------------------------------------------------------- */

/*
 * Aborts a group, from any thread: collectives in flight on this rank, and every later call, end with
 * HALAY_ERR_CANCELED; a blocking call returns at once. The others get HALAY_ERR_PEER, which names this rank: at once
 * where the ranks share memory and in a group opened from another one, otherwise when this rank closes the group and
 * all groups opened from it. Afterwards the group is good for halay_group_close only, which no thread may have called.
 * Never waits for another rank. After a failure it does nothing. HALAY_ERR_ARGUMENT: NULL.
 *
 * While this call or halay_group_status writes a log line, the groups' other calls wait. So the log function must not
 * wait there for a thread that uses the groups, make a call that blocks, close a group, or abort one that was opened
 * separately.
 */
HALAY_API enum halay_status halay_group_abort(struct halay_group *group);

/*
 * Returns HALAY_OK while the group works, and the status of the first failure after one, without a collective. *rank
 * (may be NULL) is the rank that the failure names, -1 if none; halay_error_text has the text. While no call of the
 * group is in progress it checks the peers: so a program that computes for long learns that one has died or aborted.
 * Any thread; never blocks.
 */
HALAY_API enum halay_status halay_group_status(struct halay_group *group, int *rank);

#ifdef __cplusplus
}
#endif

#include "halay_coll_inline.h"

#endif
