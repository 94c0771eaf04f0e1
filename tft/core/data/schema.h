/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: the meaning of a table's columns: the id, the time, the target; which inputs are known ahead; how missing
 * values are filled and values are scaled; the length of a window and the bounds of training, validation and test.
 *
 * A schema is a document (YAML or JSON), checked in full before any data are read. An unknown key is an error that
 * names the nearest known one. One input of the document may become several of the model: the value itself, its values
 * some steps before (lags), whether it was missing (missing_indicator); a cyclic one is a sine and a cosine. The struct
 * lists them all.
 */
#ifndef HALAY_TFT_SCHEMA_H
#define HALAY_TFT_SCHEMA_H

#include "base/log.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/document_reader.h"
#include "tft/core/data/zone.h"
#include "tft/core/model/tft.h"
#include <jansson.h>

enum { TFT_INPUTS_MAX = 128, TFT_INPUT_NAME_MAX = 63, TFT_MISSING_MAX = 16 };
enum { TFT_TIME_COLUMNS_MAX = 8, TFT_SEASONS_MAX = 4, TFT_SEASON_LONGEST = 1000000 };

enum tft_input_role {
    TFT_INPUT_TARGET,
    TFT_INPUT_KNOWN,
    TFT_INPUT_OBSERVED,
    TFT_INPUT_STATIC,
    TFT_INPUT_WEIGHT,
    TFT_INPUT_ROLES
};
enum tft_input_source { TFT_FROM_COLUMN, TFT_FROM_CALENDAR, TFT_FROM_HOLIDAYS, TFT_FROM_WAVE, TFT_FROM_ID };
enum { TFT_WAVE_TERMS_MAX = 32, TFT_HOLIDAY_DAYS_MAX = 3650 };
/* How an input is derived from its source's values. */
enum tft_derivation { TFT_PLAIN, TFT_LAG, TFT_WAS_MISSING, TFT_SINE, TFT_COSINE };
enum tft_filling { TFT_FILL_NONE, TFT_FILL_DROP, TFT_FILL_FORWARD, TFT_FILL_INTERPOLATE, TFT_FILL_CONSTANT };
enum tft_scale { TFT_SCALE_NONE, TFT_SCALE_STANDARD, TFT_SCALE_ROBUST, TFT_SCALE_LOG1P };
/* The values by which an input is scaled. */
enum tft_scale_by { TFT_PER_ENTITY, TFT_PER_ALL, TFT_PER_WINDOW };
/* The second forecast in a target's blend, besides the model's. */
enum tft_blending { TFT_BLEND_NONE, TFT_BLEND_SEASON };
enum tft_transform { TFT_TRANSFORM_NONE, TFT_TRANSFORM_LOG, TFT_TRANSFORM_LOG1P };
enum tft_duplicates { TFT_DUPLICATES_MEAN, TFT_DUPLICATES_FIRST, TFT_DUPLICATES_LAST, TFT_DUPLICATES_ERROR };
enum tft_resampling { TFT_RESAMPLE_NONE, TFT_RESAMPLE_MEAN, TFT_RESAMPLE_SUM, TFT_RESAMPLE_LAST };
/* Trimming of an entity to its first and last measured target. */
enum tft_trim { TFT_TRIM_NONE, TFT_TRIM_BOTH, TFT_TRIM_END };
enum tft_split { TFT_TRAIN, TFT_VALID, TFT_TEST, TFT_SPLIT_COUNT };

/* The source of a row's entity. */
enum tft_id_kind {
    TFT_ID_COLUMN,   /* a column has it */
    TFT_ID_FILENAME, /* a part of the file's name */
    TFT_ID_HEADER,   /* each column of the (one) target's pattern is one */
    TFT_ID_CONSTANT, /* all rows are one's, of this name */
};

/* The source of a row's moment. */
enum tft_time_kind {
    TFT_TIME_TEXT,    /* one column's text, or several joined by blanks */
    TFT_TIME_PARTS,   /* columns with year, month, day, hour, minute, second, as far as they go */
    TFT_TIME_INTEGER, /* a whole number */
    TFT_TIME_NONE,    /* the row's number in its entity */
};

