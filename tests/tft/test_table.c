/* SPDX-License-Identifier: Apache-2.0
 *
 * From rows to prepared data: order, doubled and missing moments, filling, scalers, windows, and the file that holds it
 * all, against numbers worked out by hand; and that file damaged in every byte of its head and cut at many lengths.
 */
#include "tests/tft/files.h"
#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include <math.h>

#define SCHEMA(duplicates, fill)                                                                                 \
    "id: {column: zone}\ntime: {column: t}\nevery: 1h\nduplicates: " duplicates "\n"                             \
    "csv: {separator: \";\", decimal: \",\", missing: [\"\", \"NA\"]}\n"                                         \
    "inputs:\n  load: {column: v, role: target, fill: " fill "}\n"                                               \
    "  hour: {calendar: hour, role: known, scale: none}\n  steps: {calendar: steps, role: known, scale: none}\n" \
    "  area: {column: area, role: static, scale: none}\n  zone: {from: id, role: static, type: category}\n"      \
    "  temp: {column: temp, role: observed, fill: {constant: -1}, scale: robust, per: all}\n"                    \
    "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 2020-01-01 04:00\", valid: \"< 2020-01-01 06:00\"}\n"

/* Zone b before zone a, not sorted; 01:00 twice; 02:00 missing; 03:00 "NA". */
static const char rows[] = "t;zone;v;area;temp\n"
                           "2020-01-01 05:00:00;b;60;7;1\n2020-01-01 00:00:00;b;10,5;7;0\n"
                           "2020-01-01 01:00:00;b;20;7;2\n2020-01-01 01:00:00;b;30;7;4\n"
                           "2020-01-01 03:00:00;b;NA;7;3\n2020-01-01 04:00:00;b;50;7;8\n"
                           "2020-01-01 00:00:00;a;1;5;0\n2020-01-01 01:00:00;a;3;5;0\n2020-01-01 02:00:00;a;1;5;0\n"
                           "2020-01-01 03:00:00;a;3;5;0\n2020-01-01 04:00:00;a;5;5;0\n2020-01-01 05:00:00;a;7;5;0\n";

static enum halay_status read_table(const char *schema_text, const char *csv, struct tft_schema *schema,
                                    struct tft_table *table)
{
    const char *path = write_text("rows.csv", csv);
    enum halay_status status = tft_schema_load(&test_log, write_text("s.yaml", schema_text), schema);

    REQUIRE(!status);
    status = tft_table_read(&test_log, schema, &path, 1, table);
    if (status)
        tft_schema_fini(schema);
    return status;
}

static void make_data(struct tft_data *data)
{
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;

    REQUIRE(!read_table(SCHEMA("mean", "interpolate"), rows, &schema, &table));
    REQUIRE(!tft_encoding_fit(&test_log, &schema, &table, &encoding));
    REQUIRE(!tft_data_init(&test_log, &schema, &encoding, &table, data));
    tft_table_fini(&table);
}

static void table_values(void)
{
    static const double b[] = { 10.5, 25, 25 + 25 / 3.0, 25 + 50 / 3.0, 50, 60 };
    static const uint8_t present[] = { 1, 1, 0, 0, 1, 1 };
    struct tft_schema s;
    struct tft_table t;

    REQUIRE(!read_table(SCHEMA("mean", "interpolate"), rows, &s, &t));
    CHECK(t.series_count == 2 && !strcmp(t.series[0].id, "a") && !strcmp(t.series[1].id, "b"));
    CHECK(t.column_count == 3 && t.series[1].rows == 6 && t.series[1].start == tft_time_from_date(2020, 1, 1, 0, 0, 0));
    for (size_t i = 0; i < 6; i++) {
        CHECK(fabs(t.series[1].values[i * 3] - b[i]) < 1e-12, "row %zu: %g", i, t.series[1].values[i * 3]);
        CHECK(t.series[1].measured[i * 3] == present[i]);
    }
    CHECK(t.series[1].values[1 * 3 + 2] == 3 && t.series[1].values[2 * 3 + 2] == -1); /* mean of doubled; constant */
    CHECK(t.series[1].values[2 * 3 + 1] == 7); /* static, where the row was missing */
    CHECK(t.summary.rows_read == 12 && t.summary.rows_duplicated == 1 && t.summary.rows_missing == 1 &&
              t.summary.filled == 3,
          "%zu", t.summary.filled);
    CHECK(!tft_table_extend(&test_log, 2, &t) && t.series[1].rows == 8 && t.series[1].values[7 * 3] == 60 &&
          !t.series[1].measured[7 * 3]);
    tft_table_fini(&t);
    tft_schema_fini(&s);

    REQUIRE(!read_table(SCHEMA("first", "forward"), rows, &s, &t));
    CHECK(t.series[1].values[3] == 20 && t.series[1].values[2 * 3] == 20 && t.series[1].values[3 * 3] == 20);
    tft_table_fini(&t);
    tft_schema_fini(&s);
    REQUIRE(!read_table(SCHEMA("last", "forward"), rows, &s, &t));
    CHECK(t.series[1].values[3] == 30);
    tft_table_fini(&t);
    tft_schema_fini(&s);
}

