/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: the engine. Reduces named tensors over all ranks in the background.
 *
 * Concepts. A *context* is this process's membership in a job of `size` ranks. Each rank names its tensors and submits
 * them when they are ready, from any thread and in any order; a background thread agrees with the other ranks on an
 * order by name, fuses small tensors into buckets, moves the data and completes each *request* exactly once. It sleeps
 * when there is nothing to do. A tensor that is submitted again and again (a gradient) is cheapest *registered* once
 * and submitted by handle. Data in memory from halay_alloc are reduced in place by all ranks of the host, without a
 * copy.
 *
 * What must agree: for each name, all ranks submit the same operation, type, shape, reduction, root and scale factors,
 * once each. If they do not, the requests end with HALAY_ERR_MISMATCH on every rank and a text that names the tensor,
 * the ranks and both values; no data are touched, and the engine continues. When a rank dies, requests in flight and
 * later ones end with HALAY_ERR_PEER within 5 seconds and a text that names the rank; when a host stops answering,
 * after HALAY_HOST_SILENCE.
 *
 * Several hosts. The ranks' engines connect to rank 0 over TCP in halay_init, and over halay's own TCP transport ranks
 * connect to each other later, too: each host must accept this on one port, chosen by the system or from HALAY_PORTS.
 * Both ends prove that they belong to the job; HALAY_ENCRYPT=1 encrypts what ranks send each other. A host that does
 * not answer for 10 seconds (HALAY_HOST_SILENCE) counts as lost, with its ranks. A child of fork that outlives its
 * killed parent hides that death from other hosts, until HALAY_PEER_TIMEOUT.
 *
 * Ownership. Data pointers are borrowed from submission to completion: the caller keeps them alive and neither reads
 * nor writes the data. Strings and structs passed in are copied. Each submission completes exactly once.
 *
 * Errors. See halay_types.h. Threads: every function may be called from any thread, except that halay_fini must be the
 * last call on a context (a submission whose callback has been called counts as returned). Other threads may be blocked
 * in calls that wait: these return at once with HALAY_ERR_CLOSED, and halay_fini waits for their return. A process may
 * have several contexts.
 *
 * Callbacks run on the thread that drives the engine, with no lock held: the background thread, or a thread of the
 * program in a blocking call, including halay_fini and the calls of halay_elastic.h. A callback may make every call
 * that does not block, including submissions. A call that would wait for the engine would wait for its own return, so
 * it gets HALAY_ERR_UNSUPPORTED and a line in the log: halay_wait for a request that has not ended, the blocking forms,
 * changes of process sets, the calls of halay_elastic.h; halay_fini does nothing.
 *
 * Devices. Data may be on a CUDA device. The first use of a device loads libhalay-cuda.so (struct halay_tensor_info,
 * halay_alloc_device); programs without devices need neither CUDA nor that file. The data of a submission are copied
 * through pinned host memory, which the engine allocates: the size of the data, for each submission in flight. A
 * submission can follow the work on a stream, and a stream can follow a submission (halay_wait_stream); no thread of
 * the engine ever waits for a stream of the program. All devices of this process can be used, numbered as by
 * cudaGetDevice; the data of one submission are on one of them. Groups accept device data by their own rules
 * (halay_coll.h).
 *
 * Fork. A child of fork has no context: calls on the parent's return HALAY_ERR_UNSUPPORTED (Linux 4.14), halay_fini and
 * the halay_*_free do nothing, and the parent continues undisturbed.
 */
#ifndef HALAY_H
#define HALAY_H

#include "halay_types.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct halay_context;
struct halay_process_set; /* some of the ranks */
struct halay_tensor;      /* a registered tensor */
struct halay_request;     /* one submission */
struct halay_start;       /* a start under way */

/* ---- context ---------------------------------------------------------------------------------------------------- */

/*
 * Joins the job. Started by halayrun or mpirun, it finds the other ranks; started alone, the job has one rank. A
 * process that another launcher (torchrun, srun without an MPI plugin, ...) started as one of several is refused with
 * HALAY_ERR_UNSUPPORTED, unless bootstrap is "self" or a rendezvous is given. Blocks until all ranks have called it, at
 * most HALAY_START_TIMEOUT (30 s). options may be NULL. Under mpirun this call initialises MPI if the program has not;
 * MPI stays initialised after halay_fini. May be called again after halay_fini.
 *
 * Creates the process sets of the options. All ranks must request the same sets (otherwise HALAY_ERR_MISMATCH or
 * HALAY_ERR_ARGUMENT) and the same transport (HALAY_ERR_MISMATCH). A rank that cannot start, for example because of a
 * wrong setting or of options that it cannot read, ends the start on all ranks with its error; the others' logs name
 * that rank. So the call blocks even if its own options are wrong.
 *
 * Errors: HALAY_ERR_CONFIG, HALAY_ERR_TIMEOUT, HALAY_ERR_AUTH, HALAY_ERR_VERSION, HALAY_ERR_UNSUPPORTED,
 * HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY, HALAY_ERR_PEER (a rank died during the start).
 */
HALAY_API enum halay_status halay_init(const struct halay_options *options, struct halay_context **ctx);

/* Calls halay_init with the ranks of an MPI communicator. For languages that load the library: comm points to an
 * MPI_Comm of the MPI of that abi. C programs use halay_init_mpi of halay_mpi.h, which fills in the first two
 * arguments; that header has the rules. */
HALAY_API enum halay_status halay_init_communicator(const void *comm, enum halay_mpi_abi abi,
                                                    const struct halay_options *options, struct halay_context **ctx);

/*
 * Begins to join the job and returns at once: runs halay_init on a thread of the library, and the callbacks of a
 * rendezvous on that thread, too. options and all that they point to are borrowed until the start has ended. Every
 * start must be ended with halay_init_test or halay_init_cancel. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_SYSTEM (no thread).
 */
HALAY_API enum halay_status halay_init_start(const struct halay_options *options, struct halay_start **start);

/*
 * Tests whether a start has ended, waiting at most timeout_ms (0: do not wait, negative: without a time limit). Returns
 * HALAY_IN_PROGRESS if it has not; *missing (may be NULL) is then the rank that it waits for, -1 for no rank in
 * particular. Otherwise returns, once, the status of halay_init and frees the start; with HALAY_OK *ctx is the context.
 * Call it from one thread at a time. Errors of its own: HALAY_ERR_ARGUMENT (start or ctx is NULL),
 * HALAY_ERR_UNSUPPORTED (in a child of fork).
 */
