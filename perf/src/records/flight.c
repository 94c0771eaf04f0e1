/* SPDX-License-Identifier: Apache-2.0
 *
 * Flight: reading records and comparing ranks.
 *
 * Collectives of a process set have the same numbers on all its ranks, because the coordinator gives them out in one
 * order: so they are compared set by set and number by number, from the first one that every rank's records reach.
 * Submissions are compared by set, name and by how many of that name there were before. A submission that ended well on
 * one rank was made by all, whatever their records say. Who is in a set is seen in the records: each member has one of
 * its making, and who has none of the set at all counts as no member.
 */
#include "perf/src/records/flight.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

enum halay_status perf_flight_read(struct halay_log *log, const char *path, struct perf_flight *flight)
{
    struct halay_ring *ring;
    enum halay_status status = halay_ring_open(log, path, &ring);

    if (status != HALAY_OK)
        return status;
    *flight = (struct perf_flight){ .head = *halay_ring_head(ring) };
    uint64_t last = halay_ring_begun(ring), first = last > flight->head.capacity ? last - flight->head.capacity + 1 : 1;
    flight->is_whole = first == 1;
    flight->records = malloc((last - first + 2) * sizeof *flight->records);
    for (uint64_t number = first; flight->records && number <= last; number++)
        flight->count += (size_t)halay_ring_get(ring, number, &flight->records[flight->count]);
    halay_ring_destroy(ring);
    return flight->records ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

void perf_flight_fini(struct perf_flight *flight)
{
    free(flight->records);
    flight->records = NULL;
    flight->count = 0;
}

void perf_flight_align(struct perf_flight *flights, size_t count)
{
    int is_one_clock = 1;

    for (size_t f = 1; f < count; f++)
        is_one_clock &= !strcmp(flights[f].head.boot_id, flights[0].head.boot_id);
    for (size_t f = 0; !is_one_clock && f < count; f++)
        for (size_t i = 0; i < flights[f].count; i++) {
            struct halay_record *r = &flights[f].records[i];
            r->time_ns += flights[f].head.wall_ns;
            r->begin_ns += r->begin_ns ? flights[f].head.wall_ns : 0;
            r->start_ns += r->start_ns ? flights[f].head.wall_ns : 0;
        }
}

/* ---- words ---- */

struct text {
    char *at;
    size_t size, length;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *text, const char *format, ...)
{
    va_list args;

    if (text->length >= text->size)
        return;
    va_start(args, format);
    int length = vsnprintf(text->at + text->length, text->size - text->length, format, args);
    va_end(args);
    text->length += length > 0 ? (size_t)length : 0;
}

/* "ranks 0, 1" of those whose state is `state`; nothing and 0 if there is none. */
static int print_ranks(struct text *text, const struct perf_flight *flights, const unsigned char *states, size_t ranks,
                       unsigned char state, const char *before)
{
    int count = 0, more = 0;

    for (size_t f = 0; f < ranks; f++)
        count += states[f] == state;
    if (!count)
        return 0;
    print(text, "%srank%s", before, count > 1 ? "s" : "");
    for (size_t f = 0; f < ranks; f++)
        if (states[f] == state)
            print(text, "%s%d", more++ ? ", " : " ", flights[f].head.rank);
    return 1;
}

static void print_set(struct text *text, const struct halay_record *r)
{
    if (r->set)
        print(text, " of process set %d", r->set);
}

static void print_kind(struct text *text, const struct halay_record *r)
{
    print(text, "%s of %s", halay_record_operation(r), halay_dtype_name((enum halay_dtype)r->dtype));
}

/* ---- differences ---- */

struct findings {
    struct perf_difference *found; /* owned until handed out */
    size_t count, capacity;
    int out_of_memory;
};

static struct text begin_finding(struct findings *findings, int64_t time_ns)
{
    static char nowhere[1];

    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity ? findings->capacity * 2 : 16;
        struct perf_difference *grown = realloc(findings->found, capacity * sizeof *grown);
        if (!grown) {
            findings->out_of_memory = 1;
            return (struct text){ .at = nowhere, .size = 0 };
        }
        findings->found = grown;
        findings->capacity = capacity;
    }
    struct perf_difference *d = &findings->found[findings->count++];
    *d = (struct perf_difference){ .time_ns = time_ns };
    return (struct text){ .at = d->text, .size = sizeof d->text };
}

