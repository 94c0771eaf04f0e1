/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines.
 */
#include "tft/cli/options.h"
#include "base/config.h"
#include "tft/run/interrupt.h"
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 63, LIST_MAX = 16 };

/* '_' may stand for '-', as SageMaker's SDKs write it. */
static int is_named(const char *option, const char *name)
{
    while (*option && (*option == *name || (*option == '-' && *name == '_'))) {
        option++;
        name++;
    }
    return !*option && !*name;
}

static const struct tft_option *find_option(const struct tft_option *list, const char *name, char letter)
{
    for (; list->name; list++)
        if (letter ? list->letter == letter : is_named(list->name, name))
            return list;
    return NULL;
}

/* 1 and 0 for what SDKs write behind a flag; -1: another word. */
static int truth_of(const char *word)
{
    if (!strcmp(word, "true") || !strcmp(word, "True"))
        return 1;
    return !strcmp(word, "false") || !strcmp(word, "False") ? 0 : -1;
}

static int unknown(const struct tft_options *o, const char *text)
{
    const char *names[LIST_MAX + 1] = { NULL };

    for (size_t i = 0; i < LIST_MAX && o->list[i].name; i++)
        names[i] = o->list[i].name;
    const char *near = halay_nearest_word(text + strspn(text, "-"), names);
    if (near)
        halay_error(o->log, "unknown option '%s'; did you mean '--%s'?", text, near);
    else
        halay_error(o->log, "unknown option '%s'; '%s --help' lists them", text, o->command);
    return TFT_EXIT_USAGE;
}

static int help(const struct tft_options *o)
{
    fputs(o->help, stdout);
    if (o->more_help)
        o->more_help();
    return fflush(stdout) ? TFT_EXIT_FAILED : TFT_EXIT_OK;
}

/* One option at argv[*i]; *i is moved past its value. -1: go on. */
static int take(const struct tft_options *o, int argc, char **argv, int *i)
{
    const char *text = argv[*i], *value = NULL;
    char name[NAME_MAX_LENGTH + 1];
    int is_long = text[1] == '-';
    const char *equals = is_long ? strchr(text, '=') : NULL;
    size_t length = is_long ? (equals ? (size_t)(equals - text) : strlen(text)) - 2 : 0;

    if (!strcmp(text, "--help") || !strcmp(text, "-h"))
        return help(o);
    if (length > NAME_MAX_LENGTH || (!is_long && text[2]))
        return unknown(o, text);
    memcpy(name, text + (is_long ? 2 : 0), length);
    name[length] = 0;
    const struct tft_option *option = find_option(o->list, name, is_long ? 0 : text[1]);
    if (!option && (!o->other || !is_long))
        return unknown(o, text);
    if (option && !option->value) {
        const char *word = equals ? equals + 1 : *i + 1 < argc ? argv[*i + 1] : "";
        int truth = truth_of(word);
        if (equals && truth < 0) {
            halay_error(o->log, "option '--%s' takes no value but true and false", option->name);
            return TFT_EXIT_USAGE;
        }
        *option->flag = truth != 0;
        *i += !equals && truth >= 0;
        return -1;
    }
    value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (!value) {
        halay_error(o->log, "option '%s' needs a value", text);
        return TFT_EXIT_USAGE;
    }
    if (option) {
        *option->value = value;
        return -1;
    }
    return o->other(o->arg, name, value) ? TFT_EXIT_USAGE : -1;
}

int tft_options_parse(const struct tft_options *o, int argc, char **argv, int *rest)
{
    int only_rest = 0, count = 0;

    for (int i = 1; i < argc; i++) {
        if (!only_rest && !strcmp(argv[i], "--")) {
            only_rest = 1;
        } else if (only_rest || argv[i][0] != '-' || !argv[i][1]) {
            argv[count++] = argv[i];
        } else {
            int status = take(o, argc, argv, &i);
            if (status >= 0)
                return status;
        }
    }
    if (!rest && count) {
        halay_error(o->log, "'%s' is no option", argv[0]);
        return TFT_EXIT_USAGE;
    }
    if (rest)
        *rest = count;
    return -1;
}

int tft_options_missing(const struct tft_options *o, const char *what)
{
    halay_error(o->log, "%s is missing; '%s --help' says how to use it", what, o->command);
    return TFT_EXIT_USAGE;
}

int tft_exit_status(enum halay_status status)
{
    return !status ? TFT_EXIT_OK : status == HALAY_ERR_CONFIG ? TFT_EXIT_USAGE : TFT_EXIT_FAILED;
}

int tft_interrupt_exit(enum halay_status status)
{
    if (status == HALAY_ERR_CANCELED && tft_interrupt_seen())
        return 128 + tft_interrupt_seen();
    return status ? TFT_EXIT_FAILED : TFT_EXIT_OK;
}
