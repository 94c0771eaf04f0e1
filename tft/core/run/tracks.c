/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event file is a list of records: length (64 bits, little-endian), its checksum, the data, their
 * checksum. A checksum is CRC-32C, turned right by 15 bits, plus a constant; both as in TensorFlow's "TFRecord" format.
 * The data are a protocol buffer "Event", whose memory is used again for the next one; the few fields that are written
 * have their numbers from TensorFlow's event.proto and summary.proto.
 */
#include "tft/core/run/tracks.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "base/output_file.h"
#include "base/protobuf.h"
#include "tft/core/data/paths.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- lines ---- */

/* Rewrites the file with the lines that stay. */
static enum halay_status cut_lines(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last)
{
    struct halay_output out;
    char *line = NULL;
    size_t room = 0;
    FILE *old = last ? fopen(path, "re") : NULL;
    enum halay_status status = halay_output_open(log, path, &out);

    while (!status && old && getline(&line, &room, old) > 0) {
        long long step = strchr(line, '\n') ? step_of(line) : -1;
        if (step >= 0 && (uint64_t)step <= last)
            fputs(line, out.file);
    }
    free(line);
    if (old)
        fclose(old);
    return status ? status : halay_output_commit(&out);
}

FILE *tft_lines_open(struct halay_log *log, const char *path, tft_step_of_line *step_of, uint64_t last)
{
    if (cut_lines(log, path, step_of, last))
        return NULL;
    FILE *file = fopen(path, "ae");
    if (!file)
        halay_error(log, "cannot write '%s': %s", path, strerror(errno));
    return file;
}

/* ---- CSV: a heading, then rows of step, seconds since 1970, numbers ---- */

struct csv_tables {
    struct halay_log *log; /* borrowed */
    FILE *files[TFT_ROW_TABLES];
};

static const char *const table_names[TFT_ROW_TABLES] = { "steps.csv", "evaluations.csv" };

static long long step_of(const char *line)
{
    char *end;
    long long step = strtoll(line, &end, 10);

    if (!strncmp(line, "step,", 5))
        return 0;
    return end != line && *end == ',' ? step : -1;
}

static enum halay_status csv_tables_init(struct halay_log *log, const char *folder, const uint64_t last[TFT_ROW_TABLES],
                                         struct csv_tables *tables)
{
    *tables = (struct csv_tables){ .log = log };
    for (int i = 0; i < TFT_ROW_TABLES; i++) {
        tables->files[i] = tft_lines_open(log, tft_path_in(folder, table_names[i]).text, step_of, last[i]);
        if (!tables->files[i])
            return HALAY_ERR_SYSTEM;
    }
    return HALAY_OK;
}

static enum halay_status csv_tables_add(struct csv_tables *tables, const struct tft_row *row)
{
    FILE *file = tables->files[row->table];

    if (ftello(file) == 0) {
        fputs("step,seconds", file);
        for (size_t i = 0; i < row->count; i++)
            fprintf(file, ",%s", row->numbers[i].name);
        fputc('\n', file);
    }
    halay_fprintf(file, "%" PRIu64 ",%.3f", row->step, row->seconds);
    for (size_t i = 0; i < row->count; i++)
        halay_fprintf(file, ",%.9g", row->numbers[i].value);
    fputc('\n', file);
    if (fflush(file) || ferror(file))
        return halay_fail(tables->log, HALAY_ERR_SYSTEM, "cannot write %s: %s", table_names[row->table],
                          strerror(errno));
    return HALAY_OK;
}

static void csv_tables_fini(struct csv_tables *tables)
{
    for (int i = 0; i < TFT_ROW_TABLES; i++)
        if (tables->files[i])
            fclose(tables->files[i]);
    *tables = (struct csv_tables){ 0 };
}

/* ---- TensorBoard: rows as scalars, tensors as histograms ---- */

enum { BUCKETS = 30 };
/* Event. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 };
/* Summary; Summary.Value; SessionLog. */
enum { VALUE = 1 };
enum { TAG = 1, SIMPLE_VALUE = 2, HISTOGRAM = 5 };
enum { STATUS = 1, STATUS_START = 1 };
/* HistogramProto. */
enum { LEAST = 1, MOST = 2, NUMBER = 3, SUM = 4, SUM_SQUARES = 5, BUCKET_LIMIT = 6, BUCKET = 7 };

