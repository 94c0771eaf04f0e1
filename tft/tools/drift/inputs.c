/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of inputs. A series (of one entity and input) becomes the number of a bin for each row, then counts of bins up
 * to each slot, so that those of any range of slots are a difference. One series at a time: memory is that of a series.
 */
#include "tft/tools/drift/inputs.h"
#include "base/bins.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_VALUES = 8, MISSING_BINS = 2, NAME_MOST = 32 };
enum { NO_SLOT = UINT32_MAX, RECENT = UINT32_MAX - 1 };

static const double least_distance = 0.02, least_share = 0.005;

enum kind { REAL, CATEGORY, MISSING };

struct work {
    struct halay_log *log;
    const struct tft_data *data;
    const struct tft_spans *spans;
    struct tft_findings *findings;
    size_t entity, rows;
    uint32_t *slots;  /* owned: (rows of the longest entity) of each row */
    double *sorted;   /* owned: likewise */
    uint64_t *before; /* owned: (slots + 1, bins) counts in slots before one */
    double *ks, *psi; /* owned: (blocks) */
};

/* A series: what its rows are. */
struct series {
    enum kind kind;
    size_t input, column; /* the schema's number; which of the rows' reals, categories or targets */
    size_t bins;
    /* Of categories: as many have a bin of their own; then one for those that are too many, if any; the last one for
     * what training has not seen, if there is a code for it. */
    size_t named, unknown;
    double edges[HALAY_BINS_MAX - 1];
    uint64_t recent[HALAY_BINS_MAX];
};

static enum halay_status work_init(struct work *w)
{
    size_t longest = 1;

    for (size_t e = 0; e < w->data->entity_count; e++)
        longest = w->data->entities[e].rows > longest ? w->data->entities[e].rows : longest;
    w->slots = calloc(longest, sizeof *w->slots);
    w->sorted = calloc(longest, sizeof *w->sorted);
    w->before = calloc((w->spans->slots + 1) * HALAY_BINS_MAX, sizeof *w->before);
    w->ks = calloc(w->spans->blocks + 1, sizeof *w->ks);
    w->psi = calloc(w->spans->blocks + 1, sizeof *w->psi);
    if (w->slots && w->sorted && w->before && w->ks && w->psi)
        return HALAY_OK;
    halay_error(w->log, "no memory to compare entities of %zu rows", longest);
    return HALAY_ERR_NO_MEMORY;
}

