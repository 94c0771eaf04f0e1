/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a SageMaker job as each of them sees it: in the same order everywhere, with a secret between them that
 * nobody sends.
 *
 * The secret is derived from what the job's hosts know: its name and ARN, its hyperparameters, its hosts. That keeps
 * out other jobs and scanners, but not whoever can read the job's description. A file that only the job's role can read
 * (--secret-file, or the channel "secret") or HALAY_SECRET goes into it too; without one each host warns.
 */
#ifndef HALAY_SAGEMAKER_CLUSTER_H
#define HALAY_SAGEMAKER_CLUSTER_H

#include "base/store/store.h"
#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"
#include <limits.h>

struct sagemaker_cluster {
    struct halay_log *log; /* borrowed */
    struct allocation allocation;
    const char **names; /* owned; the hosts, "algo-2" before "algo-10", borrowed from allocation */
    size_t count;
    int port;
    unsigned char secret[HALAY_SECRET_BYTES];
    int is_secret;              /* a file or HALAY_SECRET went into it */
    char secret_file[PATH_MAX]; /* "": there is none */
    char reason[1024];          /* why init failed, if the log knows less; else "" */
};

/* 0, or an exit code (reported). fini in any case. */
int sagemaker_cluster_init(struct halay_log *log, const struct environment *environment, const struct options *options,
                           struct sagemaker_cluster *cluster);
void sagemaker_cluster_fini(struct sagemaker_cluster *cluster);

/* Of a secret that others can derive. */
void sagemaker_cluster_warn(const struct sagemaker_cluster *cluster);

#endif
