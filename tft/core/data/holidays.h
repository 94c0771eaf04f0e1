/* SPDX-License-Identifier: Apache-2.0
 *
 * Holidays: named days.
 *
 * They come from a CSV file: its column `date` (or the first one) holds days like 2017-12-25, its column `name` (or the
 * second) what they are called. In a schema's document they are a list of keys and values, day to name: a file's
 * contents are put into the document when the schema is loaded, so that a run does not need the file any more.
 */
#ifndef HALAY_TFT_HOLIDAYS_H
#define HALAY_TFT_HOLIDAYS_H

#include "base/log.h"
#include <jansson.h>
#include <stdint.h>

struct tft_holiday {
    int64_t day; /* since 1970-01-01 */
    int code;    /* of its name, from 1 */
};

struct tft_holidays {
    size_t count;
    struct tft_holiday *list; /* owned, in order of day */
    int names;                /* different names; codes go up to it, in order of name */
};

/* Read a file into a list of keys and values; the caller's reference. */
enum halay_status tft_holidays_load(struct halay_log *log, const char *path, json_t **document);
/* Take them from a list of keys and values. where: for messages. */
enum halay_status tft_holidays_init(struct halay_log *log, const char *where, const json_t *document,
                                    struct tft_holidays *holidays);
void tft_holidays_fini(struct tft_holidays *holidays);

/* The code of the day that holds a moment; 0 if it is no holiday. */
int tft_holidays_code(const struct tft_holidays *holidays, int64_t time);

enum tft_holiday_days { TFT_DAYS_NONE, TFT_DAYS_UNTIL, TFT_DAYS_SINCE };
/* Days from a moment's until the next holiday, or since the last one: 0 on a holiday, at most `most`. */
int64_t tft_holidays_days(const struct tft_holidays *holidays, int64_t time, enum tft_holiday_days which, int64_t most);

#endif