HALAY_API enum halay_status halay_init_test(struct halay_start *start, int timeout_ms, struct halay_context **ctx,
                                            int *missing);

/*
 * Cancels a start and frees it; if it has succeeded meanwhile, leaves the job. Blocks until the start's thread has
 * ended: usually half a second, at most HALAY_START_TIMEOUT; over MPI until the other ranks have called or that time is
 * over; in an elastic job until halayrun has answered. The other ranks' starts end with an error, after
 * HALAY_START_TIMEOUT at the latest. NULL is allowed.
 */
HALAY_API void halay_init_cancel(struct halay_start *start);

/*
 * Leaves the job: refuses new submissions, ends those in flight (with HALAY_ERR_CLOSED if they cannot complete), stops
 * the thread, and frees everything that belongs to the context, including halay_alloc memory that is not referenced
 * (halay_memory_retain). Waits at most 5 s for the other ranks. Ranks that still wait for this one get HALAY_ERR_PEER
 * ("has left"). NULL is allowed.
 */
HALAY_API void halay_fini(struct halay_context *ctx);

/*
 * Aborts the job at once, for all ranks: requests in flight on this rank end with HALAY_ERR_CANCELED ("aborted:
 * REASON"), those on the others with HALAY_ERR_PEER ("rank 2 aborted: REASON"), usually within a second; so do later
 * submissions. A collective that is running is broken off and leaves its output undefined. May be called from any
 * thread, including while another thread waits, and in a callback; never blocks. reason is copied, at most 511 bytes;
 * it may be NULL. The first failure is kept: after a failure or another abort this call does nothing. Afterwards the
 * context is good for halay_fini only. halay_init then starts the job again if all ranks call it, including those that
 * received the abort. Errors: HALAY_ERR_ARGUMENT (ctx is NULL).
 */
HALAY_API enum halay_status halay_abort(struct halay_context *ctx, const char *reason);

/* Ranks and sizes of a context. Zero-initialise and set struct_size to sizeof. */
struct halay_context_info {
    size_t struct_size;
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    int cross_rank, cross_size; /* this host's index, and the number of hosts */
    int is_homogeneous;         /* every host has the same number of ranks */
    int is_elastic;             /* the job is elastic (halay_elastic.h) */
};

/* Reads the ranks and sizes of a context; never blocks. struct_size is handled as in halay_counters_read. Errors:
 * HALAY_ERR_ARGUMENT (ctx or info is NULL, or struct_size is not set). */
HALAY_API enum halay_status halay_context_read(const struct halay_context *ctx, struct halay_context_info *info);

/* Return one member of what halay_context_read reads; ctx must not be NULL. */
static inline int halay_rank(const struct halay_context *ctx);           /* This process's rank, from 0 */
static inline int halay_size(const struct halay_context *ctx);           /* The number of ranks */
static inline int halay_local_rank(const struct halay_context *ctx);     /* This process's rank on its host */
static inline int halay_local_size(const struct halay_context *ctx);     /* The number of ranks on this host */
static inline int halay_cross_rank(const struct halay_context *ctx);     /* This host's index */
static inline int halay_cross_size(const struct halay_context *ctx);     /* The number of hosts */
static inline int halay_is_homogeneous(const struct halay_context *ctx); /* Nonzero if all hosts have the same number */

/* Returns HALAY_OK while the engine works, and the status of the first failure after one. text (may be NULL) receives
 * the cause, "" without one. */
HALAY_API enum halay_status halay_context_status(struct halay_context *ctx, char *text, size_t size);

/* ---- process sets ----------------------------------------------------------------------------------------------- */

/*
 * A process set is a subset of the job's ranks, its members: a tensor submitted in a set concerns only the members.
 * Operations of one set never wait for those of another, so several sets work at the same time, and one name may be in
 * flight in several. Sets may overlap; two may have the same ranks. Set 0 contains all ranks, always exists, and is the
 * default where no set is given. Further sets are made by halay_init (struct halay_options, HALAY_PROCESS_SETS) or by
 * halay_process_set_create.
 *
 * Within a set the members are numbered 0, 1, ... in ascending order of their ranks, whatever the order in which they
 * were given. Everything that depends on the rank uses these numbers (rows and splits, blocks of a reduce-scatter,
 * results), and averages divide by the number of members; only a root is a rank of the job. A rank that submits a
 * tensor in a set of which it is not a member gets HALAY_ERR_ARGUMENT. halay_join concerns all ranks: a rank that has
 * joined takes part in its sets as well.
 *
 * Rank 0 of the job coordinates all sets, including those of which it is not a member. When a rank dies, or leaves
 * while a set waits for it, the job fails on all ranks.
 */

/*
 * Creates a set of the given ranks. Its members call this; other ranks need not, and are not blocked. Blocks until all
 * members have called with the same ranks, in any order: a member that gives other ranks waits for those ranks. Several
 * threads may create several sets at the same time. Of sets with the same ranks, the n-th call on each member creates
 * the n-th set. Must not be called in a callback. *set belongs to the context. Ranks that are not members find the set
 * by its number (halay_process_set_find), at the latest after a collective of all ranks that a member submitted after
 * its call. Writes a line to the log. Names that begin with "process sets" are reserved.
 *
 * Errors on every member: HALAY_ERR_UNSUPPORTED (a member has joined). On this rank alone: HALAY_ERR_ARGUMENT (this
 * rank is not among them; no ranks; a rank outside the job; a rank twice; more than 7998; ranks is NULL). Otherwise as
 * halay_submit.
 */
HALAY_API enum halay_status halay_process_set_create(struct halay_context *ctx, const int *ranks, size_t count,
                                                     struct halay_process_set **set);
/*
 * Starts halay_process_set_create without waiting: halay_request_result of the request has the set. The request can be
 * canceled, and timeout_ms ends it, like a tensor's: on all members, until the last one has called. So ranks that
 * create sets in different orders do not deadlock if they submit all before they wait. May be called in a callback.
 * Writes nothing to the log that the request reports. Errors: also HALAY_ERR_DUPLICATE (a call of this rank with the
 * same ranks is still under way).
 */
HALAY_API enum halay_status halay_process_set_create_async(struct halay_context *ctx, const int *ranks, size_t count,
                                                           int timeout_ms, struct halay_request **request);
