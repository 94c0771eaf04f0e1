/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schema can say of tables: shapes of files, ways to give the time, periods, categories, lags, cyclic and
 * holiday inputs, indicators, weights, scales, rows that are dropped; each against numbers worked out by hand.
 */
#include "tests/tft/files.h"
#include "tft/core/data/data.h"
#include "tft/core/data/encoding.h"
#include "tft/core/data/table.h"
#include "tft/core/data/windows.h"
#include "tft/core/run/batches.h"
#include <math.h>

#define WINDOW "window: {encoder: 2, horizon: 1}\n"
#define STEPS "  steps: {calendar: steps, role: known, scale: none}\n"

/* future: NULL, or rows of a file that knows something of the two steps behind the table's end, by which it is then
 * longer. */
static enum halay_status prepare_files(const char *schema_text, const char *const *paths, size_t count,
                                       const char *future, struct tft_data *data)
{
    struct tft_schema schema = { 0 };
    struct tft_table table = { 0 };
    struct tft_encoding encoding = { 0 };
    const char *path = future ? write_text("future.csv", future) : NULL;
    const struct tft_table_source later = { .paths = &path, .path_count = 1 };
    enum halay_status status = tft_schema_load(&test_log, write_text("s.yaml", schema_text), &schema);

    if (!status)
        status = tft_table_read(&test_log, &schema, paths, count, &table);
    if (!status)
        tft_encoding_drop_untrained(&test_log, &schema, &table);
    if (!status)
        status = tft_encoding_fit(&test_log, &schema, &table, &encoding);
    if (!status && future)
        status = tft_table_extend(&test_log, 2, &table);
    if (!status && future)
        status = tft_future_take(&test_log, &schema, &later, 2, &table);
    if (!status)
        status = tft_data_init(&test_log, &schema, &encoding, &table, data);
    tft_encoding_fini(&encoding);
    tft_table_fini(&table);
    tft_schema_fini(&schema);
    return status;
}

static enum halay_status prepare_future(const char *schema_text, const char *csv, const char *future,
                                        struct tft_data *data)
{
    const char *path = write_text("rows.csv", csv);

    return prepare_files(schema_text, &path, 1, future, data);
}

static enum halay_status prepare(const char *schema_text, const char *csv, struct tft_data *data)
{
    return prepare_future(schema_text, csv, NULL, data);
}

/* The target of an entity, as text: "1 2 3*", a star where it was not measured. */
static const char *targets(const struct tft_data *d, size_t entity)
{
    static char text[512];
    const struct tft_entity *e = &d->entities[entity];

    text[0] = 0;
    for (size_t i = 0; i < e->rows; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%g%s", i ? " " : "", d->target[e->first + i],
                 d->present[e->first + i] ? "" : "*");
    return text;
}

/* A temporal real of an entity. */
static const char *reals(const struct tft_data *d, size_t entity, const char *name)
{
    static char text[512];
    const struct tft_entity *e = &d->entities[entity];

    text[0] = 0;
    for (size_t k = 0; k < d->real_count; k++)
        for (size_t i = 0; i < e->rows && !strcmp(d->schema.inputs[d->reals[k]].name, name); i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.4g", i ? " " : "",
                     (double)d->values[(e->first + i) * d->real_count + k]);
    return text;
}

static const char *codes(const struct tft_data *d, size_t entity, const char *name)
{
    static char text[512];
    const struct tft_entity *e = &d->entities[entity];

    text[0] = 0;
    for (size_t k = 0; k < d->cat_count; k++)
        for (size_t i = 0; i < e->rows && !strcmp(d->schema.inputs[d->cats[k]].name, name); i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                     d->categories[(e->first + i) * d->cat_count + k]);
    return text;
}

#define SAME(got, want)                                             \
    do {                                                            \
        const char *got_ = (got);                                   \
        CHECK(!strcmp(got_, (want)), "'%s', not '%s'", got_, want); \
    } while (0)

/* ---- shapes and times ---- */

static void wide(void)
{
    static const char schema[] =
        "id: {columns: header}\ntime: {column: \"\"}\nevery: 1h\n"
        "csv: {separator: \";\", decimal: \",\"}\n"
        "inputs:\n  y: {column: \"MT_*\", role: target, scale: none, fill: {constant: 0}}\n" STEPS
        "  temp: {column: temp, role: observed, scale: none, fill: forward}\n" WINDOW
        "split: {train: \"< 2020-01-02\"}\n";
    struct tft_data d;

    REQUIRE(!prepare(schema,
                     "\"\";\"MT_002\";\"MT_001\";note;temp\n\"2020-01-01 00:00:00\";1,5;2;x;7\n"
                     "\"2020-01-01 01:00:00\";3;;x;8\n\"2020-01-01 03:00:00\";5;6;x;\n",
                     &d));
    CHECK(d.entity_count == 2 && !strcmp(d.entities[0].id, "MT_001") && d.summary.columns_ignored == 1 &&
          d.summary.rows_read == 3);
    SAME(targets(&d, 0), "2 0* 0* 6");
    SAME(targets(&d, 1), "1.5 3 0* 5");
    SAME(reals(&d, 1, "temp"), "7 8 8 8");
    tft_data_fini(&d);
    CHECK(prepare(schema, ";a;temp\n2020-01-01;1;2\n", &d) == HALAY_ERR_FORMAT &&
          error_says("no column 'MT_*' that could be an entity"));
}

static void times(void)
{
#define TIMED(time, every, split)                                                                                  \
    "id: {column: id}\n" time every                                                                                \
    "inputs:\n  y: {column: y, role: target, scale: none, fill: forward}\n" STEPS WINDOW "split: {train: \"" split \
    "\"}\n"
    static const struct {
        const char *schema, *csv, *targets, *steps;
    } cases[] = {
        { TIMED("time: {columns: [y4, mo, d, h]}\n", "every: 1h\n", "< 2021-01-01"),
          "id,y4,mo,d,h,y\na,2020,1,31,23,1\na,2020,02,01,1,3\n", "1 1* 3", "0 1 2" },
        { TIMED("time: {columns: [d, h], format: \"%d.%m.%Y %H:%M\"}\n", "every: 30min\n", "< 2021-01-01"),
          "id,d,h,y\na,31.1.2020,23:30,1\na,01.02.2020,00:00,3\n", "1 3", "0 1" },
        { TIMED("time: {column: t, integer: true}\n", "every: 5\n", "< 100"), "id,t,y\na,20,3\na,10,1\na,15,2\n",
          "1 2 3", "0 1 2" },
        { TIMED("", "", "< 100"), "id,y\na,5\na,3\na,4\n", "5 3 4", "0 1 2" },
        { TIMED("time: {column: t}\n", "every: 1M\n", "< 2021-01-01"),
          "id,t,y\na,2020-01-31,1\na,2020-02-29,2\na,2020-04-30,4\n", "1 2 2* 4", "0 1 2 3" },
        { TIMED("time: {column: t}\n", "every: 1B\n", "< 2021-01-01"), "id,t,y\na,2020-04-30,1\na,2020-05-05,4\n",
          "1 1* 1* 4", "0 1 2 3" },
        { TIMED("time: {column: t}\n", "every: 1w\n", "< 2021-01-01"),
          "id,t,y\na,2020-04-30T00:00Z,1\na,2020-05-14T00:00Z,4\n", "1 1* 4", "0 1 2" },
        { TIMED("time: {column: t, format: \"%s\"}\n", "every: 1h\n", "< 2021-01-01"),
          "id,t,y\na,1577836800,1\na,1577840400,2\n", "1 2", "0 1" },
    };
    struct tft_data d;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(!prepare(cases[i].schema, cases[i].csv, &d), "case %zu", i);
        SAME(targets(&d, 0), cases[i].targets);
        SAME(reals(&d, 0, "steps"), cases[i].steps);
        tft_data_fini(&d);
    }
    CHECK(prepare(cases[0].schema, "id,y4,mo,d,h,y\na,2020,2,30,23,1\n", &d) &&
          error_says("row 2, column 'h': '23' is not the end of a date"));
    CHECK(prepare(cases[0].schema, "id,y4,mo,d,h,y\na,2020,x,30,23,1\n", &d) &&
          error_says("column 'mo': 'x' is not a part of a date"));
    CHECK(prepare(cases[2].schema, "id,t,y\na,1.5,1\n", &d) && error_says("'1.5' is not a whole number"));
    CHECK(prepare(cases[2].schema, "id,t,y\na,10,1\na,12,1\n", &d) &&
          error_says("12 is not a whole number of steps after the first moment of 'a', 10"));
    CHECK(prepare(cases[4].schema, "id,t,y\na,2020-01-31,1\na,2020-02-28,2\n", &d) &&
          error_says("not a whole number of steps"));
    CHECK(prepare(cases[5].schema, "id,t,y\na,2020-05-01,1\na,2020-05-02,2\n", &d) &&
          error_says("not a whole number of steps"));
}

