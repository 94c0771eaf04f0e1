/* SPDX-License-Identifier: Apache-2.0
 *
 * PEMS-SF: matrices in brackets. A line of PEMS_train or PEMS_test is one day, [sensor; sensor; ...] with 144 occupancy
 * rates each; randperm says which day of the record each line is, the training lines first, then the test lines; the
 * labels are days of the week, from 1. As in the published experiment the first and last hour of each sensor are left
 * out, and rows are
 *
 *     id,hours_from_start,sensor_day,time_on_day,day_of_week,values
 *
 * with the day of the week as the labels have it. Lines are read one at a time, their hourly means kept. Cleanup:
 * zeroed first, fini accepts half-built.
 */
#include "tft/data/convert.h"
#include "tft/data/paths.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SLOTS = 144, HOURS = 24, PER_HOUR = SLOTS / HOURS };
#define LINE_MAX_BYTES ((size_t)64 << 20)

/* A text file, plain or compressed, line by line. */
struct lines {
    struct halay_log *log;
    char *path;  /* owned */
    gzFile file; /* owned */
    char *text;  /* owned */
    size_t size, number;
};

struct pems {
    struct halay_log *log;
    const char *folder;
    size_t *order, day_count; /* owned: the day of the record that each line is */
    int *weekdays;            /* owned: of each line */
    int64_t *stations;        /* owned */
    size_t station_count, label_count;
    float *hours; /* owned: (days of the record, stations, HOURS) */
    unsigned char *seen;
};

static enum halay_status no_memory(struct halay_log *log)
{
    halay_error(log, "no memory for PEMS-SF");
    return HALAY_ERR_NO_MEMORY;
}

/* ---- lines ---- */

static enum halay_status lines_open(const struct pems *p, const char *name, struct lines *l)
{
    *l = (struct lines){ .log = p->log, .path = tft_path_join(p->log, p->folder, name), .size = 1 << 16 };
    l->text = malloc(l->size);
    if (!l->path || !l->text)
        return no_memory(p->log);
    l->file = gzopen(l->path, "rbe");
    if (l->file)
        return HALAY_OK;
    halay_error(p->log, "cannot open '%s': %s", l->path, errno ? strerror(errno) : "no memory");
    return HALAY_ERR_SYSTEM;
}

static void lines_close(struct lines *l)
{
    if (l->file)
        gzclose_r(l->file);
    free(l->path);
    free(l->text);
}

static enum halay_status bad_line(const struct lines *l, const char *what)
{
    halay_error(l->log, "file '%s', line %zu: %s", l->path, l->number, what);
    return HALAY_ERR_FORMAT;
}

/* The next line, without its end; *end is 1 behind the last. */
static enum halay_status lines_next(struct lines *l, int *end)
{
    size_t length = 0;

    l->number++;
    for (;;) {
        if (!gzgets(l->file, l->text + length, (int)(l->size - length))) {
            int error;
            gzerror(l->file, &error);
            *end = length == 0;
            if (error != Z_OK && error != Z_STREAM_END)
                return bad_line(l, "the file is truncated or damaged");
            return HALAY_OK;
        }
        length += strlen(l->text + length);
        if (length && l->text[length - 1] == '\n') {
            l->text[length - 1] = 0;
            *end = 0;
            return HALAY_OK;
        }
        if (length + 1 < l->size)
            continue;
        if (l->size >= LINE_MAX_BYTES)
            return bad_line(l, "longer than 64 MiB");
        char *more = realloc(l->text, l->size * 2);
        if (!more)
            return no_memory(l->log);
        l->text = more;
        l->size *= 2;
    }
}

/* ---- brackets ---- */

/* The number that comes next, after blanks and brackets; 0 if there is none. *text is left behind it. */
static int next_number(char **text, double *value)
{
    char *end;

    *text += strspn(*text, " \t\r[]");
    *value = strtod(*text, &end);
    if (end == *text || !isfinite(*value))
        return 0;
    *text = end;
    return 1;
}

/* A file with one line of whole numbers, appended to a list. */
static enum halay_status read_list(const struct pems *p, const char *name, int64_t **list, size_t *count)
{
    struct lines l;
    int end = 0;
    enum halay_status status = lines_open(p, name, &l);

    if (!status)
        status = lines_next(&l, &end);
    if (!status && end)
        status = bad_line(&l, "a list of numbers is missing");
    for (char *at = l.text; !status;) {
        double value;
        if (!next_number(&at, &value)) {
            if (*at)
                status = bad_line(&l, "something else than a number");
            break;
        }
        int64_t *more = realloc(*list, (*count + 1) * sizeof *more);
        if (!more) {
            status = no_memory(p->log);
            break;
        }
        *list = more;
        (*list)[(*count)++] = fabs(value) < 1e15 ? (int64_t)value : -1;
    }
    lines_close(&l);
    return status;
}

