/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of inputs. A series (of one entity and input) becomes the number of a bin for each row, then counts of bins up
 * to each slot, so that those of any range of slots are a difference. One series at a time: memory is that of a series.
 */
#include "base/bins.h"
#include "tft/tools/drift/drift.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_VALUES = 8, MISSING_BINS = 2, NAME_MOST = 32, CHUNK = 2048 };
enum { NO_SLOT = UINT32_MAX, RECENT = UINT32_MAX - 1 };

static const double least_distance = 0.02, least_share = 0.005;

enum kind { REAL, CATEGORY, MISSING };

struct work {
    const struct tft_drift *drift;
    const struct tft_spans *spans;
    struct tft_findings *findings;
    size_t entity, rows;
    const char *name; /* the entity's */
    uint32_t *slots;  /* owned: (rows of the longest entity) of each row */
    double *sorted;   /* owned: as long */
    uint64_t *before; /* owned: (slots + 1, bins) counts in slots before one */
    double *ks, *psi; /* owned: (blocks) */
    double cells[CHUNK];
    int64_t moments[CHUNK];
    unsigned char is_gap[CHUNK];
};

/* A series: what its rows are. */
struct series {
    enum kind kind;
    size_t input; /* over time (halay_tft_data_input) */
    const char *name;
    size_t bins;
    /* For categories: the first `named` bins have one each; the next one has those that are too many, if any; the last
     * one those that training has not seen, if they have a code. */
    size_t named, unknown;
    double edges[HALAY_BINS_MAX - 1];
    uint64_t recent[HALAY_BINS_MAX];
};

static enum halay_status work_init(struct work *w)
{
    size_t longest = 1, rows;

    for (size_t e = 0; halay_tft_data_entity(w->drift->data, e, &rows); e++)
        longest = rows > longest ? rows : longest;
    w->slots = calloc(longest, sizeof *w->slots);
    w->sorted = calloc(longest, sizeof *w->sorted);
    w->before = calloc((w->spans->slots + 1) * HALAY_BINS_MAX, sizeof *w->before);
    w->ks = calloc(w->spans->blocks + 1, sizeof *w->ks);
    w->psi = calloc(w->spans->blocks + 1, sizeof *w->psi);
    if (w->slots && w->sorted && w->before && w->ks && w->psi)
        return HALAY_OK;
    halay_error(w->drift->log, "no memory to compare entities of %zu rows", longest);
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

static uint32_t slot_of(const struct tft_spans *spans, int64_t moment)
{
    const size_t slot = moment < spans->begin ? spans->slots : tft_spans_slot(spans, moment);

    if (slot < spans->slots)
        return (uint32_t)slot;
    return moment >= spans->since && moment < spans->until ? RECENT : NO_SLOT;
}

/* Rows of a chunk that begins at `first`. */
static size_t chunk_rows(const struct work *w, size_t first)
{
    return w->rows - first < CHUNK ? w->rows - first : CHUNK;
}

/* Finds the slot of each row of the entity; rows of gaps have none. */
static enum halay_status place_rows(struct work *w)
{
    enum halay_status status = HALAY_OK;

    w->name = halay_tft_data_entity(w->drift->data, w->entity, &w->rows);
    for (size_t first = 0; first < w->rows && !status; first += CHUNK) {
        const size_t n = chunk_rows(w, first);
        status = halay_tft_data_times(w->drift->data, w->entity, first, n, w->moments, w->is_gap);
        for (size_t r = 0; r < n && !status; r++)
            w->slots[first + r] = w->is_gap[r] ? NO_SLOT : slot_of(w->spans, w->moments[r]);
    }
    return status;
}

static enum halay_status read_cells(struct work *w, const struct series *s, size_t first)
{
    return halay_tft_data_cells(w->drift->data, w->entity, s->input, first, chunk_rows(w, first), w->cells);
}

/* Returns nonzero if a cell counts: a target's only if it was measured. */
static int is_counted(const struct series *s, double cell)
{
    return s->kind != REAL || !isnan(cell);
}

static size_t bin_of(const struct series *s, double cell)
{
    if (s->kind == REAL)
        return halay_bins_find(s->edges, s->bins, cell);
    if (s->kind == MISSING)
        return isnan(cell);
    const size_t code = cell < 0 ? SIZE_MAX : (size_t)cell;
    return code < s->named ? code : code == s->unknown ? s->bins - 1 : s->named;
}

/* Makes bins by the values of the past. *is_enough: nonzero if their number suffices. */
static enum halay_status fit_bins(struct work *w, struct series *s, int *is_enough)
{
    size_t n = 0;

    for (size_t first = 0; first < w->rows; first += CHUNK) {
        enum halay_status status = read_cells(w, s, first);
        if (status)
            return status;
        for (size_t r = 0; r < chunk_rows(w, first); r++)
            if (w->slots[first + r] < RECENT && is_counted(s, w->cells[r]))
                w->sorted[n++] = w->cells[r];
    }
    *is_enough = n >= LEAST_VALUES;
    if (*is_enough && s->kind == REAL)
        halay_bins_fit(w->sorted, n, s->bins, s->edges);
    return HALAY_OK;
}

/* Counts the rows of each slot, and those of the recent span. */
static enum halay_status count_rows(struct work *w, struct series *s)
{
    size_t slots = w->spans->slots, B = s->bins;

