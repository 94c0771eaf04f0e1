/* SPDX-License-Identifier: Apache-2.0
 *
 * Options: a command line by a table of what there is; the same table writes --help.
 */
#ifndef HALAY_PERF_OPTIONS_H
#define HALAY_PERF_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

enum perf_option_type {
    PERF_FLAG,      /* int, becomes 1; takes no value */
    PERF_SIZE,      /* size_t, "64M" */
    PERF_LONG,      /* long, from least to most */
    PERF_REAL,      /* double, from least to most */
    PERF_TEXT,      /* const char *, borrowed from argv */
    PERF_WORD,      /* int: the place in words */
    PERF_DTYPE,     /* enum halay_dtype */
    PERF_OP,        /* enum halay_op */
    PERF_ARGUMENTS, /* struct perf_arguments: what is no option, in order; its name is for --help */
};

struct perf_arguments {
    char **at; /* borrowed: in argv, whose order changes */
    int count;
};

struct perf_option {
    char letter;      /* 0: none */
    const char *name; /* without the dashes; NULL: only the letter */
    enum perf_option_type type;
    void *value; /* written only when the option is given and its value is good */
    const char *help;
    const char *placeholder;  /* of the value, in --help; NULL for a flag */
    long least, most;         /* PERF_LONG, PERF_REAL */
    const char *const *words; /* PERF_WORD, ends with NULL */
};

enum perf_parsed { PERF_PARSED, PERF_PARSED_HELP, PERF_PARSED_WRONG };

/* What one subcommand is. */
struct perf_command {
    const char *name;
    const char *summary;               /* one line */
    const char *synopsis;              /* what follows the name in the usage line */
    const char *notes;                 /* paragraphs below the options, "" if none */
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand; the program's exit status */
};

/* Read argv[1..] by the table (ends with an all-zero row). "--name value", "--name=value", "-x value", "-xvalue".
 * --help is known to every table. On PERF_PARSED_WRONG one line has been written to errors: what is wrong and what
 * would be right, the nearest known name for an unknown one. */
enum perf_parsed perf_options_parse(const struct perf_option *table, const char *command, int argc, char **argv,
                                    FILE *errors);

void perf_options_help(const struct perf_option *table, const struct perf_command *command, FILE *out);

#endif
