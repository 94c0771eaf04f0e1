/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: the engine. Named tensors, reduced over all ranks in the background.
 *
 * Concepts. A *context* is this process's membership in a job of `size` ranks. Each rank names its tensors and submits
 * them when they are ready, from any thread and in any order; a background thread agrees with the other ranks on an
 * order by name, fuses small tensors into buckets, moves the data and completes each *request* exactly once. It sleeps
 * when there is nothing to do. A tensor that is submitted again and again (a gradient) is cheapest *registered* once
 * and submitted by handle. Data in memory from halay_alloc are reduced in place by all ranks of the host, without a
 * copy.
 *
 * What must agree: for each name, all ranks submit the same operation, type, shape, reduction, root and scale factors,
 * once each. When they don't, the requests end with HALAY_ERR_MISMATCH on every rank, their text names the tensor, the
 * ranks and both values, no data are touched, and the engine lives on. When a rank dies, requests in flight and later
 * ones end with HALAY_ERR_PEER within 5 seconds, and their text names the rank; when a host stops answering, after
 * HALAY_HOST_SILENCE.
 *
 * Several hosts. The ranks' engines connect with rank 0 by TCP while halay_init runs, and over halay's own TCP ranks
 * connect later, too: each host must accept that on one port, of the system's choice or of HALAY_PORTS. Both ends prove
 * that they belong to the job; what ranks send each other is encrypted with HALAY_ENCRYPT=1. A host that does not
 * answer for 10 seconds (HALAY_HOST_SILENCE) counts as lost, with its ranks. A child of fork that outlives its killed
 * parent hides that death from other hosts, until HALAY_PEER_TIMEOUT.
 *
 * Ownership. Data pointers are borrowed from submission to completion: the caller keeps them alive and neither reads
 * nor writes them. Strings and structs passed in are copied. Completion happens exactly once for each submission.
 *
 * Errors. See halay_types.h. Threads: every function may be called from any thread, except that halay_fini must be the
 * last call on a context (a submission whose callback has been called counts as returned). Calls that wait may be under
 * way on other threads: they return at once, with HALAY_ERR_CLOSED, and halay_fini waits until they have. A process may
 * have several contexts.
 *
 * Callbacks run on the thread that drives the engine, with no lock held: the background thread, or one of the program's
 * in a call that blocks, halay_fini and those of halay_elastic.h among them. They may make every call that does not
 * block, and so may submit. Calls that would wait for the engine get HALAY_ERR_UNSUPPORTED there and a line in the log,
 * as they would wait for their own return: halay_wait for what has not ended, the blocking forms, changes of process
 * sets, the calls of halay_elastic.h; and halay_fini does nothing.
 *
 * Devices. Data may lie on a CUDA device. The first use of one loads libhalay-cuda.so (struct halay_tensor_info,
 * halay_alloc_device); programs that use none need neither CUDA nor that file. Such a submission goes through pinned
 * memory of the host that the engine keeps for it: as much as the data, for each that is in flight at a time. It can
 * follow what the program has given to a stream, and a stream can follow it (halay_wait_stream); no stream of the
 * program's is ever waited for by a thread of the engine's. All devices of this process can be used, by a number as
 * cudaGetDevice has it; the data of one submission are on one of them. Groups (halay_coll.h) take the host's memory
 * only.
 *
 * Fork. A child of fork has no context: calls on the parent's give HALAY_ERR_UNSUPPORTED there (Linux 4.14), halay_fini
 * and the halay_*_free do nothing, and the parent goes on undisturbed.
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
 * Join the job: started by halayrun or mpirun, it finds the other ranks; started alone, it is a job of one rank. One of
 * several that another launcher (torchrun, srun without an MPI plugin, ...) has started is refused with
 * HALAY_ERR_UNSUPPORTED, unless bootstrap is "self" or there is a rendezvous. Blocks until all ranks have come, at most
 * HALAY_START_TIMEOUT (30 s). options may be NULL. Under mpirun MPI is initialised by this call if it was not, and
 * stays up after halay_fini. May be called again after halay_fini.
 * Process sets that are asked for are made before it returns, which all ranks must ask for alike (HALAY_ERR_MISMATCH,
 * also if others ask for none; HALAY_ERR_ARGUMENT). All ranks ask for the same transport (HALAY_ERR_MISMATCH). A rank
 * that cannot go on, for example because of a wrong setting or of options that it cannot read, ends the start of all
 * with its error; the others' logs say which rank it is. So the call blocks even if its own options are wrong.
 * Errors: HALAY_ERR_CONFIG, HALAY_ERR_TIMEOUT, HALAY_ERR_AUTH, HALAY_ERR_VERSION, HALAY_ERR_UNSUPPORTED,
 * HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY, HALAY_ERR_PEER (a rank died meanwhile).
 */
HALAY_API enum halay_status halay_init(const struct halay_options *options, struct halay_context **ctx);

/*
 * halay_init with the ranks of an MPI communicator; halay_mpi.h has halay_init_mpi, which fills in the first two
 * arguments and says the rules. For languages that load the library: comm points to an MPI_Comm of the MPI of that abi.
 */
HALAY_API enum halay_status halay_init_communicator(const void *comm, enum halay_mpi_abi abi,
                                                    const struct halay_options *options, struct halay_context **ctx);

/*
 * Begin to join the job and return at once: halay_init on a thread of the library's, with the callbacks of a rendezvous
 * on it, too. options, and all that they point to, are borrowed until the start has ended. Every start ends by
 * halay_init_test or by halay_init_cancel. HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM (no thread).
 */
HALAY_API enum halay_status halay_init_start(const struct halay_options *options, struct halay_start **start);

