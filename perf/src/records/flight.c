/* SPDX-License-Identifier: Apache-2.0
 *
 * Flight: reading records and comparing ranks.
 *
 * The coordinator numbers a process set's collectives, so they have the same numbers on all ranks of the set and are
 * compared set by set and number by number, from the first one that every rank's records reach. Submissions are
 * compared by set, name and how many of that name came before. One that succeeded or was started on a rank is left to
 * the comparison of collectives, whatever the others' records say: ranks record only those submissions that have not
 * been started for some time. A rank is a member of a set if it has any record of it: members record that the set was
 * made. A rank that was replaying a plan when its records ended has none of the plan's submissions: it may have made
 * any. When a job hangs all ranks leave their plans and record what they have in flight.
 */
#include "perf/src/records/flight.h"
#include "halay_tools.h"
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

/* What a rank has done with a collective or a submission. */
enum state {
    MISSING, /* nothing */
    STARTED, /* started, or submitted */
    FINISHED,
    OTHER,  /* the same number or name for something else */
    UNKNOWN /* the rank has nothing to do with it, or its records do not tell */
};

struct comparison {
    const struct perf_flight *flights;
    size_t ranks;
    int *members;                  /* (ranks), owned: is it in the set that is compared now? */
    enum state *states;            /* (ranks), owned: of what is compared now */
    uint64_t *latest;              /* (ranks), owned: the last ordinal of a name */
    struct perf_difference *found; /* owned until handed out */
    size_t count, capacity;
    int is_out_of_memory;
};

static struct text begin_difference(struct comparison *c, int64_t time_ns)
{
    if (c->count == c->capacity) {
        size_t capacity = c->capacity ? c->capacity * 2 : 16;
        struct perf_difference *grown = realloc(c->found, capacity * sizeof *grown);
        if (!grown) {
            c->is_out_of_memory = 1;
            return (struct text){ .size = 0 };
        }
        c->found = grown;
        c->capacity = capacity;
    }
    struct perf_difference *d = &c->found[c->count++];
    *d = (struct perf_difference){ .time_ns = time_ns };
    return (struct text){ .at = d->text, .size = sizeof d->text };
}

