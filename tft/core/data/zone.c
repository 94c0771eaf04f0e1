/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone: a sorted table of changes, in which a moment is looked up.
 *
 * The rule that follows the last change is written out for 400 years, after which the calendar repeats itself, weekdays
 * included; a moment beyond them is moved back by whole cycles. glibc's own functions know one zone for the whole
 * process, which is not a library's to set.
 */
#include "tft/core/data/zone.h"
#include "tft/core/data/calendar.h"
#include <stdlib.h>

/* No clock is further from UTC than this. */
enum { FARTHEST = 26 * 3600, CYCLE_YEARS = 400, CHANGES_MOST = 10000 };
static const int64_t cycle = 146097 * (int64_t)86400; /* of 400 years */

struct change {
    int64_t at;
    int offset;
};

struct tft_zone {
    size_t count;           /* at least 1 */
    struct change *changes; /* owned: (count) in order; the first is before all time */
    int64_t end;            /* moments from here on are moved back by whole cycles */
};

/* Reads the pairs of the document; 0: they are malformed. */
static int take_changes(const json_t *document, struct tft_zone *z)
{
    const json_t *offset = json_object_get(document, "offset"), *pairs = json_object_get(document, "changes");
    size_t n = json_array_size(pairs);

    if (!json_is_integer(offset) || !json_is_array(pairs) || n % 2)
        return 0;
    z->changes[0] = (struct change){ INT64_MIN, (int)json_integer_value(offset) };
    z->count = 1;
    for (size_t i = 0; i < n; i += 2) {
        const json_t *at = json_array_get(pairs, i), *to = json_array_get(pairs, i + 1);
        if (!json_is_integer(at) || !json_is_integer(to) || json_integer_value(at) <= z->changes[z->count - 1].at ||
            json_integer_value(at) > (json_int_t)1 << 40 || llabs(json_integer_value(to)) > FARTHEST)
            return 0;
        z->changes[z->count++] = (struct change){ json_integer_value(at), (int)json_integer_value(to) };
    }
    return llabs(json_integer_value(offset)) <= FARTHEST;
}

static void add_change(struct tft_zone *z, int64_t at, int offset, int64_t after)
{
    if (at > after)
        z->changes[z->count++] = (struct change){ at, offset };
}

/* Writes out the rule. Where summer time ends as the next one begins, it continues. */
static void take_rule(const struct tft_zone_rule *rule, struct tft_zone *z)
{
    int64_t last = z->changes[z->count - 1].at, begin, end;
    struct tft_date date = { .year = 1900 };

    if (z->count > 1)
        tft_time_to_date(last, &date);
    for (int year = date.year; year <= date.year + CYCLE_YEARS + 2; year++) {
        tft_zone_rule_year(rule, year, &begin, &end);
        if (end <= begin)
            add_change(z, end, rule->standard, last);
        add_change(z, begin, rule->summer, last);
        if (end > begin)
            add_change(z, end, rule->standard, last);
    }
    z->end = tft_time_from_date(date.year + CYCLE_YEARS + 1, 1, 1, 0, 0, 0);
}

enum halay_status tft_zone_create(struct halay_log *log, const char *where, const json_t *document,
                                  struct tft_zone **zone)
{
    const json_t *then = json_object_get(document, "then");
    size_t pairs = json_array_size(json_object_get(document, "changes")) / 2;
    struct tft_zone_rule rule = { 0 };
    struct tft_zone *z = calloc(1, sizeof *z);

    if (z && pairs <= CHANGES_MOST)
        z->changes = calloc(pairs + 1 + 2 * (CYCLE_YEARS + 3), sizeof *z->changes);
    if (!z || (!z->changes && pairs <= CHANGES_MOST)) {
        halay_error(log, "no memory for a time zone");
        tft_zone_destroy(z);
        return HALAY_ERR_NO_MEMORY;
    }
    z->end = INT64_MAX;
    if (pairs > CHANGES_MOST || !take_changes(document, z) ||
        (then && (!json_is_string(then) || tft_zone_rule_parse(json_string_value(then), &rule)))) {
        halay_error(log, "%s: the time zone is neither a name like Europe/Berlin nor what 'prepare' makes of one",
                    where);
        tft_zone_destroy(z);
        return HALAY_ERR_CONFIG;
    }
    if (rule.changes)
        take_rule(&rule, z);
    *zone = z;
    return HALAY_OK;
}

void tft_zone_destroy(struct tft_zone *zone)
{
    if (zone)
        free(zone->changes);
    free(zone);
}

/* Returns the last change that is not after a moment. */
static size_t find_change(const struct tft_zone *z, int64_t utc)
{
    size_t low = 0, high = z->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (z->changes[middle].at <= utc)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns how far a time is moved back to be one of the table. */
static int64_t move_back(const struct tft_zone *z, int64_t time)
{
    return time < z->end ? 0 : ((time - z->end) / cycle + 1) * cycle;
}

int tft_zone_offset(const struct tft_zone *zone, int64_t utc)
{
    return zone->changes[find_change(zone, utc - move_back(zone, utc))].offset;
}

size_t tft_zone_moments(const struct tft_zone *zone, int64_t shown, int64_t utc[2])
{
    int64_t back = move_back(zone, shown), time = shown - back;
    size_t n = 0;

    for (size_t i = find_change(zone, time - FARTHEST); i < zone->count && zone->changes[i].at <= time + FARTHEST;
         i++) {
        int64_t moment = time - zone->changes[i].offset;
        if (n < 2 && moment >= zone->changes[i].at && (i + 1 == zone->count || moment < zone->changes[i + 1].at))
            utc[n++] = moment + back;
    }
    return n;
}
