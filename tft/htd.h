/* SPDX-License-Identifier: Apache-2.0
 *
 * HTD: prepared data in one file that is memory-mapped.
 *
 *   offset  bytes
 *        0      8  magic "HALAYHTD"
 *        8      4  version, 1
 *       12      4  endianness: 0x01020304 as the writer wrote it
 *       16      8  bytes of the whole file
 *       24      4  number of sections, 5
 *       28      4  CRC-32 of the section table
 *       32     32  for each section: offset (8), bytes (8), CRC-32 (4), kind (4), zero (8)
 *
 * Sections, each beginning on a multiple of 64: 1 meta (JSON: schema, encoding, summary, entities), 2 target (double,
 * rows), 3 values (float, rows x variables), 4 static values (float, entities x variables), 5 present (byte, rows). All
 * numbers are in the writer's byte order; another order, another version, a wrong length or checksum is an error when
 * the file is opened.
 */
#ifndef HALAY_TFT_HTD_H
#define HALAY_TFT_HTD_H

#include "tft/data.h"

enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *data);

/* Map and check the whole file. On error nothing is held. */
enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data);

#endif