/* One day: hourly means of each sensor. */
static enum halay_status read_day(struct pems *p, struct lines *l, size_t line)
{
    float *hours = p->hours + p->order[line] * p->station_count * HOURS;
    char *at = l->text;

    for (size_t s = 0; s < p->station_count; s++) {
        if (s) {
            at += strspn(at, " \t");
            if (*at++ != ';')
                return bad_line(l, "not as many sensors as stations_list has, or not 144 values of one");
        }
        for (size_t h = 0; h < HOURS; h++) {
            double sum = 0, value;
            for (size_t i = 0; i < PER_HOUR; i++) {
                if (!next_number(&at, &value))
                    return bad_line(l, "not 144 numbers of a sensor");
                sum += value;
            }
            hours[s * HOURS + h] = (float)(sum / PER_HOUR);
        }
    }
    at += strspn(at, " \t\r]");
    return *at ? bad_line(l, "more than 144 numbers of a sensor, or more sensors than stations_list has") : HALAY_OK;
}

static enum halay_status read_days(struct pems *p, const char *name, size_t *line, size_t last)
{
    struct lines l;
    int end = 0;
    enum halay_status status = lines_open(p, name, &l);

    while (!status && *line < last) {
        status = lines_next(&l, &end);
        if (!status && end)
            status = bad_line(&l, "fewer days than labels");
        if (!status)
            status = read_day(p, &l, (*line)++);
    }
    lines_close(&l);
    return status;
}

/* ---- the whole ---- */

static enum halay_status check_order(struct pems *p, const int64_t *order)
{
    for (size_t i = 0; i < p->day_count; i++) {
        if (order[i] < 1 || (size_t)order[i] > p->day_count || p->seen[order[i] - 1]++) {
            halay_error(p->log, "'%s/randperm' is no permutation of its %zu days", p->folder, p->day_count);
            return HALAY_ERR_FORMAT;
        }
        p->order[i] = (size_t)order[i] - 1;
    }
    return HALAY_OK;
}

static enum halay_status read_all(struct pems *p)
{
    int64_t *order = NULL, *labels = NULL;
    size_t train = 0, line = 0;
    enum halay_status status = read_list(p, "randperm", &order, &p->day_count);

    if (!status)
        status = read_list(p, "PEMS_trainlabels", &labels, &train);
    p->label_count = train;
    if (!status)
        status = read_list(p, "PEMS_testlabels", &labels, &p->label_count);
    if (!status)
        status = read_list(p, "stations_list", &p->stations, &p->station_count);
    if (!status && (p->label_count != p->day_count || !p->station_count || !p->day_count)) {
        halay_error(p->log, "'%s': %zu days in randperm, %zu labels, %zu stations", p->folder, p->day_count,
                    p->label_count, p->station_count);
        status = HALAY_ERR_FORMAT;
    }
    if (!status) {
        p->order = calloc(p->day_count, sizeof *p->order);
        p->weekdays = calloc(p->day_count, sizeof *p->weekdays);
        p->seen = calloc(p->day_count, 1);
        p->hours = calloc(p->day_count * p->station_count, HOURS * sizeof *p->hours);
        status = p->order && p->weekdays && p->seen && p->hours ? check_order(p, order) : no_memory(p->log);
    }
    for (size_t i = 0; i < p->day_count && !status; i++)
        p->weekdays[p->order[i]] = (int)labels[i];
    if (!status)
        status = read_days(p, "PEMS_train", &line, train);
    if (!status)
        status = read_days(p, "PEMS_test", &line, p->day_count);
    free(order);
    free(labels);
    return status;
}

static void write_rows(const struct pems *p, FILE *file)
{
    fputs("id,hours_from_start,sensor_day,time_on_day,day_of_week,values\n", file);
    for (size_t s = 0; s < p->station_count; s++)
        for (size_t i = 1; i + 1 < p->day_count * HOURS; i++) {
            size_t day = i / HOURS, hour = i % HOURS;
            fprintf(file, "%lld,%zu,%zu,%zu,%d,%.9g\n", (long long)p->stations[s], i, day, hour, p->weekdays[day],
                    (double)p->hours[(day * p->station_count + s) * HOURS + hour]);
        }
}

enum halay_status tft_convert_pems(struct halay_log *log, const char *folder, const char *out)
{
    struct pems p = { .log = log, .folder = folder };
    struct tft_output output = { 0 };
    enum halay_status status = read_all(&p);

    if (!status)
        status = tft_output_open(log, out, &output);
    if (!status) {
        write_rows(&p, output.file);
        status = tft_output_commit(&output);
    }
    tft_output_abort(&output);
    free(p.order);
    free(p.weekdays);
    free(p.stations);
    free(p.hours);
    free(p.seen);
    return status;
}
