/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings file: a walk over libyaml's events, three levels deep: the mapping, a section or a list, a value.
 *
 * The trainer reads its schemas into trees of typed values (tft/data/document.c); here lines and the text as written
 * are wanted instead, so that an option's complaint can name its place and 0.50 stays 0.50. Each read_ function is
 * given the event that begins its node and consumes the rest of it. Cleanup: fini accepts any half-read list.
 */
#include "launcher/cli/settings_file.h"
#include "launcher/common/say.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { EXIT_USAGE = 2, SETTINGS_MAX = 1000 };
#define FILE_MAX ((size_t)1 << 20)

struct reader {
    const char *name;
    yaml_parser_t parser;
    struct settings_file *file; /* borrowed */
    int code;                   /* the exit code of the first complaint */
};

static int complain(struct reader *r, const yaml_mark_t *mark, const char *what)
{
    say("'%s', line %zu: %s", r->name, mark->line + 1, what);
    r->code = EXIT_USAGE;
    return 0;
}

/* Anchors and tags mean nothing here, so that nobody may think that they do. */
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

/* Whether there is an event; a complaint if the text is no YAML, or more of it than is read. */
static int next_event(struct reader *r, yaml_event_t *event)
{
    if (yaml_parser_parse(&r->parser, event)) {
        if (is_plain(event))
            return 1;
        complain(r, &event->start_mark, "anchors, aliases and tags are not read");
        yaml_event_delete(event);
        return 0;
    }
    say("'%s', line %zu, column %zu: not YAML: %s", r->name, r->parser.problem_mark.line + 1,
        r->parser.problem_mark.column + 1, r->parser.problem ? r->parser.problem : "cannot be read");
    r->code = EXIT_USAGE;
    return 0;
}

static char *copy_key(const char *text)
{
    char *copy = strdup(text);

    for (char *c = copy; c && *c; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    return copy;
}

static int is_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static int add_value(struct reader *r, const char *section, const yaml_event_t *key, const yaml_event_t *value,
                     int is_item)
{
    struct settings_file *file = r->file;

    if (value->type != YAML_SCALAR_EVENT)
        return complain(r, &value->start_mark, "a value must be a word or a number here");
    if (strlen((const char *)value->data.scalar.value) != value->data.scalar.length)
        return complain(r, &value->start_mark, "a zero byte");
    if (file->count == SETTINGS_MAX)
        return complain(r, &value->start_mark, "more than 1000 settings");
    struct file_setting *grown = realloc(file->settings, (file->count + 1) * sizeof *grown);
    if (!grown) {
        r->code = say_no_memory();
        return 0;
    }
    file->settings = grown;
    struct file_setting *setting = &grown[file->count++];
    *setting = (struct file_setting){ .section = section ? strdup(section) : NULL,
                                      .key = copy_key((const char *)key->data.scalar.value),
                                      .value = strdup((const char *)value->data.scalar.value),
                                      .is_item = is_item,
                                      .line = (int)key->start_mark.line + 1 };
    if (!setting->key || !setting->value || (section && !setting->section)) {
        r->code = say_no_memory();
        return 0;
    }
    return 1;
}

static int read_list(struct reader *r, const char *section, const yaml_event_t *key)
{
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return 0;
        int done = event.type == YAML_SEQUENCE_END_EVENT;
        int ok = done || add_value(r, section, key, &event, 1);
        yaml_event_delete(&event);
        if (done || !ok)
            return ok;
    }
}

static int check_key(struct reader *r, const char *section, const yaml_event_t *key)
{
    const char *text = (const char *)key->data.scalar.value;
    char *normal;
    int ok = 1;

    if (key->type != YAML_SCALAR_EVENT || !*text || strlen(text) != key->data.scalar.length)
        return complain(r, &key->start_mark, "a key must be a word");
    normal = copy_key(text);
    if (!normal) {
        r->code = say_no_memory();
        return 0;
    }
    for (size_t i = 0; ok && i < r->file->count; i++)
        ok = !(is_same(r->file->settings[i].section, section) && !strcmp(r->file->settings[i].key, normal));
    free(normal);
    if (!ok) {
        say("'%s', line %zu: key '%s' is given twice", r->name, key->start_mark.line + 1, text);
        r->code = EXIT_USAGE;
    }
    return ok;
}