static void work_fini(struct work *w)
{
    free(w->slots);
    free(w->sorted);
    free(w->before);
    free(w->ks);
    free(w->psi);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where each row of the entity lies; rows of gaps nowhere. */
static void place_rows(struct work *w)
{
    const struct tft_data *d = w->data;
    const struct tft_entity *e = &d->entities[w->entity];

    w->rows = e->rows;
    for (size_t r = 0; r < e->rows; r++) {
        int64_t moment = tft_data_time(d, w->entity, e->first + r);
        size_t slot = moment < w->spans->begin ? w->spans->slots : tft_spans_slot(w->spans, moment);
        w->slots[r] = slot < w->spans->slots                                  ? (uint32_t)slot
                      : moment >= w->spans->since && moment < w->spans->until ? RECENT
                                                                              : NO_SLOT;
    }
    for (size_t g = 0; g < d->gap_count; g++)
        for (size_t r = 0; r < d->gaps[g].rows; r++) {
            size_t row = (size_t)d->gaps[g].first + r;
            if (row >= e->first && row < e->first + e->rows)
                w->slots[row - e->first] = NO_SLOT;
        }
}

static float real_at(const struct work *w, const struct series *s, size_t r)
{
    return w->data->values[(w->data->entities[w->entity].first + r) * w->data->real_count + s->column];
}

/* Is a real that is a target's measured there? Others always count. */
static int is_measured(const struct work *w, const struct series *s, size_t r)
{
    const struct tft_data *d = w->data;
    size_t before_targets = d->real_count - d->schema.target_count;

    return s->kind != REAL || s->column < before_targets ||
           d->present[(d->entities[w->entity].first + r) * d->schema.target_count + s->column - before_targets];
}

static size_t bin_at(const struct work *w, const struct series *s, size_t r)
{
    const struct tft_data *d = w->data;
    size_t row = d->entities[w->entity].first + r, code;

    switch (s->kind) {
    case REAL:
        return halay_bins_find(s->edges, s->bins, (double)real_at(w, s, r));
    case CATEGORY:
        code = (size_t)d->categories[row * d->cat_count + s->column];
        return code < s->named ? code : code == s->unknown ? s->bins - 1 : s->named;
    case MISSING:
        return !d->present[row * d->schema.target_count + s->column];
    }
    return 0;
}

/* Bins by the values of the past. 0: there are too few. */
static int fit(struct work *w, struct series *s)
{
    size_t n = 0;

    for (size_t r = 0; r < w->rows; r++)
        if (w->slots[r] < RECENT && is_measured(w, s, r))
            w->sorted[n++] = s->kind == REAL ? (double)real_at(w, s, r) : 0;
    if (n >= LEAST_VALUES && s->kind == REAL)
        halay_bins_fit(w->sorted, n, s->bins, s->edges);
    return n >= LEAST_VALUES;
}

/* Count the rows of each slot, and those of the recent span. */
static void count(struct work *w, struct series *s)
{
    size_t slots = w->spans->slots, B = s->bins;

    memset(w->before, 0, (slots + 1) * B * sizeof *w->before);
    memset(s->recent, 0, sizeof s->recent);
    for (size_t r = 0; r < w->rows; r++) {
        if (w->slots[r] == NO_SLOT || !is_measured(w, s, r))
            continue;
        size_t bin = bin_at(w, s, r);
        if (w->slots[r] == RECENT)
            s->recent[bin]++;
        else
            w->before[(w->slots[r] + 1) * B + bin]++;
    }
    for (size_t k = B; k < (slots + 1) * B; k++)
        w->before[k] += w->before[k - B];
}

static uint64_t add_range(const struct work *w, const struct series *s, struct tft_slot_range range, uint64_t *counts)
{
    uint64_t all = 0;

    for (size_t k = 0; k < s->bins; k++) {
        uint64_t in = w->before[range.end * s->bins + k] - w->before[range.first * s->bins + k];
        counts[k] += in;
        all += in;
    }
    return all;
}

/* The reference of a block, or of the recent span; how many values it has. */
static uint64_t reference_of(const struct work *w, const struct series *s, size_t block,
                             uint64_t counts[HALAY_BINS_MAX])
{
    struct tft_slot_range ranges[TFT_RANGES_MOST];
    size_t n = tft_spans_reference(w->spans, block, ranges);
    uint64_t all = 0;

    memset(counts, 0, HALAY_BINS_MAX * sizeof *counts);
    for (size_t k = 0; k < n; k++)
        all += add_range(w, s, ranges[k], counts);
    return all;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static double missing_share(const uint64_t *counts)
{
    return (double)counts[1] / (double)(counts[0] + counts[1]);
}

/* Both distances; of what is missing, the difference of shares, which has no other. */
static void compare(const struct series *s, const uint64_t *reference, const uint64_t *recent, double *ks, double *psi)
{
    *ks = s->kind == REAL      ? halay_bins_ks(reference, recent, s->bins)
          : s->kind == MISSING ? fmax(missing_share(recent) - missing_share(reference), 0)
                               : NAN;
    *psi = s->kind == MISSING ? NAN : halay_bins_psi(reference, recent, s->bins, s->kind == REAL);
}

/* In each block that has half as many values as the fullest one, and a reference as large. */
static void compare_blocks(struct work *w, const struct series *s)
{
    uint64_t reference[HALAY_BINS_MAX], recent[HALAY_BINS_MAX], most = 0;

    for (size_t b = 0; b < w->spans->blocks; b++) {
        memset(recent, 0, sizeof recent);
        uint64_t n = add_range(w, s, (struct tft_slot_range){ b, b + w->spans->block }, recent);
        most = n > most ? n : most;
    }
    for (size_t b = 0; b < w->spans->blocks; b++) {
        memset(recent, 0, sizeof recent);
        uint64_t n = add_range(w, s, (struct tft_slot_range){ b, b + w->spans->block }, recent);
        w->ks[b] = w->psi[b] = NAN;
        if (tft_spans_counts(w->spans, b) && n >= LEAST_VALUES && 2 * n >= most &&
            reference_of(w, s, b, reference) >= n)
            compare(s, reference, recent, &w->ks[b], &w->psi[b]);
    }
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

/* Shares of groups: of bins of numbers the ten, of categories each. */
static json_t *shares_of(const uint64_t *counts, const size_t *group, size_t bins, size_t groups)
{
    double sums[HALAY_BINS_MAX] = { 0 }, all = 0;
    json_t *list = json_array();

    for (size_t k = 0; k < bins; k++) {
        sums[group[k]] += (double)counts[k];
        all += (double)counts[k];
    }
    for (size_t k = 0; k < groups; k++)
        json_array_append_new(list, json_real(all > 0 ? sums[k] / all : 0));
    return list;
}

/* Where a group of numbers ends, in the input's own unit; a category's name. */
static json_t *name_group(const struct work *w, const struct series *s, const size_t *group, size_t k)
{
    const struct tft_scaler *scaler = tft_data_scaler(w->data, w->entity, s->input);
    char number[NAME_MOST];
    const char *name;

    if (s->kind == REAL) {
        for (size_t bin = 0; bin + 1 < s->bins; bin++)
            if (group[bin] == k && group[bin + 1] != k)
                return json_real(tft_scaler_undo(scaler, s->edges[bin]));
        return json_null();
    }
    if (k >= s->named)
        return json_string(s->unknown != SIZE_MAX && k + 1 == s->bins ? "(not seen in training)" : "(others)");
    name = tft_encoding_name(&w->data->schema, &w->data->encoding, s->input, k);
    snprintf(number, sizeof number, "%zu", k);
    return json_string(name ? name : number);
}

static json_t *describe(const struct work *w, const struct series *s, const uint64_t *reference)
{
    size_t group[HALAY_BINS_MAX], groups = s->bins;
    json_t *row = json_pack("{s:s, s:s}", "entity", w->data->entities[w->entity].id, "input",
                            w->data->schema.inputs[s->input].name);
    json_t *names = json_array();

    if (s->kind == MISSING) {
        json_decref(names);
        json_object_set_new(row, "reference", json_real(missing_share(reference)));
        json_object_set_new(row, "recent", json_real(missing_share(s->recent)));
        return row;
    }
    for (size_t k = 0; k < s->bins; k++)
        group[k] = k;
    if (s->kind == REAL)
        groups = halay_bins_group(reference, s->bins, group);
    for (size_t k = 0; k < groups; k++)
        json_array_append_new(names, name_group(w, s, group, k));
    json_object_set_new(row, "reference", shares_of(reference, group, s->bins, groups));
    json_object_set_new(row, "recent", shares_of(s->recent, group, s->bins, groups));
    json_object_set_new(row, "groups", names);
    return row;
}

/* Samples of one distribution have an index of about (groups - 1) (1 / n + 1 / m), much where categories are many. */
static enum halay_status add_psi(const struct work *w, const struct series *s, const uint64_t *reference, double psi)
{
    json_t *row = describe(w, s, reference);
    double n = 0, m = 0, groups = (double)json_array_size(json_object_get(row, "groups"));

    for (size_t k = 0; k < s->bins; k++) {
        n += (double)reference[k];
        m += (double)s->recent[k];
    }
    json_object_set_new(row, "chance", json_real((groups - 1) * (1 / n + 1 / m)));
    return tft_findings_add(w->findings, "psi", psi, w->psi, least_distance, row);
}

/* Adds nothing, and counts the series, if there is too little to compare. */
static enum halay_status look_at(struct work *w, struct series *s, size_t *short_series)
{
    uint64_t reference[HALAY_BINS_MAX], n = 0;
    double ks, psi;
    enum halay_status status = HALAY_OK;

    if (!fit(w, s)) {
        ++*short_series;
        return HALAY_OK;
    }
    count(w, s);
    for (size_t k = 0; k < s->bins; k++)
        n += s->recent[k];
    if (n < LEAST_VALUES || reference_of(w, s, w->spans->blocks, reference) < n) {
        ++*short_series;
        return HALAY_OK;
    }
    compare_blocks(w, s);
    compare(s, reference, s->recent, &ks, &psi);
    if (!isnan(ks))
        status = tft_findings_add(w->findings, s->kind == MISSING ? "missing" : "ks", ks, w->ks,
                                  s->kind == MISSING ? least_share : least_distance, describe(w, s, reference));
    if (!status && !isnan(psi))
        status = add_psi(w, s, reference, psi);
    if (status)
        halay_error(w->log, "no memory for what was found");
    return status;
}

/* A column gives it, and it is no lag of another. */
static int is_own(const struct tft_data *d, size_t input)
{
    const struct tft_input *i = &d->schema.inputs[input];

    return i->source == TFT_FROM_COLUMN && (i->derivation == TFT_PLAIN || i->derivation == TFT_WAS_MISSING);
}

static struct series category_series(const struct tft_data *d, size_t k)
{
    size_t input = d->cats[k], all = tft_encoding_categories(&d->schema, &d->encoding, input);
    struct series s = { .kind = CATEGORY, .input = input, .column = k, .unknown = SIZE_MAX };
    int32_t code;

    if (tft_encoding_unknown(&d->schema, &d->encoding, input, &code))
        s.unknown = (size_t)code;
    const size_t known = all - (s.unknown != SIZE_MAX), most = HALAY_BINS_MAX - (s.unknown != SIZE_MAX);
    s.named = known > most ? most - 1 : known;
    s.bins = s.named + (known > most) + (s.unknown != SIZE_MAX);
    return s;
}

static enum halay_status look_at_entity(struct work *w, size_t *short_series)
{
    const struct tft_data *d = w->data;
    enum halay_status status = tft_data_check(d, d->entities[w->entity].first, d->entities[w->entity].rows);

    place_rows(w);
    for (size_t k = 0; k < d->real_count && !status; k++) {
        struct series s = { .kind = REAL, .input = d->reals[k], .column = k, .bins = HALAY_BINS_MAX };
        if (is_own(d, s.input))
            status = look_at(w, &s, short_series);
    }
    for (size_t k = 0; k < d->cat_count && !status; k++) {
        struct series s = category_series(d, k);
        if (is_own(d, s.input))
            status = look_at(w, &s, short_series);
    }
    for (size_t o = 0; o < d->schema.target_count && !status; o++) {
        struct series s = { .kind = MISSING, .input = d->schema.targets[o], .column = o, .bins = MISSING_BINS };
        status = look_at(w, &s, short_series);
    }
    return status;
}

enum halay_status tft_drift_of_inputs(struct halay_log *log, const struct tft_data *data, const struct tft_stop *stop,
                                      const struct tft_spans *spans, struct tft_findings *findings,
                                      size_t *short_series)
{
    struct work w = { .log = log, .data = data, .spans = spans, .findings = findings };
    enum halay_status status = work_init(&w);

    for (w.entity = 0; w.entity < data->entity_count && !status; w.entity++)
        status = tft_stop_asked(stop) ? HALAY_ERR_CANCELED : look_at_entity(&w, short_series);
    work_fini(&w);
    return status;
}
