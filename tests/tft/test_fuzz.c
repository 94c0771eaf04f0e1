/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeds for everything that reads files (fuzz_data.c): tables, documents, times, numbers, and files of prepared data.
 */
#include "tests/tft/files.h"
#include "tests/tft/fuzz_data.h"
#include "tft/core/data/data.h"

static fuzz_add_seed *add_seed;

static void add_file(enum fuzz_reader reader, const char *path)
{
    size_t length;
    char *bytes = read_bytes(path, &length);

    add_seed(reader, bytes, length);
    free(bytes);
}

/* A small file of prepared data, with all that can be in one. */
static void make_htd(const char *out)
{
    static const char schema_text[] = "id: {column: z}\ntime: {column: t}\nevery: 1h\ninputs:\n"
                                      "  y: {column: v, role: target, fill: drop, lags: [1]}\n  c: {column: c, role: "
                                      "observed, type: category, unknown: true}\n"
                                      "  w: {column: v, role: weight, fill: {constant: 1}}\n  h: {calendar: hour, "
                                      "role: known}\n  z: {from: id, role: static, type: category}\n"
                                      "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 2020-01-02\"}\n";
    const char *path =
        write_text("h.csv", "z,t,v,c\na,2020-01-01 00:00,1,x\na,2020-01-01 01:00,2,y\na,2020-01-01 02:00,3,x\n"
                            "a,2020-01-01 03:00,4,\na,2020-01-01 04:00,,x\na,2020-01-01 05:00,6,x\n");
    struct tft_schema schema;
    struct tft_table table;
    struct tft_encoding encoding;
    struct tft_data data;

    REQUIRE(!tft_schema_load(&test_log, write_text("h.yaml", schema_text), &schema));
    REQUIRE(!tft_table_read(&test_log, &schema, &path, 1, &table) &&
            !tft_encoding_fit(&test_log, &schema, &table, &encoding));
    REQUIRE(!tft_data_init(&test_log, &schema, &encoding, &table, &data) && !tft_htd_write(&test_log, out, &data));
    tft_data_fini(&data);
    tft_table_fini(&table);
}

static void make_all(void)
{
    static const char *const tables[] = {
        "z,t,v,c\na,2020-01-01 00:00,1,x\na,2020-01-01 01:00,2.5,y\na,2020-01-01 01:00,,x\nb,2020-01-01T03:00,-1e3,\n",
        "\xef\xbb\xbf\"z\",t,v,c\r\n\"a\"\"b\",2020-01-01,1,\"x\ny\"\r\n\r\n",
    };
    static const char *const numbers[] = {
        "123.456", "-0.1", " 1e22 ", "900719925474099312", "1.7976931348623157e308", "0.000000000000000000000001"
    };
    static const char times[][48] = { "%Y-%m-%d %H:%M:%S\0"
                                      "2017-08-01 02:03:04",
                                      "%b %e %y %I:%M %p%z\0"
                                      "Aug  1 17 02:03 PM+01:00",
                                      "%s\0"
                                      "123456",
                                      "\0"
                                      "2017-08-01T02:03:04.5Z" };
    const char *top = getenv("top_srcdir");
    static const char *const examples[] = { "pjm", "beijing", "volatility", "electricity" };
    char path[600];

    for (size_t i = 0; i < 2; i++) {
        add_seed(FUZZ_CSV, tables[i], strlen(tables[i]));
        add_seed(FUZZ_TABLE, tables[i], strlen(tables[i]));
        add_file(FUZZ_CSV, write_gz("t.csv.gz", tables[i]));
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_seed(FUZZ_NUMBER, numbers[i], strlen(numbers[i]));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        add_seed(FUZZ_TIME, times[i], sizeof *times);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        snprintf(path, sizeof path, "%s/examples/%s.yaml", top ? top : ".", examples[i]);
        add_file(FUZZ_YAML, path);
    }
    add_seed(FUZZ_JSON,
             "{\"id\": {\"column\": \"z\"}, \"inputs\": {\"y\": {\"column\": \"v\", \"role\": \"target\", \"lags\": "
             "[1]}, \"s\": {\"calendar\": \"steps\", "
             "\"role\": \"known\"}}, \"window\": {\"encoder\": 2, \"horizon\": 1}, \"split\": {\"train\": \"< 5\"}}",
             180);
    make_htd(in_scratch("h.htd"));
    add_file(FUZZ_HTD, in_scratch("h.htd"));
    add_file(FUZZ_HTD_MENDED, in_scratch("h.htd"));
}

void fuzz_make_seeds(fuzz_add_seed *add)
{
    add_seed = add;
    begin_scratch();
    make_all();
    end_scratch();
}
