/* SPDX-License-Identifier: Apache-2.0
 *
 * Timeline: reading with Jansson, the bounds of a clock's offset, shifting.
 */
#include "perf/src/records/timeline.h"
#include "base/trace.h"
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* A flight recorder's file as the text of a timeline; NULL, after a line about it. */
static char *trace_of(struct halay_log *log, const char *path)
{
    struct halay_ring *ring;
    char *text = NULL;
    size_t size;

    if (halay_ring_open(log, path, &ring) != HALAY_OK)
        return NULL;
    FILE *out = open_memstream(&text, &size);
    enum halay_status status = out ? halay_trace_write(ring, 1, out) : HALAY_ERR_NO_MEMORY;
    if (out && fclose(out))
        status = HALAY_ERR_NO_MEMORY;
    halay_ring_destroy(ring);
    if (status == HALAY_OK)
        return text;
    halay_error(log, "cannot make a timeline of '%s': %s", path, halay_status_string(status));
    free(text);
    return NULL;
}

static int begins_with_brace(const char *path)
{
    FILE *file = fopen(path, "re");
    int c = file ? fgetc(file) : '{'; /* the reader says why it cannot be opened */

    if (file)
        fclose(file);
    return c == '{' || c == EOF;
}

static json_t *load(struct halay_log *log, const char *path)
{
    json_error_t error = { .text = "" };
    json_t *root = NULL;

    if (begins_with_brace(path)) {
        root = json_load_file(path, 0, &error);
        if (!root)
            halay_error(log, "'%s' line %d: %s", path, error.line, error.text);
        return root;
    }
    char *text = trace_of(log, path);
    if (text && !(root = json_loads(text, 0, &error)))
        halay_error(log, "'%s': %s", path, error.text);
    free(text);
    return root;
}

/* Does it bound clocks? In a broadcast the root may be done before others begin, and nothing waits for nothing. */
static int is_common(json_t *event)
{
    json_t *category = json_object_get(event, "cat"), *args = json_object_get(event, "args");
    const char *operation = json_string_value(json_object_get(args, "operation"));

    return category && json_is_string(category) && !strcmp(json_string_value(category), "collective") && operation &&
           strcmp(operation, "broadcast") != 0 && json_integer_value(json_object_get(args, "bytes")) > 0 &&
           json_is_integer(json_object_get(args, "collective")) && !json_object_get(args, "set") &&
           !json_object_get(args, "error");
}

static int compare_numbers(const void *a, const void *b)
{
    const struct perf_common *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static enum halay_status collect(struct perf_timeline *timeline, json_t *events)
{
    json_t *event;
    size_t i;

    timeline->commons = malloc((json_array_size(events) + 1) * sizeof *timeline->commons);
    if (!timeline->commons)
        return HALAY_ERR_NO_MEMORY;
    json_array_foreach(events, i, event) {
        double begin = json_number_value(json_object_get(event, "ts"));
        if (is_common(event))
            timeline->commons[timeline->count++] =
                (struct perf_common){ json_integer_value(json_object_get(json_object_get(event, "args"), "collective")),
                                      begin, begin + json_number_value(json_object_get(event, "dur")) };
    }
    qsort(timeline->commons, timeline->count, sizeof *timeline->commons, compare_numbers);
    return HALAY_OK;
}

enum halay_status perf_timeline_read(struct halay_log *log, const char *path, struct perf_timeline *timeline)
{
    *timeline = (struct perf_timeline){ .root = load(log, path) };
    if (!timeline->root)
        return HALAY_ERR_FORMAT;
    json_t *events = json_object_get(timeline->root, "traceEvents"),
           *other = json_object_get(timeline->root, "otherData");
    json_t *rank = json_object_get(other, "rank");
    timeline->host = json_string_value(json_object_get(other, "host"));
    timeline->boot_id = json_string_value(json_object_get(other, "boot_id"));
    timeline->wall_us = json_number_value(json_object_get(other, "wall_us"));
    enum halay_status status = HALAY_ERR_FORMAT;
    if (!json_is_array(events) || !json_is_integer(rank) || !timeline->host || !timeline->boot_id)
        halay_error(log, "'%s' is not the timeline of a halay rank", path);
    else
        status = collect(timeline, events);
    timeline->rank = (int)json_integer_value(rank);
    if (status != HALAY_OK)
        perf_timeline_fini(timeline);
    return status;
}

void perf_timeline_fini(struct perf_timeline *timeline)
{
    json_decref(timeline->root);
    free(timeline->commons);
    *timeline = (struct perf_timeline){ 0 };
}

/* ---- clocks ---- */

size_t perf_timeline_bounds(const struct perf_timeline *a, const struct perf_timeline *b, double *least, double *most)
{
    size_t i = 0, k = 0, both = 0;

    while (i < a->count && k < b->count) {
        const struct perf_common *x = &a->commons[i], *y = &b->commons[k];
        if (x->number != y->number) {
            x->number < y->number ? i++ : k++;
            continue;
        }
        if (y->begin_us - x->end_us > *least)
            *least = y->begin_us - x->end_us;
        if (y->end_us - x->begin_us < *most)
            *most = y->end_us - x->begin_us;
        both++;
        i++;
        k++;
    }
    return both;
}

void perf_timeline_shift(struct perf_timeline *timeline, double theta_us)
{
    json_t *events = json_object_get(timeline->root, "traceEvents"), *event, *time;
    size_t i;

    json_array_foreach(events, i, event) {
        if ((time = json_object_get(event, "ts")))
            json_object_set_new(event, "ts", json_real(json_number_value(time) - theta_us));
    }
}