/* Each role: its name in documents, and the role of the model's variables for such inputs. */
struct tft_role_traits {
    const char *name;
    int is_variable;    /* 0: the model has none */
    int is_known_ahead; /* its values beyond the origin are known */
    int is_constant;    /* one value an entity */
    enum tft_role model;
};
extern const struct tft_role_traits tft_roles[]; /* by enum tft_input_role */
extern const char *const tft_split_names[];      /* "train", "valid", "test", NULL */

struct tft_input {
    char name[TFT_INPUT_NAME_MAX + 1];
    enum tft_input_role role;
    enum tft_input_source source;
    enum tft_derivation derivation;
    size_t base; /* number of the input that this one is made from; its own if it is plain */
    size_t lag;  /* steps; TFT_LAG */
    int is_category;
    int unknown;                  /* categories that training has not seen share one more code */
    const char *column;           /* borrowed from the document; TFT_FROM_COLUMN */
    enum tft_calendar calendar;   /* TFT_FROM_CALENDAR */
    struct tft_holidays holidays; /* owned; TFT_FROM_HOLIDAYS */
    enum tft_holiday_days days;   /* instead of whether the day is one */
    int64_t days_most;
    double period; /* TFT_FROM_WAVE: seconds of the clock's time, or steps */
    int period_in_steps;
    size_t harmonic;   /* waves in a period, from 1 */
    const json_t *map; /* text to text, borrowed; NULL: categories are the texts of the column or id */
    enum tft_transform transform;
    int has_missing_number;
    double missing_number; /* this number means no value */
    enum tft_filling fill;
    double constant;           /* TFT_FILL_CONSTANT of a real */
    const char *constant_text; /* and of a category, borrowed */
    enum tft_scale scale;
    enum tft_scale_by per;
    enum tft_blending blend;
};

/* Returns nonzero if a number of an input's column means that the value is missing. */
static inline int tft_input_is_missing(const struct tft_input *input, double value)
{
    return value != value || (input->has_missing_number && value == input->missing_number);
}

struct tft_schema {
    json_t *document; /* owned: the document; texts below are borrowed from it */
    const char *name;
    const json_t *files; /* array of file name patterns, NULL if none */
    enum tft_id_kind id_kind;
    const char *id_pattern; /* regular expression with one group; TFT_ID_FILENAME */
    const char *id_column;
    const char *id_constant;
    enum tft_time_kind time_kind;
    size_t time_column_count;
    const char *time_columns[TFT_TIME_COLUMNS_MAX];
    const char *time_format; /* NULL: ISO 8601 */
    int time_is_integer;     /* TFT_TIME_INTEGER */
    struct tft_zone *zone;   /* owned: of the clock by which the files, and the schema's moments, are written; NULL:
                                     nothing is known of it */
    /* Steps below a day are steps of UTC; days and longer ones are the clock's, and so are moments without a zone. */
    int is_in_utc;                /* moments of series, and split_end */
    int rows_are_in_utc;          /* moments of rows, before they are resampled, and span */
    struct tft_period every;      /* from row to row of a series, after resampling */
    struct tft_period rows_every; /* before it; count 0: the schema does not have it */
    size_t season_count;
    size_t seasons[TFT_SEASONS_MAX]; /* steps, ascending: what naive forecasts repeat; the first is MASE's */
    enum tft_resampling resampling;
    enum tft_trim trim;
    size_t keep;      /* this number of a series' last rows at most; 0: all */
    int has_ahead;    /* of a future: */
    int64_t ahead[2]; /* no moments of series before and after these are asked for */
    /* For a run's rows: the format of the training's times, where that is known (tft/core/data/encoding.h). */
    int clocks;
    int limits_gaps; /* a table whose gaps are far larger than its rows is refused: HALAY_ERR_UNSUPPORTED */
    int has_span;
    int64_t span[2]; /* first and last moment, both included */
    enum tft_duplicates duplicates;
    int fills_gaps; /* also where more rows are missing than there are (tft/core/data/table.h) */
    char separator, decimal;
    const char *missing[TFT_MISSING_MAX + 1]; /* texts that mean "no value", ended by NULL */
    size_t input_count;
    struct tft_input inputs[TFT_INPUTS_MAX]; /* in the document's order, derived ones after their base */
    size_t target_count;
    size_t targets[TFT_INPUTS_MAX]; /* their numbers among the inputs, in order */
    int has_weight;
    size_t weight;                   /* number of the input with that role */
    size_t longest_lag;              /* steps, 0 without lags */
    size_t encoder, horizon, stride; /* steps */
    size_t min_encoder;              /* where history is short, an encoder may be as short as this */
    int has_split[TFT_SPLIT_COUNT];
    int64_t split_end[TFT_SPLIT_COUNT]; /* a split's targets lie before this moment, and not before the previous one's
                                           end; unless splits are by entity */
    int splits_by_entity;
    size_t split_left[TFT_SPLIT_COUNT]; /* then they lie before the entity's last rows of this number */
    int context_before;                 /* the encoder may look back over the split's beginning */
};

