/* SPDX-License-Identifier: Apache-2.0
 *
 * What rank 0 reads for all ranks, whose hosts need not have its files. Every rank calls each of these, in the same
 * order; with one rank they do nothing.
 */
#ifndef HALAY_TFT_SHARE_H
#define HALAY_TFT_SHARE_H

#include "halay.h"
#include "tft/core/run/run_folder.h"

/* HALAY_OK only if every rank's status is that: a rank's own error, or HALAY_ERR_PEER where another has failed. */
enum halay_status tft_agree(struct halay_context *ctx, const char *name, enum halay_status status);
/* Share a document of rank 0, which has one if its status is HALAY_OK. *document: on the other ranks a new reference,
 * NULL on error. */
enum halay_status tft_share_document(struct halay_log *log, struct halay_context *ctx, const char *name,
                                     enum halay_status status, json_t **document);
/* Share the members of rank 0. All ranks have the same number of blocks. */
enum halay_status tft_share_members(struct halay_context *ctx, const struct tft_param_table *table,
                                    struct tft_members *members);
/* tft_run_load, of rank 0's folder. */
enum halay_status tft_run_load_shared(struct halay_log *log, struct halay_context *ctx, const char *folder,
                                      const struct tft_device *device, struct tft_run *run);

#endif