/*
 * Whether it has ended; waits at most timeout_ms for that (0: looks, negative: forever). HALAY_IN_PROGRESS: it has not,
 * and *missing (may be NULL) is the rank that it waits for, -1 if for none in particular. Otherwise what halay_init
 * would have returned, once: the start is freed, and if that is HALAY_OK *ctx is the context. One thread at a time.
 * HALAY_ERR_ARGUMENT: start or ctx is NULL. HALAY_ERR_UNSUPPORTED: a child of fork.
 */
HALAY_API enum halay_status halay_init_test(struct halay_start *start, int timeout_ms, struct halay_context **ctx,
                                            int *missing);

/*
 * Give a start up, and free it: if it has succeeded meanwhile, the job is left. Blocks until its thread has ended, half
 * a second as a rule, HALAY_START_TIMEOUT at most; over MPI until the others have come, or that time is over; in an
 * elastic job until halayrun has an answer. The other ranks' starts end with an error, after HALAY_START_TIMEOUT at the
 * latest. NULL is allowed.
 */
HALAY_API void halay_init_cancel(struct halay_start *start);

/*
 * Leave the job: refuses new submissions, ends what is in flight (with HALAY_ERR_CLOSED if it cannot complete), stops
 * the thread, frees everything that belongs to the context, halay_alloc memory included unless it is referenced
 * (halay_memory_retain). Waits at most 5 s for the other ranks. Ranks that still wait for this one get HALAY_ERR_PEER
 * ("has left"). NULL is allowed.
 */
HALAY_API void halay_fini(struct halay_context *ctx);

/*
 * Give up the job at once, for all ranks: what is in flight on this rank ends with HALAY_ERR_CANCELED ("aborted:
 * REASON"), on the others with HALAY_ERR_PEER ("rank 2 aborted: REASON"), as a rule within a second; so do later
 * submissions. A collective that is under way is broken off: what it has written to is undefined. From any thread, also
 * while another one waits, and in a callback; never blocks. reason: copied, the first 511 bytes of it; NULL: none. The
 * first failure stays: after one, and after another abort, this call does nothing. The context is good for halay_fini
 * only; afterwards halay_init starts the job again, if all ranks call it, those that were told of the abort too.
 * HALAY_ERR_ARGUMENT: ctx is NULL.
 */
HALAY_API enum halay_status halay_abort(struct halay_context *ctx, const char *reason);

/* What this process is in the job. Zero-initialise and set struct_size to sizeof. */
struct halay_context_info {
    size_t struct_size;
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    int cross_rank, cross_size; /* this host's number among the hosts, and the number of hosts */
    int is_homogeneous;         /* every host has the same number of ranks */
    int is_elastic;             /* the job is elastic (halay_elastic.h) */
};

/* Read what this process is in the job; never blocks. A struct of another version is as in halay_counters_read.
 * HALAY_ERR_ARGUMENT: ctx or info is NULL, or struct_size is not set. */
HALAY_API enum halay_status halay_context_read(const struct halay_context *ctx, struct halay_context_info *info);

/* Get one number of what halay_context_read reads; ctx is not NULL. */
static inline int halay_rank(const struct halay_context *ctx);           /* This process's number, from 0 */
static inline int halay_size(const struct halay_context *ctx);           /* The number of ranks */
static inline int halay_local_rank(const struct halay_context *ctx);     /* Its number among the ranks of this host */
static inline int halay_local_size(const struct halay_context *ctx);     /* The number of ranks of this host */
static inline int halay_cross_rank(const struct halay_context *ctx);     /* This host's number among the hosts */
static inline int halay_cross_size(const struct halay_context *ctx);     /* The number of hosts */
static inline int halay_is_homogeneous(const struct halay_context *ctx); /* Nonzero if all hosts have as many ranks */

/* Whether the engine works. HALAY_OK while it does; after a failure the first cause's status. text (may be NULL): the
 * cause, "" if none. */
HALAY_API enum halay_status halay_context_status(struct halay_context *ctx, char *text, size_t size);

/* ---- process sets ----------------------------------------------------------------------------------------------- */

/*
 * A process set is some of the job's ranks, its members: tensors that are submitted in it are of its members alone.
 * Nothing in one set waits for anything in another, so several work at the same time, and the same name may be in
 * flight in several. Sets may overlap; two may have the same ranks. Number 0 is the set of all ranks, which is always
 * there and is meant where none is given. Others are made by halay_init (struct halay_options, HALAY_PROCESS_SETS) or
 * by halay_process_set_create.
 *
 * Within a set its members are numbered 0, 1, ... in ascending order of their ranks, whatever order they were given in.
 * All that goes by rank goes by these numbers (rows and splits, parts of a reduce-scatter, results), and averages
 * divide by the number of members; only a root is a rank of the job. A rank that submits a tensor in a
 * set of which it is not a member gets HALAY_ERR_ARGUMENT. halay_join is of all ranks: a rank that has joined takes
 * part in its sets as well.
 *
 * Rank 0 of the job coordinates all sets, also those of which it is no member. When a rank dies, or leaves while a set
 * waits for it, the job is over for all ranks.
 */

/*
 * Make a set of these ranks, which call it; others need not, and are not blocked. It blocks until all members have
 * called with the same ranks, in any order: members that give other ranks wait for other ranks. Several sets may be in
 * the making at the same time, by several threads. Of sets with the same ranks the n-th call on each member is about
 * the n-th set. Not in a callback. *set belongs to the context. Ranks that are no members find it by its number
 * (halay_process_set_find), at the latest in a collective of all ranks that a member submits after its call.
 * Errors, on every member alike: HALAY_ERR_UNSUPPORTED: a member has joined. On this rank alone
 * HALAY_ERR_ARGUMENT: it is none of the ranks; no ranks, one that is none of the job's, one twice, more than 7998;
 * ranks is NULL. Otherwise as halay_submit. The log has a line. Keeps names that begin with "process sets" for itself.
 */
