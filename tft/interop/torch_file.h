/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer's parameters as a safetensors file, as torch's load_state_dict() takes them.
 */
#ifndef HALAY_TFT_PEER_FILE_H
#define HALAY_TFT_PEER_FILE_H

#include "tft/interop/torch.h"

/* The file replaces its name at the end or not at all. */
enum halay_status tft_peer_file_write(struct halay_log *log, const char *path, const struct tft_peer_map *map,
                                      const float *ours);

/*
 * Read such a file into the model's block. Tensors that are the same may be there once (as safetensors' save_model
 * leaves them) or each time, then with the same bits. Every tensor that is missing, unknown, or of another shape or
 * type is logged by name; HALAY_ERR_FORMAT. On error the block's contents are undefined.
 */
enum halay_status tft_peer_file_read(struct halay_log *log, const char *path, const struct tft_peer_map *map,
                                     float *ours);

#endif
