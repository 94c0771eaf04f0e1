/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of recognise share: recognise.c (which, and ranks that run already), recognise_batch.c (SLURM, LSF,
 * PBS), recognise_cloud.c (SageMaker, Kubernetes, TF_CONFIG).
 */
#ifndef HALAY_LAUNCHER_RECOGNISE_IMPL_H
#define HALAY_LAUNCHER_RECOGNISE_IMPL_H

#include "launcher/where/recognise.h"

struct finding {
    const struct surroundings *from; /* borrowed */
    struct allocation *to;           /* borrowed */
    char *why;
    size_t size;
};

/* The variable if it is there and not empty, else NULL. */
const char *find_variable(const struct finding *f, const char *name);
int has_file(const struct finding *f, const char *path);
/* Is it in PATH? */
int has_program(const struct finding *f, const char *name);
/* root and path, in place; the place. */
const char *whole_path(const struct finding *f, const char *path, char *place, size_t size);

/* Says why and returns HALAY_ERR_FORMAT. */
enum halay_status wrong_finding(const struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As hosts_parse and hosts_read, with the source's name in front of why. */
enum halay_status find_hosts(const struct finding *f, const char *source, const char *text, int slots);
enum halay_status find_hostfile(const struct finding *f, const char *source, const char *path);
/* A variable that holds a number from least to most: *number, left alone if the variable is not there. */
enum halay_status find_number(const struct finding *f, const char *name, int least, int most, int *number);

/* Each is called if its marks are there, with to->kind set. */
enum halay_status recognise_sagemaker(const struct finding *f);
enum halay_status recognise_kubernetes(const struct finding *f);
enum halay_status recognise_slurm(const struct finding *f);
enum halay_status recognise_lsf(const struct finding *f);
enum halay_status recognise_pbs(const struct finding *f);
enum halay_status recognise_tf_config(const struct finding *f);

/* A file of input/config below /opt/ml, or HALAY_OPT_ML, in place; the place. */
const char *sagemaker_file(const struct finding *f, const char *name, char *place, size_t size);
extern const char sagemaker_resources[]; /* the name of its file */

#endif