/* The last rows of each series are those of the whole table; the value before them begins a fill. */
static void last_rows(void)
{
    struct tft_schema s;
    struct tft_table t;
    const char *path;

    REQUIRE(!read_table(SCHEMA("mean", "forward"), rows, &s, &t));
    tft_table_fini(&t);
    path = write_text("rows.csv", rows);
    s.keep = 3;
    REQUIRE(!tft_table_read(&test_log, &s, &path, 1, &t));
    CHECK(t.series_count == 2 && t.series[1].rows == 3 && t.series[0].rows == 3 && !t.summary.rows_trimmed);
    CHECK(t.series[1].start == tft_time_from_date(2020, 1, 1, 3, 0, 0) && t.series[0].values[0] == 3);
    CHECK(t.series[1].values[0] == 25 && !t.series[1].measured[0] && t.series[1].values[3] == 50, "%g",
          t.series[1].values[0]);
    CHECK(t.series[1].values[1] == 7 && t.series[1].values[2] == 3 && t.series[1].measured[3]);
    tft_table_fini(&t);
    s.keep = 6; /* all there is */
    REQUIRE(!tft_table_read(&test_log, &s, &path, 1, &t));
    CHECK(t.series[1].rows == 6 && t.series[1].values[0] == 10.5 && t.series[1].values[2 * 3] == 25);
    tft_table_fini(&t);
    tft_schema_fini(&s);
}

/* Two rows of each of many series, far apart. */
static void far_rows(void)
{
    enum { SERIES = 300, ROW = 64 };
    static char text[SERIES * 2 * ROW];
    size_t used = (size_t)snprintf(text, sizeof text, "t;zone;v;area;temp\n");
    struct tft_schema s;
    struct tft_table t;
    const char *path;

    REQUIRE(!read_table(SCHEMA("mean", "interpolate"), rows, &s, &t));
    tft_table_fini(&t);
    for (int i = 0; i < SERIES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "2020-01-01 00:00:00;%d;1;7;0\n2029-01-01 00:00:00;%d;2;7;0\n", i, i);
    path = write_text("rows.csv", text);
    s.limits_gaps = 1;
    CHECK(tft_table_read(&test_log, &s, &path, 1, &t) == HALAY_ERR_UNSUPPORTED);
    s.keep = 100;
    REQUIRE(!tft_table_read(&test_log, &s, &path, 1, &t));
    CHECK(t.series_count == SERIES && t.series[0].rows == 100 && t.series[0].values[0] == 1 &&
          t.series[0].values[99 * 3] == 2);
    tft_table_fini(&t);
    tft_schema_fini(&s);
}

