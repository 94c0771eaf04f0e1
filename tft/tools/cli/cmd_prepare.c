/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft prepare: files and a schema in, one file of prepared data out, and a summary of what happened to the rows.
 */
#include "base/config.h"
#include "tft/tools/cli/run_options.h"
#include "tft/tools/cli/session.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    struct halay_tft_prepare_options prepare;
    const char *preset;
    const char *columns, *season, *time_format, *holidays; /* what differs from it */
    int prints_schema;
    struct halay_arguments files;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "FILE...", NULL, NULL, "CSV files (plain or .gz), or folders of them", HALAY_OPTION_ARGUMENTS, SETS(files) },
    { "--schema", NULL, "FILE", "what the columns mean, YAML or JSON", HALAY_OPTION_TEXT, SETS(prepare.schema) },
    { "--preset", NULL, "long", "the columns are unique_id, ds and y; step, window and splits follow from the files",
      HALAY_OPTION_TEXT, SETS(preset) },
    { "--encoder", NULL, "N", "with a preset: steps of the past (by default chosen by the step)", HALAY_OPTION_NUMBER,
      SETS(prepare.encoder), .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--horizon", NULL, "N", "with a preset: steps to forecast (by default chosen by the step)", HALAY_OPTION_NUMBER,
      SETS(prepare.horizon), .min = 1, .max = HALAY_TFT_STEPS_MAX },
    { "--zone", NULL, "ZONE", "with a preset: the time zone of the files' clock, like Europe/Berlin", HALAY_OPTION_TEXT,
      SETS(prepare.zone) },
    { "--columns", NULL, "[ID,]TIME,VALUE", "with a preset: the columns' names; without ID all rows are of one series",
      HALAY_OPTION_TEXT, SETS(columns) },
    { "--season", NULL, "N[,N]...", "with a preset: after how many steps the series repeat, ascending",
      HALAY_OPTION_TEXT, SETS(season) },
    { "--time-format", NULL, "F", "with a preset: how times are written, like %d.%m.%Y", HALAY_OPTION_TEXT,
      SETS(time_format) },
    { "--holidays", NULL, "FILE",
      "with a preset: a CSV file of days, as 2017-12-25, that are an input, past and to come", HALAY_OPTION_TEXT,
      SETS(holidays) },
    { "--print-schema", NULL, NULL, "print the schema that the preset makes, for --schema, and write no data",
      HALAY_OPTION_FLAG, SETS(prints_schema) },
    { "--test", NULL, NULL, "with a preset: hold the last tenth of the rows back for a test", HALAY_OPTION_FLAG,
      SETS(prepare.test) },
    { "--threads", NULL, "N", "threads (default: as many as the process may run on)", HALAY_OPTION_NUMBER,
      SETS(prepare.threads), .min = 1, .max = 64 },
    { "--memory", NULL, "SIZE",
      "the most memory to hold, like 2G; the rest goes to an unnamed file beside the output "
      "(default: half of the host's)",
      HALAY_OPTION_SIZE, SETS(prepare.memory) },
    { "--out", "-o", "FILE", "the file to write", HALAY_OPTION_TEXT, SETS(prepare.path) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft prepare",
    .synopsis =
        "--schema SCHEMA FILE... -o DATA.htd\n--preset long [--encoder N] [--horizon N] [--zone ZONE] [--columns "
        "[ID,]TIME,VALUE] [--season N[,N]...] [--time-format F] [--holidays FILE] [--test] FILE... {-o DATA.htd | "
        "--print-schema}",
    .about = "Reads CSV files by a schema, sorts, merges, fills and scales their rows, and writes one file that the "
             "other commands map. Prints what happened to the rows.",
    .table = option_rows,
    .is_lenient = 1,
};

static long long count_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* The step of the series: that of the rows, unless they are resampled to another one. A text or a whole number. */
static void print_step(const json_t *schema)
{
    const json_t *resampled = json_object_get(json_object_get(schema, "resample"), "every");
    const json_t *every = resampled ? resampled : json_object_get(schema, "every");

    if (json_is_integer(every))
        printf("%lld", (long long)json_integer_value(every));
    else
        printf("%s", json_string_value(every));
}

/* Prints the step, window and split that a preset chose. */
static void print_preset(const json_t *d)
{
    const json_t *schema = json_object_get(d, "document");
    json_t *split = json_object_get(schema, "split");

    const char *sign = ";", *name;
    json_t *bound;

    printf("%-26s every ", "preset");
    print_step(schema);
    printf(", window %lld + %lld", count_of(d, "encoder"), count_of(d, "horizon"));
    json_object_foreach(split, name, bound) {
        if (json_is_string(bound))
            printf("%s %s %s", sign, name, json_string_value(bound));
        sign = ",";
    }
    printf("\n");
}

