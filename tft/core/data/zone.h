/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone: the offset of a place's clocks from UTC, and its changes.
 *
 * A zone is read from the system's tzdata (files of /usr/share/zoneinfo, RFC 8536) as a document that a schema keeps,
 * so that a run means the same on a host with other rules or none:
 *
 *   {"name": "Europe/Berlin", "offset": 3208, "changes": [-2422054408, 3600, ...],
 *    "then": "CET-1CEST,M3.5.0,M10.5.0/3"}
 *
 * offset: seconds east of UTC before the first change; changes: pairs of a moment and the offset from then on; then:
 * the rule after the last of them, as POSIX writes TZ; absent: the offset never changes again.
 *
 *   UTC           00:00    00:30    01:00    01:30    02:00        the clock goes from 03:00 back to 02:00 at 01:00 UTC
 *   clock         02:00    02:30    02:00    02:30    03:00        02:00 and 02:30 are two moments each
 *
 * In spring the clock skips an hour: the times that it would have shown do not exist.
 */
#ifndef HALAY_TFT_ZONE_H
#define HALAY_TFT_ZONE_H

#include "base/log.h"
#include <jansson.h>
#include <stdint.h>

#define TFT_ZONES_FOLDER "/usr/share/zoneinfo"

struct tft_zone;

/* Reads a zone of a folder of tzdata; *document is the caller's reference. where: for messages. HALAY_ERR_CONFIG: the
 * zone does not exist (the message names the nearest one), or tzdata is missing. */
enum halay_status tft_zone_load(struct halay_log *log, const char *where, const char *folder, const char *name,
                                json_t **document);

/* Makes a zone of a document. HALAY_ERR_CONFIG (logged): it is malformed. */
enum halay_status tft_zone_create(struct halay_log *log, const char *where, const json_t *document,
                                  struct tft_zone **zone);
/* NULL is allowed. */
void tft_zone_destroy(struct tft_zone *zone);

/* Returns the seconds to add to UTC to get the clock's time at a moment. */
int tft_zone_offset(const struct tft_zone *zone, int64_t utc);
/* Finds the moments at which the clock shows a time, the earlier first. Returns their number: 1, or 2 where the clock
 * was put back, or 0 where it was put forward. */
size_t tft_zone_moments(const struct tft_zone *zone, int64_t shown, int64_t utc[2]);

/* Zone rules: a clock that changes twice a year, as POSIX writes TZ ("CET-1CEST,M3.5.0,M10.5.0/3"). */

struct tft_zone_rule {
    int standard, summer; /* seconds east of UTC */
    int changes;          /* 0: it is always standard time, and what follows is not set */
    struct tft_zone_day {
        char kind;            /* M: a weekday of a month; J: a day from 1, never February 29; 0: a day from 0 */
        int month, week, day; /* week 5 is the last; weekdays from Sunday 0 */
        int seconds;          /* of the clock, from that day's midnight; may be below 0 or beyond the day */
    } begin, end;             /* of summer time */
};

/* HALAY_ERR_FORMAT, not logged. */
enum halay_status tft_zone_rule_parse(const char *text, struct tft_zone_rule *rule);

/* Computes the moments of a year at which summer time begins and ends. */
void tft_zone_rule_year(const struct tft_zone_rule *rule, int year, int64_t *begin, int64_t *end);

#endif
