/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder that MLflow reads as a tracking store ("file store", `mlflow ui --backend-store-uri RUN/mlflow`): one
 * experiment with this run, its parameters as files, and a file of lines "milliseconds value step" for each number.
 */
#ifndef HALAY_TFT_MLFLOW_H
#define HALAY_TFT_MLFLOW_H

#include "base/log.h"
#include "tft/core/run/row.h"
#include <jansson.h>

enum tft_mlflow_end { TFT_MLFLOW_RUNNING = 1, TFT_MLFLOW_FINISHED = 3, TFT_MLFLOW_FAILED = 4, TFT_MLFLOW_KILLED = 5 };

struct tft_mlflow {
    struct halay_log *log; /* borrowed */
    char *folder;          /* owned: of the run */
    char *name;            /* owned: the run's */
    char id[33];
    long long began_ms;
    uint64_t last[TFT_ROW_TABLES];
    char known[64][40]; /* numbers that have a file already cut to `last` */
    size_t known_count;
};

/* Make the folder in RUN, or resume the run in it with last steps as in lines.h. parameters: an object of texts and
 * numbers. On error fini still has to be called. */
enum halay_status tft_mlflow_init(struct halay_log *log, const char *folder, const uint64_t last[TFT_ROW_TABLES],
                                  const json_t *parameters, struct tft_mlflow *mlflow);
enum halay_status tft_mlflow_add(struct tft_mlflow *mlflow, const struct tft_row *row);
/* Write how the run ended, if init succeeded. */
enum halay_status tft_mlflow_end(struct tft_mlflow *mlflow, enum tft_mlflow_end end);
void tft_mlflow_fini(struct tft_mlflow *mlflow);

#endif
