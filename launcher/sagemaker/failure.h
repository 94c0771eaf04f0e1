/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure: SageMaker's failure file, /opt/ml/output/failure: the first 1024 bytes are shown as the job's reason.
 */
#ifndef HALAY_LAUNCHER_FAILURE_H
#define HALAY_LAUNCHER_FAILURE_H

/* HALAY_OPT_ML, or "/opt/ml". Borrowed from the environment. */
const char *failure_root(void);
/* Whole or not at all. replaces: 0 leaves one that is there. Nothing can be done if it cannot be written. */
void failure_write(const char *text, int replaces);

#endif
