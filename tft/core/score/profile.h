/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles: what the inputs of a training span were like, in a few numbers, and how far what is forecast from is from
 * that. A run's folder has no rows; its file profile.json is what `serve` and `predict` compare with:
 *
 *     {"format": 1, "encoding": "1f2e3d4c", "inputs": {
 *          "load":  {"shares": [count, ...], "edges": {entity: [least, 9 deciles, largest], ...}},
 *          "offer": {"shares": [count of each category, ...]}}}
 *
 * "encoding": the CRC-32 of the run's encoding, as whose scaled values the edges are. "shares": of all entities' values
 * in the ten bins of their own entity. Inputs are those that columns give, but for lags, as in drift (tft/tools/drift).
 *
 * What was asked is counted in the same bins. The counts are halved when they are many, so that old requests fade. No
 * rate of false alarms is stated: requests are of any length and overlap. A value outside everything that the training
 * span had of its entity is news in any season; the index is for a dashboard.
 */
#ifndef HALAY_TFT_PROFILE_H
#define HALAY_TFT_PROFILE_H

#include "base/memory.h"
#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"

enum { TFT_PROFILE_BINS = 10, TFT_PROFILE_EDGES = TFT_PROFILE_BINS + 1, TFT_PROFILE_VALUES = 1 << 17 };

struct tft_profile_input {
    size_t input; /* its number in the schema */
    size_t place; /* among the reals or the categories */
    size_t target, bins;
    int is_category;
    float *edges;         /* (entities of the encoding, edges) NaN: no value; NULL: a category's */
    uint64_t *then, *now; /* (bins) */
    uint64_t values, outside;
};

struct tft_profile {
    size_t entity_count, count;
    struct tft_profile_input inputs[TFT_INPUTS_MAX];
    struct halay_region memory; /* owned: of the inputs' arrays */
};

/* The document of data's training span: a new reference. */
enum halay_status tft_profile_make(struct halay_log *log, const struct tft_data *data, json_t **document);
enum halay_status tft_profile_save(struct halay_log *log, const char *folder, const json_t *document);
/* Reads a folder's document, a new reference; NULL: it has none, or (with a warning, since forecasts do not need it) a
 * damaged one. */
json_t *tft_profile_read(struct halay_log *log, const char *folder);
/* Makes the profile of a document, which may be NULL, for a run of this schema and encoding; NULL: without one, or if
 * (with a warning that names the folder's file) it is damaged or of another training. HALAY_ERR_NO_MEMORY. */
enum halay_status tft_profile_of(struct halay_log *log, const char *folder, const json_t *document,
                                 const struct tft_schema *schema, const struct tft_encoding *encoding,
                                 struct tft_profile **profile);
void tft_profile_destroy(struct tft_profile *profile);

/* Forget what was counted. */
void tft_profile_clear(struct tft_profile *profile);
/* Count what windows' encoders hold. */
enum halay_status tft_profile_add(struct tft_profile *profile, const struct tft_windows *windows);
/* [{"input", "values", "outside" (a share), "psi"}, ...] of inputs with values: a new reference, empty for NULL. */
json_t *tft_profile_json(const struct tft_profile *profile, const struct tft_schema *schema);

#endif
