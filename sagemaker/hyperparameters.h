/* SPDX-License-Identifier: Apache-2.0
 *
 * What a SageMaker job's hyperparameters mean to its launcher.
 */
#ifndef HALAY_SAGEMAKER_HYPERPARAMETERS_H
#define HALAY_SAGEMAKER_HYPERPARAMETERS_H

#include "halay_types.h"
#include "launcher/common/command_line.h"

/* Appends what to start if the command line names no program: the script of the hyperparameter sagemaker_program or of
 * the variable SAGEMAKER_PROGRAM, with the hyperparameters as SageMaker's toolkit spells them; or else "halay-tft
 * train", which reads them itself. folder: where to start it, "" for here. HALAY_ERR_FORMAT (reported). */
enum halay_status sagemaker_find_program(struct args *command, char *folder, size_t size);

/* The job's ARN, name and hyperparameters in one text: owned; NULL without memory, or if they cannot be read
 * (reported). */
char *sagemaker_describe_job(void);

#endif
