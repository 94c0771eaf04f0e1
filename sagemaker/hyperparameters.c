/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyperparameters: the program that they name, and its command line as SageMaker's toolkit spells it
 * (mapping.to_cmd_args: sorted by name, --key value, Python's spelling of booleans and lists).
 */
#include "sagemaker/hyperparameters.h"
#include "base/config.h"
#include "launcher/common/report.h"
#include "sagemaker/opt_ml.h"
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The hyperparameters; an empty object if there is no file of them. */
static enum halay_status load_hyperparameters(json_t **map)
{
    char path[PATH_MAX];
    json_error_t error;

    opt_ml_path("input/config/hyperparameters.json", path, sizeof path);
    *map = access(path, F_OK) ? json_object() : json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*map))
        return HALAY_OK;
    report("%s: not a list of hyperparameters", path);
    json_decref(*map);
    *map = NULL;
    return HALAY_ERR_FORMAT;
}

/* ---- spelling ---------------------------------------------------------------------------------------------------- */

static void spell_python(const json_t *value, FILE *out);

/* A text as Python's repr() writes it. */
static void spell_quoted(const char *text, FILE *out)
{
    char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';

    fputc(quote, out);
    for (; *text; text++)
        if (*text == quote || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if (*text == '\n')
            fputs("\\n", out);
        else
            fputc(*text, out);
    fputc(quote, out);
}

static void spell_list(const json_t *list, FILE *out)
{
    size_t i;
    json_t *item;

    fputc('[', out);
    json_array_foreach((json_t *)list, i, item) {
        if (i)
            fputs(", ", out);
        if (json_is_string(item))
            spell_quoted(json_string_value(item), out);
        else
            spell_python(item, out);
    }
    fputc(']', out);
}

/* "a=1,b=2" */
static void spell_pairs(const json_t *map, FILE *out)
{
    const char *name, *comma = "";
    json_t *value;

    json_object_foreach((json_t *)map, name, value) {
        fprintf(out, "%s%s=", comma, name);
        spell_python(value, out);
        comma = ",";
    }
}

static void spell_python(const json_t *value, FILE *out)
{
    char *text;

    if (json_is_string(value)) {
        fputs(json_string_value(value), out);
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "True" : "False", out);
    } else if (json_is_array(value)) {
        spell_list(value, out);
    } else if (json_is_object(value)) {
        spell_pairs(value, out);
    } else if (!json_is_null(value) && (text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)))) {
        fputs(text, out);
        free(text);
    }
}

/* A value as the toolkit passes it: texts as they are, True and False, "a=1,b=2", [1, 'two']. Owned; NULL without
 * memory. */
static char *spell(const char *json)
{
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    char *text = NULL;
    size_t size;

    /* A text need not be JSON; a number keeps its spelling. */
    if (!value || json_is_number(value)) {
        json_decref(value);
        return strdup(json);
    }
    FILE *out = open_memstream(&text, &size);
    if (out) {
        spell_python(value, out);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    json_decref(value);
    return text;
}

static char *spell_value(const json_t *value)
{
    if (json_is_string(value))
        return spell(json_string_value(value));
    char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    char *text = json ? spell(json) : NULL;
    free(json);
    return text;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int compare_parameter_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_hyperparameters(const json_t *map, struct args *command)
{
    const char **names = calloc(json_object_size(map) + 1, sizeof *names), *name;
    size_t count = 0;
    json_t *value;

    command->has_failed |= !names;
    json_object_foreach((json_t *)map, name, value)
        if (names && strncmp(name, "sagemaker_", 10))
            names[count++] = name;
    if (names)
        qsort(names, count, sizeof *names, compare_parameter_names);
    for (size_t i = 0; i < count; i++) {
        char *text = spell_value(json_object_get(map, names[i]));
        args_addf(command, names[i][1] ? "--%s" : "-%s", names[i]);
        args_add(command, text ? text : "");
        command->has_failed |= !text;
        free(text);
    }
    free(names);
}

static int has_suffix(const char *name, const char *end)
{
    size_t length = strlen(name), n = strlen(end);

    return length > n && !strcmp(name + length - n, end);
}

/* The program of this name where SDKs put the user's files, else in PATH. */
static void add_program(const char *name, struct args *command, char *folder, size_t size)
{
    static const char *const folders[] = { "code", "input/data/code" };
    char path[PATH_MAX], at[PATH_MAX + 300];

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        opt_ml_path(folders[i], path, sizeof path);
        snprintf(at, sizeof at, "%s/%.250s", path, name);
        if (access(at, F_OK))
            continue;
        snprintf(folder, size, "%s", path);
        if (has_suffix(name, ".py"))
            args_add(command, "python3");
        else if (access(at, X_OK) && chmod(at, 0755) && has_suffix(name, ".sh")) /* S3 keeps no mode */
            args_add(command, "sh");
        args_add(command, at);
        return;
    }
    args_add(command, name);
}

enum halay_status sagemaker_find_program(struct args *command, char *folder, size_t size)
{
    json_t *map;
    enum halay_status status = load_hyperparameters(&map);

    if (status)
        return status;
    const json_t *named = json_object_get(map, "sagemaker_program");
    char *text = named ? spell_value(named) : NULL;
    const char *name = text && *text ? text : halay_environment_get("SAGEMAKER_PROGRAM");
    *folder = 0;
    if (name && *name) {
        add_program(name, command, folder, size);
        add_hyperparameters(map, command);
    } else {
        args_add(command, "halay-tft");
        args_add(command, "train");
    }
    free(text);
    json_decref(map);
    return command->has_failed ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

char *sagemaker_describe_job(void)
{
    const char *arn = halay_environment_get("TRAINING_JOB_ARN"), *name = halay_environment_get("TRAINING_JOB_NAME");
    json_t *map;
    char *text = NULL;

    if (load_hyperparameters(&map))
        return NULL;
    char *parameters = json_dumps(map, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(map);
    if (parameters && asprintf(&text, "%s\n%s\n%s", arn ? arn : "", name ? name : "", parameters) < 0)
        text = NULL;
    free(parameters);
    return text;
}
