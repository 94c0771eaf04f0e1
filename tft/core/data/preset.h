/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: the schema of tables whose columns need no explanation, derived from the files.
 *
 * "long": columns unique_id, ds (a time as ISO 8601, or a whole number) and y, as other forecasting programs read them;
 * other columns are ignored. The step from row to row, and so which calendar inputs are useful, is found in the files;
 * the last tenth of the rows is for validation. A schema with the key `preset` overrides parts of it: names of columns,
 * more inputs, a window.
 */
#ifndef HALAY_TFT_PRESET_H
#define HALAY_TFT_PRESET_H

#include "tft/core/data/table.h"

/* Window of a preset, in steps; 0: chosen by the step (24 and 168 for hours). */
struct tft_preset {
    size_t encoder, horizon;
    const char *zone; /* of the clock by which times without an offset are written; NULL: not known */
    int has_test;     /* rows are held back for a test */
};

/* A schema: the file `path`, or `text`; or neither, which is the default preset. */
struct tft_schema_source {
    const char *path, *text;
};

/* Reads a schema, and completes it from the tables if it requests a preset. Nothing is held on error. found: nonzero if
 * a preset was used. */
enum halay_status tft_preset_read(struct halay_log *log, const struct tft_schema_source *given,
                                  const struct tft_table_source *tables, const struct tft_preset *preset,
                                  struct tft_schema *schema, int *found);

#endif
