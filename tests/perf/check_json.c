/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: check_json FILE PATH=TYPE... PATH<=PATH...
 *
 * Checks that a JSON file is one object and that at each path there is a value of that type: string, integer, number
 * (an integer too), positive, object, array, absent, or "text" for that very string. A path is keys and array places
 * with dots between: results.0.versus.0.ratio=positive. PATH<=PATH: two numbers, the first not above the second. Exit
 * status 0 if all hold.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *find(json_t *value, char *path)
{
    char *rest = NULL;

    for (char *key = strtok_r(path, ".", &rest); key && value; key = strtok_r(NULL, ".", &rest))
        value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key)) : json_object_get(value, key);
    return value;
}

static int is_type(json_t *value, const char *type)
{
    if (!strcmp(type, "absent"))
        return !value;
    if (!strcmp(type, "string"))
        return json_is_string(value) && *json_string_value(value);
    if (!strcmp(type, "integer"))
        return json_is_integer(value);
    if (!strcmp(type, "number"))
        return json_is_number(value);
    if (!strcmp(type, "positive"))
        return json_is_number(value) && json_number_value(value) > 0;
    if (!strcmp(type, "object"))
        return json_is_object(value);
    if (!strcmp(type, "array"))
        return json_is_array(value) && json_array_size(value) > 0;
    if (json_is_integer(value))
        return json_integer_value(value) == atoll(type);
    return json_is_string(value) && !strcmp(json_string_value(value), type);
}

/* Does the word "PATH=TYPE" or "PATH<=PATH" hold? */
static int holds(json_t *root, const char *word)
{
    const char *end = strpbrk(word, "<=");
    char path[256], other[256];

    if (!end || (size_t)(end - word) >= sizeof path || strlen(end) >= sizeof other)
        exit(99);
    snprintf(path, sizeof path, "%.*s", (int)(end - word), word);
    json_t *value = find(root, path);
    if (strncmp(end, "<=", 2))
        return is_type(value, end + 1);
    snprintf(other, sizeof other, "%s", end + 2);
    json_t *limit = find(root, other);
    return json_is_number(value) && json_is_number(limit) && json_number_value(value) <= json_number_value(limit);
}

int main(int argc, char **argv)
{
    json_error_t error;
    int failed = 0;

    if (argc < 3)
        return 99;
    json_t *root = json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root)) {
        printf("%s: no JSON object: %s\n", argv[1], root ? "another value" : error.text);
        json_decref(root);
        return 1;
    }
    for (int i = 2; i < argc; i++)
        if (!holds(root, argv[i])) {
            printf("%s: '%s' does not hold\n", argv[1], argv[i]);
            failed = 1;
        }
    if (failed)
        json_dumpf(root, stdout, JSON_INDENT(2));
    json_decref(root);
    return failed;
}
