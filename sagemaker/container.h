/* SPDX-License-Identifier: Apache-2.0
 *
 * What a training job's container tells the trainer, and expects of it, in files below /opt/ml (opt_ml.h).
 *
 *   input/config/hyperparameters.json    texts, each perhaps JSON in itself: options and keys of the configuration
 *   input/config/resourceconfig.json     which hosts there are, and which one this is
 *   input/config/inputdataconfig.json    channels, whose files are in input/data/CHANNEL
 *   checkpoints/                         kept beyond the container, there if the job asked for that
 *   model/, output/data/                 uploaded when the job ends
 *   output/failure                       why it failed
 *
 * The toolkit's variables (SM_CURRENT_HOST and others) are not trusted: under its mpirun every rank has those of the
 * first host.
 */
#ifndef HALAY_SAGEMAKER_CONTAINER_H
#define HALAY_SAGEMAKER_CONTAINER_H

#include "halay.h"
#include "tft/tools/cli/cmd_train.h"
#include <jansson.h>
#include <limits.h>

enum { SAGEMAKER_REASON_MAX = 1024 }; /* what SageMaker shows of a failure */

struct sagemaker_container {
    struct halay_log *log; /* borrowed; its first error is kept for the failure file */
    int is_there;          /* else this is no container, and only open and close are called */
    json_t *parameters;    /* owned: hyperparameters, decoded, without the platform's own */
    json_t *resources;     /* owned; NULL: none */
    json_t *channels;      /* owned; NULL: none */
    long processes;        /* that the job was asked to start on each host; 0: it does not say */
    char where[PATH_MAX];  /* "hyperparameters in '...'", for messages */
    char **args;           /* owned: a command line, with owned copies of those words that are not the caller's */
    json_t *copies;        /* owned: the copies */
    char data[PATH_MAX], schema[PATH_MAX], folder[PATH_MAX], checkpoints[PATH_MAX], metrics[PATH_MAX];
    char reason[SAGEMAKER_REASON_MAX]; /* the first error; guarded by log->lock */
};

/* Looks for the files, reads and checks them. From here on the log's first error is kept. close in any case. */
enum halay_status sagemaker_container_open(struct halay_log *log, struct sagemaker_container *container);
/* If code is not 0 the first error goes into the failure file, unless there is one: whoever wrote that knew more. */
void sagemaker_container_close(struct sagemaker_container *container, int code);

/* Does a hyperparameter of this name come from an SDK or a tuning job, for the platform? */
int sagemaker_is_for_platform(const char *name);
/* "" or Python's None: SDK v2's generic Estimator spells values as str() does. */
int sagemaker_is_none(const char *text);

/* Puts those hyperparameters that are options of halay-tft train in front of the command line, whose own words
 * override them, and drops from it what the platform adds. The options are taken out of parameters. Borrowed until
 * close. */
enum halay_status sagemaker_complete_words(struct sagemaker_container *container, char ***argv);

/* Fills in from the container what the command line leaves open, and makes the folders. Returns the exit status, or
 * -1. */
int sagemaker_find_places(struct sagemaker_container *container, struct tft_train_command *command);
/* At the end, on rank 0: copy metrics.jsonl of this folder to where SageMaker uploads it from. */
enum halay_status sagemaker_publish(struct sagemaker_container *container, const char *metrics);

/* All ranks together: does each host of the job have ranks? If not, HALAY_ERR_CONFIG on all of them, with the usual
 * causes. */
enum halay_status sagemaker_check_ranks(struct sagemaker_container *container, struct halay_context *ctx);

#endif
