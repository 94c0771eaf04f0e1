/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace: one pass for events that need no order. Intervals that may overlap (collectives, waits) are sorted by their
 * begin, and each goes to the first row whose last interval has ended: the format allows one at a time in a row.
 *
 *     begin order   a b c d        a |-----|        |----| d
 *     rows                         b   |--------|
 *                                  c      |--| ...
 */
#include "base/trace.h"
#include "base/memory.h"
#include "halay_tools.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64, ROW_ENGINE = 1, ROW_COLLECTIVES = 1000 }; /* "tid" of the rows; waits: 0, then from 2 on */
enum { ESCAPED_BYTES = 2 * 64 + 1 };                            /* of a name, host or boot id */

struct writer {
    const struct halay_ring *ring;
    const struct halay_ring_head *head;
    FILE *out;
    uint64_t first, last; /* numbers of the records to write */
    uint64_t dropped;
    int events;
};

/* Intervals of a kind. */
struct intervals {
    struct halay_record *records; /* owned */
    size_t count, room;
};

/* ---- JSON ---- */

/* Nanoseconds as microseconds with all digits. */
#define US "%" PRId64 ".%03d"
#define US_OF(ns) (ns) / 1000, (int)((ns) % 1000)

/* Returns `to` with the text in the form of JSON. Names are UTF-8 without control characters when the engine wrote
 * them; a damaged file may have anything. */
static const char *json_escape(const char *text, size_t length, char to[ESCAPED_BYTES])
{
    char *end = to;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            *end++ = '\\';
        *end++ = c < 0x20 || c == 0x7f ? '?' : text[i];
    }
    *end = 0;
    return to;
}

static const char *json_escape_name(const struct halay_record *r, char to[ESCAPED_BYTES])
{
    return json_escape(r->name, r->name_length, to);
}

/* Writes an event up to its time; its own members follow. */
static void begin_event(struct writer *w, const char *phase, int row, int64_t time_ns)
{
    fprintf(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":" US, w->events++ ? "," : "", phase, w->head->rank,
            row, US_OF(time_ns));
}

/* Writes the label of a row, or of the process, and its place among the others. */
static void put_label(struct writer *w, const char *what, int row, int place, const char *label)
{
    const int rank = w->head->rank;

    fprintf(w->out,
            "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_name\",\"args\":{\"name\":\"%s\"}},\n"
            "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}",
            w->events++ ? "," : "", rank, row, what, label, rank, row, what, place);
}

static void put_row_label(struct writer *w, int row, const char *name, int number)
{
    char label[64];

    snprintf(label, sizeof label, number ? "%s %d" : "%s", name, number + 1);
    put_label(w, "thread", row, row, label);
}

static void put_process_label(struct writer *w)
{
    char host[ESCAPED_BYTES], label[ESCAPED_BYTES + 32];

    snprintf(label, sizeof label, "rank %d on %s", w->head->rank,
             json_escape(w->head->host, strlen(w->head->host), host));
    put_label(w, "process", 0, w->head->rank, label);
}

/* ---- events ---- */

static void put_kind_args(struct writer *w, const struct halay_record *r)
{
    const char *operation = halay_record_operation(r);

    fprintf(w->out, "\"operation\":\"%s\",\"bytes\":%" PRIu64, operation, r->bytes);
    if (r->collective)
        fprintf(w->out, ",\"collective\":%" PRIu64, r->collective);
    if (r->set)
        fprintf(w->out, ",\"set\":%d", r->set);
    if (strcmp(operation, "barrier") != 0)
        fprintf(w->out, ",\"dtype\":\"%s\"", halay_dtype_name((enum halay_dtype)r->dtype));
    if (strstr(operation, "reduce"))
        fprintf(w->out, ",\"reduction\":\"%s\"", halay_reduction_name((enum halay_reduction)r->op));
    if (r->status)
        fprintf(w->out, ",\"error\":\"%s\"", halay_status_string((enum halay_status)r->status));
}

static void put_async(struct writer *w, const char *phase, const struct halay_record *r, int64_t time_ns)
{
    char name[ESCAPED_BYTES];

    begin_event(w, phase, 0, time_ns);
    fprintf(w->out, ",\"cat\":\"tensor\",\"id\":%" PRIu64 ",\"name\":\"%s\"", r->number, json_escape_name(r, name));
}

static void put_tensor(struct writer *w, const struct halay_record *r)
{
    int64_t begin = r->start_ns ? r->start_ns : r->time_ns;

    put_async(w, "b", r, r->begin_ns ? r->begin_ns : begin);
    fprintf(w->out, ",\"args\":{\"submission\":%" PRIu64 ",", r->ordinal);
    put_kind_args(w, r);
    fputs("}}", w->out);
    if (r->start_ns) {
        put_async(w, "n", r, r->start_ns);
        fputs(",\"args\":{\"started\":true}}", w->out);
    }
    put_async(w, "e", r, r->time_ns);
    fputc('}', w->out);
}

