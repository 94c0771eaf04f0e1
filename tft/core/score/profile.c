/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles. Zero-initialised object, destroy accepts it half-built.
 */
#include "tft/core/score/profile.h"
#include "base/bins.h"
#include "base/document.h"
#include "base/memory.h"
#include "tft/core/data/paths.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { FORMAT = 1, CRC_TEXT = 16 };

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static enum halay_status no_memory(struct halay_log *log)
{
    return halay_no_memory(log, "for a profile of the inputs");
}

void tft_profile_destroy(struct tft_profile *p)
{
    for (size_t i = 0; p && p->inputs && i < p->count; i++) {
        free(p->inputs[i].edges);
        free(p->inputs[i].then);
    }
    if (p)
        free(p->inputs);
    free(p);
}

static int is_judged(const struct tft_input *x)
{
    return x->source == TFT_FROM_COLUMN && x->derivation == TFT_PLAIN;
}

static size_t target_of(const struct tft_schema *s, size_t input)
{
    for (size_t o = 0; o < s->target_count; o++)
        if (s->targets[o] == input)
            return o;
    return SIZE_MAX;
}

static void list_inputs(const struct tft_data *ordered, struct tft_profile *p)
{
    const struct tft_schema *s = &ordered->schema;

    for (size_t k = 0; k < ordered->real_count; k++)
        if (is_judged(&s->inputs[ordered->reals[k]]))
            p->inputs[p->count++] = (struct tft_profile_input){ .input = ordered->reals[k],
                                                                .place = k,
                                                                .target = target_of(s, ordered->reals[k]),
                                                                .bins = TFT_PROFILE_BINS };
    for (size_t k = 0; k < ordered->cat_count; k++)
        if (is_judged(&s->inputs[ordered->cats[k]]))
            p->inputs[p->count++] =
                (struct tft_profile_input){ .input = ordered->cats[k],
                                            .place = k,
                                            .target = SIZE_MAX,
                                            .bins = tft_encoding_categories(s, &ordered->encoding, ordered->cats[k]),
                                            .is_category = 1 };
}

/* Returns a profile of all inputs, without numbers. */
static struct tft_profile *profile_create(const struct tft_schema *schema, const struct tft_encoding *encoding)
{
    struct tft_data ordered = { .schema = *schema, .encoding = *encoding }; /* borrows */
    struct tft_profile *p = calloc(1, sizeof *p);
    int is_good = p != NULL;

