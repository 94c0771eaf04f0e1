/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: a program writes one table of its options; parsing, --help, suggestions, the check of the manual pages
 * and the shells' completions follow from it. Part of the programs, not of the library.
 *
 * "--name value", "--name=value", "-n value", "--" before what is no option. A value is good as a whole or refused, and
 * no option is known by a part of its name. Nothing is printed but help: what is wrong is one text for the caller to
 * say.
 */
#ifndef HALAY_BASE_OPTIONS_H
#define HALAY_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

/* Exit status of every program that is called wrongly, beside EXIT_SUCCESS and EXIT_FAILURE. */
enum { EXIT_USAGE = 2 };

enum halay_option_kind {
    HALAY_OPTION_HEADING,   /* no option: its name stands above those that follow; without one it is "Options" */
    HALAY_OPTION_COMMAND,   /* no option: its name is a command's, the first word of the line */
    HALAY_OPTION_ARGUMENTS, /* struct halay_arguments: what is no option; its name is for --help */
    HALAY_OPTION_FLAG,      /* int, becomes 1 */
    HALAY_OPTION_NUMBER,    /* int, long or size_t, from least to most */
    HALAY_OPTION_REAL,      /* double, from least to most */
    HALAY_OPTION_SIZE,      /* size_t, "64M" */
    HALAY_OPTION_TEXT,      /* const char *, not empty; borrowed from the value */
    HALAY_OPTION_WORD,      /* int: the place in words; or const char *: the word, borrowed from words */
    HALAY_OPTION_TAKEN,     /* by the row's function */
    HALAY_OPTION_HELP,      /* of every table, with no row in it: --help */
    HALAY_OPTION_LIST,      /* likewise: --list-options, which --help does not show */
};

struct halay_arguments {
    char **at; /* borrowed: in argv, whose order changes */
    size_t count;
};

struct halay_option;

/* Takes a value, NULL if the option has none. at: where the row says. 0, with what is wrong ("'x' is no day") in
 * why. */
typedef int halay_option_take(const struct halay_option *option, const char *value, void *at, char *why, size_t size);

struct halay_option {
    const char *name;        /* "--hosts"; NULL ends a table */
    const char *aliases;     /* "-H", or several: "-n, --np"; NULL: none */
    const char *placeholder; /* of the value, "FILE". NULL: the words stand for it, and an option without words takes
                              * no value */
    const char *help;        /* NULL: neither help nor completions show the option */
    enum halay_option_kind kind;
    size_t offset, size; /* of the member that it sets: HALAY_OPTION_SETS */
    double least, most;
    const char *const *words; /* that the value may be, NULL at the end; NULL: any, or those of the variable */
    const char *variable;     /* of the configuration table, whose value it gives; NULL: none */
    const char *preset;       /* what help shows as the value without the option; NULL: nothing */
    halay_option_take *take;  /* HALAY_OPTION_TAKEN */
    const char *required; /* of a text, a word's text or arguments: what an error calls it where it is missing; NULL:
                               * it may be absent. Of arguments, `most` above 0 is the largest count */
};

#define HALAY_OPTION_SETS(type, member) \
    .offset = offsetof(struct type, member), .size = sizeof((struct type *)NULL)->member

/* A command line, or one command of a program. */
struct halay_command_line {
    const char *command;              /* "halay-tft train" */
    const char *synopsis;             /* behind the command in the usage line; of several lines each begins with it */
    const char *about, *notes;        /* paragraphs above and below the options in --help; NULL: none */
    const struct halay_option *table; /* ends with a row without a name */
    const struct halay_option *more;  /* likewise, below --help; NULL: none */
    int joins_values;                 /* "-n4" is "-n 4" */
    int is_lenient; /* '_' is '-' in names, and true or false may follow a flag: as SageMaker's SDKs write */
};

/* The rows of table, those that every table has, and the rows of more; NULL past the last one. */
const struct halay_option *halay_command_line_row(const struct halay_command_line *line, size_t index);
/* The option of this name or alias, with its dashes; NULL: there is none. */
const struct halay_option *halay_command_line_find(const struct halay_command_line *line, const char *name,
                                                   size_t length);
/* The words that its value may be; NULL: any. */
const char *const *halay_option_words(const struct halay_option *option);
int halay_option_has_value(const struct halay_option *option);
/* The placeholder or the words, "shared|private". */
void halay_option_describe_value(const struct halay_option *option, char *text, size_t size);

struct halay_option_given {
    const struct halay_option *option;
    char name[64];     /* as given */
    const char *value; /* borrowed from the line; NULL: none */
};

/* Read the option (or the command) that **next is, and move *next behind it and its value. 0: what is wrong is in
 * why. */
int halay_option_read(const struct halay_command_line *line, char ***next, struct halay_option_given *given, char *why,
                      size_t size);
/* Check a value and put it where the row says in values. 0: what is wrong with the value is in why, nothing is
 * changed. */
int halay_option_apply(const struct halay_option *option, const char *value, void *values, char *why, size_t size);

enum halay_parsed { HALAY_PARSED, HALAY_PARSED_ANSWERED, HALAY_PARSED_WRONG };

/* Read the words after argv[0], NULL at the end. ANSWERED: help was asked for, and printed if out is not NULL. WRONG: a
 * word is wrong, or a required row is missing; one line, without its end, is in why. */
enum halay_parsed halay_command_line_parse(const struct halay_command_line *line, char **argv, void *values, FILE *out,
                                           char *why, size_t size);

void halay_command_line_print_help(const struct halay_command_line *line, FILE *out);
/* For tools/completions: a line a row, its names with commas between, its value as --help calls it, and its help, with
 * tabs between them. */
void halay_command_line_print_list(const struct halay_command_line *line, FILE *out);

#endif
