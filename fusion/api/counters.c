/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: the engine's counters as a struct and as Prometheus text. Counting itself, and the names, are in
 * base/meters.h. Times are nanoseconds in the struct, and seconds in the text, as Prometheus recommends.
 */
#include "base/error_text.h"
#include "base/meters.h"
#include "base/number_text.h"
#include "base/struct_size.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/protocol/messenger.h"
#include "fusion/requests/context.h"
#include "halay_tools.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- as a struct ---- */

_Static_assert((int)HALAY_COUNTERS_STATUSES == (int)HALAY_METERS_STATUSES && HALAY_OK == 0,
               "as base/meters.h has them");

/* Offsets of the meters in the public struct. */
static const size_t offsets[HALAY_METERS] = {
#define VALUE(member) offsetof(struct halay_counters, member)
    [HALAY_METER_SUBMISSIONS] = VALUE(submissions),
    [HALAY_METER_COMPLETIONS] = VALUE(completions),
    [HALAY_METER_IN_FLIGHT] = VALUE(in_flight),
    [HALAY_METER_NEGOTIATIONS] = VALUE(negotiations),
    [HALAY_METER_CACHE_HITS] = VALUE(cache_hits),
    [HALAY_METER_COLLECTIVES] = VALUE(collectives),
    [HALAY_METER_FUSED_TENSORS] = VALUE(fused_tensors),
    [HALAY_METER_BYTES] = VALUE(bytes),
    [HALAY_METER_COMMUNICATION_NS] = VALUE(communication_ns),
    [HALAY_METER_MESSAGES_SENT] = VALUE(messages_sent),
    [HALAY_METER_MESSAGES_RECEIVED] = VALUE(messages_received),
    [HALAY_METER_STEPS] = VALUE(steps),
    [HALAY_METER_SLEEPS] = VALUE(sleeps),
};

static void read_tally(struct halay_context *ctx, struct halay_counters *all)
{
    struct halay_tally *tally = &ctx->meters->tally;
    uint64_t values[HALAY_METERS];

    halay_meters_read(tally, values);
    values[HALAY_METER_IN_FLIGHT] = atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed);
    if (ctx->messenger)
        values[HALAY_METER_MESSAGES_SENT] += halay_messenger_sent(ctx->messenger);
    *all = (struct halay_counters){ 0 };
    for (int i = 0; i < HALAY_METERS; i++)
        memcpy((char *)all + offsets[i], &values[i], sizeof values[i]);
    for (int i = HALAY_IN_PROGRESS + 1; i < HALAY_COUNTERS_STATUSES; i++) {
        all->errors_by_status[i] = atomic_load_explicit(&tally->ended[i], memory_order_relaxed);
        all->errors += all->errors_by_status[i];
    }
}

enum halay_status halay_counters_read(struct halay_context *ctx, struct halay_counters *counters)
{
    struct halay_counters all;

    if (!ctx || !counters || !halay_struct_has_size(counters))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_counters_read: no context, or no struct with its size");
    read_tally(ctx, &all);
    halay_struct_write(&all, sizeof all, counters);
    return HALAY_OK;
}

enum halay_status halay_stragglers_read(struct halay_context *ctx, int rank, struct halay_straggler *straggler)
{
    struct halay_straggler all;

    if (!ctx || rank < 0 || rank >= ctx->size || !straggler || !halay_struct_has_size(straggler))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_stragglers_read: no such rank, or no struct with its size");
    if (!ctx->all.coordinator)
        return halay_refuses(HALAY_ERR_UNSUPPORTED, "halay_stragglers_read: only rank 0 counts stragglers");
    halay_coordinator_straggler(ctx->all.coordinator, rank, &all);
    halay_struct_write(&all, sizeof all, straggler);
    return HALAY_OK;
}

/* ---- as text ---- */

/* Text written into the caller's memory; text that does not fit is only counted. */
struct text {
    char *at;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format, ...)
{
    size_t left = text->length < text->size ? text->size - text->length : 0;
    va_list args;

    va_start(args, format);
    int length = halay_vsnprintf(left ? text->at + text->length : NULL, left, format, args);
    va_end(args);
    text->length += length > 0 ? (size_t)length : 0;
}

