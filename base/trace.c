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
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 64, ROW_ENGINE = 1, ROW_COLLECTIVES = 1000 }; /* "tid" of the rows; waits: 0, then from 2 on */

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
    size_t count, capacity;
};

/* ---- JSON ---- */

/* Names are UTF-8 without control characters when the engine wrote them; a damaged file may have anything. */
static void put_text(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fputc('?', out);
        else
            fputc(c, out);
    }
}

static void put_name(FILE *out, const struct halay_record *r)
{
    put_text(out, r->name, r->name_length);
}

/* Nanoseconds as microseconds with all digits. */
static void put_us(FILE *out, int64_t ns)
{
    fprintf(out, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static void begin_event(struct writer *w, const char *phase, int row, int64_t time_ns)
{
    fprintf(w->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":", w->events++ ? "," : "", phase, w->head->rank,
            row);
    put_us(w->out, time_ns);
}

static void put_row_name(struct writer *w, int row, const char *name, int number)
{
    fprintf(w->out, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s",
            w->events++ ? "," : "", w->head->rank, row, name);
    if (number)
        fprintf(w->out, " %d", number + 1);
    fprintf(w->out,
            "\"}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
            w->head->rank, row, row);
}

static void put_process(struct writer *w)
{
    int rank = w->head->rank;

    fprintf(w->out, "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d on ",
            w->events++ ? "," : "", rank, rank);
    put_text(w->out, w->head->host, strlen(w->head->host));
    fprintf(w->out,
            "\"}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}",
            rank, rank);
}

/* ---- events ---- */

static void put_kind_args(struct writer *w, const struct halay_record *r)
{
    const char *operation = halay_record_operation(r);

    fprintf(w->out, "\"operation\":\"%s\",\"bytes\":%" PRIu64, operation, r->bytes);
    if (r->collective) /* by express: no number */
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
    begin_event(w, phase, 0, time_ns);
    fprintf(w->out, ",\"cat\":\"tensor\",\"id\":%" PRIu64 ",\"name\":\"", r->number);
    put_name(w->out, r);
    fputc('"', w->out);
}

static void put_tensor(struct writer *w, const struct halay_record *r)
{
    int64_t begin = r->start_ns ? r->start_ns : r->time_ns;

    if (r->begin_ns)
        begin = r->begin_ns;
    put_async(w, "b", r, begin);
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
    begin_event(w, "X", row, r->begin_ns);
    fputs(",\"dur\":", w->out);
    put_us(w->out, r->time_ns - r->begin_ns);
    if (r->kind == HALAY_RECORD_FINISHED) {
        fputs(",\"cat\":\"collective\",\"name\":\"", w->out);
        put_name(w->out, r);
        if (r->count > 1)
            fprintf(w->out, " and %d more", r->count - 1);
        fprintf(w->out, "\",\"args\":{\"tensors\":%d,", r->count);
        put_kind_args(w, r);
        fputs("}}", w->out);
    } else if (r->kind == HALAY_RECORD_WAITED) {
        fputs(",\"cat\":\"wait\",\"name\":\"wait ", w->out);
        put_name(w->out, r);
        fputs("\"}", w->out);
    } else {
        fputs(",\"cat\":\"sleep\",\"name\":\"sleep\"}", w->out);
    }
}

/* r: the first part of the cause. */
static void put_failure(struct writer *w, const struct halay_record *r)
{
    struct halay_record later;

    begin_event(w, "i", ROW_ENGINE, r->time_ns);
    fputs(",\"s\":\"p\",\"cat\":\"failure\",\"name\":\"", w->out);
    put_name(w->out, r);
    for (uint64_t number = r->number + 1; number <= w->last; number++)
        if (halay_ring_get(w->ring, number, &later) && later.kind == HALAY_RECORD_FAILED)
            put_name(w->out, &later);
    fprintf(w->out, "\",\"args\":{\"error\":\"%s\"}}", halay_status_string((enum halay_status)r->status));
}

/* ---- intervals ---- */

static int keep_interval(struct intervals *intervals, const struct halay_record *r)
{
    if (intervals->count == intervals->capacity) {
        size_t capacity = intervals->capacity ? intervals->capacity * 2 : 1024;
        struct halay_record *grown = realloc(intervals->records, capacity * sizeof *grown);
        if (!grown)
            return 0;
        intervals->records = grown;
        intervals->capacity = capacity;
    }
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
            put_row_name(w, tid, name, row);
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

    if (w.last >= from && w.last - from >= head->capacity) {
        w.first = w.last - head->capacity + 1;
        w.dropped = w.first - from;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    put_process(&w);
    put_row_name(&w, ROW_ENGINE, "engine", 0);
    if (!put_records(&w, &collectives, &waits)) {
        free(collectives.records);
        free(waits.records);
        return HALAY_ERR_NO_MEMORY;
    }
    put_intervals(&w, &waits, "program", 0);
    put_intervals(&w, &collectives, "collectives", ROW_COLLECTIVES);
    fprintf(out, "\n],\"otherData\":{\"rank\":%d,\"size\":%d,\"host\":\"", head->rank, head->size);
    put_text(out, head->host, strlen(head->host));
    fputs("\",\"boot_id\":\"", out);
    put_text(out, head->boot_id, strlen(head->boot_id));
    fputs("\",\"wall_us\":", out);
    put_us(out, head->wall_ns);
    fprintf(out, ",\"dropped\":%" PRIu64 "}}\n", w.dropped);
    return ferror(out) ? HALAY_ERR_SYSTEM : HALAY_OK;
}
