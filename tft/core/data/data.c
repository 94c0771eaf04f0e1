/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: from a table and an encoding to the one block from which the model's batches are gathered.
 *
 * The block contains the arrays one after the other, those with the largest elements first. An entity's rows are left
 * out until every input, and every lag, has a value. Cleanup: zeroed first, fini accepts a partly initialised object.
 */
#include "tft/core/data/data.h"
#include "base/memory.h"
#include "tft/core/data/encoding.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

static void list_variables(const struct tft_schema *s, enum tft_role role, int is_category, size_t *list, size_t *count)
{
    for (size_t i = 0; i < s->input_count; i++) {
        const struct tft_role_traits *of = &tft_roles[s->inputs[i].role];
        if (of->is_variable && of->model == role && !s->inputs[i].is_category == !is_category)
            list[(*count)++] = i;
    }
}

void tft_data_order_inputs(struct tft_data *d)
{
    const struct tft_schema *s = &d->schema;
    size_t apart = 0; /* inputs that do not become variables */

    d->real_count = d->known_count = d->cat_count = d->static_count = d->static_cat_count = 0;
    list_variables(s, TFT_OBSERVED, 0, d->reals, &d->real_count);
    d->known_count = d->real_count;
    list_variables(s, TFT_KNOWN, 0, d->reals, &d->real_count);
    d->known_count = d->real_count - d->known_count;
    list_variables(s, TFT_TARGET, 0, d->reals, &d->real_count);
    list_variables(s, TFT_OBSERVED, 1, d->cats, &d->cat_count);
    list_variables(s, TFT_KNOWN, 1, d->cats, &d->cat_count);
    list_variables(s, TFT_STATIC, 0, d->statics, &d->static_count);
    list_variables(s, TFT_STATIC, 1, d->static_cats, &d->static_cat_count);
    d->weight_count = s->has_weight != 0;
    for (size_t i = 0; i < s->input_count; i++)
        apart += !tft_roles[s->inputs[i].role].is_variable;
    assert(d->real_count + d->cat_count + d->static_count + d->static_cat_count + apart == s->input_count);
    (void)apart;
}

#define AT(member) offsetof(struct tft_data, member)
enum { ONE = 0 }; /* in place of a member */

/* The arrays: where their addresses are, how many entries they have, and how many items of what size an entry has. */
static const struct {
    size_t at, entries, items, size;
} arrays_of[TFT_ARRAY_COUNT] = {
    [TFT_ARRAY_TARGET] = { AT(target), AT(rows), AT(schema.target_count), sizeof(double) },
    [TFT_ARRAY_GAPS] = { AT(gaps), AT(gap_count), ONE, sizeof(struct tft_gap) },
    [TFT_ARRAY_BRIDGES] = { AT(bridges), AT(bridge_count), ONE, sizeof(struct tft_bridge) },
    [TFT_ARRAY_VALUES] = { AT(values), AT(rows), AT(real_count), sizeof(float) },
    [TFT_ARRAY_CATEGORIES] = { AT(categories), AT(rows), AT(cat_count), sizeof(int32_t) },
    [TFT_ARRAY_STATIC_VALUES] = { AT(static_values), AT(entity_count), AT(static_count), sizeof(float) },
    [TFT_ARRAY_STATIC_CODES] = { AT(static_codes), AT(entity_count), AT(static_cat_count), sizeof(int32_t) },
    [TFT_ARRAY_WEIGHTS] = { AT(weights), AT(rows), AT(weight_count), sizeof(float) },
    [TFT_ARRAY_PRESENT] = { AT(present), AT(rows), AT(schema.target_count), sizeof(uint8_t) },
};

static size_t count_at(const struct tft_data *d, size_t at)
{
    return at == ONE ? 1 : *(const size_t *)(const void *)((const char *)d + at);
}

static size_t entry_bytes(const struct tft_data *d, int array)
{
    return count_at(d, arrays_of[array].items) * arrays_of[array].size;
}

size_t tft_data_row_bytes(const struct tft_data *d, enum tft_array array)
{
    return arrays_of[array].entries == AT(rows) ? entry_bytes(d, array) : 0;
}