/* The longest window that a schema may have is one that a model takes, and its quantiles are those of the run. */
static void described(void)
{
    char schema[600];
    struct tft_data d;
    struct tft_run_config run;
    struct tft_model_config config;
    struct tft_model *model;

    snprintf(schema, sizeof schema,
             "id: {column: id}\ntime: {column: t, integer: true}\ninputs:\n  y: {column: y, role: target, scale: "
             "none}\n" STEPS "window: {encoder: %d, horizon: %d, min_encoder: 1}\nsplit: {train: \"< 4\"}\n",
             TFT_STEPS_MAX, TFT_STEPS_MAX);
    REQUIRE(!prepare(schema, "id,t,y\na,1,1\na,2,1\n", &d));
    tft_run_config_defaults(&run);
    run.quantiles = (struct tft_list){ .values = { 1e-7, 0.3, 0.9 }, .count = 3 };
    tft_batches_describe(&d.schema, &d.encoding, &run, &config);
    CHECK(!memcmp(config.quantiles, run.quantiles.values, 3 * sizeof *config.quantiles), "%.17g", config.quantiles[1]);
    REQUIRE(!tft_model_create(&test_log, &config, &model));
    tft_model_destroy(model);
    tft_data_fini(&d);
}

static void resampled(void)
{
#define RESAMPLED(how)                                                                                           \
    "id: {column: id}\ntime: {column: t}\nevery: 15min\nresample: {every: 1h, how: " how "}\nduplicates: mean\n" \
    "inputs:\n  y: {column: y, role: target, scale: none, missing_number: 0, fill: forward}\n" STEPS             \
    "  c: {column: c, role: observed, type: category, fill: forward}\n" WINDOW "split: {train: \"< 2021-01-01\"}\n"
    static const char rows[] =
        "id,t,y,c\na,2020-01-01 00:15,2,x\na,2020-01-01 00:30,4,w\na,2020-01-01 00:30,8,y\na,2020-01-01 01:45,,\n"
        "a,2020-01-01 01:00,10,x\na,2020-01-01 02:00,0,x\na,2020-01-01 02:45,0,w\na,2020-01-01 03:00,7,w\n";
    struct tft_data d;

    REQUIRE(!prepare(RESAMPLED("mean"), rows, &d));
    SAME(targets(&d, 0), "4 10 10* 7");
    SAME(codes(&d, 0, "c"), "2 1 0 0"); /* the last one of each hour, among w x y */
    CHECK(d.summary.rows_duplicated == 1 && d.summary.rows_resampled == 3 &&
          d.entities[0].start == tft_time_from_date(2020, 1, 1, 0, 0, 0));
    tft_data_fini(&d);
    REQUIRE(!prepare(RESAMPLED("sum"), rows, &d));
    SAME(targets(&d, 0), "10 10*"); /* the hours of 00:15 and of 03:00 have no quarters before and after these */
    CHECK(d.entities[0].start == tft_time_from_date(2020, 1, 1, 1, 0, 0) && d.summary.rows_trimmed == 4);
    tft_data_fini(&d);
    REQUIRE(!prepare(RESAMPLED("last"), rows, &d));
    SAME(targets(&d, 0), "6 10 10* 7");
    tft_data_fini(&d);
}

/* Sums of whole periods only: where an entity begins and ends, as the step of its rows says, or the shortest between
 * two of them. */