    memset(w->before, 0, (slots + 1) * B * sizeof *w->before);
    memset(s->recent, 0, sizeof s->recent);
    for (size_t first = 0; first < w->rows; first += CHUNK) {
        enum halay_status status = read_cells(w, s, first);
        if (status)
            return status;
        for (size_t r = 0; r < chunk_rows(w, first); r++) {
            const uint32_t slot = w->slots[first + r];
            if (slot == NO_SLOT || !is_counted(s, w->cells[r]))
                continue;
            uint64_t *counts = slot == RECENT ? s->recent : w->before + (slot + 1) * B;
            counts[bin_of(s, w->cells[r])]++;
        }
    }
    for (size_t k = B; k < (slots + 1) * B; k++)
        w->before[k] += w->before[k - B];
    return HALAY_OK;
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

/* Counts the values of the reference of a block, or of the recent span. Returns their number. */
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

/* Computes both distances; for missing values *ks is the difference of shares, and *psi is NAN. */
static void compare_counts(const struct series *s, const uint64_t *reference, const uint64_t *recent, double *ks,
                           double *psi)
{
    *ks = s->kind == REAL      ? halay_bins_ks(reference, recent, s->bins)
          : s->kind == MISSING ? fmax(missing_share(recent) - missing_share(reference), 0)
                               : NAN;
    *psi = s->kind == MISSING ? NAN : halay_bins_psi(reference, recent, s->bins, s->kind == REAL);
}

/* Compares each block that has at least half as many values as the fullest one, and a reference as large. */
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
            compare_counts(s, reference, recent, &w->ks[b], &w->psi[b]);
    }
}

/* ---- what is written --------------------------------------------------------------------------------------------- */

/* Returns the shares of groups: ten of bins of numbers, or one for each category. */
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

/* Returns the end of a group of numbers, in the input's own unit, or a category's name. */
static json_t *name_group(const struct work *w, const struct series *s, const size_t *group, size_t k)
{
    char number[NAME_MOST];
    const char *name;

    if (s->kind == REAL) {
        for (size_t bin = 0; bin + 1 < s->bins; bin++)
            if (group[bin] == k && group[bin + 1] != k)
                return json_real(s->edges[bin]);
        return json_null();
    }
    if (k >= s->named)
        return json_string(s->unknown != SIZE_MAX && k + 1 == s->bins ? "(not seen in training)" : "(others)");
    name = halay_tft_data_category(w->drift->data, s->input, k);
    snprintf(number, sizeof number, "%zu", k);
    return json_string(name ? name : number);
}

static json_t *describe_series(const struct work *w, const struct series *s, const uint64_t *reference)
{
    size_t group[HALAY_BINS_MAX], groups = s->bins;
    json_t *row = json_pack("{s:s, s:s}", "entity", w->name, "input", s->name);
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

/* Samples of one distribution have an index of about (groups - 1) (1 / n + 1 / m), which is large where categories are
 * many. */
static enum halay_status add_psi(const struct work *w, const struct series *s, const uint64_t *reference, double psi)
{
    json_t *row = describe_series(w, s, reference);
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
    int is_enough = 0;
    enum halay_status status = fit_bins(w, s, &is_enough);

    if (!status && !is_enough)
        ++*short_series;
    if (status || !is_enough || (status = count_rows(w, s)))
        return status;
    for (size_t k = 0; k < s->bins; k++)
        n += s->recent[k];
    if (n < LEAST_VALUES || reference_of(w, s, w->spans->blocks, reference) < n) {
        ++*short_series;
        return HALAY_OK;
    }
    compare_blocks(w, s);
    compare_counts(s, reference, s->recent, &ks, &psi);
    if (!isnan(ks))
        status = tft_findings_add(w->findings, s->kind == MISSING ? "missing" : "ks", ks, w->ks,
                                  s->kind == MISSING ? least_share : least_distance, describe_series(w, s, reference));
    if (!status && !isnan(psi))
        status = add_psi(w, s, reference, psi);
    if (status)
        halay_error(w->drift->log, "no memory for what was found");
    return status;
}

static struct series series_of(const struct halay_tft_input *x, size_t input)
{
    struct series s = { .kind = REAL, .input = input, .name = x->name, .bins = HALAY_BINS_MAX, .unknown = x->unknown };

    if (!x->is_category)
        return s;
    const size_t has_unknown = x->unknown != SIZE_MAX;
    const size_t known = x->categories - has_unknown, most = HALAY_BINS_MAX - has_unknown;
    s.kind = CATEGORY;
    s.named = known > most ? most - 1 : known;
    s.bins = s.named + (known > most) + has_unknown;
    return s;
}

/* All inputs' distributions, then what is missing of the targets. */
static enum halay_status look_at_entity(struct work *w, size_t *short_series)
{
    enum halay_status status = place_rows(w);

    for (int is_missing = 0; is_missing < 2; is_missing++)
        for (size_t k = 0; k < w->drift->extent.inputs && !status; k++) {
            struct halay_tft_input x = { .struct_size = sizeof x };
            status = halay_tft_data_input(w->drift->data, k, &x);
            struct series s = series_of(&x, k);
            if (is_missing) {
                s.kind = MISSING;
                s.bins = MISSING_BINS;
            }
            if (!status && (is_missing ? x.is_target : x.is_own))
                status = look_at(w, &s, short_series);
        }
    return status;
}

enum halay_status tft_drift_of_inputs(const struct tft_drift *drift, const struct tft_spans *spans,
                                      struct tft_findings *findings, size_t *short_series)
{
    struct work w = { .drift = drift, .spans = spans, .findings = findings };
    enum halay_status status = work_init(&w);

    for (w.entity = 0; w.entity < drift->extent.entities && !status; w.entity++)
        status = look_at_entity(&w, short_series);
    work_fini(&w);
    return status;
}
