/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a server forecasts with, in a session of its own, and whether its folder holds a newer one.
 */
#ifndef HALAY_TFT_SERVE_MODEL_H
#define HALAY_TFT_SERVE_MODEL_H

#include "base/log.h"
#include "halay_tft.h"

struct serve_model {
    struct halay_tft *tft;         /* owned */
    struct halay_tft_model *model; /* owned */
    long long step;
    char step_text[24];
    int needs_future;
};

/* A number that changes when the files of a folder's model do. 0: none can be read. */
uint64_t serve_model_stamp(const char *folder);

/* Load a run's model, and see whether it can forecast with this calibration (NULL: as it was trained). device: as in
 * halay_tft_options. Errors are logged. */
enum halay_status serve_model_load(struct halay_log *log, const char *folder, const char *device, const char *calibrate,
                                   struct serve_model **model);
void serve_model_close(struct serve_model *model);

#endif
