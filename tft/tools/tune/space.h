/* SPDX-License-Identifier: Apache-2.0
 *
 * The space of a search: keys of the configuration, each with the values that it may have. A file in YAML or JSON has
 * it: a list of values, or a range.
 *
 *     learning_rate: {from: 0.0003, to: 0.01, scale: log}
 *     hidden_size: [64, 96, 128, 160]
 *     schedule: [constant, cosine]
 *
 * A *point* has a coordinate for each key: from 0 to 1 over a range, and over a list of numbers, whose order means
 * something; of a list of anything else, the place in it.
 */
#ifndef HALAY_TFT_TUNE_SPACE_H
#define HALAY_TFT_TUNE_SPACE_H

#include "base/log.h"
#include "halay_types.h"
#include <jansson.h>
#include <stddef.h>

enum { TFT_SETTINGS_MAX = 24, TFT_CHOICES_MAX = 64 };

struct tft_setting {
    const char *name;
    int is_range, is_whole, is_log; /* the last two: of a range */
    int is_ordered;                 /* a range, or a list of numbers */
    double from, to;                /* of a range */
    size_t count;                   /* of a list */
    const json_t *choices;          /* of a list; borrowed */
};

struct tft_space {
    size_t count;
    struct tft_setting settings[TFT_SETTINGS_MAX];
    json_t *document; /* owned */
};

/* Reads a file. HALAY_ERR_CONFIG (logged): a key is unknown, or may not be searched, or has an invalid value;
 * HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT, HALAY_ERR_NO_MEMORY. fini in any case. */
enum halay_status tft_space_read(struct halay_log *log, const char *path, struct tft_space *space);
/* Takes a document, whose reference passes to the space; name: for errors. */
enum halay_status tft_space_take(struct halay_log *log, const char *name, json_t *document, struct tft_space *space);
void tft_space_fini(struct tft_space *space);

/* Returns nonzero if the space has this key. */
int tft_space_has(const struct tft_space *space, const char *name);

/* Moves a point to the nearest one that values have: whole numbers, the places of a list, three digits of a real. */
void tft_space_snap(const struct tft_space *space, double *point);
/* A point's keys and values: a new reference; NULL without memory. */
json_t *tft_space_keys(const struct tft_space *space, const double *point);
/* The point whose keys are these; 0: a key is missing, or its value is not in the space. */
int tft_space_point(const struct tft_space *space, const json_t *keys, double *point);
/* Returns the number of points, at most `most`. A range of reals has more than that. */
size_t tft_space_size(const struct tft_space *space, size_t most);
/* The point of this index, below the space's size; the last key changes fastest. */
void tft_space_point_at(const struct tft_space *space, size_t index, double *point);

#endif
