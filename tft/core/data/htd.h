/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: prepared data in one file that is memory-mapped.
 *
 *   offset  bytes
 *        0      8  magic "HALAYHTD"
 *        8      4  version, 4
 *       12      4  endianness: 0x01020304 in the writer's byte order
 *       16      8  bytes of the whole file
 *       24      4  number of sections, 11
 *       28      4  CRC-32 of the section table and, following it, of section 11
 *       32     24  for each section: offset (8), bytes (8), kind (4), zero (4)
 *
 * Sections, each beginning on a multiple of 64: 1 meta (JSON: schema, encoding, summary, entities); then the arrays of
 * struct tft_data: 2 targets (double, rows x targets), 3 gaps (two 64-bit numbers each), 4 bridges (column and entity,
 * 32-bit each; first row, signed, and rows, 64-bit each; a double), 5 values (float, rows x reals), 6 categories
 * (32-bit, rows x categories), 7 static values (float, entities x reals), 8 static codes (32-bit, entities x
 * categories), 9 weights (float, rows, or nothing), 10 present (byte, rows x targets); 11 the CRC-32 (32-bit) of each
 * part of sections 1 to 10, one section after the other. A part is 65536 bytes of a section, the last one the rest. All
 * numbers are in the writer's byte order.
 *
 * Another byte order, another version, a wrong length, and a wrong checksum of anything without rows are errors when
 * the file is opened. Parts of arrays with rows are checked when they are first read (tft_data_check), so that opening
 * a large file does not read all of it.
 */
#ifndef HALAY_TFT_HTD_H
#define HALAY_TFT_HTD_H

#include "tft/core/data/data.h"

enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *data);

/* Map a file, and check everything in it that has no rows. log is borrowed until it is closed. On error nothing is
 * held. */
enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data);

#endif