/*
 * Removes a set. All members call it, as they do halay_process_set_create. Nothing may be in flight in the set on any
 * member (otherwise HALAY_ERR_MISMATCH or HALAY_ERR_ARGUMENT on all, and the set stays). Afterwards only queries work:
 * submissions get HALAY_ERR_ARGUMENT; tensors that are registered in the set are unregistered as usual. Its number is
 * not used again. Errors: HALAY_ERR_ARGUMENT (the set of all ranks, a set that has been removed, or one of which this
 * rank is not a member), HALAY_ERR_UNSUPPORTED (a member has joined).
 */
HALAY_API enum halay_status halay_process_set_remove(struct halay_process_set *set);
/* Starts halay_process_set_remove without waiting. Submissions in the set are refused until it has ended. */
HALAY_API enum halay_status halay_process_set_remove_async(struct halay_process_set *set, int timeout_ms,
                                                           struct halay_request **request);

/* Returns the set of that number, NULL if it does not exist or has been removed. */
HALAY_API struct halay_process_set *halay_process_set_find(struct halay_context *ctx, int number);

/* Writes the numbers of the existing sets in ascending order, 0 first, at most room of them. Returns how many exist. */
HALAY_API size_t halay_process_set_numbers(struct halay_context *ctx, int *numbers, size_t room);

/* Description of a set. Zero-initialise, set struct_size to sizeof, and set ranks and room to get the members. */
struct halay_process_set_info {
    size_t struct_size;
    int *ranks;  /* receives the members' ranks in the job, ascending; may be NULL */
    size_t room; /* capacity of ranks; of more members the first ones are written */
    int number;
    int size; /* the number of members */
    int rank; /* this rank's number in the set, -1 if it is not a member */
};

/* Reads the description of a set; never blocks. struct_size is handled as in halay_counters_read. Errors:
 * HALAY_ERR_ARGUMENT (set or info is NULL, or struct_size is not set). */
HALAY_API enum halay_status halay_process_set_read(const struct halay_process_set *set,
                                                   struct halay_process_set_info *info);

/* Return one member of what halay_process_set_read reads; set must not be NULL. */
static inline int halay_process_set_number(const struct halay_process_set *set); /* The set's number */
static inline int halay_process_set_size(const struct halay_process_set *set);   /* The number of its members */
static inline int halay_process_set_rank(const struct halay_process_set *set);   /* This rank's number in it, or -1 */
static inline int halay_process_set_is_included(const struct halay_process_set *set); /* Nonzero for its members */

/* Writes the members' ranks in the job, ascending: halay_process_set_size of them. */
static inline void halay_process_set_ranks(const struct halay_process_set *set, int *ranks);

/* ---- groups ----------------------------------------------------------------------------------------------------- */

struct halay_group; /* halay_coll.h */

/*
 * Opens a group of the members of a process set (NULL: of all ranks), for a program that uses the collectives of
 * halay_coll.h as well as the engine. All members call it. The ranks find each other through the engine; no other
 * bootstrap is needed.
 *
 * The group has its own connections and memory, so one thread drives it while the engine works; memory of halay_alloc
 * counts as private memory there. Opening takes the time of a start: do it once. The group has the context's settings
 * and log, and the set's numbers as ranks. With several hosts it listens on one more port of HALAY_PORTS. Afterwards it
 * is independent of the set. Close it with halay_group_close, before halay_fini. In an elastic job the group keeps the
 * ranks it was opened with: close it, and open a new one, after each change.
 *
 * Blocks until all members have called it, at most HALAY_START_TIMEOUT; one call for a set at a time. Must not be
 * called in a callback. Names that begin with "halay group" are reserved. Errors: as of halay_submit and
 * halay_group_open; HALAY_ERR_DUPLICATE (another thread is opening a group of this set); HALAY_ERR_UNSUPPORTED (a
 * member has joined; or over MPI, HALAY_TRANSPORT=mpi, the set has other ranks than MPI_COMM_WORLD);
 * HALAY_ERR_ARGUMENT, on this rank alone (it is not a member).
 */
HALAY_API enum halay_status halay_group_of(struct halay_context *ctx, struct halay_process_set *set,
                                           struct halay_group **group);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Allocates memory that the ranks of this host can reduce in place: 4096-aligned, contents undefined. Local; other
 * ranks need not call it. Freed by halay_free or with the context, unless it is referenced. Errors:
 * HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_alloc(struct halay_context *ctx, size_t bytes, void **ptr);
HALAY_API void halay_free(struct halay_context *ctx, void *ptr); /* nothing in flight may use it; NULL is allowed */

enum { HALAY_DEVICE_CURRENT = -1 };

/*
 * Allocates memory on a device: the one of that number, or the calling thread's current one (HALAY_DEVICE_CURRENT).
 * Contents undefined. Freed by halay_free, which may wait until the device is idle, or by halay_fini;
 * halay_memory_retain does not accept it. May block while the device's library starts. The engine accepts memory that
 * the program allocated with CUDA just as well. Errors: HALAY_ERR_UNSUPPORTED (no libhalay-cuda.so or no usable device;
 * the text names which), HALAY_ERR_NO_MEMORY (the text has the available size), HALAY_ERR_ARGUMENT (no such device),
 * HALAY_ERR_VERSION (libhalay-cuda.so of another release), HALAY_ERR_SYSTEM.
 */
HALAY_API enum halay_status halay_alloc_device(struct halay_context *ctx, int device, size_t bytes, void **ptr);

struct halay_memory; /* references to memory of halay_alloc */

/*
 * Takes a reference to memory that halay_alloc returned as ptr: the memory keeps its address and contents until the
 * program has freed it (halay_free, or halay_fini, which frees all) and every reference has been released, whichever
 * happens last. A binding retains the memory for each object that views it, calls halay_free at once, and releases the
 * reference with the object. After halay_fini it is plain memory of this process, and private memory to any other
 * context. Each call takes one reference. Errors: HALAY_ERR_ARGUMENT (not from halay_alloc, or freed), HALAY_ERR_CLOSED
 * (in halay_fini), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_memory_retain(struct halay_context *ctx, void *ptr, struct halay_memory **memory);
/* Releases one reference: on any thread, at any time, before, during and after halay_fini. NULL is allowed. */
HALAY_API void halay_memory_release(struct halay_memory *memory);

