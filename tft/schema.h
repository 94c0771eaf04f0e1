/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: what the columns of a table mean: which is the id, the time, the target; what is known ahead; how values that
 * are missing are filled and how each is scaled; how long a window is and where training, validation and test meet.
 *
 * A schema is a document (YAML or JSON); what it says is checked in full before any data are read. A key that is not
 * known is an error that names the nearest known one; one that halay will know, but does not offer yet, is an error
 * that says so.
 */
#ifndef HALAY_TFT_SCHEMA_H
#define HALAY_TFT_SCHEMA_H

#include "base/log.h"
#include "tft/calendar.h"
#include <jansson.h>

enum { TFT_INPUTS_MAX = 32, TFT_INPUT_NAME_MAX = 63, TFT_MISSING_MAX = 16, TFT_WINDOW_MAX = 100000 };

enum tft_input_role { TFT_INPUT_TARGET, TFT_INPUT_KNOWN, TFT_INPUT_OBSERVED, TFT_INPUT_STATIC };
enum tft_input_source { TFT_FROM_COLUMN, TFT_FROM_CALENDAR, TFT_FROM_ID };
enum tft_filling { TFT_FILL_NONE, TFT_FILL_FORWARD, TFT_FILL_INTERPOLATE, TFT_FILL_CONSTANT };
enum tft_scale { TFT_SCALE_NONE, TFT_SCALE_STANDARD, TFT_SCALE_MINMAX };
enum tft_duplicates { TFT_DUPLICATES_MEAN, TFT_DUPLICATES_FIRST, TFT_DUPLICATES_LAST, TFT_DUPLICATES_ERROR };
enum tft_split { TFT_TRAIN, TFT_VALID, TFT_TEST, TFT_SPLIT_COUNT };

extern const char *const tft_role_names[];  /* by enum tft_input_role */
extern const char *const tft_split_names[]; /* "train", "valid", "test", NULL */

struct tft_input {
    char name[TFT_INPUT_NAME_MAX + 1];
    enum tft_input_role role;
    enum tft_input_source source;
    int is_category;            /* only the entity's id in this version */
    const char *column;         /* borrowed from the document; TFT_FROM_COLUMN */
    enum tft_calendar calendar; /* TFT_FROM_CALENDAR */
    enum tft_filling fill;
    double constant; /* TFT_FILL_CONSTANT */
    enum tft_scale scale;
    int per_entity; /* scaled by each entity's own numbers, not by those of all */
};

struct tft_schema {
    json_t *document; /* owned: what was read; strings below are borrowed from it */
    const char *name;
    const json_t *files;    /* array of file name patterns, NULL if none */
    const char *id_pattern; /* regular expression with one group for the file's name; NULL: id_column */
    const char *id_column;
    const char *time_column, *time_format;
    int64_t every; /* seconds */
    int has_span;
    int64_t span[2]; /* first and last moment, both inside */
    enum tft_duplicates duplicates;
    char separator, decimal;
    const char *missing[TFT_MISSING_MAX + 1]; /* texts that mean "no value", ended by NULL */
    size_t input_count;
    struct tft_input inputs[TFT_INPUTS_MAX]; /* in the document's order */
    size_t target;                           /* number of the one target among the inputs */
    size_t encoder, horizon, stride;         /* steps */
    int has_split[TFT_SPLIT_COUNT];
    int64_t split_end[TFT_SPLIT_COUNT]; /* a split's targets lie before this moment, and not before the previous one's
                                           end */
    int context_before;                 /* the encoder may look back over the split's beginning */
};

/* Check a document and take what it says; the schema holds its own reference to it. On error nothing is held. */
enum halay_status tft_schema_init(struct halay_log *log, const char *where, json_t *document,
                                  struct tft_schema *schema);
enum halay_status tft_schema_load(struct halay_log *log, const char *path, struct tft_schema *schema);
void tft_schema_fini(struct tft_schema *schema);

/* First moment of a split's targets (the previous split's end), INT64_MIN for the first. */
int64_t tft_schema_split_begin(const struct tft_schema *schema, enum tft_split split);

#endif
