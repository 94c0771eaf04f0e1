/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: series ready for the model: scaled, in the model's order of variables, one row after the other in one block.
 *
 * It is made of a table, or mapped from a file that `prepare` wrote (htd.h); readers see no difference. Temporal
 * variables are in the model's order: observed, known, target; each row holds all of them, the target scaled like the
 * rest. Beside them lie the target in its own unit (for scores) and whether it was measured. Everything is read-only
 * once it is made, so that any thread may read it.
 */
#ifndef HALAY_TFT_DATA_H
#define HALAY_TFT_DATA_H

#include "tft/schema.h"
#include "tft/table.h"
#include <stdint.h>

/* scaled = (value - shift) / scale */
struct tft_scaler {
    double shift, scale;
};

struct tft_entity {
    const char *id; /* owned by the data's meta document or names */
    int64_t start;  /* moment of the first row */
    size_t first;   /* its first row's number in the block */
    size_t rows;
};

/* What was learned from the training span, and is needed to prepare other rows of the same entities: part of a
 * checkpoint. */
struct tft_encoding {
    json_t *document;    /* owned: {"origin": moment, "entities": [{"id", "scalers": {input: [shift, scale]}}]} */
    int64_t origin;      /* steps are counted from here */
    size_t entity_count; /* also the number of categories of the id */
    const char **ids;    /* owned array, its texts in document; in order of name */
    struct tft_scaler *scalers; /* owned: (entities, inputs); {0, 1} where nothing is scaled */
};

struct tft_data {
    struct tft_schema schema;
    struct tft_encoding encoding;
    struct tft_table_summary summary;
    size_t entity_count, rows;
    struct tft_entity *entities;  /* owned: those that have rows, in order of id */
    size_t *codes;                /* owned: (entities) number of each in the encoding */
    size_t real_count;            /* temporal variables */
    size_t reals[TFT_INPUTS_MAX]; /* the schema's inputs, by number, in the model's order */
    size_t known_count;           /* so many of them, before the last (the target), are known ahead */
    size_t static_count;          /* static real inputs */
    size_t statics[TFT_INPUTS_MAX];
    int has_id;                 /* the id is an input */
    const float *values;        /* (rows, real_count), scaled */
    const double *target;       /* (rows), as in the files; filled where it was missing */
    const uint8_t *present;     /* (rows) 1 where the target was measured */
    const float *static_values; /* (entities, static_count), scaled */
    void *block;                /* owned: what the four lie in, if it was made here */
    void *map;                  /* owned: or the file they are mapped from */
    size_t map_bytes;
};

/* Fit the encoding on the training span of a table. */
enum halay_status tft_encoding_fit(struct halay_log *log, const struct tft_schema *schema,
                                   const struct tft_table *table, struct tft_encoding *encoding);
/* Take it from its document, which is checked in full. Keeps a reference of its own. where: for messages. */
enum halay_status tft_encoding_init(struct halay_log *log, const char *where, const struct tft_schema *schema,
                                    json_t *document, struct tft_encoding *encoding);
void tft_encoding_fini(struct tft_encoding *encoding);

/*
 * Make data of a table. The schema and the encoding are taken over by the data on success (the caller's are then
 * empty); the table stays the caller's. An entity that the encoding does not know is an error that names it.
 */
enum halay_status tft_data_init(struct halay_log *log, struct tft_schema *schema, struct tft_encoding *encoding,
                                const struct tft_table *table, struct tft_data *data);
void tft_data_fini(struct tft_data *data);

/* Order the schema's inputs as the model wants them; fills real_count to has_id. */
void tft_data_order_inputs(struct tft_data *data);

/* Of the data's entity: how the target was scaled. */
const struct tft_scaler *tft_data_target_scaler(const struct tft_data *data, size_t entity);

/* What a calendar input is at a moment, scaled for an entity. */
float tft_data_calendar(const struct tft_data *data, size_t entity, const struct tft_input *input, int64_t time);

/* Rows of an entity before a moment. */
size_t tft_data_rows_before(const struct tft_data *data, size_t entity, int64_t time);

#endif
