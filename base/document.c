/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: YAML (libyaml's events) or JSON (Jansson) into one tree.
 *
 * The YAML side is a recursive descent over libyaml's event stream: each function is given the event that begins its
 * node and consumes the rest of it. Cleanup: each function releases the nodes that it holds when something fails, logs,
 * and returns NULL or zero.
 */
#include "base/document.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 16, NODES_MAX = 100000 };
/* The largest files. People write YAML; JSON may be a program's, such as a run's description with all its entities. */
#define YAML_MAX ((size_t)4 << 20)
#define JSON_MAX ((size_t)1 << 30)
enum { READ_MIN = 1 << 16 };

struct reader {
    struct halay_log *log;
    const char *name;
    yaml_parser_t parser;
    size_t nodes;
    struct halay_document_lines *lines; /* NULL: scalars get types */
};

static json_t *read_node(struct reader *r, const yaml_event_t *event, int depth);

/* Logs what is wrong at this place. Returns zero. */
static int fail_at(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    return halay_fail(r->log, 0, "'%s', line %zu, column %zu: %s", r->name, mark->line + 1, mark->column + 1, what);
}

/* Returns nonzero if the event has neither anchor nor tag, and is not an alias. */
static int is_plain(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return !event->data.scalar.anchor && !event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return !event->data.sequence_start.anchor && !event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return !event->data.mapping_start.anchor && !event->data.mapping_start.tag;
    default:
        return event->type != YAML_ALIAS_EVENT;
    }
}

/* Reads the next event; logs and returns zero if the text is not YAML, or uses a refused feature. */
static int next_event(struct reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event))
        return halay_fail(r->log, 0, "'%s', line %zu, column %zu: not YAML: %s", r->name,
                          r->parser.problem_mark.line + 1, r->parser.problem_mark.column + 1,
                          r->parser.problem ? r->parser.problem : "cannot be read");
    if (is_plain(event))
        return 1;
    fail_at(r, &event->start_mark, "anchors, aliases and tags are not read");
    yaml_event_delete(event);
    return 0;
}

/* Returns a plain scalar by YAML's core schema, without octal numbers and infinities. */
static json_t *typed_scalar(const char *text)
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
        double real = halay_strtod(text, &end);
        if (!*end && !errno)
            return json_real(real);
    }
    return json_string(text);
}

static json_t *read_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    int is_typed = !r->lines && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (strlen(text) != event->data.scalar.length) {
        fail_at(r, &event->start_mark, "the text contains a zero byte");
        return NULL;
    }
    json_t *node = is_typed ? typed_scalar(text) : json_string(text);
    if (!node)
        fail_at(r, &event->start_mark, "cannot be kept (not UTF-8, or no memory)");
    return node;
}

/* Reads the item of a sequence whose event is given. */
static int read_item(struct reader *r, const yaml_event_t *event, json_t *array, int depth)
{
    json_t *item = read_node(r, event, depth + 1);

    return item && !json_array_append_new(array, item);
}

/* Keeps the key's line; returns zero without memory. */
static int keep_line(struct reader *r, const yaml_event_t *key, const json_t *value)
{
    struct halay_document_lines *lines = r->lines;
    struct halay_document_line *grown = realloc(lines->at, (lines->count + 1) * sizeof *grown);

    if (!grown)
        return fail_at(r, &key->start_mark, "no memory");
    lines->at = grown;
    lines->at[lines->count++] = (struct halay_document_line){ .value = value, .line = (int)key->start_mark.line + 1 };
    return 1;
}

/* Reads the value of the key whose event is given. */
static int read_pair(struct reader *r, const yaml_event_t *key, json_t *object, int depth)
{
    const char *text = (const char *)key->data.scalar.value;
    yaml_event_t event;

    if (key->type != YAML_SCALAR_EVENT || strlen(text) != key->data.scalar.length)
        return fail_at(r, &key->start_mark, "the key is not a plain text");
    if (json_object_get(object, text))
        return halay_fail(r->log, 0, "'%s', line %zu, column %zu: key '%s' is given twice", r->name,
                          key->start_mark.line + 1, key->start_mark.column + 1, text);
    if (!next_event(r, &event))
        return 0;
    json_t *value = read_node(r, &event, depth + 1);
    yaml_event_delete(&event);
    if (!value || json_object_set_new(object, text, value))
        return 0;
    return !r->lines || keep_line(r, key, value);
}

/* Reads a sequence or a mapping up to the event that ends it. */
static json_t *read_items(struct reader *r, yaml_event_type_t end, int depth)
{
    const int is_array = end == YAML_SEQUENCE_END_EVENT;
    json_t *items = is_array ? json_array() : json_object();

    while (items) {
        yaml_event_t event;
        if (!next_event(r, &event))
            break;
        int done = event.type == end;
        int ok = done || (is_array ? read_item : read_pair)(r, &event, items, depth);
        yaml_event_delete(&event);
        if (done)
            return items;
        if (!ok)
            break;
    }
    json_decref(items);
    return NULL;
}