HALAY_API enum halay_status halay_process_set_create(struct halay_context *ctx, const int *ranks, size_t count,
                                                     struct halay_process_set **set);
/*
 * The same without the wait: halay_request_result of the request has the set. It can be canceled, and timeout_ms ends
 * it, as those of a tensor: on all members, until the last one has asked. So ranks that make sets in different orders
 * get along if they submit all before they wait. HALAY_ERR_DUPLICATE: this rank has asked for the same ranks before,
 * and that is under way. May be called in a callback. Nothing is logged that the request says.
 */
HALAY_API enum halay_status halay_process_set_create_async(struct halay_context *ctx, const int *ranks, size_t count,
                                                           int timeout_ms, struct halay_request **request);
/*
 * Remove a set, its members together as above. Nothing may be in flight in it on any of them (otherwise
 * HALAY_ERR_MISMATCH or HALAY_ERR_ARGUMENT on all, and it stays). Afterwards only queries work: submissions get
 * HALAY_ERR_ARGUMENT; tensors that are registered in it are unregistered as usual. Its number is not used again.
 * HALAY_ERR_ARGUMENT: it is the set of all ranks, has been removed, or this rank is no member. HALAY_ERR_UNSUPPORTED: a
 * member has joined.
 */
HALAY_API enum halay_status halay_process_set_remove(struct halay_process_set *set);
/* The same without the wait, as of halay_process_set_create_async. Submissions in it are refused meanwhile. */
HALAY_API enum halay_status halay_process_set_remove_async(struct halay_process_set *set, int timeout_ms,
                                                           struct halay_request **request);

/* The set of that number; NULL: there is none, or it has been removed. */
HALAY_API struct halay_process_set *halay_process_set_find(struct halay_context *ctx, int number);

/* The numbers of the sets that there are, ascending, 0 first: at most room of them. Returns how many there are. */
HALAY_API size_t halay_process_set_numbers(struct halay_context *ctx, int *numbers, size_t room);

/* What a set is. Zero-initialise, set struct_size to sizeof, and ranks and room if the members are wanted. */
struct halay_process_set_info {
    size_t struct_size;
    int *ranks;  /* where the job's numbers of the members go, ascending; NULL: not wanted */
    size_t room; /* how many ranks has room for; the first ones are written if there are more */
    int number;
    int size; /* the number of members */
    int rank; /* this rank's number in the set, -1: it is no member */
};

/* Read what a set is; never blocks. A struct of another version is as in halay_counters_read. HALAY_ERR_ARGUMENT: set
 * or info is NULL, or struct_size is not set. */
HALAY_API enum halay_status halay_process_set_read(const struct halay_process_set *set,
                                                   struct halay_process_set_info *info);

/* Get one number of what halay_process_set_read reads; set is not NULL. */
static inline int halay_process_set_number(const struct halay_process_set *set); /* The set's number */
static inline int halay_process_set_size(const struct halay_process_set *set);   /* The number of its members */
static inline int halay_process_set_rank(const struct halay_process_set *set);   /* This rank's number in it, or -1 */
static inline int halay_process_set_is_included(const struct halay_process_set *set); /* Nonzero for its members */

/* The job's numbers of the members, ascending: halay_process_set_size of them. */
static inline void halay_process_set_ranks(const struct halay_process_set *set, int *ranks);

/* ---- groups ----------------------------------------------------------------------------------------------------- */

struct halay_group; /* halay_coll.h */

/*
 * Open a group of the members of a process set (NULL: of all ranks), which all call it: for a program that uses the
 * collectives of halay_coll.h beside the engine. The ranks meet over the engine; there is nothing else to start.
 * The group has links and memory of its own, so one thread drives it while the engine works, and memory of halay_alloc
 * is private memory to it. That costs as much as a start: open it once. It has the context's settings and log, and the
 * set's numbers for ranks. Over several hosts it listens at one more of HALAY_PORTS. It is independent of the set from
 * then on, and closed by halay_group_close, before halay_fini. In an elastic job it ends with the ranks that it has: it
 * is closed, and opened anew, after each change.
 * Blocks until all members have called it, at most HALAY_START_TIMEOUT; one call for a set at a time. Not in a
 * callback. Keeps names that begin with "halay group" for itself. Errors: as of halay_submit and halay_group_open;
 * HALAY_ERR_DUPLICATE: another thread is opening one of this set; HALAY_ERR_UNSUPPORTED: a member has joined, or over
 * MPI (HALAY_TRANSPORT=mpi) the set has other ranks than MPI_COMM_WORLD; HALAY_ERR_ARGUMENT, on this rank alone: it is
 * not a member.
 */
HALAY_API enum halay_status halay_group_of(struct halay_context *ctx, struct halay_process_set *set,
                                           struct halay_group **group);

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Memory that the ranks of this host can reduce in place. 4096-aligned, contents undefined; local, other ranks need not
 * call it. Freed by halay_free or with the context, unless it is referenced. Errors: HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_alloc(struct halay_context *ctx, size_t bytes, void **ptr);
HALAY_API void halay_free(struct halay_context *ctx, void *ptr); /* nothing in flight uses it; NULL is allowed */

enum { HALAY_DEVICE_CURRENT = -1 };

/*
 * The same on a device: by its number, or the calling thread's current one (HALAY_DEVICE_CURRENT). Contents undefined.
 * Freed by halay_free, which may wait until the device has nothing to do, or by halay_fini; halay_memory_retain does
 * not know it. May block while the device's library starts. Data may as well lie in memory that the program has of
 * CUDA. Errors: HALAY_ERR_UNSUPPORTED (there is no libhalay-cuda.so, or no device that can be used; the text says
 * which), HALAY_ERR_NO_MEMORY (the text says how much there is), HALAY_ERR_ARGUMENT (no such device), HALAY_ERR_VERSION
 * (the file belongs to another release), HALAY_ERR_SYSTEM.
 */
