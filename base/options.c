/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines by tables: rows, values, the line, help. Nothing is allocated.
 */
#include "base/options.h"
#include "base/config.h"
#include "base/number_text.h"
#include "base/parse.h"
#include <string.h>

enum { NAMES_MAX = 128 }; /* considered for a suggestion */

/* Rows that every table has. */
static const struct halay_option standard[] = {
    { "--help", "-h", NULL, "print this help", HALAY_OPTION_HELP, .size = 0 },
    { "--list-options", NULL, NULL, NULL, HALAY_OPTION_LIST, .size = 0 },
    { .name = NULL },
};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

const struct halay_option *halay_command_line_row(const struct halay_command_line *line, size_t index)
{
    const struct halay_option *const tables[] = { line->table, standard, line->more };

    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct halay_option *o = tables[t]; o && o->name; o++)
            if (index-- == 0)
                return o;
    return NULL;
}

static int is_option(const struct halay_option *o)
{
    return o->kind > HALAY_OPTION_ARGUMENTS;
}

/* Returns nonzero if text is the first length characters of name. */
static int is_named(const char *name, const char *text, size_t length, int is_lenient)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != text[i] && !(is_lenient && name[i] == '-' && text[i] == '_'))
            return 0;
    return 1;
}

static int has_name(const struct halay_option *o, const char *text, size_t length, int is_lenient)
{
    if (strlen(o->name) == length && is_named(o->name, text, length, is_lenient))
        return 1;
    for (const char *alias = o->aliases; alias && *alias; alias += strspn(alias, ", ")) {
        size_t end = strcspn(alias, ",");
        if (end == length && is_named(alias, text, length, is_lenient))
            return 1;
        alias += end;
    }
    return 0;
}

const struct halay_option *halay_command_line_find(const struct halay_command_line *line, const char *name,
                                                   size_t length)
{
    const struct halay_option *o;

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++)
        if ((is_option(o) || o->kind == HALAY_OPTION_COMMAND) && has_name(o, name, length, line->is_lenient))
            return o;
    return NULL;
}

static const struct halay_option *find_kind(const struct halay_command_line *line, enum halay_option_kind kind)
{
    const struct halay_option *o;

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++)
        if (o->kind == kind)
            return o;
    return NULL;
}

static const char *const *option_choices(const struct halay_option *option)
{
    const struct halay_config_variable *v;

    if (option->choices || !option->variable)
        return option->choices;
    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        if (!strcmp(v->name, option->variable))
            return v->choices;
    return NULL;
}

int halay_option_has_value(const struct halay_option *option)
{
    return option->placeholder || option_choices(option);
}