static int compare_time(const void *a, const void *b)
{
    const struct perf_difference *x = a, *y = b;

    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* "ranks 0, 1" behind `before`, of those in that state; nothing and 0 if there is none. */
static int print_ranks(struct text *text, const struct comparison *c, enum state state, const char *before)
{
    int count = 0;

    for (size_t f = 0; f < c->ranks; f++)
        count += c->states[f] == state;
    if (!count)
        return 0;
    print(text, "%srank%s", before, count > 1 ? "s" : "");
    const char *between = " ";
    for (size_t f = 0; f < c->ranks; f++)
        if (c->states[f] == state) {
            print(text, "%s%d", between, c->flights[f].head.rank);
            between = ", ";
        }
    return 1;
}

/* As far as the records tell. */
static int is_member(const struct perf_flight *flight, int set)
{
    for (size_t i = 0; set && i < flight->count; i++)
        if (flight->records[i].set == set)
            return 1;
    return !set;
}

/* ---- collectives ---- */

/* One of them on one rank. */
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

static enum state state_of(const struct collective *of, const struct halay_record *common)
{
    if (!of->started)
        return MISSING;
    if (!is_same_collective(of->started, common))
        return OTHER;
    return of->finished ? FINISHED : STARTED;
}

static int all_are_alike(const struct comparison *c)
{
    enum state first = UNKNOWN;

    for (size_t f = 0; f < c->ranks; f++) {
        if (c->states[f] == UNKNOWN)
            continue;
        if (first == UNKNOWN)
            first = c->states[f];
        if (c->states[f] != first || c->states[f] == OTHER)
            return 0;
    }
    return 1;
}

/* The collective of one number: of[f] is that of a rank. */
static void compare_collective(struct comparison *c, const struct collective *of, uint64_t number)
{
    const struct halay_record *common = most_common(of, c->ranks);
    int64_t first_ns = INT64_MAX;

    if (!common)
        return;
    for (size_t f = 0; f < c->ranks; f++) {
        c->states[f] = c->members[f] ? state_of(&of[f], common) : UNKNOWN;
        if (of[f].started && of[f].started->time_ns < first_ns)
            first_ns = of[f].started->time_ns;
    }
    if (all_are_alike(c))
        return;
    struct text text = begin_difference(c, first_ns);
    print(&text, "collective %" PRIu64 ", ", number);
    print_collective(&text, common);
    const int has_finished = print_ranks(&text, c, FINISHED, ": finished by ");
    print_ranks(&text, c, STARTED, has_finished ? "; started and not finished by " : ": started and not finished by ");
    print_ranks(&text, c, MISSING, "; not started by ");
    for (size_t f = 0; f < c->ranks; f++)
        if (c->states[f] == OTHER) {
            print(&text, "; it is ");
            print_collective(&text, of[f].started);
            print(&text, " on rank %d", c->flights[f].head.rank);
        }
}

/* Of one set, the collectives from first on: all[number][rank]. */
static void fill_collectives(const struct comparison *c, int set, uint64_t first, uint64_t last, struct collective *all)
{
    for (size_t f = 0; f < c->ranks; f++)
        for (size_t i = 0; i < c->flights[f].count; i++) {
            const struct halay_record *r = &c->flights[f].records[i];
            if (r->set != set || r->collective < first || r->collective > last)
                continue;
            struct collective *one = &all[(r->collective - first) * c->ranks + f];
            if (r->kind == HALAY_RECORD_STARTED)
                one->started = r;
            else if (r->kind == HALAY_RECORD_FINISHED)
                one->finished = r;
        }
}

static enum halay_status compare_set(struct comparison *c, int set)
{
    uint64_t first = 1, last = 0;

    for (size_t f = 0; f < c->ranks; f++) {
        c->members[f] = is_member(&c->flights[f], set);
        if (!c->members[f])
            continue;
        uint64_t begin = first_known(&c->flights[f], set), end = last_known(&c->flights[f], set);
        first = begin > first ? begin : first;
        last = end > last ? end : last;
    }
    if (first > last)
        return HALAY_OK;
    size_t numbers = (size_t)(last - first + 1);
    struct collective *all = calloc(numbers * c->ranks, sizeof *all);
    if (!all)
        return HALAY_ERR_NO_MEMORY;
    fill_collectives(c, set, first, last, all);
    for (size_t n = 0; n < numbers; n++)
        compare_collective(c, &all[n * c->ranks], first + n);
    free(all);
    return HALAY_OK;
}

/* The lowest number of a set above `after` in any rank's records; -1: none. */
static int next_set(const struct comparison *c, int after)
{
    int next = -1;

    for (size_t f = 0; f < c->ranks; f++)
        for (size_t i = 0; i < c->flights[f].count; i++) {
            int set = c->flights[f].records[i].set;
            if (set > after && (next < 0 || set < next))
                next = set;
        }
    return next;
}

static enum halay_status compare_collectives(struct comparison *c)
{
    enum halay_status status = HALAY_OK;

    for (int set = 0; set >= 0 && status == HALAY_OK; set = next_set(c, set))
        status = compare_set(c, set);
    return status;
}

/* ---- submissions ---- */

struct submission {
    const struct halay_record *record; /* SUBMITTED or ENDED */
    size_t flight;
};

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_name(const struct submission *a, const struct submission *b)
{
    int set = order(a->record->set, b->record->set);

    return set ? set : order(a->record->hash, b->record->hash);
}

static int by_ordinal(const struct submission *a, const struct submission *b)
{
    return order(a->record->ordinal, b->record->ordinal);
}

/* By set, name, ordinal, rank and time. */
static int compare_submissions(const void *a, const void *b)
{
    int name = by_name(a, b), ordinal = by_ordinal(a, b);
    const struct submission *x = a, *y = b;

    if (name)
        return name;
    if (ordinal)
        return ordinal;
    if (x->flight != y->flight)
        return order(x->flight, y->flight);
    return order(x->record->number, y->record->number);
}

/* How many at the beginning are equal by that order. */
static size_t count_equal(const struct submission *of, size_t count,
                          int (*compare)(const struct submission *, const struct submission *))
{
    size_t equal = 1;

    while (equal < count && !compare(&of[0], &of[equal]))
        equal++;
    return equal;
}

static int64_t submitted_ns(const struct halay_record *r)
{
    return r->kind == HALAY_RECORD_SUBMITTED || !r->begin_ns ? r->time_ns : r->begin_ns;
}

static int is_same_tensor(const struct halay_record *a, const struct halay_record *b)
{
    static const char *const by_rows[] = { "allgather", "alltoall", "gather", "scatter" };
    int has_own_rows = 0;

    for (size_t i = 0; i < sizeof by_rows / sizeof *by_rows; i++)
        has_own_rows |= !strcmp(halay_record_operation(a), by_rows[i]);

    return a->operation == b->operation && a->dtype == b->dtype && a->op == b->op &&
           (a->bytes == b->bytes || has_own_rows);
}

/* Its records may no longer reach a submission that the rank made at this time. */
static int may_be_lost(const struct perf_flight *flight, int64_t time_ns)
{
    return !flight->is_whole && (!flight->count || flight->records[0].time_ns > time_ns);
}

/* Of the ranks without a record of the submission, those that may have made it become UNKNOWN. */
static void mark_absent(struct comparison *c, const struct halay_record *first, int64_t first_ns)
{
    for (size_t f = 0; f < c->ranks; f++)
        if (c->states[f] == MISSING &&
            (c->flights[f].head.plans || c->latest[f] > first->ordinal || may_be_lost(&c->flights[f], first_ns) ||
             !is_member(&c->flights[f], first->set)))
            c->states[f] = UNKNOWN;
}

static int any_is(const struct comparison *c, enum state state)
{
    for (size_t f = 0; f < c->ranks; f++)
        if (c->states[f] == state)
            return 1;
    return 0;
}

static void print_submission(struct text *text, const struct comparison *c, const struct submission *of, size_t count)
{
    const struct halay_record *first = of[0].record;
    const int others = any_is(c, OTHER);

    print(text, "tensor '%.*s'", first->name_length, first->name);
    print_set(text, first);
    print(text, ", submission %" PRIu64 ": submitted", first->ordinal);
    if (others) {
        print(text, " as ");
        print_kind(text, first);
        print(text, ", %" PRIu64 " bytes", first->bytes);
    }
    print_ranks(text, c, STARTED, " by ");
    for (size_t i = 0; others && i < count; i++)
        if (c->states[of[i].flight] == OTHER && (!i || of[i].flight != of[i - 1].flight)) {
            print(text, "; as ");
            print_kind(text, of[i].record);
            print(text, ", %" PRIu64 " bytes, by rank %d", of[i].record->bytes, c->flights[of[i].flight].head.rank);
        }
    print_ranks(text, c, MISSING, "; not by ");
}

/* One submission: all records of it, by rank. */
static void compare_submission(struct comparison *c, const struct submission *of, size_t count)
{
    const struct halay_record *first = of[0].record;
    int64_t first_ns = INT64_MAX;

    for (size_t f = 0; f < c->ranks; f++)
        c->states[f] = MISSING;
    for (size_t i = 0; i < count; i++) {
        const struct halay_record *r = of[i].record;
        if (r->kind == HALAY_RECORD_ENDED && (r->status == HALAY_OK || r->collective))
            return;
        c->states[of[i].flight] = is_same_tensor(r, first) ? STARTED : OTHER;
        if (submitted_ns(r) < first_ns)
            first_ns = submitted_ns(r);
    }
    mark_absent(c, first, first_ns);
    if (!any_is(c, MISSING) && !any_is(c, OTHER))
        return;
    struct text text = begin_difference(c, first_ns);
    print_submission(&text, c, of, count);
}

/* All submissions of one name, in order. */
static void compare_name(struct comparison *c, const struct submission *of, size_t count)
{
    memset(c->latest, 0, c->ranks * sizeof *c->latest);
    for (size_t i = 0; i < count; i++)
        c->latest[of[i].flight] = of[i].record->ordinal;
    for (size_t i = 0, equal; i < count; i += equal) {
        equal = count_equal(&of[i], count - i, by_ordinal);
        compare_submission(c, &of[i], equal);
    }
}

/* Into all, unless it is NULL; how many they are. */
static size_t collect_submissions(const struct comparison *c, struct submission *all)
{
    size_t count = 0;

    for (size_t f = 0; f < c->ranks; f++)
        for (size_t i = 0; i < c->flights[f].count; i++) {
            const struct halay_record *r = &c->flights[f].records[i];
            if (r->kind != HALAY_RECORD_SUBMITTED && r->kind != HALAY_RECORD_ENDED)
                continue;
            if (all)
                all[count] = (struct submission){ r, f };
            count++;
        }
    return count;
}

static enum halay_status compare_all_submissions(struct comparison *c)
{
    size_t count = collect_submissions(c, NULL);
    struct submission *all = malloc((count + 1) * sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    collect_submissions(c, all);
    qsort(all, count, sizeof *all, compare_submissions);
    for (size_t i = 0, equal; i < count; i += equal) {
        equal = count_equal(&all[i], count - i, by_name);
        compare_name(c, &all[i], equal);
    }
    free(all);
    return HALAY_OK;
}

enum halay_status perf_flight_compare(const struct perf_flight *flights, size_t ranks, struct perf_difference **found,
                                      size_t *count)
{
    struct comparison c = { .flights = flights,
                            .ranks = ranks,
                            .members = malloc(ranks * sizeof *c.members),
                            .states = malloc(ranks * sizeof *c.states),
                            .latest = malloc(ranks * sizeof *c.latest) };
    enum halay_status status = c.members && c.states && c.latest ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status == HALAY_OK)
        status = compare_collectives(&c);
    if (status == HALAY_OK)
        status = compare_all_submissions(&c);
    if (status == HALAY_OK && c.is_out_of_memory)
        status = HALAY_ERR_NO_MEMORY;
    free(c.latest);
    free(c.states);
    free(c.members);
    if (status != HALAY_OK) {
        free(c.found);
        return status;
    }
    if (c.count)
        qsort(c.found, c.count, sizeof *c.found, compare_time);
    *found = c.found;
    *count = c.count;
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

/* The parts of the cause, if the engine failed. */
static void print_failure(struct text *text, const struct perf_flight *flight)
{
    const char *before = "; failed: ";

    for (size_t i = 0; i < flight->count; i++) {
        const struct halay_record *r = &flight->records[i];
        if (r->kind != HALAY_RECORD_FAILED)
            continue;
        print(text, "%s%.*s", before, r->name_length, r->name);
        before = "";
    }
}

void perf_flight_last(const struct perf_flight *flight, char *out, size_t size)
{
    struct text text = { .at = out, .size = size };
    const struct halay_record *submitted = latest_of(flight, HALAY_RECORD_SUBMITTED), *wait = open_wait(flight);

    *out = 0;
    if (latest_of(flight, HALAY_RECORD_LEFT))
        print(&text, "has left");
    else if (wait && wait->name_length)
        print(&text, "waits for '%.*s'", wait->name_length, wait->name);
    else
        print(&text, wait ? "waits" : "waits for nothing");
    if (wait)
        print_set(&text, wait);
    const struct halay_record *started = latest_of(flight, HALAY_RECORD_STARTED);
    if (started && (!submitted || started->number > submitted->number)) {
        print(&text, ", started '%.*s'", started->name_length, started->name);
        if (started->count > 1)
            print(&text, " and %d more", started->count - 1);
        print_set(&text, started);
        print(&text, " last");
    } else if (submitted) {
        print(&text, ", submitted '%.*s'", submitted->name_length, submitted->name);
        print_set(&text, submitted);
        print(&text, " last");
    }
    print_failure(&text, flight);
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
