/* SPDX-License-Identifier: Apache-2.0
 *
 * Each event is one protocol buffer, in a record with checksums. The buffer is used again for the next one.
 */
#include "tft/core/run/event_file.h"
#include "base/memory.h"
#include "tft/core/data/paths.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUCKETS = 30 };
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

static void write_checksum(FILE *file, const unsigned char *data, size_t bytes)
{
    unsigned char checksum[4];
    uint32_t crc = crc32c(data, bytes);

    tft_protobuf_little((crc >> 15 | crc << 17) + 0xa282ead8u, sizeof checksum, checksum);
    fwrite(checksum, 1, sizeof checksum, file);
}

/* Write the event as a record, and begin the next. */
static enum halay_status end_event(struct tft_event_file *e)
{
    unsigned char length[8];

    if (e->event.failed)
        return halay_no_memory(e->log, "for an event of TensorBoard's");
    tft_protobuf_little(e->event.size, sizeof length, length);
    fwrite(length, 1, sizeof length, e->file);
    write_checksum(e->file, length, sizeof length);
    fwrite(e->event.bytes, 1, e->event.size, e->file);
    write_checksum(e->file, e->event.bytes, e->event.size);
    if (fflush(e->file) || ferror(e->file))
        return halay_fail(e->log, HALAY_ERR_SYSTEM, "cannot write TensorBoard's event file: %s", strerror(errno));
    return HALAY_OK;
}

static void begin_event(struct tft_event_file *e, uint64_t step, double seconds)
{
    e->event.size = 0;
    tft_protobuf_double(&e->event, WALL_TIME, seconds);
    tft_protobuf_whole(&e->event, STEP, step);
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
                                      struct tft_event_file *e)
{
    const double now = (double)time(NULL);

    *e = (struct tft_event_file){ .log = log, .file = open_new(log, folder) };
    if (!e->file)
        return HALAY_ERR_SYSTEM;
    begin_event(e, 0, now);
    tft_protobuf_text(&e->event, FILE_VERSION, "brain.Event:2");
    enum halay_status status = end_event(e);
    if (!status) {
        begin_event(e, last + 1, now);
        size_t from = e->event.size;
        tft_protobuf_whole(&e->event, STATUS, STATUS_START);
        tft_protobuf_wrap(&e->event, from, SESSION_LOG);
        status = end_event(e);
    }
    if (status)
        tft_event_file_fini(e);
    return status;
}

enum halay_status tft_event_file_add(struct tft_event_file *e, const struct tft_row *row)
{
    begin_event(e, row->step, row->seconds);
    size_t summary = e->event.size;
    for (size_t i = 0; i < row->count; i++) {
        size_t value = e->event.size;
        tft_protobuf_text(&e->event, TAG, row->numbers[i].name);
        tft_protobuf_float(&e->event, SIMPLE_VALUE, (float)row->numbers[i].value);
        tft_protobuf_wrap(&e->event, value, VALUE);
    }
    tft_protobuf_wrap(&e->event, summary, SUMMARY);
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

enum halay_status tft_event_file_add_values(struct tft_event_file *e, uint64_t step, double seconds,
                                            const struct tft_values *values)
{
    struct histogram h;
    char tag[256];

    begin_event(e, step, seconds);
    count_values(values, &h);
    snprintf(tag, sizeof tag, "%s/%s", values->group, values->name);
    size_t summary = e->event.size;
    tft_protobuf_text(&e->event, TAG, tag);
    size_t histogram = e->event.size;
    tft_protobuf_double(&e->event, LEAST, h.least);
    tft_protobuf_double(&e->event, MOST, h.most);
    tft_protobuf_double(&e->event, NUMBER, h.count);
    tft_protobuf_double(&e->event, SUM, h.sum);
    tft_protobuf_double(&e->event, SUM_SQUARES, h.squares);
    tft_protobuf_doubles(&e->event, BUCKET_LIMIT, h.limits, BUCKETS);
    tft_protobuf_doubles(&e->event, BUCKET, h.buckets, BUCKETS);
    tft_protobuf_wrap(&e->event, histogram, HISTOGRAM);
    tft_protobuf_wrap(&e->event, summary, VALUE);
    tft_protobuf_wrap(&e->event, summary, SUMMARY);
    return end_event(e);
}

void tft_event_file_fini(struct tft_event_file *e)
{
    if (e->file)
        fclose(e->file);
    tft_protobuf_fini(&e->event);
    *e = (struct tft_event_file){ 0 };
}
