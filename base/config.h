/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: every environment variable that halay reads, in one table (config.def): type, name, default, help.
 *
 * Only config.c and launchers.c read the environment. HALAY_X overrides HOROVOD_X, and a program's setting overrides
 * both. A value that does not parse is an error with the accepted form (HALAY_ERR_CONFIG), never a default. An unknown
 * HALAY_X is a warning with the nearest known name (HALAY_TFT_* belongs to the trainer), an unknown setting an error,
 * an unknown HOROVOD_X a line at info level.
 */
#ifndef HALAY_BASE_CONFIG_H
#define HALAY_BASE_CONFIG_H

#include "base/launchers.h"
#include "base/log.h"
#include <stddef.h>
#include <stdio.h>

enum halay_deterministic { HALAY_DETERMINISTIC_OFF, HALAY_DETERMINISTIC_RUN, HALAY_DETERMINISTIC_RANKS };
enum halay_device_algorithm { HALAY_DEVICE_ALGORITHM_AUTO, HALAY_DEVICE_ALGORITHM_NCCL };
enum halay_gpus { HALAY_GPUS_NONE, HALAY_GPUS_AUTO };
enum halay_join_average { HALAY_JOIN_AVERAGE_ALL, HALAY_JOIN_AVERAGE_PRESENT };

enum { HALAY_TCP_STREAMS_MAX = 8 };

#define HALAY_MEMBER_SIZE(name) size_t name;
#define HALAY_MEMBER_LONG(name) long name;
#define HALAY_MEMBER_INT(name) int name;
#define HALAY_MEMBER_SECONDS(name) int name;
#define HALAY_MEMBER_CHOICE(name) enum halay_##name name;
#define HALAY_MEMBER_PORTS(name) int name[2];
#define HALAY_MEMBER_TEXT(name) char *name;
#define HALAY_MEMBER_NETWORKS(name) char *name;

/* Values after parsing: a member for each row of config.def; the texts are owned. */
struct halay_config {
#define SETTING(kind, member, ...) HALAY_MEMBER_##kind(member)
#define HOROVOD_SETTING SETTING
#define LAUNCHER_SETTING SETTING
#include "base/config.def"
    struct halay_launchers launchers;
};

/* Parses the environment (environ). On error logs one line for each fault, and *config holds nothing. Sets log->level
 * to HALAY_LOG's first, so that the lines of this call obey it. */
enum halay_status halay_config_load(struct halay_log *log, struct halay_config *config);

/* Does the same for a caller that must find the other ranks even after an error, to report it to them: on error *config
 * holds all values that parse, and defaults for the rest; the caller calls fini. settings ("HALAY_X=value", NULL at the
 * end; NULL: none) override the environment; an unknown one, or one that halayrun makes, is HALAY_ERR_CONFIG. */
enum halay_status halay_config_load_rest(struct halay_log *log, const char *const *settings,
                                         struct halay_config *config);
/* Copies a loaded configuration. HALAY_ERR_NO_MEMORY; *to may be finished all the same. */
enum halay_status halay_config_copy(const struct halay_config *from, struct halay_config *to);
void halay_config_fini(struct halay_config *config); /* zeroed or loaded */

/* Prints the table: a line a variable with its value, default and help. */
void halay_config_print(const struct halay_config *config, FILE *out);

/* A row of the table, for documentation, command lines and tests. Static storage. */
struct halay_config_variable {
    const char *name;           /* "HALAY_FUSION_THRESHOLD" */
    const char *horovod;        /* accepted too; NULL: none */
    const char *default_text;   /* "64M"; "": none */
    const char *help;           /* one line */
    const char *const *choices; /* accepted values, NULL at the end; NULL: any that parses */
    int is_set_by_launcher; /* belongs to one rank of one job: halayrun sets it, and never inherits an outer job's */
};
const struct halay_config_variable *halay_config_variable(size_t index); /* NULL past the last one */

/* Checks a value for a variable; set stores it in a loaded configuration. HALAY_ERR_CONFIG: why names the accepted form
 * ("is not a size; write for example 67108864, 64M or 1G"); HALAY_ERR_ARGUMENT: unknown variable. */
enum halay_status halay_config_check(const char *name, const char *value, char *why, size_t size);
enum halay_status halay_config_set(struct halay_config *config, const char *name, const char *value, char *why,
                                   size_t size);

/* The environment, for programs that read it themselves or pass it on; NULL if the variable is absent. */
const char *halay_environment_get(const char *name);
const char *const *halay_environment_all(void); /* "NAME=value", NULL at the end; borrowed until it is changed */

#endif
