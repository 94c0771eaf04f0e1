/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: YAML (libyaml's events) or JSON (Jansson) into one tree.
 *
 * The YAML side is a recursive descent over libyaml's event stream: each function is given the event that begins its
 * node and consumes the rest of it. Depth and size are bounded. Cleanup: each node is released by whoever holds it when
 * something fails; functions return NULL after having logged.
 */
#include "tft/data/document.h"
#include "base/config.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 16, NODES_MAX = 100000 };
#define FILE_MAX ((size_t)4 << 20)

struct reader {
    struct halay_log *log;
    const char *name;
    yaml_parser_t parser;
    size_t nodes;
};

static json_t *read_node(struct reader *r, yaml_event_t *event, int depth);

static void complain(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    halay_error(r->log, "%s, line %zu, column %zu: %s", r->name, mark->line + 1, mark->column + 1, what);
}

/* The next event; logs and returns zero if the text is no YAML. */
static int next_event(struct reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event))
        return 1;
    halay_error(r->log, "%s, line %zu, column %zu: not YAML: %s", r->name, r->parser.problem_mark.line + 1,
                r->parser.problem_mark.column + 1, r->parser.problem ? r->parser.problem : "cannot be read");
    return 0;
}

/* A plain scalar's type by YAML's core schema, less octal and infinities. */
static json_t *plain_scalar(const char *text)
{
    char *end;

    if (!*text || !strcmp(text, "~") || !strcmp(text, "null"))
        return json_null();
    if (!strcmp(text, "true") || !strcmp(text, "True"))
        return json_true();
    if (!strcmp(text, "false") || !strcmp(text, "False"))
        return json_false();
    if (strspn(text, "+-.0123456789eE") == strlen(text) && strpbrk(text, "0123456789")) {
        errno = 0;
        long long whole = strtoll(text, &end, 10);
        if (!*end && !errno)
            return json_integer(whole);
        errno = 0;
        double real = strtod(text, &end);
        if (!*end && !errno)
            return json_real(real);
    }
    return json_string(text);
}

static json_t *read_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;

    if (strlen(text) != event->data.scalar.length) {
        complain(r, &event->start_mark, "a zero byte");
        return NULL;
    }
    json_t *node = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_scalar(text) : json_string(text);
    if (!node)
        complain(r, &event->start_mark, "cannot be kept (not UTF-8, or no memory)");
    return node;
}

static json_t *read_sequence(struct reader *r, int depth)
{
    json_t *array = json_array();

    while (array) {
        yaml_event_t event;
        if (!next_event(r, &event))
            break;
        int done = event.type == YAML_SEQUENCE_END_EVENT;
        json_t *item = done ? NULL : read_node(r, &event, depth + 1);
        yaml_event_delete(&event);
        if (done)
            return array;
        if (!item || json_array_append_new(array, item))
            break;
    }
    json_decref(array);
    return NULL;
}

/* One key and its value, whose key event is given. */
static int read_pair(struct reader *r, const yaml_event_t *key, json_t *object, int depth)
{
    yaml_event_t event;

    if (key->type != YAML_SCALAR_EVENT) {
        complain(r, &key->start_mark, "a key must be a word");
        return 0;
    }
    if (json_object_get(object, (const char *)key->data.scalar.value)) {
        halay_error(r->log, "%s, line %zu, column %zu: key '%s' is given twice", r->name, key->start_mark.line + 1,
                    key->start_mark.column + 1, (const char *)key->data.scalar.value);
        return 0;
    }
    if (!next_event(r, &event))
        return 0;
    json_t *value = read_node(r, &event, depth + 1);
    yaml_event_delete(&event);
    return value && !json_object_set_new(object, (const char *)key->data.scalar.value, value);
}

static json_t *read_mapping(struct reader *r, int depth)
{
    json_t *object = json_object();

    while (object) {
        yaml_event_t event;
        if (!next_event(r, &event))
            break;
        int done = event.type == YAML_MAPPING_END_EVENT;
        int ok = done || read_pair(r, &event, object, depth);
        yaml_event_delete(&event);
        if (done)
            return object;
        if (!ok)
            break;
    }
    json_decref(object);
    return NULL;
}