enum halay_status tft_data_array_bytes(const struct tft_data *d, size_t bytes[TFT_ARRAY_COUNT])
{
    for (int k = 0; k < TFT_ARRAY_COUNT; k++)
        if (halay_mul_overflows(count_at(d, arrays_of[k].entries), entry_bytes(d, k), &bytes[k]))
            return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

void tft_data_set_arrays(const void *const arrays[TFT_ARRAY_COUNT], struct tft_data *d)
{
    for (int k = 0; k < TFT_ARRAY_COUNT; k++)
        memcpy((char *)d + arrays_of[k].at, &arrays[k], sizeof arrays[k]);
    d->weights = d->weight_count ? d->weights : NULL;
}

void tft_data_get_arrays(const struct tft_data *d, const void *arrays[TFT_ARRAY_COUNT])
{
    for (int k = 0; k < TFT_ARRAY_COUNT; k++)
        memcpy(&arrays[k], (const char *)d + arrays_of[k].at, sizeof arrays[k]);
}

enum halay_status tft_data_allocate(struct tft_data *d, size_t count, int has_own)
{
    d->entities = halay_region_alloc(&d->memory, count, sizeof *d->entities);
    d->codes = halay_region_alloc(&d->memory, count, sizeof *d->codes);
    if (has_own)
        d->own = halay_region_alloc(&d->memory, count, d->schema.input_count * sizeof *d->own);
    return d->memory.failed ? HALAY_ERR_NO_MEMORY : HALAY_OK;
}

enum halay_status tft_data_add_entity(struct tft_data *d, const char *id, size_t code, int64_t start, size_t rows)
{
    char *copy = halay_region_alloc(&d->memory, strlen(id) + 1, 1);

    if (!copy)
        return HALAY_ERR_NO_MEMORY;
    strcpy(copy, id);
    d->codes[d->entity_count] = code;
    d->entities[d->entity_count++] = (struct tft_entity){ .id = copy, .start = start, .first = d->rows, .rows = rows };
    d->rows += rows;
    return HALAY_OK;
}

const struct tft_scaler *tft_data_scaler(const struct tft_data *d, size_t entity, size_t input)
{
    if (d->own && d->codes[entity] == d->encoding.entity_count)
        return &d->own[entity * d->schema.input_count + input];
    return &d->encoding.scalers[d->codes[entity] * d->schema.input_count + input];
}

const struct tft_scaler *tft_data_target_scaler(const struct tft_data *data, size_t entity, size_t target)
{
    static const struct tft_scaler none = { .scale = 1 };

    return tft_loss_is_unscaled(data->loss) ? &none : tft_data_scaler(data, entity, data->schema.targets[target]);
}

/* Returns nonzero if one bridge precedes another one. */
static int comes_before(const struct tft_bridge *a, const struct tft_bridge *b)
{
    if (a->entity != b->entity)
        return a->entity < b->entity;
    return a->column != b->column ? a->column < b->column : a->first < b->first;
}

const struct tft_bridge *tft_data_bridge(const struct tft_data *d, size_t entity, size_t input, int64_t row)
{
    const struct tft_bridge key = { .column = (uint32_t)input, .entity = (uint32_t)entity, .first = row };
    size_t low = 0, high = d->bridge_count; /* bridges before low are not after the key */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (comes_before(&key, &d->bridges[middle]))
            high = middle;
        else
            low = middle + 1;
    }
    const struct tft_bridge *b = low ? &d->bridges[low - 1] : NULL;
    return b && b->entity == entity && b->column == input && (uint64_t)(row - b->first) < b->rows ? b : NULL;
}

int64_t tft_data_time(const struct tft_data *data, size_t entity, size_t row)
{
    const struct tft_entity *e = &data->entities[entity];

    return tft_period_add(&data->schema.every, e->start, (int64_t)row - (int64_t)e->first);
}

size_t tft_data_rows_before(const struct tft_data *data, size_t entity, int64_t time)
{
    const struct tft_entity *e = &data->entities[entity];

    if (time <= e->start)
        return 0;
    uint64_t steps = (uint64_t)tft_period_between(&data->schema.every, e->start, time - 1) + 1;
    return steps < e->rows ? (size_t)steps : e->rows;
}

size_t tft_data_split_rows(const struct tft_data *data, size_t entity, enum tft_split split)
{
    const struct tft_schema *s = &data->schema;

    if (split == TFT_SPLIT_COUNT)
        return 0;
    if (!s->splits_by_entity)
        return tft_data_rows_before(data, entity, s->split_end[split]);
    const size_t rows = data->entities[entity].rows;
    return rows > s->split_left[split] ? rows - s->split_left[split] : 0;
}

