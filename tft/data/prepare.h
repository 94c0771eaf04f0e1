/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepare: tables and a schema in, one file of prepared data out.
 */
#ifndef HALAY_TFT_PREPARE_H
#define HALAY_TFT_PREPARE_H

#include "base/log.h"
#include "tft/data/preset.h"

struct tft_prepare_request {
    const char *schema, *out; /* schema: NULL: the preset */
    struct tft_preset preset;
    const char *const *files; /* or folders */
    size_t file_count;
    size_t threads; /* 0: as many as the process may run on */
    size_t memory;  /* bytes to hold at most, beside the program's own; 0: half of the host's */
    int is_quiet;   /* do not print what happened to the rows */
};

/* Write request->out; what happened to the rows goes to standard output. */
enum halay_status tft_prepare(struct halay_log *log, const struct tft_prepare_request *request);

#endif
