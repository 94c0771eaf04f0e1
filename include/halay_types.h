/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: what all its public headers share: statuses, element types, reductions, the options of a start.
 *
 * Errors. A function that can fail returns enum halay_status: zero is success, HALAY_IN_PROGRESS is "not yet" and not
 * an error, everything else is an error. Results that come through arguments are written only on success. The
 * function that finds the cause of an error writes one line to the log (standard error unless the options say
 * otherwise); its callers pass the status on. Nothing here prints to standard output, exits or aborts.
 *
 * Structs with struct_size. A program sets struct_size to sizeof, so that it keeps working with later versions of the
 * library, where the struct has more members: those that the program lacks count as zero. A struct that is longer than
 * this version knows is accepted if the rest is zeros. Otherwise, and if it is shorter than it ever was, the result is
 * HALAY_ERR_ARGUMENT.
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

/* What functions return. The numbers are part of the ABI. */
enum halay_status {
    HALAY_OK = 0,
    HALAY_IN_PROGRESS = 1,     /* not complete yet; ask again */
    HALAY_ERR_ARGUMENT = 2,    /* an argument is out of range or contradicts another */
    HALAY_ERR_NO_MEMORY = 3,   /* memory or room is not to be had */
    HALAY_ERR_SYSTEM = 4,      /* a system call or a library failed; the log has its text */
    HALAY_ERR_UNSUPPORTED = 5, /* not built in, or not possible with these types, transports or hosts */
    HALAY_ERR_CONFIG = 6,      /* an environment variable or an option does not parse */
    HALAY_ERR_MISMATCH = 7, /* ranks disagree about a tensor or a collective; nobody's data were touched, all goes on */
    HALAY_ERR_DUPLICATE = 8, /* a tensor of that name is in flight already */
    HALAY_ERR_PEER = 9,      /* a peer is dead, has left or does not answer; the group is closed */
    HALAY_ERR_TIMEOUT = 10,  /* the time that was given is over */
    HALAY_ERR_CLOSED = 11,   /* called after the end, or after a failure whose status this is not */
    HALAY_ERR_CANCELED = 12, /* the program gave it up */
    HALAY_ERR_AUTH = 13,     /* the other side does not hold the job's secret */
    HALAY_ERR_VERSION = 14,  /* the other side speaks another version of the protocol */
    HALAY_ERR_FORMAT = 15,   /* a file or a message is malformed or truncated */
};

/* What a status means: a short text in lower case, never NULL; static storage. An unknown value gives "unknown
 * status". */
HALAY_API const char *halay_status_string(enum halay_status status);

/* The longest text of an error, with its ending zero. */
enum { HALAY_ERROR_TEXT_MAX = 1024 };

/* An error as fields, so that no program has to read its text. Members are added at the end. */
struct halay_error {
    enum halay_status status; /* that the call returned */
    const char *subject;      /* the name of the table or file that the error is in; "": none */
    size_t row;               /* of the subject, from 1, a file's header included; 0: none */
    const char *column;       /* "": none */
    int rank;                 /* whose failure it is; -1: no single rank's, or not known */
    const char *text;         /* the same as halay_error_text */
};

/*
 * The error whose text halay_error_text returns, as fields. Never NULL, in the library's memory, valid as long as that
 * text. In a log function (struct halay_options), for a line at level error: that line's error, whose status is
 * HALAY_OK because no call has returned it yet.
 */
HALAY_API const struct halay_error *halay_last_error(void);

