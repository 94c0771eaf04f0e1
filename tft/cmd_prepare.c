/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft prepare: files and a schema in, one file of prepared data out, and a summary of what happened to the rows.
 */
#include "tft/commands.h"
#include "tft/htd.h"
#include "tft/options.h"
#include "tft/paths.h"
#include "tft/windows.h"
#include <stdio.h>

static const char help[] =
    "usage: halay-tft prepare --schema SCHEMA FILE... -o DATA.htd\n"
    "\n"
    "Reads CSV files (plain or .gz; or folders of them) by a schema, sorts, merges, fills and scales their rows,\n"
    "and writes one file that the other commands map. Prints what happened to the rows.\n"
    "\n"
    "  --schema FILE   what the columns mean, YAML or JSON\n"
    "  -o, --out FILE  the file to write\n";

static void print_summary(const struct tft_data *d, const size_t windows[TFT_SPLIT_COUNT])
{
    const struct tft_table_summary *s = &d->summary;
    char first[32], last[32];
    int64_t end = INT64_MIN;

    for (size_t e = 0; e < d->entity_count; e++) {
        int64_t t = d->entities[e].start + (int64_t)(d->entities[e].rows - 1) * d->schema.every;
        end = t > end ? t : end;
    }
    tft_time_print(d->encoding.origin, first, sizeof first);
    tft_time_print(end, last, sizeof last);
    printf("%-26s %s\n", "schema", d->schema.name);
    printf("%-26s %zu\n", "files", s->files);
    printf("%-26s %zu\n", "rows read", s->rows_read);
    printf("%-26s %zu\n", "rows outside the span", s->rows_outside_span);
    printf("%-26s %zu\n", "rows doubled, merged", s->rows_duplicated);
    printf("%-26s %zu\n", "rows missing, added", s->rows_missing);
    printf("%-26s %zu\n", "values filled", s->filled);
    printf("%-26s %zu\n", "entities", d->entity_count);
    printf("%-26s %zu\n", "rows", d->rows);
    printf("%-26s %s to %s\n", "time", first, last);
    for (int i = 0; i < TFT_SPLIT_COUNT; i++)
        printf("windows %-18s %zu\n", tft_split_names[i], windows[i]);
}

static enum halay_status prepare(struct halay_log *log, const char *schema_path, const char *const *files, size_t count,
                                 const char *out)
{
    struct tft_schema schema = { 0 };
    struct tft_table table = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_data data = { 0 };
    size_t windows[TFT_SPLIT_COUNT] = { 0 };
    enum halay_status status = tft_schema_load(log, schema_path, &schema);

    if (!status)
        status = tft_table_read(log, &schema, files, count, &table);
    if (!status)
        status = tft_encoding_fit(log, &schema, &table, &encoding);
    if (!status)
        status = tft_data_init(log, &schema, &encoding, &table, &data);
    for (int i = 0; i < TFT_SPLIT_COUNT && !status; i++) {
        struct tft_windows w;
        status = tft_windows_init(log, &data, (enum tft_split)i, data.schema.stride, &w);
        if (status)
            break;
        windows[i] = w.count;
        tft_windows_fini(&w);
    }
    if (!status && !windows[TFT_TRAIN]) {
        halay_error(log, "no entity is long enough for a training window of %zu + %zu steps", data.schema.encoder,
                    data.schema.horizon);
        status = HALAY_ERR_FORMAT;
    }
    if (!status)
        status = tft_htd_write(log, out, &data);
    if (!status)
        print_summary(&data, windows);
    tft_data_fini(&data);
    tft_encoding_fini(&encoding);
    tft_table_fini(&table);
    tft_schema_fini(&schema);
    return status;
}

int tft_cmd_prepare(struct halay_log *log, int argc, char **argv)
{
    const char *schema = NULL, *out = NULL;
    const struct tft_option list[] = { { "schema", 0, &schema, NULL },
                                       { "out", 'o', &out, NULL },
                                       { NULL, 0, NULL, NULL } };
    const struct tft_options options = { .log = log, .command = "halay-tft prepare", .help = help, .list = list };
    int files, status = tft_options_parse(&options, argc, argv, &files);

    if (status >= 0)
        return status;
    if (!schema)
        return tft_options_missing(&options, "--schema");
    if (!out)
        return tft_options_missing(&options, "-o");
    if (!files)
        return tft_options_missing(&options, "a FILE to read");
    return tft_exit_status(prepare(log, schema, (const char *const *)argv, (size_t)files, out)) ? TFT_EXIT_FAILED
                                                                                                : TFT_EXIT_OK;
}