static void table_errors(void)
{
    struct tft_schema s;
    struct tft_table t;

    CHECK(read_table(SCHEMA("error", "interpolate"), rows, &s, &t) == HALAY_ERR_FORMAT &&
          error_says("row 5: 'b' has a second row"));
    CHECK(read_table(SCHEMA("mean", "none"), rows, &s, &t) == HALAY_ERR_FORMAT &&
          error_says("'b' has no value for input 'load'"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("row 2: 'b' has no value for input 'load' (column 'v') at 2020-01-01 00:00:00"));
    CHECK(read_table(SCHEMA("mean", "forward"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("nor anywhere else"));
    CHECK(read_table(SCHEMA("mean", "interpolate"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("nor anywhere else"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;12x;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("row 2, column 'v': '12x' is not a number"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;nan;1;1\n", &s, &t) ==
          HALAY_ERR_FORMAT);
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;1e999;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("row 2, column 'v': '1e999' is not within what a model can hold"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;b;-1e39;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("row 2, column 'v': '-1e39' is not within what a model can hold"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01x;b;1;1;1\n", &s, &t) == HALAY_ERR_FORMAT &&
          error_says("column 't': '2020-01-01x' is not a time"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;area;temp\n", &s, &t) == HALAY_ERR_FORMAT &&
          error_says("no column 'v'"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n", &s, &t) == HALAY_ERR_FORMAT &&
          error_says("hold no row"));
    CHECK(read_table(SCHEMA("mean", "none"), "t;zone;v;area;temp\n2020-01-01 00:00:00;;1;1;1\n", &s, &t) ==
              HALAY_ERR_FORMAT &&
          error_says("is not an id"));
    CHECK(read_table(SCHEMA("mean", "forward"),
                     "t;zone;v;area;temp\n2020-01-01 00:00:00;b;1;1;1\n2020-01-01 01:30:00;b;1;1;1\n", &s,
                     &t) == HALAY_ERR_FORMAT &&
          error_says("not a whole number of steps"));
    CHECK(read_table(SCHEMA("mean", "forward"),
                     "t;zone;v;area;temp\n2020-01-01 00:00:00;b;1;1;1\n2020-01-01 01:00:00;b;1;2;1\n", &s,
                     &t) == HALAY_ERR_FORMAT &&
          error_says("static input 'area' (column 'area') changes from 1 to 2"));
    CHECK(read_table(SCHEMA("mean", "forward"),
                     "t;zone;v;area;temp\n0001-01-01 00:00:00;b;1;1;1\n9999-01-01 00:00:00;b;1;1;1\n", &s,
                     &t) == HALAY_ERR_FORMAT &&
          error_says("are 'every' and the times right? The widest gap is from 0001-01-01 00:00:00 (file"));
}

/* The encoding is fitted on measured values before 04:00 only. */
static void scaled_values(void)
{
    struct tft_data d;

    make_data(&d);
    CHECK(d.real_count == 4 && d.known_count == 2 && d.static_count == 1 && d.static_cat_count == 1 && d.rows == 12);
    CHECK(d.reals[0] == 5 && d.reals[1] == 1 && d.reals[2] == 2 && d.reals[3] == 0); /* observed, known, target */
    const struct tft_scaler *a = tft_data_target_scaler(&d, 0, 0), *b = tft_data_target_scaler(&d, 1, 0);
    CHECK(a->shift == 2 && a->scale == 1);                                     /* 1 3 1 3 */
    CHECK(b->shift == 17.75 && b->scale == 7.25, "%g %g", b->shift, b->scale); /* 10.5 25 */
    CHECK(d.values[3] == -1 && d.values[5 * 4 + 3] == 5);
    CHECK(d.values[6 * 4 + 3] == -1 && d.values[7 * 4 + 3] == 1);
    /* temp, of all: -1 is a filled value of b at 02:00; the quarters are 0, 0 and .75 */
    CHECK(d.values[7 * 4] == 4 && d.values[8 * 4] == (float)(-4 / 3.) && d.values[0] == 0, "%g",
          (double)d.values[8 * 4]);
    CHECK(d.values[5 * 4 + 1] == 5 && d.values[11 * 4 + 2] == 5);
    CHECK(d.static_values[0] == 5 && d.static_values[1] == 7 && d.target[11] == 60);
    CHECK(tft_data_rows_before(&d, 0, d.entities[0].start) == 0 &&
          tft_data_rows_before(&d, 0, d.entities[0].start + 1) == 1);
    CHECK(tft_data_rows_before(&d, 0, d.entities[0].start + 3600) == 1 && tft_data_rows_before(&d, 0, INT64_MAX) == 6);
    tft_data_fini(&d);
}

static void windows(void)
{
    struct tft_data d;
    struct tft_windows w;

    make_data(&d);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TRAIN, 1, &w)); /* targets at 02:00 and 03:00 of both */
    CHECK(w.count == 4);
    static const size_t origins[] = { 2, 3, 8, 9 };
    for (size_t i = 0; i < 4; i++) {
        struct tft_window x = tft_windows_get(&w, i);
        CHECK(x.origin == origins[i] && x.entity == i / 2);
        CHECK(tft_window_targets(&d, &x) == (i < 2)); /* b has none measured there */
    }
    tft_windows_fini(&w);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_VALID, 2, &w));
    CHECK(w.count == 2 && tft_windows_get(&w, 0).origin == 4 && tft_windows_get(&w, 1).origin == 10);
    tft_windows_fini(&w);
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_TEST, 1, &w));
    CHECK(w.count == 0);
    tft_windows_fini(&w);
    d.schema.context_before = 0; /* the encoder must lie in the split: 04:00, 05:00, then no target is left */
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_VALID, 1, &w));
    CHECK(w.count == 0);
    tft_windows_fini(&w);
    d.schema.encoder = d.schema.min_encoder = 1;
    REQUIRE(!tft_windows_init(&test_log, &d, TFT_VALID, 1, &w));
    CHECK(w.count == 2 && tft_windows_get(&w, 0).origin == 5);
    tft_windows_fini(&w);
    REQUIRE(!tft_windows_init_last(&test_log, &d, &w));
    CHECK(w.count == 2 && tft_windows_get(&w, 1).origin == 11);
    tft_windows_fini(&w);
    tft_data_fini(&d);
}

static void file_round_trip(void)
{
    struct tft_data d, m;
    const char *path = in_scratch("d.htd");

    make_data(&d);
    REQUIRE(!tft_htd_write(&test_log, path, &d));
    REQUIRE(!tft_htd_open(&test_log, path, &m));
    CHECK(m.rows == d.rows && m.entity_count == 2 && m.real_count == d.real_count && m.static_cat_count == 1 &&
          m.summary.rows_read == 12);
    CHECK(!memcmp(m.values, d.values, d.rows * d.real_count * sizeof(float)) &&
          !memcmp(m.target, d.target, d.rows * sizeof(double)));
    CHECK(!memcmp(m.present, d.present, d.rows) && !memcmp(m.static_values, d.static_values, 2 * sizeof(float)));
    CHECK(json_equal(m.encoding.document, d.encoding.document) && json_equal(m.schema.document, d.schema.document));
    CHECK(!memcmp(m.encoding.scalers, d.encoding.scalers, 2 * d.schema.input_count * sizeof(struct tft_scaler)));
    tft_data_fini(&m);
    tft_data_fini(&d);
}

/* Opens a file and asks for all its rows, as who reads them does. */
static int is_sound(const char *path)
{
    struct tft_data m;

    if (tft_htd_open(&test_log, path, &m))
        return 0;
    int sound = !tft_data_check(&m, 0, m.rows);
    tft_data_fini(&m);
    return sound;
}

/* Does a byte of a file lie in no section? The offsets are those of tft/core/data/data.h. */
static int is_padding(const char *bytes, size_t at)
{
    uint64_t section[2];

    for (size_t k = 0; k < 11; k++) {
        memcpy(section, bytes + 32 + k * 24, sizeof section);
        if (at >= section[0] && at < section[0] + section[1])
            return 0;
    }
    return at >= 32 + 11 * 24;
}

/* Nothing of a damaged file may be believed, and nothing may crash. */
static void damaged_files(void)
{
    size_t length, sound = 0;
    char *bytes = read_bytes(in_scratch("d.htd"), &length);
    struct tft_data m;

    for (size_t cut = 0; cut < length; cut += cut < 300 ? 1 : 97)
        sound += (size_t)is_sound(write_bytes("cut.htd", bytes, cut));
    CHECK(!sound && error_says("is truncated"));
    for (size_t i = 0; i < length; i += i < 400 ? 1 : 13) {
        int harmless = is_padding(bytes, i);
        bytes[i] ^= 0x41;
        CHECK(is_sound(write_bytes("bad.htd", bytes, length)) == harmless, "byte %zu", i);
        bytes[i] ^= 0x41;
    }
    CHECK(tft_htd_open(
              &test_log,
              write_text("text.htd",
                         "Datetime,AEP_MW\n2004-12-31 01:00:00,13478.0\n2004-12-31 02:00:00,12865.0\n"
                         "2004-12-31 01:00:00,13478.0\n2004-12-31 02:00:00,12865.0\n2004-12-31 01:00:00,13478.0\n"
                         "2004-12-31 01:00:00,13478.0\n2004-12-31 02:00:00,12865.0\n2004-12-31 01:00:00,13478.0\n"),
              &m) == HALAY_ERR_FORMAT &&
          error_says("is not a file of prepared data"));
    bytes[8] = 9;
    CHECK(tft_htd_open(&test_log, write_bytes("v.htd", bytes, length), &m) == HALAY_ERR_VERSION &&
          error_says("has version 9"));
    bytes[8] = 1;
    bytes[12] = 1;
    bytes[15] = 4;
    CHECK(tft_htd_open(&test_log, write_bytes("v.htd", bytes, length), &m) == HALAY_ERR_FORMAT &&
          error_says("byte order"));
    CHECK(tft_htd_open(&test_log, scratch, &m) == HALAY_ERR_FORMAT ||
          tft_htd_open(&test_log, scratch, &m) == HALAY_ERR_SYSTEM);
    CHECK(tft_htd_open(&test_log, in_scratch("absent.htd"), &m) == HALAY_ERR_SYSTEM);
    free(bytes);
}

enum { LONG = 20000, CHECKERS = 4 };

/* A file of one series so long that its arrays have several parts, and its bytes. */
static char *write_long(const char *name, size_t *length)
{
    char *csv = malloc(LONG * 64), *at = csv + sprintf(csv, "t;zone;v;area;temp\n"), moment[32];
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    struct tft_data d;

    REQUIRE(csv);
    for (int i = 0; i < LONG; i++) {
        tft_time_print(tft_time_from_date(2018, 1, 1, 0, 0, 0) + i * (int64_t)3600, moment, sizeof moment);
        at += sprintf(at, "%s;a;%d;7;%d\n", moment, i % 24, i % 7);
    }
    REQUIRE(!read_table(SCHEMA("mean", "interpolate"), csv, &schema, &table) &&
            !tft_encoding_fit(&test_log, &schema, &table, &encoding));
    REQUIRE(!tft_data_init(&test_log, &schema, &encoding, &table, &d) &&
            !tft_htd_write(&test_log, in_scratch(name), &d));
    tft_table_fini(&table);
    tft_data_fini(&d);
    free(csv);
    return read_bytes(in_scratch(name), length);
}

static void count_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)level;
    (void)line;
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

static void *check_all(void *arg)
{
    const struct tft_data *d = arg;
    intptr_t wrong = 0;

    for (size_t row = 0; row < d->rows; row += 100)
        wrong += tft_data_check(d, row, 100) != HALAY_OK;
    return (void *)wrong;
}

/* The first reader finds the damage; it is logged once. */
static void check_by_threads(const struct tft_data *d)
{
    pthread_t threads[CHECKERS];
    void *wrong, *first = NULL;
    int lines = 0;

    test_log.write = count_line;
    test_log.arg = &lines;
    for (int i = 0; i < CHECKERS; i++)
        REQUIRE(!pthread_create(&threads[i], NULL, check_all, (void *)d));
    for (int i = 0; i < CHECKERS; i++) {
        REQUIRE(!pthread_join(threads[i], &wrong));
        first = i ? first : wrong;
        CHECK(wrong && wrong == first, "%ld", (long)(intptr_t)wrong);
    }
    test_log.write = ignore_line;
    CHECK(lines == 1, "%d", lines);
}

/* A part of what has rows is looked at when it is read, not when the file is opened. */
static void damaged_parts(void)
{
    static const struct {
        size_t section, row_bytes;
        const char *says;
    } of[] = { { 1, 8, "part 2 of 3 of its targets" },
               { 3, 16, "part 2 of 5 of its values" },
               { 8, 1, "part 1 of 1 of its present" } };
    size_t length;
    char *bytes = write_long("long.htd", &length);
    struct tft_data d;

    REQUIRE(bytes);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        uint64_t offset;
        memcpy(&offset, bytes + 32 + of[k].section * 24, sizeof offset);
        size_t in_section = of[k].row_bytes == 1 ? 0 : 65536, row = in_section / of[k].row_bytes;
        bytes[offset + in_section] ^= 0x10;
        REQUIRE(!tft_htd_open(&test_log, write_bytes("one.htd", bytes, length), &d));
        if (row)
            CHECK(!tft_data_check(&d, 0, row));
        CHECK(tft_data_check(&d, row, 1) == HALAY_ERR_FORMAT &&
              error_says("one.htd' is damaged: a checksum is wrong") && error_says(of[k].says));
        CHECK(tft_data_check(&d, row, 1) == HALAY_ERR_FORMAT &&
              tft_data_check(&d, row ? row - 1 : 0, 2) == HALAY_ERR_FORMAT);
        if (row)
            CHECK(!tft_data_check(&d, LONG - 1, 1));
        tft_data_fini(&d);
        REQUIRE(!tft_htd_open(&test_log, in_scratch("one.htd"), &d));
        check_by_threads(&d);
        tft_data_fini(&d);
        bytes[offset + in_section] ^= 0x10;
    }
    free(bytes);
    REQUIRE(!tft_htd_open(&test_log, in_scratch("long.htd"), &d));
    CHECK(!tft_data_check(&d, 0, d.rows) && !tft_data_check(&d, d.rows, 0));
    tft_data_fini(&d);
}

int main(void)
{
    begin_scratch();
    table_values();
    last_rows();
    far_rows();
    table_errors();
    scaled_values();
    windows();
    file_round_trip();
    damaged_files();
    damaged_parts();
    end_scratch();
    return test_end();
}
