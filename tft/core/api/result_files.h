/* SPDX-License-Identifier: Apache-2.0
 *
 * Files for the result of a call, in addition to its return value: JSON, CSV, a page. Rank 0 opens them before the work
 * begins, which would be in vain if they could not be written.
 */
#ifndef HALAY_TFT_RESULT_FILES_H
#define HALAY_TFT_RESULT_FILES_H

#include "base/output_file.h"
#include "tft/core/api/session.h"

/* Zero-initialise. */
struct tft_result_files {
    struct halay_output json, csv, page;
};

/* Opens the files; a path may be NULL (not written) or "-" (standard output). Call abort in any case. */
enum halay_status tft_result_files_open(struct halay_tft *tft, const char *json, const char *csv, const char *page,
                                        struct tft_result_files *files);
/* Writes the result's page, if that is open, and completes it. */
enum halay_status tft_result_files_page(struct tft_result_files *files, const json_t *result);
/* Writes the result into the others that are open, and completes them. */
enum halay_status tft_result_files_write(struct tft_result_files *files, const json_t *result);
/* Discards incomplete files. */
void tft_result_files_abort(struct tft_result_files *files);

#endif
