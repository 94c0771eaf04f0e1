/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: "--name value", "--name=value", "-n value", flags, and the rest. "--a_b" is "--a-b", and behind a flag
 * true or false may stand (True, False), so that what SageMaker's SDKs make of hyperparameters is understood.
 */
#ifndef HALAY_TFT_OPTIONS_H
#define HALAY_TFT_OPTIONS_H

#include "base/log.h"
#include <stddef.h>

/* Exit statuses of the programs. */
enum { TFT_EXIT_OK = 0, TFT_EXIT_FAILED = 1, TFT_EXIT_USAGE = 2 };

struct tft_option {
    const char *name;   /* "schema"; NULL ends the list */
    char letter;        /* 'o' for -o; 0: none */
    const char **value; /* where its value goes; NULL: a flag */
    int *flag;          /* set to 1 */
};

struct tft_options {
    struct halay_log *log;
    const char *command; /* "halay-tft train", for messages */
    const char *help;    /* printed by --help */
    const struct tft_option *list;
    /* Takes options that are not in the list, with their values; may be NULL. HALAY_ERR_CONFIG if it has logged. */
    enum halay_status (*other)(void *arg, const char *name, const char *value);
    void *arg;
    void (*more_help)(void); /* after the help text; may be NULL */
};

/*
 * Parse argv[1 ..]; what is no option is moved to the front: argv[0 .. *rest). rest NULL: there may be none, the first
 * is an error. "--" ends the options. Returns a status to exit with, or -1 to go on. Values are borrowed from argv.
 */
int tft_options_parse(const struct tft_options *options, int argc, char **argv, int *rest);

/* Says what is missing and how to get help; TFT_EXIT_USAGE. */
int tft_options_missing(const struct tft_options *options, const char *what);

/* The exit status for a function's status: 2 where the use is wrong, 1 otherwise. */
int tft_exit_status(enum halay_status status);
/* That of a command which a signal may end (tft/run/interrupt.h): 128 + the signal's number if status is
 * HALAY_ERR_CANCELED and one came, else 0 or 1. */
int tft_interrupt_exit(enum halay_status status);

#endif