static void whole_periods(void)
{
#define SUMS(every)                                                                                              \
    "id: {column: id}\ntime: {column: t}\n" every "inputs:\n  y: {column: y, role: target, scale: none}\n" STEPS \
    "window: {encoder: 1, horizon: 1}\nsplit: {train: \"< 2021-01-01\"}\n"
    static const struct {
        const char *schema, *rows, *targets;
    } cases[] = {
        /* six-hourly rows from 00:00 to 18:00; to 12:00; from 06:00 */
        { SUMS("every: 1d\nresample: {how: sum}\n"),
          "a,2020-05-04 00:00,1\na,2020-05-04 06:00,1\na,2020-05-04 12:00,1\na,2020-05-04 18:00,1\n"
          "a,2020-05-05 00:00,2\na,2020-05-05 06:00,2\na,2020-05-05 12:00,2\na,2020-05-05 18:00,2\n",
          "4 8" },
        { SUMS("every: 1d\nresample: {how: sum}\n"),
          "a,2020-05-04 00:00,1\na,2020-05-04 06:00,1\na,2020-05-04 12:00,1\na,2020-05-04 18:00,1\n"
          "a,2020-05-05 00:00,2\na,2020-05-05 06:00,2\na,2020-05-05 12:00,2\n",
          "4" },
        { SUMS("every: 1d\nresample: {how: sum}\n"),
          "a,2020-05-04 06:00,1\na,2020-05-04 12:00,1\na,2020-05-04 18:00,1\n"
          "a,2020-05-05 00:00,2\na,2020-05-05 06:00,2\na,2020-05-05 12:00,2\na,2020-05-05 18:00,2\n",
          "8" },
        /* one row a period, and one row in all */
        { SUMS("every: 1d\nresample: {how: sum}\n"), "a,2020-05-04,1\na,2020-05-05,2\na,2020-05-07,3\na,2020-05-06,4\n",
          "1 2 4 3" },
        { SUMS("every: 1d\nresample: {how: sum}\n"), "a,2020-05-04,1\n", "1" },
        /* Monday to Friday, twice (2020-05-04 was a Monday): business days fill a week, days do not */
        { SUMS("every: 1B\nresample: {every: 1w, how: sum}\n"),
          "a,2020-05-04,1\na,2020-05-05,1\na,2020-05-06,1\na,2020-05-07,1\na,2020-05-08,1\n"
          "a,2020-05-11,2\na,2020-05-12,2\na,2020-05-13,2\na,2020-05-14,2\na,2020-05-15,2\n",
          "5 10" },
        { SUMS("every: 1d\nresample: {every: 1w, how: sum}\n"),
          "a,2020-05-04,1\na,2020-05-05,1\na,2020-05-06,1\na,2020-05-07,1\na,2020-05-08,1\n"
          "a,2020-05-11,2\na,2020-05-12,2\na,2020-05-13,2\na,2020-05-14,2\na,2020-05-15,2\n",
          "5" },
        /* months of a quarter */
        { SUMS("every: 1M\nresample: {every: 3M, how: sum}\n"),
          "a,2020-01-01,1\na,2020-02-01,2\na,2020-03-01,3\na,2020-04-01,4\n", "6" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_data d;
        char csv[1000];
        snprintf(csv, sizeof csv, "id,t,y\n%s", cases[i].rows);
        REQUIRE(!prepare(cases[i].schema, csv, &d));
        SAME(targets(&d, 0), cases[i].targets);
        tft_data_fini(&d);
    }
    struct tft_data none;
    CHECK(prepare(cases[0].schema, "id,t,y\na,2020-05-04 00:00,1\na,2020-05-04 06:00,1\n", &none) &&
          error_says("hold no value of the target of a whole period"));
}

/* A time with an offset says nothing of the day of the next row, which may have none; that is of the zone's clock. */
static void offsets(void)
{
#define OF_ZONE(zone)                                       \
    "id: {column: id}\ntime: {column: t}\nevery: 1h\n" zone \
    "inputs:\n  y: {column: y, role: target, scale: none}\n" STEPS WINDOW "split: {train: \"< 2021-01-01\"}\n"
    static const char csv[] =
        "id,t,y\na,2020-05-01 01:00+02,1\na,2020-05-01 00:00:00,2\na,2020-05-01 01:00:00,3\na,2020-05-01 02:00:00,4\n";
    struct tft_data d;

    CHECK(prepare(OF_ZONE(""), csv, &d) && error_says("row 3, column 't': '2020-05-01 00:00:00' has no offset"));
    REQUIRE(!prepare(OF_ZONE("zone: {name: UTC, offset: 0, changes: []}\n"), csv, &d));
    CHECK(d.entities[0].start == tft_time_from_date(2020, 4, 30, 23, 0, 0));
    SAME(targets(&d, 0), "1 2 3 4");
    tft_data_fini(&d);
}

/* Hours by a clock that is put forward and back: the grid has every hour that was, known inputs are the clock's. */
static void zoned_hours(void)
{
    static const char schema[] =
        "id: {column: id}\ntime: {column: t}\nzone: Europe/Berlin\nevery: 1h\n"
        "inputs:\n  y: {column: y, role: target, scale: none}\n  hour: {calendar: hour, role: known, scale: none}\n"
        "  steps: {calendar: steps, role: known, scale: none}\n"
        "  day: {fourier: {period: 24h, terms: 1}, role: known}\n" WINDOW
        "split: {train: \"< 2020-10-25 02:00\", test: "
        "\"< 2020-10-25 04:00\"}\n";
    char text[40];
    struct tft_data d;

    /* 02:00 never was; an offset says which. */
    REQUIRE(!prepare(schema,
                     "id,t,y\na,2020-03-29 01:00,1\na,2020-03-29 02:00,2\na,2020-03-29 03:00,3\n"
                     "a,2020-03-29 02:00Z,4\na,2020-03-29 05:00,5\n",
                     &d));
    SAME(targets(&d, 0), "1 3 4 5");
    SAME(reals(&d, 0, "hour"), "1 3 4 5");
    SAME(reals(&d, 0, "steps"), "0 1 2 3");
    SAME(reals(&d, 0, "day_cos1"), "0.9659 0.7071 0.5 0.2588");
    CHECK(d.entities[0].start == tft_time_from_date(2020, 3, 29, 0, 0, 0) && d.summary.rows_skipped == 1 &&
          d.summary.rows_repeated == 0 && d.summary.rows_read == 5);
    tft_schema_print_time(&d.schema, d.entities[0].start + 3600, text, sizeof text);
    SAME(text, "2020-03-29 03:00:00+02:00");
    tft_data_fini(&d);

    /* The second row of a repeated hour is of its second pass, whatever lies between; b has it once. A bound is the
     * first. */
    REQUIRE(!prepare(schema,
                     "id,t,y\nb,2020-10-25 01:00,7\nb,2020-10-25 02:00,8\na,2020-10-25 01:00,1\n"
                     "a,2020-10-25 03:00,4\na,2020-10-25 02:00,2\na,2020-10-25 02:00,3\n",
                     &d));
    SAME(targets(&d, 0), "1 2 3 4");
    SAME(reals(&d, 0, "hour"), "1 2 2 3");
    SAME(targets(&d, 1), "7 8");
    CHECK(d.summary.rows_repeated == 3 && d.summary.rows_duplicated == 0);
    CHECK(d.schema.split_end[TFT_TRAIN] == tft_time_from_date(2020, 10, 25, 0, 0, 0) &&
          d.schema.split_end[TFT_TEST] == tft_time_from_date(2020, 10, 25, 3, 0, 0));
    const char *file = in_scratch("zoned.htd");
    CHECK(!tft_htd_write(&test_log, file, &d));
    tft_data_fini(&d);
    REQUIRE(!tft_htd_open(&test_log, file, &d));
    CHECK(d.schema.is_in_utc && d.summary.rows_repeated == 3 && d.schema.zone &&
          tft_zone_offset(d.schema.zone, 0) == 3600);
    tft_data_fini(&d);
    /* Three of them, or two that say which. */
    CHECK(prepare(schema, "id,t,y\na,2020-10-25 02:00,1\na,2020-10-25 02:00,2\na,2020-10-25 02:00,3\n", &d) &&
          error_says("'a' has a second row for 2020-10-25 02:00:00+01:00"));
    CHECK(prepare(schema, "id,t,y\na,2020-10-25 02:00+02:00,1\na,2020-10-25 02:00+02:00,2\n", &d) &&
          error_says("'a' has a second row for 2020-10-25 02:00:00+02:00"));
}

/* Rows of value 1 of the entity a: `count`, each `seconds` after the one before. */
static const char *ones(int64_t first, int64_t seconds, int count, const char *behind)
{
    static char rows[32768];
    char time[32];

    snprintf(rows, sizeof rows, "id,t,y\n");
    for (int i = 0; i < count; i++) {
        tft_time_print(first + i * seconds, time, sizeof time);
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "a,%s%s,1\n", time, behind);
    }
    return rows;
}

/* Days begin and end by the clock, with 23 or 25 hours; daily rows are days, not hours of UTC. */
static void zoned_days(void)
{
#define ZONED_SUMS(every)                                                                                \
    "id: {column: id}\ntime: {column: t}\nzone: Europe/Berlin\nresample: {every: " every ", how: sum}\n" \
    "inputs:\n  y: {column: y, role: target, scale: none}\n" STEPS WINDOW "split: {train: \"< 2021-01-01\"}\n"
    struct tft_data d;

    /* Quarters of hours from the 27th 23:00 on; of the 2nd the last one is missing. */
    REQUIRE(!prepare(ZONED_SUMS("1d"), ones(tft_time_from_date(2020, 3, 27, 22, 0, 0), 900, 6 * 96 - 1, "Z"), &d));
    SAME(targets(&d, 0), "96 92 96 96 96");
    CHECK(d.entities[0].start == tft_time_from_date(2020, 3, 28, 0, 0, 0) && !d.schema.is_in_utc);
    tft_data_fini(&d);
    REQUIRE(!prepare(ZONED_SUMS("1d"), ones(tft_time_from_date(2020, 10, 23, 22, 0, 0), 3600, 3 * 24 + 1, "Z"), &d));
    SAME(targets(&d, 0), "24 25 24");
    tft_data_fini(&d);
    /* Weeks of days, one of which has 23 or 25 hours: all are whole. */
    REQUIRE(!prepare(ZONED_SUMS("1w"), ones(tft_time_from_date(2020, 10, 19, 0, 0, 0), 86400, 14, ""), &d));
    SAME(targets(&d, 0), "7 7");
    tft_data_fini(&d);
    REQUIRE(!prepare(ZONED_SUMS("1w"), ones(tft_time_from_date(2020, 3, 23, 0, 0, 0), 86400, 14, ""), &d));
    SAME(targets(&d, 0), "7 7");
    tft_data_fini(&d);
    /* A day whose midnight was skipped is a day. */
    REQUIRE(!prepare("id: {column: id}\ntime: {column: t}\nzone: America/Sao_Paulo\nevery: 1d\n"
                     "inputs:\n  y: {column: y, role: target, scale: none}\n" STEPS WINDOW
                     "split: {train: \"< 2021-01-01\"}\n",
                     "id,t,y\na,2018-11-03,1\na,2018-11-04,2\na,2018-11-05,3\na,2018-11-06T02:00Z,4\n", &d));
    SAME(targets(&d, 0), "1 2 3 4");
    CHECK(d.summary.rows_skipped == 0);
    tft_data_fini(&d);
}

