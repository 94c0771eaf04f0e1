/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: calls for tools such as benchmarks, monitors and debuggers, which a program that trains does not need.
 *
 * Contract. These calls are kept while they are useful, but without a promise: each release may change or remove what
 * this header declares, and lists that in CHANGELOG.md. So their symbols have a version of their own, HALAY_TOOLS_ and
 * the release's number, and a program that uses them does not start with another release. The declarations of the other
 * headers stay as long as the library's soname.
 *
 * Errors. See halay_types.h. Threads: as in halay.h, or for a group as in halay_coll.h. The names of types and
 * reductions are pure functions of this header, which any thread may call.
 */
#ifndef HALAY_TOOLS_H
#define HALAY_TOOLS_H

#include "halay_types.h"
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct halay_context;
struct halay_group;

/* ---- names of types and reductions ------------------------------------------------------------------------------ */

/* Returns the name of a type: "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "u16", "i16", "bool"; "?" for an
 * unknown type. Static storage. */
static inline const char *halay_dtype_name(enum halay_dtype dtype)
{
    static const char *const names[HALAY_DTYPE_COUNT] = { "f32", "f64", "f16", "bf16", "i32", "i64",
                                                          "u8",  "i8",  "u16", "i16",  "bool" };

    return (unsigned)dtype < HALAY_DTYPE_COUNT ? names[dtype] : "?";
}

