/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding: what was learned from the training span and is needed to prepare other rows: scalers, entities, categories.
 * It is part of a run's description, as a JSON document.
 *
 *     {"origin": moment, "weight": mean, "clocks": 1 or 2, "entities": [id, ...],
 *      "scalers": {input: [shift, scale], or for each entity [shift, scale, shift, scale, ...]},
 *                  under `per: window` and `auto` another pair, of all entities together, for those not seen
 *      "categories": {input: [name, ...]}}
 */
#ifndef HALAY_TFT_ENCODING_H
#define HALAY_TFT_ENCODING_H

#include "base/memory.h"
#include "tft/core/data/document_reader.h"
#include "tft/core/data/table.h"

/* scaled = (value - shift) / scale, of log(1 + value) if log1p is set. */
struct tft_scaler {
    double shift, scale;
    int log1p;
};

double tft_scaler_exact(const struct tft_scaler *scaler, double value);
/* Scales a value as a float; infinite, or not a number, where a float cannot represent it. */
float tft_scaler_apply(const struct tft_scaler *scaler, double value);
double tft_scaler_undo(const struct tft_scaler *scaler, double scaled);

struct tft_vocabulary {
    size_t count;
    const char **names; /* its texts in the document; in order of name */
};

struct tft_encoding {
    json_t *document;           /* owned */
    struct halay_region memory; /* owned: of the lists below */
    int64_t origin;             /* steps are counted from here */
    int clocks;                 /* 1: times were without an offset from UTC, 2: with one; 0: unknown, or irrelevant */
    double weight;              /* mean of the weights in the training span; 1 without weights */
    size_t entity_count;        /* seen in training */
    const char **ids;           /* its texts in the document; in order of name */
    size_t input_count;         /* of the schema */
    struct tft_scaler *scalers; /* (entities + 1, inputs); {0, 1} where nothing is scaled; the last row is of an
                                   entity that training has not seen, and knows what is scaled by all entities only */
    struct tft_vocabulary *vocabularies; /* (inputs) of categories that a column or a map of the id names */
};

/* The document's keys. */
struct tft_encoding_document {
    int64_t origin;
    double weight;
    const json_t *entities, *scalers, *categories; /* borrowed */
    int64_t clocks;                                /* 0: not written */
};
extern const struct tft_member tft_encoding_members[];

/* Removes from the table the entities that cannot be encoded, because the training span has no measured value for one
 * of their targets. The summary counts them, and a warning gives their number. */
void tft_encoding_drop_untrained(struct halay_log *log, const struct tft_schema *schema, struct tft_table *table);
/* Removes from the table the entities that training has not seen, where that matters and it has seen others. A warning
 * gives their number and names the first. */
void tft_encoding_drop_unknown(struct halay_log *log, const struct tft_schema *schema,
                               const struct tft_encoding *encoding, struct tft_table *table);
/* Fits the encoding on the training span of a table. */
enum halay_status tft_encoding_fit(struct halay_log *log, const struct tft_schema *schema,
                                   const struct tft_table *table, struct tft_encoding *encoding);
/* Reads the encoding from its document, which is checked in full and of which it keeps a reference. where: for
 * messages. */
enum halay_status tft_encoding_init(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                    json_t *document, struct tft_encoding *encoding);
void tft_encoding_fini(struct tft_encoding *encoding);
/* Returns nonzero if the documents of two encodings are the same. "clocks", which earlier versions did not keep, may be
 * in only one of them. */
int tft_encoding_is_same(const json_t *a, const json_t *b);

/* Describes how the values of a table are encoded, as halay_tft_model_encoding documents it: a new reference; NULL
 * without memory. */
json_t *tft_encoding_json(const struct tft_schema *schema, const struct tft_encoding *encoding);

/* Returns nonzero if an entity must have been seen in training to be encoded. */
int tft_encoding_needs_entity(const struct tft_schema *schema);
/* Returns the number of an entity; entity_count for one that training has not seen. */
size_t tft_encoding_entity(const struct tft_encoding *encoding, const char *id);
/* Fails (HALAY_ERR_FORMAT, logged) if an entity must have been seen in training but was not. place: its row's. */
enum halay_status tft_encoding_check_entity(struct halay_log *log, const struct halay_error_place *place,
                                            const struct tft_schema *schema, const struct tft_encoding *encoding,
                                            const char *id);