int64_t tft_data_split_end(const struct tft_data *data, enum tft_split split)
{
    int64_t latest = INT64_MIN;

    if (!data->schema.splits_by_entity)
        return data->schema.split_end[split];
    for (size_t e = 0; e < data->entity_count; e++) {
        int64_t end = tft_data_time(data, e, data->entities[e].first + tft_data_split_rows(data, e, split));
        latest = end > latest ? end : latest;
    }
    return latest;
}

enum halay_status tft_data_check(const struct tft_data *d, size_t first, size_t count)
{
    enum halay_status status = HALAY_OK;

    for (int k = 0; d->file && k < TFT_ARRAY_COUNT && !status; k++) {
        size_t row = tft_data_row_bytes(d, (enum tft_array)k);
        if (row)
            status = tft_htd_check(d->file, HTD_ARRAYS + k, first * row, count * row);
    }
    return status;
}

/* ---- from a table ---- */

struct maker {
    struct halay_log *log;
    const struct tft_table *table;
    struct tft_data *d;
    struct tft_view view;
    const struct tft_series **series; /* owned: (entities) of each */
    size_t *codes[TFT_INPUTS_MAX]; /* owned: (texts) of a category's column: codes, SIZE_MAX before the first lookup */
    struct {
        double *target;
        struct tft_gap *gaps;
        struct tft_bridge *bridges;
        float *values;
        int32_t *categories;
        float *static_values;
        int32_t *static_codes;
        float *weights;
        uint8_t *present;
    } to; /* the arrays, to be written, by number */
};

static enum halay_status add_entity(struct maker *m, const struct tft_series *s)
{
    struct tft_data *d = m->d;
    enum halay_status status = tft_encoding_check_entity(m->log, &HALAY_ERROR_NOWHERE, &d->schema, &d->encoding, s->id);

    if (status)
        return status;
    if (s->rows <= s->lead) {
        d->summary.entities_short++;
        return HALAY_OK;
    }
    if ((status = tft_data_add_entity(d, s->id, tft_encoding_entity(&d->encoding, s->id),
                                      tft_period_add(&d->schema.every, s->start, (int64_t)s->lead), s->rows - s->lead)))
        return status;
    d->bridge_count += s->bridge_count;
    m->series[d->entity_count - 1] = s;
    return HALAY_OK;
}

/* Returns nonzero if there are entities that training has not seen and that have scalers of their own. */
static int has_own(const struct maker *m)
{
    size_t unseen = 0;

    for (size_t e = 0; e < m->table->series_count && tft_own_scalers_apply(&m->d->schema); e++)
        unseen += m->table->series[e].rows > m->table->series[e].lead &&
                  tft_encoding_entity(&m->d->encoding, m->table->series[e].id) == m->d->encoding.entity_count;
    return unseen > 0;
}

/* Lists the table's entities that have rows, and counts these rows. */
static enum halay_status list_entities(struct maker *m)
{
    struct tft_data *d = m->d;
    enum halay_status status = tft_data_allocate(d, m->table->series_count, has_own(m));

    m->series = calloc(m->table->series_count + 1, sizeof *m->series);
    if (status || !m->series)
        return HALAY_ERR_NO_MEMORY;
    for (size_t e = 0; e < m->table->series_count; e++)
        if ((status = add_entity(m, &m->table->series[e])))
            return status;
    if (d->entity_count)
        return HALAY_OK;
    return halay_fail(m->log, HALAY_ERR_FORMAT, "no entity has a row with a value of every input%s",
                      d->schema.longest_lag ? " and its lags" : "");
}

/* Returns nonzero if windows must not contain this row of a series. The missing value may be one that a lag needs. */
static int is_row_dropped(const struct tft_schema *s, const struct tft_series *series, size_t row)
{
    if (!series->dropped)
        return 0;
    if (series->dropped[row])
        return 1;
    for (size_t i = 0; s->longest_lag && i < s->input_count; i++)
        if (s->inputs[i].derivation == TFT_LAG && series->dropped[row - s->inputs[i].lag])
            return 1;
    return 0;
}

/* Finds runs of dropped rows: counts them, and writes them if the list is allocated. */
static void find_gaps(struct maker *m)
{
    struct tft_data *d = m->d;
    size_t n = 0;

    for (size_t e = 0; e < d->entity_count; e++) {
        int open = 0;
        for (size_t i = 0; i < d->entities[e].rows; i++) {
            int dropped = is_row_dropped(&d->schema, m->series[e], i + m->series[e]->lead);
            if (dropped && !open && m->to.gaps)
                m->to.gaps[n] = (struct tft_gap){ .first = d->entities[e].first + i };
            n += (size_t)(dropped && !open);
            if (dropped && m->to.gaps)
                m->to.gaps[n - 1].rows++;
            open = dropped;
        }
    }
    d->gap_count = n;
}

