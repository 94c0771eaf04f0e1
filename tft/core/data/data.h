/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: series ready for the model: scaled, in the model's order of variables, one row after the other in one block.
 *
 * It is made from a table, or mapped from a file that `prepare` wrote (htd.c); readers see no difference. Temporal
 * reals are in the model's order: observed, known, targets; each row holds all of them, the targets scaled like the
 * rest; beside them each row has its temporal categories: observed, known. Further there are the targets in their own
 * units (for scores), whether each was measured, and the row's weight. Everything is read-only once it is made, so that
 * any thread may read it. Call tft_data_check before reading any row: parts of a file are checked when they are first
 * read.
 */
#ifndef HALAY_TFT_DATA_H
#define HALAY_TFT_DATA_H

#include "base/memory.h"
#include "tft/core/data/encoding.h"
#include "tft/core/data/schema.h"
#include "tft/core/data/table.h"
#include "tft/core/kernels/loss.h"
#include <stdint.h>

/* The arrays of a data set, in their order in the block. */
enum tft_array {
    TFT_ARRAY_TARGET,
    TFT_ARRAY_GAPS,
    TFT_ARRAY_BRIDGES,
    TFT_ARRAY_VALUES,
    TFT_ARRAY_CATEGORIES,
    TFT_ARRAY_STATIC_VALUES,
    TFT_ARRAY_STATIC_CODES,
    TFT_ARRAY_WEIGHTS,
    TFT_ARRAY_PRESENT,
    TFT_ARRAY_COUNT
};

/* Section HTD_ARRAYS + k is the data's array k. */
enum { HTD_META, HTD_ARRAYS, HTD_SUMS = HTD_ARRAYS + TFT_ARRAY_COUNT, HTD_SECTIONS };

struct tft_entity {
    const char *id; /* in the data's memory */
    int64_t start;  /* moment of the first row */
    size_t first;   /* its first row's number in the block */
    size_t rows;
};

/* Rows of the block that must not be in a window. */
struct tft_gap {
    uint64_t first, rows;
};

struct tft_data {
    enum tft_loss loss; /* of the run that forecasts, which sets it: determines whether its forecasts are scaled */
    struct tft_schema schema;
    struct tft_encoding encoding;
    struct tft_table_summary summary;
    size_t entity_count, rows;
    struct halay_region memory;   /* owned: of the entities, their ids, and the next two */
    struct tft_entity *entities;  /* those that have rows, in order of id */
    struct tft_scaler *own;       /* (entities, inputs) of those not seen there, by which they are scaled
                               (tft/core/data/encoding.h); NULL: as the encoding has it */
    size_t *codes;                /* (entities) number of each in the encoding; its entity_count if not seen there */
    size_t real_count;            /* temporal reals */
    size_t reals[TFT_INPUTS_MAX]; /* the schema's inputs, by number, in the model's order */
    size_t known_count;           /* how many of them, before the targets, are known ahead */
    size_t cat_count;             /* temporal categories */
    size_t cats[TFT_INPUTS_MAX];
    size_t static_count; /* static real inputs */
    size_t statics[TFT_INPUTS_MAX];
    size_t static_cat_count; /* static categories */
    size_t static_cats[TFT_INPUTS_MAX];
    size_t weight_count; /* 1 if there are weights */
    size_t gap_count, bridge_count;
    const double *target;             /* (rows, targets), as in the files; filled where they were missing */
    const float *values;              /* (rows, reals), scaled */
    const int32_t *categories;        /* (rows, cats) codes */
    const float *static_values;       /* (entities, statics), scaled */
    const int32_t *static_codes;      /* (entities, static categories) */
    const float *weights;             /* (rows) mean 1 in the training span; NULL: all 1 */
    const struct tft_gap *gaps;       /* (gaps) in order, apart from each other */
    const struct tft_bridge *bridges; /* (bridges) in order of entity, column and row */
    const uint8_t *present;           /* (rows, targets) 1 where the target was measured */
    void *block;                      /* owned: the arrays' memory, if it was made here */
    struct tft_spill *spill;          /* borrowed: or the spill with the arrays; NULL: not used */
    struct tft_htd *file;             /* owned: or the file that they are mapped from; may be NULL */
};

/* Makes data from a table. On success the data own the schema and the encoding, and the caller's are empty; the caller
 * keeps the table. An entity or category that the encoding does not know is an error that names it, unless the schema
 * has `unknown: true`. */
enum halay_status tft_data_init(struct halay_log *log, struct tft_schema *schema, struct tft_encoding *encoding,
                                const struct tft_table *table, struct tft_data *data);
void tft_data_fini(struct tft_data *data);

/* Allocates room for `count` entities, and for scalers of their own. HALAY_ERR_NO_MEMORY, not logged, as the next. */
enum halay_status tft_data_allocate(struct tft_data *data, size_t count, int has_own);
/* Adds an entity whose rows follow those of the entity before it; the id is copied. */
enum halay_status tft_data_add_entity(struct tft_data *data, const char *id, size_t code, int64_t start, size_t rows);

