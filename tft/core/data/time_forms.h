/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of times that ISO 8601 does not cover: dates written as whole numbers (20240131), and texts whose parts may
 * come in another order (01/31/2020). A table counts in whole numbers only if they do not look like dates.
 */
#ifndef HALAY_TFT_TIME_FORMS_H
#define HALAY_TFT_TIME_FORMS_H

#include <stddef.h>
#include <stdint.h>

/* Forms of whole numbers, by number; some have no format that would read them. */
enum { TFT_TIME_FORMS = 13 };

struct tft_time_form {
    const char *name;   /* for messages: "dates like 20240131" */
    const char *format; /* NULL: none reads it */
    int64_t in_second;  /* of numbers since 1970, how many a second has; 0: it is a date */
};
extern const struct tft_time_form tft_time_forms[TFT_TIME_FORMS];

/* What has been seen of a column of whole numbers. Zero-initialised. */
struct tft_time_look {
    size_t rows, fits[TFT_TIME_FORMS];
    int64_t first_month[TFT_TIME_FORMS], last_month[TFT_TIME_FORMS]; /* since year 0 */
    int64_t last;                                                    /* the newest */
    size_t changes, ones;                                            /* from one to the next; changes by 1 */
    size_t first_other[TFT_TIME_FORMS]; /* the first row that does not fit, counted from 1 */
};

/* A whole number of at most TFT_COUNT_MAX in magnitude: the difference of two is an int64_t. Returns 0 if the text is
 * none. */
#define TFT_COUNT_MAX (INT64_MAX / 2)
int tft_time_read_digits(const char *text, int64_t *value);
void tft_time_look_add(struct tft_time_look *look, int64_t value);
/* The form that all rows have, or, with *fits_all 0, nine tenths of at least ten; -1: none, the numbers are counts. */
int tft_time_look_form(const struct tft_time_look *look, int *fits_all);
/* Are the numbers counts that might be seconds since 1970 as well? */
int tft_time_look_is_either(const struct tft_time_look *look);

/* What is wrong with the first time of the other kind, where a column has times with and without an offset and nothing
 * says by which clock the latter are written. */
#define TFT_TIME_HAS_OFFSET \
    "has an offset from UTC, and the times before it have none; a zone (--zone, 'zone') says by which clock those are"
#define TFT_TIME_LACKS_OFFSET \
    "has no offset from UTC, and the times before it have one; a zone (--zone, 'zone') says by which clock it is"

/* Is a text of eight digits, the first of them 0, a date whose year is last, and so not a number? */
int tft_time_is_reversed(const char *text);

/* Does the text of a time end with an offset from UTC that is not 0? */
int tft_time_is_moved(const char *text);

/* What would read a text that is not a time of ISO 8601, as the end of a message: " (set 'format', here \"%m/%d/%Y\")".
 */
void tft_time_advise(const char *text, char *advice, size_t size);

#endif
