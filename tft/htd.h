/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: prepared data in one file that is memory-mapped.
 *
 *   offset  bytes
 *        0      8  magic "HALAYHTD"
 *        8      4  version, 2
 *       12      4  endianness: 0x01020304 as the writer wrote it
 *       16      8  bytes of the whole file
 *       24      4  number of sections, 9
 *       28      4  CRC-32 of the section table
 *       32     32  for each section: offset (8), bytes (8), CRC-32 (4), kind (4), zero (8)
 *
 * Sections, each beginning on a multiple of 64: 1 meta (JSON: schema, encoding, summary, entities); then the arrays of
 * struct tft_data: 2 targets (double, rows x targets), 3 gaps (two 64-bit numbers each), 4 values (float, rows x reals), 5 categories
 * (32-bit, rows x categories), 6 static values (float, entities x reals), 7 static codes (32-bit, entities x categories),
 * 8 weights (float, rows, or nothing), 9 present (byte, rows x targets). All numbers are in the writer's byte order; another order,
 * another version, a wrong length or checksum is an error when the file is opened.
 */
#ifndef HALAY_TFT_HTD_H
#define HALAY_TFT_HTD_H

#include "tft/data.h"

enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *data);

/* Map and check the whole file. On error nothing is held. */
enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data);

#endif