static void print_head(struct text *text, const char *name, const char *type, const char *help)
{
    print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_errors(struct text *text, int rank, const struct halay_counters *all)
{
    print_head(text, "halay_errors_total", "counter", "Submissions that ended with an error, by status.");
    for (int i = HALAY_IN_PROGRESS + 1; i <= HALAY_ERR_FORMAT; i++)
        print(text, "halay_errors_total{rank=\"%d\",status=\"%s\"} %llu\n", rank,
              halay_status_string((enum halay_status)i), (unsigned long long)all->errors_by_status[i]);
}

static void print_gauges(struct text *text, struct halay_context *ctx)
{
    const char *name;
    double value;

    for (size_t i = 0; (name = halay_meters_gauge(ctx->meters, i, &value)); i++) {
        if (!i)
            print_head(text, "halay_program_value", "gauge", "Value set by the program (halay_gauge_set).");
        print(text, "halay_program_value{rank=\"%d\",name=\"%s\"} %.17g\n", ctx->rank, name, value);
    }
}

static void print_stragglers(struct text *text, struct halay_context *ctx)
{
    static const struct {
        size_t offset;
        const char *name, *type, *help;
    } kinds[] = {
        { offsetof(struct halay_straggler, times_last), "halay_last_arrivals_total", "counter",
          "Tensors that the rank in label arrived submitted after all others." },
        { offsetof(struct halay_straggler, late_ns), "halay_late_seconds_total", "counter",
          "Time by which it was later than the rank before it." },
        { offsetof(struct halay_straggler, latest_ns), "halay_late_seconds_max", "gauge",
          "The longest of these times." },
    };
    struct halay_straggler s;

    halay_coordinator_straggler(ctx->all.coordinator, 0, &s);
    print_head(text, "halay_arrivals_total", "counter", "Tensors that all ranks submitted.");
    print(text, "halay_arrivals_total{rank=\"0\"} %llu\n", (unsigned long long)s.tensors);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        print_head(text, kinds[k].name, kinds[k].type, kinds[k].help);
        for (int r = 0; r < ctx->size; r++) {
            uint64_t value;
            halay_coordinator_straggler(ctx->all.coordinator, r, &s);
            memcpy(&value, (const char *)&s + kinds[k].offset, sizeof value);
            print(text, "%s{rank=\"0\",arrived=\"%d\"} %.15g\n", kinds[k].name, r,
                  k ? (double)value / 1e9 : (double)value);
        }
    }
}

enum halay_status halay_counters_write(struct halay_context *ctx, char *out, size_t size, size_t *length)
{
    struct text text = { .at = out, .size = size };
    struct halay_counters all;

    if (!ctx || (!out && size))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_counters_write: no %s", ctx ? "text" : "context");
    read_tally(ctx, &all);
    for (int i = 0; i < HALAY_METERS; i++) {
        const struct halay_meter_name *m = &halay_meter_names[i];
        uint64_t value;
        memcpy(&value, (const char *)&all + offsets[i], sizeof value);
        print_head(&text, m->name, m->type, m->help);
        if (m->is_ns)
            print(&text, "%s{rank=\"%d\"} %.9f\n", m->name, ctx->rank, (double)value / 1e9);
        else
            print(&text, "%s{rank=\"%d\"} %llu\n", m->name, ctx->rank, (unsigned long long)value);
    }
    print_gauges(&text, ctx);
    print_errors(&text, ctx->rank, &all);
    if (ctx->all.coordinator)
        print_stragglers(&text, ctx);
    if (length)
        *length = text.length;
    if (text.length < size)
        return HALAY_OK;
    return halay_refuses(HALAY_ERR_ARGUMENT, "halay_counters_write: %zu bytes are too few for %zu", size,
                         text.length + 1);
}

enum halay_status halay_gauge_set(struct halay_context *ctx, const char *name, double value)
{
    if (!ctx || !name)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_gauge_set: no %s", ctx ? "name" : "context");
    pthread_mutex_lock(&ctx->lock);
    int is_set = halay_meters_set_gauge(ctx->meters, name, value);
    pthread_mutex_unlock(&ctx->lock);
    if (is_set)
        return HALAY_OK;
    return halay_refuses(
        HALAY_ERR_ARGUMENT,
        "halay_gauge_set: '%.60s' is not a name of 1 to %d letters, digits, '_', '.', '-', or %d gauges "
        "exist already",
        name, HALAY_GAUGE_NAME, HALAY_GAUGES);
}
