/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a schema; a part of tft/core/data/schema.h that has files of its own.
 */
#ifndef HALAY_TFT_SCHEMA_IMPL_H
#define HALAY_TFT_SCHEMA_IMPL_H

#include "tft/core/data/document_reader.h"
#include "tft/core/data/schema.h"

/* Read the document's `inputs`; the schema has window and time already. On error fini still has to be called. */
enum halay_status tft_schema_read_inputs(const struct tft_where *w, const json_t *document, struct tft_schema *schema);

/* In a document just loaded: replace names of holiday files, found from the folder of `path`, by their contents. */
enum halay_status tft_schema_take_files(struct halay_log *log, const char *path, json_t *document);

#endif