HALAY_API enum halay_status halay_alloc_device(struct halay_context *ctx, int device, size_t bytes, void **ptr);

struct halay_memory; /* references to memory of halay_alloc */

/*
 * Refer to memory that halay_alloc gave at ptr: it stays where it is, with its contents, until the program has freed it
 * (halay_free, or halay_fini, which frees all) and every reference has been released, whichever comes last. A binding
 * retains it for each object that views it, calls halay_free at once, and releases it when the object is gone. After
 * halay_fini it is plain memory of this process, and of another context private. Each call is one reference.
 * Errors: HALAY_ERR_ARGUMENT (halay_alloc gave nothing there, or it is gone), HALAY_ERR_CLOSED (in halay_fini),
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_memory_retain(struct halay_context *ctx, void *ptr, struct halay_memory **memory);
/* Give up one reference: any thread, at any time, before, during and after halay_fini. NULL is allowed. */
HALAY_API void halay_memory_release(struct halay_memory *memory);

/*
 * Let the ranks of this host reduce memory in place that the program has already, as a framework's gradients: bytes
 * from ptr on, private anonymous memory as malloc and mmap give it, of any alignment. Its whole pages are replaced by
 * shared ones with the same contents, at the same address; what lies on the pages at both ends stays private, and is
 * copied in each collective; of several tensors that run as one, all must have whole pages or lie side by side. Local,
 * other ranks need not call it. To register and to unregister costs what fifteen all-reduces gain, and as much room in
 * the segment as halay_alloc of that size.
 *
 * The program sees to it that
 *     during this call, and that of halay_memory_unregister, no thread writes to the memory, and nothing in flight
 *       uses it: what is written meanwhile is lost. Reading is allowed;
 *     it is not pinned for a device or a network card (cudaHostRegister, ibv_reg_mr): those keep the old pages;
 *     it is unregistered before it is freed, unmapped, moved (realloc, mremap) or given back in part (MADV_DONTNEED).
 *       Each collective looks whether the pages are there; private memory that has taken their place is reduced as
 *       such, with a line in the log. An allocator that counts on zeros after MADV_DONTNEED, and a file that is mapped
 *       there, are not seen.
 * Collectives may use any part of it. After a fork the child shares it with its parent, as it does memory of
 * halay_alloc: what either writes the other sees. It stays registered when an elastic job is re-formed. After
 * halay_fini it is plain memory of this process with the contents that it had, still shared with children of fork.
 *
 * Errors: HALAY_ERR_UNSUPPORTED: it is a file's, shared or read-only memory, or has no whole page, or the ranks of this
 * host share no memory over this transport; HALAY_ERR_ARGUMENT: some of it is not mapped; HALAY_ERR_DUPLICATE: some of
 * it is registered already, or from halay_alloc; HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM. It is as before then.
 */
HALAY_API enum halay_status halay_memory_register(struct halay_context *ctx, void *ptr, size_t bytes);
/* Make it private again, with its contents. ptr: as it was registered. HALAY_ERR_NO_MEMORY: it stays registered.
 * HALAY_ERR_ARGUMENT: nothing is registered there, or it has been unmapped since; its room in the segment is lost. */
HALAY_API enum halay_status halay_memory_unregister(struct halay_context *ctx, void *ptr);

/* ---- registered tensors ----------------------------------------------------------------------------------------- */

/* What is done with a tensor. */
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
    HALAY_JOIN = 11, /* halay_join: without data; the rest of its description, its name among it, is ignored */
    HALAY_COLLECTIVE_COUNT
};

enum { HALAY_DIMENSIONS_MAX = 8, HALAY_NAME_MAX = 255, HALAY_ANY_RANK = -1 };

/* What f32 travels as. */
enum halay_wire { HALAY_WIRE_AS_IS = 0, HALAY_WIRE_F16 = 1, HALAY_WIRE_BF16 = 2 };

/*
 * Where in and out are. HALAY_MEMORY_ANY: in the host's memory; once the context has used a device, wherever the
 * pointers say, so that the calls with plain arguments take them, too. HALAY_MEMORY_DEVICE: in and out or one of them
 * on a device; the context uses it if it did not before. HALAY_MEMORY_DEVICES: both, on every rank, and every rank says
 * so. An all-reduce (sum or average of f32, f16, bf16; one tensor; all ranks) on one host is then made by the devices
 * where they reach each other's memory, HALAY_DEVICE_SLAB bytes at a time: in f32, in the order of the ranks, rounded
 * once. Everything else is as of HALAY_MEMORY_DEVICE. A pointer of a device in a context that has used none is a fault
 * of the program's, which ends by a signal.
 */
enum halay_memory_kind { HALAY_MEMORY_ANY = 0, HALAY_MEMORY_DEVICE = 1, HALAY_MEMORY_DEVICES = 2 };

/* A tensor of a group, in an array of them: halay_tensor_info.member_bytes says how large each is, so that a member of
 * this struct that a later version adds counts as zero. */
struct halay_member {
    const void *in; /* NULL: out, in place */
    void *out;
    enum halay_dtype dtype;
    int dimensions;
    size_t shape[HALAY_DIMENSIONS_MAX];
};