    tft_data_order_inputs(&ordered);
    if (p) {
        p->entity_count = encoding->entity_count;
        p->inputs = calloc(TFT_INPUTS_MAX, sizeof *p->inputs);
        is_good = p->inputs != NULL;
    }
    if (is_good)
        list_inputs(&ordered, p);
    for (size_t i = 0; is_good && i < p->count; i++) {
        struct tft_profile_input *x = &p->inputs[i];
        x->then = calloc(2 * x->bins + 1, sizeof *x->then);
        x->now = x->then ? x->then + x->bins : NULL;
        x->edges = x->is_category ? NULL : calloc(p->entity_count * TFT_PROFILE_EDGES + 1, sizeof *x->edges);
        is_good = x->then && (x->is_category || x->edges);
        for (size_t k = 0; x->edges && k < p->entity_count * TFT_PROFILE_EDGES; k++)
            x->edges[k] = NAN;
    }
    if (is_good)
        return p;
    tft_profile_destroy(p);
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* A row's value; NaN: none was measured. */
static float value_at(const struct tft_data *d, const struct tft_profile_input *x, size_t row)
{
    if (x->is_category)
        return d->categories[row * d->cat_count + x->place] < 0 ? NAN
                                                                : (float)d->categories[row * d->cat_count + x->place];
    if (x->target != SIZE_MAX && !d->present[row * d->schema.target_count + x->target])
        return NAN;
    return d->values[row * d->real_count + x->place];
}

static size_t bin_of(const float *edges, float value)
{
    size_t bin = 0;

    while (bin + 1 < TFT_PROFILE_BINS && value >= edges[bin + 1])
        bin++;
    return bin;
}

/* Returns nonzero if the entity's training span did not have such a value. */
static int is_outside(const struct tft_data *d, const struct tft_profile_input *x, const float *edges, float value)
{
    int32_t unknown;

    if (!x->is_category)
        return value < edges[0] || value > edges[TFT_PROFILE_BINS];
    return (size_t)value >= x->bins ||
           (tft_encoding_unknown(&d->schema, &d->encoding, x->input, &unknown) && (int32_t)value == unknown);
}

/* ---- the training span ------------------------------------------------------------------------------------------- */

/* Sets an entity's edges, and adds its values. values: room for its rows. */
static void learn_entity(const struct tft_data *d, size_t entity, struct tft_profile_input *x, double *values)
{
    size_t first = d->entities[entity].first, n = 0;
    size_t rows = tft_data_split_rows(d, entity, TFT_TRAIN);

    for (size_t row = first; row < first + rows; row++) {
        double value = (double)value_at(d, x, row);
        if (isfinite(value))
            values[n++] = value;
    }
    float *edges = x->is_category || !n ? NULL : x->edges + d->codes[entity] * TFT_PROFILE_EDGES;
    if (edges) {
        double between[TFT_PROFILE_BINS - 1];
        halay_bins_fit(values, n, TFT_PROFILE_BINS, between);
        for (size_t k = 1; k < TFT_PROFILE_BINS; k++)
            edges[k] = (float)between[k - 1];
        edges[0] = (float)values[0];
        edges[TFT_PROFILE_BINS] = (float)values[n - 1];
    }
    for (size_t i = 0; i < n; i++) {
        size_t bin = edges ? bin_of(edges, (float)values[i]) : (size_t)values[i];
        x->then[bin < x->bins ? bin : x->bins - 1]++;
    }
}

static void print_crc(const struct tft_encoding *encoding, char text[CRC_TEXT])
{
    char *dumped = json_dumps(encoding->document, JSON_SORT_KEYS | JSON_COMPACT);

    snprintf(text, CRC_TEXT, "%08lx", dumped ? crc32(0, (const Bytef *)dumped, (uInt)strlen(dumped)) : 0);
    free(dumped);
}

static json_t *input_json(const struct tft_profile *p, const struct tft_profile_input *x,
                          const struct tft_encoding *encoding)
{
    json_t *object = json_object(), *shares = json_array(), *entities = json_object();

    for (size_t k = 0; k < x->bins; k++)
        json_array_append_new(shares, json_integer((json_int_t)x->then[k]));
    json_object_set_new(object, "shares", shares);
    for (size_t e = 0; !x->is_category && e < p->entity_count; e++) {
        const float *edges = x->edges + e * TFT_PROFILE_EDGES;
        json_t *list = isnan(edges[0]) ? NULL : json_array();
        for (size_t k = 0; list && k < TFT_PROFILE_EDGES; k++)
            json_array_append_new(list, json_real((double)edges[k]));
        if (list)
            json_object_set_new(entities, encoding->ids[e], list);
    }
    if (x->is_category)
        json_decref(entities);
    else
        json_object_set_new(object, "edges", entities);
    return object;
}

enum halay_status tft_profile_make(struct halay_log *log, const struct tft_data *d, json_t **document)
{
    struct tft_profile *p = profile_create(&d->schema, &d->encoding);
    size_t rows = 1;
    char crc[CRC_TEXT];
    enum halay_status status = HALAY_OK;

    for (size_t e = 0; e < d->entity_count; e++)
        rows = d->entities[e].rows > rows ? d->entities[e].rows : rows;
    double *values = calloc(rows, sizeof *values);
    json_t *inputs = json_object();
    for (size_t e = 0; p && values && e < d->entity_count && !status; e++) {
        status = tft_data_check(d, d->entities[e].first, d->entities[e].rows);
        for (size_t i = 0; i < p->count && !status && d->codes[e] < p->entity_count; i++)
            learn_entity(d, e, &p->inputs[i], values);
    }
    for (size_t i = 0; p && i < p->count; i++)
        json_object_set_new(inputs, d->schema.inputs[p->inputs[i].input].name,
                            input_json(p, &p->inputs[i], &d->encoding));
    print_crc(&d->encoding, crc);
    if (!status && p && values)
        *document = json_pack("{si ss sO}", "format", FORMAT, "encoding", crc, "inputs", inputs);
    if (!status && (!p || !values || !*document))
        status = no_memory(log);
    json_decref(inputs);
    free(values);
    tft_profile_destroy(p);
    return status;
}

enum halay_status tft_profile_save(struct halay_log *log, const char *folder, const json_t *document)
{
    return halay_document_write(log, "", tft_path_in(folder, "profile.json").text, document);
}

/* ---- from a folder ----------------------------------------------------------------------------------------------- */

/* Returns 0 if the object does not describe such an input. */
static int take_input(const json_t *object, const struct tft_encoding *encoding, struct tft_profile *p,
                      struct tft_profile_input *x)
{
    const json_t *shares = json_object_get(object, "shares"), *edges = json_object_get(object, "edges");

