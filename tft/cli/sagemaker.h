/* SPDX-License-Identifier: Apache-2.0
 *
 * SageMaker: what a training job's container says and expects, in files below /opt/ml (HALAY_OPT_ML names another
 * folder).
 *
 *   input/config/hyperparameters.json    texts, each perhaps JSON in itself: options and keys of the configuration
 *   input/config/resourceconfig.json     which hosts there are, and which one this is
 *   input/config/inputdataconfig.json    channels, whose files are in input/data/CHANNEL
 *   checkpoints/                         kept beyond the container, there if the job was asked to keep them
 *   model/, output/data/                 what is uploaded when the job ends
 *   output/failure                       why it failed
 *
 * Where there is no such folder nothing of this happens. Variables of the toolkit (SM_CURRENT_HOST and others) are not
 * believed: under its mpirun each rank has those of the first host.
 */
#ifndef HALAY_TFT_SAGEMAKER_H
#define HALAY_TFT_SAGEMAKER_H

#include "halay.h"
#include "tft/cli/options.h"
#include <jansson.h>
#include <limits.h>

enum { TFT_FAILURE_MAX = 1024 }; /* what SageMaker shows of a failure */

struct tft_sagemaker {
    struct halay_log *log; /* borrowed; its errors are kept for the failure file */
    int is_there;
    char root[PATH_MAX - 256];
    json_t *parameters;   /* owned: hyperparameters, decoded, without the platform's */
    json_t *resources;    /* owned; NULL: none */
    json_t *channels;     /* owned; NULL: none */
    int64_t processes;    /* of each host, as the job was asked to start; 0: not said */
    char where[PATH_MAX]; /* "hyperparameters '...'", for messages */
    char **words;         /* owned: a command line's, with owned copies of those that are not the caller's */
    json_t *copies;       /* owned: them */
    char data[PATH_MAX], schema[PATH_MAX], folder[PATH_MAX], checkpoints[PATH_MAX], metrics[PATH_MAX];
    char reason[TFT_FAILURE_MAX]; /* the first error; guarded by log->lock */
};

/* What a training reads and where it writes, as options say or, what they leave open (NULL), as the container has
 * it. */
struct tft_sagemaker_job {
    const char *data, *schema, *folder, *checkpoints;
    const char *metrics; /* folder of the lines of evaluations */
    int keeps_nothing;   /* there is no place for checkpoints */
};

/* Look, read and check. is_there is 0 outside of a container. Keeps the log's errors from here on. close whatever
 * comes. */
enum halay_status tft_sagemaker_open(struct halay_log *log, struct tft_sagemaker *sagemaker);
/* With a status that is not 0 the first error becomes the failure file, unless there is one: who wrote it knew more. */
void tft_sagemaker_close(struct tft_sagemaker *sagemaker, int status);

/* The command line with those hyperparameters in front that are options of the list (what is on the line overrides
 * them), and without what the platform adds to it; they are taken out of parameters. Borrowed until close. */
enum halay_status tft_sagemaker_arguments(struct tft_sagemaker *sagemaker, const struct tft_option *list, int *argc,
                                          char ***argv);
/* Complete the job; makes the folders. */
enum halay_status tft_sagemaker_places(struct tft_sagemaker *sagemaker, struct tft_sagemaker_job *job);

/* All ranks together: does each host of the job have ranks? HALAY_ERR_CONFIG on all of them, with what usually causes
 * it, if not. */
enum halay_status tft_sagemaker_check_ranks(struct tft_sagemaker *sagemaker, struct halay_context *ctx);
/* At the end, on rank 0: what was learnt about the training to where it is uploaded from. */
enum halay_status tft_sagemaker_publish(struct tft_sagemaker *sagemaker, const char *metrics);

#endif
