/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: quoting, line ends, compressed and plain, and every way in which a file can be broken. A truncated compressed
 * file is cut at every byte: none of the cuts may pass for a whole table.
 */
#include "tests/tft/files.h"
#include "tft/core/data/table_impl.h"

/* Read it all: rows, or -1 for an error. */
static int count_rows(const char *path)
{
    struct tft_csv *csv;
    char **fields;
    int rows = 0, end = 0;

    if (tft_csv_open(&test_log, path, NULL, 0, ',', &csv))
        return -1;
    while (!end) {
        if (tft_csv_next(csv, &fields, &end)) {
            rows = -1;
            break;
        }
        rows += !end;
    }
    tft_csv_close(csv);
    return rows;
}

static void fields_and_quotes(void)
{
    static const char text[] = "\xef\xbb\xbf"
                               "a,\"b,c\",d\r\n1,\"x \"\"y\"\"\",3\n\n,\"two\nlines\",\r\n4,5,6";
    const char *path[2] = { write_text("q.csv", text), write_gz("q.csv.gz", text) };

    for (int i = 0; i < 2; i++) {
        struct tft_csv *csv;
        char **f;
        int end;
        REQUIRE(!tft_csv_open(&test_log, path[i], NULL, 0, ',', &csv));
        CHECK(tft_csv_columns(csv) == 3 && !strcmp(tft_csv_column_name(csv, 0), "a") &&
              !strcmp(tft_csv_column_name(csv, 1), "b,c"));
        CHECK(!tft_csv_next(csv, &f, &end) && !end && !strcmp(f[0], "1") && !strcmp(f[1], "x \"y\"") &&
              !strcmp(f[2], "3"));
        CHECK(tft_csv_row(csv) == 2);
        CHECK(!tft_csv_next(csv, &f, &end) && !end && !strcmp(f[0], "") && !strcmp(f[1], "two\nlines") &&
              !strcmp(f[2], ""));
        CHECK(tft_csv_row(csv) == 4, "%zu", tft_csv_row(csv));
        CHECK(!tft_csv_next(csv, &f, &end) && !end && !strcmp(f[2], "6"));
        CHECK(tft_csv_row(csv) == 6, "%zu", tft_csv_row(csv));
        CHECK(!tft_csv_next(csv, &f, &end) && end);
        CHECK(!tft_csv_next(csv, &f, &end) && end);
        tft_csv_close(csv);
    }
}

static void columns(void)
{
    struct tft_reader in;
    size_t c = 99;

    REQUIRE(!tft_reader_open(&test_log, &(struct tft_table_source){ .frame = NULL },
                             write_text("c.csv", "Datetime,AEP_MW,b_MW\n"), ',', &in));
    CHECK(!tft_reader_find_column(&in, "Datetime", &c) && c == 0);
    CHECK(!tft_reader_find_column(&in, "A*_MW", &c) && c == 1);
    CHECK(tft_reader_find_column(&in, "*_MW", &c) == HALAY_ERR_FORMAT && error_says("more than one column '*_MW'"));
    CHECK(tft_reader_find_column(&in, "load", &c) == HALAY_ERR_FORMAT &&
          error_says("no column 'load' (its columns: 'Datetime', 'AEP_MW'"));
    tft_reader_close(&in);
}

static void broken(void)
{
    CHECK(count_rows(write_text("e.csv", "")) < 0 && error_says("is empty"));
    CHECK(count_rows(write_text("e.csv", "\n\n")) < 0 && error_says("is empty"));
    CHECK(count_rows(write_gz("e.csv.gz", "")) < 0 && error_says("is empty"));
    CHECK(count_rows(write_text("e.csv.gz", "a,b\n1,2\n")) < 0 && error_says("is not gzip-compressed"));
    CHECK(count_rows(write_text("e.csv.gz", "")) < 0);
    CHECK(count_rows(write_text("e.csv", "a,a\n1,2\n")) < 0 && error_says("two columns have the name 'a'"));
    CHECK(count_rows(write_text("e.csv", "a,b\n1,2\n1\n")) < 0 && error_says("row 3: 1 fields, the header has 2"));
    CHECK(count_rows(write_text("e.csv", "a,b\n1,2,3\n")) < 0 && error_says("row 2: 3 fields"));
    CHECK(count_rows(write_text("e.csv", "a,b\n1,\"2\n")) < 0 && error_says("a quote is not closed"));
    CHECK(count_rows(write_text("e.csv", "a,b\n1,\"2\"x\n")) < 0 && error_says("text after a closing quote"));
    CHECK(count_rows(write_bytes("e.csv", "a,b\n1,\0\n", 8)) < 0 && error_says("zero byte"));
    CHECK(count_rows(write_text("e.csv", "a,b\r1,2\r")) < 0 &&
          error_says("row 1: a column's name with a carriage return"));
    CHECK(count_rows(in_scratch("absent.csv")) < 0 && error_says("cannot open"));
    CHECK(count_rows(write_text("e.csv", "a,b\n")) == 0);
}