    if (json_array_size(shares) != x->bins || (!x->is_category && !json_is_object(edges)))
        return 0;
    for (size_t k = 0; k < x->bins; k++) {
        const json_t *count = json_array_get(shares, k);
        if (!json_is_integer(count) || json_integer_value(count) < 0)
            return 0;
        x->then[k] = (uint64_t)json_integer_value(count);
    }
    for (size_t e = 0; !x->is_category && e < p->entity_count; e++) {
        const json_t *list = json_object_get(edges, encoding->ids[e]);
        if (list && json_array_size(list) != TFT_PROFILE_EDGES)
            return 0;
        for (size_t k = 0; list && k < TFT_PROFILE_EDGES; k++) {
            if (!json_is_number(json_array_get(list, k)))
                return 0;
            x->edges[e * TFT_PROFILE_EDGES + k] = (float)json_number_value(json_array_get(list, k));
        }
    }
    return 1;
}

/* Returns why a document is not a profile of this run; NULL if it is one. */
static const char *take_document(const json_t *document, const struct tft_schema *schema,
                                 const struct tft_encoding *encoding, struct tft_profile *p)
{
    const char *crc = json_string_value(json_object_get(document, "encoding"));
    const json_t *inputs = json_object_get(document, "inputs");
    char right[CRC_TEXT];

    print_crc(encoding, right);
    if (json_integer_value(json_object_get(document, "format")) != FORMAT || !crc || !json_is_object(inputs))
        return "is not a profile, or one of another version";
    if (strcmp(crc, right) != 0)
        return "is of another training";
    for (size_t i = 0; i < p->count; i++)
        if (!take_input(json_object_get(inputs, schema->inputs[p->inputs[i].input].name), encoding, p, &p->inputs[i]))
            return "is damaged";
    return NULL;
}

enum halay_status tft_profile_find(struct halay_log *log, const char *folder, const struct tft_schema *schema,
                                   const struct tft_encoding *encoding, struct tft_profile **profile)
{
    const struct tft_path path = tft_path_in(folder, "profile.json");
    json_t *document = NULL;

    *profile = NULL;
    if (access(path.text, F_OK))
        return HALAY_OK;
    struct tft_profile *p = profile_create(schema, encoding);
    const char *why = "cannot be read";
    if (p && !(document = json_load_file(path.text, 0, NULL)))
        why = "is damaged";
    else if (p)
        why = take_document(document, schema, encoding, p);
    if (p && why)
        halay_warning(log, "'%s' %s; 'halay-tft drift --profile' writes it again. Inputs are not compared with it",
                      path.text, why);
    json_decref(document);
    if (!p)
        return no_memory(log);
    if (why)
        tft_profile_destroy(p);
    else
        *profile = p;
    return HALAY_OK;
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

void tft_profile_clear(struct tft_profile *p)
{
    for (size_t i = 0; p && i < p->count; i++) {
        memset(p->inputs[i].now, 0, p->inputs[i].bins * sizeof *p->inputs[i].now);
        p->inputs[i].values = p->inputs[i].outside = 0;
    }
}

static void add_value(const struct tft_data *d, struct tft_profile_input *x, const float *edges, float value)
{
    size_t bin = x->is_category ? (size_t)value : bin_of(edges, value);

    x->now[bin < x->bins ? bin : x->bins - 1]++;
    x->outside += (uint64_t)is_outside(d, x, edges, value);
    if (++x->values < TFT_PROFILE_VALUES)
        return;
    x->values = 0;
    for (size_t k = 0; k < x->bins; k++)
        x->values += x->now[k] /= 2;
    x->outside /= 2;
}

static void add_window(struct tft_profile *p, const struct tft_data *d, const struct tft_window *w)
{
    const size_t entity = d->codes[w->entity];

    for (size_t i = 0; i < p->count; i++) {
        struct tft_profile_input *x = &p->inputs[i];
        const float *edges = x->is_category || entity >= p->entity_count ? NULL : x->edges + entity * TFT_PROFILE_EDGES;
        if (!x->is_category && (!edges || isnan(edges[0]))) /* an entity that training has not seen */
            continue;
        for (size_t row = w->origin - w->length; row < w->origin; row++) {
            float value = value_at(d, x, row);
            if (isfinite(value))
                add_value(d, x, edges, value);
        }
    }
}

enum halay_status tft_profile_add(struct tft_profile *p, const struct tft_windows *windows)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; p && i < windows->count && !status; i++) {
        const struct tft_window w = tft_windows_get(windows, i);
        status = tft_data_check(windows->data, w.origin - w.length, w.length);
        if (!status)
            add_window(p, windows->data, &w);
    }
    return status;
}

json_t *tft_profile_json(const struct tft_profile *p, const struct tft_schema *schema)
{
    json_t *list = json_array();

    for (size_t i = 0; p && i < p->count; i++) {
        const struct tft_profile_input *x = &p->inputs[i];
        if (!x->values)
            continue;
        json_array_append_new(list, json_pack("{ss sI sf sf}", "input", schema->inputs[x->input].name, "values",
                                              (json_int_t)x->values, "outside", (double)x->outside / (double)x->values,
                                              "psi", halay_bins_psi(x->then, x->now, x->bins, 0)));
    }
    return list;
}