/* How far a day is from a holiday, and waves of any period. */
static void distances_and_waves(void)
{
    static const char schema[] =
        "id: {column: id}\ntime: {column: t}\nevery: 1d\ninputs:\n  y: {column: y, role: target, scale: none}\n"
        "  until: {holiday: {\"2020-01-03\": x, \"2020-01-05\": y}, days: until, most: 4, role: known, scale: none}\n"
        "  since: {holiday: {\"2020-01-03\": x, \"2020-01-05\": y}, days: since, role: known, scale: none}\n"
        "  year: {fourier: {period: 4 days, terms: 2}, role: known}\n"
        "  turn: {fourier: {period: 2.5}, role: known}\n" WINDOW "split: {train: \"< 2021-01-01\"}\n";
    struct tft_data d;

    /* 2020-01-02 is day 18263, three days into a period of four. */
    REQUIRE(!prepare(schema, ones(tft_time_from_date(2020, 1, 1, 0, 0, 0), 86400, 8, ""), &d));
    SAME(reals(&d, 0, "until"), "2 1 0 1 0 4 4 4");
    SAME(reals(&d, 0, "since"), "30 30 0 1 0 1 2 3");
    SAME(reals(&d, 0, "year_sin1"), "1.225e-16 -1 0 1 1.225e-16 -1 0 1");
    SAME(reals(&d, 0, "year_cos2"), "1 -1 1 -1 1 -1 1 -1");
    SAME(reals(&d, 0, "turn_cos1"), "1 -0.809 0.309 0.309 -0.809 1 -0.809 0.309");
    CHECK(d.schema.input_count == 9);
    tft_data_fini(&d);
}

static void trimmed(void)
{
    static const char schema[] =
        "id: {column: id}\ntime: {column: t, integer: true}\nspan: [2, 6]\nactive: trim\n"
        "inputs:\n  y: {column: y, role: target, scale: none, fill: {constant: -1}}\n" STEPS WINDOW
        "split: {train: \"< 9\"}\n";
    struct tft_data d;

    /* a has values before and after the span: holes at its ends are filled; b begins and ends inside; c has none */
    REQUIRE(!prepare(schema, "id,t,y\na,1,5\na,2,\na,3,6\na,6,\na,7,1\nb,2,\nb,3,4\nb,5,6\nb,6,\nc,2,\nc,3,\n", &d));
    CHECK(d.entity_count == 2 && d.summary.entities_empty == 1 && d.summary.rows_trimmed == 4 &&
          d.summary.rows_outside_span == 2);
    SAME(targets(&d, 0), "-1* 6 -1* -1* -1*");
    SAME(targets(&d, 1), "4 -1* 6");
    tft_data_fini(&d);
    CHECK(prepare(schema, "id,t,y\nc,2,\nc,3,\n", &d) &&
          error_says("hold no value of the target inside the schema's span: "));
    CHECK(prepare(schema, "id,t,y\nc,2,1\n\xff,3,1\n", &d) &&
          error_says("rows.csv', row 3: the id '?' is not text in UTF-8"));
}

/* ---- inputs ---- */

/* Through a file, and to a batch. */
static void categories_of_file(const struct tft_data *d)
{
    const char *path = in_scratch("c.htd");
    struct tft_data m;
    REQUIRE(!tft_htd_write(&test_log, path, d) && !tft_htd_open(&test_log, path, &m));
    SAME(codes(&m, 0, "wind"), "1 0 2 2");
    struct tft_windows w;
    REQUIRE(!tft_windows_init(&test_log, &m, TFT_TRAIN, 1, &w));
    CHECK(w.count == 2);
    float r[6], sr[1], target[1], weight[1];
    int32_t c[3], sc[2];
    size_t length[1];
    struct tft_batch batch = { .B = 1,
                               .position = 1,
                               .reals = r,
                               .cats = c,
                               .static_reals = sr,
                               .static_cats = sc,
                               .targets = target,
                               .weights = weight,
                               .lengths = length };
    struct tft_gather gather = { .windows = &w };
    CHECK(!tft_gather_fill(&gather, 0, &batch) && c[0] == 0 && c[1] == 1 && c[2] == 0 && sc[0] == 1 && sc[1] == 1 &&
          weight[0] == 1 && length[0] == 2);
    tft_windows_fini(&w);
    tft_data_fini(&m);
}

static void categories(void)
{
#define CATEGORIES(more)                                                                                               \
    "id: {column: id}\ntime: {column: t, integer: true}\ninputs:\n  y: {column: y, role: target, scale: none}\n" STEPS \
    "  wind: {column: wind, role: observed, type: category" more "}\n"                                                 \
    "  kind: {column: kind, role: static, type: category}\n"                                                           \
    "  land: {from: id, role: static, type: category, map: {a: North, b: South}}\n" WINDOW                             \
    "split: {train: \"< 4\", valid: \"< 9\"}\n"
    static const char rows[] =
        "id,t,y,wind,kind\na,1,1,NW,p\na,2,1,E,p\na,3,1,,p\na,4,1,S,p\nb,1,1,E,q\nb,2,1,NW,q\nb,3,1,E,q\nb,4,1,E,q\n";
    struct tft_data d;
    struct tft_run_config run;
    struct tft_model_config model;

    REQUIRE(!prepare(CATEGORIES(", unknown: true"), rows, &d));
    SAME(codes(&d, 0, "wind"), "1 0 2 2"); /* E, NW; what is missing and what training has not seen is the third */
    SAME(codes(&d, 1, "wind"), "0 1 0 0");
    CHECK(d.static_cat_count == 2 && d.static_codes[0] == 0 && d.static_codes[1] == 0 && d.static_codes[2] == 1 &&
          d.static_codes[3] == 1);
    CHECK(tft_encoding_categories(&d.schema, &d.encoding, 2) == 3 &&
          tft_encoding_categories(&d.schema, &d.encoding, 3) == 2);
    tft_run_config_defaults(&run);
    tft_batches_describe(&d.schema, &d.encoding, &run, &model);
    CHECK(model.variable_count == 5 && !strcmp(model.variables[2].name, "wind") && model.variables[2].categories == 3 &&
          model.variables[2].role == TFT_OBSERVED);

    categories_of_file(&d);
    tft_data_fini(&d);

    CHECK(prepare(CATEGORIES(""), rows, &d) && error_says("'a' has no value for input 'wind'"));
    CHECK(prepare(CATEGORIES(""), "id,t,y,wind,kind\na,1,1,\xfc,p\n", &d) &&
          error_says("row 2, column 'wind': '?' is not text in UTF-8"));
    CHECK(prepare(CATEGORIES(", fill: forward"), rows, &d) &&
          error_says("input 'wind' (column 'wind') is 'S' at 4, which does not occur in the training span"));
    REQUIRE(!prepare(CATEGORIES(", fill: {constant: S}"), rows, &d));
    SAME(codes(&d, 0, "wind"), "1 0 2 2");
    tft_data_fini(&d);
    CHECK(prepare(CATEGORIES(", unknown: true"), "id,t,y,wind,kind\nx,1,1,E,p\nx,2,1,E,p\n", &d) &&
          error_says("the map of input 'land' does not have it"));
    CHECK(prepare(CATEGORIES(", unknown: true"), "id,t,y,wind,kind\na,1,1,E,p\na,2,1,E,q\n", &d) &&
          error_says("changes from p to q"));
}