/*
 * What a tensor is and what is done with it. Zero-initialise, set struct_size to sizeof, then the rest.
 *
 *                     in                          out
 *     all-reduce      NULL: out                   as large as in                   every element reduced over all ranks
 *     broadcast       ignored                     data                             the root's data
 *     all-gather      rows of this rank           rows of all ranks                one rank's rows behind the other's
 *     reduce-scatter  rows                        this rank's part of them         every element reduced over all ranks
 *     all-to-all      rows for each rank          rows from each rank              in order of rank
 *     reduce          NULL: out                   root: as large as in             every element reduced, at the root
 *     gather          rows of this rank           root: rows of all ranks          one rank's rows behind the other's
 *     scatter         root: rows for each rank    rows from the root               the root's rows, dealt out
 *     barrier         ignored, as is all but the name                              ends when all have submitted it
 *     send            data                        ignored                          to peer
 *     receive         ignored                     data                             from peer
 *
 * A row is what one index of the first dimension has. How many an all-gather, all-to-all, gather or scatter gives may
 * differ between ranks, and from one submission to the next; the other dimensions are equal everywhere. As long as
 * every rank gives what it gave the last time, nothing has to be negotiated.
 *
 * Results whose size is not known before all ranks have submitted (of these four) go to out if they fit in out_bytes;
 * if they don't, the request of that rank alone ends with HALAY_ERR_ARGUMENT and a text that says how many bytes there
 * are. With out NULL (reduce-scatter too) they go into memory that belongs to the request and is freed with it.
 * halay_request_result says where the result lies and how large it is.
 *
 * Of a reduce, gather and scatter all ranks name the same root. What the table has for the root alone the others need
 * not have: their out of a reduce or gather, and their in, splits and first dimension of a scatter, are ignored.
 *
 * A send meets a receive of its peer, and only these two ranks take part. They meet by name; with name NULL by tag, and
 * then the n-th send meets the n-th receive of that tag. Sends and receives are no others' of that name or tag, nor of
 * another process set. Several may be in flight, both ways; by name one of each name, peer and direction
 * (HALAY_ERR_DUPLICATE). A send may wait until the peer has submitted the receive. Type and number of elements must be
 * equal: otherwise both end with HALAY_ERR_MISMATCH and the text has both. One whose peer has left (halay_fini) ends
 * with HALAY_ERR_PEER. They are not registered, not fused, and have no part in the order of other operations, nor in
 * HALAY_DETERMINISTIC. A rank that has joined submits none. The name has 200 bytes at most.
 *
 * A receive whose peer is HALAY_ANY_RANK meets the send of any other rank of its process set, by name or by tag; who
 * that was is in halay_result.peer. Of several sends that wait any may be the one, of one rank's the oldest. A receive
 * from one rank goes first, whichever was submitted before. It ends with HALAY_ERR_PEER when all others have left.
 *
 * One that is canceled, or whose time is over, and has met nothing ends on this rank alone, with a text that says which
 * rank was missing; it is as if it had never been submitted: nothing meets it any more, and a counterpart that comes
 * later waits for the next one, for its own time. A peer that has nothing else to do answers within two seconds; if it
 * does not answer at all, or data that are under way do not end, the context fails as struct halay_tensor_info says.
 *
 * They are in the counters submissions, completions, errors, in_flight and bytes. HALAY_STALL_CHECK_TIME
 * and HALAY_STALL_SHUTDOWN_TIME apply: the rank that waits reports it.
 *
 * The rows of a reduce-scatter or scatter are dealt out by splits, or else as halay_scatter_rows does. in and out may
 * be the same in an all-reduce or reduce; in a reduce-scatter or scatter out may be where this rank's part begins in
 * in; in an all-gather or gather in may lie within out (nothing of it is copied if it is where this rank's rows go);
 * otherwise they don't overlap.
 */
struct halay_tensor_info {
    size_t struct_size;
    /* 1 to HALAY_NAME_MAX bytes of UTF-8; unique in its process set while registered. NULL, but for halay_register: by
     * the order of calls (halay_submit_named). */
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
     * Where something is reduced: each rank's elements are multiplied by prescale before the reduction, the result by
     * postscale after it; 0 stands for 1. Any reduction, all types but bool: f16, bf16 and f32 in f32 (halves are
     * rounded once each time), integers in f64, cut towards zero and kept within their type. Finite numbers, equal on
     * all ranks.
     */
    double prescale, postscale;
    size_t out_bytes; /* room at out; all-gather, all-to-all, gather and scatter only */
    /* Copied. All-to-all: rows for each rank, their sum at most shape[0]; NULL: as many for each. Scatter: the root's
     * rows for each rank; reduce-scatter: rows of each rank's part, equal on all ranks; of both their sum is shape[0];
     * NULL: as halay_scatter_rows has it. */
    const size_t *splits;
    /*
     * All-reduce: several tensors as one, a group. What is said of members replaces in, out, dtype, dimensions and
     * shape; the rest is common to them. They start when all ranks have submitted the group, run together, those of one
     * type in one collective, and end together: an error in one is an error of all. Copied. At most 8000, dimensions
     * counted.
     */
    const struct halay_member *members;
    size_t member_count;
    size_t member_bytes; /* sizeof(struct halay_member); 0 with a count above 0 is HALAY_ERR_ARGUMENT */
    /* All-reduce of f32: elements travel and are reduced as this type and are f32 again in out; prescale comes before,
     * postscale after. Half the bytes, and the ranks still get the same bits. */
    enum halay_wire wire;
    /* -32768 to 32767, equal on all ranks: of what is ready at a time, the higher goes first. */
    int priority;
    /* NULL: all ranks. Where this header says "all ranks", those of the set are meant. */
    struct halay_process_set *set;
    /*
     * If it has not ended so long after its submission on this rank, it is withdrawn as by halay_cancel, with
     * HALAY_ERR_TIMEOUT and a text that says which rank's time is over and which ranks have not submitted it. Noticed
     * within a second. If it had begun by then and has not ended after as long again, 5 s at least, the context fails
     * with that status. 0: no time-out; negative: HALAY_ERR_ARGUMENT. The ranks' may differ.
     */
    int timeout_ms;
    /* Send and receive: the other rank, a rank of the job, of a receive HALAY_ANY_RANK, too; and with name NULL what
     * they meet by. */
    int peer;
    int64_t tag;
    /* Ranks may differ in this, but for HALAY_MEMORY_DEVICES, and in may be where out is not. Memory of the request's
     * own, for a result without room at out, is the host's. Errors of a submission, and of halay_register: as of
     * halay_alloc_device, and HALAY_ERR_ARGUMENT: in and out, or the members of a group, are on several devices, or not
     * where it was said. If a device fails later, the context does. */
    enum halay_memory_kind memory;
    /*
     * What the submission follows: what a stream (cudaStream_t) has been given before the call, and an event
     * (cudaEvent_t) as it was recorded last before the call. NULL: nothing; then data on a device must be there, and
     * out be free, at the call. Of a registered tensor they are used at each submission, which notes them as they are
     * then and returns at once. A stream is one of the device where the data are; of the host's memory, of the calling
     * thread's current one. CUDA's stream 0 is cudaStreamLegacy here. One that records a graph is refused
     * (HALAY_ERR_UNSUPPORTED): a graph that is launched there comes first, and so do its external events. With
     * HALAY_MEMORY_ANY, too, they use the device. Until its data have come from the device a submission has not been
     * made for the other ranks, and cannot end: halay_cancel and timeout_ms work from then on. What is submitted later
     * may overtake it, but for sends and receives, a join, and changes of process sets.
     */
    void *after_stream, *after_event;
};