/* What may come behind the last byte of a compressed file's member: another one, zeros; nothing else is lost in
 * silence. */
static void members(const char *member, size_t length)
{
    char *twice = calloc(2, length);

    REQUIRE(twice);
    memcpy(twice, member, length);
    CHECK(count_rows(write_bytes("padded.csv.gz", twice, 2 * length)) == 200);
    twice[2 * length - 1] = 'x';
    CHECK(count_rows(write_bytes("more.csv.gz", twice, 2 * length)) < 0 &&
          error_says("more.csv.gz' is damaged: something else follows its compressed data"));
    memcpy(twice + length, member, length);
    CHECK(count_rows(write_bytes("two.csv.gz", twice, 2 * length)) == 401); /* the second header is a row here */
    CHECK(count_rows(write_bytes("two.csv.gz", twice, 2 * length - 1)) < 0 && error_says("is truncated"));
    for (size_t byte = 0; byte < 4; byte++) { /* magic, method, flags */
        twice[length + byte] ^= 0x60;
        CHECK(count_rows(write_bytes("two.csv.gz", twice, 2 * length)) < 0, "byte %zu", byte);
        twice[length + byte] ^= 0x60;
    }
    free(twice);
}

static void truncated(void)
{
    char text[4000] = "a,b\n", *bytes;
    size_t length;
    int passed = 0;

    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d\n", i, i * 7919 % 1000);
    CHECK(count_rows(write_gz("whole.csv.gz", text)) == 200);
    bytes = read_bytes(in_scratch("whole.csv.gz"), &length);
    for (size_t cut = 1; cut < length; cut++)
        passed += count_rows(write_bytes("cut.csv.gz", bytes, cut)) >= 0;
    CHECK(!passed, "%d of %zu cuts passed for whole files", passed, length);
    members(bytes, length);
    bytes[length / 2] ^= 0x10;
    CHECK(count_rows(write_bytes("bad.csv.gz", bytes, length)) < 0);
    free(bytes);
}

/* More than one block, which a thread reads ahead: ends around a block's, files cut or damaged behind the first, and
 * readers that give up. */
static void ahead(void)
{
    enum { LINE = 16, BLOCKS = 18, LINES = BLOCKS * (int)(TFT_INFLATE_BLOCK / LINE) };
    static const int blocks[] = { 1, 2, 5, 9, BLOCKS };
    char *text = malloc(LINES * LINE + 1), *bytes;
    size_t length;

    REQUIRE(text);
    for (int i = 0; i < LINES; i++)
        snprintf(text + i * LINE, LINE + 1, "%07d,%07d\n", i, i % 777 + 1);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (int more = -1; more <= 1; more++) {
            int lines = blocks[i] * (LINES / BLOCKS) + more;
            lines = lines < LINES ? lines : LINES;
            size_t cut = (size_t)lines * LINE;
            char kept = text[cut];
            text[cut] = 0;
            CHECK(count_rows(write_text("long.csv", text)) == lines - 1, "%d lines", lines);
            CHECK(count_rows(write_gz("long.csv.gz", text)) == lines - 1, "%d lines, compressed", lines);
            text[cut] = kept;
        }
    bytes = read_bytes(in_scratch("long.csv.gz"), &length);
    for (size_t cut = length / 3; cut < length; cut += length / 7)
        CHECK(count_rows(write_bytes("cut.csv.gz", bytes, cut)) < 0 && error_says("cut.csv.gz' is truncated"));
    bytes[length - 5] ^= 1;
    CHECK(count_rows(write_bytes("bad.csv.gz", bytes, length)) < 0 &&
          error_says("bad.csv.gz' is damaged: incorrect data check"));
    text[3 * LINES / BLOCKS * LINE] = 0; /* a row in which a reader stops, while the thread waits for it */
    CHECK(count_rows(write_bytes("zero.csv", text, LINES * LINE)) < 0 && error_says("zero byte"));
    free(bytes);
    free(text);
}

int main(void)
{
    begin_scratch();
    fields_and_quotes();
    columns();
    broken();
    truncated();
    ahead();
    end_scratch();
    return test_end();
}
