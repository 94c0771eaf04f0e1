/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of halay-tft train: hyperparameters that are options go in front, what the platform adds goes out.
 */
#include "sagemaker/container.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The hyperparameter of "--checkpoint-dir", "checkpoint-dir" or "checkpoint_dir": which is left in name. */
static json_t *find_parameter(const struct sagemaker_container *c, const char *option, char *name, size_t size)
{
    snprintf(name, size, "%s", option + strspn(option, "-"));
    if (json_object_get(c->parameters, name))
        return json_object_get(c->parameters, name);
    for (char *at = name; *at; at++)
        *at = *at == '-' ? '_' : *at;
    return json_object_get(c->parameters, name);
}

/* A copy, which lives as long as c; 0 without memory. */
static int add_word(struct sagemaker_container *c, size_t *count, const char *text)
{
    json_t *copy = json_string(text);

    if (!copy || json_array_append_new(c->copies, copy))
        return 0;
    c->args[(*count)++] = (char *)(uintptr_t)json_string_value(copy); /* only read */
    return 1;
}

/* Moves train's options, with their values, out of parameters. */
static int add_options(struct sagemaker_container *c, size_t *count)
{
    char name[128], number[64];

    for (const struct halay_option *o = tft_train_line.table; o->name; o++) {
        const json_t *value = find_parameter(c, o->name, name, sizeof name);
        const char *text = json_string_value(value);
        if (!value)
            continue;
        if (json_is_number(value)) {
            snprintf(number, sizeof number, "%g", json_number_value(value));
            text = number;
        }
        if (!text || !add_word(c, count, o->name) || !add_word(c, count, text))
            return 0;
        json_object_del(c->parameters, name);
    }
    return 1;
}

/* An option, with its value in the next word, that is the platform's or says nothing. */
static int is_platforms_or_empty(const char *word, const char *next)
{
    int is_option = !strncmp(word, "--", 2) && word[2] && !strchr(word, '=');

    return is_option && next && (sagemaker_is_for_platform(word + 2) || sagemaker_is_none(next));
}

enum halay_status sagemaker_complete_words(struct sagemaker_container *c, char ***argv)
{
    size_t options = 0, given = 0, count = 1;
    char **args = *argv;

    while (tft_train_line.table[options].name)
        options++;
    while (args[given])
        given++;
    c->copies = json_array();
    c->args = calloc(given + 2 * options + 1, sizeof *c->args);
    if (!c->args || !c->copies || !add_options(c, &count)) {
        halay_error(c->log, "%s: an option that is not text, or no memory", c->where);
        return HALAY_ERR_CONFIG;
    }
    c->args[0] = args[0];
    for (size_t i = 1; i < given; i++)
        if (is_platforms_or_empty(args[i], args[i + 1]))
            i++;
        else
            c->args[count++] = args[i];
    *argv = c->args;
    return HALAY_OK;
}