static void derived(void)
{
    static const char schema[] =
        "id: {column: id}\ntime: {column: t}\nevery: 6h\ninputs:\n"
        "  y: {column: y, role: target, scale: none, fill: forward, lags: [1, 2], missing_indicator: true}\n"
        "  hour: {calendar: hour, role: known, cyclic: true}\n"
        "  day: {holiday: days.csv, role: known, scale: none}\n"
        "  feast: {calendar: {holiday: days.csv}, role: known, type: category}\n"
        "  dow: {calendar: day_of_week, role: known, type: category}\n"
        "window: {encoder: 2, horizon: 2}\nsplit: {train: \"< 2021-01-01\"}\n";
    struct tft_data d;

    write_text("days.csv", "date,name\n2020-01-02,Berchtold\n2020-01-01,New Year\n2020-12-25,Christmas\n");
    REQUIRE(!prepare(schema,
                     "id,t,y\na,2020-01-01 06:00,1\na,2020-01-01 12:00,2\na,2020-01-01 "
                     "18:00,3\na,2020-01-02,\na,2020-01-02 06:00,5\na,2020-01-03 00:00,6\n",
                     &d));
    SAME(targets(&d, 0), "3 3* 5 5* 5* 6"); /* the first two rows have no value two steps before */
    SAME(reals(&d, 0, "y_lag1"), "2 3 3 5 5 5");
    SAME(reals(&d, 0, "y_lag2"), "1 2 3 3 5 5");
    SAME(reals(&d, 0, "y_missing"), "0 1 0 1 1 0");
    SAME(reals(&d, 0, "hour_sin"), "-1 0 1 1.225e-16 -1 0");
    SAME(reals(&d, 0, "hour_cos"), "-1.837e-16 1 6.123e-17 -1 -1.837e-16 1");
    SAME(reals(&d, 0, "day"), "1 1 1 1 1 0");
    SAME(codes(&d, 0, "feast"), "3 1 1 1 1 0"); /* Berchtold, Christmas, New Year */
    SAME(codes(&d, 0, "dow"), "2 3 3 3 3 4");
    CHECK(d.schema.inputs[1].role == TFT_INPUT_OBSERVED && d.schema.inputs[2].role == TFT_INPUT_OBSERVED &&
          d.schema.inputs[3].role == TFT_INPUT_KNOWN);
    CHECK(tft_encoding_categories(&d.schema, &d.encoding, 7) == 4 &&
          tft_encoding_categories(&d.schema, &d.encoding, 8) == 7);
    CHECK(json_is_object(
        json_object_get(json_object_get(json_object_get(d.schema.document, "inputs"), "day"), "holiday")));
    CHECK(d.schema.longest_lag == 2 && d.entities[0].start == tft_time_from_date(2020, 1, 1, 18, 0, 0));
    tft_data_fini(&d);
    CHECK(
        prepare(schema, "id,t,y\na,2020-01-01 06:00,1\na,2020-01-01 12:00,2\n", &d) &&
        error_says("no entity has a measured target in the training span after its first 2 rows, which the lags need"));
    write_text("days.csv", "date,name\n2020-13-02,x\n");
    CHECK(prepare(schema, "id,t,y\n", &d) && error_says("row 2, column 'date': '2020-13-02' is not a day"));
}

static void scales(void)
{
    static const struct {
        const char *scale, *values;
    } cases[] = {
        { "none", "1 2 3 4 90" },
        { "robust", "-1 -0.3333 0.3333 1 58.33" },
        { "standard", "-1.342 -0.4472 0.4472 1.342 78.26" },
        { "log1p-standard", "-1.47 -0.2868 0.5529 1.204 9.673" },
    };
    char schema[600];
    struct tft_data d;

    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        snprintf(schema, sizeof schema,
                 "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: %s, per: %s}\n" STEPS WINDOW
                 "split: {train: \"< 4\"}\n",
                 cases[i / 2].scale, i % 2 ? "all" : "entity");
        REQUIRE(!prepare(schema, "id,y\na,1\na,2\na,3\na,4\na,90\n", &d));
        SAME(reals(&d, 0, "y"), cases[i / 2].values);
        double back =
            tft_scaler_undo(tft_data_target_scaler(&d, 0, 0), (double)d.values[4 * d.real_count + d.real_count - 1]);
        CHECK(fabs(back - 90) < 1e-4, "%s: %g", cases[i / 2].scale, back);
        tft_data_fini(&d);
    }
    CHECK(prepare("id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: log1p-standard}\n" STEPS WINDOW
                  "split: {train: \"< 4\"}\n",
                  "id,y\na,1\na,-1\na,3\n", &d) &&
          error_says("has a value of -1 or less"));
    REQUIRE(!prepare(
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, transform: log, fill: forward, scale: none}\n" STEPS
            WINDOW "split: {train: \"< 4\"}\n",
        "id,y\na,1\na,0\na,-2\na,2.718281828459045\n", &d));
    SAME(targets(&d, 0), "0 0* 0* 1");
    tft_data_fini(&d);
}

/* A series that never changes in training has its size for a scale, so that what comes later is in its units. */
static void constants(void)
{
    static const char *const kinds[] = { "standard", "robust", "standard, per: all", "standard, per: window" };
    char schema[600], rows[200];
    struct tft_data d;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int power = -9; power <= 9; power += 3)
            for (int sign = -1; sign <= 1; sign++) {
                const double size = sign * pow(10, power);
                snprintf(schema, sizeof schema,
                         "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: %s}\n"
                         "  x: {column: y, role: observed, scale: %s}\n" STEPS WINDOW "split: {train: \"< 4\"}\n",
                         kinds[i], kinds[i]);
                snprintf(rows, sizeof rows, "id,y\na,%.9g\na,%.9g\na,%.9g\na,%.9g\na,%.9g\n", size, size, size, size,
                         sign ? 1.5 * size : .5);
                REQUIRE(!prepare(schema, rows, &d));
                for (size_t k = 0; k < d.real_count; k++)
                    if (d.schema.inputs[d.reals[k]].source == TFT_FROM_COLUMN)
                        CHECK(fabs((double)d.values[3 * d.real_count + k]) < 1e-6 &&
                                  fabs(fabs((double)d.values[4 * d.real_count + k]) - .5) < 1e-6,
                              "%s, %g: %g", kinds[i], size, (double)d.values[4 * d.real_count + k]);
                tft_data_fini(&d);
            }
    /* Not constant, though its quartiles are equal; and constant at what rounding leaves of 0. */
    static const struct {
        const char *scale, *rows;
        double last;
    } others[] = { { "robust", "a,.01\na,.01\na,.01\na,1000\na,.01\na,3.01\n", 3 },
                   { "standard", "a,1e-17\na,1e-17\na,1e-17\na,1e-17\na,1e-17\na,3\n", 3 } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(schema, sizeof schema,
                 "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: %s}\n" STEPS WINDOW
                 "split: {train: \"< 5\"}\n",
                 others[i].scale);
        snprintf(rows, sizeof rows, "id,y\n%s", others[i].rows);
        REQUIRE(!prepare(schema, rows, &d));
        for (size_t k = 0; k < d.real_count; k++)
            if (d.schema.inputs[d.reals[k]].source == TFT_FROM_COLUMN)
                CHECK(fabs((double)d.values[5 * d.real_count + k] - others[i].last) < 1e-6, "%s: %g", others[i].scale,
                      (double)d.values[5 * d.real_count + k]);
        tft_data_fini(&d);
    }
}

/* Whether times have an offset is kept, and read again; what an earlier version wrote does not say it. */
static void clocks_are_kept(void)
{
    static const struct {
        const char *schema, *suffix;
        int clocks;
    } cases[] = { { "", "", 1 }, { "", "Z", 2 }, { "", "+05:30", 2 }, { "zone: Europe/Berlin\n", "Z", 0 } };
    json_t *documents[4], *without;
    char schema[400], csv[400];
    struct tft_data d, m;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *suffix = cases[i].suffix, *path = in_scratch("clocks.htd");
        snprintf(schema, sizeof schema,
                 "id: {column: id}\ntime: {column: t}\nevery: 1h\n%sinputs:\n"
                 "  y: {column: y, role: target, scale: none}\n" STEPS WINDOW "split: {train: \"< 2021-01-01\"}\n",
                 cases[i].schema);
        snprintf(csv, sizeof csv, "id,t,y\na,2020-01-01 00:00%s,1\na,2020-01-01 01:00%s,2\na,2020-01-01 02:00%s,3\n",
                 suffix, suffix, suffix);
        REQUIRE(!prepare(schema, csv, &d) && !tft_htd_write(&test_log, path, &d) && !tft_htd_open(&test_log, path, &m));
        CHECK(d.encoding.clocks == cases[i].clocks && m.encoding.clocks == cases[i].clocks, "case %zu: %d and %d", i,
              d.encoding.clocks, m.encoding.clocks);
        documents[i] = json_deep_copy(d.encoding.document);
        json_object_set_new(documents[i], "origin", json_integer(0));
        tft_data_fini(&d);
        tft_data_fini(&m);
    }
    without = json_deep_copy(documents[0]);
    json_object_del(without, "clocks");
    CHECK(tft_encoding_is_same(documents[1], documents[2]) && !tft_encoding_is_same(documents[0], documents[1]));
    CHECK(tft_encoding_is_same(documents[0], without) && tft_encoding_is_same(without, documents[1]));
    json_object_set_new(without, "weight", json_real(2));
    CHECK(!tft_encoding_is_same(documents[0], without) && !tft_encoding_is_same(without, documents[0]));
    json_decref(without);
    for (size_t i = 0; i < 4; i++)
        json_decref(documents[i]);
}