static json_t *read_node(struct reader *r, const yaml_event_t *event, int depth)
{
    if (depth > DEPTH_MAX || ++r->nodes > NODES_MAX) {
        fail_at(r, &event->start_mark, "too deep or too large");
        return NULL;
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return read_items(r, YAML_SEQUENCE_END_EVENT, depth);
    default:
        return read_items(r, YAML_MAPPING_END_EVENT, depth);
    }
}

/* Reads the tree of the only document. */
static json_t *read_stream(struct reader *r)
{
    json_t *root = NULL;

    for (int done = 0; !done;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            goto err_free;
        done = event.type == YAML_STREAM_END_EVENT;
        int is_content = event.type == YAML_SCALAR_EVENT || event.type == YAML_MAPPING_START_EVENT ||
                         event.type == YAML_SEQUENCE_START_EVENT;
        int ok = !is_content || !root || fail_at(r, &event.start_mark, "more than one document");
        if (ok && is_content) {
            root = read_node(r, &event, 0);
            ok = root != NULL;
        }
        yaml_event_delete(&event);
        if (!ok)
            goto err_free;
    }
    if (!root && r->lines)
        return json_object();
    if (!root)
        halay_error(r->log, "'%s' is empty; expected keys and values", r->name);
    return root;
err_free:
    json_decref(root);
    return NULL;
}

static json_t *parse_yaml(struct reader *r, const char *text, size_t length)
{
    if (!yaml_parser_initialize(&r->parser)) {
        halay_error(r->log, "'%s': no memory", r->name);
        return NULL;
    }
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, length);
    json_t *root = read_stream(r);
    yaml_parser_delete(&r->parser);
    return root;
}

static json_t *parse_json(struct halay_log *log, const char *name, const char *text, size_t length)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

    if (!root)
        halay_error(log, "'%s', line %d, column %d: not JSON: %s", name, error.line, error.column, error.text);
    return root;
}

enum halay_status halay_document_parse(struct halay_log *log, const char *name, const char *text, size_t length,
                                       int is_json, struct halay_document_lines *lines, json_t **document)
{
    struct reader r = { .log = log, .name = name, .lines = lines };
    json_t *root = is_json ? parse_json(log, name, text, length) : parse_yaml(&r, text, length);

    if (!root)
        return HALAY_ERR_FORMAT;
    if (!json_is_object(root)) {
        halay_error(log, "'%s' is not a mapping of keys to values", name);
        json_decref(root);
        return HALAY_ERR_FORMAT;
    }
    *document = root;
    return HALAY_OK;
}

/* Reads a file of at most this number of bytes; *text is owned by the caller. */
static enum halay_status read_file(struct halay_log *log, const char *path, size_t max, char **text, size_t *length)
{
    enum halay_status status = HALAY_OK;
    char *bytes = NULL, *grown;
    size_t room = 0, used = 0;
    FILE *file = fopen(path, "rbe");

    if (!file)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    while (used == room && used <= max) {
        room = room ? 2 * room : READ_MIN;
        grown = realloc(bytes, room);
        if (!grown) {
            status = halay_no_memory(log, "for '%s'", path);
            goto err_free;
        }
        bytes = grown;
        used += fread(bytes + used, 1, room - used, file);
    }
    if (ferror(file))
        status = halay_fail(log, HALAY_ERR_SYSTEM, "cannot read '%s': %s", path, strerror(errno));
    else if (used > max)
        status = halay_fail(log, HALAY_ERR_FORMAT, "'%s' is larger than %zu MiB", path, max >> 20);
    if (status)
        goto err_free;
    fclose(file);
    *text = bytes;
    *length = used;
    return HALAY_OK;
err_free:
    free(bytes);
    fclose(file);
    return status;
}

enum halay_status halay_document_load(struct halay_log *log, const char *path, struct halay_document_lines *lines,
                                      json_t **document)
{
    const char *dot = strrchr(path, '.');
    int is_json = !lines && dot && !strcmp(dot, ".json");
    char *text = NULL;
    size_t length = 0;
    enum halay_status status = read_file(log, path, is_json ? JSON_MAX : YAML_MAX, &text, &length);

    if (!status)
        status = halay_document_parse(log, path, text, length, is_json, lines, document);
    free(text);
    return status;
}

int halay_document_line_of(const struct halay_document_lines *lines, const json_t *value)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].value == value)
            return lines->at[i].line;
    return 0;
}

void halay_document_lines_fini(struct halay_document_lines *lines)
{
    free(lines->at);
    *lines = (struct halay_document_lines){ 0 };
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum halay_status halay_document_commit(struct halay_output *out, const json_t *document)
{
    if (json_dumpf(document, out->file, JSON_INDENT(1)) && !ferror(out->file)) { /* commit reports a failed write */
        halay_error(out->log, "no memory to write '%s'", out->path ? out->path : "standard output");
        halay_output_abort(out);
        return HALAY_ERR_NO_MEMORY;
    }
    fputc('\n', out->file);
    return halay_output_commit(out);
}

enum halay_status halay_document_write(struct halay_log *log, const char *stage, const char *path,
                                       const json_t *document)
{
    struct halay_output out;
    enum halay_status status = halay_output_open_staged(log, stage, path, &out);

    return status ? status : halay_document_commit(&out, document);
}
