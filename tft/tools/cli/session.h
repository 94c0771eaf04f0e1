/* SPDX-License-Identifier: Apache-2.0
 *
 * What all commands share: option tables, a session of the library (halay_tft.h) between a command's request and the
 * program's exit status, signals that ask it to stop, and output.
 */
#ifndef HALAY_TFT_CLI_SESSION_H
#define HALAY_TFT_CLI_SESSION_H

#include "base/log.h"
#include "base/options.h"
#include "halay_tft.h"

#define COMMAND(name, summary) int tft_cmd_##name(struct halay_log *log, char **argv);
#include "tft/tools/cli/commands.def"
#undef COMMAND

/* ---- options ---- */

/* Parses a command's arguments into values, as the line's rows say. Returns -1 to continue, or a status to exit with:
 * help was printed, or an error logged. */
int tft_options_parse(struct halay_log *log, const struct halay_command_line *line, char **argv, void *values);

/* Logs what is missing and how to get help. Returns EXIT_USAGE. */
int tft_options_missing(struct halay_log *log, const struct halay_command_line *line, const char *what);

/* Values of options of several commands, with NULL at the end. */
extern const char *const tft_option_splits[], *const tft_option_calibrations[], *const tft_option_formats[];

/* A row for the device that forecasts. Without it a command takes HALAY_TFT_DEVICE. */
extern const char *const tft_option_devices[];
#define TFT_OPTION_DEVICE(sets)                                                                                       \
    {                                                                                                                 \
        "--device", NULL, NULL, "what computes: the processor, or GPUs, one a rank (cpu)", HALAY_OPTION_CHOICE, sets, \
            .choices = tft_option_devices                                                                             \
    }

/* The exit status for a function's status: EXIT_USAGE for HALAY_ERR_CONFIG, EXIT_FAILURE for other errors. */
int tft_exit_status(enum halay_status status);

/* ---- sessions ---- */

/* A command's work in its session. */
typedef enum halay_status tft_command_work(struct halay_log *log, struct halay_tft *tft, void *request);

/* Runs the work in a session whose messages go to the log. deterministic, device: as in halay_tft_options. Returns the
 * program's exit status: 128 + the signal's number if a signal ended it, else 0 or 1. */
int tft_command_run(struct halay_log *log, const char *deterministic, const char *device, tft_command_work *work,
                    void *request);

/* Joins the job; the log gets this rank's number. */
enum halay_status tft_command_join(struct halay_log *log, struct halay_tft *tft);
/* Returns nonzero if this rank writes and prints. The session has joined. */
int tft_command_is_first(const struct halay_tft *tft);

/* A run's model, and data for it. */
struct tft_command_run_data {
    struct halay_tft_model *model; /* owned */
    struct halay_tft_data *data;   /* owned; NULL: none */
};

/* Joins the job, opens the run's folder of rank 0 and, unless it is NULL, a file of data on each rank; from then on
 * signals ask the session to stop. close in any case. */
enum halay_status tft_command_open(struct halay_log *log, struct halay_tft *tft, const char *folder, const char *data,
                                   struct tft_command_run_data *opened);
void tft_command_close(struct tft_command_run_data *opened);

/* ---- signals ---- */

/*
 * SIGTERM, SIGINT and SIGUSR1 as a request to stop (halay_tft_stop). The first one is recorded, so that a checkpoint
 * can be written (a spot instance is reclaimed, a job's time is over); a second one, at least a second later, ends the
 * process as usual.
 */

/* Watches from now on, on the main thread. A signal that was ignored at the process's start stays ignored. */
void tft_interrupt_watch(struct halay_tft *tft);
/* Ends the requests: the session is about to end. */
void tft_interrupt_forget(void);
/* Adds a signal with the same meaning, which never ends the process: SIGCONT, which Open MPI sends before SIGTERM when
 * mpirun ends. */
void tft_interrupt_watch_also(int number);

/* ---- output ---- */

/* Flushes standard output. HALAY_ERR_SYSTEM (logged): a write failed. */
enum halay_status tft_command_flush(struct halay_log *log);
/* Writes a form of a result (halay_tft_format) as a whole file; "-" is standard output. HALAY_ERR_SYSTEM (logged). */
enum halay_status tft_command_write_form(struct halay_log *log, const char *json, const char *form, const char *path);
/* Prints the table of a result (halay_tft_format), unless one of its files (NULL: none) is standard output. */
enum halay_status tft_command_print_table(struct halay_log *log, const char *json, const char *file, const char *csv);

#endif