/* Prints the counts of the rows; a rare one only if it is above 0. */
static void print_rows(const json_t *summary)
{
    static const struct {
        const char *key, *what;
        int is_rare;
    } counts[] = {
        { "rows_read", "rows read", 0 },
        { "rows_outside_span", "rows outside the span", 0 },
        { "rows_repeated", "rows in a repeated hour", 1 },
        { "rows_skipped", "rows in a skipped hour", 1 },
        { "rows_duplicated", "rows doubled, merged", 0 },
        { "rows_resampled", "rows resampled, merged", 1 },
        { "rows_trimmed", "rows trimmed", 1 },
        { "rows_missing", "rows missing, added", 0 },
        { "rows_dropped", "rows dropped", 1 },
        { "filled", "values filled", 0 },
        { "entities_empty", "entities without target", 1 },
        { "entities_untrained", "entities untrained", 1 },
        { "entities_short", "entities too short", 1 },
    };

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!counts[i].is_rare || count_of(summary, counts[i].key))
            printf("%-26s %lld\n", counts[i].what, count_of(summary, counts[i].key));
}

static void print_windows(const char *split, const json_t *n)
{
    printf("windows %-18s %lld", split, count_of(n, "all"));
    if (count_of(n, "short"))
        printf(" (%lld with a shorter encoder)", count_of(n, "short"));
    if (count_of(n, "masked_targets"))
        printf(" (%lld of %lld targets masked)", count_of(n, "masked_targets"), count_of(n, "targets"));
    putchar('\n');
}

/* A line for each input: its source, what it is, how many of its values were filled. */
static void print_inputs(const json_t *inputs)
{
    size_t i;
    json_t *input;

    printf("\n%-18s %-14s %-9s %-10s %-15s %10s\n", "input", "from", "role", "categories", "scale", "filled");
    json_array_foreach(inputs, i, input) {
        const char *scale = text_of(input, "scale");
        char categories[24] = "";
        if (json_object_get(input, "categories"))
            snprintf(categories, sizeof categories, "%lld", count_of(input, "categories"));
        printf("%-18s %-14s %-9s %-10s %-15s", text_of(input, "name"), text_of(input, "from"), text_of(input, "role"),
               categories, scale ? scale : "");
        if (json_object_get(input, "filled"))
            printf(" %10lld", count_of(input, "filled"));
        putchar('\n');
    }
}

static void print_description(const json_t *d)
{
    const json_t *summary = json_object_get(d, "summary");
    const char *split;
    json_t *windows;

    printf("%-26s %s\n", "schema", text_of(d, "schema"));
    printf("%-26s %lld\n", "files", count_of(summary, "files"));
    if (count_of(summary, "columns_ignored"))
        printf("%-26s %lld (%s)\n", "columns ignored", count_of(summary, "columns_ignored"),
               text_of(summary, "ignored"));
    print_rows(summary);
    printf("%-26s %lld\n", "entities", count_of(d, "entities"));
    printf("%-26s %lld\n", "rows", count_of(d, "rows"));
    printf("%-26s %s to %s\n", "time", text_of(d, "begin"), text_of(d, "end"));
    json_object_foreach(json_object_get(d, "windows"), split, windows)
        print_windows(split, windows);
    print_inputs(json_object_get(d, "inputs"));
}

enum halay_status tft_prepare(struct halay_log *log, struct halay_tft *tft, const struct halay_tft_table *table,
                              const struct halay_tft_prepare_options *options, int is_quiet)
{
    struct halay_tft_data *data = NULL;
    char *text = NULL;
    enum halay_status status = halay_tft_prepare(tft, table, options, &data);

    if (!status && !is_quiet)
        status = halay_tft_data_describe(data, &text);
    halay_tft_data_close(data);
    if (!text)
        return status;
    json_t *description = json_loads(text, 0, NULL);
    halay_tft_free(text);
    if (!description) {
        halay_error(log, "no memory for the summary");
        return HALAY_ERR_NO_MEMORY;
    }
    if (json_is_true(json_object_get(description, "preset")))
        print_preset(description);
    print_description(description);
    json_decref(description);
    return HALAY_OK;
}

/* ---- a preset's options ---- */

/* Adds the names of --columns to a schema. Returns 0 if they are not two or three. */
static int add_columns(const char *text, json_t *schema, json_t *time)
{
    char names[3][256];
    size_t n = 0;

    for (const char *at = text; n < 3; at++) {
        const size_t length = strcspn(at, ",");
        if (!length || length >= sizeof names[n])
            return 0;
        snprintf(names[n++], sizeof *names, "%.*s", (int)length, at);
        at += length;
        if (!*at)
            break;
        if (n == 3)
            return 0;
    }
    if (n < 2)
        return 0;
    const char *id = names[n == 3 ? 0 : 1], *value = names[n - 1];
    json_object_set_new(schema, "id", json_pack("{ss}", n == 3 ? "column" : "constant", id));
    json_object_set_new(schema, "inputs", json_pack("{s{ss ss}}", value, "column", value, "role", "target"));
    json_object_set_new(time, "column", json_string(names[n - 2]));
    return 1;
}

