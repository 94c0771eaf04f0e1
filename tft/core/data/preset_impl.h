/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties that a preset finds in the tables, for the files that make it.
 */
#ifndef HALAY_TFT_PRESET_IMPL_H
#define HALAY_TFT_PRESET_IMPL_H

#include "tft/core/data/calendar.h"
#include "tft/core/data/document_reader.h"
#include "tft/core/data/table_impl.h"

enum { TFT_MINUTE = 60, TFT_HOUR = 3600, TFT_DAY = 86400, TFT_WEEK = 7 * TFT_DAY };

/* Marks in numbers: a comma, a point, a comma that cannot separate thousands. */
enum { TFT_MARK_COMMA = 1, TFT_MARK_POINT = 2, TFT_MARK_DECIMAL = 4 };

struct tft_moment {
    size_t entity;
    int64_t time;
};

/* Values of some of the series: of numbers that the stride divides. Zero-initialised. */
struct tft_kept {
    struct tft_kept_value {
        size_t entity;
        int64_t time;
        double value; /* NAN: none */
    } * values;       /* owned */
    size_t count, size, stride;
};

struct tft_preset_scan {
    struct halay_log *log;
    const json_t *given;          /* borrowed: the schema with the differences; NULL: none */
    int preset;                   /* 0: long */
    char where[TFT_SCHEMA_WHERE]; /* what it is, for messages */
    const char *id, *ds, *y;      /* columns; borrowed from it. y: NULL: it has targets */
    const char *id_constant;      /* borrowed: all rows are of this series; NULL: a column has the ids */
    int id_is_given;              /* by the schema */
    struct tft_dictionary ids;
    struct tft_moment *moments; /* owned */
    size_t count, size;
    struct tft_kept kept;      /* of whole numbers as times without a season */
    char separator;            /* of the files' columns; 0: not known yet */
    int marks;                 /* where columns are separated otherwise: the values' marks, of TFT_MARK_* */
    char doubtful[32];         /* the first value whose comma may be decimal or not */
    int counts;                /* ds is a whole number */
    const char *format;        /* of ds; borrowed; NULL: ISO 8601 */
    int integer_is_given;      /* by the schema */
    int season_is_unknown;     /* where ds is a whole number */
    int clocks;                /* 1: times without an offset from UTC were read, 2: with one, 3: both */
    struct tft_time_look look; /* of whole numbers */
    struct tft_paths files;    /* owned */
    const char *file;          /* borrowed: the one that is read; NULL: a frame */
    struct {
        const char *file; /* borrowed */
        size_t row;
    } others[TFT_TIME_FORMS]; /* where the first number is that does not have a form */
    struct tft_zone *zone;    /* owned; NULL: none */
    json_t *zone_document;    /* owned: its rules */
    int64_t first, last;
    struct tft_period every;
    char every_text[32];
    int resamples; /* rows have a day of their own in each month, which its first day represents */
};

/* Returns the place for errors in its schema. */
struct tft_where tft_preset_where(const struct tft_preset_scan *s);

enum halay_status tft_preset_no_memory(const struct tft_preset_scan *s);
/* Returns nonzero if a mapping has this text under a key. */
int tft_preset_says(const json_t *object, const char *key, const char *text);
/* Prints a moment as the table writes it. */
void tft_preset_print_moment(const struct tft_preset_scan *s, int64_t time, char text[32]);
/* Returns the moment after the last one of the series that begins with moment `first`. */
size_t tft_preset_series_end(const struct tft_preset_scan *s, size_t first);
/* Returns the number of steps from the first row to the last, of all series. */
size_t tft_preset_count_steps(const struct tft_preset_scan *s, const struct tft_period *step);
/* Finds the step from row to row, unless the schema has it. */
enum halay_status tft_preset_find_step(struct tft_preset_scan *s);
/* Keeps a value. HALAY_ERR_NO_MEMORY, not logged. */
enum halay_status tft_kept_add(struct tft_kept *kept, size_t entity, int64_t time, double value);
/* Finds the seasons of the kept values in training, ascending; *count 0: not found. */
enum halay_status tft_preset_find_seasons(struct tft_preset_scan *s, const struct tft_schema *probe,
                                          size_t seasons[TFT_PERIOD_SEASONS], size_t *count);
/* Returns the moment at which training ends for a series whose last row is at the moment `last`. */
int64_t tft_preset_training_end(const struct tft_preset_scan *s, const struct tft_schema *probe, int64_t last);
/* Makes the schema from the scan. */
enum halay_status tft_preset_make_schema(struct tft_preset_scan *s, const struct tft_preset *preset,
                                         struct tft_schema *schema);

#endif
