/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings file: a document (base/document.h) of three levels - the mapping, a section or a list, a value - laid out
 * flat. Cleanup: fini accepts any half-made list.
 */
#include "launcher/cli/settings_file.h"
#include "base/document.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <stdlib.h>
#include <string.h>

enum { SETTINGS_MAX = 1000 };

struct reader {
    const char *name;
    struct halay_document_lines lines;
    struct settings_file *file; /* borrowed */
    int code;                   /* the exit code of the first complaint */
};

static int complain_at(struct reader *r, int line, const char *what)
{
    report("'%s', line %d: %s", r->name, line, what);
    r->code = EXIT_USAGE;
    return 0;
}

static int complain_no_memory(struct reader *r)
{
    r->code = report_no_memory();
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

/* one: all but the value; what it points to is copied. */
static int add_setting(struct reader *r, const struct file_setting *one, const json_t *value)
{
    struct settings_file *file = r->file;

    if (!json_is_string(value))
        return complain_at(r, one->line, "a value must be a word or a number here");
    if (file->count == SETTINGS_MAX)
        return complain_at(r, one->line, "more than 1000 settings");
    struct file_setting *grown = realloc(file->settings, (file->count + 1) * sizeof *grown);
    if (!grown)
        return complain_no_memory(r);
    file->settings = grown;
    struct file_setting *setting = &grown[file->count++];
    *setting = *one;
    setting->section = one->section ? strdup(one->section) : NULL;
    setting->key = strdup(one->key);
    setting->value = strdup(json_string_value(value));
    if (!setting->key || !setting->value || (one->section && !setting->section))
        return complain_no_memory(r);
    return 1;
}

static int add_mapping(struct reader *r, char *section, const json_t *mapping);

static int add_pair(struct reader *r, struct file_setting *one, const json_t *value)
{
    if (!*one->key)
        return complain_at(r, one->line, "a key must be a word");
    for (size_t i = 0; i < r->file->count; i++) {
        const struct file_setting *other = &r->file->settings[i];
        if (!is_same(other->section, one->section) || strcmp(other->key, one->key))
            continue;
        report("'%s', line %d: key '%s' is given twice", r->name, one->line, one->key);
        r->code = EXIT_USAGE;
        return 0;
    }
    if (json_is_object(value))
        return one->section ? complain_at(r, one->line, "a section in a section") : add_mapping(r, one->key, value);
    one->is_item = json_is_array(value);
    if (!one->is_item)
        return add_setting(r, one, value);
    int ok = 1;
    for (size_t i = 0; ok && i < json_array_size(value); i++)
        ok = add_setting(r, one, json_array_get(value, i));
    return ok;
}

static int add_mapping(struct reader *r, char *section, const json_t *mapping)
{
    const char *key;
    json_t *value;
    int ok = 1;

    json_object_foreach((json_t *)mapping, key, value) {
        struct file_setting one = { .section = section,
                                    .key = copy_key(key),
                                    .line = halay_document_line_of(&r->lines, value) };
        ok = one.key ? add_pair(r, &one, value) : complain_no_memory(r);
        free(one.key);
        if (!ok)
            break;
    }
    return ok;
}

/* The log writes nothing: its newest error is reported. */
static void write_nothing(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void init_log(struct halay_log *log)
{
    halay_log_init(log, HALAY_LOG_ERROR);
    log->write = write_nothing;
}

/* Reports how reading the document ended; all three are released. */
static int end_reading(enum halay_status status, struct halay_log *log, json_t *document, struct reader *r)
{
    if (status) {
        report("%s", log->last_error.text);
        r->code = status == HALAY_ERR_NO_MEMORY ? 1 : EXIT_USAGE;
    } else {
        add_mapping(r, NULL, document);
    }
    json_decref(document);
    halay_document_lines_fini(&r->lines);
    halay_log_fini(log);
    return r->code;
}

int settings_file_parse(const char *name, const char *text, size_t length, struct settings_file *file)
{
    struct reader r = { .name = name, .file = file };
    json_t *document = NULL;
    struct halay_log log;

    *file = (struct settings_file){ 0 };
    init_log(&log);
    enum halay_status status = halay_document_parse(&log, name, text, length, 0, &r.lines, &document);
    return end_reading(status, &log, document, &r);
}

int settings_file_load(const char *path, struct settings_file *file)
{
    struct reader r = { .name = path, .file = file };
    json_t *document = NULL;
    struct halay_log log;

    *file = (struct settings_file){ 0 };
    init_log(&log);
    enum halay_status status = halay_document_load(&log, path, &r.lines, &document);
    return end_reading(status, &log, document, &r);
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