/* Adds the numbers of --season, which the schema's reader checks. Returns 0 if they are not whole numbers. */
static int add_seasons(const char *text, json_t *schema)
{
    json_t *seasons = json_array();

    json_object_set_new(schema, "season", seasons);
    for (const char *at = text;; at++) {
        const size_t digits = strspn(at, "0123456789");
        if (!digits || digits > 9 || (at[digits] && at[digits] != ','))
            return 0;
        json_array_append_new(seasons, json_integer(atoi(at)));
        at += digits;
        if (!*at)
            return 1;
    }
}

/* Adds the input of --holidays: 1 on a holiday, 0 on other days. */
static void add_holidays(const char *file, json_t *schema)
{
    if (!json_object_get(schema, "inputs"))
        json_object_set_new(schema, "inputs", json_object());
    json_object_set_new(json_object_get(schema, "inputs"), "holiday",
                        json_pack("{ss ss}", "holiday", file, "role", "known"));
}

/* Makes the schema of the preset's options; *text is freed by the caller. */
static int make_schema(struct halay_log *log, struct request *r, char **text)
{
    struct halay_tft_prepare_options *o = &r->prepare;
    json_t *time = json_object(), *window = json_object(), *schema = json_pack("{ss}", "preset", "long");
    int status = 0;

    if (r->columns && !add_columns(r->columns, schema, time)) {
        halay_error(log, "'--columns' takes [ID,]TIME,VALUE, like id,date,sales, not '%s'", r->columns);
        status = EXIT_USAGE;
    }
    if (!status && r->season && !add_seasons(r->season, schema)) {
        halay_error(log, "'--season' takes whole numbers, like 24 or 24,168, not '%s'", r->season);
        status = EXIT_USAGE;
    }
    if (r->holidays)
        add_holidays(r->holidays, schema);
    if (r->time_format)
        json_object_set_new(time, "format", json_string(r->time_format));
    if (o->encoder)
        json_object_set_new(window, "encoder", json_integer((json_int_t)o->encoder));
    if (o->horizon)
        json_object_set_new(window, "horizon", json_integer((json_int_t)o->horizon));
    if (o->zone)
        json_object_set_new(schema, "zone", json_string(o->zone));
    if (json_object_size(time))
        json_object_set(schema, "time", time);
    if (json_object_size(window))
        json_object_set(schema, "window", window);
    *text = status ? NULL : json_dumps(schema, 0);
    o->schema_text = *text;
    o->encoder = o->horizon = 0;
    o->zone = NULL;
    json_decref(time);
    json_decref(window);
    json_decref(schema);
    return status;
}

/* ---- run ---- */

static enum halay_status print_schema(struct halay_log *log, struct halay_tft *tft, const struct halay_tft_table *table,
                                      const struct halay_tft_prepare_options *options)
{
    struct halay_tft_data *data = NULL;
    char *text = NULL;
    enum halay_status status = halay_tft_prepare(tft, table, options, &data);

    if (!status)
        status = halay_tft_data_describe(data, &text);
    halay_tft_data_close(data);
    if (status)
        return status;
    json_t *description = json_loads(text, 0, NULL);
    halay_tft_free(text);
    char *schema = json_dumps(json_object_get(description, "document"), JSON_INDENT(2));
    json_decref(description);
    if (!schema) {
        halay_error(log, "no memory for the schema");
        return HALAY_ERR_NO_MEMORY;
    }
    puts(schema);
    free(schema);
    return HALAY_OK;
}

static enum halay_status prepare_files(struct halay_log *log, struct halay_tft *tft, void *request)
{
    const struct request *r = request;
    const struct halay_tft_table table = { .struct_size = sizeof table,
                                           .files = (const char *const *)r->files.at,
                                           .file_count = r->files.count };

    if (r->prints_schema)
        return print_schema(log, tft, &table, &r->prepare);
    return tft_prepare(log, tft, &table, &r->prepare, 0);
}

int tft_cmd_prepare(struct halay_log *log, char **argv)
{
    struct request r = { .prepare.struct_size = sizeof r.prepare };
    const struct halay_tft_prepare_options *o = &r.prepare;
    char *text = NULL;
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!o->schema && !r.preset)
        return tft_options_missing(log, &command_line, "--schema");
    if (!o->path && !r.prints_schema)
        return tft_options_missing(log, &command_line, "-o");
    if (o->path && r.prints_schema) {
        halay_error(log, "'--print-schema' writes no data, so it goes without -o");
        return EXIT_USAGE;
    }
    if (!r.files.count)
        return tft_options_missing(log, &command_line, "a FILE to read");
    if (r.preset && strcmp(r.preset, "long")) {
        halay_error(log, "unknown preset '%s'; there is long", r.preset);
        return EXIT_USAGE;
    }
    const int differs = r.columns || r.season || r.time_format || r.holidays;
    if (o->schema && (r.preset || o->encoder || o->horizon || o->zone || o->test || differs)) {
        halay_error(log, "'--preset' and its options ('--encoder', '--horizon', '--zone', '--columns', '--season', "
                         "'--time-format', '--holidays', '--test') go without --schema, which has all of that");
        return EXIT_USAGE;
    }
    if (differs && (status = make_schema(log, &r, &text)) > 0)
        return status;
    status = tft_command_run(log, NULL, NULL, prepare_files, &r);
    free(text);
    return status;
}