static int compare_time(const void *a, const void *b)
{
    const struct perf_difference *x = a, *y = b;

    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

enum { MISSING = 0, STARTED, FINISHED, OTHER, FOREIGN }; /* FOREIGN: no member of the set */

/* ---- collectives ---- */

struct collective {
    const struct halay_record *started, *finished;
};

/* One more than the collectives that a rank's records may have lost, and the last one that they have. */
static uint64_t first_known(const struct perf_flight *flight, int set)
{
    if (flight->is_whole)
        return 1;
    for (size_t i = 0; i < flight->count; i++)
        if (flight->records[i].kind == HALAY_RECORD_STARTED && flight->records[i].set == set)
            return flight->records[i].collective;
    return UINT64_MAX;
}

static uint64_t last_known(const struct perf_flight *flight, int set)
{
    for (size_t i = flight->count; i > 0; i--)
        if (flight->records[i - 1].kind == HALAY_RECORD_STARTED && flight->records[i - 1].set == set)
            return flight->records[i - 1].collective;
    return 0;
}

/* As far as the records tell. */
static int is_member(const struct perf_flight *flight, int set)
{
    for (size_t i = 0; set && i < flight->count; i++)
        if (flight->records[i].set == set)
            return 1;
    return !set;
}

static int is_same_collective(const struct halay_record *a, const struct halay_record *b)
{
    return a->hash == b->hash && a->count == b->count && a->operation == b->operation && a->dtype == b->dtype &&
           a->op == b->op;
}

/* The one that most ranks have started; the lowest rank's among equals. NULL: nobody. */
static const struct halay_record *most_common(const struct collective *of, size_t ranks)
{
    const struct halay_record *best = NULL;
    size_t best_count = 0;

    for (size_t f = 0; f < ranks; f++) {
        size_t count = 0;
        for (size_t g = 0; of[f].started && g < ranks; g++)
            count += of[g].started && is_same_collective(of[f].started, of[g].started);
        if (count > best_count) {
            best = of[f].started;
            best_count = count;
        }
    }
    return best;
}

static void print_collective(struct text *text, const struct halay_record *r)
{
    print(text, "'%.*s'", r->name_length, r->name);
    if (r->count > 1)
        print(text, " and %d more", r->count - 1);
    print_set(text, r);
    print(text, " (");
    print_kind(text, r);
    print(text, ")");
}

/* Compare the collective of one number; states is scratch for a byte a rank, members says who takes part. */
static void compare_collective(const struct perf_flight *flights, const struct collective *of, size_t ranks,
                               uint64_t number, const unsigned char *members, unsigned char *states,
                               struct findings *findings)
{
    int first_state = -1;
    const struct halay_record *common = most_common(of, ranks);
    int64_t first_ns = INT64_MAX;
    int differ = 0, others = 0;

    if (!common)
        return;
    for (size_t f = 0; f < ranks; f++) {
        states[f] = !of[f].started ? MISSING : of[f].finished ? FINISHED : STARTED;
        if (of[f].started && !is_same_collective(of[f].started, common)) {
            states[f] = OTHER;
            others = 1;
        }
        if (of[f].started && of[f].started->time_ns < first_ns)
            first_ns = of[f].started->time_ns;
        if (!members[f])
            states[f] = FOREIGN;
        else if (first_state < 0)
            first_state = states[f];
        differ |= members[f] && (states[f] != first_state || states[f] == OTHER);
    }
    if (!differ)
        return;
    struct text text = begin_finding(findings, first_ns);
    print(&text, "collective %" PRIu64 ", ", number);
    print_collective(&text, common);
    const char *before = ": finished by ";
    if (print_ranks(&text, flights, states, ranks, FINISHED, before))
        before = "; started and not finished by ";
    else
        before = ": started and not finished by ";
    if (print_ranks(&text, flights, states, ranks, STARTED, before) || *before == ';')
        before = "; not started by ";
    print_ranks(&text, flights, states, ranks, MISSING, before);
    for (size_t f = 0; others && f < ranks; f++)
        if (states[f] == OTHER) {
            print(&text, "; it is ");
            print_collective(&text, of[f].started);
            print(&text, " on rank %d", flights[f].head.rank);
        }
}

/* The collectives of one set. members, states: scratch for a byte a rank. */
static enum halay_status compare_set(const struct perf_flight *flights, size_t ranks, int set, unsigned char *members,
                                     unsigned char *states, struct findings *findings)
{
    uint64_t first = 1, last = 0;

    for (size_t f = 0; f < ranks; f++) {
        members[f] = (unsigned char)is_member(&flights[f], set);
        if (!members[f])
            continue;
        uint64_t begin = first_known(&flights[f], set), end = last_known(&flights[f], set);
        first = begin > first ? begin : first;
        last = end > last ? end : last;
    }
    if (first > last)
        return HALAY_OK;
    size_t numbers = (size_t)(last - first + 1);
    struct collective *all = calloc(numbers * ranks, sizeof *all);
    if (!all)
        return HALAY_ERR_NO_MEMORY;
    for (size_t f = 0; f < ranks; f++)
        for (size_t i = 0; i < flights[f].count; i++) {
            const struct halay_record *r = &flights[f].records[i];
            if (r->set != set || r->collective < first || r->collective > last)
                continue;
            struct collective *c = &all[(r->collective - first) * ranks + f];
            if (r->kind == HALAY_RECORD_STARTED)
                c->started = r;
            else if (r->kind == HALAY_RECORD_FINISHED)
                c->finished = r;
        }
    for (size_t n = 0; n < numbers; n++)
        compare_collective(flights, &all[n * ranks], ranks, first + n, members, states, findings);
    free(all);
    return HALAY_OK;
}

/* The lowest number of a set above `after` in any rank's records; -1: none. */
static int next_set(const struct perf_flight *flights, size_t ranks, int after)
{
    int next = -1;

    for (size_t f = 0; f < ranks; f++)
        for (size_t i = 0; i < flights[f].count; i++) {
            int set = flights[f].records[i].set;
            if (set > after && (next < 0 || set < next))
                next = set;
        }
    return next;
}

static enum halay_status compare_collectives(const struct perf_flight *flights, size_t ranks, struct findings *findings)
{
    unsigned char *members = malloc(2 * ranks);
    enum halay_status status = members ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    for (int set = 0; set >= 0 && status == HALAY_OK; set = next_set(flights, ranks, set))
        status = compare_set(flights, ranks, set, members, members + ranks, findings);
    free(members);
    return status;
}

/* ---- submissions ---- */

struct submission {
    const struct halay_record *record; /* SUBMITTED or ENDED */
    size_t flight;
};

static int compare_submissions(const void *a, const void *b)
{
    const struct submission *x = a, *y = b;

    if (x->record->set != y->record->set)
        return x->record->set < y->record->set ? -1 : 1;
    if (x->record->hash != y->record->hash)
        return x->record->hash < y->record->hash ? -1 : 1;
    if (x->record->ordinal != y->record->ordinal)
        return x->record->ordinal < y->record->ordinal ? -1 : 1;
    if (x->flight != y->flight)
        return x->flight < y->flight ? -1 : 1;
    return x->record->number < y->record->number ? -1 : x->record->number > y->record->number;
}

static int64_t submitted_ns(const struct halay_record *r)
{
    return r->kind == HALAY_RECORD_SUBMITTED || !r->begin_ns ? r->time_ns : r->begin_ns;
}

static int is_same_tensor(const struct halay_record *a, const struct halay_record *b)
{
    int has_own_rows =
        !strcmp(halay_record_operation(a), "allgather") || !strcmp(halay_record_operation(a), "alltoall");

    return a->operation == b->operation && a->dtype == b->dtype && a->op == b->op &&
           (a->bytes == b->bytes || has_own_rows);
}

/* The rank may have made a submission at this time that its records don't reach any more. */
static int may_be_lost(const struct perf_flight *flight, int64_t time_ns)
{
    return !flight->is_whole && (!flight->count || flight->records[0].time_ns > time_ns);
}

/* One submission: all records of it, by rank. latest[f]: the last ordinal of that name on the rank. */
static void compare_submission(const struct perf_flight *flights, const struct submission *of, size_t count,
                               size_t ranks, const uint64_t *latest, unsigned char *states, struct findings *findings)
{
    const struct halay_record *first = of[0].record;
    int64_t first_ns = INT64_MAX;
    int missing = 0, others = 0;

    memset(states, MISSING, ranks);
    for (size_t i = 0; i < count; i++) {
        const struct halay_record *r = of[i].record;
        if (r->kind == HALAY_RECORD_ENDED && r->status == HALAY_OK)
            return; /* all ranks were there */
        states[of[i].flight] = is_same_tensor(r, first) ? STARTED : OTHER;
        others |= states[of[i].flight] == OTHER;
        if (submitted_ns(r) < first_ns)
            first_ns = submitted_ns(r);
    }
    for (size_t f = 0; f < ranks; f++)
        if (states[f] == MISSING) {
            if (latest[f] > first->ordinal || may_be_lost(&flights[f], first_ns) || !is_member(&flights[f], first->set))
                states[f] = FINISHED; /* it was there, or nobody can know */
            else
                missing = 1;
        }
    if (!missing && !others)
        return;
    struct text text = begin_finding(findings, first_ns);
    print(&text, "tensor '%.*s'", first->name_length, first->name);
    print_set(&text, first);
    print(&text, ", submission %" PRIu64 ": submitted", first->ordinal);
    if (others) {
        print(&text, " as ");
        print_kind(&text, first);
        print(&text, ", %" PRIu64 " bytes", first->bytes);
    }
    print_ranks(&text, flights, states, ranks, STARTED, " by ");
    for (size_t i = 0; others && i < count; i++)
        if (states[of[i].flight] == OTHER && (!i || of[i].flight != of[i - 1].flight)) {
            print(&text, "; as ");
            print_kind(&text, of[i].record);
            print(&text, ", %" PRIu64 " bytes, by rank %d", of[i].record->bytes, flights[of[i].flight].head.rank);
        }
    print_ranks(&text, flights, states, ranks, MISSING, "; not by ");
}

static size_t collect_submissions(const struct perf_flight *flights, size_t ranks, struct submission *all)
{
    size_t count = 0;

    for (size_t f = 0; f < ranks; f++)
        for (size_t i = 0; i < flights[f].count; i++) {
            const struct halay_record *r = &flights[f].records[i];
            if (r->kind != HALAY_RECORD_SUBMITTED && r->kind != HALAY_RECORD_ENDED)
                continue;
            if (all)
                all[count] = (struct submission){ r, f };
            count++;
        }
    return count;
}

static enum halay_status compare_all_submissions(const struct perf_flight *flights, size_t ranks,
                                                 struct findings *findings)
{
    size_t count = collect_submissions(flights, ranks, NULL);
    struct submission *all = malloc((count + 1) * sizeof *all);
    uint64_t *latest = malloc(ranks * sizeof *latest);
    unsigned char *states = malloc(ranks);
    enum halay_status status = all && latest && states ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status == HALAY_OK) {
        collect_submissions(flights, ranks, all);
        qsort(all, count, sizeof *all, compare_submissions);
        for (size_t i = 0, name_end = 0, end; i < count; i = end) {
            if (i == name_end) { /* the next name */
                memset(latest, 0, ranks * sizeof *latest);
                for (; name_end < count && all[name_end].record->hash == all[i].record->hash &&
                       all[name_end].record->set == all[i].record->set;
                     name_end++)
                    latest[all[name_end].flight] = all[name_end].record->ordinal;
            }
            for (end = i; end < name_end && all[end].record->ordinal == all[i].record->ordinal;)
                end++;
            compare_submission(flights, &all[i], end - i, ranks, latest, states, findings);
        }
    }
    free(states);
    free(latest);
    free(all);
    return status;
}