/* Rows of the part that a rank gets of a reduce-scatter or scatter: rows / size, the first rows % size ranks one more.
 * *first (NULL: not wanted): the row that its part begins with. 0 if rank is none of size. Pure; any thread. */
static inline size_t halay_scatter_rows(size_t rows, int size, int rank, size_t *first);

/* Register a tensor; local, nothing is sent. Buckets have their tensors in the order of registration on rank 0:
 * neighbours in memory one after the other need no copies.
 * Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED (type with reduction; adasum under HALAY_DETERMINISTIC=ranks, as
 * its last bits depend on what is fused), HALAY_ERR_DUPLICATE, HALAY_ERR_NO_MEMORY. */
HALAY_API enum halay_status halay_register(struct halay_context *ctx, const struct halay_tensor_info *info,
                                           struct halay_tensor **tensor);
/* Forget it and free the handle; HALAY_ERR_ARGUMENT while it is in flight. NULL is allowed. */
HALAY_API enum halay_status halay_unregister(struct halay_tensor *tensor);

/* ---- submission and completion ---------------------------------------------------------------------------------- */

/* Called once when a submission ends. text: what went wrong, "" if nothing did; valid during the call. */
typedef void (*halay_callback)(void *arg, enum halay_status status, const char *text);

/*
 * Submit a registered tensor; returns at once. callback may be NULL. request may be NULL if a callback is given;
 * otherwise it is released with halay_request_free. One submission of a tensor may be in flight (HALAY_ERR_DUPLICATE).
 * Errors: also HALAY_ERR_CLOSED, the first cause's status after a failure, HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_submit(struct halay_tensor *tensor, halay_callback callback, void *arg,
                                         struct halay_request **request);

/*
 * Submit several registered tensors of one context, in this order: as one halay_submit after the other, for less time,
 * as the engine is locked and woken once. All are accepted or, with an error, none: requests is not written then, and
 * the callback is not called. It is called once for each tensor, with the same arg. requests: count of them, NULL only
 * with a callback. count may be 0. Errors: as of halay_submit; HALAY_ERR_ARGUMENT also for tensors of several contexts,
 * HALAY_ERR_DUPLICATE also if a tensor is there twice.
 */
HALAY_API enum halay_status halay_submit_many(struct halay_tensor *const *tensors, size_t count,
                                              halay_callback callback, void *arg, struct halay_request **requests);

/*
 * Submit by name, without registering: the same, and the data pointers of info are used for this submission. A name
 * that is registered must be described as it was then (HALAY_ERR_ARGUMENT). Names that never come again may be counted
 * up without end: in each process set the ranks know the 16384 names that were used last, and those in flight. One that
 * comes again later, registered or not, is told and compared by name once more, which takes some 20 microseconds.
 *
 * With name NULL the order of calls counts: the n-th all-reduce that this rank submits without a name in a process set
 * meets the n-th of the other members, by whichever function, and so each other operation for itself. Calls that return
 * an error do not count; after a join all count from 0 again. So one thread at a time submits those of one operation in
 * one set. Their names are "unnamed allreduce 0" to "unnamed allreduce 1679", then 0 again, and the program gives no
 * others such names. At most 1680 of an operation are in flight in a set (HALAY_ERR_DUPLICATE). The ranks need not
 * compare a name again that has the same type and shape as before, that is if all calls are alike, or repeat themselves
 * after 1 to 8, 10, 12, 14, 15, 16, 20, ... of them: other programs are faster with names. A barrier without a name is
 * named "barrier". For sends and receives see struct halay_tensor_info.
 */
HALAY_API enum halay_status halay_submit_named(struct halay_context *ctx, const struct halay_tensor_info *info,
                                               halay_callback callback, void *arg, struct halay_request **request);

/* The operations by name, or with name NULL by the order of calls, for count elements in one dimension. in may equal
 * out. */
static inline enum halay_status halay_allreduce_async(struct halay_context *ctx, const char *name, const void *in,
                                                      void *out, size_t count, enum halay_dtype dtype,
                                                      enum halay_reduction reduction, struct halay_request **request);