static json_t *read_node(struct reader *r, yaml_event_t *event, int depth)
{
    if (depth > DEPTH_MAX || ++r->nodes > NODES_MAX) {
        complain(r, &event->start_mark, "too deep or too large");
        return NULL;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return read_sequence(r, depth);
    case YAML_MAPPING_START_EVENT:
        return read_mapping(r, depth);
    default:
        complain(r, &event->start_mark, "anchors and aliases are not read");
        return NULL;
    }
}

static json_t *parse_yaml(struct reader *r)
{
    json_t *root = NULL;

    for (int done = 0; !done;) {
        yaml_event_t event;
        if (!next_event(r, &event)) {
            json_decref(root);
            return NULL;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        int content = event.type == YAML_SCALAR_EVENT || event.type == YAML_MAPPING_START_EVENT ||
                      event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_ALIAS_EVENT;
        int failed = 0;
        if (content && root) {
            complain(r, &event.start_mark, "more than one document");
            failed = 1;
        } else if (content) {
            root = read_node(r, &event, 0);
            failed = !root;
        }
        yaml_event_delete(&event);
        if (failed) {
            json_decref(root);
            return NULL;
        }
    }
    if (!root)
        halay_error(r->log, "%s: nothing in it", r->name);
    return root;
}

enum halay_status tft_document_parse(struct halay_log *log, const char *name, const char *text, size_t length,
                                     int is_json, json_t **document)
{
    json_t *root;

    if (is_json) {
        json_error_t error;
        root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
        if (!root)
            halay_error(log, "%s, line %d, column %d: not JSON: %s", name, error.line, error.column, error.text);
    } else {
        struct reader r = { .log = log, .name = name };
        if (!yaml_parser_initialize(&r.parser)) {
            halay_error(log, "%s: no memory", name);
            return HALAY_ERR_NO_MEMORY;
        }
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
        root = parse_yaml(&r);
        yaml_parser_delete(&r.parser);
    }
    if (root && !json_is_object(root)) {
        halay_error(log, "%s: not a list of keys and values", name);
        json_decref(root);
        root = NULL;
    }
    if (!root)
        return HALAY_ERR_FORMAT;
    *document = root;
    return HALAY_OK;
}

enum halay_status tft_document_load(struct halay_log *log, const char *path, json_t **document)
{
    enum halay_status status = HALAY_ERR_SYSTEM;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        halay_error(log, "cannot open '%s': %s", path, strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    char *text = malloc(FILE_MAX + 1);
    if (!text) {
        halay_error(log, "no memory for '%s'", path);
        status = HALAY_ERR_NO_MEMORY;
        goto err_close;
    }
    size_t length = fread(text, 1, FILE_MAX + 1, file);
    if (ferror(file)) {
        halay_error(log, "cannot read '%s': %s", path, strerror(errno));
        goto err_free;
    }
    if (length > FILE_MAX) {
        halay_error(log, "'%s' is larger than 4 MiB: not a schema or configuration", path);
        status = HALAY_ERR_FORMAT;
        goto err_free;
    }
    char name[PATH_MAX + 2];
    snprintf(name, sizeof name, "'%s'", path);
    const char *dot = strrchr(path, '.');
    status = tft_document_parse(log, name, text, length, dot && !strcmp(dot, ".json"), document);
err_free:
    free(text);
err_close:
    fclose(file);
    return status;
}

enum halay_status tft_document_check_keys(struct halay_log *log, const char *where, const json_t *object,
                                          const char *const *known, const char *const *later)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value) {
        int found = 0;
        for (size_t i = 0; known[i] && !found; i++)
            found = !strcmp(key, known[i]);
        for (size_t i = 0; later && later[i] && !found; i++)
            if (!strcmp(key, later[i])) {
                halay_error(log, "%s: key '%s' is not offered by this version", where, key);
                return HALAY_ERR_UNSUPPORTED;
            }
        if (found)
            continue;
        const char *near = halay_nearest_word(key, known);
        if (near)
            halay_error(log, "%s: unknown key '%s'; did you mean '%s'?", where, key, near);
        else
            halay_error(log, "%s: unknown key '%s'", where, key);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}