/*
 * Registers memory that the program already has, such as a framework's gradients, so that the ranks of this host reduce
 * it in place: bytes from ptr on of private anonymous memory (malloc, mmap), of any alignment. Its whole pages are
 * replaced by shared ones with the same contents at the same address; the bytes on partial pages at both ends stay
 * private and are copied in each collective. Tensors that run as one need whole pages each or must be adjacent. Local;
 * other ranks need not call it. Registering and unregistering once costs what fifteen all-reduces gain, and as much of
 * the segment as halay_alloc of that size.
 *
 * The program ensures that
 *     during this call and during halay_memory_unregister no thread writes to the memory and nothing in flight uses it:
 *       data written meanwhile are lost. Reading is allowed;
 *     it is not pinned for a device or a network card (cudaHostRegister, ibv_reg_mr): those keep the old pages;
 *     it is unregistered before it is freed, unmapped, moved (realloc, mremap) or returned in part (MADV_DONTNEED).
 *       Each collective checks that the pages are still there; private memory that has replaced them is reduced as
 *       such, with a line in the log. An allocator that relies on zeros after MADV_DONTNEED, and a file mapped there,
 *       are not detected.
 * Collectives may use any part of it. After a fork the child shares it with the parent, as it does memory of
 * halay_alloc: each sees what the other writes. It stays registered when an elastic job is re-formed. After halay_fini
 * it is plain memory of this process with its contents, still shared with children of fork.
 *
 * Errors, after which the memory is unchanged: HALAY_ERR_UNSUPPORTED (a file's, shared or read-only memory; no whole
 * page; the ranks of this host share no memory over this transport); HALAY_ERR_ARGUMENT (part of it is not mapped);
 * HALAY_ERR_DUPLICATE (part of it is registered, or from halay_alloc); HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM.
 */
HALAY_API enum halay_status halay_memory_register(struct halay_context *ctx, void *ptr, size_t bytes);
/* Makes registered memory private again, with its contents. ptr is the address that was registered. Errors:
 * HALAY_ERR_NO_MEMORY (it stays registered), HALAY_ERR_ARGUMENT (nothing is registered there, or it has been unmapped
 * since; its room in the segment is lost). */
HALAY_API enum halay_status halay_memory_unregister(struct halay_context *ctx, void *ptr);

/* ---- registered tensors ----------------------------------------------------------------------------------------- */

/* The operations on tensors. */
enum halay_collective {
    HALAY_ALLREDUCE = 0,
    HALAY_BROADCAST = 1,
    HALAY_ALLGATHER = 2,
    HALAY_REDUCE_SCATTER = 3,
    HALAY_ALLTOALL = 4,
    HALAY_BARRIER = 5,
    HALAY_REDUCE = 6,
    HALAY_GATHER = 7,
    HALAY_SCATTER = 8,
    HALAY_SEND = 9,
    HALAY_RECEIVE = 10,
    HALAY_JOIN = 11, /* halay_join: without data; all else in its description, including the name, is ignored */
    HALAY_COLLECTIVE_COUNT
};

enum { HALAY_DIMENSIONS_MAX = 8, HALAY_NAME_MAX = 255, HALAY_ANY_RANK = -1 };

/* The type in which f32 elements are sent. */
enum halay_wire { HALAY_WIRE_AS_IS = 0, HALAY_WIRE_F16 = 1, HALAY_WIRE_BF16 = 2 };

/*
 * The memory that in and out are in. HALAY_MEMORY_ANY: host memory; once the context has used a device, the memory that
 * the pointers refer to, so that the calls with plain arguments accept device pointers, too. HALAY_MEMORY_DEVICE: in,
 * out or both are on a device; the context loads device support if it has not yet. HALAY_MEMORY_DEVICES: both are on
 * devices, on every rank, and every rank specifies this; a rank's are all on one device, that of its first such tensor.
 * On one host the devices then perform these themselves if they can access each other's memory, HALAY_DEVICE_SLAB bytes
 * at a time: broadcasts; all-gathers if all ranks have the same number of rows; all-reduces and reduce-scatters,
 * without adasum, wire types and, but for sums and averages of f32, f16 and bf16 outside of groups, scale factors: in
 * rank order, f16 and bf16 in f32, rounded once. This is for all ranks, not for process sets, and out must have room
 * for the result: if not, and the devices perform the operation, the result is lost, and the request ends with
 * HALAY_ERR_ARGUMENT. After any error, a lost peer's too, out is undefined. With several hosts, which have equal
 * numbers of ranks, the devices of each sum and average f32, f16 and bf16 (no groups); each host's sum is rounded, and
 * each rank exchanges a share of it. Everything else is as with HALAY_MEMORY_DEVICE. A device pointer in a context that
 * has used no device is a program error and ends in a signal.
 */
enum halay_memory_kind { HALAY_MEMORY_ANY = 0, HALAY_MEMORY_DEVICE = 1, HALAY_MEMORY_DEVICES = 2 };

/* A tensor of a group, as an array element: halay_tensor_info.member_bytes is the size of an element, so that members
 * which later versions add to this struct count as zero. */
struct halay_member {
    const void *in; /* NULL: out, in place */
    void *out;
    enum halay_dtype dtype;
    int dimensions;
    size_t shape[HALAY_DIMENSIONS_MAX];
};