enum halay_status perf_flight_compare(const struct perf_flight *flights, size_t ranks, struct perf_difference **found,
                                      size_t *count)
{
    struct findings findings = { 0 };
    enum halay_status status = compare_collectives(flights, ranks, &findings);

    if (status == HALAY_OK)
        status = compare_all_submissions(flights, ranks, &findings);
    if (status == HALAY_OK && findings.out_of_memory)
        status = HALAY_ERR_NO_MEMORY;
    if (status != HALAY_OK) {
        free(findings.found);
        return status;
    }
    if (findings.count)
        qsort(findings.found, findings.count, sizeof *findings.found, compare_time);
    *found = findings.found;
    *count = findings.count;
    return HALAY_OK;
}

/* ---- one rank ---- */

/* The latest record of a kind, NULL: none. */
static const struct halay_record *latest_of(const struct perf_flight *flight, enum halay_record_kind kind)
{
    for (size_t i = flight->count; i > 0; i--)
        if (flight->records[i - 1].kind == kind)
            return &flight->records[i - 1];
    return NULL;
}

/* A wait that no WAITED follows. */
static const struct halay_record *open_wait(const struct perf_flight *flight)
{
    for (size_t i = flight->count; i > 0; i--) {
        const struct halay_record *r = &flight->records[i - 1];
        int is_over = 0;
        if (r->kind != HALAY_RECORD_WAITS)
            continue;
        for (size_t k = i; k < flight->count && !is_over; k++)
            is_over = flight->records[k].kind == HALAY_RECORD_WAITED && flight->records[k].begin_ns == r->time_ns;
        return is_over ? NULL : r;
    }
    return NULL;
}

