/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: calls for tools: what a benchmark, a monitor or a debugger asks for and a program that trains does not need.
 *
 * Contract. These calls are useful and kept as long as they are, but they are not promised to stay: each release may
 * change or remove what this header declares, and says so in CHANGELOG.md. So their symbols have a version of their
 * own, HALAY_TOOLS_ and the release's number, and a program that uses them and is run with another release does not
 * start. What the other headers declare stays as long as the library's soname.
 *
 * Errors. See halay_types.h. Threads: as in halay.h, or where a group is given in halay_coll.h. The names of types and
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

/* The name of a type: "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "u16", "i16", "bool"; "?" for a value that
 * is no type. Static storage. */
static inline const char *halay_dtype_name(enum halay_dtype dtype)
{
    static const char *const names[HALAY_DTYPE_COUNT] = { "f32", "f64", "f16", "bf16", "i32", "i64",
                                                          "u8",  "i8",  "u16", "i16",  "bool" };

    return (unsigned)dtype < HALAY_DTYPE_COUNT ? names[dtype] : "?";
}

/* The type of that name; HALAY_ERR_ARGUMENT if there is none. */
static inline enum halay_status halay_dtype_parse(const char *name, enum halay_dtype *dtype)
{
    for (int i = 0; i < HALAY_DTYPE_COUNT; i++)
        if (!strcmp(name, halay_dtype_name((enum halay_dtype)i))) {
            *dtype = (enum halay_dtype)i;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

/* The name of a reduction: "sum", "average", "min", "max", "product", "bit-and", "bit-or", "adasum"; "?" for a value
 * that is no reduction. Static storage. */
static inline const char *halay_reduction_name(enum halay_reduction reduction)
{
    static const char *const names[HALAY_REDUCTION_COUNT] = { "sum",     "average", "min",    "max",
                                                              "product", "bit-and", "bit-or", "adasum" };

    return (unsigned)reduction < HALAY_REDUCTION_COUNT ? names[reduction] : "?";
}

/* The reduction of that name; HALAY_ERR_ARGUMENT if there is none. */
static inline enum halay_status halay_reduction_parse(const char *name, enum halay_reduction *reduction)
{
    for (int i = 0; i < HALAY_REDUCTION_COUNT; i++)
        if (!strcmp(name, halay_reduction_name((enum halay_reduction)i))) {
            *reduction = (enum halay_reduction)i;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

/* Nonzero if the reduction takes that type (the table at enum halay_reduction). */
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
 * Force an algorithm by its name in docs/reference/algorithms.md, for one operation ("allreduce", "adasum", "reduce",
 * "reduce-scatter", "broadcast", "allgather", "alltoall", "barrier"); "auto" returns to the choice by table. All ranks
 * must do the same. HALAY_ERR_ARGUMENT: no such operation or algorithm (the log lists those there are);
 * HALAY_ERR_UNSUPPORTED: not with this group's transport.
 */
HALAY_API enum halay_status halay_group_set_algorithm(struct halay_group *group, const char *operation,
                                                      const char *algorithm);

/* The algorithms that this group may use for an operation, by number from 0 on: a name (static storage), NULL past the
 * last one or if there is no such operation. *is_tree (NULL: not wanted): nonzero if HALAY_DETERMINISTIC=ranks allows
 * it. */
HALAY_API const char *halay_group_algorithm(const struct halay_group *group, const char *operation, size_t index,
                                            int *is_tree);

/* Which bytes of a group halay_group_set_bytes sets. */
enum halay_group_bytes { HALAY_BYTES_CHUNK = 0, HALAY_BYTES_SLOT = 1 };

/*
 * Set the bytes of one chunk, which is sent while another one is added, or of one slot, memory in which private data
 * pass through shared memory, for this group and all that have the same origin. All ranks must do the same, with no
 * collective under way. A chunk has at least one byte, in place of HALAY_RING_SEGMENT's or the tuning table's; a slot
 * whole pages, at least one, and no more than there is room for, or 0: HALAY_SLOT's or the table's again.
 * HALAY_ERR_ARGUMENT.
 */
HALAY_API enum halay_status halay_group_set_bytes(struct halay_group *group, enum halay_group_bytes which,
                                                  size_t bytes);

/* Set the bytes of one chunk, by halay_group_set_bytes. */
static inline enum halay_status halay_group_set_segment(struct halay_group *group, size_t bytes)
{
    return halay_group_set_bytes(group, HALAY_BYTES_CHUNK, bytes);
}

/* Set the bytes of one slot, by halay_group_set_bytes. */
static inline enum halay_status halay_group_set_slot(struct halay_group *group, size_t bytes)
{
    return halay_group_set_bytes(group, HALAY_BYTES_SLOT, bytes);
}

/* Explain the choice: what would be chosen for that operation and number of elements on buffers of the program's own
 * (shared: 0), from halay_group_alloc (1) or, of all-reduces by the engine, on devices of all ranks that reach each
 * other (2, see HALAY_MEMORY_DEVICES), and why, as one line of text. count: of the longer of in and out (all-gather:
 * of out, reduce-scatter: of in, all-to-all: of either). Returns the algorithm's name; static storage. */
enum { HALAY_EXPLAIN_DEVICES = 2 };
HALAY_API const char *halay_group_explain(struct halay_group *group, const char *operation, size_t count,
                                          enum halay_dtype dtype, int shared, char *text, size_t size);

/* ---- counters as text ------------------------------------------------------------------------------------------- */

/*
 * Write the counters (halay_counters_read) as text in the format that Prometheus reads (version 0.0.4), each sample
 * with the label rank: to be served, or written to a file for the node exporter. text gets at most size bytes with the
 * ending zero; *length (may be NULL) is the length without it that the whole text has. text may be NULL with size 0.
 * HALAY_ERR_ARGUMENT: size is too small; text holds the beginning. Never blocks.
 */
HALAY_API enum halay_status halay_counters_write(struct halay_context *ctx, char *text, size_t size, size_t *length);

/*
 * Say a number of the program's own, the loss of a step for example, beside the counters: halay_counters_write has it
 * as halay_program_value{name="..."}, and `halayrun --metrics` for all ranks. name: copied; 1 to 47 letters, digits,
 * '_', '.' and '-', 32 different ones at most. Later values replace earlier ones. Any thread; never blocks for long.
 * HALAY_ERR_ARGUMENT.
 */
HALAY_API enum halay_status halay_gauge_set(struct halay_context *ctx, const char *name, double value);

/* How often a rank was the last one to submit a tensor, and by how much. Set struct_size to sizeof. */
struct halay_straggler {
    size_t struct_size;
    uint64_t tensors;    /* that all ranks submitted, whoever came last */
    uint64_t times_last; /* of these, that this rank submitted last; those that came together count for none */
    /* By how much it was then later than the rank before it, added up: each of several tensors in flight at once
     * counts, so that it gives the average over times_last. */
    uint64_t late_ns;
    uint64_t latest_ns; /* the longest of them */
};

/*
 * The straggler statistics of one rank. Rank 0 alone sees the others come, HALAY_ERR_UNSUPPORTED on the others; there
 * halay_counters_write has them too, and halay_fini logs them at level info. What was only late enough to be seen in a
 * look of rank 0's engine of its own counts: a few microseconds mean nothing, and of tensors of 4 KB at most that come
 * alone 5 milliseconds. Steps that are replayed (HALAY_REPLAY) do not count: rank 0 does not see them. Never blocks.
 * HALAY_ERR_ARGUMENT: no such rank, or struct_size is too small (a larger one is as in halay_counters_read).
 */
HALAY_API enum halay_status halay_stragglers_read(struct halay_context *ctx, int rank,
                                                  struct halay_straggler *straggler);

/* ---- timeline --------------------------------------------------------------------------------------------------- */

/*
 * Record what this rank's engine does, and then write it to a file that chrome://tracing and ui.perfetto.dev draw:
 * submissions, collectives, what the program waited for, when the engine slept. With path NULL, or by halay_fini, it
 * ends, and the file is written, which appears when it is complete; that blocks for as long as it takes, and the engine
 * goes on meanwhile. Bounded: the newest records are kept, in HALAY_TIMELINE_BYTES of memory. A local call;
 * `halay-perf timeline-merge` makes one file of those of several ranks. path: "%r" becomes the rank; without it the
 * rank goes in front of the extension. HALAY_TIMELINE starts one in halay_init. HALAY_ERR_DUPLICATE: one is on;
 * HALAY_ERR_ARGUMENT: none is on that could end; HALAY_ERR_SYSTEM: it cannot be written, and is lost;
 * HALAY_ERR_NO_MEMORY.
 */
HALAY_API enum halay_status halay_timeline_set(struct halay_context *ctx, const char *path);

/* Start one, by halay_timeline_set; path is not NULL. */
static inline enum halay_status halay_timeline_start(struct halay_context *ctx, const char *path)
{
    return halay_timeline_set(ctx, path ? path : "");
}

/* End it and write the file, by halay_timeline_set. */
static inline enum halay_status halay_timeline_stop(struct halay_context *ctx)
{
    return halay_timeline_set(ctx, NULL);
}

#ifdef __cplusplus
}
#endif
#endif
