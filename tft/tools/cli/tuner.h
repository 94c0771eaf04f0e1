/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner: trials as children, several at a time, each judged at its rungs, until the budget is used up.
 */
#ifndef HALAY_TFT_CLI_TUNER_H
#define HALAY_TFT_CLI_TUNER_H

#include "tft/tools/tune/journal.h"
#include "tft/tools/tune/search.h"
#include <sched.h>
#include <sys/types.h>

enum { TFT_CHILD_PATH = 4096 };

/* Finds the programs: this one, and halayrun, which is given, beside it, or in PATH. HALAY_ERR_CONFIG (logged): no
 * halayrun was found. */
struct tft_programs {
    char self[TFT_CHILD_PATH], halayrun[TFT_CHILD_PATH];
};
enum halay_status tft_programs_find(struct halay_log *log, const char *halayrun, struct tft_programs *programs);

struct tft_child {
    pid_t pid; /* 0: none runs */
};

/* Starts a command whose output is appended to a file. cpus: the processors that it may run on; NULL: those of this
 * process. HALAY_ERR_SYSTEM (logged): it could not be started. */
enum halay_status tft_child_start(struct halay_log *log, char *const *command, const char *output,
                                  const cpu_set_t *cpus, struct tft_child *child);
/* Returns nonzero if it has ended; *code is then its exit code as a shell has it. Does not block. */
int tft_child_has_ended(struct tft_child *child, int *code);

/* ---- the tuner ---- */

enum { TFT_SLOTS_MAX = 64, TFT_HOSTS_SIZE = 256 };

/* A place that runs one trial at a time. */
struct tft_worker {
    cpu_set_t cpus;
    int has_cpus;
    char hosts[TFT_HOSTS_SIZE]; /* "": this host */
    struct tft_child child;     /* pid 0: none */
    size_t trial;
};

struct tft_tuner {
    struct halay_log *log;
    const char *data, *folder;
    struct tft_programs programs;
    int ranks;
    json_t *config; /* borrowed: the keys that all trials have */
    struct tft_space space;
    struct tft_search search;
    struct tft_judging judging;
    size_t trials_max; /* 0: no limit, as the next one */
    double seconds_max;
    double price;                   /* of an hour; 0: not given */
    double start[TFT_SETTINGS_MAX]; /* the first trial's point */
    int has_start;
    struct tft_trials trials;
    struct tft_journal journal;
    struct tft_worker workers[TFT_SLOTS_MAX];
    size_t worker_count;
    int is_over; /* no further trial begins */
    int stopped; /* by this signal; 0: not */
    int lock;
    enum halay_status (*look)(struct tft_tuner *tuner); /* called when a trial has ended */
    void *arg;
};

/* The path of a trial's folder, or with ".log" as ending of its output. */
void tft_tuner_path(const struct tft_tuner *tuner, size_t trial, const char *ending, char path[TFT_CHILD_PATH]);

/* Runs all trials, and prints how each ended. HALAY_ERR_CANCELED: a signal ended it (stopped); HALAY_ERR_SYSTEM,
 * HALAY_ERR_NO_MEMORY; HALAY_ERR_FORMAT: no trial has a value. */
enum halay_status tft_tuner_run(struct tft_tuner *tuner);

/* The result as a document: a new reference; NULL without memory. */
json_t *tft_tuner_result(const struct tft_tuner *tuner);

#endif
