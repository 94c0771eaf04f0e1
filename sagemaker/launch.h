/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun in a SageMaker job: it is started on every host, and all of them start one job together, without ssh.
 *
 *     algo-1: halayrun --sagemaker ... the job: ranks 0, 1, the store, all output
 *                |  tunnels in ssh's place
 *     algo-2: halayrun --sagemaker ... the agent of ranks 2, 3
 *
 * Each host reads the same list of hosts, sorts it, and so knows its place. The rest is halayrun's own start on every
 * node (launcher/remote/join.h); only the secret is found otherwise (cluster.h), and a host that ends with another code
 * than 0 has the first cause in its failure file.
 */
#ifndef HALAY_SAGEMAKER_LAUNCH_H
#define HALAY_SAGEMAKER_LAUNCH_H

#include "base/log.h"
#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"

/* With --sagemaker or --ssh-keys; and in a SageMaker job of several hosts, unless the command line says how
 * they are found or reached. */
int sagemaker_is_meant(const struct environment *environment, const struct options *options);

/* Does what options ask for, and waits for its end. Returns halayrun's exit code. run starts the job that options
 * describe and writes the first cause of its failure to cause_fd (job_cause_read). */
int sagemaker_run(struct halay_log *log, const struct environment *environment, struct options *options,
                  int (*run)(struct halay_log *log, struct options *options, int cause_fd));

#endif
