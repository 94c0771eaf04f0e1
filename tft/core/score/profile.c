/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles. All memory of one is its region's.
 */
#include "tft/core/score/profile.h"
#include "base/bins.h"
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
    if (p)
        halay_region_fini(&p->memory);
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

/* Adds an input, without numbers; x: what it is. */
static void add_input(const struct tft_data *ordered, struct tft_profile_input x, struct tft_profile *p)
{
    if (!is_judged(&ordered->schema.inputs[x.input]))
        return;
    x.target = target_of(&ordered->schema, x.input);
    x.bins = x.is_category ? tft_encoding_categories(&ordered->schema, &ordered->encoding, x.input) : TFT_PROFILE_BINS;
    x.then = halay_region_alloc(&p->memory, x.bins, sizeof *x.then);
    x.now = halay_region_alloc(&p->memory, x.bins, sizeof *x.now);
    if (!x.is_category) {
        const size_t edges = p->entity_count * TFT_PROFILE_EDGES;
        x.edges = halay_region_alloc(&p->memory, edges, sizeof *x.edges);
        for (size_t k = 0; x.edges && k < edges; k++)
            x.edges[k] = NAN;
    }
    p->inputs[p->count++] = x;
}

/* Returns a profile of all inputs, without numbers; NULL without memory. */
static struct tft_profile *profile_create(const struct tft_schema *schema, const struct tft_encoding *encoding)
{
    struct tft_data ordered = { .schema = *schema, .encoding = *encoding }; /* borrows */
    struct tft_profile *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    tft_data_order_inputs(&ordered);
    p->entity_count = encoding->entity_count;
    for (size_t k = 0; k < ordered.real_count; k++)
        add_input(&ordered, (struct tft_profile_input){ .input = ordered.reals[k], .place = k }, p);
    for (size_t k = 0; k < ordered.cat_count; k++)
        add_input(&ordered, (struct tft_profile_input){ .input = ordered.cats[k], .place = k, .is_category = 1 }, p);
    if (!p->memory.failed)
        return p;
    tft_profile_destroy(p);
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* A row's value; NaN: none was measured. */
static float value_at(const struct tft_data *d, const struct tft_profile_input *x, size_t row)
{
    if (x->is_category) {
        const int32_t category = d->categories[row * d->cat_count + x->place];
        return category < 0 ? NAN : (float)category;
    }
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

/* Returns the edges of an input's entities by id, of those that have values. */
static json_t *edges_json(const struct tft_profile *p, const struct tft_profile_input *x,
                          const struct tft_encoding *encoding)
{
    json_t *entities = json_object();

    for (size_t e = 0; e < p->entity_count; e++) {
        const float *edges = x->edges + e * TFT_PROFILE_EDGES;
        if (isnan(edges[0]))
            continue;
        json_t *list = json_array();
        for (size_t k = 0; k < TFT_PROFILE_EDGES; k++)
            json_array_append_new(list, json_real((double)edges[k]));
        json_object_set_new(entities, encoding->ids[e], list);
    }
    return entities;
}

static json_t *inputs_json(const struct tft_profile *p, const struct tft_data *d)
{
    json_t *inputs = json_object();

    for (size_t i = 0; i < p->count; i++) {
        const struct tft_profile_input *x = &p->inputs[i];
        json_t *object = json_object(), *shares = json_array();
        for (size_t k = 0; k < x->bins; k++)
            json_array_append_new(shares, json_integer((json_int_t)x->then[k]));
        json_object_set_new(object, "shares", shares);
        if (!x->is_category)
            json_object_set_new(object, "edges", edges_json(p, x, &d->encoding));
        json_object_set_new(inputs, d->schema.inputs[x->input].name, object);
    }
    return inputs;
}

/* Takes in the training span. */
static enum halay_status learn_data(const struct tft_data *d, struct tft_profile *p, double *values)
{
    enum halay_status status;

    for (size_t e = 0; e < d->entity_count; e++) {
        if ((status = tft_data_check(d, d->entities[e].first, d->entities[e].rows)))
            return status;
        for (size_t i = 0; i < p->count && d->codes[e] < p->entity_count; i++)
            learn_entity(d, e, &p->inputs[i], values);
    }
    return HALAY_OK;
}

enum halay_status tft_profile_make(struct halay_log *log, const struct tft_data *d, json_t **document)
{
    struct tft_profile *p = profile_create(&d->schema, &d->encoding);
    double *values = NULL;
    size_t rows = 0;
    char crc[CRC_TEXT];

    for (size_t e = 0; e < d->entity_count; e++)
        rows = d->entities[e].rows > rows ? d->entities[e].rows : rows;
    if (p)
        values = halay_region_alloc(&p->memory, rows, sizeof *values);
    enum halay_status status = values ? learn_data(d, p, values) : no_memory(log);
    if (!status) {
        print_crc(&d->encoding, crc);
        *document = json_pack("{si ss so}", "format", FORMAT, "encoding", crc, "inputs", inputs_json(p, d));
        status = *document ? HALAY_OK : no_memory(log);
    }
    tft_profile_destroy(p);
    return status;
}

enum halay_status tft_profile_save(struct halay_log *log, const char *folder, const json_t *document)
{
    return tft_folder_write(log, folder, "profile.json", document);
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

static void warn_unused(struct halay_log *log, const char *path, const char *why)
{
    halay_warning(log, "'%s' %s; 'halay-tft drift --profile' writes it again. Inputs are not compared with it", path,
                  why);
}

json_t *tft_profile_read(struct halay_log *log, const char *folder)
{
    const struct tft_path path = tft_path_in(folder, "profile.json");

    if (access(path.text, F_OK))
        return NULL;
    json_t *document = json_load_file(path.text, 0, NULL);
    if (!document)
        warn_unused(log, path.text, "is damaged");
    return document;
}

enum halay_status tft_profile_of(struct halay_log *log, const char *folder, const json_t *document,
                                 const struct tft_schema *schema, const struct tft_encoding *encoding,
                                 struct tft_profile **profile)
{
    *profile = NULL;
    if (!document)
        return HALAY_OK;
    struct tft_profile *p = profile_create(schema, encoding);
    if (!p)
        return no_memory(log);
    const char *why = take_document(document, schema, encoding, p);
    if (!why) {
        *profile = p;
        return HALAY_OK;
    }
    warn_unused(log, tft_path_in(folder, "profile.json").text, why);
    tft_profile_destroy(p);
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
    enum halay_status status;

    for (size_t i = 0; p && i < windows->count; i++) {
        const struct tft_window w = tft_windows_get(windows, i);
        if ((status = tft_data_check(windows->data, w.origin - w.length, w.length)))
            return status;
        add_window(p, windows->data, &w);
    }
    return HALAY_OK;
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
