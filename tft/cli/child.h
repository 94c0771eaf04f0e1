/* SPDX-License-Identifier: Apache-2.0
 *
 * Children: trainings as processes of their own, by halayrun.
 */
#ifndef HALAY_TFT_CLI_CHILD_H
#define HALAY_TFT_CLI_CHILD_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>

enum { TFT_CHILD_PATH = 4096 };

/* The programs: this one, and halayrun beside it (or given; or in PATH). HALAY_ERR_CONFIG (logged): there is none. */
struct tft_programs {
    char self[TFT_CHILD_PATH], halayrun[TFT_CHILD_PATH];
};
enum halay_status tft_programs_find(struct halay_log *log, const char *halayrun, struct tft_programs *programs);

struct tft_child_end {
    int status;        /* from wait4(2) */
    double seconds;    /* from its start to its end */
    size_t peak_bytes; /* the largest memory of one of its processes */
};

/* Run a command, whose output goes to a file, to its end. Logged: HALAY_ERR_SYSTEM, it could not be started. */
enum halay_status tft_child_run(struct halay_log *log, char *const *command, const char *output,
                                struct tft_child_end *end);

#endif