/*
 * A tensor and the operation on it. Zero-initialise, set struct_size to sizeof, then the rest.
 *
 *                     in                          out
 *     all-reduce      NULL: out                   as large as in                   every element reduced over all ranks
 *     broadcast       ignored                     data                             the root's data
 *     all-gather      rows of this rank           rows of all ranks                concatenated in order of rank
 *     reduce-scatter  rows                        this rank's block of them        every element reduced over all ranks
 *     all-to-all      rows for each rank          rows from each rank              in order of rank
 *     reduce          NULL: out                   root: as large as in             every element reduced, at the root
 *     gather          rows of this rank           root: rows of all ranks          concatenated in order of rank
 *     scatter         root: rows for each rank    rows from the root               the root's rows, distributed
 *     barrier         ignored, except the name                                     ends when all ranks have submitted
 *     send            data                        ignored                          to peer
 *     receive         ignored                     data                             from peer
 *
 * A row is the elements of one index of the first dimension. The number of rows that a rank contributes to an
 * all-gather, all-to-all, gather or scatter may differ between ranks and between submissions; the other dimensions are
 * equal on all ranks. While every rank contributes the same number as the last time, nothing has to be negotiated.
 *
 * Results of these four operations, whose size is unknown until all ranks have submitted, are written to out if they
 * fit in out_bytes; if they do not, the request of that rank alone ends with HALAY_ERR_ARGUMENT and a text with the
 * required bytes. With out NULL (also for reduce-scatter) they are written to memory that belongs to the request and is
 * freed with it. halay_request_result returns the result's address and size.
 *
 * All ranks give the same root to a reduce, gather or scatter. The other ranks' out of a reduce or gather, and their
 * in, splits and first dimension of a scatter, are ignored.
 *
 * A send matches a receive of its peer; only these two ranks take part. They match by name, or with name NULL by tag:
 * then the n-th send matches the n-th receive of that tag. Names and tags of sends and receives are separate from those
 * of other operations and of other process sets. Several may be in flight in both directions; by name, one of each
 * name, peer and direction (HALAY_ERR_DUPLICATE). A send may wait until the peer has submitted the receive. Type and
 * number of elements must be equal: otherwise both end with HALAY_ERR_MISMATCH and a text with both values. If the peer
 * has left (halay_fini) they end with HALAY_ERR_PEER. They cannot be registered, are not fused, are not ordered with
 * other operations, and are not subject to HALAY_DETERMINISTIC. A rank that has joined cannot submit them. Their names
 * have at most 200 bytes.
 *
 * A receive with peer HALAY_ANY_RANK matches a send of any other rank of its process set, by name or by tag;
 * halay_result.peer is the sender. Of several waiting sends any may be chosen, of one rank's the oldest. A receive from
 * one given rank has precedence, whichever was submitted first. It ends with HALAY_ERR_PEER when all others have left.
 *
 * A send or receive that is canceled or times out before it has matched ends on this rank alone, with a text that names
 * the missing rank; it is as if it had never been submitted: it can no longer match, and a counterpart that is
 * submitted later waits for the next one, within its own time limit. A peer with nothing else to do answers within two
 * seconds; if it does not answer at all, or a transfer does not end, the context fails as described for timeout_ms.
 *
 * Sends and receives are included in the counters submissions, completions, errors, in_flight and bytes.
 * HALAY_STALL_CHECK_TIME and HALAY_STALL_SHUTDOWN_TIME apply: the waiting rank reports the stall.
 *
 * The rows of a reduce-scatter or scatter are distributed by splits, or otherwise as by halay_scatter_rows. in and out
 * may be the same in an all-reduce or reduce; in a reduce-scatter or scatter out may be the start of this rank's block
 * in in; in an all-gather or gather in may be within out (this rank's rows are not copied if in is their place in out);
 * otherwise in and out must not overlap.
 */
struct halay_tensor_info {
    size_t struct_size;
    /* 1 to HALAY_NAME_MAX bytes of UTF-8; unique in its process set while registered. NULL (not with halay_register):
     * matched by the order of calls (halay_submit_named). */
    const char *name;
    enum halay_collective collective;
    enum halay_dtype dtype;
    int dimensions; /* 0 (a scalar) to HALAY_DIMENSIONS_MAX */
    size_t shape[HALAY_DIMENSIONS_MAX];
    const void *in;
    void *out;
    enum halay_reduction
        reduction; /* all-reduce, reduce-scatter, reduce; adasum: all-reduce only, of each tensor by itself */
    int root;      /* broadcast, reduce, gather, scatter: a rank of the job, in a process set too */
    /*
     * Scale factors of reductions: each rank's elements are multiplied by prescale before the reduction and the result
     * by postscale after it; 0 means 1. For any reduction and all types but bool: f16, bf16 and f32 in f32 (f16 and
     * bf16 are rounded once each time), integers in f64, truncated towards zero and clamped to their type. Must be
     * finite and equal on all ranks.
     */
    double prescale, postscale;
    size_t out_bytes; /* size of out; all-gather, all-to-all, gather and scatter only */
    /* Copied. All-to-all: rows for each rank, their sum at most shape[0]; NULL: the same number for each. Scatter: the
     * root's rows for each rank; reduce-scatter: rows of each rank's block, equal on all ranks; the sum of either is
     * shape[0]; NULL: as by halay_scatter_rows. */
    const size_t *splits;
    /*
     * All-reduce: several tensors as one, a group. The members replace in, out, dtype, dimensions and shape; the other
     * fields are common to them. They start when all ranks have submitted the group, run together, those of one type in
     * one collective, and end together: an error in one is an error of all. Copied. At most 8000, dimensions included.
     */
    const struct halay_member *members;
    size_t member_count;
    size_t member_bytes; /* sizeof(struct halay_member); 0 with a count above 0 is HALAY_ERR_ARGUMENT */
    /* All-reduce of f32: elements are sent and reduced as this type, and are converted back to f32 in out; prescale is
     * applied before, postscale after. Halves the bytes; all ranks still get the same bits. */
    enum halay_wire wire;
    /* -32768 to 32767, equal on all ranks: of tensors that are ready at the same time, higher priorities start
     * first. */
    int priority;
    /* NULL: all ranks. With a set, "all ranks" in this header means its members. */
    struct halay_process_set *set;
    /*
     * Time limit from the submission on this rank. A request that has not ended by then is withdrawn as by
     * halay_cancel, with HALAY_ERR_TIMEOUT and a text that names the rank whose time expired and the ranks that have
     * not submitted the tensor. Detected within a second. If the operation had started by then and does not end within
     * the same time again (at least 5 s), the context fails with that status. 0: no time limit; negative:
     * HALAY_ERR_ARGUMENT. Ranks may give different times.
     */
    int timeout_ms;
    /* Send and receive: the other rank, a rank of the job, or HALAY_ANY_RANK for a receive; and the tag that they match
     * by if name is NULL. */
    int peer;
    int64_t tag;
    /*
     * Ranks may differ in this, except HALAY_MEMORY_DEVICES; in may be in other memory than out. Memory that belongs to
     * the request, for a result that does not fit in out, is host memory. Errors of a submission and of halay_register:
     * as of halay_alloc_device, and HALAY_ERR_ARGUMENT (in and out, or the members of a group, are on several devices,
     * or not in the memory specified; or a tensor with HALAY_MEMORY_DEVICES is on another device than those before). If
     * a device fails later, the context fails.
     */
    enum halay_memory_kind memory;
    /*
     * Work on the device that the submission follows: all given to a stream (cudaStream_t) before the call, and an
     * event (cudaEvent_t) as last recorded before the call. NULL: nothing; then data on a device must be ready, and out
     * free, at the call. For a registered tensor they apply to each submission, which notes their state and returns at
     * once. The stream must be one of the device that the data are on; for host memory, of the calling thread's current
     * device. CUDA's stream 0 is cudaStreamLegacy here. A stream that is capturing a graph is refused
     * (HALAY_ERR_UNSUPPORTED); a graph launched there precedes the submission, and so do its external events. They use
     * the device with HALAY_MEMORY_ANY, too. Until its data have been copied from the device, a submission does not
     * exist for the other ranks and cannot end: halay_cancel and timeout_ms take effect from then on. Later submissions
     * may overtake it, except sends and receives, a join, and changes of process sets.
     */
    void *after_stream, *after_event;
};