/* Returns the number of rows of a category's embedding. */
size_t tft_encoding_categories(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input);
/* Returns nonzero, and sets the code, if an input has a code for values that training has not seen. */
int tft_encoding_unknown(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input,
                         int32_t *code);
/* Returns the name of a code, borrowed; NULL for the code of unknown values and for a calendar's numbers. */
const char *tft_encoding_name(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input,
                              size_t code);
/* Finds the code of a name. Returns 0 if the name is unknown. */
int tft_encoding_find(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input,
                      const char *name, size_t *code);
/* Finds the code of a text (NULL: missing) of an input with a vocabulary. Returns 0 if training has not seen it and the
 * input has no category for such values. */
int tft_encoding_code(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input,
                      const char *text, size_t *code);

/* Changes from row to row that are lost where values become floats, such as those of a meter that counts millions of
 * units while an hour adds a few: a float has 24 bits, and the scale of a series is that of all its values. */

/* The changes of one series. */
struct tft_changes {
    size_t count, lost;
    double sum;  /* of the lost ones' magnitudes */
    double most; /* largest magnitude of a value */
};

/* Counts the change from a value to the next row's; NAN: not measured. */
void tft_changes_add(const struct tft_scaler *scaler, double before, double value, struct tft_changes *changes);

/* Returns nonzero if most of the changes are lost. */
static inline int tft_changes_are_lost(const struct tft_changes *changes)
{
    return 2 * changes->lost > changes->count;
}

/* Warns of each real column most of whose changes are lost in a series. Reads all rows. */
void tft_lost_changes_check(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                            const struct tft_encoding *encoding);

/* ---- for the files that encode a table ---- */

/* View: every input's value at every row of a table's series, from a column, the calendar or an earlier value. Used to
 * make data from a table (encoding.c, data.c). */

struct tft_view {
    const struct tft_schema *schema; /* borrowed */
    const struct tft_table *table;   /* borrowed */
    int64_t origin;                  /* steps are counted from here */
    size_t rows;                     /* of the longest series */
    struct tft_date *dates;          /* owned: (rows) of the chosen series; NULL if inputs do not need them */
    int64_t *times;                  /* owned: (rows) clock times, like dates */
    const struct tft_series *series; /* the one chosen */
    double steps;                    /* from the origin to its first row */
};

/* Initialises a view. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_view_init(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                                int64_t origin, struct tft_view *view);
void tft_view_fini(struct tft_view *view);

/* Chooses the series that the functions below read. */
void tft_view_choose(struct tft_view *view, const struct tft_series *series);

/* Returns the value of a real input that is not read from a column. */
double tft_view_made(const struct tft_view *view, size_t input, size_t row);
/* Returns the value of a real input, not scaled. row is at least the schema's longest lag. */
static inline double tft_view_real(const struct tft_view *view, size_t input, size_t row)
{
    const struct tft_input *x = &view->schema->inputs[input];

    if (x->source != TFT_FROM_COLUMN || x->derivation == TFT_WAS_MISSING)
        return tft_view_made(view, input, row);
    return view->series->values[(row - x->lag) * view->table->column_count + view->table->column_of[input]];
}

/* Returns the code of a category from the calendar or a list of holidays. */
size_t tft_view_code(const struct tft_view *view, size_t input, size_t row);

/* Scalers of entities that training has not seen. */

/* Returns nonzero if a schema scales an input by windows, so that an unseen entity has a scaler of its own. */
int tft_own_scalers_apply(const struct tft_schema *schema);

/* Fits the scalers (inputs) of the view's chosen series, which training has not seen: under `per: window` to its own
 * rows, so that a series of any size is scaled alike; otherwise the scaler of all entities is used. If the table ends
 * where the future begins, all of its rows are the past; otherwise the first `encoder` of them are. */
void tft_own_scalers_fit(const struct tft_view *view, const struct tft_encoding *encoding, struct tft_scaler *scalers);

#endif