static inline enum halay_status halay_broadcast_async(struct halay_context *ctx, const char *name, void *data,
                                                      size_t count, enum halay_dtype dtype, int root,
                                                      struct halay_request **request);

/*
 * Those that go by rows, of columns elements each. in and out do not overlap; out may be NULL (struct halay_tensor_info
 * says what happens then). out: room for out_rows rows; of a reduce-scatter it has this rank's part
 * (halay_scatter_rows). splits (size): rows for each rank, NULL: rows / size, which must come out even.
 */
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

/*
 * To and from the root. Of a reduce and a gather out is looked at on the root only; so are in, splits and rows of a
 * scatter. splits NULL: as halay_scatter_rows has it. Otherwise as above.
 */
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

/* To and from one rank, or from HALAY_ANY_RANK: count elements of in, or to out. name NULL: by tag (struct
 * halay_tensor_info). */
static inline enum halay_status halay_send_async(struct halay_context *ctx, const char *name, const void *in,
                                                 size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                 struct halay_request **request);
static inline enum halay_status halay_receive_async(struct halay_context *ctx, const char *name, void *out,
                                                    size_t count, enum halay_dtype dtype, int peer, int64_t tag,
                                                    struct halay_request **request);

/* Ends when all ranks have submitted it. name NULL: "barrier". */
static inline enum halay_status halay_barrier_async(struct halay_context *ctx, const char *name,
                                                    struct halay_request **request);

/* Whether it has ended: HALAY_IN_PROGRESS, or its final status. Never blocks. */
HALAY_API enum halay_status halay_test(struct halay_request *request);
/* Block until it ends, at most timeout_ms (negative: forever): its final status, or HALAY_ERR_TIMEOUT (still in flight,
 * unless halay_test says that its own time-out has ended it). The waiting thread drives the engine itself while nobody
 * else does. Several threads may wait for one request; it is freed when all of them have returned. */
HALAY_API enum halay_status halay_wait(struct halay_request *request, int timeout_ms);

/*
 * Block until all of these requests of one context have ended, at most timeout_ms (negative: forever): HALAY_OK, or the
 * status of the first one, in this order, that ended with an error; HALAY_ERR_TIMEOUT while some are in flight.
 * Otherwise as halay_wait; nothing is freed. NULL requests are skipped; without any other the answer is HALAY_OK.
 * HALAY_ERR_ARGUMENT: requests of several contexts.
 */
HALAY_API enum halay_status halay_wait_all(struct halay_request *const *requests, size_t count, int timeout_ms);
/*
 * Block until one of them has ended, at most timeout_ms: its status, and its place in *index; of several that have
 * ended, the first one's. A request that has ended counts each time until the program puts NULL into its place.
 * *index is count if none has ended: HALAY_ERR_TIMEOUT, or another error as of halay_wait. HALAY_ERR_ARGUMENT, with
 * *index as it was: there is none but NULL, or they are of several contexts.
 */
HALAY_API enum halay_status halay_wait_any(struct halay_request *const *requests, size_t count, int timeout_ms,
                                           size_t *index);

/*
 * Let a stream (cudaStream_t, of any device) follow a request: what it is given from now on sees the result. Blocks
 * until the result is on its way to the device, at most timeout_ms (0: looks, negative: forever), not until it is
 * there: the engine's collective must have ended, the copy need not. out may be used by that stream from then on; other
 * streams, and the host, wait for the end (halay_wait). HALAY_OK; of a request that has ended with an error its status;
 * otherwise as halay_wait. Of data that are the host's the same as halay_wait. The request itself ends when the result
 * is there, and can be freed before. Its name may be submitted again from now on, if that follows the stream.
 */
HALAY_API enum halay_status halay_wait_stream(struct halay_request *request, int timeout_ms, void *stream);

/*
 * A descriptor for the program's event loop (poll, epoll, asyncio), the same at each call: it is readable when requests
 * of this context may have ended since it was read last. Read its 8 bytes (it does not block), then halay_test the
 * requests. It is readable from the start, so that a loop that does so whenever it is readable misses nothing, and it
 * stays so until it is read (level-triggered; each end is an edge, too). It belongs to the context, which closes it in
 * halay_fini; who never calls this pays nothing for it. -1: ctx is NULL or its process's parent's, or the system has no
 * descriptor, which the log says.
 */
HALAY_API int halay_completion_fd(struct halay_context *ctx);

/*
 * Withdraw a submission. If not all ranks have made theirs, it ends on all of them with HALAY_ERR_CANCELED, its data
 * untouched, and a text that names this rank and those that were missing; all else goes on. A rank that comes later
 * gets that error for its own submission: the n-th one of a name always belongs to the n-th ones of the others, so all
 * may submit the name again. A send or receive that has met nothing ends on this rank alone (struct halay_tensor_info).
 * If it has begun, it ends as if this call had not been made. Either way it ends once, and, but for those, alike on all
 * ranks. HALAY_OK says that it was asked for (or that the request has ended): wait, or look, how it ends. Never blocks;
 * callbacks may call it. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_UNSUPPORTED (a join), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_cancel(struct halay_request *request);

/* What went wrong, "" if nothing did; valid until the request is freed. Call it after the request has ended. */
HALAY_API const char *halay_request_text(const struct halay_request *request);

/* What came out. Set struct_size to sizeof; one of another version is as in halay_counters_read. */
struct halay_result {
    size_t struct_size;
    void *data; /* out, or memory of the request's: valid until it is freed; reduce: NULL but at the root */
    size_t bytes;
    int dimensions;
    size_t shape[HALAY_DIMENSIONS_MAX];
    /* All-gather, all-to-all, scatter: rows from each rank (size), until the request is freed; gather: the same, of the
     * root's result, on all ranks; else NULL. */
    const size_t *rows;
    int last_joined;               /* join: the rank that joined last; else -1 */
    struct halay_process_set *set; /* halay_process_set_create_async: what was made, unless it is gone; else NULL */
    int peer;                      /* receive: the rank that sent; else -1 */
};