/* Returns the number of rows of a rank's block in a reduce-scatter or scatter: rows / size, and one more for the first
 * rows % size ranks; 0 if rank is not in 0 ... size - 1. *first (may be NULL) is the index of its first row. Pure; any
 * thread. */
static inline size_t halay_scatter_rows(size_t rows, int size, int rank, size_t *first);

/*
 * Registers a tensor. Local; nothing is sent. Buckets hold their tensors in rank 0's order of registration: tensors
 * that are adjacent in memory in that order need no copies. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED (type
 * with reduction; adasum under HALAY_DETERMINISTIC=ranks, as its last bits depend on the tensors fused),
 * HALAY_ERR_DUPLICATE, HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_register(struct halay_context *ctx, const struct halay_tensor_info *info,
                                           struct halay_tensor **tensor);
/* Unregisters a tensor and frees the handle; HALAY_ERR_ARGUMENT while it is in flight. NULL is allowed. */
HALAY_API enum halay_status halay_unregister(struct halay_tensor *tensor);

/* ---- submission and completion ---------------------------------------------------------------------------------- */

/* Called once, when a submission ends. text describes the error ("" for HALAY_OK); valid during the call. */
typedef void (*halay_callback)(void *arg, enum halay_status status, const char *text);

/* Submits a registered tensor; returns at once. callback may be NULL. request may be NULL if a callback is given;
 * otherwise release it with halay_request_free. A tensor may be in flight once at a time (HALAY_ERR_DUPLICATE). Errors:
 * also HALAY_ERR_CLOSED, the first cause's status after a failure, HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_submit(struct halay_tensor *tensor, halay_callback callback, void *arg,
                                         struct halay_request **request);

/*
 * Submits several registered tensors of one context in this order, like successive calls of halay_submit, but faster:
 * the engine is locked and woken once. All are accepted or, with an error, none: then requests is not written, and the
 * callback is not called. The callback is called once for each tensor, with the same arg. requests has count elements
 * and may be NULL only with a callback. count may be 0. Errors: as of halay_submit; HALAY_ERR_ARGUMENT also for tensors
 * of several contexts, HALAY_ERR_DUPLICATE also if a tensor is given twice.
 */
HALAY_API enum halay_status halay_submit_many(struct halay_tensor *const *tensors, size_t count,
                                              halay_callback callback, void *arg, struct halay_request **requests);

/*
 * Submits a tensor by name, without registration, as halay_submit does; the data pointers of info are used for this
 * submission. A name that is registered must be described as in its registration (HALAY_ERR_ARGUMENT). A program may
 * use any number of names once each: in each process set the ranks remember the 16384 names that were used last and
 * those in flight. A forgotten name that is used again, registered or not, is sent and compared by name once more,
 * which takes some 20 microseconds.
 *
 * With name NULL calls match by their order: the n-th all-reduce that this rank submits without a name in a process
 * set, by whichever function, matches the n-th of the other members, and so for each other operation. Calls that
 * return an error do not count; after a join all counts restart at 0. So only one thread at a time may submit unnamed
 * calls of one operation in one set. Their names are "unnamed allreduce 0" to "unnamed allreduce 1679", then 0 again;
 * the program must not use such names itself. At most 1680 of an operation are in flight in a set
 * (HALAY_ERR_DUPLICATE). The ranks need not compare a name again if it has the same type and shape as before, that is
 * if all calls are equal or repeat after 1 to 8, 10, 12, 14, 15, 16, 20, ... of them: other programs are faster with
 * names. A barrier without a name is named "barrier". For sends and receives see struct halay_tensor_info.
 */
HALAY_API enum halay_status halay_submit_named(struct halay_context *ctx, const struct halay_tensor_info *info,
                                               halay_callback callback, void *arg, struct halay_request **request);

/* Submit the operations by name, or with name NULL by the order of calls, for count elements in one dimension. in may
 * equal out. */
static inline enum halay_status halay_allreduce_async(struct halay_context *ctx, const char *name, const void *in,
                                                      void *out, size_t count, enum halay_dtype dtype,
                                                      enum halay_reduction reduction, struct halay_request **request);
static inline enum halay_status halay_broadcast_async(struct halay_context *ctx, const char *name, void *data,
                                                      size_t count, enum halay_dtype dtype, int root,
                                                      struct halay_request **request);

/* Submit the operations on rows, of columns elements each. in and out must not overlap; out may be NULL (struct
 * halay_tensor_info has the rules). out has room for out_rows rows; in a reduce-scatter for this rank's block
 * (halay_scatter_rows). splits (size): rows for each rank; NULL: rows / size, which must be whole. */
static inline enum halay_status halay_reduce_scatter_async(struct halay_context *ctx, const char *name, const void *in,
                                                           void *out, size_t rows, size_t columns,
                                                           enum halay_dtype dtype, enum halay_reduction reduction,
                                                           struct halay_request **request);
static inline enum halay_status halay_allgather_async(struct halay_context *ctx, const char *name, const void *in,
                                                      size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                      size_t out_rows, struct halay_request **request);
static inline enum halay_status halay_alltoall_async(struct halay_context *ctx, const char *name, const void *in,
                                                     const size_t *splits, size_t rows, size_t columns,
                                                     enum halay_dtype dtype, void *out, size_t out_rows,
                                                     struct halay_request **request);

/* Submit the operations with a root. out of a reduce or gather is used on the root only; so are in, splits and rows of
 * a scatter. splits NULL: as by halay_scatter_rows. Otherwise as above. */
static inline enum halay_status halay_reduce_async(struct halay_context *ctx, const char *name, const void *in,
                                                   void *out, size_t count, enum halay_dtype dtype,
                                                   enum halay_reduction reduction, int root,
                                                   struct halay_request **request);
