/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun --ssh-keys: keys for ssh that all hosts of a job derive alike from the secret between them.
 */
#ifndef HALAY_SAGEMAKER_SSH_KEYS_H
#define HALAY_SAGEMAKER_SSH_KEYS_H

#include "sagemaker/cluster.h"

/* Write into the folder id_ed25519, for logins; host_ed25519, for the hosts' sshd; authorized_keys and known_hosts,
 * which name these two only. 0, or an exit code (reported). */
int sagemaker_write_ssh_keys(const struct sagemaker_cluster *cluster, const char *folder);

#endif