struct event_file {
    struct halay_log *log;       /* borrowed */
    FILE *file;                  /* owned */
    struct halay_protobuf event; /* owned: an event while it is put together */
};

static uint32_t crc32c(const unsigned char *data, size_t bytes)
{
    uint32_t crc = ~(uint32_t)0;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void write_checksum(FILE *file, const unsigned char *data, size_t bytes)
{
    unsigned char checksum[4];
    uint32_t crc = crc32c(data, bytes);

    halay_protobuf_little((crc >> 15 | crc << 17) + 0xa282ead8u, sizeof checksum, checksum);
    fwrite(checksum, 1, sizeof checksum, file);
}

/* Write the event as a record, and begin the next. */
static enum halay_status end_event(struct event_file *e)
{
    unsigned char length[8];

    if (e->event.failed)
        return halay_no_memory(e->log, "for an event of TensorBoard's");
    halay_protobuf_little(e->event.size, sizeof length, length);
    fwrite(length, 1, sizeof length, e->file);
    write_checksum(e->file, length, sizeof length);
    fwrite(e->event.bytes, 1, e->event.size, e->file);
    write_checksum(e->file, e->event.bytes, e->event.size);
    if (fflush(e->file) || ferror(e->file))
        return halay_fail(e->log, HALAY_ERR_SYSTEM, "cannot write TensorBoard's event file: %s", strerror(errno));
    return HALAY_OK;
}

static void begin_event(struct event_file *e, uint64_t step, double seconds)
{
    e->event.size = 0;
    halay_protobuf_double(&e->event, WALL_TIME, seconds);
    halay_protobuf_whole(&e->event, STEP, step);
}

static FILE *open_new(struct halay_log *log, const char *folder)
{
    char host[64] = "", name[192];

    if (gethostname(host, sizeof host - 1))
        strcpy(host, "unknown");
    snprintf(name, sizeof name, "tensorboard/events.out.tfevents.%010lld.%s.%ld", (long long)time(NULL), host,
             (long)getpid());
    if (tft_make_folder(log, tft_path_in(folder, "tensorboard").text))
        return NULL;
    const struct tft_path path = tft_path_in(folder, name);
    FILE *file = fopen(path.text, "abe");
    if (!file)
        halay_error(log, "cannot write '%s': %s", path.text, strerror(errno));
    return file;
}

static void event_file_fini(struct event_file *e)
{
    if (e->file)
        fclose(e->file);
    halay_protobuf_fini(&e->event);
    *e = (struct event_file){ 0 };
}

static enum halay_status event_file_init(struct halay_log *log, const char *folder, uint64_t last, struct event_file *e)
{
    const double now = (double)time(NULL);

    *e = (struct event_file){ .log = log, .file = open_new(log, folder) };
    if (!e->file)
        return HALAY_ERR_SYSTEM;
    begin_event(e, 0, now);
    halay_protobuf_text(&e->event, FILE_VERSION, "brain.Event:2");
    enum halay_status status = end_event(e);
    if (!status) {
        begin_event(e, last + 1, now);
        size_t from = e->event.size;
        halay_protobuf_whole(&e->event, STATUS, STATUS_START);
        halay_protobuf_wrap(&e->event, from, SESSION_LOG);
        status = end_event(e);
    }
    if (status)
        event_file_fini(e);
    return status;
}

static enum halay_status event_file_add(struct event_file *e, const struct tft_row *row)
{
    begin_event(e, row->step, row->seconds);
    size_t summary = e->event.size;
    for (size_t i = 0; i < row->count; i++) {
        size_t value = e->event.size;
        halay_protobuf_text(&e->event, TAG, row->numbers[i].name);
        halay_protobuf_float(&e->event, SIMPLE_VALUE, (float)row->numbers[i].value);
        halay_protobuf_wrap(&e->event, value, VALUE);
    }
    halay_protobuf_wrap(&e->event, summary, SUMMARY);
    return end_event(e);
}

struct histogram {
    double least, most, count, sum, squares, limits[BUCKETS], buckets[BUCKETS];
};

static void count_values(const struct tft_values *v, struct histogram *h)
{
    *h = (struct histogram){ .least = INFINITY, .most = -INFINITY };
    for (size_t i = 0; i < v->count; i++) {
        double x = v->values[i];
        if (!isfinite(x))
            continue;
        h->least = fmin(h->least, x);
        h->most = fmax(h->most, x);
        h->sum += x;
        h->squares += x * x;
        h->count++;
    }
    if (h->count == 0)
        h->least = h->most = 0;
    double width = (h->most - h->least) / BUCKETS;
    for (size_t b = 0; b < BUCKETS; b++)
        h->limits[b] = b + 1 < BUCKETS ? h->least + (double)(b + 1) * width : h->most;
    for (size_t i = 0; i < v->count; i++) {
        double x = v->values[i];
        size_t b = !isfinite(x) || !(width > 0) ? BUCKETS - 1 : (size_t)((x - h->least) / width);
        if (isfinite(x))
            h->buckets[b < BUCKETS ? b : BUCKETS - 1]++;
    }
}

static enum halay_status event_file_add_values(struct event_file *e, uint64_t step, double seconds,
                                               const struct tft_values *values)
{
    struct histogram h;
    char tag[256];

    begin_event(e, step, seconds);
    count_values(values, &h);
    snprintf(tag, sizeof tag, "%s/%s", values->group, values->name);
    size_t summary = e->event.size;
    halay_protobuf_text(&e->event, TAG, tag);
    size_t histogram = e->event.size;
    halay_protobuf_double(&e->event, LEAST, h.least);
    halay_protobuf_double(&e->event, MOST, h.most);
    halay_protobuf_double(&e->event, NUMBER, h.count);
    halay_protobuf_double(&e->event, SUM, h.sum);
    halay_protobuf_double(&e->event, SUM_SQUARES, h.squares);
    halay_protobuf_doubles(&e->event, BUCKET_LIMIT, h.limits, BUCKETS);
    halay_protobuf_doubles(&e->event, BUCKET, h.buckets, BUCKETS);
    halay_protobuf_wrap(&e->event, histogram, HISTOGRAM);
    halay_protobuf_wrap(&e->event, summary, VALUE);
    halay_protobuf_wrap(&e->event, summary, SUMMARY);
    return end_event(e);
}

/* ---- all ---- */

struct tft_tracks {
    unsigned set;
    struct event_file events;
    struct csv_tables tables;
};

enum halay_status tft_tracks_create(struct halay_log *log, const char *folder, unsigned set,
                                    const uint64_t last[TFT_ROW_TABLES], struct tft_tracks **tracks)
{
    struct tft_tracks *t = calloc(1, sizeof *t);
    enum halay_status status;

    if (!t)
        return halay_no_memory(log, "for the files of 'log'");
    t->set = set;
    if ((set & TFT_TRACK_TENSORBOARD && (status = event_file_init(log, folder, last[TFT_ROW_STEP], &t->events))) ||
        (set & TFT_TRACK_CSV && (status = csv_tables_init(log, folder, last, &t->tables)))) {
        tft_tracks_destroy(t);
        return status;
    }
    *tracks = t;
    return HALAY_OK;
}

enum halay_status tft_tracks_add(struct tft_tracks *t, const struct tft_row *row)
{
    enum halay_status status = HALAY_OK;

    if (t && t->set & TFT_TRACK_TENSORBOARD)
        status = event_file_add(&t->events, row);
    if (t && !status && t->set & TFT_TRACK_CSV)
        status = csv_tables_add(&t->tables, row);
    return status;
}

int tft_tracks_take_values(const struct tft_tracks *t)
{
    return t && t->set & TFT_TRACK_TENSORBOARD;
}

enum halay_status tft_tracks_add_values(struct tft_tracks *t, uint64_t step, double seconds,
                                        const struct tft_values *values)
{
    return tft_tracks_take_values(t) ? event_file_add_values(&t->events, step, seconds, values) : HALAY_OK;
}

void tft_tracks_destroy(struct tft_tracks *t)
{
    if (!t)
        return;
    event_file_fini(&t->events);
    csv_tables_fini(&t->tables);
    free(t);
}