static inline enum halay_status halay_gather_async(struct halay_context *ctx, const char *name, const void *in,
                                                   size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                   size_t out_rows, int root, struct halay_request **request);
static inline enum halay_status halay_scatter_async(struct halay_context *ctx, const char *name, const void *in,
                                                    const size_t *splits, size_t rows, size_t columns,
                                                    enum halay_dtype dtype, void *out, size_t out_rows, int root,
                                                    struct halay_request **request);

/* Send count elements of in to one rank, or receive count elements into out from one rank or HALAY_ANY_RANK. name NULL:
 * by tag (struct halay_tensor_info). */
static inline enum halay_status halay_send_async(struct halay_context *ctx, const char *name, const void *in,
                                                 size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                 struct halay_request **request);
static inline enum halay_status halay_receive_async(struct halay_context *ctx, const char *name, void *out,
                                                    size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                    struct halay_request **request);

/* Submits a barrier, which ends when all ranks have submitted it. name NULL: "barrier". */
static inline enum halay_status halay_barrier_async(struct halay_context *ctx, const char *name,
                                                    struct halay_request **request);

/* Returns HALAY_IN_PROGRESS until the request has ended, then its final status. Never blocks. */
HALAY_API enum halay_status halay_test(struct halay_request *request);
/*
 * Blocks until a request ends, at most timeout_ms (negative: without a time limit). Returns its final status, or
 * HALAY_ERR_TIMEOUT if it is still in flight (halay_test distinguishes this from a request whose own time has expired).
 * The waiting thread drives the engine itself while no other thread does. Several threads may wait for one request; it
 * is freed when all of them have returned.
 */
HALAY_API enum halay_status halay_wait(struct halay_request *request, int timeout_ms);

/*
 * Blocks until all of these requests of one context have ended, at most timeout_ms (negative: without a time limit).
 * Returns HALAY_OK, or the status of the first one in this order that ended with an error; HALAY_ERR_TIMEOUT while some
 * are in flight. Otherwise as halay_wait; frees nothing. NULL requests are skipped; with no others the result is
 * HALAY_OK. Errors: also HALAY_ERR_ARGUMENT (requests of several contexts).
 */
HALAY_API enum halay_status halay_wait_all(struct halay_request *const *requests, size_t count, int timeout_ms);
/*
 * Blocks until one of these requests has ended, at most timeout_ms. Returns its status, and its index in *index; of
 * several that have ended, the first one's. A request that has ended is returned each time until the program replaces
 * it with NULL. *index is count if none has ended: HALAY_ERR_TIMEOUT, or another error as of halay_wait.
 * HALAY_ERR_ARGUMENT, with *index unchanged: all are NULL, or they are of several contexts.
 */
HALAY_API enum halay_status halay_wait_any(struct halay_request *const *requests, size_t count, int timeout_ms,
                                           size_t *index);

/*
 * Makes a stream (cudaStream_t, of any device) follow a request: work given to the stream from now on sees the result.
 * Blocks until the copy of the result to the device has been enqueued, at most timeout_ms (0: do not wait, negative:
 * without a time limit): the engine's collective must have ended, the copy need not. That stream may use out from then
 * on; other streams, and the host, wait for the end (halay_wait). Returns HALAY_OK; the status of a request that has
 * ended with an error; otherwise as halay_wait. For data in host memory it is halay_wait. The request itself ends when
 * the result is on the device; it may be freed before. Its name may be submitted again from now on by submissions that
 * follow the stream.
 *
 * HALAY_OK orders the stream; it is not the end of the request. If a device or another rank fails before that end, the
 * stream continues all the same, what it finds in out is undefined, and the request ends with the error. So what is to
 * survive an error (a checkpoint, a commit of halay_elastic.h) is made of such results only after their requests have
 * ended with HALAY_OK.
 */
HALAY_API enum halay_status halay_wait_stream(struct halay_request *request, int timeout_ms, void *stream);

/*
 * Returns a descriptor for the program's event loop (poll, epoll, asyncio), the same at each call: readable when
 * requests of this context may have ended since it was last read. Read its 8 bytes (which does not block), then call
 * halay_test on the requests. It is readable from the start, so that a loop which does this whenever it is readable
 * misses nothing, and stays readable until it is read (level-triggered; each end is an edge, too). The context owns it
 * and closes it in halay_fini. A program that never calls this does not pay for it. -1: ctx is NULL or of this
 * process's parent, or the system has no free descriptor, which the log reports.
 */
HALAY_API int halay_completion_fd(struct halay_context *ctx);

/*
 * Withdraws a submission. If not all ranks have submitted the tensor, it ends on all of them with HALAY_ERR_CANCELED,
 * its data untouched, and a text that names this rank and the missing ones; everything else continues. A rank that
 * submits later gets that error for its own submission: the n-th submission of a name always matches the others' n-th
 * ones, so all may submit the name again. An unmatched send or receive ends on this rank alone (struct
 * halay_tensor_info). If the operation has started, it ends as if this call had not been made. Either way it ends once
 * and, except for unmatched sends and receives, alike on all ranks. HALAY_OK means that the request has been made (or
 * the submission has ended): halay_wait or halay_test returns the outcome. Never blocks; may be called in a callback.
 * Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED (a join), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_cancel(struct halay_request *request);

/* Returns the error text of a request that has ended ("" for HALAY_OK); valid until the request is freed. */
HALAY_API const char *halay_request_text(const struct halay_request *request);

/* The result of a request. Set struct_size to sizeof; it is handled as in halay_counters_read. */
struct halay_result {
    size_t struct_size;
    void *data; /* out, or memory of the request, valid until it is freed; reduce: NULL except at the root */
    size_t bytes;
    int dimensions;
    size_t shape[HALAY_DIMENSIONS_MAX];
    /* All-gather, all-to-all, scatter: rows from each rank (size), valid until the request is freed; gather: the same
     * for the root's result, on all ranks; otherwise NULL. */
    const size_t *rows;
    int last_joined;               /* join: the rank that joined last; otherwise -1 */
    struct halay_process_set *set; /* halay_process_set_create_async: the new set unless removed; otherwise NULL */
    int peer;                      /* receive: the rank that sent; otherwise -1 */
};

/* Returns the status of a request that has ended, and its result. *result is written with HALAY_OK, and if out was too
 * small: then the data are in the request's memory. Returns HALAY_IN_PROGRESS before the request has ended. */
