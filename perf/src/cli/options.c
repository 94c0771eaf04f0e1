/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of halay-perf. One table a subcommand; nothing here knows what an option is for.
 *
 * Strict: a value must parse as a whole, an option is never taken by a part of its name, and what is no option is
 * refused, because a measurement with an option that was silently dropped is a wrong figure.
 */
#include "perf/src/cli/options.h"
#include "base/config.h"
#include "halay_types.h"
#include <string.h>

enum { NAMES_MAX = 64 };

static int is_end(const struct perf_option *option)
{
    return !option->letter && !option->name;
}

static const struct perf_option *find_letter(const struct perf_option *table, char letter)
{
    for (; !is_end(table); table++)
        if (table->letter == letter)
            return table;
    return NULL;
}

static const struct perf_option *find_name(const struct perf_option *table, const char *name, size_t length)
{
    for (; !is_end(table); table++)
        if (table->name && table->type != PERF_ARGUMENTS && strlen(table->name) == length &&
            !strncmp(table->name, name, length))
            return table;
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int find_word(const char *const *words, const char *text)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], text))
            return i;
    return -1;
}

/* HALAY_OK and *option->value set, or an error and nothing touched. */
static enum halay_status store(const struct perf_option *option, const char *text)
{
    int place;

    switch (option->type) {
    case PERF_FLAG:
    case PERF_ARGUMENTS:
        return HALAY_ERR_ARGUMENT;
    case PERF_SIZE:
        return halay_parse_size(text, option->value);
    case PERF_LONG:
        return halay_parse_long(text, option->least, option->most, option->value);
    case PERF_REAL:
        return halay_parse_double(text, (double)option->least, (double)option->most, option->value);
    case PERF_TEXT:
        if (!*text)
            return HALAY_ERR_ARGUMENT;
        *(const char **)option->value = text;
        return HALAY_OK;
    case PERF_WORD:
        place = find_word(option->words, text);
        if (place < 0)
            return HALAY_ERR_ARGUMENT;
        *(int *)option->value = place;
        return HALAY_OK;
    case PERF_DTYPE:
        return halay_dtype_parse(text, option->value);
    case PERF_OP:
        return halay_op_parse(text, option->value);
    }
    return HALAY_ERR_ARGUMENT;
}

/* "one of a, b, c". */
static void print_words(const struct perf_option *option, FILE *out)
{
    const char *separator = "";

    fputs("one of ", out);
    if (option->type == PERF_WORD)
        for (int i = 0; option->words[i]; i++, separator = ", ")
            fprintf(out, "%s%s", separator, option->words[i]);
    else if (option->type == PERF_DTYPE)
        for (int i = 0; i < HALAY_DTYPE_COUNT; i++, separator = ", ")
            fprintf(out, "%s%s", separator, halay_dtype_name((enum halay_dtype)i));
    else
        for (int i = 0; i < HALAY_OP_COUNT; i++, separator = ", ")
            fprintf(out, "%s%s", separator, halay_op_name((enum halay_op)i));
}

static void print_wanted(const struct perf_option *option, FILE *out)
{
    switch (option->type) {
    case PERF_SIZE:
        fputs("a size such as 4, 16K, 64M", out);
        break;
    case PERF_LONG:
        fprintf(out, "a whole number from %ld to %ld", option->least, option->most);
        break;
    case PERF_REAL:
        fprintf(out, "a number from %ld to %ld", option->least, option->most);
        break;
    case PERF_WORD:
    case PERF_DTYPE:
    case PERF_OP:
        print_words(option, out);
        break;
    case PERF_TEXT:
    case PERF_FLAG:
    case PERF_ARGUMENTS:
        fputs("a value that is not empty", out);
        break;
    }
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static void complain_unknown(const struct perf_option *table, const char *command, const char *argument, FILE *errors)
{
    const char *names[NAMES_MAX + 2], *dashless = argument + strspn(argument, "-");
    char name[64];
    int count = 0;

    for (; !is_end(table) && count < NAMES_MAX; table++)
        if (table->name && table->type != PERF_ARGUMENTS)
            names[count++] = table->name;
    names[count++] = "help";
    names[count] = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(dashless, "="), dashless);
    const char *nearest = halay_nearest_word(name, names);
    fprintf(errors, "halay-perf %s: unknown %s '%s'", command, *argument == '-' ? "option" : "argument", argument);
    if (nearest)
        fprintf(errors, "; did you mean '--%s'?\n", nearest);
    else
        fprintf(errors, "; 'halay-perf %s --help' lists what there is\n", command);
}

