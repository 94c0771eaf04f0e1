/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft prepare: files and a schema in, one file of prepared data out, and a summary of what happened to the rows.
 */
#include "base/config.h"
#include "tft/cli/commands.h"
#include "tft/cli/options.h"
#include "tft/data/htd.h"
#include "tft/data/prepare.h"
#include "tft/data/windows.h"
#include "tft/model/tft.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>

struct request {
    struct tft_prepare_request prepare;
    const char *preset;
    struct halay_arguments files;
};

#define SETS(member) HALAY_OPTION_SETS(request, member)

static const struct halay_option option_rows[] = {
    { "FILE...", NULL, NULL, "CSV files (plain or .gz), or folders of them", HALAY_OPTION_ARGUMENTS, SETS(files) },
    { "--schema", NULL, "FILE", "what the columns mean, YAML or JSON", HALAY_OPTION_TEXT, SETS(prepare.schema) },
    { "--preset", NULL, "long", "the columns are unique_id, ds and y; step, window and splits follow from the files",
      HALAY_OPTION_TEXT, SETS(preset) },
    { "--encoder", NULL, "N", "with a preset: steps of the past (by default chosen by the step)", HALAY_OPTION_NUMBER,
      SETS(prepare.preset.encoder), .least = 1, .most = TFT_STEPS_MAX },
    { "--horizon", NULL, "N", "with a preset: steps to forecast (likewise)", HALAY_OPTION_NUMBER,
      SETS(prepare.preset.horizon), .least = 1, .most = TFT_STEPS_MAX },
    { "--zone", NULL, "ZONE", "with a preset: the time zone of the files' clock, like Europe/Berlin", HALAY_OPTION_TEXT,
      SETS(prepare.preset.zone) },
    { "--threads", NULL, "N", "threads (default: as many as the process may run on)", HALAY_OPTION_NUMBER,
      SETS(prepare.threads), .least = 1, .most = 64 },
    { "--memory", NULL, "SIZE",
      "the most memory to hold, like 2G; what is beyond goes to a file beside the output that "
      "nobody sees (default: half of the host's)",
      HALAY_OPTION_SIZE, SETS(prepare.memory) },
    { "--out", "-o", "FILE", "the file to write", HALAY_OPTION_TEXT, SETS(prepare.out) },
    { .name = NULL },
};

static const struct halay_command_line command_line = {
    .command = "halay-tft prepare",
    .synopsis = "--schema SCHEMA FILE... -o DATA.htd\n--preset long [--encoder N] [--horizon N] [--zone ZONE] FILE... "
                "-o DATA.htd",
    .about = "Reads CSV files by a schema, sorts, merges, fills and scales their rows, and writes one file that the "
             "other commands map. Prints what happened to the rows.",
    .table = option_rows,
    .is_lenient = 1,
};

static void print_count(const char *what, size_t count)
{
    printf("%-26s %zu\n", what, count);
}

/* A line for what most tables do not have. */
static void print_if_any(const char *what, size_t count)
{
    if (count)
        print_count(what, count);
}

static void print_span(const struct tft_data *d)
{
    char first[40], last[40];
    int64_t begin = INT64_MAX, end = INT64_MIN;

    for (size_t e = 0; e < d->entity_count; e++) {
        int64_t t = tft_data_time(d, e, d->entities[e].first + d->entities[e].rows - 1);
        begin = d->entities[e].start < begin ? d->entities[e].start : begin;
        end = t > end ? t : end;
    }
    tft_schema_print_time(&d->schema, begin, first, sizeof first);
    tft_schema_print_time(&d->schema, end, last, sizeof last);
    printf("%-26s %s to %s\n", "time", first, last);
}

static const char *source_of(const struct tft_input *input)
{
    switch (input->source) {
    case TFT_FROM_COLUMN:
        return input->column;
    case TFT_FROM_CALENDAR:
        return tft_calendar_names[input->calendar];
    case TFT_FROM_HOLIDAYS:
        return "holidays";
    case TFT_FROM_WAVE:
        return "fourier";
    default:
        return "id";
    }
}

/* A line for each input: its source, what it is, how many of its values were filled. */
static void print_inputs(const struct tft_data *d, const struct tft_table *table)
{
    static const char *const scales[] = { "none", "standard", "minmax", "robust", "log1p-standard" };

    printf("\n%-18s %-14s %-9s %-10s %-15s %10s\n", "input", "from", "role", "categories", "scale", "filled");
    for (size_t i = 0; i < d->schema.input_count; i++) {
        const struct tft_input *input = &d->schema.inputs[i];
        char categories[24] = "";
        if (input->is_category)
            snprintf(categories, sizeof categories, "%zu", tft_encoding_categories(&d->schema, &d->encoding, i));
        printf("%-18s %-14s %-9s %-10s %-15s", input->name, source_of(input), tft_roles[input->role].name, categories,
               input->is_category ? "" : scales[input->scale]);
        if (input->source == TFT_FROM_COLUMN && input->derivation == TFT_PLAIN)
            printf(" %10zu", table->filled[table->column_of[i]]);
        putchar('\n');
    }
}

/* The windows of a split. */
struct window_counts {
    size_t all, shorter, masked; /* masked: targets */
};

static void print_windows(const struct tft_data *d, const char *split, const struct window_counts *n)
{
    printf("windows %-18s %zu", split, n->all);
    if (n->shorter)
        printf(" (%zu with a shorter encoder)", n->shorter);
    if (n->masked)
        printf(" (%zu of %zu targets masked)", n->masked, n->all * d->schema.horizon * d->schema.target_count);
    putchar('\n');
}

