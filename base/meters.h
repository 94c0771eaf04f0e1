/* SPDX-License-Identifier: Apache-2.0
 *
 * Meters: counters of an engine, and gauges of its program. The head of the flight recorder's file (base/record.h) has
 * them, if such a file is written: halayrun reads them there at any time, without the process's help or cost.
 *
 * Each counter has one writer at a time and needs no locked instruction: the driver (the role passes under lock, which
 * orders one driver's stores before the next one's loads), or the thread that holds ctx->lock. Any thread of any
 * process may read; each value is whole, but two values may be from slightly different moments.
 */
#ifndef HALAY_BASE_METERS_H
#define HALAY_BASE_METERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { HALAY_METERS_STATUSES = 32, HALAY_GAUGES = 32, HALAY_GAUGE_NAME = 47 };

struct halay_tally {
    _Atomic uint64_t submissions;         /* written under ctx->lock; all others by the driver only */
    _Atomic uint64_t planned_submissions; /* those without the lock (fusion/replay/steady.h) */
    _Atomic uint64_t ended[HALAY_METERS_STATUSES];
    _Atomic uint64_t negotiations, cache_hits;
    _Atomic uint64_t collectives, fused_tensors, bytes;
    _Atomic uint64_t communication_ns; /* of the busy periods that have ended */
    _Atomic int64_t busy_since_ns;     /* start of the current busy period; 0: none */
    _Atomic uint64_t messages_received;
    _Atomic uint64_t sent_before; /* messages of earlier messengers; written between two drivers */
    _Atomic uint64_t steps, sleeps;
};

/* A number that the program sets: halay_gauge_set. */
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

/* Adds to a counter whose only writer is the caller. Relaxed: a count publishes nothing. */
static inline void halay_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* Begins, at a time by the clock, and ends a busy period: at least one collective is under way. Driver only. */
void halay_tally_busy(struct halay_tally *tally, int64_t now_ns);
void halay_tally_idle(struct halay_tally *tally);

/* Values of a tally under their names in Prometheus; they include what is under way. */
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
    HALAY_METER_MESSAGES_SENT, /* in a tally: those of earlier messengers only */
    HALAY_METER_MESSAGES_RECEIVED,
    HALAY_METER_STEPS,
    HALAY_METER_SLEEPS,
    HALAY_METERS
};
extern const struct halay_meter_name {
    const char *name, *type, *help;
    int is_ns; /* in nanoseconds; Prometheus uses seconds */
} halay_meter_names[HALAY_METERS];

void halay_meters_read(struct halay_tally *tally, uint64_t values[HALAY_METERS]);

/* Sets the gauge of this name, new or not; the caller is the only writer. Returns 0 if there are HALAY_GAUGES others,
 * or the name is not 1 to HALAY_GAUGE_NAME letters, digits, '_', '.' and '-'. */
int halay_meters_set_gauge(struct halay_meters *meters, const char *name, double value);
/* Returns gauge i's name, in the meters; NULL past the last, and for a damaged one. */
const char *halay_meters_gauge(struct halay_meters *meters, size_t i, double *value);

#endif
