/* SPDX-License-Identifier: Apache-2.0
 *
 * What forecasts rely on, as a part of a page.
 */
#ifndef HALAY_TFT_EXPLANATION_H
#define HALAY_TFT_EXPLANATION_H

#include "tft/tools/explain/explain.h"

/* json: what tft_explanation_json made of it. The stream's owner checks its errors. */
void tft_explanation_write(FILE *file, const struct tft_explanation *explanation, const json_t *json);

#endif
