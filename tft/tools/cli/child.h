/* SPDX-License-Identifier: Apache-2.0
 *
 * Children: trainings as processes of their own. One whose parent dies is asked to end (SIGTERM).
 */
#ifndef HALAY_TFT_CLI_CHILD_H
#define HALAY_TFT_CLI_CHILD_H

#include "base/log.h"
#include "halay_types.h"
#include <sched.h>
#include <sys/types.h>

enum { TFT_CHILD_PATH = 4096 };

/* The programs: this one, and halayrun beside it (or given; or in PATH). HALAY_ERR_CONFIG (logged): there is none. */
struct tft_programs {
    char self[TFT_CHILD_PATH], halayrun[TFT_CHILD_PATH];
};
enum halay_status tft_programs_find(struct halay_log *log, const char *halayrun, struct tft_programs *programs);

struct tft_child {
    pid_t pid; /* 0: none runs */
};

/* Start a command, whose output goes to a file, behind what it has. cpus: where it may run; NULL: where this
 * process may. Logged: HALAY_ERR_SYSTEM, it could not be started. */
enum halay_status tft_child_start(struct halay_log *log, char *const *command, const char *output,
                                  const cpu_set_t *cpus, struct tft_child *child);
/* Has it ended? Does not block. *code: how, as a shell has it. */
int tft_child_has_ended(struct tft_child *child, int *code);

#endif
