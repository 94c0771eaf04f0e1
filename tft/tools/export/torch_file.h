/* SPDX-License-Identifier: Apache-2.0
 *
 * A safetensors file that PyTorch's load_state_dict() takes.
 */
#ifndef HALAY_TFT_TORCH_FILE_H
#define HALAY_TFT_TORCH_FILE_H

#include "tft/tools/export/torch.h"

/* The file replaces its name at the end or not at all. */
enum halay_status tft_torch_file_write(struct halay_log *log, const char *path, const struct tft_torch_map *map,
                                       const float *ours);

/*
 * Read such a file into the model's block. Tensors that repeat each other may be in it once (safetensors' save_model
 * writes them so) or each time with the same bits. Every tensor that is missing, unknown, or of another shape or type
 * is logged by name: HALAY_ERR_FORMAT. On error the block's contents are undefined.
 */
enum halay_status tft_torch_file_read(struct halay_log *log, const char *path, const struct tft_torch_map *map,
                                      float *ours);

#endif
