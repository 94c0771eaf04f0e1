/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings: statistics of the recent span, each beside what it was in blocks of the past, and the threshold that makes
 * all of them together raise a false alarm with a stated probability.
 *
 * A statistic's own scale is the threshold that it alone would exceed with that probability, or the largest of the past
 * where that is too short. Of each block the largest statistic counts, in that scale; the threshold of these maxima
 * holds for all statistics at once, however many there are and however they depend on each other.
 *
 * The recent span's scale is that of the blocks, so a block's is that of the recent span and the blocks that do not
 * overlap it: each is compared with all but itself. This keeps all of them exchangeable if nothing has changed. A block
 * that took part in its own scale could hardly exceed it where blocks are few, and the recent span would exceed its own
 * too often.
 */
#ifndef HALAY_TFT_DRIFT_FINDINGS_H
#define HALAY_TFT_DRIFT_FINDINGS_H

#include "base/log.h"
#include "halay_types.h"
#include <jansson.h>
#include <stddef.h>

struct tft_findings {
    double rate;          /* asked for; NAN once finished: fewer than four separate blocks could be compared */
    int is_extrapolated;  /* blocks are too few for the rate: the threshold follows from their tail (tft_threshold) */
    size_t blocks;        /* overlapping: those less than */
    size_t block;         /* ... this number of places apart */
    size_t separate;      /* that do not */
    size_t used;          /* of these, once finished: those in which something could be compared */
    double *largest;      /* owned: (blocks) NAN: nothing could be compared */
    double *scratch;      /* owned: (blocks + 1) */
    size_t *order, *rank; /* owned: (blocks + 1) of a statistic's values */
    double threshold;     /* of the largest; once finished. NAN as rate */
    double most;          /* the largest of the recent span */
    json_t *rows;         /* owned: an object for each statistic, with "statistic", "value", and "scale", "ratio" */
};

/* HALAY_ERR_NO_MEMORY (logged). fini in any case. */
enum halay_status tft_findings_init(struct halay_log *log, double rate, size_t blocks, size_t block, size_t separate,
                                    struct tft_findings *findings);
void tft_findings_fini(struct tft_findings *findings);

/* Add a statistic: its value, those in the blocks (NAN where one has none), the smallest scale that it may have, and an
 * object that describes it, which is taken; NULL: memory ran out. */
enum halay_status tft_findings_add(struct tft_findings *findings, const char *statistic, double value,
                                   const double *in_blocks, double least, json_t *row);
/*
 * Set threshold and rate, and in each row "threshold" (in the statistic's own unit) and "drifted", once all statistics
 * have been added. Where too few blocks could be compared, only a psi from 0.25 on counts as drift; "chance" in its row
 * raises that limit by its value.
 */
void tft_findings_finish(struct tft_findings *findings);
/* Returns the number of drifted rows; *count: of all rows. */
size_t tft_findings_drifted(const struct tft_findings *findings, size_t *count);

/* ---- thresholds ---- */

/* Returns which of `count` other values, the smallest being the first, a value like them in random order exceeds with
 * at most this probability: ceil((count + 1) (1 - rate)); count + 1: none of them. */
size_t tft_threshold_place(size_t count, double rate);

/*
 * Finds the threshold that a value like the others exceeds with this probability: the ceil((n + 1) (1 - rate))-th
 * smallest of n values (which are sorted by it), whose order is random (conformal). Only `independent` of them are
 * independent: if they are too few for the rate, it returns 0, and the threshold is that of values whose tail above the
 * median is exponential, as the extremes of many distributions nearly are, and at least the largest. There is at least
 * one value.
 */
int tft_threshold(double *values, size_t count, size_t independent, double rate, double *threshold);

#endif
