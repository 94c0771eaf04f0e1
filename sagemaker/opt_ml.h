/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder through which SageMaker and a container talk: /opt/ml, or the one that HALAY_OPT_ML names.
 */
#ifndef HALAY_SAGEMAKER_OPT_ML_H
#define HALAY_SAGEMAKER_OPT_ML_H

#include <stddef.h>

const char *opt_ml_root(void); /* borrowed from the environment */
void opt_ml_path(const char *name, char *path, size_t size);

/* Write output/failure, of which SageMaker shows the first 1024 bytes as the reason why the job failed. It is there
 * whole or not at all; errors are ignored, since nobody could do anything about them. replaces: 0 keeps a file that is
 * there already. */
void opt_ml_write_failure(const char *text, int replaces);

#endif
