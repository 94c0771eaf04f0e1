/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: what the engine has done, as a struct and as the text that Prometheus reads. Counting itself is in
 * counters.h.
 *
 * One table says what there is: where a value lies in the public struct, its name and its help; the text is made from
 * it. Times are nanoseconds in the struct and seconds in the text, as is usual there.
 */
#include "fusion/values/counters.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "base/struct_size.h"
#include "fusion/coordinator/stragglers.h"
#include "fusion/rank/messenger.h"
#include "fusion/state/context.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- as a struct ---- */

static uint64_t load_counter(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t communication_ns(struct halay_tally *tally)
{
    int64_t since = atomic_load_explicit(&tally->busy_since_ns, memory_order_relaxed), now = halay_now_ns();

    return load_counter(&tally->communication_ns) + (since && now > since ? (uint64_t)(now - since) : 0);
}

static void read_tally(struct halay_context *ctx, struct halay_counters *all)
{
    struct halay_tally *tally = &ctx->observers.tally;

    *all = (struct halay_counters){ .submissions = load_counter(&tally->submissions),
                                    .completions = load_counter(&tally->ended[HALAY_OK]),
                                    .in_flight = atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed),
                                    .negotiations = load_counter(&tally->negotiations),
                                    .cache_hits = load_counter(&tally->cache_hits),
                                    .collectives = load_counter(&tally->collectives),
                                    .fused_tensors = load_counter(&tally->fused_tensors),
                                    .bytes = load_counter(&tally->bytes),
                                    .communication_ns = communication_ns(tally),
                                    .messages_sent = load_counter(&tally->sent_before) +
                                                     (ctx->driven.negotiation.messenger
                                                          ? halay_messenger_sent(ctx->driven.negotiation.messenger)
                                                          : 0),
                                    .messages_received = load_counter(&tally->messages_received),
                                    .steps = load_counter(&tally->steps),
                                    .sleeps = load_counter(&tally->sleeps) };
    for (int i = HALAY_IN_PROGRESS + 1; i < HALAY_COUNTERS_STATUSES; i++) {
        all->errors_by_status[i] = load_counter(&tally->ended[i]);
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
    if (!ctx->driven.negotiation.coordinator)
        return halay_refuses(HALAY_ERR_UNSUPPORTED, "halay_stragglers_read: rank 0 alone sees the others come");
    halay_coordinator_straggler(ctx->driven.negotiation.coordinator, rank, &all);
    halay_struct_write(&all, sizeof all, straggler);
    return HALAY_OK;
}

/* ---- as text ---- */

static const struct sample {
    size_t offset; /* in struct halay_counters */
    const char *name, *type, *help;
    int is_ns;
} samples[] = {
#define VALUE(member) offsetof(struct halay_counters, member)
    { VALUE(submissions), "halay_submissions_total", "counter", "Tensors submitted.", 0 },
    { VALUE(completions), "halay_completions_total", "counter", "Submissions that ended well.", 0 },
    { VALUE(in_flight), "halay_in_flight", "gauge", "Submissions that have not ended.", 0 },
    { VALUE(negotiations), "halay_negotiations_total", "counter", "Submissions told to the other ranks by name.", 0 },
    { VALUE(cache_hits), "halay_ids_hits_total", "counter", "Submissions told by an agreed number.", 0 },
    { VALUE(collectives), "halay_collectives_total", "counter", "Collectives started, each of one tensor or several.",
      0 },
    { VALUE(fused_tensors), "halay_fused_tensors_total", "counter", "Tensors that shared a collective with others.",
      0 },
    { VALUE(bytes), "halay_bytes_total", "counter", "Bytes of these tensors, of sends and receives.", 0 },
    { VALUE(communication_ns), "halay_communication_seconds_total", "counter", "Time with a collective under way.", 1 },
    { VALUE(messages_sent), "halay_messages_sent_total", "counter", "Control messages sent.", 0 },
    { VALUE(messages_received), "halay_messages_received_total", "counter", "Control messages received.", 0 },
    { VALUE(steps), "halay_steps_total", "counter", "Times that the engine looked for something to do.", 0 },
    { VALUE(sleeps), "halay_sleeps_total", "counter", "Times that the engine went to sleep.", 0 },
};

/* Text written into the caller's memory; what does not fit is only counted. */
struct text {
    char *at;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format, ...)
{
    size_t left = text->length < text->size ? text->size - text->length : 0;
    va_list args;

    va_start(args, format);
    int length = vsnprintf(left ? text->at + text->length : NULL, left, format, args);
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

    halay_coordinator_straggler(ctx->driven.negotiation.coordinator, 0, &s);
    print_head(text, "halay_arrivals_total", "counter", "Tensors that all ranks submitted.");
    print(text, "halay_arrivals_total{rank=\"0\"} %llu\n", (unsigned long long)s.tensors);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        print_head(text, kinds[k].name, kinds[k].type, kinds[k].help);
        for (int r = 0; r < ctx->size; r++) {
            uint64_t value;
            halay_coordinator_straggler(ctx->driven.negotiation.coordinator, r, &s);
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
    for (const struct sample *s = samples; s < samples + sizeof samples / sizeof *samples; s++) {
        uint64_t value;
        memcpy(&value, (const char *)&all + s->offset, sizeof value);
        print_head(&text, s->name, s->type, s->help);
        if (s->is_ns)
            print(&text, "%s{rank=\"%d\"} %.9f\n", s->name, ctx->rank, (double)value / 1e9);
        else
            print(&text, "%s{rank=\"%d\"} %llu\n", s->name, ctx->rank, (unsigned long long)value);
    }
    print_errors(&text, ctx->rank, &all);
    if (ctx->driven.negotiation.coordinator)
        print_stragglers(&text, ctx);
    if (length)
        *length = text.length;
    if (text.length < size)
        return HALAY_OK;
    return halay_refuses(HALAY_ERR_ARGUMENT, "halay_counters_write: %zu bytes are too few for %zu", size,
                         text.length + 1);
}