/* Which option argv[*index] is, and its value if that is part of the same argument. */
static const struct perf_option *recognise(const struct perf_option *table, const char *argument, const char **value)
{
    const struct perf_option *option;

    *value = NULL;
    if (!strncmp(argument, "--", 2)) {
        size_t length = strcspn(argument + 2, "=");
        option = find_name(table, argument + 2, length);
        if (argument[2 + length])
            *value = argument + 2 + length + 1;
        return option;
    }
    if (argument[0] != '-' || !argument[1])
        return NULL;
    option = find_letter(table, argument[1]);
    if (option && argument[2])
        *value = argument + 2;
    return option;
}

/* Handle the argument at argv[*index]; *index moves on to its last word. */
static enum perf_parsed parse_one(const struct perf_option *table, const char *command, int argc, char **argv,
                                  int *index, FILE *errors)
{
    const char *shown = argv[*index], *value;

    if (!strcmp(shown, "--help") || !strcmp(shown, "-h"))
        return PERF_PARSED_HELP;
    const struct perf_option *option = recognise(table, shown, &value);
    if (!option) {
        complain_unknown(table, command, shown, errors);
        return PERF_PARSED_WRONG;
    }
    if (option->type == PERF_FLAG && value) {
        fprintf(errors, "halay-perf %s: option '%s' takes no value\n", command, shown);
        return PERF_PARSED_WRONG;
    }
    if (option->type == PERF_FLAG) {
        *(int *)option->value = 1;
        return PERF_PARSED;
    }
    if (!value && *index + 1 >= argc)
        fprintf(errors, "halay-perf %s: option '%s' has no value; it takes ", command, shown);
    else if (store(option, value ? value : (value = argv[++*index])) == HALAY_OK)
        return PERF_PARSED;
    else
        fprintf(errors, "halay-perf %s: value '%s' of option '%.*s' is not ", command, value,
                shown[1] == '-' ? (int)strcspn(shown, "=") : 2, shown);
    print_wanted(option, errors);
    fputc('\n', errors);
    return PERF_PARSED_WRONG;
}

/* Where the table wants arguments that are no options, NULL: nowhere. */
static struct perf_arguments *arguments_of(const struct perf_option *table)
{
    for (; !is_end(table); table++)
        if (table->type == PERF_ARGUMENTS)
            return table->value;
    return NULL;
}

enum perf_parsed perf_options_parse(const struct perf_option *table, const char *command, int argc, char **argv,
                                    FILE *errors)
{
    struct perf_arguments *arguments = arguments_of(table);
    enum perf_parsed result = PERF_PARSED;
    int kept = 0;

    for (int i = 1; i < argc && result == PERF_PARSED; i++)
        if (arguments && (argv[i][0] != '-' || !argv[i][1]))
            argv[1 + kept++] = argv[i];
        else
            result = parse_one(table, command, argc, argv, &i, errors);
    if (arguments)
        *arguments = (struct perf_arguments){ .at = argv + 1, .count = kept };
    return result;
}

static void print_option(const struct perf_option *option, FILE *out)
{
    char left[64], letter[8] = "";
    const char *value = option->placeholder ? option->placeholder : "";

    if (option->letter)
        snprintf(letter, sizeof letter, "-%c%s", option->letter, option->name ? ", " : "");
    if (option->type == PERF_ARGUMENTS)
        snprintf(left, sizeof left, "%s", option->name);
    else if (option->name)
        snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, *value ? " " : "", value);
    else
        snprintf(left, sizeof left, "%s %s", letter, value);
    fprintf(out, "  %-24s %s", left, option->help);
    if (option->type == PERF_WORD || option->type == PERF_DTYPE || option->type == PERF_OP) {
        fputs(": ", out);
        print_words(option, out);
    }
    fputc('\n', out);
}

void perf_options_help(const struct perf_option *table, const struct perf_command *command, FILE *out)
{
    fprintf(out, "usage: halay-perf %s %s\n\n%s\n\n", command->name, command->synopsis, command->summary);
    for (; !is_end(table); table++)
        print_option(table, out);
    fprintf(out, "  %-24s %s\n", "-h, --help", "this text");
    if (*command->notes)
        fprintf(out, "\n%s", command->notes);
}