/*
 * The text of the last error that a call of halay returned on this thread: which tensor, which ranks, which values.
 * Never NULL, "" if no call has failed; of at most HALAY_ERROR_TEXT_MAX bytes, in the library's memory, valid until
 * another call on this thread fails. A call that succeeds leaves it as it is, and so do calls that return no status.
 * Of a request that has ended with an error it is halay_request_text, of a context or a group that has failed the first
 * cause. An argument that is refused, also in the log at level error, has the text of its line.
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

/* Bytes of one element; 0 for a value that is no type. */
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
 * bool sum, max and bit-or are "or", product, min and bit-and are "and"; the result is 0 or 1. f16 and bf16 are
 * combined in f32; the algorithms marked "wide" in docs/reference/algorithms.md round once, a ring rounds at each hop.
 * Rounding is to nearest even; subnormal numbers are kept; what is too large becomes infinity. min and max: a NaN in
 * any rank's element gives a NaN; of -0 and +0 min takes -0 and max takes +0. A NaN that comes out of a reduction is
 * the type's positive quiet one without payload. adasum joins the ranks' vectors pair by pair: what they have in common
 * is averaged, the rest is added (halay_group_allreduce_adasum in halay_coll.h); for all-reduce only. Every
 * rank gets the same bits. A rank that is alone gets its own bytes back as they are, as in a broadcast.
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
    HALAY_MPI_OPEN = 1,  /* Open MPI and its kin: MPI_Comm is a pointer */
    HALAY_MPI_MPICH = 2, /* MPICH, Intel MPI, MVAPICH, Cray MPICH: MPI_Comm is an int */
};

/*
 * How the ranks of a job meet over a key-value store of the program's own: PyTorch's, PMI, etcd, a folder that all see.
 * Zero-initialise, set struct_size to sizeof, then the rest; every rank gives its own rank and the same size.
 *
 * The callbacks are called by the one thread that starts, while it does, and never later. They return HALAY_OK, or an
 * error, which ends this rank's start with that status; the others' ends too, at once if they are told, after
 * HALAY_START_TIMEOUT if they aren't. Each rank puts about ten values and gets as many of each other rank, most of them
 * below 1 KiB.
 *
 * Keys are text without blanks of at most 192 bytes that begin with prefix; no key is put twice, and none has to be
 * removed. The n-th start of each rank under one prefix meets the n-th of the others, as its keys are other ones. So
 * contexts may follow each other under one prefix, but those that are started at the same time by several threads, and
 * a start after one that not all ranks had begun, need a prefix of their own. A store that outlives the job does, too.
 *
 * Who can read the store can join the job, and who can write it can disturb it: among the values is the job's secret.
 */
struct halay_rendezvous {
    size_t struct_size;
    int rank, size;
    void *arg; /* the callbacks get it; borrowed while the start lasts */
    /* Set key to these bytes. Other ranks see all of them or no key. */
    enum halay_status (*put)(void *arg, const char *key, const void *value, size_t bytes);
    /* Wait until the key is there, at most timeout_ms (0: look once; never negative), and copy its value, which has
     * exactly that many bytes. HALAY_ERR_TIMEOUT: it is not there yet. That is no failure: the start asks again, with
     * times as short as 5 ms. */
    enum halay_status (*get)(void *arg, const char *key, void *value, size_t bytes, int timeout_ms);
    const char *prefix; /* 1 to 128 bytes, the same on all ranks; NULL: "halay". Copied. */
};

/* The id of a start: bytes to be sent as they are. Its form is final. */
struct halay_unique_id {
    unsigned char bytes[256];
};

/* Levels of log lines, most severe first. HALAY_LOG=error|warning|info|debug says which are written. */
enum halay_log_level { HALAY_LOG_ERROR, HALAY_LOG_WARNING, HALAY_LOG_INFO, HALAY_LOG_DEBUG };

/* Some ranks of the job, in any order. Its form is final: an array of them needs no size. */
struct halay_rank_list {
    const int *ranks;
    size_t count;
};

/* How to start a context (halay_init) or a group (halay_group_open). Zero-initialise, set struct_size to sizeof, then
 * what differs from the default. */
