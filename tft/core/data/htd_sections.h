/* SPDX-License-Identifier: Apache-2.0
 *
 * The sections of a file of prepared data and their checksums, as htd.h draws them; what is in them is htd.c's.
 */
#ifndef HALAY_TFT_HTD_SECTIONS_H
#define HALAY_TFT_HTD_SECTIONS_H

#include "base/log.h"
#include "tft/core/data/spill.h"
#include <stddef.h>

/* The arrays of a data set, in the order in which they lie. */
enum tft_array {
    TFT_ARRAY_TARGET,
    TFT_ARRAY_GAPS,
    TFT_ARRAY_BRIDGES,
    TFT_ARRAY_VALUES,
    TFT_ARRAY_CATEGORIES,
    TFT_ARRAY_STATIC_VALUES,
    TFT_ARRAY_STATIC_CODES,
    TFT_ARRAY_WEIGHTS,
    TFT_ARRAY_PRESENT,
    TFT_ARRAY_COUNT
};

/* Section HTD_ARRAYS + k is the data's array k. */
enum { HTD_META, HTD_ARRAYS, HTD_SUMS = HTD_ARRAYS + TFT_ARRAY_COUNT, HTD_SECTIONS };

/* Write a file of these sections; the last one, the checksums, is made here. spill: where they lie; NULL: in memory. */
enum halay_status tft_htd_write_sections(struct halay_log *log, const char *path, const void *const data[HTD_SUMS],
                                         const size_t bytes[HTD_SUMS], struct tft_spill *spill);

/* A file that is mapped. */
struct tft_htd;

/* Map a file whose lengths and checksums of checksums are right. log is borrowed until it is closed. */
enum halay_status tft_htd_map(struct halay_log *log, const char *path, struct tft_htd **file);
/* NULL is allowed. */
void tft_htd_close(struct tft_htd *file);

const void *tft_htd_section(const struct tft_htd *file, int section, size_t *bytes);
/* Are bytes [first, first + bytes) of a section what was written? HALAY_ERR_FORMAT (logged once): a part of them is
 * damaged. Any thread. */
enum halay_status tft_htd_check(struct tft_htd *file, int section, size_t first, size_t bytes);
/* Logs "'path' what", returns HALAY_ERR_FORMAT. */
enum halay_status tft_htd_bad(const struct tft_htd *file, const char *what);

#endif