/* ---- missing numbers ---- */

/* A word, in a column of numbers and in two of categories: missing in the first only. */
static void missing_words(void)
{
#define WORDS(csv)                                                                                        \
    "id: {column: id}\ntime: {column: t, integer: true}\n" csv                                            \
    "inputs:\n  y: {column: y, role: target, scale: none, fill: interpolate}\n" STEPS                     \
    "  land: {column: land, role: observed, type: category}\n  kind: {column: kind, role: static, type: " \
    "category}\n" WINDOW "split: {train: \"< 5\"}\n"
    static const char *const words[] = { "NA",   "NaN",  "nan",  "null", "NULL",   "None",     "N/A",      "n/a",
                                         "#N/A", "<NA>", " NA ", "-nan", "1.#IND", "-1.#QNAN", "#N/A N/A", "\"NA\"" };
    static const char *const others[] = { "many", "Na", "NANA", "inf", "-", "N A", "." };
    struct tft_data d;
    char csv[400];

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int has_list = 0; has_list < 2; has_list++) {
            snprintf(csv, sizeof csv, "t,id,y,land,kind\n1,%s,1,%s,%s\n2,%s,%s,b,%s\n3,%s,3,%s,%s\n4,%s,,b,%s\n",
                     words[i], words[i], words[i], words[i], words[i], words[i], words[i], words[i], words[i], words[i],
                     words[i]);
            REQUIRE(!prepare(has_list ? WORDS("csv: {missing: [\"\", \"?\"]}\n") : WORDS(""), csv, &d));
            SAME(targets(&d, 0), "1 2* 3 3*");
            CHECK(d.encoding.vocabularies[2].count == 2 && d.encoding.vocabularies[3].count == 1, "'%s'", words[i]);
            tft_data_fini(&d);
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(csv, sizeof csv, "t,id,y,land,kind\n1,a,1,b,c\n2,a,%s,b,c\n3,a,3,b,c\n", others[i]);
        CHECK(prepare(WORDS(""), csv, &d) && error_says("' is not a number (what means \"no value\""));
    }
#undef WORDS
}

/* ---- what floats keep ---- */

static char warnings[2000];

static void record_warning(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(warnings + strlen(warnings), sizeof warnings - strlen(warnings), "%s\n", line);
}

/* 300 rows of an entity m with a value and its negative: level, growth a row, noise in its unit; and of a quiet
 * one. jump: by how much more the value is from the middle on. */
static const char *write_meter(double level, double growth, double noise, double jump)
{
    char *csv = malloc(300 * 200), *at = csv + sprintf(csv, "t;id;y;x\n");

    REQUIRE(csv);
    for (int i = 0; i < 300; i++) {
        double y = level + growth * i + noise * (i * 7919 % 13) + (i < 150 ? 0 : jump);
        at += sprintf(at, "%d;m;%.17g;%.17g\n%d;q;%d;%d\n", i, y, -y, i, i % 7, i % 5);
    }
    const char *path = write_text("meter.csv", csv);
    free(csv);
    return path;
}

/* What is warned of when that is prepared, and, of the target alone, when it is the target of a loss or forecast. */
static void warn_of(const char *path, const char *scale, enum tft_loss loss, int forecasts)
{
    static const char form[] =
        "id: {column: id}\ntime: {column: t, integer: true}\ncsv: {separator: \";\"}\n"
        "inputs:\n  y: {column: y, role: target, %s}\n  x: {column: x, role: observed, %s}\n" STEPS WINDOW
        "split: {train: \"< 300\"}\n";
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    struct tft_data d;
    char text[600];

    *warnings = 0;
    test_log.write = record_warning;
    snprintf(text, sizeof text, form, scale, scale);
    REQUIRE(!tft_schema_load(&test_log, write_text("s.yaml", text), &schema) &&
            !tft_table_read(&test_log, &schema, &path, 1, &table) &&
            !tft_encoding_fit(&test_log, &schema, &table, &encoding));
    if (loss == TFT_LOSS_QUANTILES && !forecasts)
        tft_lost_changes_check(&test_log, &schema, &table, &encoding);
    REQUIRE(!tft_data_init(&test_log, &schema, &encoding, &table, &d));
    tft_table_fini(&table);
    d.loss = loss;
    if (loss != TFT_LOSS_QUANTILES || forecasts)
        CHECK(tft_targets_warn(&test_log, &d, SIZE_MAX) == (*warnings != 0));
    tft_data_fini(&d);
    test_log.write = ignore_line;
}

/* A total of millions of which a row adds units, as it is and scaled, and counts beside a large level. */
static void lost_changes(void)
{
    static const struct {
        double level, growth, noise, jump;
        const char *scale;
        enum tft_loss loss;
        const char *warning; /* NULL: nothing is lost */
    } cases[] = {
        { 1e7, 1, .1, 3e7, "scale: standard", TFT_LOSS_QUANTILES,
          "input 'y' (column 'y'): 32-bit numbers do not hold its changes in 1 series; in 'm' they are about 1." },
        { 1e7, 1, .1, 3e7, "scale: standard", TFT_LOSS_QUANTILES, "input 'x' (column 'x')" },
        { 1e7, 1, .1, 3e7, "scale: standard, per: window", TFT_LOSS_QUANTILES,
          "of values up to 4e+07; use its differences" },
        { -1e9, 1e6, 1, 0, "scale: robust", TFT_LOSS_QUANTILES, NULL }, /* 1e6 a row is what changes */
        { 1e9, 0, 3, 1e8, "scale: standard, per: window", TFT_LOSS_QUANTILES, "use its differences from row to row" },
        { 1e9, 0, 3, 0, "scale: none", TFT_LOSS_QUANTILES, "scale it ('scale: standard')" },
        { 1e9, 0, 3, 0, "scale: standard, per: all", TFT_LOSS_QUANTILES, "scale it 'per: entity'" },
        { 1e9, 0, 3, 0, "scale: standard", TFT_LOSS_QUANTILES, NULL },
        { 1e9, 1, 3, 0, "scale: standard, per: window", TFT_LOSS_QUANTILES, NULL },
        { 1e6, 1, 3, 0, "scale: none", TFT_LOSS_QUANTILES, NULL },
        { 1e9, 0, 3, 0, "scale: standard", TFT_LOSS_TWEEDIE, "target 'y' of 'm': 'loss: tweedie' is of the target" },
        { 1e9, 0, 3, 0, "scale: standard", TFT_LOSS_POISSON, "use 'loss: gaussian'" },
        { 1e9, 0, 3, 0, "scale: standard", TFT_LOSS_GAUSSIAN, NULL },
        { 1e6, 0, 3, 0, "scale: standard", TFT_LOSS_TWEEDIE, NULL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_meter(cases[i].level, cases[i].growth, cases[i].noise, cases[i].jump);
        warn_of(path, cases[i].scale, cases[i].loss, 0);
        CHECK(cases[i].warning ? strstr(warnings, cases[i].warning) != NULL : !*warnings, "case %zu: '%s'", i,
              warnings);
        warn_of(path, cases[i].scale, cases[i].loss, 1);
        CHECK(cases[i].warning ? strstr(warnings, "target 'y' of 'm': ") != NULL : !*warnings, "case %zu: '%s'", i,
              warnings);
    }
}

/* A window whose encoder has no value of one of two targets rests on filled values, though it has the other's. */
static void filled_windows(void)
{
    static const char schema[] =
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: none, fill: forward}\n"
        "  z: {column: z, role: target, scale: none, fill: interpolate}\n" STEPS
        "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 9\"}\n";
    static const int filled[] = { 0, 1, 1, 0, 0, 1, 1 };
    struct tft_data d;
    struct tft_windows w;

    REQUIRE(!prepare(schema, "id,y,z\na,1,1\na,2,\na,3,\na,4,\na,5,5\na,,5\na,,5\na,,5\na,1,1\n", &d));
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &w));
    for (size_t i = 0; i < w.count; i++) {
        const struct tft_window window = tft_windows_get(&w, i);
        const size_t at = window.origin - d.entities[0].first - 2;
        CHECK(at < sizeof filled / sizeof *filled && tft_window_is_filled(&d, &window) == filled[at], "row %zu", at);
    }
    CHECK(w.count == 7, "%zu windows", w.count);
    tft_windows_fini(&w);
    tft_data_fini(&d);
}

