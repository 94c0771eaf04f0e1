/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: the model's parameters in the common file format of that name.
 *
 *   8 bytes: length of the header, little endian; the header: JSON, name -> {"dtype": "F32", "shape": [..],
 *   "data_offsets": [begin, end]} and "__metadata__": {text: text}; then the data, tensors one after the other without
 *   gaps.
 *
 * Written from a block, read into a block of the same table. Everything in a file is checked before it is used:
 * lengths, that the tensors cover the data exactly, names, types and shapes; a file with other tensors than the model's
 * is an error that names the first difference.
 */
#ifndef HALAY_TFT_SAFETENSORS_H
#define HALAY_TFT_SAFETENSORS_H

#include "base/log.h"
#include "tft/core/model/params.h"
#include <jansson.h>

/* metadata: an object of texts (may be NULL); borrowed. The file replaces the one at its path at the end or not at
 * all. */
enum halay_status tft_safetensors_write(struct halay_log *log, const char *path, const struct tft_param_table *table,
                                        const float *block, const json_t *metadata);

/* Does the same by way of the folder `stage` (halay_output_open_staged). */
enum halay_status tft_safetensors_write_staged(struct halay_log *log, const char *stage, const char *path,
                                               const struct tft_param_table *table, const float *block,
                                               const json_t *metadata);

/* The header alone, not checked: an object, owned by the caller. */
enum halay_status tft_safetensors_header(struct halay_log *log, const char *path, json_t **header);

/* Fill the block; metadata (may be NULL) is owned by the caller. HALAY_ERR_FORMAT. On error the block's contents are
 * undefined. */
enum halay_status tft_safetensors_read(struct halay_log *log, const char *path, const struct tft_param_table *table,
                                       float *block, json_t **metadata);

#endif
