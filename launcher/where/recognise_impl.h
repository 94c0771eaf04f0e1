/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of recognise share: recognise.c (which, and ranks that run already), recognise_batch.c (SLURM, LSF,
 * PBS), recognise_sagemaker.c, recognise_cloud.c (Kubernetes, TF_CONFIG).
 */
#ifndef HALAY_LAUNCHER_RECOGNISE_IMPL_H
#define HALAY_LAUNCHER_RECOGNISE_IMPL_H

#include "launcher/where/recognise.h"

struct json_t;

struct finding {
    const struct environment *from; /* borrowed */
    struct allocation *to;          /* borrowed */
    char *why;
    size_t size;
};

/* The variable's value, NULL if it is absent or empty. */
const char *find_variable(const struct finding *f, const char *name);
int has_file(const struct finding *f, const char *path);
/* Returns nonzero if it is in PATH. */
int has_program(const struct finding *f, const char *name);
/* root and path joined, in place; returns place. */
const char *whole_path(const struct finding *f, const char *path, char *place, size_t size);

/* Writes why and returns HALAY_ERR_FORMAT. */
enum halay_status wrong_finding(const struct finding *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As hosts_parse and hosts_read; why begins with the source's name. */
enum halay_status find_hosts(const struct finding *f, const char *source, const char *text, int slots);
enum halay_status find_hostfile(const struct finding *f, const char *source, const char *path);
/* A variable that holds a number from least to most: *number, unchanged if the variable is absent. */
enum halay_status find_number(const struct finding *f, const char *name, int least, int most, int *number);

/* Lists of hosts in JSON: append an array's strings, without their ports, to names; make names the hosts. */
enum halay_status add_host_names(const struct finding *f, const char *source, const struct json_t *array,
                                 struct args *names);
enum halay_status take_host_names(const struct finding *f, const char *source, const struct args *names, int slots);
/* A copy of text in *place; nothing if text is NULL. */
void keep_text(const struct finding *f, const char *text, char **place);

int is_sagemaker(const struct finding *f);
/* Called if the allocation's marks are there, with to->kind set. */
enum halay_status recognise_sagemaker(const struct finding *f);
enum halay_status recognise_kubernetes(const struct finding *f);
enum halay_status recognise_slurm(const struct finding *f);
enum halay_status recognise_lsf(const struct finding *f);
enum halay_status recognise_pbs(const struct finding *f);
enum halay_status recognise_tf_config(const struct finding *f);

#endif
