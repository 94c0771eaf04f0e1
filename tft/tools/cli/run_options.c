/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of a run from its sources: a file, HALAY_TFT_KEY in the environment, the command line; and the data
 * that it is for.
 */
#include "tft/tools/cli/run_options.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/document.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

extern char **environ;

enum { KEYS_MAX = 127, WORDS_MAX = 15 };

static int keep_key(const struct halay_option *option, const char *value, void *at, char *why, size_t size)
{
    struct tft_run_keys *keys = at;

    if (keys->count == sizeof keys->given / sizeof *keys->given) {
        snprintf(why, size, "one key too many");
        return 0;
    }
    keys->given[keys->count].option = option;
    keys->given[keys->count++].value = value;
    return 1;
}

/* ---- options ---- */

/* A key's option, and the texts that it is made of. */
struct key_option {
    char name[64], preset[32];
    const char *words[WORDS_MAX + 1];
};

static void describe_key(const json_t *key, struct key_option *texts, struct halay_option *row)
{
    const char *kind = json_string_value(json_object_get(key, "kind")), *placeholder = NULL;
    const json_t *preset = json_object_get(key, "default"), *words = json_object_get(key, "words");
    static const char *const placeholders[][2] = {
        { "whole", "N" }, { "real", "X" }, { "list", "X,X,..." }, { "set", "WORD,..." }, { "text", "FOLDER" }
    };

    for (size_t i = 0; i < sizeof placeholders / sizeof *placeholders; i++)
        if (!strcmp(kind, placeholders[i][0]))
            placeholder = placeholders[i][1];
    snprintf(texts->name, sizeof texts->name, "--%s", json_string_value(json_object_get(key, "name")));
    for (char *c = texts->name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (json_is_number(preset))
        snprintf(texts->preset, sizeof texts->preset, "%g", json_number_value(preset));
    else if (json_is_string(preset))
        snprintf(texts->preset, sizeof texts->preset, "%s", json_string_value(preset));
    for (size_t w = 0; w < json_array_size(words) && w < WORDS_MAX; w++)
        texts->words[w] = json_string_value(json_array_get(words, w));
    *row = (struct halay_option){ .name = texts->name,
                                  .placeholder = placeholder,
                                  .help = json_string_value(json_object_get(key, "help")),
                                  .kind = HALAY_OPTION_TAKEN,
                                  .choices = placeholder ? NULL : texts->words,
                                  .preset = *texts->preset ? texts->preset : NULL,
                                  .take = keep_key };
}

/* The keys as options, with a heading above them; NULL without memory. In static memory, as are all options. */
static const struct halay_option *list_keys(void)
{
    static struct key_option texts[KEYS_MAX];
    static struct halay_option rows[KEYS_MAX + 2] = { { .name = "Keys of the configuration" } };
    static json_t *keys;
    char *list = NULL;

    if (!keys && !halay_tft_keys(&list))
        keys = json_loads(list, 0, NULL);
    halay_tft_free(list);
    for (size_t i = 0; i < json_array_size(keys) && i < KEYS_MAX; i++)
        describe_key(json_array_get(keys, i), &texts[i], &rows[i + 1]);
    return keys ? rows : NULL;
}

/* ---- values ---- */

/* Add keys, which are given away, to a configuration. */
static enum halay_status add_keys(struct halay_log *log, char **config, const char *where, json_t *keys)
{
    char *text = keys ? json_dumps(keys, JSON_COMPACT) : NULL, *all = NULL;
    enum halay_status status = HALAY_ERR_NO_MEMORY;

    json_decref(keys);
    if (text)
        status = halay_tft_config_add(*config, where, text, &all);
    if (status)
        halay_error(log, "%s", text ? halay_tft_error_text() : "no memory for a configuration");
    free(text);
    if (status)
        return status;
    halay_tft_free(*config);
    *config = all;
    return HALAY_OK;
}

static enum halay_status add_text(struct halay_log *log, char **config, const char *where, const char *key,
                                  const char *value)
{
    json_t *text = json_string(value);

    if (text)
        return add_keys(log, config, where, json_pack("{so}", key, text));
    halay_error(log, "%s: the value is not UTF-8", where);
    return HALAY_ERR_CONFIG;
}

/* HALAY_TFT_KEY=value of the environment. */
static enum halay_status add_environment(struct halay_log *log, char **config)
{
    static const char prefix[] = "HALAY_TFT_";
    enum halay_status status = HALAY_OK;

    for (char **entry = environ; *entry && !status; entry++) {
        char name[64], where[96];
        size_t n = 0;
        if (strncmp(*entry, prefix, sizeof prefix - 1))
            continue;
        for (const char *c = *entry + sizeof prefix - 1; *c && *c != '=' && n < sizeof name - 1; c++)
            name[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        name[n] = 0;
        const char *value = strchr(*entry, '=');
        snprintf(where, sizeof where, "environment variable '%.*s'", value ? (int)(value - *entry) : 64, *entry);
        status = add_text(log, config, where, name, value ? value + 1 : "");
    }
    return status;
}

static enum halay_status add_file(struct halay_log *log, char **config, const char *path)
{
    json_t *document = NULL;
    char where[256];
    enum halay_status status = halay_document_load(log, path, NULL, &document);

    snprintf(where, sizeof where, "configuration '%.200s'", path);
    return status ? status : add_keys(log, config, where, document);
}

/* Defaults, the file and what is beside it, the environment, the options; checked as a whole. */
static enum halay_status resolve_keys(struct halay_log *log, const struct tft_run_keys *keys,
                                      const struct tft_run_source *beside, char **config)
{
    char where[96];
    enum halay_status status = add_keys(log, config, "defaults", json_object());

    if (!status && keys->file)
        status = add_file(log, config, keys->file);
    if (!status && beside && beside->document)
        status = add_keys(log, config, beside->where, json_incref(beside->document));
    if (!status)
        status = add_environment(log, config);
    for (size_t i = 0; i < keys->count && !status; i++) {
        const char *name = keys->given[i].option->name;
        snprintf(where, sizeof where, "option %.64s", name);
        status = add_text(log, config, where, name + strspn(name, "-"), keys->given[i].value);
    }
    if (status)
        return status;
    status = halay_tft_config_check(*config, NULL);
    if (status)
        halay_error(log, "%s", halay_tft_error_text());
    return status;
}

/* Refuse keys that older versions had, and such words of keys, with what replaces them. */
static enum halay_status check_removed(struct halay_log *log, char **argv)
{
    for (char **at = argv; *at && strcmp(*at, "--"); at++) {
        size_t length = strncmp(*at, "--", 2) ? 0 : strcspn(*at + 2, "=");
        char name[64], where[96], *config = NULL;
        if (!length || length >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, *at + 2);
        snprintf(where, sizeof where, "option --%s", name);
        const char *value = (*at)[2 + length] ? *at + 3 + length : at[1] ? at[1] : "";
        json_t *key = json_pack("{ss}", name, value);
        char *text = key ? json_dumps(key, JSON_COMPACT) : NULL;
        json_decref(key);
        enum halay_status status = text ? halay_tft_config_add(NULL, where, text, &config) : HALAY_OK;
        free(text);
        halay_tft_free(config);
        if (status == HALAY_ERR_UNSUPPORTED) {
            halay_error(log, "%s", halay_tft_error_text());
            return status;
        }
    }
    return HALAY_OK;
}

int tft_run_options_parse(struct halay_log *log, const struct halay_command_line *line,
                          const struct tft_run_source *beside, char **argv, void *values, char **config)
{
    struct halay_command_line with_keys = *line;

    with_keys.more = list_keys();
    if (!with_keys.more) {
        halay_error(log, "no memory for options");
        return EXIT_FAILURE;
    }
    if (check_removed(log, argv))
        return EXIT_USAGE;
    int status = tft_options_parse(log, &with_keys, argv, values);
    if (status >= 0)
        return status;
    enum halay_status resolved = resolve_keys(log, values, beside, config);
    if (resolved == HALAY_ERR_UNSUPPORTED)
        return EXIT_USAGE;
    return resolved ? tft_exit_status(resolved) : -1;
}

enum halay_status tft_run_options_set(struct halay_log *log, char **config, const char *key, long long value)
{
    return add_keys(log, config, "configuration", json_pack("{sI}", key, (json_int_t)value));
}

/* All keys with their values, of a configuration that is good; NULL without memory. */
static json_t *all_keys(const char *config)
{
    char *all = NULL;
    json_t *keys = halay_tft_config_check(config, &all) ? NULL : json_loads(all, 0, NULL);

    halay_tft_free(all);
    return keys;
}

double tft_run_options_number(const char *config, const char *key)
{
    json_t *keys = all_keys(config);
    double number = json_number_value(json_object_get(keys, key));

    json_decref(keys);
    return number;
}

/* ---- the job ---- */

int tft_run_options_run(struct halay_log *log, const char *config, tft_command_work *work, void *request)
{
    json_t *keys = all_keys(config);
    const char *deterministic = json_string_value(json_object_get(keys, "deterministic"));

    if (halay_environment_get("HALAY_DETERMINISTIC")) /* which the session then takes */
        deterministic = NULL;
    const char *device = json_string_value(json_object_get(keys, "device"));
    int code = tft_command_run(log, deterministic, device, work, request);
    json_decref(keys);
    return code;
}

enum halay_status tft_job_open(struct halay_log *log, struct halay_tft *tft, const char *path, int is_elastic,
                               struct halay_tft_data **data)
{
    enum halay_status status = is_elastic ? halay_tft_data_open(tft, path, data) : tft_command_join(log, tft);

    if (status)
        return status;
    return is_elastic ? tft_command_join(log, tft) : halay_tft_agree(tft, halay_tft_data_open(tft, path, data));
}

/* Returns HALAY_OK only if all ranks succeeded, so that no rank waits for one that has given up. */
static enum halay_status agree_on(struct halay_context *ctx, const char *name, enum halay_status status)
{
    int32_t worst = (int32_t)status;
    enum halay_status agreed = HALAY_OK;

    if (halay_size(ctx) > 1)
        agreed = halay_allreduce(ctx, name, NULL, &worst, 1, HALAY_I32, HALAY_MAX);
    if (status || agreed)
        return status ? status : agreed;
    return worst ? HALAY_ERR_PEER : HALAY_OK;
}

/* A name that all ranks know and no other job uses; the file lives until all have mapped it. */
static enum halay_status name_prepared(struct halay_log *log, struct halay_context *ctx, char *path, size_t size)
{
    const char *folder = halay_environment_get("TMPDIR");
    int64_t number = 0;
    enum halay_status status = HALAY_OK;

    if (halay_rank(ctx) == 0 && getrandom(&number, sizeof number, 0) < 0) {
        halay_error(log, "no random number: %s", strerror(errno));
        status = HALAY_ERR_SYSTEM;
    }
    if (!status && halay_size(ctx) > 1)
        status = halay_broadcast(ctx, "prepared", &number, 1, HALAY_I64, 0);
    snprintf(path, size, "%.3900s/halay-tft.%016llx.htd", folder && *folder ? folder : "/tmp",
             (unsigned long long)number);
    return agree_on(ctx, "prepared.named", status);
}

enum halay_status tft_job_open_table(struct halay_log *log, struct halay_tft *tft, const char *schema,
                                     const char *table, struct halay_tft_data **data)
{
    char path[4096];
    enum halay_status status = tft_command_join(log, tft);
    struct halay_context *ctx = halay_tft_context(tft);

    if (!status)
        status = name_prepared(log, ctx, path, sizeof path);
    if (status)
        return status;
    const struct halay_tft_table rows = { .struct_size = sizeof rows, .files = &table, .file_count = 1 };
    const struct halay_tft_prepare_options how = { .struct_size = sizeof how, .schema = schema, .path = path };
    const int prepares = halay_local_rank(ctx) == 0;
    if (prepares)
        status = tft_prepare(log, tft, &rows, &how, halay_rank(ctx) != 0);
    status = agree_on(ctx, "prepared.written", status);
    if (!status)
        status = agree_on(ctx, "prepared.open", halay_tft_data_open(tft, path, data));
    if (prepares)
        unlink(path); /* absent if it failed */
    return status;
}

/* ---- progress ---- */

enum { TERMINAL_PACE_US = 200000, PLAIN_PACE_US = 10000000 };

/* Clears the line that is rewritten. */
static const char *clear_line(void)
{
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}

void tft_progress_lines_say(void *arg, const char *text)
{
    char line[1100];

    (void)arg;
    /* In one write: mpirun, which prefixes the lines of many ranks, must not get half of one. */
    int n = snprintf(line, sizeof line, "%s%s\n", clear_line(), text);
    size_t length = n < (int)sizeof line ? (size_t)n : sizeof line - 1;
    line[length - 1] = '\n';
    fwrite(line, 1, length, stderr);
}

void tft_progress_lines_step(void *arg, const struct halay_tft_progress *p)
{
    struct tft_progress_lines *lines = arg;
    const int64_t now = halay_now_us();
    const int terminal = isatty(STDERR_FILENO);

    if (!lines->printed_us)
        lines->printed_us = now;
    if (now - lines->printed_us < (terminal ? TERMINAL_PACE_US : PLAIN_PACE_US))
        return;
    lines->printed_us = now;
    fprintf(stderr,
            "%sstep %" PRIu64 "/%" PRIu64 "  epoch %" PRIu64
            "  loss %.4f  %.0f samples/s  %.0f s, at most %.0f s left%s",
            clear_line(), p->step, p->steps, p->epoch, p->loss, p->samples_per_second, p->seconds, p->seconds_left,
            terminal ? "" : "\n");
    fflush(stderr);
}
