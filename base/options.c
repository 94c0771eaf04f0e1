/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines by tables: rows, values, the line. Nothing is allocated.
 */
#include "base/options.h"
#include "base/config.h"
#include "base/number_text.h"
#include "base/parse.h"
#include <string.h>

enum { NAMES_MAX = 128 }; /* that are looked at for a suggestion */

/* What every table has. */
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

/* Is text the first length characters of name? */
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

const char *const *halay_option_words(const struct halay_option *option)
{
    const struct halay_config_variable *v;

    if (option->words || !option->variable)
        return option->words;
    for (size_t i = 0; (v = halay_config_variable(i)); i++)
        if (!strcmp(v->name, option->variable))
            return v->words;
    return NULL;
}

int halay_option_has_value(const struct halay_option *option)
{
    return option->placeholder || halay_option_words(option);
}

/* Words with something between them. */
static void join(const char *const *words, const char *between, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (size_t i = 0; words && words[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? between : "", words[i]);
}

void halay_option_describe_value(const struct halay_option *o, char *text, size_t size)
{
    if (o->placeholder)
        snprintf(text, size, "%s", o->placeholder);
    else
        join(halay_option_words(o), "|", text, size);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static int apply_number(const struct halay_option *o, const char *value, void *at, char *why, size_t size)
{
    long number;

    if (halay_parse_long(value, (long)o->least, (long)o->most, &number)) {
        halay_snprintf(why, size, "'%s' is not a whole number from %.0f to %.0f", value, o->least, o->most);
        return 0;
    }
    if (o->size == sizeof(int))
        *(int *)at = (int)number;
    else
        memcpy(at, &number, sizeof number); /* a size_t, too: it is not negative then */
    return 1;
}

static int apply_real(const struct halay_option *o, const char *value, void *at, char *why, size_t size)
{
    if (halay_parse_double(value, o->least, o->most, at)) {
        halay_snprintf(why, size, "'%s' is not a number from %g to %g", value, o->least, o->most);
        return 0;
    }
    return 1;
}

static int apply_word(const struct halay_option *o, const char *value, void *at, char *why, size_t size)
{
    char words[256];

    for (int i = 0; o->words[i]; i++)
        if (!strcmp(o->words[i], value)) {
            if (o->size == sizeof(int))
                *(int *)at = i;
            else
                *(const char **)at = o->words[i];
            return 1;
        }
    join(o->words, ", ", words, sizeof words);
    snprintf(why, size, "'%s' is none of %s", value, words);
    return 0;
}

/* 1 and 0 for what SDKs write behind a flag; -1: another word. */
static int truth_of(const char *word)
{
    if (!strcmp(word, "true") || !strcmp(word, "True"))
        return 1;
    return !strcmp(word, "false") || !strcmp(word, "False") ? 0 : -1;
}

int halay_option_apply(const struct halay_option *option, const char *value, void *values, char *why, size_t size)
{
    void *at = (char *)values + option->offset;

    switch (option->kind) {
    case HALAY_OPTION_FLAG:
        *(int *)at = !value || truth_of(value) != 0;
        return 1;
    case HALAY_OPTION_NUMBER:
        return apply_number(option, value, at, why, size);
    case HALAY_OPTION_REAL:
        return apply_real(option, value, at, why, size);
    case HALAY_OPTION_SIZE:
        if (!halay_parse_size(value, at))
            return 1;
        snprintf(why, size, "'%s' is not a size; write for example 4, 16K or 64M", value);
        return 0;
    case HALAY_OPTION_TEXT:
        if (*value)
            *(const char **)at = value;
        else
            snprintf(why, size, "the value is empty");
        return !!*value;
    case HALAY_OPTION_WORD:
        return apply_word(option, value, at, why, size);
    case HALAY_OPTION_TAKEN:
        return option->take(option, value, at, why, size);
    default:
        return 1;
    }
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

static int complain_unknown(const struct halay_command_line *line, const char *word, char *why, size_t size)
{
    const char *names[NAMES_MAX + 1], *what = "argument";
    const struct halay_option *o;
    size_t count = 0;
    char name[64];

    if (*word == '-' && word[1])
        what = "option";
    else if (find_kind(line, HALAY_OPTION_COMMAND))
        what = "command";
    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++)
        if (count < NAMES_MAX && o->help && (is_option(o) || o->kind == HALAY_OPTION_COMMAND))
            names[count++] = o->name;
    names[count] = NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (char *c = name; line->is_lenient && *c; c++)
        *c = *c == '_' ? '-' : *c;
    const char *nearest = halay_nearest_name(name, names);
    if (!nearest && *word != '-') { /* dashes forgotten */
        snprintf(name, sizeof name, "--%.*s", (int)strcspn(word, "="), word);
        nearest = halay_nearest_name(name, names);
    }
    if (nearest)
        snprintf(why, size, "unknown %s '%s'; did you mean '%s'?", what, word, nearest);
    else
        snprintf(why, size, "unknown %s '%s'; '%s --help' lists them", what, word, line->command);
    return 0;
}

/* A flag's value: none but what SDKs write. */
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
    char *word = *(*next)++;
    size_t length = strcspn(word, "=");
    const struct halay_option *o = halay_command_line_find(line, word, length);

    *given = (struct halay_option_given){ .value = word[length] ? word + length + 1 : NULL };
    if (!o && line->joins_values && *word == '-' && length > 2 && word[1] != '-') {
        o = halay_command_line_find(line, word, length = 2);
        o = o && halay_option_has_value(o) ? o : NULL;
        given->value = word + 2;
    }
    if (!o)
        return complain_unknown(line, word, why, size);
    given->option = o;
    snprintf(given->name, sizeof given->name, "%.*s", (int)length, word);
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

/* Read and apply one option; help and list are left to the caller. */
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

/* Returns 0 if a row that is required has no value; what is missing is in why. */
static int is_complete(const struct halay_command_line *line, const void *values, char *why, size_t size)
{
    const struct halay_option *o;

    for (size_t i = 0; (o = halay_command_line_row(line, i)); i++) {
        const void *at = (const char *)values + o->offset;
        if (!o->required)
            continue;
        const size_t count = o->kind == HALAY_OPTION_ARGUMENTS ? ((const struct halay_arguments *)at)->count
                                                               : *(const char *const *)at != NULL;
        if (count && !(o->most > 0 && (double)count > o->most))
            continue;
        snprintf(why, size, "%s is missing; '%s --help' says how to use it", o->required, line->command);
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
