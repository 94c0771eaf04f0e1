/* SPDX-License-Identifier: Apache-2.0
 *
 * A protocol buffer is a list of fields: a key (number * 8 + kind), then a varint, 8 or 4 bytes, or a length and as
 * many bytes. A field that holds fields is put together first, behind the bytes so far, and then gets its length.
 */
#include "tft/track/event_file.h"
#include "tft/data/paths.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 30 };
enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };
/* Event. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION_LOG = 7 };
/* Summary; Summary.Value; SessionLog. */
enum { VALUE = 1 };
enum { TAG = 1, SIMPLE_VALUE = 2, HISTOGRAM = 5 };
enum { STATUS = 1, STATUS_START = 1 };
/* HistogramProto. */
enum { LEAST = 1, MOST = 2, NUMBER = 3, SUM = 4, SUM_SQUARES = 5, BUCKET_LIMIT = 6, BUCKET = 7 };

/* ---- records ---- */

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

static void put_little(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static void write_checksum(FILE *file, const unsigned char *data, size_t bytes)
{
    unsigned char checksum[4];
    uint32_t crc = crc32c(data, bytes);

    put_little(checksum, (crc >> 15 | crc << 17) + 0xa282ead8u, sizeof checksum);
    fwrite(checksum, 1, sizeof checksum, file);
}

/* Write the event as a record, and begin the next. */
static enum halay_status end_event(struct tft_event_file *e)
{
    unsigned char length[8];

    put_little(length, e->bytes, sizeof length);
    fwrite(length, 1, sizeof length, e->file);
    write_checksum(e->file, length, sizeof length);
    fwrite(e->event, 1, e->bytes, e->file);
    write_checksum(e->file, e->event, e->bytes);
    e->bytes = 0;
    if (fflush(e->file) || ferror(e->file)) {
        halay_error(e->log, "cannot write TensorBoard's event file: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    return HALAY_OK;
}

/* ---- fields ---- */

/* Every field fits: an event is at most one row, of few numbers and short names. */
static unsigned char *claim(struct tft_event_file *e, size_t bytes)
{
    unsigned char *place = e->event + e->bytes;

    e->bytes += bytes;
    return place;
}

static void put_varint(struct tft_event_file *e, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        *claim(e, 1) = (unsigned char)(value | 128);
    *claim(e, 1) = (unsigned char)value;
}

static void put_key(struct tft_event_file *e, unsigned number, unsigned kind)
{
    put_varint(e, number << 3 | kind);
}

static void put_plain_double(struct tft_event_file *e, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_little(claim(e, 8), bits, 8);
}

static void put_double(struct tft_event_file *e, unsigned number, double value)
{
    put_key(e, number, EIGHT_BYTES);
    put_plain_double(e, value);
}

static void put_float(struct tft_event_file *e, unsigned number, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    put_key(e, number, FOUR_BYTES);
    put_little(claim(e, 4), bits, 4);
}

static void put_whole(struct tft_event_file *e, unsigned number, uint64_t value)
{
    put_key(e, number, VARINT);
    put_varint(e, value);
}

static void put_text(struct tft_event_file *e, unsigned number, const char *text)
{
    put_key(e, number, LENGTH);
    put_varint(e, strlen(text));
    memcpy(claim(e, strlen(text)), text, strlen(text));
}

/* The fields since `from` become the content of one. */
static void wrap(struct tft_event_file *e, size_t from, unsigned number)
{
    size_t content = e->bytes - from, head = 0;

    put_key(e, number, LENGTH);
    put_varint(e, content);
    head = e->bytes - from - content;
    unsigned char key[16];
    memcpy(key, e->event + from + content, head);
    memmove(e->event + from + head, e->event + from, content);
    memcpy(e->event + from, key, head);
}

static enum halay_status begin_event(struct tft_event_file *e, uint64_t step, double seconds, size_t most)
{
    if (e->room < most) {
        unsigned char *grown = realloc(e->event, most);
        if (!grown) {
            halay_error(e->log, "no memory for an event of %zu bytes", most);
            return HALAY_ERR_NO_MEMORY;
        }
        e->event = grown;
        e->room = most;
    }
    e->bytes = 0;
    put_double(e, WALL_TIME, seconds);
    put_whole(e, STEP, step);
    return HALAY_OK;
}

/* ---- events ---- */

static FILE *open_new(struct halay_log *log, const char *folder)
{
    char host[64] = "", name[192], *path;
    FILE *file = NULL;

    if (gethostname(host, sizeof host - 1))
        strcpy(host, "unknown");
    snprintf(name, sizeof name, "tensorboard/events.out.tfevents.%010lld.%s.%ld", (long long)time(NULL), host,
             (long)getpid());
    path = tft_path_join(log, folder, "tensorboard");
    enum halay_status status = path ? tft_make_folder(log, path) : HALAY_ERR_NO_MEMORY;
    free(path);
    path = status ? NULL : tft_path_join(log, folder, name);
    if (path && !(file = fopen(path, "abe")))
        halay_error(log, "cannot write '%s': %s", path, strerror(errno));
    free(path);
    return file;
}

enum halay_status tft_event_file_init(struct halay_log *log, const char *folder, uint64_t last,
                                      struct tft_event_file *events)
{
    struct tft_event_file e = { .log = log, .file = open_new(log, folder) };
    double now = (double)time(NULL);

    if (!e.file)
        return HALAY_ERR_SYSTEM;
    enum halay_status status = begin_event(&e, 0, now, 128);
    if (!status) {
        put_text(&e, FILE_VERSION, "brain.Event:2");
        status = end_event(&e);
    }
    if (!status) {
        status = begin_event(&e, last + 1, now, 128);
        size_t from = e.bytes;
        put_whole(&e, STATUS, STATUS_START);
        wrap(&e, from, SESSION_LOG);
        status = status ? status : end_event(&e);
    }
    if (status)
        tft_event_file_fini(&e);
    else
        *events = e;
    return status;
}

enum halay_status tft_event_file_add(struct tft_event_file *e, const struct tft_row *row)
{
    size_t most = 64;

    for (size_t i = 0; i < row->count; i++)
        most += strlen(row->numbers[i].name) + 32;
    enum halay_status status = begin_event(e, row->step, row->seconds, most);
    if (status)
        return status;
    size_t summary = e->bytes;
    for (size_t i = 0; i < row->count; i++) {
        size_t value = e->bytes;
        put_text(e, TAG, row->numbers[i].name);
        put_float(e, SIMPLE_VALUE, (float)row->numbers[i].value);
        wrap(e, value, VALUE);
    }
    wrap(e, summary, SUMMARY);
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

static void put_doubles(struct tft_event_file *e, unsigned number, const double *values, size_t count)
{
    put_key(e, number, LENGTH);
    put_varint(e, 8 * count);
    for (size_t i = 0; i < count; i++)
        put_plain_double(e, values[i]);
}

enum halay_status tft_event_file_add_values(struct tft_event_file *e, uint64_t step, double seconds,
                                            const struct tft_values *values)
{
    struct histogram h;
    char tag[256];
    enum halay_status status = begin_event(e, step, seconds, 1024 + 16 * BUCKETS);

    if (status)
        return status;
    count_values(values, &h);
    snprintf(tag, sizeof tag, "%s/%s", values->group, values->name);
    size_t summary = e->bytes;
    put_text(e, TAG, tag);
    size_t histogram = e->bytes;
    put_double(e, LEAST, h.least);
    put_double(e, MOST, h.most);
    put_double(e, NUMBER, h.count);
    put_double(e, SUM, h.sum);
    put_double(e, SUM_SQUARES, h.squares);
    put_doubles(e, BUCKET_LIMIT, h.limits, BUCKETS);
    put_doubles(e, BUCKET, h.buckets, BUCKETS);
    wrap(e, histogram, HISTOGRAM);
    wrap(e, summary, VALUE);
    wrap(e, summary, SUMMARY);
    return end_event(e);
}

void tft_event_file_fini(struct tft_event_file *e)
{
    if (e->file)
        fclose(e->file);
    free(e->event);
    *e = (struct tft_event_file){ 0 };
}