static enum halay_status allocate_bytes(struct maker *m, size_t bytes, char **at)
{
    void *memory;

    m->d->spill = m->table->spill;
    if (!m->d->spill) {
        *at = m->d->block = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);
        return *at ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status = tft_spill_get(m->d->spill, bytes, &memory);
    if (!status)
        *at = memory;
    return status == HALAY_ERR_NO_MEMORY ? HALAY_ERR_SYSTEM : status; /* the spill has logged it */
}

static size_t bytes_of_row(const struct tft_data *d)
{
    size_t bytes = 0;

    for (int k = 0; k < TFT_ARRAY_COUNT; k++)
        bytes += tft_data_row_bytes(d, (enum tft_array)k);
    return bytes;
}

/* Allocates the block and divides it into the arrays. */
static enum halay_status allocate_block(struct maker *m)
{
    size_t bytes[TFT_ARRAY_COUNT], all = 0;
    const void *arrays[TFT_ARRAY_COUNT];
    enum halay_status status = tft_data_array_bytes(m->d, bytes);

    for (int k = 0; k < TFT_ARRAY_COUNT && !status; k++)
        if (halay_add_overflows(all, bytes[k], &all))
            status = HALAY_ERR_NO_MEMORY;
    if (status)
        return status;
    char *at, *starts[TFT_ARRAY_COUNT];
    status = allocate_bytes(m, all, &at);
    if (status)
        return status;
    for (int k = 0; k < TFT_ARRAY_COUNT; at += bytes[k++])
        arrays[k] = starts[k] = at;
    tft_data_set_arrays(arrays, m->d);
    _Static_assert(sizeof m->to == sizeof starts, "each array has a pointer");
    memcpy(&m->to, starts, sizeof starts);
    return HALAY_OK;
}

static const char *what_of(const struct tft_input *input)
{
    return input->column ? input->column : tft_calendar_names[input->calendar];
}

static const char *moment_of(const struct maker *m, size_t row, char text[40])
{
    const struct tft_schema *schema = &m->d->schema;

    tft_schema_print_time(schema, tft_period_add(&schema->every, m->view.series->start, (int64_t)row), text, 40);
    return text;
}

static enum halay_status too_large(const struct maker *m, size_t input, size_t row)
{
    const struct tft_series *s = m->view.series;
    const struct tft_schema *schema = &m->d->schema;
    char moment[40];

    return halay_fail(
        m->log, HALAY_ERR_FORMAT,
        "'%s': input '%s' (column '%s') at %s is out of a float's range once scaled; 'scale: none' keeps it as it is",
        s->id, schema->inputs[input].name, what_of(&schema->inputs[input]), moment_of(m, row, moment));
}

/* Returns the code of a text of a column; each text is looked up once. */
static enum halay_status code_of_text(struct maker *m, size_t input, double value, size_t row, size_t *code)
{
    const struct tft_series *s = m->view.series;
    const struct tft_schema *schema = &m->d->schema;
    size_t k = m->table->column_of[input];
    const struct tft_dictionary *texts = &m->table->dictionaries[k];
    size_t number = isnan(value) ? texts->count : (size_t)value;
    char moment[40];

    if (m->codes[k][number] == SIZE_MAX) {
        const char *text = number < texts->count ? texts->texts[number] : NULL;
        if (!tft_encoding_code(schema, &m->d->encoding, input, text, &m->codes[k][number])) {
            return halay_fail(
                m->log, HALAY_ERR_FORMAT,
                "'%s': input '%s' (column '%s') is '%.64s' at %s, which does not occur in the training span; "
                "'unknown: true' admits such values",
                s->id, schema->inputs[input].name, schema->inputs[input].column, text ? text : "",
                moment_of(m, row, moment));
        }
    }
    *code = m->codes[k][number];
    return HALAY_OK;
}

static enum halay_status find_code(struct maker *m, size_t entity, size_t input, size_t row, size_t *code)
{
    const struct tft_input *in = &m->d->schema.inputs[input];
    const struct tft_series *s = m->view.series;

