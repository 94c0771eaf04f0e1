/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a schema; a part of tft/data/schema.h that has files of its own.
 */
#ifndef HALAY_TFT_SCHEMA_IMPL_H
#define HALAY_TFT_SCHEMA_IMPL_H

#include "tft/data/document_reader.h"
#include "tft/data/schema.h"

/* Take the document's `inputs`; window and time are in the schema already. The schema may be given to fini after an
 * error too. */
enum halay_status tft_schema_read_inputs(const struct tft_place *p, const json_t *document, struct tft_schema *schema);

/* In a document just loaded: replace names of holiday files, found from the folder of `path`, by what they hold. */
enum halay_status tft_schema_take_files(struct halay_log *log, const char *path, json_t *document);

#endif