/* Checks a document and reads it; the schema holds its own reference to it. On error nothing is held. */
enum halay_status tft_schema_init(struct halay_log *log, const char *where, json_t *document,
                                  struct tft_schema *schema);
/* The same from a file. Files that it names (holidays) are found from its folder, and their contents are put into the
 * document. */
enum halay_status tft_schema_load(struct halay_log *log, const char *path, struct tft_schema *schema);
/* The document alone, from a file or, if path is NULL, from text: JSON if that begins with a brace, YAML otherwise,
 * whose files are found from the present folder. `where` is for messages about it. */
enum { TFT_SCHEMA_WHERE = 256 };
enum halay_status tft_schema_document(struct halay_log *log, const char *path, const char *text,
                                      char where[TFT_SCHEMA_WHERE], json_t **document);
void tft_schema_fini(struct tft_schema *schema);

/* Describes an input by words and numbers: a new reference; NULL without memory. */
json_t *tft_input_json(const struct tft_input *input);

/* Returns the split before another one, or TFT_SPLIT_COUNT. */
enum tft_split tft_schema_split_before(const struct tft_schema *schema, enum tft_split split);
/* Returns the first moment of a split's targets (the previous split's end), INT64_MIN for the first. */
int64_t tft_schema_split_begin(const struct tft_schema *schema, enum tft_split split);

/* ---- clocks ---- */

/* A series' moment as text, as the schema counts time, with its offset if it is of UTC; size at least 40. */
void tft_schema_print_time(const struct tft_schema *schema, int64_t time, char *text, size_t size);
/* The same of a row that is not resampled yet. */
void tft_schema_print_row_time(const struct tft_schema *schema, int64_t time, char *text, size_t size);
/* Returns nonzero if the schema counts time in whole numbers. */
int tft_schema_counts(const struct tft_schema *schema);
/* Return the clock's time at a series' moment, and at a row's. */
int64_t tft_schema_clock(const struct tft_schema *schema, int64_t time);
int64_t tft_schema_row_clock(const struct tft_schema *schema, int64_t time);

enum tft_passes { TFT_PASSED_ONCE, TFT_PASSED_TWICE, TFT_SKIPPED };
/* Computes the moment of a row with this time, of the clock or (is_utc) of UTC. If the clock passes a time twice, it is
 * the first of the two moments. A time that the clock skips is taken as if it had not been put forward yet. */
enum tft_passes tft_schema_row_moment(const struct tft_schema *schema, int64_t time, int is_utc, int64_t *moment);
/* Returns the second moment at which the clock showed the time of a row's moment, if there are two. */
int64_t tft_schema_second_moment(const struct tft_schema *schema, int64_t moment);
/* A moment of a document, "2013-06-01 01:00" or, with a zone, also "2013-06-01 01:00+02:00", as that of a series or of
 * a row. HALAY_ERR_FORMAT, not logged. */
enum halay_status tft_schema_read_moment(const struct tft_schema *schema, const char *text, int of_row,
                                         int64_t *moment);

/* ---- for schema.c ---- */

/* Read the document's `inputs`; the schema has window and time already. On error fini still has to be called. */
enum halay_status tft_schema_read_inputs(const struct tft_where *w, const json_t *document, struct tft_schema *schema);

/* In a document just loaded: replace names of holiday files, found from the folder of `path`, by their contents. */
enum halay_status tft_schema_take_files(struct halay_log *log, const char *path, json_t *document);

#endif