/* The result of a request that has ended: its status. *result is written if that is HALAY_OK, and if out was too small:
 * the data are in the request's memory then. HALAY_IN_PROGRESS before it has ended. */
HALAY_API enum halay_status halay_request_result(const struct halay_request *request, struct halay_result *result);

/* Release a request, ended or not (one in flight ends all the same, its callback is called). NULL is allowed. */
HALAY_API void halay_request_free(struct halay_request *request);

/*
 * Submit by name, wait and free: as halay_submit_named, then halay_wait without a time limit, for less time, because
 * the engine need not wake its thread. Blocks until the operation has ended; not in a callback (HALAY_ERR_UNSUPPORTED).
 * *result (NULL: not wanted; set struct_size): as of halay_request_result, without what is freed with the request: rows
 * is NULL, and so is data unless the result is in out. rows_from (NULL: not wanted): what its rows would be, for each
 * rank of the process set. Both are written on success and if out was too small.
 */
HALAY_API enum halay_status halay_run(struct halay_context *ctx, const struct halay_tensor_info *info,
                                      struct halay_result *result, size_t *rows_from);

/* The operations by name, blocking: halay_run of their arguments. */
static inline enum halay_status halay_allreduce(struct halay_context *ctx, const char *name, const void *in, void *out,
                                                size_t count, enum halay_dtype dtype, enum halay_reduction reduction);
static inline enum halay_status halay_broadcast(struct halay_context *ctx, const char *name, void *data, size_t count,
                                                enum halay_dtype dtype, int root);
static inline enum halay_status halay_reduce_scatter(struct halay_context *ctx, const char *name, const void *in,
                                                     void *out, size_t rows, size_t columns, enum halay_dtype dtype,
                                                     enum halay_reduction reduction);
/* rows_from (size; NULL: not wanted): rows from each rank, written on success and if out was too small. */
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
/* *got (NULL: not wanted): rows of this rank's part, written as rows_from is. */
static inline enum halay_status halay_scatter(struct halay_context *ctx, const char *name, const void *in,
                                              const size_t *splits, size_t rows, size_t columns, enum halay_dtype dtype,
                                              void *out, size_t out_rows, int root, size_t *got);
static inline enum halay_status halay_send(struct halay_context *ctx, const char *name, const void *in, size_t count,
                                           enum halay_dtype dtype, int peer, int64_t tag);
static inline enum halay_status halay_receive(struct halay_context *ctx, const char *name, void *out, size_t count,
                                              enum halay_dtype dtype, int peer, int64_t tag);
static inline enum halay_status halay_barrier(struct halay_context *ctx, const char *name);

/*
 * This rank has no more data. Until all ranks have joined it takes part in what the others submit with elements that
 * change nothing: 0 in a sum, 1 in a product, infinity or the type's limits in min and max. Averages still divide by
 * the number of all ranks, or by that of the ranks that gave data if so wanted (join_average in struct halay_options).
 * The others may run all-reduces (groups too) and barriers meanwhile; other operations end with HALAY_ERR_UNSUPPORTED
 * on every rank, if it is this rank's data that are missing. What this rank has submitted before runs as always; until
 * the join has ended it can submit nothing more (HALAY_ERR_ARGUMENT). Ends when all ranks have joined; *last_joined
 * (NULL: not wanted): who was last. Keeps the name "join" for itself.
 * HALAY_DETERMINISTIC holds: which rank joins after which of its submissions counts, not when. Errors: as halay_submit.
 */
static inline enum halay_status halay_join_async(struct halay_context *ctx, struct halay_request **request);
static inline enum halay_status halay_join(struct halay_context *ctx, int *last_joined);

/* ---- counters --------------------------------------------------------------------------------------------------- */

enum { HALAY_COUNTERS_STATUSES = 32 };

/* What this rank's engine has done since halay_init. Zero-initialise and set struct_size to sizeof. */
struct halay_counters {
    size_t struct_size;
    uint64_t submissions;                               /* that were accepted */
    uint64_t completions;                               /* that ended with HALAY_OK */
    uint64_t errors;                                    /* that ended otherwise */
    uint64_t errors_by_status[HALAY_COUNTERS_STATUSES]; /* [enum halay_status] */
    uint64_t in_flight;                                 /* submitted and not ended */
    uint64_t negotiations;     /* submissions told by name: the tensor was new to the ranks, or not as it was before */
    uint64_t cache_hits;       /* submissions told by the number that the ranks had agreed on */
    uint64_t collectives;      /* buckets started, of one tensor or of several */
    uint64_t fused_tensors;    /* tensors that shared their bucket with others */
    uint64_t bytes;            /* of all tensors in these buckets, and of sends and receives; this rank's side */
    uint64_t communication_ns; /* time during which at least one collective was under way */
    uint64_t messages_sent;    /* control messages, data apart */
    uint64_t messages_received;
    uint64_t steps;  /* times that a thread looked whether there is anything to do */
    uint64_t sleeps; /* times that it found nothing and went to sleep */
};

/*
 * Read the counters. Never blocks, may be called at any time, also while the engine works: each value is exact, the
 * values among each other are of slightly different moments. counters->struct_size says how much is filled in, so that
 * a program built against a later version finds zeros in what this one does not have. HALAY_ERR_ARGUMENT: struct_size
 * is too small, or no size of a struct.
 */
HALAY_API enum halay_status halay_counters_read(struct halay_context *ctx, struct halay_counters *counters);

#ifdef __cplusplus
}
#endif

#include "halay_inline.h"

#endif
