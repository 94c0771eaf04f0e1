/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: shared by all public headers: statuses, element types, reductions, the options of a start.
 *
 * Errors. A function that can fail returns enum halay_status: zero is success, HALAY_IN_PROGRESS means "not yet" and is
 * not an error, everything else is an error. Results that are returned through arguments are written only on success.
 * The function that finds the cause of an error writes one line to the log (standard error unless the options set
 * another log); its callers pass the status on. Nothing here prints to standard output, exits or aborts.
 *
 * Structs with struct_size. A program sets struct_size to sizeof, so that it keeps working with later versions of the
 * library, where the struct has more members: members that the program lacks count as zero. A struct that is longer
 * than this version's is accepted if the rest is zero. Otherwise, and if it is shorter than the first version's, the
 * result is HALAY_ERR_ARGUMENT.
 *
 * Threads. The functions in this header may be called from any thread at any time.
 */
#ifndef HALAY_TYPES_H
#define HALAY_TYPES_H

#include <stddef.h>

#if defined(__GNUC__)
#define HALAY_API __attribute__((visibility("default")))
#else
#define HALAY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Results of functions. The numbers are part of the ABI. */
enum halay_status {
    HALAY_OK = 0,
    HALAY_IN_PROGRESS = 1,     /* not complete yet; call again */
    HALAY_ERR_ARGUMENT = 2,    /* an argument is out of range or contradicts another */
    HALAY_ERR_NO_MEMORY = 3,   /* out of memory or of room */
    HALAY_ERR_SYSTEM = 4,      /* a system call or a library failed; the log has the system's text */
    HALAY_ERR_UNSUPPORTED = 5, /* not built in, or not possible with these types, transports or hosts */
    HALAY_ERR_CONFIG = 6,      /* an environment variable or an option does not parse */
    HALAY_ERR_MISMATCH = 7,    /* ranks disagree about a tensor or collective; no data were touched, work continues */
    HALAY_ERR_DUPLICATE = 8,   /* a tensor of that name is in flight already */
    HALAY_ERR_PEER = 9,        /* a peer is dead, has left or does not answer; the group is closed */
    HALAY_ERR_TIMEOUT = 10,    /* the time limit has expired */
    HALAY_ERR_CLOSED = 11,     /* called after the end, or after a failure with another status */
    HALAY_ERR_CANCELED = 12,   /* canceled by the program */
    HALAY_ERR_AUTH = 13,       /* the other side does not hold the job's secret */
    HALAY_ERR_VERSION = 14,    /* the other side speaks another version of the protocol */
    HALAY_ERR_FORMAT = 15,     /* a file or a message is malformed or truncated */
};

/* Returns a short text for a status in lower case, never NULL; static storage. "unknown status" for an unknown
 * value. */
HALAY_API const char *halay_status_string(enum halay_status status);

/* The longest text of an error in bytes, including its terminating zero. */
enum { HALAY_ERROR_TEXT_MAX = 1024 };

/* An error as fields, so that no program has to parse its text. Members are added at the end. */
struct halay_error {
    enum halay_status status; /* returned by the call */
    const char *subject;      /* the name of the table or file that the error is in; "" if unknown */
    size_t row;               /* of the subject, from 1, a file's header included; 0 if unknown */
    const char *column;       /* "" if unknown */
    int rank;                 /* the failed rank; -1 if several or unknown */
    const char *text;         /* the same as halay_error_text */
};

/* Returns, as fields, the error whose text halay_error_text returns. Never NULL; in the library's memory, valid as long
 * as that text. In a log function (struct halay_options), for a line at level error, it is that line's error, with
 * status HALAY_OK because no call has returned it yet. */
HALAY_API const struct halay_error *halay_last_error(void);

/*
 * Returns the text of the last error that a call of halay returned on this thread: which tensor, which ranks, which
 * values. Never NULL, "" if no call has failed; at most HALAY_ERROR_TEXT_MAX bytes in the library's memory, valid until
 * another call on this thread fails. A successful call leaves it unchanged, and so do calls that return no status. For
 * a request that ended with an error it is halay_request_text, for a context or group that has failed the first cause.
 * For a refused argument it is the text of the line that is logged at level error.
 */
static inline const char *halay_error_text(void)
{
    return halay_last_error()->text;
}

/* Element types. The numbers are part of the ABI and of the wire format. */
enum halay_dtype {
    HALAY_F32 = 0,
    HALAY_F64 = 1,
    HALAY_F16 = 2,  /* IEEE 754 binary16 */
    HALAY_BF16 = 3, /* the upper half of a binary32 */
    HALAY_I32 = 4,
    HALAY_I64 = 5,
    HALAY_U8 = 6,
    HALAY_I8 = 7,
    HALAY_U16 = 8,
    HALAY_I16 = 9,
    HALAY_BOOL = 10, /* one byte, 0 or 1; a reduction takes any other value for 1 */
    HALAY_DTYPE_COUNT
};

