/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a run's configuration on a command line: kept while it is parsed, taken after the file and the environment.
 */
#ifndef HALAY_TFT_RUN_OPTIONS_H
#define HALAY_TFT_RUN_OPTIONS_H

#include "tft/run_config.h"

/* Zero-initialise. */
struct tft_run_options {
    size_t count;
    const char *values[128]; /* borrowed */
    char names[128][64];
};

/* A struct tft_options' other; arg is a struct tft_run_options. */
enum halay_status tft_run_options_keep(void *arg, const char *name, const char *value);
/* Defaults, the file (NULL: none), the environment, the options; checked as a whole. */
enum halay_status tft_run_options_resolve(struct halay_log *log, const char *path, const struct tft_run_options *given,
                                          struct tft_run_config *config);

#endif
