/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: a program writes one table of its options; parsing, --help, suggestions, the check of the manual pages
 * and the shells' completions follow from it. Part of the programs, not of the library.
 *
 * Accepted: "--name value", "--name=value", "-n value", "--" before arguments that look like options. A value is
 * accepted as a whole or refused; names are not abbreviated. Only help is printed: an error is one text, which the
 * caller logs. Functions that return int return 0 on error, with the reason in why.
 */
#ifndef HALAY_BASE_OPTIONS_H
#define HALAY_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

/* Exit status of a program that is called wrongly, beside EXIT_SUCCESS and EXIT_FAILURE. */
enum { EXIT_USAGE = 2 };

enum halay_option_kind {
    HALAY_OPTION_HEADING,   /* not an option: the title of the rows that follow; without one it is "Options" */
    HALAY_OPTION_COMMAND,   /* not an option: a command, the first argument of the line */
    HALAY_OPTION_ARGUMENTS, /* struct halay_arguments: all other arguments; its name is for --help */
    HALAY_OPTION_FLAG,      /* int, becomes 1 */
    HALAY_OPTION_NUMBER,    /* int, long or size_t, from min to max */
    HALAY_OPTION_REAL,      /* double, from min to max */
    HALAY_OPTION_SIZE,      /* size_t, "64M" */
    HALAY_OPTION_TEXT,      /* const char *, not empty; borrowed from the value */
    HALAY_OPTION_CHOICE,    /* int: the index in choices; or const char *: the choice, borrowed from choices */
    HALAY_OPTION_TAKEN,     /* parsed by the row's function */
    HALAY_OPTION_HELP,      /* of every table, without a row in it: --help */
    HALAY_OPTION_LIST,      /* of every table: --list-options, which --help does not show */
};

struct halay_arguments {
    char **at; /* borrowed: in argv, whose order changes */
    size_t count;
};

struct halay_option;

/* Takes a value, NULL if the option has none, and stores it at the row's member. */
typedef int halay_option_take(const struct halay_option *option, const char *value, void *at, char *why, size_t size);

struct halay_option {
    const char *name;        /* "--hosts"; NULL ends a table */
    const char *aliases;     /* "-H", or several: "-n, --np"; NULL: none */
    const char *placeholder; /* of the value, "FILE"; NULL: the choices, and an option without choices takes no value */
    const char *help;        /* NULL: neither help nor completions show the option */
    enum halay_option_kind kind;
    size_t offset, size; /* of the member that it sets: HALAY_OPTION_SETS */
    double min, max;
    const char *const *choices; /* accepted values, NULL at the end; NULL: any, or those of the variable */
    const char *variable;       /* the configuration variable that it sets; NULL: none */
    const char *preset;         /* the default that help shows; NULL: nothing */
    halay_option_take *take;    /* HALAY_OPTION_TAKEN */
    const char *required; /* of a text, a choice's text or arguments: its name in the error that it is missing; NULL:
                               * optional. Of arguments, max above 0 is the largest count */
};

#define HALAY_OPTION_SETS(type, member) \
    .offset = offsetof(struct type, member), .size = sizeof((struct type *)NULL)->member

/* A command line, or one command of a program. */
struct halay_command_line {
    const char *command;              /* "halay-tft train" */
    const char *synopsis;             /* after the command in the usage line; of several lines each begins with it */
    const char *about, *notes;        /* paragraphs above and below the options in --help; NULL: none */
    const struct halay_option *table; /* ends with a row without a name */
    const struct halay_option *more;  /* rows below --help; ends as table does; NULL: none */
    int joins_values;                 /* "-n4" is "-n 4" */
    int is_lenient; /* '_' is '-' in names, and true or false may follow a flag: SageMaker's SDKs write both */
};

/* Returns row index of table, then of the standard rows, then of more; NULL past the last one. */
const struct halay_option *halay_command_line_row(const struct halay_command_line *line, size_t index);
/* Returns the option of this name or alias, with its dashes; NULL if it is unknown. */
const struct halay_option *halay_command_line_find(const struct halay_command_line *line, const char *name,
                                                   size_t length);
int halay_option_has_value(const struct halay_option *option);
/* Writes the placeholder or the choices, "shared|private". */
void halay_option_describe_value(const struct halay_option *option, char *text, size_t size);

struct halay_option_given {
    const struct halay_option *option;
    char name[64];     /* as given */
    const char *value; /* borrowed from the line; NULL: none */
};

/* Reads the option (or the command) at **next, and moves *next past it and its value. */
int halay_option_read(const struct halay_command_line *line, char ***next, struct halay_option_given *given, char *why,
                      size_t size);
/* Checks a value and stores it in the row's member of values; changes nothing on error. */
int halay_option_apply(const struct halay_option *option, const char *value, void *values, char *why, size_t size);

enum halay_parsed { HALAY_PARSED, HALAY_PARSED_ANSWERED, HALAY_PARSED_WRONG };

/* Parses the arguments after argv[0], NULL at the end. ANSWERED: help was asked for, and printed if out is not NULL.
 * WRONG: an argument is wrong, or a required row is missing; why has one line, without its end. */
enum halay_parsed halay_command_line_parse(const struct halay_command_line *line, char **argv, void *values, FILE *out,
                                           char *why, size_t size);

void halay_command_line_print_help(const struct halay_command_line *line, FILE *out);
/* Prints a line a row for tools/completions: names with commas between, the value as --help names it, the help, with
 * tabs between the three. */
void halay_command_line_print_list(const struct halay_command_line *line, FILE *out);

#endif