/* Returns the bytes of one element, 0 for an unknown type. */
static inline size_t halay_dtype_size(enum halay_dtype dtype)
{
    static const unsigned char sizes[HALAY_DTYPE_COUNT] = { 4, 8, 2, 2, 4, 8, 1, 1, 2, 2, 1 };

    return (unsigned)dtype < HALAY_DTYPE_COUNT ? sizes[dtype] : 0;
}

/*
 * Reductions.
 *
 *                              f16 bf16 f32 f64   u8 i8 u16 i16 i32 i64   bool
 *   sum, product, min, max            yes                  yes             yes
 *   average                           yes                  no              no   (no: HALAY_ERR_UNSUPPORTED)
 *   bit-and, bit-or                   no                   yes             yes
 *   adasum                            yes                  no              no
 *
 * average is the sum divided by the number of ranks. Sums and products of integers wrap around, signed ones too. For
 * bool, sum, max and bit-or are "or"; product, min and bit-and are "and"; the result is 0 or 1. f16 and bf16 are
 * combined in f32; the algorithms marked "wide" in docs/reference/algorithms.md round once, a ring rounds at each hop.
 * Rounding is to nearest even; subnormal numbers are kept; overflow gives infinity. min and max: a NaN in any rank's
 * element gives a NaN; of -0 and +0 min takes -0 and max takes +0. A NaN that results from a reduction is the type's
 * positive quiet one without payload. adasum combines the ranks' vectors in pairs: common components are averaged, the
 * others added (halay_group_allreduce_adasum in halay_coll.h); for all-reduce only. Every rank gets the same bits. A
 * single rank gets its own bytes back unchanged, as in a broadcast.
 */
enum halay_reduction {
    HALAY_SUM = 0,
    HALAY_AVERAGE = 1,
    HALAY_MIN = 2,
    HALAY_MAX = 3,
    HALAY_PRODUCT = 4,
    HALAY_BIT_AND = 5,
    HALAY_BIT_OR = 6,
    HALAY_ADASUM = 7,
    HALAY_REDUCTION_COUNT
};

/* The MPI that a communicator belongs to; halay_mpi.h sets it. */
enum halay_mpi_abi {
    HALAY_MPI_OPEN = 1,  /* Open MPI and its relatives: MPI_Comm is a pointer */
    HALAY_MPI_MPICH = 2, /* MPICH, Intel MPI, MVAPICH, Cray MPICH: MPI_Comm is an int */
};

/*
 * Bootstrap over a key-value store of the program: PyTorch's, PMI, etcd, a shared folder. Zero-initialise, set
 * struct_size to sizeof, then the rest; every rank gives its own rank and the same size.
 *
 * The callbacks are called during the start only, by the thread that runs it. They return HALAY_OK, or an error, which
 * ends this rank's start with that status; the other ranks' starts end too: at once if they are notified, otherwise
 * after HALAY_START_TIMEOUT. Each rank puts about ten values and gets about ten of each other rank, most of them below
 * 1 KiB.
 *
 * Keys are text without blanks, at most 192 bytes, that begins with prefix; no key is put twice, and none has to be
 * removed. The n-th start of each rank under one prefix matches the n-th of the others, because its keys differ. So
 * contexts may follow each other under one prefix. Starts at the same time on several threads each need their own
 * prefix, and so does a start after one that not all ranks had begun, and a store that outlives the job.
 *
 * A process that can read the store can join the job, and one that can write it can disturb the job: the job's secret
 * is among the values.
 */
struct halay_rendezvous {
    size_t struct_size;
    int rank, size;
    void *arg; /* passed to the callbacks; borrowed during the start */
    /* Sets key to these bytes. Other ranks see all of them or no key. */
    enum halay_status (*put)(void *arg, const char *key, const void *value, size_t bytes);
    /* Waits until the key exists, at most timeout_ms (0: do not wait; never negative), and copies its value, which has
     * exactly that number of bytes. Returns HALAY_ERR_TIMEOUT if it does not exist yet. That is not a failure: the
     * start calls again, with times as short as 5 ms. */
    enum halay_status (*get)(void *arg, const char *key, void *value, size_t bytes, int timeout_ms);
    const char *prefix; /* 1 to 128 bytes, the same on all ranks; NULL: "halay". Copied. */
};

/* The id of a start: bytes to be sent unchanged. Its layout is final. */
struct halay_unique_id {
    unsigned char bytes[256];
};

/* Levels of log lines, most severe first. HALAY_LOG=error|warning|info|debug selects which are written. */
enum halay_log_level { HALAY_LOG_ERROR, HALAY_LOG_WARNING, HALAY_LOG_INFO, HALAY_LOG_DEBUG };