    if (in->source == TFT_FROM_CALENDAR || in->source == TFT_FROM_HOLIDAYS) {
        *code = tft_view_code(&m->view, input, row);
        return HALAY_OK;
    }
    if (in->source == TFT_FROM_COLUMN)
        return code_of_text(m, input, s->values[row * m->table->column_count + m->table->column_of[input]], row, code);
    *code = m->d->codes[entity];
    if (!in->map || tft_encoding_code(&m->d->schema, &m->d->encoding, input, s->id, code))
        return HALAY_OK;
    return halay_fail(m->log, HALAY_ERR_FORMAT,
                      "'%s': the map of input '%s' does not have it; 'unknown: true' admits such values", s->id,
                      in->name);
}

/* Fills one row of the block. */
static enum halay_status fill_row(struct maker *m, size_t entity, size_t row, size_t at)
{
    struct tft_data *d = m->d;
    const struct tft_series *s = m->view.series;
    size_t columns = m->table->column_count, O = d->schema.target_count;
    int dropped = s->dropped && s->dropped[row];
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < d->real_count; k++) {
        double value = tft_view_real(&m->view, d->reals[k], row);
        float x = isnan(value) ? NAN : tft_scaler_apply(tft_data_scaler(d, entity, d->reals[k]), value);
        if (isinf(x))
            return too_large(m, d->reals[k], row);
        m->to.values[at * d->real_count + k] = x;
    }
    for (size_t k = 0; k < d->cat_count && !status; k++) {
        size_t code = 0;
        if (!dropped || d->schema.inputs[d->cats[k]].source != TFT_FROM_COLUMN)
            status = find_code(m, entity, d->cats[k], row, &code);
        m->to.categories[at * d->cat_count + k] = (int32_t)code;
    }
    for (size_t o = 0; o < O; o++) {
        size_t column = m->table->column_of[d->schema.targets[o]];
        m->to.target[at * O + o] = s->values[row * columns + column];
        m->to.present[at * O + o] = s->measured[row * columns + column];
    }
    if (d->schema.has_weight)
        m->to.weights[at] =
            (float)(s->values[row * columns + m->table->column_of[d->schema.weight]] / d->encoding.weight);
    return status;
}

/* Fills the inputs of which an entity has one value. If one is missing under `fill: drop`, the entity has no window. */
static enum halay_status fill_statics(struct maker *m, size_t entity)
{
    struct tft_data *d = m->d;
    enum halay_status status = HALAY_OK;
    size_t lead = m->view.series->lead;

    for (size_t k = 0; k < d->static_count; k++) {
        double value = tft_view_real(&m->view, d->statics[k], lead);
        float x = isnan(value) ? 0 : tft_scaler_apply(tft_data_scaler(d, entity, d->statics[k]), value);
        if (!isfinite(x))
            return too_large(m, d->statics[k], lead);
        m->to.static_values[entity * d->static_count + k] = x;
    }
    for (size_t k = 0; k < d->static_cat_count && !status; k++) {
        const struct tft_input *input = &d->schema.inputs[d->static_cats[k]];
        size_t code = 0;
        if (input->fill != TFT_FILL_DROP || !isnan(tft_view_real(&m->view, d->static_cats[k], lead)))
            status = find_code(m, entity, d->static_cats[k], lead, &code);
        m->to.static_codes[entity * d->static_cat_count + k] = (int32_t)code;
    }
    return status;
}

/* Appends an entity's bridges to the *n written before. The scaled values that replace them must fit a float, too. */
static enum halay_status fill_bridges(struct maker *m, size_t entity, size_t *n)
{
    const struct tft_schema *schema = &m->d->schema;
    const struct tft_series *s = m->series[entity];

    for (size_t b = 0; b < s->bridge_count; b++) {
        struct tft_bridge bridge = s->bridges[b];
        bridge.column = (uint32_t)m->table->columns[bridge.column];
        bridge.entity = (uint32_t)entity;
        bridge.first -= (int64_t)s->lead;
        for (size_t i = bridge.column; i < schema->input_count && schema->inputs[i].base == bridge.column; i++)
            if (!isfinite(tft_scaler_apply(tft_data_scaler(m->d, entity, i), bridge.before)))
                return too_large(m, i, (size_t)s->bridges[b].first - 1);
        m->to.bridges[(*n)++] = bridge;
    }
    return HALAY_OK;
}

