/* SPDX-License-Identifier: Apache-2.0
 *
 * Autotune: finds the fusion threshold, and the size of the chunks in which buckets travel, with which a program's
 * steps take the least time, by trying some. Pure: it is told of submissions and of the clock, and says which to use.
 * On rank 0, whose coordinator makes the buckets and tells all ranks with each how large its chunks are.
 *
 * A step ends when a tensor is submitted that was submitted in it before. What is measured is the program's own step,
 * its computing included, as that is what the user waits for.
 *
 *     looking         until some steps in a row have the same bytes; what was found for as many ranks and bytes counts
 *     coarse          candidates from 256 KB to 256 MB by factors of 4, and the one that is configured
 *     fine            half and twice the best
 *     chunks          with that, half, twice and four times as large as the tuning table says
 *     done            the best, if it is better than the configured one by more than noise
 *
 * When later steps have other bytes for a while (the program goes on to something else) it begins again, and when it
 * comes back, takes what it has found.
 *
 * Candidates take turns, ROUNDS times, so that a machine that gets slower in between is no candidate's fault; of each
 * the median counts. The step after a change is not counted.
 */
#ifndef HALAY_AUTOTUNE_H
#define HALAY_AUTOTUNE_H

#include "base/log.h"
#include <stddef.h>
#include <stdint.h>

enum { HALAY_AUTOTUNE_CANDIDATES = 8, HALAY_AUTOTUNE_ROUNDS = 5, HALAY_AUTOTUNE_KNOWN = 256 };

/* What was found once: a line of the file. */
struct halay_autotune_entry {
    uint64_t ranks, bytes, threshold;
    int chunk_shift;
};

enum halay_autotune_phase {
    HALAY_AUTOTUNE_LOOKING,
    HALAY_AUTOTUNE_COARSE,
    HALAY_AUTOTUNE_FINE,
    HALAY_AUTOTUNE_CHUNKS,
    HALAY_AUTOTUNE_DONE
};

struct halay_autotune {
    enum halay_autotune_phase phase;
    size_t configured, threshold; /* to use now, and: */
    int chunk_shift;              /* chunks are 2^chunk_shift times as large as otherwise (halay_group_set_chunks) */
    uint64_t ranks, bytes;        /* of a step */
    int is_measured;              /* the result is this run's */
    int has_found;                /* something was measured: worth keeping */
    int is_stopped;               /* nothing is tried any more */

    struct {
        size_t threshold;
        int chunk_shift;
        double scores[HALAY_AUTOTUNE_ROUNDS]; /* microseconds a byte */
    } candidates[HALAY_AUTOTUNE_CANDIDATES];
    int count, at, round;

    uint64_t step;    /* the current one's number; entries remember the last one in which they were submitted */
    int steps;        /* counted since the change; negative: not to be counted */
    int64_t since_us; /* when the counted ones began */
    uint64_t step_bytes, window_bytes;
    uint64_t last_bytes; /* of the step before, and how many in a row had as many */
    int same;

    struct halay_autotune_entry known[HALAY_AUTOTUNE_KNOWN];
    int known_count;
};

/* configured: the threshold that holds until something better is found. */
void halay_autotune_init(struct halay_autotune *tune, size_t configured, int ranks);

/*
 * A tensor of that size is submitted. *step is the tensor's own memory for this, 0 at first. Returns nonzero when
 * tune->threshold or tune->chunk_shift has changed.
 */
int halay_autotune_submitted(struct halay_autotune *tune, uint64_t *step, size_t bytes, int64_t now_us);

/* No more: the best so far holds. Nonzero when something has changed. */
int halay_autotune_give_up(struct halay_autotune *tune);

/* The file: lines "RANKS BYTES THRESHOLD SHIFT" (without SHIFT: 0), and comments. An absent file is an empty one;
 * HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, logged. */
enum halay_status halay_autotune_load(struct halay_log *log, const char *path, struct halay_autotune *tune);
/* Write what was known and what was measured, if anything was. */
enum halay_status halay_autotune_save(struct halay_log *log, const char *path, const struct halay_autotune *tune);

#endif