void halay_option_describe_value(const struct halay_option *o, char *text, size_t size)
{
    if (o->placeholder)
        snprintf(text, size, "%s", o->placeholder);
    else
        halay_choices_join(option_choices(o), "|", text, size);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Returns 1 or 0 for the value that SDKs write after a flag, -1 for other text. */
static int truth_of(const char *text)
{
    if (!strcmp(text, "true") || !strcmp(text, "True"))
        return 1;
    return !strcmp(text, "false") || !strcmp(text, "False") ? 0 : -1;
}

/* Stores a value of a kind that is a value's. */
static int apply_value(const struct halay_option *o, const char *value, void *at, char *why, size_t size)
{
    static const enum halay_value_kind kinds[] = { [HALAY_OPTION_NUMBER] = HALAY_VALUE_LONG, /* a size_t, too */
                                                   [HALAY_OPTION_REAL] = HALAY_VALUE_REAL,
                                                   [HALAY_OPTION_SIZE] = HALAY_VALUE_SIZE,
                                                   [HALAY_OPTION_CHOICE] = HALAY_VALUE_NAME };
    struct halay_value_rule rule = { kinds[o->kind], o->min, o->max, o->choices };

    if (o->size == sizeof(int))
        rule.kind = o->kind == HALAY_OPTION_NUMBER ? HALAY_VALUE_INT : HALAY_VALUE_CHOICE;
    int used = snprintf(why, size, "'%.100s' ", value);
    return halay_value_store(&rule, value, at, why + used, size - (size_t)used) == HALAY_OK;
}

int halay_option_apply(const struct halay_option *option, const char *value, void *values, char *why, size_t size)
{
    void *at = (char *)values + option->offset;

    switch (option->kind) {
    case HALAY_OPTION_FLAG:
        *(int *)at = !value || truth_of(value) != 0;
        return 1;
    case HALAY_OPTION_NUMBER:
    case HALAY_OPTION_REAL:
    case HALAY_OPTION_SIZE:
    case HALAY_OPTION_CHOICE:
        return apply_value(option, value, at, why, size);
    case HALAY_OPTION_TEXT:
        if (*value)
            *(const char **)at = value;
        else
            snprintf(why, size, "the value is empty");
        return !!*value;
    case HALAY_OPTION_TAKEN:
        return option->take(option, value, at, why, size);
    default:
        return 1;
    }
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

static int complain_unknown(const struct halay_command_line *line, const char *argument, char *why, size_t size)
{
    const char *names[NAMES_MAX + 1], *what = "argument";
    const struct halay_option *o;
    size_t count = 0;
    char name[64];

    if (*argument == '-' && argument[1])
        what = "option";
    else if (find_kind(line, HALAY_OPTION_COMMAND))
        what = "command";
    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++)
        if (count < NAMES_MAX && o->help && (is_option(o) || o->kind == HALAY_OPTION_COMMAND))
            names[count++] = o->name;
    names[count] = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    for (char *c = name; line->is_lenient && *c; c++)
        *c = *c == '_' ? '-' : *c;
    const char *nearest = halay_nearest_name(name, names);
    if (!nearest && *argument != '-') { /* dashes forgotten */
        snprintf(name, sizeof name, "--%.*s", (int)strcspn(argument, "="), argument);
        nearest = halay_nearest_name(name, names);
    }
    if (nearest)
        snprintf(why, size, "unknown %s '%s'; did you mean '%s'?", what, argument, nearest);
    else
        snprintf(why, size, "unknown %s '%s'; '%s --help' lists them", what, argument, line->command);
    return 0;
}

/* Reads a flag's value: none, or true or false from an SDK. */
static int read_truth(const struct halay_command_line *line, char ***next, struct halay_option_given *given, char *why,
                      size_t size)
{
    if (line->is_lenient && !given->value && **next && truth_of(**next) >= 0)
        given->value = *(*next)++;
    if (!given->value || (line->is_lenient && truth_of(given->value) >= 0))
        return 1;
    snprintf(why, size, "option %s takes no value, but '%s' is given", given->name, given->value);
    return 0;
}

int halay_option_read(const struct halay_command_line *line, char ***next, struct halay_option_given *given, char *why,
                      size_t size)
{
    char *argument = *(*next)++;
    size_t length = strcspn(argument, "=");
    const struct halay_option *o = halay_command_line_find(line, argument, length);

    *given = (struct halay_option_given){ .value = argument[length] ? argument + length + 1 : NULL };
    if (!o && line->joins_values && *argument == '-' && length > 2 && argument[1] != '-') {
        o = halay_command_line_find(line, argument, length = 2);
        o = o && halay_option_has_value(o) ? o : NULL;
        given->value = argument + 2;
    }
    if (!o)
        return complain_unknown(line, argument, why, size);
    given->option = o;
    snprintf(given->name, sizeof given->name, "%.*s", (int)length, argument);
    if (!halay_option_has_value(o))
        return read_truth(line, next, given, why, size);
    if (!given->value && **next)
        given->value = *(*next)++;
    if (given->value)
        return 1;
    char wanted[256];
    halay_option_describe_value(o, wanted, sizeof wanted);
    snprintf(why, size, "option %s wants a value: %s %s", given->name, given->name, wanted);
    return 0;
}

/* Reads and applies one option; the caller prints help and list. */
static int take_one(const struct halay_command_line *line, char ***next, void *values, char *why, size_t size,
                    enum halay_option_kind *kind)
{
    struct halay_option_given given;
    char reason[400];

    if (!halay_option_read(line, next, &given, why, size))
        return 0;
    *kind = given.option->kind;
    if (halay_option_apply(given.option, given.value, values, reason, sizeof reason))
        return 1;
    snprintf(why, size, "option %s: %s", given.name, reason);
    return 0;
}

/* Returns nonzero if all required rows have a value; else why names the missing one. */
static int is_complete(const struct halay_command_line *line, const void *values, char *why, size_t size)
{
    const struct halay_option *o;

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        const void *at = (const char *)values + o->offset;
        if (!o->required)
            continue;
        const size_t count = o->kind == HALAY_OPTION_ARGUMENTS ? ((const struct halay_arguments *)at)->count
                                                               : *(const char *const *)at != NULL;
        if (count && !(o->max > 0 && (double)count > o->max))
            continue;
        snprintf(why, size, "%s is missing; '%s --help' shows the usage", o->required, line->command);
        return 0;
    }
    return 1;
}

