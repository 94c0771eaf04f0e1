/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event file: rows as scalars, tensors as histograms.
 *
 * A file is a list of records: length (64 bits, little-endian), its checksum, the data, their checksum. A checksum is
 * CRC-32C, turned right by 15 bits, plus a constant; both as in TensorFlow's "TFRecord" format. The data are a protocol
 * buffer "Event"; the few fields that are written have their numbers from TensorFlow's event.proto and summary.proto.
 */
#ifndef HALAY_TFT_EVENT_FILE_H
#define HALAY_TFT_EVENT_FILE_H

#include "base/log.h"
#include "tft/core/data/protobuf.h"
#include "tft/core/run/row.h"
#include <stdio.h>

struct tft_event_file {
    struct halay_log *log;     /* borrowed */
    FILE *file;                /* owned */
    struct tft_protobuf event; /* owned: an event while it is put together */
};

/* A new file in RUN/tensorboard, which tells TensorBoard to drop what earlier files hold after step `last`. On error
 * nothing is held. */
enum halay_status tft_event_file_init(struct halay_log *log, const char *folder, uint64_t last,
                                      struct tft_event_file *events);
enum halay_status tft_event_file_add(struct tft_event_file *events, const struct tft_row *row);
/* Count the values in buckets of equal width; those that are not finite are left out. */
enum halay_status tft_event_file_add_values(struct tft_event_file *events, uint64_t step, double seconds,
                                            const struct tft_values *values);
void tft_event_file_fini(struct tft_event_file *events);

#endif
