/* SPDX-License-Identifier: Apache-2.0
 *
 * Meters: busy periods, the names of the counters, and gauges. A gauge is found by a linear search: there are few, and
 * a program sets them once a step.
 */
#include "base/meters.h"
#include "base/clock.h"
#include <string.h>

const struct halay_meter_name halay_meter_names[HALAY_METERS] = {
    [HALAY_METER_SUBMISSIONS] = { "halay_submissions_total", "counter", "Tensors submitted.", 0 },
    [HALAY_METER_COMPLETIONS] = { "halay_completions_total", "counter", "Submissions that ended well.", 0 },
    [HALAY_METER_IN_FLIGHT] = { "halay_in_flight", "gauge", "Submissions that have not ended.", 0 },
    [HALAY_METER_NEGOTIATIONS] = { "halay_negotiations_total", "counter",
                                   "Submissions announced to the other ranks by name.", 0 },
    [HALAY_METER_CACHE_HITS] = { "halay_ids_hits_total", "counter", "Submissions announced by an agreed number.", 0 },
    [HALAY_METER_COLLECTIVES] = { "halay_collectives_total", "counter",
                                  "Collectives started, each of one tensor or several.", 0 },
    [HALAY_METER_FUSED_TENSORS] = { "halay_fused_tensors_total", "counter",
                                    "Tensors that shared a collective with others.", 0 },
    [HALAY_METER_BYTES] = { "halay_bytes_total", "counter", "Bytes of these tensors, of sends and receives.", 0 },
    [HALAY_METER_COMMUNICATION_NS] = { "halay_communication_seconds_total", "counter",
                                       "Time with a collective under way.", 1 },
    [HALAY_METER_MESSAGES_SENT] = { "halay_messages_sent_total", "counter", "Control messages sent.", 0 },
    [HALAY_METER_MESSAGES_RECEIVED] = { "halay_messages_received_total", "counter", "Control messages received.", 0 },
    [HALAY_METER_STEPS] = { "halay_steps_total", "counter", "Times that the engine looked for something to do.", 0 },
    [HALAY_METER_SLEEPS] = { "halay_sleeps_total", "counter", "Times that the engine went to sleep.", 0 },
};

void halay_tally_busy(struct halay_tally *tally, int64_t now_ns)
{
    atomic_store_explicit(&tally->busy_since_ns, now_ns, memory_order_relaxed);
}

void halay_tally_idle(struct halay_tally *tally)
{
    int64_t since = atomic_load_explicit(&tally->busy_since_ns, memory_order_relaxed);

    if (!since)
        return;
    halay_count(&tally->communication_ns, (uint64_t)(halay_now_ns() - since));
    atomic_store_explicit(&tally->busy_since_ns, 0, memory_order_relaxed);
}

static uint64_t load(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static uint64_t communication_ns(struct halay_tally *tally)
{
    int64_t since = atomic_load_explicit(&tally->busy_since_ns, memory_order_relaxed), now = halay_now_ns();

    return load(&tally->communication_ns) + (since && now > since ? (uint64_t)(now - since) : 0);
}

void halay_meters_read(struct halay_tally *tally, uint64_t values[HALAY_METERS])
{
    uint64_t ended = 0, submitted;

    for (int i = 0; i < HALAY_METERS_STATUSES; i++)
        ended += load(&tally->ended[i]);
    submitted = load(&tally->submissions) + load(&tally->planned_submissions);
    values[HALAY_METER_SUBMISSIONS] = submitted;
    values[HALAY_METER_COMPLETIONS] = load(&tally->ended[0]);
    values[HALAY_METER_IN_FLIGHT] = submitted > ended ? submitted - ended : 0;
    values[HALAY_METER_NEGOTIATIONS] = load(&tally->negotiations);
    values[HALAY_METER_CACHE_HITS] = load(&tally->cache_hits);
    values[HALAY_METER_COLLECTIVES] = load(&tally->collectives);
    values[HALAY_METER_FUSED_TENSORS] = load(&tally->fused_tensors);
    values[HALAY_METER_BYTES] = load(&tally->bytes);
    values[HALAY_METER_COMMUNICATION_NS] = communication_ns(tally);
    values[HALAY_METER_MESSAGES_SENT] = load(&tally->sent_before);
    values[HALAY_METER_MESSAGES_RECEIVED] = load(&tally->messages_received);
    values[HALAY_METER_STEPS] = load(&tally->steps);
    values[HALAY_METER_SLEEPS] = load(&tally->sleeps);
}

static size_t count_of(struct halay_meters *meters)
{
    uint64_t count = atomic_load_explicit(&meters->gauge_count, memory_order_acquire);

    return count <= HALAY_GAUGES ? (size_t)count : 0;
}

static int is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    size_t length = strspn(name, letters);

    return length > 0 && length <= HALAY_GAUGE_NAME && !name[length];
}

int halay_meters_set_gauge(struct halay_meters *meters, const char *name, double value)
{
    size_t count = count_of(meters), i = 0;
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    while (i < count && strcmp(meters->gauges[i].name, name) != 0)
        i++;
    if (i == HALAY_GAUGES || !is_name(name))
        return 0;
    atomic_store_explicit(&meters->gauges[i].value, bits, memory_order_relaxed);
    if (i < count)
        return 1;
    memcpy(meters->gauges[i].name, name, strlen(name) + 1);
    atomic_store_explicit(&meters->gauge_count, count + 1, memory_order_release);
    return 1;
}

const char *halay_meters_gauge(struct halay_meters *meters, size_t i, double *value)
{
    uint64_t bits;

    if (i >= count_of(meters) || !memchr(meters->gauges[i].name, 0, sizeof meters->gauges[i].name) ||
        !is_name(meters->gauges[i].name))
        return NULL;
    bits = atomic_load_explicit(&meters->gauges[i].value, memory_order_relaxed);
    memcpy(value, &bits, sizeof *value);
    return meters->gauges[i].name;
}