enum halay_parsed halay_command_line_parse(const struct halay_command_line *line, char **argv, void *values, FILE *out,
                                           char *why, size_t size)
{
    const struct halay_option *rest = find_kind(line, HALAY_OPTION_ARGUMENTS);
    struct halay_arguments arguments = { .at = argv };
    enum halay_option_kind kind = HALAY_OPTION_FLAG;
    int is_end = 0;

    for (char **next = argv + !!*argv; *next;) {
        if (!is_end && !strcmp(*next, "--")) {
            is_end = 1;
            next++;
        } else if (rest && (is_end || **next != '-' || !(*next)[1])) {
            argv[arguments.count++] = *next++;
        } else if (is_end) {
            complain_unknown(line, *next, why, size);
            return HALAY_PARSED_WRONG;
        } else if (!take_one(line, &next, values, why, size, &kind)) {
            return HALAY_PARSED_WRONG;
        } else if (kind == HALAY_OPTION_HELP || kind == HALAY_OPTION_LIST) {
            if (out)
                (kind == HALAY_OPTION_HELP ? halay_command_line_print_help : halay_command_line_print_list)(line, out);
            return HALAY_PARSED_ANSWERED;
        }
    }
    if (rest)
        *(struct halay_arguments *)(void *)((char *)values + rest->offset) = arguments;
    return is_complete(line, values, why, size) ? HALAY_PARSED : HALAY_PARSED_WRONG;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

enum {
    WIDTH = 80,
    HELP_COLUMN = 28, /* of an option's help */
};

/* Fills lines from this column to the width; keeps the text's own line breaks. */
static void print_filled(const char *text, int indent, FILE *out)
{
    int column = indent;

    while (*text) {
        int length = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", length, text);
        text += length;
        if (*text == '\n' && text[1]) {
            fprintf(out, "\n%*s", text[1] == '\n' ? 0 : indent, "");
            column = indent;
        }
        text += !!*text;
    }
    fputc('\n', out);
}

static void print_row(const struct halay_option *o, FILE *out)
{
    char value[256], left[400], help[1024];

    halay_option_describe_value(o, value, sizeof value);
    int used = snprintf(left, sizeof left, "  %s%s%s%s%s", o->aliases ? o->aliases : "", o->aliases ? ", " : "",
                        o->name, *value ? " " : "", value);
    if (used > HELP_COLUMN - 2)
        fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
    else
        fprintf(out, "%-*s", HELP_COLUMN, left);
    snprintf(help, sizeof help, o->preset ? "%s (%s)" : "%s", o->help, o->preset);
    print_filled(help, HELP_COLUMN, out);
}

void halay_command_line_print_help(const struct halay_command_line *line, FILE *out)
{
    const struct halay_option *o;
    const char *synopsis = line->synopsis, *before = "usage: ";

    for (int length; *synopsis; synopsis += length + !!synopsis[length], before = "       ") {
        length = (int)strcspn(synopsis, "\n");
        fprintf(out, "%s%s %.*s\n", before, line->command, length, synopsis);
    }
    fputc('\n', out);
    if (line->about)
        print_filled(line->about, 0, out);
    if (line->table->kind != HALAY_OPTION_HEADING)
        fputs("\nOptions:\n", out);
    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        if (o->kind == HALAY_OPTION_HEADING)
            fprintf(out, "\n%s:\n", o->name);
        else if (o->help)
            print_row(o, out);
    }
    if (line->notes) {
        fputc('\n', out);
        print_filled(line->notes, 0, out);
    }
}

void halay_command_line_print_list(const struct halay_command_line *line, FILE *out)
{
    const struct halay_option *o;
    char value[256];

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        if (o->kind == HALAY_OPTION_HEADING || !o->help)
            continue;
        halay_option_describe_value(o, value, sizeof value);
        fputs(o->name, out);
        for (const char *c = o->aliases ? o->aliases : ""; *c; c++)
            if (*c != ' ')
                fprintf(out, "%s%c", c == o->aliases ? "," : "", *c);
        fprintf(out, "\t%s\t%s\n", value, o->help);
    }
}