static void print_summary(const struct tft_data *d, const struct tft_table *table, const struct window_counts windows[])
{
    const struct tft_table_summary *s = &d->summary;

    printf("%-26s %s\n", "schema", d->schema.name);
    print_count("files", s->files);
    if (s->columns_ignored)
        printf("%-26s %zu (%s)\n", "columns ignored", s->columns_ignored, table->ignored);
    print_count("rows read", s->rows_read);
    print_count("rows outside the span", s->rows_outside_span);
    print_if_any("rows in a repeated hour", s->rows_repeated);
    print_if_any("rows in a skipped hour", s->rows_skipped);
    print_count("rows doubled, merged", s->rows_duplicated);
    print_if_any("rows resampled, merged", s->rows_resampled);
    print_if_any("rows trimmed", s->rows_trimmed);
    print_count("rows missing, added", s->rows_missing);
    print_if_any("rows dropped", s->rows_dropped);
    print_count("values filled", s->filled);
    print_if_any("entities without target", s->entities_empty);
    print_if_any("entities untrained", s->entities_untrained);
    print_if_any("entities too short", s->entities_short);
    print_count("entities", d->entity_count);
    print_count("rows", d->rows);
    print_span(d);
    for (int i = 0; i < TFT_SPLIT_COUNT; i++)
        print_windows(d, tft_split_names[i], &windows[i]);
    print_inputs(d, table);
}

static enum halay_status count_windows(struct halay_log *log, const struct tft_data *d, struct window_counts windows[])
{
    for (int i = 0; i < TFT_SPLIT_COUNT; i++) {
        struct tft_windows w;
        enum halay_status status = tft_windows_init(log, d, (enum tft_split)i, d->schema.stride, &w);
        if (status)
            return status;
        windows[i].all = w.count;
        windows[i].shorter = tft_windows_short(&w);
        windows[i].masked = w.count * d->schema.horizon * d->schema.target_count - tft_windows_targets(&w);
        tft_windows_fini(&w);
    }
    if (windows[TFT_TRAIN].all)
        return HALAY_OK;
    const struct tft_entity *longest = &d->entities[0];
    for (size_t e = 1; e < d->entity_count; e++)
        longest = d->entities[e].rows > longest->rows ? &d->entities[e] : longest;
    halay_error(
        log, "no entity is long enough for a training window of %zu + %zu steps; the longest, '%.64s', has %zu in all",
        d->schema.min_encoder, d->schema.horizon, longest->id, longest->rows);
    return HALAY_ERR_FORMAT;
}

/* What a preset found in the files. */
static void print_preset(const struct tft_schema *s)
{
    const json_t *split = json_object_get(s->document, "split");

    printf("%-26s every %s, window %zu + %zu; train %s, valid %s, test %s\n", "preset",
           json_string_value(json_object_get(s->document, "every")), s->encoder, s->horizon,
           json_string_value(json_object_get(split, "train")), json_string_value(json_object_get(split, "valid")),
           json_string_value(json_object_get(split, "test")));
}

static size_t threads_of(const struct tft_prepare_request *r)
{
    cpu_set_t set;

    if (r->threads)
        return r->threads;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
}

enum halay_status tft_prepare(struct halay_log *log, const struct tft_prepare_request *r)
{
    struct tft_schema schema = { 0 };
    struct tft_table table = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_data data = { 0 };
    struct tft_spill *spill = NULL;
    struct window_counts windows[TFT_SPLIT_COUNT];
    enum halay_status status = r->schema ? tft_schema_load(log, r->schema, &schema)
                                         : tft_preset_long(log, r->files, r->file_count, &r->preset, &schema);

    if (!status)
        status = tft_spill_create(log, r->out, r->memory, &spill);
    if (!status)
        status = tft_table_read_spilled(log, &schema, r->files, r->file_count, spill, &table);
    table.threads = threads_of(r);
    if (!status)
        tft_encoding_drop_untrained(log, &schema, &table);
    if (!status)
        status = tft_encoding_fit(log, &schema, &table, &encoding);
    if (!status)
        status = tft_data_init(log, &schema, &encoding, &table, &data);
    if (!status)
        status = count_windows(log, &data, windows);
    if (!status)
        status = tft_htd_write(log, r->out, &data);
    if (!status && !r->schema && !r->is_quiet)
        print_preset(&data.schema);
    if (!status && !r->is_quiet)
        print_summary(&data, &table, windows);
    tft_data_fini(&data);
    tft_encoding_fini(&encoding);
    tft_table_fini(&table);
    tft_schema_fini(&schema);
    tft_spill_destroy(spill);
    return status;
}

int tft_cmd_prepare(struct halay_log *log, char **argv)
{
    struct request r = { .preset = NULL };
    struct tft_prepare_request *prepare = &r.prepare;
    int status = tft_options_parse(log, &command_line, argv, &r);

    if (status >= 0)
        return status;
    if (!prepare->schema && !r.preset)
        return tft_options_missing(log, &command_line, "--schema");
    if (!prepare->out)
        return tft_options_missing(log, &command_line, "-o");
    if (!r.files.count)
        return tft_options_missing(log, &command_line, "a FILE to read");
    if (r.preset && strcmp(r.preset, "long")) {
        halay_error(log, "unknown preset '%s'; there is long", r.preset);
        return EXIT_USAGE;
    }
    if (prepare->schema && (r.preset || prepare->preset.encoder || prepare->preset.horizon || prepare->preset.zone)) {
        halay_error(log,
                    "'--preset', '--encoder', '--horizon' and '--zone' go without --schema, which has all of that");
        return EXIT_USAGE;
    }
    prepare->files = (const char *const *)r.files.at;
    prepare->file_count = r.files.count;
    return tft_prepare(log, prepare) ? EXIT_FAILURE : EXIT_SUCCESS;
}
