/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: the samples of a split, as numbers. A window is `encoder` rows of the past and `horizon` rows to forecast;
 * with fewer rows of the past, at an entity's beginning and after a gap, `min_encoder` rows are enough. It belongs to
 * the split that holds all its targets, and to none if it straddles; none holds a row of a gap. Windows are never
 * copied: window w of a split is an entity and a row, found in logarithmic time in the number of runs.
 */
#ifndef HALAY_TFT_WINDOWS_H
#define HALAY_TFT_WINDOWS_H

#include "tft/core/data/data.h"

struct tft_windows {
    const struct tft_data *data; /* borrowed for as long as the windows live */
    size_t stride;
    size_t count;
    size_t run_count;
    struct tft_window_run *runs; /* owned, and one more that begins at count; in order of entity and row */
};

/* Windows of one entity, stride steps apart; an entity has one run, and one more for each gap in it. */
struct tft_window_run {
    size_t before; /* windows of the runs before */
    size_t entity;
    size_t origin; /* of the first window */
    size_t floor;  /* the first row of the block that their encoders may hold */
};

struct tft_window {
    size_t entity;
    size_t origin; /* the first target's row in the block, after the encoder's rows */
    size_t length; /* the number of these rows */
};

/* Lists all windows of a split, every `stride` steps counted from each entity's first window. Nothing is held on
 * error. */
enum halay_status tft_windows_init(struct halay_log *log, const struct tft_data *data, enum tft_split split,
                                   size_t stride, struct tft_windows *windows);
/* Lists the windows of a split whose targets are in the moments [begin, end), every `stride` steps. */
enum halay_status tft_windows_init_between(struct halay_log *log, const struct tft_data *data, enum tft_split split,
                                           int64_t begin, int64_t end, size_t stride, struct tft_windows *windows);
/* Lists one window for each entity, whose targets are its last `horizon` rows, also if fewer than min_encoder rows are
 * before them; an entity without rows before them has no window. */
enum halay_status tft_windows_init_last(struct halay_log *log, const struct tft_data *data,
                                        struct tft_windows *windows);
/* Lists up to `count` windows of each entity, the horizon apart, that precede its first one in another list by one
 * horizon or more, and whose targets are after the training span. */
enum halay_status tft_windows_init_preceding(struct halay_log *log, const struct tft_windows *list, size_t count,
                                             struct tft_windows *windows);
void tft_windows_fini(struct tft_windows *windows);

/* Returns the number of windows of the entities before one (which may be one after the last). */
size_t tft_windows_before(const struct tft_windows *windows, size_t entity);

struct tft_window tft_windows_get(const struct tft_windows *windows, size_t number);

/* Returns the number of windows whose encoder is shorter than `encoder`. */
size_t tft_windows_short(const struct tft_windows *windows);

/* Returns the number of measured targets of all windows. It reads them all; call tft_data_check before, as for the next
 * function. */
size_t tft_windows_targets(const struct tft_windows *windows);

/* Returns nonzero if a target has no measured value in the rows of a window's encoder. Then that target's forecast is
 * based on filled values. */
int tft_window_is_filled(const struct tft_data *data, const struct tft_window *window);

/* Returns the number of measured targets of a window. */
size_t tft_window_targets(const struct tft_data *data, const struct tft_window *window);

/* Returns number i, ascending, of `count` (at most total) that are spread over 0 to total - 1: one of each stratum of
 * equal size, at a place that a hash of i draws. The first of each would have one hour of the day only where a stratum
 * is a whole number of days. */
size_t tft_spread(size_t i, size_t count, size_t total);

#endif