/* Fills the rows of the entities [first, last). */
static enum halay_status fill_entities(struct maker *m, size_t first, size_t last)
{
    struct tft_data *d = m->d;
    size_t bridges = 0;
    enum halay_status status = HALAY_OK;

    for (size_t e = 0; e < first; e++)
        bridges += m->series[e]->bridge_count;
    for (size_t e = first; e < last && !status; e++) {
        tft_view_choose(&m->view, m->series[e]);
        if (d->own && d->codes[e] == d->encoding.entity_count)
            tft_own_scalers_fit(&m->view, &d->encoding, &d->own[e * d->schema.input_count]);
        if (!(status = fill_statics(m, e)))
            status = fill_bridges(m, e, &bridges);
        for (size_t i = 0; i < d->entities[e].rows && !status; i++)
            status = fill_row(m, e, i + m->series[e]->lead, d->entities[e].first + i);
        tft_spill_touched(d->spill, d->entities[e].rows * bytes_of_row(d));
    }
    return status;
}

/* Allocates the codes of each column's texts, and one for a missing text. */
static enum halay_status allocate_codes(struct maker *m)
{
    for (size_t k = 0; k < m->table->column_count; k++) {
        size_t count = m->table->dictionaries[k].count + 1;
        if (!m->d->schema.inputs[m->table->columns[k]].is_category)
            continue;
        m->codes[k] = malloc(count * sizeof *m->codes[k]);
        if (!m->codes[k])
            return HALAY_ERR_NO_MEMORY;
        for (size_t i = 0; i < count; i++)
            m->codes[k][i] = SIZE_MAX;
    }
    return HALAY_OK;
}

static void free_codes(struct maker *m)
{
    for (size_t k = 0; k < m->table->column_count; k++)
        free(m->codes[k]);
}

/* Fills the rows of a slice of the entities, on a thread. */
static enum halay_status fill_slice(void *arg, size_t number)
{
    struct maker m = *(const struct maker *)arg;
    size_t first, last;

    m.log = NULL;
    memset(m.codes, 0, sizeof m.codes);
    enum halay_status status = tft_view_init(NULL, &m.d->schema, m.table, m.d->encoding.origin, &m.view);
    if (status)
        return status;
    tft_slice(m.d->entity_count, number, tft_table_slices(m.table), &first, &last);
    if (!(status = allocate_codes(&m)))
        status = fill_entities(&m, first, last);
    free_codes(&m);
    tft_view_fini(&m.view);
    return status;
}

static enum halay_status fill_block(struct maker *m)
{
    size_t slices = tft_table_slices(m->table);

    if (m->d->gap_count)
        memset(m->to.gaps, 0, m->d->gap_count * sizeof *m->to.gaps);
    find_gaps(m);
    if (slices > 1 && !tft_slices_run(slices, fill_slice, m))
        return HALAY_OK;
    return fill_entities(m, 0, m->d->entity_count); /* finds the first error again, and logs it */
}

static enum halay_status make_data(struct maker *m)
{
    enum halay_status status;

    if (!(status = list_entities(m)) && !(status = allocate_codes(m))) {
        find_gaps(m);
        status = allocate_block(m);
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(m->log, "no memory for %zu rows", m->d->rows);
    if (status || (status = tft_view_init(m->log, &m->d->schema, m->table, m->d->encoding.origin, &m->view)))
        return status;
    return fill_block(m);
}

enum halay_status tft_data_init(struct halay_log *log, struct tft_schema *schema, struct tft_encoding *encoding,
                                const struct tft_table *table, struct tft_data *data)
{
    struct tft_data d = { .schema = *schema, .encoding = *encoding, .summary = table->summary };
    struct maker m = { .log = log, .table = table, .d = &d };
    enum halay_status status;

    tft_data_order_inputs(&d);
    status = make_data(&m);
    tft_view_fini(&m.view);
    free(m.series);
    free_codes(&m);
    if (status) { /* the caller keeps both */
        d.schema = (struct tft_schema){ 0 };
        d.encoding = (struct tft_encoding){ 0 };
        tft_data_fini(&d);
        return status;
    }
    *schema = (struct tft_schema){ 0 };
    *encoding = (struct tft_encoding){ 0 };
    *data = d;
    return HALAY_OK;
}

void tft_data_fini(struct tft_data *data)
{
    tft_htd_close(data->file);
    halay_region_fini(&data->memory);
    free(data->block);
    tft_encoding_fini(&data->encoding);
    tft_schema_fini(&data->schema);
    *data = (struct tft_data){ 0 };
}
