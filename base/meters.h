/* SPDX-License-Identifier: Apache-2.0
 *
 * Meters: what an engine counts, and what its program measures. They lie in the head of the flight recorder's file
 * (base/record.h) while there is one, so that halayrun reads them at any time, whatever the process does, and at no
 * price: counting there is what counting elsewhere would be.
 *
 * Each counter has one writer at a time, so that no locked instruction is needed: the driver (the role passes under
 * lock, which orders one driver's stores before the next one's loads), or who holds ctx->lock. Readers are any threads
 * of any process; each value is whole, the values among each other are of slightly different moments.
 */
#ifndef HALAY_BASE_METERS_H
#define HALAY_BASE_METERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HALAY_METERS_STATUSES = 32, HALAY_GAUGES = 32, HALAY_GAUGE_NAME = 47 };

struct halay_tally {
    _Atomic uint64_t submissions; /* written under ctx->lock; all others by the driver only */
    _Atomic uint64_t ended[HALAY_METERS_STATUSES];
    _Atomic uint64_t negotiations, cache_hits;
    _Atomic uint64_t collectives, fused_tensors, bytes;
    _Atomic uint64_t communication_ns; /* of the spells that are over */
    _Atomic int64_t busy_since_ns;     /* of the spell that lasts; 0: none */
    _Atomic uint64_t messages_received;
    _Atomic uint64_t sent_before; /* messages, by earlier messengers; written while there is no driver */
    _Atomic uint64_t steps, sleeps;
};

/* A number that the program says: halay_gauge_set. */
struct halay_gauge {
    char name[HALAY_GAUGE_NAME + 1]; /* terminated; set once, before the count that includes it */
    _Atomic uint64_t value;          /* a double's bits */
    uint64_t unused;
};

struct halay_meters {
    struct halay_tally tally;
    _Atomic uint64_t gauge_count; /* stored (release) under ctx->lock, loaded (acquire) */
    struct halay_gauge gauges[HALAY_GAUGES];
};

/* Relaxed: a count publishes nothing. The caller is the counter's only writer at this time. */
static inline void halay_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* A collective has started while none was under way; the last one has ended. Driver only. */
void halay_tally_busy(struct halay_tally *tally);
void halay_tally_idle(struct halay_tally *tally);

/* What a tally says of all that is over and of what lasts, by the names that Prometheus knows it by. */
enum halay_meter {
    HALAY_METER_SUBMISSIONS,
    HALAY_METER_COMPLETIONS,
    HALAY_METER_IN_FLIGHT,
    HALAY_METER_NEGOTIATIONS,
    HALAY_METER_CACHE_HITS,
    HALAY_METER_COLLECTIVES,
    HALAY_METER_FUSED_TENSORS,
    HALAY_METER_BYTES,
    HALAY_METER_COMMUNICATION_NS,
    HALAY_METER_MESSAGES_SENT, /* a tally knows those of earlier messengers only */
    HALAY_METER_MESSAGES_RECEIVED,
    HALAY_METER_STEPS,
    HALAY_METER_SLEEPS,
    HALAY_METERS
};
extern const struct halay_meter_name {
    const char *name, *type, *help;
    int is_ns; /* nanoseconds; Prometheus wants seconds */
} halay_meter_names[HALAY_METERS];

void halay_meters_read(struct halay_tally *tally, uint64_t values[HALAY_METERS]);

/* Set a gauge of that name, or make one; the caller is the only writer. 0: there are too many, or the name has none of
 * 1 to HALAY_GAUGE_NAME letters, digits, '_', '.' and '-'. */
int halay_meters_set_gauge(struct halay_meters *meters, const char *name, double value);
/* Gauge i: its name, in the meters; NULL behind the last. A damaged file's have no end, and count as none. */
const char *halay_meters_gauge(struct halay_meters *meters, size_t i, double *value);

#endif
