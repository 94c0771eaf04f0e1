/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepare: tables and a schema in, one file of prepared data out, and a summary of what happened to the rows.
 */
#ifndef HALAY_TFT_PREPARE_H
#define HALAY_TFT_PREPARE_H

#include "base/log.h"
#include "halay_tft.h"

/* Write options->path; unless is_quiet, what happened to the rows goes to standard output. */
enum halay_status tft_prepare(struct halay_log *log, struct halay_tft *tft, const struct halay_tft_table *table,
                              const struct halay_tft_prepare_options *options, int is_quiet);

#endif
