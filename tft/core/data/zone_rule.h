/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone rules: a clock that changes twice a year, as POSIX writes TZ ("CET-1CEST,M3.5.0,M10.5.0/3").
 */
#ifndef HALAY_TFT_ZONE_RULE_H
#define HALAY_TFT_ZONE_RULE_H

#include "halay_types.h"
#include <stdint.h>

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

/* The moments of a year at which summer time begins and ends. */
void tft_zone_rule_year(const struct tft_zone_rule *rule, int year, int64_t *begin, int64_t *end);

#endif