/* Finds the type of that name; HALAY_ERR_ARGUMENT for an unknown name. */
static inline enum halay_status halay_dtype_parse(const char *name, enum halay_dtype *dtype)
{
    for (int i = 0; i < HALAY_DTYPE_COUNT; i++)
        if (!strcmp(name, halay_dtype_name((enum halay_dtype)i))) {
            *dtype = (enum halay_dtype)i;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

/* Returns the name of a reduction: "sum", "average", "min", "max", "product", "bit-and", "bit-or", "adasum"; "?" for an
 * unknown reduction. Static storage. */
static inline const char *halay_reduction_name(enum halay_reduction reduction)
{
    static const char *const names[HALAY_REDUCTION_COUNT] = { "sum",     "average", "min",    "max",
                                                              "product", "bit-and", "bit-or", "adasum" };

    return (unsigned)reduction < HALAY_REDUCTION_COUNT ? names[reduction] : "?";
}

/* Finds the reduction of that name; HALAY_ERR_ARGUMENT for an unknown name. */
static inline enum halay_status halay_reduction_parse(const char *name, enum halay_reduction *reduction)
{
    for (int i = 0; i < HALAY_REDUCTION_COUNT; i++)
        if (!strcmp(name, halay_reduction_name((enum halay_reduction)i))) {
            *reduction = (enum halay_reduction)i;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

/* Returns nonzero if the reduction supports that type (the table at enum halay_reduction). */
static inline int halay_reduction_takes(enum halay_reduction reduction, enum halay_dtype dtype)
{
    int is_floating = dtype == HALAY_F32 || dtype == HALAY_F64 || dtype == HALAY_F16 || dtype == HALAY_BF16;

    if ((unsigned)reduction >= HALAY_REDUCTION_COUNT || (unsigned)dtype >= HALAY_DTYPE_COUNT)
        return 0;
    if (reduction == HALAY_AVERAGE || reduction == HALAY_ADASUM)
        return is_floating;
    return reduction == HALAY_BIT_AND || reduction == HALAY_BIT_OR ? !is_floating : 1;
}

/* ---- algorithms of a group -------------------------------------------------------------------------------------- */

/*
 * Selects an algorithm by its name in docs/reference/algorithms.md, for one operation ("allreduce", "adasum", "reduce",
 * "reduce-scatter", "broadcast", "allgather", "alltoall", "barrier"); "auto" returns to the choice by table. All ranks
 * must make the same call. Errors: HALAY_ERR_ARGUMENT (unknown operation or algorithm; the log lists the known ones),
 * HALAY_ERR_UNSUPPORTED (not with this group's transport).
 */
HALAY_API enum halay_status halay_group_set_algorithm(struct halay_group *group, const char *operation,
                                                      const char *algorithm);

/* Returns the name of an algorithm that this group may use for an operation, by index from 0 on (static storage); NULL
 * after the last one or for an unknown operation. *is_tree (may be NULL): nonzero if HALAY_DETERMINISTIC=ranks allows
 * it. */
HALAY_API const char *halay_group_algorithm(const struct halay_group *group, const char *operation, size_t index,
                                            int *is_tree);

/* The sizes of a group that halay_group_set_bytes sets. */
enum halay_group_bytes { HALAY_BYTES_CHUNK = 0, HALAY_BYTES_SLOT = 1 };

/*
 * Sets the size in bytes of one chunk (sent while another chunk is reduced) or of one slot (shared memory through which
 * private data pass), for this group and all with the same origin. All ranks must make the same call, with no
 * collective in flight. A chunk has at least one byte; it replaces HALAY_RING_SEGMENT's or the tuning table's. A slot
 * has a whole number of pages, at least one and at most the room there is; 0 restores HALAY_SLOT's or the table's.
 * Errors: HALAY_ERR_ARGUMENT.
 */
HALAY_API enum halay_status halay_group_set_bytes(struct halay_group *group, enum halay_group_bytes which,
                                                  size_t bytes);

/* Sets the size of one chunk in bytes, by halay_group_set_bytes. */
static inline enum halay_status halay_group_set_segment(struct halay_group *group, size_t bytes)
{
    return halay_group_set_bytes(group, HALAY_BYTES_CHUNK, bytes);
}

/* Sets the size of one slot in bytes, by halay_group_set_bytes. */
static inline enum halay_status halay_group_set_slot(struct halay_group *group, size_t bytes)
{
    return halay_group_set_bytes(group, HALAY_BYTES_SLOT, bytes);
}

/*
 * Explains the choice of an algorithm for that operation and number of elements, as one line of text: for the program's
 * own buffers (shared: 0), for buffers from halay_group_alloc (1), or for the engine's operations on devices of all
 * ranks that access each other's memory (2, see HALAY_MEMORY_DEVICES; "direct": the only algorithm). count: of the
 * longer of in and out (all-gather: of out, reduce-scatter: of in, all-to-all: of either). Returns the algorithm's
 * name; static storage.
 */
enum { HALAY_EXPLAIN_DEVICES = 2 };
HALAY_API const char *halay_group_explain(struct halay_group *group, const char *operation, size_t count,
                                          enum halay_dtype dtype, int shared, char *text, size_t size);

/* ---- counters as text ------------------------------------------------------------------------------------------- */

/*
 * Writes the counters (halay_counters_read) in Prometheus' text format (version 0.0.4), each sample with the label
 * rank, to be served or written to a file for the node exporter. text receives at most size bytes with the terminating
 * zero; *length (may be NULL) is the length of the whole text without it. text may be NULL with size 0. Never blocks.
 * Errors: HALAY_ERR_ARGUMENT (size is too small; text holds the beginning).
 */
HALAY_API enum halay_status halay_counters_write(struct halay_context *ctx, char *text, size_t size, size_t *length);

/*
 * Publishes a number of the program, for example the loss of a step, with the counters: halay_counters_write has it as
 * halay_program_value{name="..."}, and `halayrun --metrics` for all ranks. name: copied; 1 to 47 letters, digits, '_',
 * '.' and '-', at most 32 different ones. Later values replace earlier ones. Any thread; never blocks for long. Errors:
 * HALAY_ERR_ARGUMENT.
 */
HALAY_API enum halay_status halay_gauge_set(struct halay_context *ctx, const char *name, double value);

/* How often a rank was the last one to submit a tensor, and by what time. Set struct_size to sizeof. */
struct halay_straggler {
    size_t struct_size;
    uint64_t tensors;    /* submitted by all ranks */
    uint64_t times_last; /* of these, submitted last by this rank; simultaneous submissions do not count */
    /* The sum of the delays after the second-last rank. Each of several tensors in flight at once counts: divided by
     * times_last it is the average. */
    uint64_t late_ns;
    uint64_t latest_ns; /* the longest delay */
};

/*
 * Reads the straggler statistics of one rank. Only rank 0 receives the others' submissions: HALAY_ERR_UNSUPPORTED on
 * the others. There halay_counters_write includes them, too, and halay_fini logs them at level info. Only delays that
 * are seen by separate passes of rank 0's engine count: a few microseconds mean nothing. Replayed steps (HALAY_REPLAY)
 * do not count, because rank 0 does not see them. Never blocks. Errors: also HALAY_ERR_ARGUMENT (no such rank, or
 * struct_size is too small; a larger one is handled as in halay_counters_read).
 */
HALAY_API enum halay_status halay_stragglers_read(struct halay_context *ctx, int rank,
                                                  struct halay_straggler *straggler);

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

/*
 * The signal at which a program shows where it is (<signal.h> has SIGRTMAX). If it has a handler, which the Python
 * package installs, the engine raises the signal in its own thread when rank 0 reports that the others wait for this
 * rank, and halayrun sends it on request. Without a handler it is not sent.
 */
#define HALAY_STACKS_SIGNAL (SIGRTMAX - 2)

/* ---- timeline --------------------------------------------------------------------------------------------------- */

/*
 * Starts or ends a recording of this rank's engine, for chrome://tracing and ui.perfetto.dev: submissions, collectives,
 * waits of the program, sleeps of the engine. path NULL, or halay_fini, ends it and writes the file, which appears when
 * it is complete; that call blocks for as long as writing takes, while the engine continues. Bounded: the newest
 * records are kept, in HALAY_TIMELINE_BYTES of memory. Local; `halay-perf timeline-merge` merges the files of several
 * ranks. In path "%r" is replaced by the rank; without "%r" the rank is inserted before the extension. HALAY_TIMELINE
 * starts a recording in halay_init. Errors: HALAY_ERR_DUPLICATE (a recording is on), HALAY_ERR_ARGUMENT (no recording
 * to end), HALAY_ERR_SYSTEM (the file cannot be written; the recording is lost), HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_timeline_set(struct halay_context *ctx, const char *path);

/* Starts a recording, by halay_timeline_set; path must not be NULL. */
static inline enum halay_status halay_timeline_start(struct halay_context *ctx, const char *path)
{
    return halay_timeline_set(ctx, path ? path : "");
}

/* Ends the recording and writes the file, by halay_timeline_set. */
static inline enum halay_status halay_timeline_stop(struct halay_context *ctx)
{
    return halay_timeline_set(ctx, NULL);
}

#ifdef __cplusplus
}
#endif
#endif