void perf_flight_last(const struct perf_flight *flight, char *out, size_t size)
{
    struct text text = { .at = out, .size = size };
    const struct halay_record *submitted = latest_of(flight, HALAY_RECORD_SUBMITTED), *wait = open_wait(flight),
                              *failed = latest_of(flight, HALAY_RECORD_FAILED);

    *out = 0;
    if (latest_of(flight, HALAY_RECORD_LEFT))
        print(&text, "has left");
    else if (wait && wait->name_length)
        print(&text, "waits for '%.*s'", wait->name_length, wait->name);
    else
        print(&text, wait ? "waits" : "waits for nothing");
    if (wait)
        print_set(&text, wait);
    if (submitted) {
        print(&text, ", submitted '%.*s'", submitted->name_length, submitted->name);
        print_set(&text, submitted);
        print(&text, " last");
    }
    if (failed)
        print(&text, "; failed: %.*s", failed->name_length, failed->name);
}

void perf_flight_print(const struct halay_record *r, int64_t origin_ns, FILE *out)
{
    static const char *const kinds[HALAY_RECORD_KINDS] = { "?",        "joined", "submitted", "started",
                                                           "finished", "ended",  "waits",     "waited",
                                                           "slept",    "failed", "left",      "set" };

    fprintf(out, "%12.6f %-9s", (double)(r->time_ns - origin_ns) / 1e9, kinds[r->kind]);
    if (r->name_length)
        fprintf(out, " '%.*s'", r->name_length, r->name);
    if (r->count > 1)
        fprintf(out, " and %d more", r->count - 1);
    if (r->set)
        fprintf(out, " of process set %d", r->set);
    if (r->ordinal)
        fprintf(out, " submission %" PRIu64, r->ordinal);
    if (r->collective)
        fprintf(out, " collective %" PRIu64, r->collective);
    if (r->count)
        fprintf(out, " %s %s %" PRIu64 " bytes", halay_record_operation(r),
                halay_dtype_name((enum halay_dtype)r->dtype), r->bytes);
    if (r->begin_ns)
        fprintf(out, " after %.6f s", (double)(r->time_ns - r->begin_ns) / 1e9);
    if (r->status)
        fprintf(out, ": %s", halay_status_string((enum halay_status)r->status));
    fputc('\n', out);
}