/* Orders the schema's inputs for the model; fills the counts and lists of inputs. */
void tft_data_order_inputs(struct tft_data *data);
/* Computes the bytes of each array from the data's counts; HALAY_ERR_NO_MEMORY if one does not fit. */
enum halay_status tft_data_array_bytes(const struct tft_data *data, size_t bytes[TFT_ARRAY_COUNT]);
/* Returns the bytes of one row of an array; 0 for an array without rows. */
size_t tft_data_row_bytes(const struct tft_data *data, enum tft_array array);
/* Set and get the address of each array (an empty one may have any). */
void tft_data_set_arrays(const void *const arrays[TFT_ARRAY_COUNT], struct tft_data *data);
void tft_data_get_arrays(const struct tft_data *data, const void *arrays[TFT_ARRAY_COUNT]);

/* Checks rows [first, first + count) of the block before they are read. HALAY_ERR_FORMAT (logged once): the file is
 * damaged there. */
enum halay_status tft_data_check(const struct tft_data *data, size_t first, size_t count);

/* Returns the scaler of the forecasts of an entity's target (by its number among the targets): the data's, or none. */
const struct tft_scaler *tft_data_target_scaler(const struct tft_data *data, size_t entity, size_t target);
/* Returns the value of a target in a row of the block, scaled as forecasts are. */
static inline double tft_data_forecast_target(const struct tft_data *data, size_t row, size_t target)
{
    size_t O = data->schema.target_count;

    return tft_loss_is_unscaled(data->loss) ? data->target[row * O + target]
                                            : data->values[(row + 1) * data->real_count - O + target];
}

/* Returns the scaler of an entity's input (by its number in the schema). */
const struct tft_scaler *tft_data_scaler(const struct tft_data *data, size_t entity, size_t input);

/* Returns the bridge of a plain input (by its number) over a row of an entity, or NULL. The row is counted from the
 * entity's first one and may be below 0. */
const struct tft_bridge *tft_data_bridge(const struct tft_data *data, size_t entity, size_t input, int64_t row);

/* Returns the moment of a row of the block, by the entity's times; also for rows before and after its own. */
int64_t tft_data_time(const struct tft_data *data, size_t entity, size_t row);

/* Returns the weight of a row's targets in the loss. */
static inline float tft_data_weight(const struct tft_data *data, size_t row)
{
    return data->weights ? data->weights[row] : 1;
}

/* Returns the number of an entity's rows before a moment. */
size_t tft_data_rows_before(const struct tft_data *data, size_t entity, int64_t time);
/* Returns the number of an entity's rows before the end of a split, which the schema has; of TFT_SPLIT_COUNT: 0. */
size_t tft_data_split_rows(const struct tft_data *data, size_t entity, enum tft_split split);
/* Returns the moment at which a split ends; the latest, if splits are by entity. */
int64_t tft_data_split_end(const struct tft_data *data, enum tft_split split);

/* Join: the entities of several data of one schema and encoding, one after the other, as one data. An id may occur
 * several times: an entity is identified by its number. */

/* Copies the parts, which the caller keeps; schema and encoding are borrowed from the first of them, so that
 * tft_data_end ends the joined data. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_data_join(struct halay_log *log, const struct tft_data *parts, size_t count,
                                struct tft_data *joined);

/* Ends data whose schema and encoding are borrowed. */
void tft_data_end(struct tft_data *data);

/* ---- files ---- */

/* Writes prepared data to a file; htd.c describes the format. */
enum halay_status tft_htd_write(struct halay_log *log, const char *path, const struct tft_data *data);
/* Makes a number that differs where the data differ. Of mapped data it is made from the checksums in the file, 4 bytes
 * for each 65536: their rows are not read. Data in memory are read. */
enum halay_status tft_htd_digest(struct halay_log *log, const struct tft_data *data, uint64_t *digest);

/* Maps a file, and checks everything in it except rows. log is borrowed until it is closed. On error nothing is
 * held. */
enum halay_status tft_htd_open(struct halay_log *log, const char *path, struct tft_data *data);

/* The sections of a file of prepared data and their checksums, in the format that htd.c describes. */

/* Writes a file of these sections; the last one, the checksums, is made here. spill: the one with the sections; NULL:
 * they are in memory. */
enum halay_status tft_htd_write_sections(struct halay_log *log, const char *path, const void *const data[HTD_SUMS],
                                         const size_t bytes[HTD_SUMS], struct tft_spill *spill);
enum halay_status tft_htd_digest_sections(struct halay_log *log, const void *const data[HTD_SUMS],
                                          const size_t bytes[HTD_SUMS], struct tft_spill *spill, uint64_t *digest);

/* A mapped file. */
struct tft_htd;
uint64_t tft_htd_digest_map(const struct tft_htd *file);

/* Maps a file whose lengths and checksums of checksums are right. log is borrowed until it is closed. */
enum halay_status tft_htd_map(struct halay_log *log, const char *path, struct tft_htd **file);
/* NULL is allowed. */
void tft_htd_close(struct tft_htd *file);

const void *tft_htd_section(const struct tft_htd *file, int section, size_t *bytes);
/* Checks bytes [first, first + bytes) of a section against their checksums. HALAY_ERR_FORMAT (logged once): a part of
 * them is damaged. Any thread. */
enum halay_status tft_htd_check(struct tft_htd *file, int section, size_t first, size_t bytes);
/* Logs "'path' what", returns HALAY_ERR_FORMAT. */
enum halay_status tft_htd_bad(const struct tft_htd *file, const char *what);

#endif
