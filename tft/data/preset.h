/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: the schema of tables whose columns need no explanation, worked out from the files.
 *
 * "long": columns unique_id, ds (a time as ISO 8601, or a whole number) and y, as other forecasting programs read them;
 * other columns are left alone. The step from row to row, and so which calendar inputs are useful, is found in the
 * files; the last fifth of the time is for validation and test.
 */
#ifndef HALAY_TFT_PRESET_H
#define HALAY_TFT_PRESET_H

#include "tft/data/schema.h"

/* Window of a preset, in steps; 0: chosen by the step (24 and 168 for hours). */
struct tft_preset {
    size_t encoder, horizon;
    const char *zone; /* of the clock by which times without an offset are written; NULL: not known */
};

/* The schema of files (or folders of them) in the long form. Nothing is held on error. */
enum halay_status tft_preset_long(struct halay_log *log, const char *const *paths, size_t path_count,
                                  const struct tft_preset *preset, struct tft_schema *schema);

#endif
