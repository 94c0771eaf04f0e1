/* SPDX-License-Identifier: Apache-2.0
 *
 * What reads files of others, given any bytes: CSV, documents and schemas, times and numbers, the way from rows to
 * data, and files of prepared data. Nothing may crash, leak or fail to end; what is read twice must be the same. The
 * first byte says who reads the rest. Seeds: tests/tft/test_fuzz.c.
 */
#include "tests/tft/fuzz_data.h"
#include "base/document.h"
#include "tft/core/data/csv.h"
#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

static const char schema_text[] =
    "id: {column: z}\ntime: {column: t}\nevery: 1h\nduplicates: mean\nactive: trim\ninputs:\n"
    "  y: {column: v, role: target, fill: interpolate, lags: [1], missing_indicator: true}\n"
    "  c: {column: c, role: observed, type: category, unknown: true}\n  h: {calendar: hour, role: known, cyclic: "
    "true}\n"
    "window: {encoder: 2, horizon: 1}\nsplit: {train: \"< 2020-01-02\", valid: \"< 2021-01-01\"}\n";

static void ignore_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

static void wrong(const char *what)
{
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

/* The bytes as a file that has a path. */
static int make_file(const uint8_t *bytes, size_t length, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
        wrong("no file in memory");
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void read_csv(struct halay_log *log, const char *path)
{
    struct tft_csv *csv;
    char **fields;
    int end = 0;

    if (tft_csv_open(log, path, NULL, 0, ',', &csv))
        return;
    while (!end && !tft_csv_next(csv, &fields, &end))
        for (size_t i = 0; !end && i < tft_csv_columns(csv); i++)
            if (strlen(fields[i]) > 1 << 20)
                wrong("a field is too long");
    tft_csv_close(csv);
}

static void read_schema(struct halay_log *log, const char *text, size_t length, int is_json)
{
    struct tft_schema schema, again;
    json_t *document;

    if (halay_document_parse(log, "fuzz", text, length, is_json, NULL, &document))
        return;
    if (!tft_schema_init(log, "fuzz", document, &schema)) {
        if (tft_schema_init(log, "fuzz", schema.document, &again) || again.input_count != schema.input_count)
            wrong("a schema is not the same when it is read again");
        tft_schema_fini(&again);
        tft_schema_fini(&schema);
    }
    json_decref(document);
}

/* A format, a zero byte, a text. */
static void read_time(char *text)
{
    char *format = text, printed[32];
    int64_t time, again;

    text += strlen(text);
    text += text[1] != 0;
    if (tft_time_format_is_valid(format))
        (void)tft_time_parse(text, format, &time);
    if (!tft_time_parse(text, NULL, &time)) {
        tft_time_print(time, printed, sizeof printed);
        if (time >= -62135596800 && time < 253402300800 && (tft_time_parse(printed, NULL, &again) || again != time))
            wrong("a time is not the same when it is read again");
    }
    (void)tft_time_parse_integer(text, &time);
}

static void read_number(const char *text)
{
    double value;
    char *end;

    if (!tft_number_parse(text, '.', &value))
        return;
    if (memcmp(&value, &(double){ strtod(text, &end) }, sizeof value))
        wrong("a number is not what strtod reads");
}

static void use_data(struct halay_log *log, const struct tft_data *data)
{
    struct tft_windows windows;

    if (tft_data_check(data, 0, data->rows) || tft_windows_init(log, data, TFT_TRAIN, data->schema.stride, &windows))
        return;
    size_t targets = tft_windows_targets(&windows), n = 0;
    for (size_t i = 0; i < windows.count && i < 1000; i++) {
        struct tft_window w = tft_windows_get(&windows, i);
        if (!w.length || w.length > data->schema.encoder || w.origin < w.length ||
            w.origin + data->schema.horizon > data->rows)
            wrong("a window lies outside the data");
        n += tft_window_targets(data, &w);
    }
    if (windows.count <= 1000 && n != targets)
        wrong("the targets of all windows are not those of each");
    tft_windows_fini(&windows);
}

static void read_table(struct halay_log *log, const char *path)
{
    struct tft_schema schema = { 0 };
    struct tft_table table = { 0 };
    struct tft_encoding encoding = { 0 };
    struct tft_data data;
    json_t *document;

    if (halay_document_parse(log, "fuzz", schema_text, sizeof schema_text - 1, 0, NULL, &document) ||
        tft_schema_init(log, "fuzz", document, &schema))
        wrong("the schema is not read");
    json_decref(document);
    if (!tft_table_read(log, &schema, &path, 1, &table)) {
        tft_encoding_drop_untrained(log, &schema, &table);
        if (!tft_encoding_fit(log, &schema, &table, &encoding) &&
            !tft_data_init(log, &schema, &encoding, &table, &data)) {
            use_data(log, &data);
            tft_data_fini(&data);
        }
    }
    tft_encoding_fini(&encoding);
    tft_table_fini(&table);
    tft_schema_fini(&schema);
}

/* Makes the checksums of a file right, so that what they guard is reached. The offsets are those of
 * tft/core/data/data.h. */
static void mend_checksums(uint8_t *bytes, size_t length)
{
    enum { SECTIONS_MAX = 64, TABLE = 32, ENTRY = 24, PART = 65536 };
    uint64_t all = length, at[SECTIONS_MAX][2];
    uint32_t crc, sections;

    if (length < TABLE)
        return;
    memcpy(bytes + 16, &all, sizeof all);
    memcpy(&sections, bytes + 24, sizeof sections);
    if (!sections || sections > SECTIONS_MAX || length < TABLE + (size_t)sections * ENTRY)
        return;
    for (size_t k = 0; k < sections; k++) {
        memcpy(at[k], bytes + TABLE + k * ENTRY, sizeof at[k]);
        if (at[k][0] > length || at[k][1] > length - at[k][0])
            return;
    }
    uint64_t first = at[sections - 1][0], end = first + at[sections - 1][1],
             sum = first; /* the last one's are the checksums */
    for (size_t k = 0; k + 1 < sections; k++)
        for (uint64_t i = 0; i < at[k][1] && end - sum >= sizeof crc; i += PART, sum += sizeof crc) {
            crc = (uint32_t)crc32(0, bytes + at[k][0] + i, (uInt)(at[k][1] - i < PART ? at[k][1] - i : PART));
            memcpy(bytes + sum, &crc, sizeof crc);
        }
    crc = (uint32_t)crc32(crc32(0, bytes + TABLE, sections * ENTRY), bytes + first, (uInt)(end - first));
    memcpy(bytes + 28, &crc, sizeof crc);
}

static void read_htd(struct halay_log *log, const char *path)
{
    struct tft_data data;

    if (tft_htd_open(log, path, &data))
        return;
    use_data(log, &data);
    tft_data_fini(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct halay_log log;
    char path[64];
    int fd;

    if (length < 1 || length > 1 << 20)
        return 0;
    enum fuzz_reader reader = bytes[0] % FUZZ_READERS;
    uint8_t *copy = calloc(length + 1, 1); /* ends with two zero bytes */
    if (!copy)
        return 0;
    memcpy(copy, bytes + 1, length - 1);
    halay_log_init(&log, HALAY_LOG_WARNING);
    log.write = ignore_line;
    if (reader == FUZZ_HTD_MENDED)
        mend_checksums(copy, length - 1);
    switch (reader) {
    case FUZZ_YAML:
    case FUZZ_JSON:
        read_schema(&log, (const char *)copy, length - 1, reader == FUZZ_JSON);
        break;
    case FUZZ_TIME:
        read_time((char *)copy);
        break;
    case FUZZ_NUMBER:
        read_number((const char *)copy);
        break;
    default:
        fd = make_file(copy, length - 1, path);
        if (reader == FUZZ_CSV)
            read_csv(&log, path);
        else if (reader == FUZZ_TABLE)
            read_table(&log, path);
        else
            read_htd(&log, path);
        close(fd);
    }
    halay_log_fini(&log);
    free(copy);
    return 0;
}