static void weights(void)
{
    static const char schema[] =
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: none, fill: forward}\n" STEPS
        "  w: {column: w, role: weight}\n" WINDOW "split: {train: \"< 4\"}\n";
    struct tft_data d;
    struct tft_windows w;

    REQUIRE(!prepare(schema, "id,y,w\na,1,1\na,2,3\na,,0\na,4,4\na,5,8\n", &d));
    CHECK(d.real_count == 2 && d.weights && d.weights[0] == 0.5f && d.weights[4] == 4);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &w));
    CHECK(w.count == 2 && tft_windows_targets(&w) == 1);
    tft_windows_fini(&w);
    tft_data_fini(&d);
    CHECK(prepare(schema, "id,y,w\na,1,1\na,2,-3\n", &d) && error_says("'-3' is not a weight"));
    CHECK(prepare(schema, "id,y,w\na,1,0\na,2,0\na,2,0\n", &d) &&
          error_says("all weights in the training span are zero"));
    CHECK(prepare(schema, "id,y,w\na,1,\n", &d) && error_says("no value for input 'w'"));
}

/* Rows 3 and 9 of twelve are dropped: windows of 2 + 1 lie between. */
static void dropped(void)
{
    static const char schema[] = "id: {column: id}\ninputs:\n  y: {column: y, role: target, fill: drop}\n" STEPS WINDOW
                                 "split: {train: \"< 100\"}\n";
    static const size_t origins[] = { 2, 6, 7, 8, 14, 15, 16, 17 };
    struct tft_data d, m;
    struct tft_windows w;

    REQUIRE(!prepare(
        schema,
        "id,y\na,0\na,1\na,2\na,\na,4\na,5\na,6\na,7\na,8\na,\na,10\na,11\nb,12\nb,13\nb,14\nb,15\nb,16\nb,17\n", &d));
    CHECK(d.gap_count == 2 && d.summary.rows_dropped == 2 && d.gaps[1].first == 9 && d.gaps[1].rows == 1);
    const char *path = in_scratch("g.htd");
    REQUIRE(!tft_htd_write(&test_log, path, &d) && !tft_htd_open(&test_log, path, &m));
    for (size_t stride = 1; stride < 5; stride++) {
        size_t n = 0;
        REQUIRE(!tft_windows_init(&test_log, &m, TFT_TRAIN, stride, &w));
        for (size_t i = 0; i < 8; i++) {
            size_t phase = origins[i] < 12 ? 2 : 14;
            if ((origins[i] - phase) % stride)
                continue;
            CHECK(n < w.count && tft_windows_get(&w, n).origin == origins[i] &&
                      tft_windows_get(&w, n).entity == origins[i] / 12,
                  "stride %zu, %zu", stride, i);
            n++;
        }
        CHECK(w.count == n && tft_windows_targets(&w) == n && tft_windows_before(&w, 2) == n);
        if (stride == 1)
            CHECK(tft_windows_before(&w, 1) == 4 && !tft_windows_short(&w));
        tft_windows_fini(&w);
    }
    static const size_t shorter[] = { 1, 2, 5, 6, 7, 8, 11, 13, 14, 15, 16, 17 },
                        lengths[] = { 1, 2, 1, 2, 2, 2, 1, 1, 2, 2, 2, 2 };
    m.schema.min_encoder = 1;
    REQUIRE(!tft_windows_init(&test_log, &m, TFT_TRAIN, 1, &w));
    CHECK(w.count == 12 && tft_windows_short(&w) == 4 && tft_windows_targets(&w) == 12);
    for (size_t i = 0; i < 12 && i < w.count; i++)
        CHECK(tft_windows_get(&w, i).origin == shorter[i] && tft_windows_get(&w, i).length == lengths[i], "window %zu",
              i);
    tft_windows_fini(&w);
    REQUIRE(!tft_windows_init(&test_log, &m, TFT_TRAIN, 4, &w)); /* 1, 5; 13, 17 */
    CHECK(w.count == 4 && tft_windows_short(&w) == 3);
    tft_windows_fini(&w);
    tft_data_fini(&m);
    tft_data_fini(&d);
}

/* Splits by entity: the last two rows of each are its test, the four before validation; scalers see the rest alone. */
static void entity_splits(void)
{
    static const char schema[] =
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, per: all}\n" STEPS
        "window: {encoder: 2, horizon: 2}\nsplit: {valid: last 2 horizons, test: last 2 steps}\n";
    static const struct {
        enum tft_split split;
        size_t count, origins[6], rows[3];
    } expected[] = { { TFT_TRAIN, 3, { 2, 3, 4 }, { 6, 1, 0 } },
                     { TFT_VALID, 5, { 6, 7, 8, 14, 15 }, { 10, 5, 2 } },
                     { TFT_TEST, 3, { 10, 17, 21 }, { 12, 7, 4 } } };
    struct tft_data d;
    struct tft_windows w;

    REQUIRE(!prepare(schema,
                     "id,y\na,0\na,1\na,2\na,3\na,4\na,5\na,9\na,9\na,9\na,9\na,9\na,9\n"
                     "b,6\nb,9\nb,9\nb,9\nb,9\nb,9\nb,9\nc,9\nc,9\nc,9\nc,9\n",
                     &d));
    CHECK(d.entity_count == 3 && tft_data_scaler(&d, 0, 0)->shift == 3);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        REQUIRE(!tft_windows_init(&test_log, &d, expected[i].split, 1, &w));
        CHECK(w.count == expected[i].count, "split %zu: %zu", i, w.count);
        for (size_t k = 0; k < w.count && k < expected[i].count; k++)
            CHECK(tft_windows_get(&w, k).origin == expected[i].origins[k], "split %zu, window %zu", i, k);
        for (size_t e = 0; e < 3; e++)
            CHECK(tft_data_split_rows(&d, e, expected[i].split) == expected[i].rows[e], "split %zu, entity %zu", i, e);
        tft_windows_fini(&w);
    }
    CHECK(tft_data_split_end(&d, TFT_TRAIN) == 6 && tft_data_split_end(&d, TFT_TEST) == 12);
    d.schema.context_before = 0; /* only a's validation is long enough for an encoder of its own */
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_VALID, 1, &w));
    CHECK(w.count == 2 && tft_windows_get(&w, 0).origin == 8, "%zu", w.count);
    tft_windows_fini(&w);
    tft_data_fini(&d);
}

/* A value that is dropped is none to a lag's scaler, nor to what repeats it. */
static void dropped_lags(void)
{
    static const char schema[] =
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, fill: drop, scale: robust, lags: [1]}\n" STEPS WINDOW
        "split: {train: \"< 100\"}\n";
    struct tft_data d;

    REQUIRE(!prepare(schema, "id,y\na,10\na,\na,20\na,30\na,40\n", &d));
    SAME(targets(&d, 0), "nan* 20 30 40");
    SAME(reals(&d, 0, "y"), "nan -1 0 1");
    SAME(reals(&d, 0, "y_lag1"), "-3 nan -1 1"); /* 10 before a dropped row, and none before 20: 20 and 30 count */
    CHECK(d.gap_count == 1 && d.gaps[0].first == 0 && d.gaps[0].rows == 2);
    tft_data_fini(&d);
}

/* Masked targets of all windows, counted in one go, are as many as counted one by one. */
static void counted(void)
{
    static const char schema[] = "id: {column: id}\ninputs:\n  y: {column: y, role: target, fill: interpolate}\n" STEPS
                                 "window: {encoder: 3, horizon: 5}\nsplit: {train: \"< 60\", valid: \"< 100\"}\n";
    char text[4000] = "id,y\n";
    struct tft_data d;
    struct tft_windows w;

    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), i * i % 7 == 2 ? "%c,\n" : "%c,%d\n", 'a' + i / 100,
                 i * 31 % 17);
    REQUIRE(!prepare(schema, text, &d));
    for (size_t stride = 1; stride < 8; stride++) {
        size_t n = 0;
        REQUIRE(!tft_windows_init(&test_log, &d, TFT_VALID, stride, &w));
        for (size_t i = 0; i < w.count; i++) {
            struct tft_window x = tft_windows_get(&w, i);
            n += tft_window_targets(&d, &x);
        }
        CHECK(n == tft_windows_targets(&w) && n < w.count * 5, "stride %zu: %zu, %zu", stride, n,
              tft_windows_targets(&w));
        tft_windows_fini(&w);
    }
    tft_data_fini(&d);
}