struct halay_options {
    size_t struct_size;
    const char *bootstrap; /* "auto" (NULL), "self", "store", "mpi"; NULL: HALAY_BOOTSTRAP */
    const char *transport; /* "auto", "shm", ...: see HALAY_TRANSPORT, which NULL stands for */
    /* Where log lines (without newline) go; NULL: standard error. Called from any thread, with no lock held. */
    void (*log)(void *arg, enum halay_log_level level, const char *line);
    void *log_arg; /* borrowed until halay_fini, or until all groups of that start are closed */
    /* A context's: process sets to be made by halay_init, the same on all ranks: they get the numbers 1, 2, ...
     * (halay_process_set_find). Those that HALAY_PROCESS_SETS asks for follow. Copied. HALAY_ERR_ARGUMENT: a count
     * above 0 with NULL, or more than 7999 sets and ranks together. */
    const struct halay_rank_list *process_sets;
    size_t process_set_count;
    /* A context's: what averages divide by while ranks have joined (halay_join): "all" ranks, or those "present", which
     * gave data. NULL: HALAY_JOIN_AVERAGE. Rank 0's counts. */
    const char *join_average;
    /* Meet the other ranks over the program's own key-value store, whatever started this process; NULL:
     * don't. bootstrap is "auto" or NULL then (HALAY_ERR_CONFIG). Not in an elastic job (HALAY_ERR_UNSUPPORTED). */
    const struct halay_rendezvous *rendezvous;
    /* Settings of this context or group alone, "HALAY_SPIN_US=0", NULL at the end: what halay-environment(7) lists,
     * each before the environment. NULL: none. A name that is unknown, or that halayrun sets for its ranks, is
     * HALAY_ERR_CONFIG. */
    const char *const *settings;
    /* Start with an id that one process has made (halay_unique_id_create) and all were given, each with its own rank,
     * and the number of ranks; otherwise as with a rendezvous, which is NULL then. NULL: don't. */
    const struct halay_unique_id *unique_id;
    int rank, size; /* with unique_id */
    /* Nonzero: the program shows the texts of errors itself (halay_error_text, halay_request_text), as a binding does
     * that raises exceptions. Once started, what calls return and requests end with is in the log at level info; what
     * ends the job is there as always. */
    int reports_errors;
    /* Nonzero: calls take data on CUDA devices from the start on. A context otherwise does once it has used one, and a
     * group does not. The start loads libhalay-cuda.so, and ends on all ranks with HALAY_ERR_UNSUPPORTED where one has
     * no such file or no device that can be used. halay.h and halay_coll.h have the rules. */
    int uses_devices;
    /* A group's, and those of a context's groups (halay_group_of): the stream (cudaStream_t) that the data of a call on
     * this device follow. Called by each call that has any, on its thread; it must not call halay. NULL: the device's
     * default stream, which NULL as a stream stands for, too. */
    void *(*stream)(void *arg, int device);
    void *stream_arg; /* borrowed as log_arg is */
};

/*
 * Make the id of a start, in any one process of the job; the program sends its bytes to the others, by any means. This
 * process listens (HALAY_NETWORK_INTERFACE, HALAY_PORTS) and serves that start on a thread of the library's, so it must
 * not end before halay_init or halay_group_open has returned on all ranks. The thread and the port are given up
 * HALAY_START_TIMEOUT after the last rank has finished its start; an id that nobody uses keeps them until the process
 * ends. An id is good for one start. Who has it can join the job: it holds the job's secret. Does not block.
 * Errors: HALAY_ERR_CONFIG (a setting is wrong, no port is free), HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY,
 * HALAY_ERR_ARGUMENT (id is NULL).
 */
HALAY_API enum halay_status halay_unique_id_create(struct halay_unique_id *id);

/* The version of these headers. HALAY_VERSION_NUMBER grows with each: 20100 is 2.1.0. */
#define HALAY_VERSION_MAJOR 0
#define HALAY_VERSION_MINOR 1
#define HALAY_VERSION_PATCH 0
#define HALAY_VERSION_NUMBER (HALAY_VERSION_MAJOR * 10000 + HALAY_VERSION_MINOR * 100 + HALAY_VERSION_PATCH)

/* The version of the library that runs, three numbers with dots; static storage. */
HALAY_API const char *halay_version(void);

#ifdef __cplusplus
}
#endif
#endif
