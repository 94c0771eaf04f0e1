/* SPDX-License-Identifier: Apache-2.0
 *
 * Resident rows: the data in the memory of a device, where each step's windows are cut from them. The host sends the
 * places of the windows, their scaling and where they differ from the data (tft/core/run/batches.h), some kilobytes a
 * step. The batch has the same bits as one of tft_gather_fill.
 */
#ifndef HALAY_TFT_RESIDENT_H
#define HALAY_TFT_RESIDENT_H

#include "tft/core/kernels/kernels.h"
#include "tft/core/run/batches.h"

struct tft_resident;

/*
 * Copy the rows there, by way of queue. data are borrowed until destroy; a filled batch has `granule` samples at most,
 * and fill is called by `threads` threads. *resident is NULL if the host has to fill batches: the rows do not fit (a
 * warning), or targets are not scaled (info). HALAY_ERR_FORMAT: the data are damaged; HALAY_ERR_NO_MEMORY: the host's.
 */
enum halay_status tft_resident_create(struct halay_log *log, const struct tft_data *data, struct queue *queue,
                                      size_t granule, int threads, struct tft_resident **resident);
void tft_resident_destroy(struct tft_resident *resident); /* nothing under way uses it; NULL is allowed */

/* tft_gather_fill, for a batch of a device that has memory of its own: all but its lengths is filled there. */
enum halay_status tft_resident_fill(const struct tft_resident *resident, const struct tft_gather *gather, int thread,
                                    struct tft_batch *batch);

#endif
