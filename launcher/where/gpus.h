/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: how many this host has, and which one a rank gets.
 */
#ifndef HALAY_LAUNCHER_GPUS_H
#define HALAY_LAUNCHER_GPUS_H

/* Counts NVIDIA's, as the driver lists them below root/proc, or else in root/dev, which is reported on standard error;
 * 0 without a driver. root: prepended to the paths, "" for the real ones. */
int gpus_count(const char *root);

/* The GPU of `gpus` that this local rank uses; ranks take turns if there are fewer GPUs than ranks. */
int gpus_of_rank(int gpus, int local_rank);

#endif