/* A gap is a line to a window that begins after it, the value before it to one that ends on it; a known input is known
 * to the window's end. */
static void bridges(void)
{
    static const char schema[] =
        "id: {column: id}\ninputs:\n  y: {column: y, role: target, scale: none, fill: interpolate, lags: [1]}\n"
        "  k: {column: k, role: known, scale: none, fill: interpolate}\n"
        "window: {encoder: 4, horizon: 1, min_encoder: 1}\nsplit: {train: \"< 100\"}\n";
    static const struct {
        size_t origin, length;
        float lag[5], k[5], y[4]; /* from the encoder's first row on, with the decoder's */
    } cases[] = {
        { 1, 1, { 3, 3 }, { 2, 2 }, { 3 } },
        { 3, 3, { 3, 3, 3, 3 }, { 2, 4, 6, 8 }, { 3, 3, 3 } },
        { 4, 4, { 3, 4, 5, 6, 7 }, { 2, 4, 6, 8, 9 }, { 4, 5, 6, 7 } },
    };
    struct tft_data d;
    struct tft_windows w;

    /* The first row has no y, the second none one step before: number 0 of the data is the third. */
    REQUIRE(!prepare(schema, "id,y,k\na,,1\na,3,1\na,,2\na,,\na,,\na,7,8\na,8,9\n", &d));
    CHECK(d.rows == 5 && d.bridge_count == 2 && d.bridges[0].first == 0 && d.bridges[0].rows == 3 &&
          d.bridges[0].before == 3);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &w));
    CHECK(w.count == 4);
    for (size_t i = 0; i < 3; i++) {
        float r[15] = { 0 }, target[1], weight[1];
        size_t length[1];
        struct tft_batch batch = { .B = 1, .reals = r, .targets = target, .weights = weight, .lengths = length };
        struct tft_gather gather = { .windows = &w, .base = cases[i].origin - 1 };
        REQUIRE(!tft_gather_fill(&gather, 0, &batch));
        CHECK(length[0] == cases[i].length);
        for (size_t row = 0; row <= length[0]; row++) {
            const float *at = r + (4 - length[0] + row) * 3; /* the lag, k, y */
            CHECK(at[0] == cases[i].lag[row] && at[1] == cases[i].k[row] &&
                      (row == length[0] || at[2] == cases[i].y[row]),
                  "origin %zu, row %zu: %g %g %g", cases[i].origin, row, (double)at[0], (double)at[1], (double)at[2]);
        }
    }
    tft_windows_fini(&w);
    tft_data_fini(&d);
    CHECK(prepare("id: {column: id}\ninputs:\n  y: {column: y, role: target}\n" STEPS
                  "  w: {column: w, role: weight, fill: interpolate}\n" WINDOW "split: {train: \"< 4\"}\n",
                  "id,y,w\na,1,1\n", &d) &&
          error_says("'fill' must be none, drop, forward or {constant: NUMBER} for a weight"));
}

/* Entities that training has not seen: left out, or, where nothing depends on it, kept. */
static void unseen(void)
{
#define UNSEEN(y, id)                                                                                \
    "id: {column: id}\ntime: {column: t, integer: true}\ninputs:\n  y: {column: y, role: target, " y \
    "}\n" STEPS id WINDOW "split: {train: \"< 3\", test: \"< 9\"}\n"
    static const char rows[] = "id,t,y\na,1,1\na,2,2\na,3,3\nb,3,7\nb,4,8\nb,5,9\n";
    struct tft_data d;

    REQUIRE(!prepare(UNSEEN("per: entity", ""), rows, &d));
    CHECK(d.entity_count == 1 && d.summary.entities_untrained == 1);
    tft_data_fini(&d);
    REQUIRE(!prepare(UNSEEN("per: all", "  id: {from: id, role: static, type: category, unknown: true}\n"), rows, &d));
    CHECK(d.entity_count == 2 && d.summary.entities_untrained == 0 && d.static_codes[0] == 0 && d.static_codes[1] == 1);
    tft_data_fini(&d);
    CHECK(prepare(UNSEEN("per: entity", ""), "id,t,y\nb,3,7\nb,4,8\n", &d) &&
          error_says("no entity has a measured target in the training span"));
}

/* ---- the future ---- */

static void future(void)
{
#define KNOWN                                                                                                   \
    "  temp: {column: temp, role: known, scale: none, fill: interpolate, missing_indicator: true, lags: [1]}\n" \
    "  kind: {column: kind, role: known, type: category, unknown: true}\nwindow: {encoder: 2, horizon: 2}\n"    \
    "split: {train: \"< 100\"}\n"
    static const char wide[] =
        "id: {columns: header}\ntime: {column: t, integer: true}\nduplicates: mean\nspan: [0, 3]\n"
        "inputs:\n  y: {column: \"m*\", role: target, scale: none}\n" KNOWN;
    static const char counted[] =
        "id: {column: id}\nactive: trim\ninputs:\n  y: {column: y, role: target, scale: none}\n" KNOWN;
    struct tft_data d;

    /* Another order of columns and rows, one duplicate, one missing, one beyond the horizon, which is ignored; a new
     * kind. */
    REQUIRE(!prepare_future(wide, "t,m1,m2,temp,kind\n1,1,2,5,a\n2,3,4,6,b\n3,5,6,7,a\n",
                            "kind,t,temp\nc,6,20\na,5,\nb,4,9\nb,4,11\nc,2,100\n", &d));
    CHECK(d.entity_count == 2);
    for (size_t e = 0; e < 2; e++) {
        SAME(reals(&d, e, "temp"), "6 7 10 10");
        SAME(reals(&d, e, "temp_lag1"), "5 6 7 10");
        SAME(reals(&d, e, "temp_missing"), "0 0 0 1");
        SAME(codes(&d, e, "kind"), "1 0 1 0");
    }
    SAME(targets(&d, 1), "4 6 6* 6*");
    tft_data_fini(&d);
    /* Without a time: the rows behind the end, in order. */
    REQUIRE(!prepare_future(counted, "id,y,temp,kind\na,1,5,p\na,2,6,q\na,3,7,p\nb,1,1,p\nb,1,1,p\n",
                            "id,temp,kind\nb,2,q\nb,3,z\nb,4,p\na,8,q\na,9,q\n", &d));
    SAME(reals(&d, 0, "temp"), "6 7 8 9");
    SAME(reals(&d, 1, "temp"), "1 2 3");
    SAME(codes(&d, 1, "kind"), "0 1 2");
    tft_data_fini(&d);
    CHECK(prepare_future(counted, "id,y,temp,kind\na,1,5,p\na,2,6,q\n", "id,temp,kind\na,2,q\n", &d) ==
              HALAY_ERR_FORMAT &&
          error_says("has no row of 'a' for 3; 2 steps after its last row are needed"));
    CHECK(prepare_future(counted, "id,y,temp,kind\na,1,5,p\na,2,6,q\n", "id,temp,kind\nb,2,q\n", &d) ==
              HALAY_ERR_FORMAT &&
          error_says("has no row of any entity"));
#undef KNOWN
}

int main(void)
{
    begin_scratch();
    wide();
    times();
    described();
    resampled();
    whole_periods();
    offsets();
    zoned_hours();
    zoned_days();
    distances_and_waves();
    trimmed();
    categories();
    derived();
    scales();
    constants();
    clocks_are_kept();
    missing_words();
    lost_changes();
    weights();
    filled_windows();
    dropped();
    entity_splits();
    dropped_lags();
    bridges();
    future();
    counted();
    unseen();
    end_scratch();
    return test_end();
}
