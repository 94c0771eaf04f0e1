/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: --sagemaker: halayrun is started on every host of a training job, and all of them start one job together,
 * without ssh.
 *
 *     algo-1: halayrun --sagemaker ... the job: ranks 0, 1, the store, all output
 *                |  call (call.h), in ssh's place
 *     algo-2: halayrun --sagemaker ... listens: the agent of ranks 2, 3
 *
 * Each host reads the same order of hosts, naturally sorted, and so knows whether it is the first. When the job has
 * ended the first one tells the others how: every host exits with the same code and, if that is not 0, has the first
 * cause in its failure file.
 */
#ifndef HALAY_LAUNCHER_SAGEMAKER_H
#define HALAY_LAUNCHER_SAGEMAKER_H

#include "base/log.h"
#include "launcher/cli/options.h"
#include "launcher/where/recognise.h"

enum { SAGEMAKER_PORT = 7778 }; /* --sagemaker-port */

/* Is a job to be started so? With --sagemaker, and in a SageMaker job of several hosts unless the command line says how
 * its hosts are found or reached: they have no ssh between them. */
int sagemaker_is_meant(const struct surroundings *surroundings, const struct options *options);
/* Start and wait for the end: halayrun's exit code. run starts the job that options describe, with the first cause of
 * its failure written to cause_fd: the host's name and a newline, then lines. */
int sagemaker_run(struct halay_log *log, const struct surroundings *surroundings, struct options *options,
                  int (*run)(struct halay_log *log, struct options *options, int cause_fd));

/* For halayrun in ssh's place: call options->call. */
int sagemaker_call(struct halay_log *log, const struct surroundings *surroundings, const struct options *options);

/* For --ssh-keys: in folder options->ssh_keys id_ed25519, the same on all hosts of this job, for logins; host_ed25519,
 * likewise, for their sshd; authorized_keys and known_hosts, which name these two only. */
int sagemaker_write_keys(struct halay_log *log, const struct surroundings *surroundings, const struct options *options);

/* sagemaker_program.c: what to start if the command line does not say: the script of hyperparameter sagemaker_program
 * or variable SAGEMAKER_PROGRAM with the hyperparameters as the toolkit spells them, else "halay-tft train", which
 * reads them itself. folder: where to start it, "" for here. HALAY_ERR_FORMAT (said). */
enum halay_status sagemaker_program(const struct surroundings *surroundings, struct words *command, char *folder,
                                    size_t size);
/* What the hosts of this job know, and few others: owned text, NULL without memory. */
char *sagemaker_common_text(const struct surroundings *surroundings);
/* A value as the toolkit passes it: texts as they are, True and False, "a=1,b=2", [1, 'two']. Owned; NULL without
 * memory. For tests. json: the text of one. */
char *sagemaker_spell(const char *json);

#endif
