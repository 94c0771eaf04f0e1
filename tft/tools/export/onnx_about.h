/* SPDX-License-Identifier: Apache-2.0
 *
 * What to feed to an ONNX model, in words.
 */
#ifndef HALAY_TFT_ONNX_ABOUT_H
#define HALAY_TFT_ONNX_ABOUT_H

#include "tft/core/run/run_folder.h"

enum { ONNX_ABOUT_MAX = 512 };

void onnx_about_entity(const struct tft_run *run, char text[ONNX_ABOUT_MAX]);
void onnx_about_length(const struct tft_run *run, char text[ONNX_ABOUT_MAX]);
void onnx_about_input(const struct tft_run *run, size_t input, char text[ONNX_ABOUT_MAX]);

#endif