/* A list of ranks of the job, in any order. Its layout is final: an array of them needs no struct_size. */
struct halay_rank_list {
    const int *ranks;
    size_t count;
};

/* Options for starting a context (halay_init) or a group (halay_group_open). Zero-initialise, set struct_size to
 * sizeof, then what differs from the default. */
struct halay_options {
    size_t struct_size;
    const char *bootstrap; /* "auto" (NULL), "self", "store", "mpi", "srun"; NULL: the value of HALAY_BOOTSTRAP */
    const char *transport; /* "auto", "shm", ...: see HALAY_TRANSPORT, whose value NULL selects */
    /* Receives log lines (without newline); NULL: standard error. Called from any thread, with no lock held
     * (halay_group_abort has an exception). */
    void (*log)(void *arg, enum halay_log_level level, const char *line);
    void *log_arg; /* borrowed until halay_fini, or until all groups of that start are closed */
    /* Contexts only: process sets that halay_init creates, the same on all ranks, with the numbers 1, 2, ...
     * (halay_process_set_find). Those of HALAY_PROCESS_SETS follow. Copied. HALAY_ERR_ARGUMENT: a count above 0 with
     * NULL, or more than 7999 sets and ranks together. */
    const struct halay_rank_list *process_sets;
    size_t process_set_count;
    /* Contexts only: the divisor of averages while ranks have joined (halay_join): "all" ranks, or those "present",
     * which contribute data. NULL: HALAY_JOIN_AVERAGE. Rank 0's value is used. */
    const char *join_average;
    /* Bootstrap over the program's own key-value store, however this process was started; NULL: do not. bootstrap must
     * then be "auto" or NULL (HALAY_ERR_CONFIG). Not in an elastic job (HALAY_ERR_UNSUPPORTED). */
    const struct halay_rendezvous *rendezvous;
    /* Settings of this context or group alone, such as "HALAY_SPIN_US=0", terminated by NULL: those of
     * halay-environment(7), each of which overrides the environment. NULL: none. A name that is unknown, or that
     * halayrun sets for its ranks, gives HALAY_ERR_CONFIG. */
    const char *const *settings;
    /* Bootstrap with an id that one process created (halay_unique_id_create) and all ranks received, each with its own
     * rank and the number of ranks; otherwise as with a rendezvous, which must be NULL. NULL: do not. */
    const struct halay_unique_id *unique_id;
    int rank, size; /* with unique_id */
    /* Nonzero: the program shows the texts of errors itself (halay_error_text, halay_request_text), as a binding that
     * raises exceptions does. After the start the errors of calls and requests are logged at level info; errors that
     * end the job are logged as usual. */
    int reports_errors;
    /* Nonzero: calls accept data on CUDA devices from the start on. Otherwise a context does once it has used a device,
     * and a group does not. The start loads libhalay-cuda.so, and ends on all ranks with HALAY_ERR_UNSUPPORTED if one
     * rank has no such file or no usable device. halay.h and halay_coll.h have the rules. */
    int uses_devices;
    /* Groups, including those of a context (halay_group_of): returns the stream (cudaStream_t) that a call's data on
     * this device follow. Called by each call with such data, on its thread; it must not call halay. NULL, as the
     * function or its result: the device's default stream. */
    void *(*stream)(void *arg, int device);
    void *stream_arg; /* borrowed as log_arg is */
};

/*
 * Creates the id of a start in any one process of the job; the program sends its bytes to the others by any means. This
 * process listens (HALAY_NETWORK_INTERFACE, HALAY_PORTS) and serves that start on a thread of the library, so it must
 * not end before halay_init or halay_group_open has returned on all ranks. The thread and the port are released
 * HALAY_START_TIMEOUT after the last rank has finished its start; an unused id keeps them until the process ends. An id
 * is valid for one start. A process that has the id can join the job: it contains the job's secret. Does not block.
 * Errors: HALAY_ERR_CONFIG (a setting is wrong, no port is free), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_ARGUMENT (id is NULL).
 */
HALAY_API enum halay_status halay_unique_id_create(struct halay_unique_id *id);

/* The version of these headers. HALAY_VERSION_NUMBER grows with each: 20100 is 2.1.0. */
#define HALAY_VERSION_MAJOR 0
#define HALAY_VERSION_MINOR 1
#define HALAY_VERSION_PATCH 0
#define HALAY_VERSION_NUMBER (HALAY_VERSION_MAJOR * 10000 + HALAY_VERSION_MINOR * 100 + HALAY_VERSION_PATCH)

/* Returns the version of the running library, three numbers with dots; static storage. */
HALAY_API const char *halay_version(void);

#ifdef __cplusplus
}
#endif
#endif
