/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: how many this host has, and which a rank gets.
 */
#ifndef HALAY_LAUNCHER_GPUS_H
#define HALAY_LAUNCHER_GPUS_H

/* NVIDIA's, as the driver lists them below root/proc; 0 without a driver. root: in front of the path, "" for the
 * machine's own. */
int gpus_count(const char *root);

/* Which of `gpus` this local rank of `ranks` uses: one for each in turn, shared if there are fewer GPUs than ranks. */
int gpus_of_rank(int gpus, int local_rank);

#endif
