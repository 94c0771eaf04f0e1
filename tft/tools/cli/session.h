/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions of commands: the library (halay_tft.h) between a command's request and the program's exit status.
 */
#ifndef HALAY_TFT_CLI_SESSION_H
#define HALAY_TFT_CLI_SESSION_H

#include "base/log.h"
#include "halay_tft.h"
#include "tft/tools/cli/interrupt.h"

/* What a command does in its session. */
typedef enum halay_status tft_command_work(struct halay_log *log, struct halay_tft *tft, void *request);

/* Do it, in a session whose lines go where the log's go. deterministic, device: as in halay_tft_options. Returns the
 * program's exit status: 128 + the signal's number if one ended it, else 0 or 1. */
int tft_command_run(struct halay_log *log, const char *deterministic, const char *device, tft_command_work *work,
                    void *request);

/* Join the job; the log gets this rank's number. */
enum halay_status tft_command_join(struct halay_log *log, struct halay_tft *tft);
/* Of a session that has joined: does this rank write and print? */
int tft_command_is_first(const struct halay_tft *tft);

/* What the commands about a run are given. */
struct tft_command_run_data {
    struct halay_tft_model *model; /* owned */
    struct halay_tft_data *data;   /* owned; NULL: none */
};

/* Join the job, open a run's folder and, unless it is NULL, a file of data; from then on signals ask the session to
 * stop. close in any case. */
enum halay_status tft_command_open(struct halay_log *log, struct halay_tft *tft, const char *folder, const char *data,
                                   struct tft_command_run_data *opened);
void tft_command_close(struct tft_command_run_data *opened);

/* Has all arrived that was printed? HALAY_ERR_SYSTEM (logged). */
enum halay_status tft_command_flush(struct halay_log *log);
/* Write a file with this text, which is complete or not there at all; "-" is standard output. HALAY_ERR_SYSTEM
 * (logged). */
enum halay_status tft_command_write(struct halay_log *log, const char *path, const char *text);
/* The same with a form of a result (halay_tft_format). */
enum halay_status tft_command_write_form(struct halay_log *log, const char *json, const char *form, const char *path);
/* Print the table of a result (halay_tft_format), unless one of its files (NULL: none) is standard output. */
enum halay_status tft_command_print_table(struct halay_log *log, const char *json, const char *file, const char *csv);

#endif
