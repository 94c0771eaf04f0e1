/* SPDX-License-Identifier: Apache-2.0
 *
 * Outer job: the variables by which launchers number the processes of a job. halayrun may itself be one of another.
 */
#ifndef HALAY_LAUNCHER_OUTER_JOB_H
#define HALAY_LAUNCHER_OUTER_JOB_H

/* Removes what is not for our ranks: what an outer job's launcher has set for its processes, halayrun or torchrun; and
 * the secret between nodes. */
void outer_job_forget(void);

/* Returns nonzero if halayrun sets it for each rank. */
int outer_job_is_of_rank(const char *name);

#endif
