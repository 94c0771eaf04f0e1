/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner: trials as children, several at a time, each judged at its rungs, until the budget is used up.
 */
#ifndef HALAY_TFT_CLI_TUNER_H
#define HALAY_TFT_CLI_TUNER_H

#include "tft/tools/cli/child.h"
#include "tft/tools/tune/journal.h"
#include "tft/tools/tune/progress.h"
#include "tft/tools/tune/search.h"

enum { TFT_SLOTS_MAX = 64, TFT_LANE_WORD = 256 };

/* Where one trial runs at a time. */
struct tft_lane {
    cpu_set_t cpus;
    int has_cpus;
    char hosts[TFT_LANE_WORD]; /* "": this host */
    struct tft_child child;    /* pid 0: none */
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
    size_t trials_most; /* 0: no limit, as the next one */
    double seconds_most;
    double price;                   /* of an hour; 0: not said */
    double start[TFT_SETTINGS_MAX]; /* the first trial's point */
    int has_start;
    struct tft_trials trials;
    struct tft_journal journal;
    struct tft_lane lanes[TFT_SLOTS_MAX];
    size_t lane_count;
    int is_over; /* no trial begins any more */
    int stopped; /* by this signal; 0: not */
    int lock;
    enum halay_status (*look)(struct tft_tuner *tuner); /* called when a trial has ended */
    void *arg;
};

/* A name of a trial's: its folder, or with ".log" behind it. */
void tft_tuner_path(const struct tft_tuner *tuner, size_t trial, const char *ending, char path[TFT_CHILD_PATH]);

/* Run all trials. Says on standard output how each ended. HALAY_ERR_CANCELED: a signal ended it (stopped);
 * HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY; HALAY_ERR_FORMAT: no trial has a value. */
enum halay_status tft_tuner_run(struct tft_tuner *tuner);

/* What came of it: a new reference; NULL without memory. */
json_t *tft_tuner_result(const struct tft_tuner *tuner);

#endif
