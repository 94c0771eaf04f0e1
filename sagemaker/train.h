/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft train in a SageMaker container.
 */
#ifndef HALAY_SAGEMAKER_TRAIN_H
#define HALAY_SAGEMAKER_TRAIN_H

#include "base/log.h"

/* A command of halay-tft (tft/tools/cli/session.h): tft_cmd_train, with its command line completed by the container if
 * this is one. */
int sagemaker_train(struct halay_log *log, char **argv);

#endif