HALAY_API enum halay_status halay_request_result(const struct halay_request *request, struct halay_result *result);

/* Releases a request, ended or not (one in flight still ends and calls its callback). NULL is allowed. */
HALAY_API void halay_request_free(struct halay_request *request);

/*
 * Submits by name, waits and frees: halay_submit_named, then halay_wait without a time limit, but faster, because the
 * engine need not wake its thread. Blocks until the operation has ended; must not be called in a callback
 * (HALAY_ERR_UNSUPPORTED). *result (may be NULL; set struct_size) is as of halay_request_result, without what is freed
 * with the request: rows is NULL, and so is data unless the result is in out. rows_from (may be NULL) receives the rows
 * from each rank of the process set. Both are written on success and if out was too small.
 */
HALAY_API enum halay_status halay_run(struct halay_context *ctx, const struct halay_tensor_info *info,
                                      struct halay_result *result, size_t *rows_from);

/* Run the operations by name and block until they end: halay_run with these arguments. */
static inline enum halay_status halay_allreduce(struct halay_context *ctx, const char *name, const void *in, void *out,
                                                size_t count, enum halay_dtype dtype, enum halay_reduction reduction);
static inline enum halay_status halay_broadcast(struct halay_context *ctx, const char *name, void *data, size_t count,
                                                enum halay_dtype dtype, int root);
static inline enum halay_status halay_reduce_scatter(struct halay_context *ctx, const char *name, const void *in,
                                                     void *out, size_t rows, size_t columns, enum halay_dtype dtype,
                                                     enum halay_reduction reduction);
/* rows_from (size; may be NULL) receives the rows from each rank, on success and if out was too small. */
static inline enum halay_status halay_allgather(struct halay_context *ctx, const char *name, const void *in,
                                                size_t rows, size_t columns, enum halay_dtype dtype, void *out,
                                                size_t out_rows, size_t *rows_from);
static inline enum halay_status halay_alltoall(struct halay_context *ctx, const char *name, const void *in,
                                               const size_t *splits, size_t rows, size_t columns,
                                               enum halay_dtype dtype, void *out, size_t out_rows, size_t *rows_from);
static inline enum halay_status halay_reduce(struct halay_context *ctx, const char *name, const void *in, void *out,
                                             size_t count, enum halay_dtype dtype, enum halay_reduction reduction,
                                             int root);
/* rows_from: as of halay_allgather, on all ranks. */
static inline enum halay_status halay_gather(struct halay_context *ctx, const char *name, const void *in, size_t rows,
                                             size_t columns, enum halay_dtype dtype, void *out, size_t out_rows,
                                             int root, size_t *rows_from);
/* *got (may be NULL): rows of this rank's block, written as rows_from is. */
static inline enum halay_status halay_scatter(struct halay_context *ctx, const char *name, const void *in,
                                              const size_t *splits, size_t rows, size_t columns, enum halay_dtype dtype,
                                              void *out, size_t out_rows, int root, size_t *got);
static inline enum halay_status halay_send(struct halay_context *ctx, const char *name, const void *in, size_t count,
                                           enum halay_dtype dtype, int peer, int64_t tag);
static inline enum halay_status halay_receive(struct halay_context *ctx, const char *name, void *out, size_t count,
                                              enum halay_dtype dtype, int peer, int64_t tag);
static inline enum halay_status halay_barrier(struct halay_context *ctx, const char *name);

/*
 * Joins: this rank has no more data. Until all ranks have joined it takes part in the others' operations with neutral
 * elements: 0 in a sum, 1 in a product, infinity or the type's limits in min and max. Averages still divide by the
 * number of all ranks, or by the number of ranks that contributed data if so configured (join_average in struct
 * halay_options). Meanwhile the others may run all-reduces (groups too) and barriers; other operations end with
 * HALAY_ERR_UNSUPPORTED on every rank if this rank's data are missing. Earlier submissions of this rank run as usual;
 * until the join has ended the rank cannot submit anything (HALAY_ERR_ARGUMENT). The join ends when all ranks have
 * joined; *last_joined (may be NULL) is the last one. The name "join" is reserved. HALAY_DETERMINISTIC holds: results
 * depend on the submission after which a rank joins, not on the time. Errors: as halay_submit.
 */
static inline enum halay_status halay_join_async(struct halay_context *ctx, struct halay_request **request);
static inline enum halay_status halay_join(struct halay_context *ctx, int *last_joined);

/* ---- counters --------------------------------------------------------------------------------------------------- */

enum { HALAY_COUNTERS_STATUSES = 32 };

/* Counters of this rank's engine since halay_init. Zero-initialise and set struct_size to sizeof. */
struct halay_counters {
    size_t struct_size;
    uint64_t submissions;                               /* accepted; a plan's when all of their bucket are */
    uint64_t completions;                               /* ended with HALAY_OK */
    uint64_t errors;                                    /* ended otherwise */
    uint64_t errors_by_status[HALAY_COUNTERS_STATUSES]; /* [enum halay_status] */
    uint64_t in_flight;                                 /* submitted and not ended */
    uint64_t negotiations;     /* submissions sent by name: the tensor was new to the ranks, or had changed */
    uint64_t cache_hits;       /* submissions sent by the number that the ranks had agreed on, or replayed; one that a
                                  plan takes over or gives back counts twice */
    uint64_t collectives;      /* buckets started, of one tensor or of several */
    uint64_t fused_tensors;    /* tensors that shared their bucket with others */
    uint64_t bytes;            /* of all tensors in these buckets, and of sends and receives; on this rank */
    uint64_t communication_ns; /* time with at least one collective in flight */
    uint64_t messages_sent;    /* control messages, without data */
    uint64_t messages_received;
    uint64_t steps;  /* times that a thread looked for work */
    uint64_t sleeps; /* times that it found none and slept */
};

/*
 * Reads the counters. Never blocks; may be called at any time, also while the engine works: each value is exact, but
 * the values are read at slightly different moments. counters->struct_size is the size that is filled in; members that
 * this library does not have are set to zero. Errors: HALAY_ERR_ARGUMENT (struct_size is too small, or not the size of
 * any version).
 */
HALAY_API enum halay_status halay_counters_read(struct halay_context *ctx, struct halay_counters *counters);

#ifdef __cplusplus
}
#endif

#include "halay_inline.h"

#endif
