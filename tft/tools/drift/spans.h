/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: the recent one, and those of the past that it is measured by.
 *
 * The past, up to an end, is cut into slots, an eighth to a quarter of the recent span each; slot 0 is the last one. A
 * *block* is as many slots as make the recent span's length. Its *reference* is a part of the past elsewhere: where the
 * past is long enough, the same time of other years, give or take 45 days, half a year away at least; otherwise all of
 * it but the block and its length to either side. The recent span's reference is chosen in the same way, so that a
 * block relates to its reference as the recent span to its own if nothing has changed.
 */
#ifndef HALAY_TFT_DRIFT_SPANS_H
#define HALAY_TFT_DRIFT_SPANS_H

#include <stddef.h>
#include <stdint.h>

enum { TFT_SLOTS_MOST = 8192, TFT_RANGES_MOST = 128 };

struct tft_spans {
    int64_t begin, end;   /* of the past, in moments */
    int64_t since, until; /* of the recent span */
    int64_t width;        /* of a slot */
    size_t slots;         /* complete ones */
    size_t block;         /* slots of a block */
    size_t blocks;        /* block b is slots [b, b + block) */
    int is_seasonal;
    int64_t year; /* in moments; 0: they count something else */
    double reach; /* largest distance of a block that counts from the recent span's time of the year, in moments */
};

/* Slots [first, end). */
struct tft_slot_range {
    size_t first, end;
};

/* Cuts the past [begin, end) for a recent span [since, until), which is after it. counts: moments are whole numbers. */
void tft_spans_init(int counts, int64_t begin, int64_t end, int64_t since, int64_t until, struct tft_spans *spans);
/*
 * Makes only blocks of about the same time of the year count from now on, as few as suffice for a threshold that is
 * exceeded with this probability: statistics of a winter's block are a poor guide to a summer's. Without seasons all of
 * them count.
 */
void tft_spans_narrow(struct tft_spans *spans, double rate);
/* Returns nonzero if a block counts. */
int tft_spans_counts(const struct tft_spans *spans, size_t block);

/* The slot of a moment; `slots` or more: none. */
size_t tft_spans_slot(const struct tft_spans *spans, int64_t moment);
/* The reference of a block, or (number: blocks) of the recent span; returns how many ranges. */
size_t tft_spans_reference(const struct tft_spans *spans, size_t number, struct tft_slot_range ranges[TFT_RANGES_MOST]);

#endif