static void put_interval(struct writer *w, const struct halay_record *r, int row)
{
    char name[ESCAPED_BYTES];

    begin_event(w, "X", row, r->begin_ns);
    fprintf(w->out, ",\"dur\":" US, US_OF(r->time_ns - r->begin_ns));
    if (r->kind == HALAY_RECORD_FINISHED) {
        fprintf(w->out, ",\"cat\":\"collective\",\"name\":\"%s", json_escape_name(r, name));
        if (r->count > 1)
            fprintf(w->out, " and %d more", r->count - 1);
        fprintf(w->out, "\",\"args\":{\"tensors\":%d,", r->count);
        put_kind_args(w, r);
        fputs("}}", w->out);
    } else if (r->kind == HALAY_RECORD_WAITED) {
        fprintf(w->out, ",\"cat\":\"wait\",\"name\":\"wait %s\"}", json_escape_name(r, name));
    } else {
        fputs(",\"cat\":\"sleep\",\"name\":\"sleep\"}", w->out);
    }
}

/* r: the first part of the cause. */
static void put_failure(struct writer *w, const struct halay_record *r)
{
    struct halay_record later;
    char part[ESCAPED_BYTES];

    begin_event(w, "i", ROW_ENGINE, r->time_ns);
    fprintf(w->out, ",\"s\":\"p\",\"cat\":\"failure\",\"name\":\"%s", json_escape_name(r, part));
    for (uint64_t number = r->number + 1; number <= w->last; number++)
        if (halay_ring_get(w->ring, number, &later) && later.kind == HALAY_RECORD_FAILED)
            fputs(json_escape_name(&later, part), w->out);
    fprintf(w->out, "\",\"args\":{\"error\":\"%s\"}}", halay_status_string((enum halay_status)r->status));
}

/* ---- intervals ---- */

static int keep_interval(struct intervals *intervals, const struct halay_record *r)
{
    if (halay_list_grow(&intervals->records, intervals->count, &intervals->room, sizeof *intervals->records))
        return 0;
    intervals->records[intervals->count++] = *r;
    return 1;
}

static int compare_begin(const void *a, const void *b)
{
    const struct halay_record *x = a, *y = b;

    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void put_intervals(struct writer *w, struct intervals *intervals, const char *name, int base)
{
    int64_t ends[ROWS_MAX] = { 0 };
    int rows = 0;

    if (intervals->count)
        qsort(intervals->records, intervals->count, sizeof *intervals->records, compare_begin);
    for (size_t i = 0; i < intervals->count; i++) {
        int row = 0;
        while (row < rows && row < ROWS_MAX - 1 && ends[row] > intervals->records[i].begin_ns)
            row++;
        int tid = base || !row ? base + row : ROW_ENGINE + row;
        if (row == rows) {
            put_row_label(w, tid, name, row);
            rows++;
        }
        ends[row] = intervals->records[i].time_ns;
        put_interval(w, &intervals->records[i], tid);
    }
    free(intervals->records);
}

static int put_records(struct writer *w, struct intervals *collectives, struct intervals *waits)
{
    struct halay_record r;

    for (uint64_t number = w->first; number <= w->last; number++) {
        int ok = 1;
        if (!halay_ring_get(w->ring, number, &r)) {
            w->dropped++;
            continue;
        }
        if (r.kind == HALAY_RECORD_ENDED)
            put_tensor(w, &r);
        else if (r.kind == HALAY_RECORD_FINISHED)
            ok = keep_interval(collectives, &r);
        else if (r.kind == HALAY_RECORD_WAITED)
            ok = keep_interval(waits, &r);
        else if (r.kind == HALAY_RECORD_SLEPT)
            put_interval(w, &r, ROW_ENGINE);
        else if (r.kind == HALAY_RECORD_FAILED && !r.bytes)
            put_failure(w, &r);
        if (!ok)
            return 0;
    }
    return 1;
}

enum halay_status halay_trace_write(const struct halay_ring *ring, uint64_t from, FILE *out)
{
    const struct halay_ring_head *head = halay_ring_head(ring);
    struct writer w = { .ring = ring, .head = head, .out = out, .first = from, .last = halay_ring_begun(ring) };
    struct intervals collectives = { 0 }, waits = { 0 };
    char text[ESCAPED_BYTES];

    if (w.last >= from && w.last - from >= head->capacity) {
        w.first = w.last - head->capacity + 1;
        w.dropped = w.first - from;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    put_process_label(&w);
    put_row_label(&w, ROW_ENGINE, "engine", 0);
    if (!put_records(&w, &collectives, &waits)) {
        free(collectives.records);
        free(waits.records);
        return HALAY_ERR_NO_MEMORY;
    }
    put_intervals(&w, &waits, "program", 0);
    put_intervals(&w, &collectives, "collectives", ROW_COLLECTIVES);
    fprintf(out, "\n],\"otherData\":{\"rank\":%d,\"size\":%d,\"host\":\"%s\",", head->rank, head->size,
            json_escape(head->host, strlen(head->host), text));
    fprintf(out, "\"boot_id\":\"%s\",\"wall_us\":" US ",\"dropped\":%" PRIu64 "}}\n",
            json_escape(head->boot_id, strlen(head->boot_id), text), US_OF(head->wall_ns), w.dropped);
    return ferror(out) ? HALAY_ERR_SYSTEM : HALAY_OK;
}