static int read_mapping(struct reader *r, const char *section);

static int read_node(struct reader *r, const char *section, const yaml_event_t *key, const yaml_event_t *event)
{
    if (event->type == YAML_SEQUENCE_START_EVENT)
        return read_list(r, section, key);
    if (event->type != YAML_MAPPING_START_EVENT)
        return add_value(r, section, key, event, 0);
    if (section)
        return complain(r, &event->start_mark, "a section in a section");
    char *name = copy_key((const char *)key->data.scalar.value);
    if (!name) {
        r->code = say_no_memory();
        return 0;
    }
    int ok = read_mapping(r, name);
    free(name);
    return ok;
}

static int read_pair(struct reader *r, const char *section, const yaml_event_t *key)
{
    yaml_event_t event;

    if (!check_key(r, section, key) || !next_event(r, &event))
        return 0;
    int ok = read_node(r, section, key, &event);
    yaml_event_delete(&event);
    return ok;
}

static int read_mapping(struct reader *r, const char *section)
{
    for (;;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return 0;
        int done = event.type == YAML_MAPPING_END_EVENT;
        int ok = done || read_pair(r, section, &event);
        yaml_event_delete(&event);
        if (done || !ok)
            return ok;
    }
}

static int read_stream(struct reader *r)
{
    for (int documents = 0;;) {
        yaml_event_t event;
        int ok = next_event(r, &event), done = ok && event.type == YAML_STREAM_END_EVENT;
        if (!ok)
            return 0;
        if (event.type == YAML_DOCUMENT_START_EVENT && documents++)
            ok = complain(r, &event.start_mark, "more than one document");
        else if (event.type == YAML_MAPPING_START_EVENT)
            ok = read_mapping(r, NULL);
        else if (event.type == YAML_SCALAR_EVENT || event.type == YAML_SEQUENCE_START_EVENT)
            ok = complain(r, &event.start_mark, "not a list of keys and values");
        yaml_event_delete(&event);
        if (done || !ok)
            return ok;
    }
}

int settings_file_parse(const char *name, const char *text, size_t length, struct settings_file *file)
{
    struct reader r = { .name = name, .file = file };

    *file = (struct settings_file){ 0 };
    if (!yaml_parser_initialize(&r.parser))
        return say_no_memory();
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    read_stream(&r);
    yaml_parser_delete(&r.parser);
    return r.code;
}

int settings_file_load(const char *path, struct settings_file *file)
{
    int code = EXIT_USAGE;
    FILE *in = fopen(path, "rbe");

    *file = (struct settings_file){ 0 };
    if (!in) {
        say("cannot open '%s': %s", path, strerror(errno));
        return EXIT_USAGE;
    }
    char *text = malloc(FILE_MAX + 1);
    size_t length = text ? fread(text, 1, FILE_MAX + 1, in) : 0;
    if (!text)
        code = say_no_memory();
    else if (ferror(in))
        say("cannot read '%s': %s", path, strerror(errno));
    else if (length > FILE_MAX)
        say("'%s' is larger than 1 MiB: no file of settings", path);
    else
        code = settings_file_parse(path, text, length, file);
    free(text);
    fclose(in);
    return code;
}

void settings_file_fini(struct settings_file *file)
{
    for (size_t i = 0; i < file->count; i++) {
        free(file->settings[i].section);
        free(file->settings[i].key);
        free(file->settings[i].value);
    }
    free(file->settings);
    *file = (struct settings_file){ 0 };
}
