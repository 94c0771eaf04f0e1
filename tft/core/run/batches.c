/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches: a window's rows are contiguous and in the model's order of variables, so that gathering a sample is one
 * copy. Only a window that ends on a bridge gets other values there: it must not know the bridge's end.
 */
#include "tft/core/run/batches.h"
#include "tft/core/data/encoding.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/kernels/philox.h"
#include "tft/core/run/run_config.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_variable(struct tft_model_config *m, const char *name, enum tft_role role, int is_category,
                         size_t categories)
{
    struct tft_variable *v = &m->variables[m->variable_count++];

    snprintf(v->name, sizeof v->name, "%s", name);
    v->role = role;
    v->type = is_category ? TFT_CATEGORY : TFT_REAL;
    v->categories = is_category && !categories ? 1 : categories; /* none was seen: the embedding still has a row */
}

void tft_batches_describe(const struct tft_schema *schema, const struct tft_encoding *encoding,
                          const struct tft_run_config *run, struct tft_model_config *m)
{
    tft_config_defaults(m);
    m->H = (size_t)run->hidden_size;
    m->heads = (size_t)run->heads;
    m->E = schema->encoder;
    m->D = schema->horizon;
    m->dropout = run->dropout;
    m->granule = (size_t)run->granule;
    m->dtype = (enum tft_dtype)run->dtype;
    m->conformance = (enum tft_conformance)run->conformance;
    m->hidden_continuous = (size_t)run->hidden_continuous_size;
    m->ascending = run->crossing != 0;
    m->loss = (enum tft_loss)run->loss;
    m->quantile_count = run->quantiles.count;
    memcpy(m->quantiles, run->quantiles.values, run->quantiles.count * sizeof *m->quantiles);
    m->variable_count = 0;
    for (size_t i = 0; i < schema->input_count; i++) {
        const struct tft_role_traits *role = &tft_roles[schema->inputs[i].role];
        if (role->is_variable)
            add_variable(m, schema->inputs[i].name, role->model, schema->inputs[i].is_category,
                         tft_encoding_categories(schema, encoding, i));
    }
    tft_config_sort(m, NULL);
}

struct tft_window tft_gather_window(const struct tft_gather *g, size_t position)
{
    return tft_windows_get(g->windows, g->numbers ? g->numbers[g->base + position] : g->base + position);
}

enum halay_status tft_gather_targets(const struct tft_gather *g, size_t first, size_t count, size_t *targets)
{
    const struct tft_data *d = g->windows->data;
    enum halay_status status;
    size_t n = 0;

    for (size_t p = first; p < first + count; p++) {
        struct tft_window w = tft_gather_window(g, p);
        if ((status = tft_data_check(d, w.origin, d->schema.horizon)))
            return status;
        n += tft_window_targets(d, &w);
    }
    *targets = n;
    return HALAY_OK;
}

/* A row's targets and their weights: (O) each. */
static void fill_targets(const struct tft_data *d, size_t row, float *targets, float *weights)
{
    size_t O = d->schema.target_count;

    for (size_t o = 0; o < O; o++) {
        targets[o] = (float)tft_data_forecast_target(d, row, o);
        weights[o] = d->present[row * O + o] ? tft_data_weight(d, row) : 0;
    }
}

/* Real k of a window's rows: on a bridge over the last known row it has the value before the bridge. A known input is
 * known up to the window's end. 0: it is on none. */
static int patch_of_bridge(const struct tft_data *d, const struct tft_window *w, size_t k, struct window_patch *patch)
{
    const struct tft_input *input = &d->schema.inputs[d->reals[k]];
    int known = tft_roles[d->schema.inputs[input->base].role].is_known_ahead;
    int64_t origin = (int64_t)(w->origin - d->entities[w->entity].first), first = origin - (int64_t)w->length;
    int64_t end = origin + (int64_t)d->schema.horizon, limit = known ? end : origin, lag = (int64_t)input->lag;
    const struct tft_bridge *bridge = tft_data_bridge(d, w->entity, input->base, limit - 1);

    if (!bridge)
        return 0;
    int64_t from = bridge->first + lag > first ? bridge->first + lag : first,
            to = limit + lag < end ? limit + lag : end, begin = (int64_t)(d->schema.encoder - w->length) - first;
    if (from >= to)
        return 0;
    *patch = (struct window_patch){
        .array = WINDOW_REALS,
        .column = (uint32_t)k,
        .from = (uint32_t)(from + begin),
        .to = (uint32_t)(to + begin),
        .value = (real)tft_scaler_apply(tft_data_scaler(d, w->entity, d->reals[k]), bridge->before),
    };
    return 1;
}

/* Returns nonzero if real k may have bridges. */
static int is_drawn(const struct tft_data *d, size_t k)
{
    const struct tft_input *input = &d->schema.inputs[d->reals[k]];

    return input->fill == TFT_FILL_INTERPOLATE && (input->derivation == TFT_PLAIN || input->derivation == TFT_LAG);
}

static int is_category_dropped(const struct tft_category_dropout *dropout, uint64_t position, size_t input)
{
    const double share = .05;
    const uint32_t key[2] = { dropout->seed, fnv1a("category dropout") };
    const uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), dropout->step, (uint32_t)input };
    uint32_t draws[4];

    philox(counter, key, draws);
    return draws[0] < share * 0x1p32;
}

/* Returns nonzero if this training step takes a category, by the input's number, for unknown in the window at a
 * position. */
static int is_unknown(const struct tft_gather *g, uint64_t position, size_t input, int32_t *code)
{
    const struct tft_data *d = g->windows->data;

    return g->dropout && tft_encoding_unknown(&d->schema, &d->encoding, input, code) &&
           is_category_dropped(g->dropout, position, input);
}

size_t tft_gather_patches(const struct tft_gather *g, const struct tft_window *w, uint64_t position,
                          struct window_patch *patches)
{
    const struct tft_data *d = g->windows->data;
    uint32_t E = (uint32_t)d->schema.encoder, T = E + (uint32_t)d->schema.horizon;
    size_t count = 0;
    int32_t code;

    for (size_t k = 0; d->bridge_count && k < d->real_count; k++)
        if (is_drawn(d, k))
            count += (size_t)patch_of_bridge(d, w, k, &patches[count]);
    for (size_t k = 0; k < d->static_cat_count; k++)
        if (is_unknown(g, position, d->static_cats[k], &code))
            patches[count++] = (struct window_patch){ WINDOW_STATIC_CODES, (uint32_t)k, 0, 1, .code = code };
    for (size_t k = 0; k < d->cat_count; k++)
        if (is_unknown(g, position, d->cats[k], &code))
            patches[count++] =
                (struct window_patch){ WINDOW_CODES, (uint32_t)k, E - (uint32_t)w->length, T, .code = code };
    return count;
}

const double tft_spread_least = .05;

/* Values are taken as (value - mean) / spread. */
struct level {
    float mean, spread;
};

/* A sample's rows: the first is the window's. */
struct rows {
    const struct tft_data *data;
    const struct tft_window *window;
    float *values; /* (length + D, reals) */
};

static int is_scaled(const struct tft_input *input)
{
    return input->per == TFT_PER_WINDOW && input->scale != TFT_SCALE_NONE;
}

/* The column of the input that an input is made from. */
static size_t base_column(const struct tft_data *d, size_t input)
{
    size_t k = 0;

    while (d->reals[k] != d->schema.inputs[input].base)
        k++;
    return k;
}

/* Returns the level of a column, in two passes, in double. */
static struct level level_of(const struct rows *r, size_t column)
{
    size_t n = r->window->length, columns = r->data->real_count;
    double sum = 0, squares = 0;

    for (size_t t = 0; t < n; t++)
        sum += (double)r->values[t * columns + column];
    double mean = sum / (double)n;
    for (size_t t = 0; t < n; t++) {
        double x = (double)r->values[t * columns + column] - mean;
        squares += x * x;
    }
    return (struct level){ (float)mean, (float)fmax(sqrt(squares / (double)n), tft_spread_least) };
}

static void scale_target(const struct rows *r, size_t o, struct level level, struct tft_batch *batch, size_t b)
{
    const struct tft_schema *s = &r->data->schema;
    size_t O = s->target_count, D = s->horizon;

    for (size_t h = 0; h < D; h++) {
        size_t at = (b * D + h) * O + o;
        batch->offsets[at] = level.mean;
        if (!tft_loss_is_distribution(r->data->loss))
            batch->targets[at] = (batch->targets[at] - batch->offsets[at]) / level.spread;
    }
    batch->units[b * O + o] = level.spread;
}

/* Puts offset and unit into the target's own unit, for forecasts that are not scaled. */
static void unscale_target(const struct rows *r, size_t o, struct tft_batch *batch, size_t b)
{
    const struct tft_schema *s = &r->data->schema;
    const struct tft_scaler *scaler = tft_data_scaler(r->data, r->window->entity, s->targets[o]);
    size_t O = s->target_count, D = s->horizon;

    for (size_t h = 0; h < D; h++)
        batch->offsets[(b * D + h) * O + o] =
            (float)tft_scaler_undo(scaler, (double)batch->offsets[(b * D + h) * O + o]);
    batch->units[b * O + o] *= (float)scaler->scale;
}

int tft_window_scaling(const struct tft_data *d, int32_t *scaled_by)
{
    int scales = 0;

    for (size_t k = 0; k < d->real_count; k++) {
        scaled_by[k] = is_scaled(&d->schema.inputs[d->reals[k]]) ? (int32_t)base_column(d, d->reals[k]) : -1;
        scales |= scaled_by[k] >= 0;
    }
    return scales;
}

/* Scales sample b of a batch, which holds a window's rows and targets; offsets and units undo it. */
static void scale_window(const struct tft_data *d, const struct tft_window *w, struct tft_batch *batch, size_t b)
{
    size_t columns = d->real_count, steps = w->length + d->schema.horizon, O = d->schema.target_count;
    size_t end = (b + 1) * (d->schema.encoder + d->schema.horizon);
    struct rows r = { d, w, batch->reals + (end - steps) * columns };
    struct level levels[TFT_INPUTS_MAX];

    for (size_t k = 0; k < columns; k++) { /* before any column changes: a lag goes by its input's */
        const struct tft_input *input = &d->schema.inputs[d->reals[k]];
        levels[k] = is_scaled(input) ? level_of(&r, base_column(d, d->reals[k])) : (struct level){ 0, 1 };
    }
    for (size_t o = 0; o < O; o++) {
        if (is_scaled(&d->schema.inputs[d->schema.targets[o]]))
            scale_target(&r, o, levels[columns - O + o], batch, b);
        if (tft_loss_is_unscaled(d->loss))
            unscale_target(&r, o, batch, b);
    }
    for (size_t k = 0; k < columns; k++)
        for (size_t t = 0; is_scaled(&d->schema.inputs[d->reals[k]]) && t < steps; t++)
            r.values[t * columns + k] = (r.values[t * columns + k] - levels[k].mean) / levels[k].spread;
}

/* Applies a patch to sample b. */
static void apply_patch(const struct tft_data *d, const struct window_patch *p, struct tft_batch *batch, size_t b)
{
    size_t T = d->schema.encoder + d->schema.horizon;

    for (size_t t = p->from; t < p->to; t++)
        if (p->array == WINDOW_REALS)
            batch->reals[(b * T + t) * d->real_count + p->column] = p->value;
        else if (p->array == WINDOW_CODES)
            batch->cats[(b * T + t) * d->cat_count + p->column] = p->code;
        else
            batch->static_cats[b * d->static_cat_count + p->column] = p->code;
}

enum halay_status tft_gather_fill(void *arg, int thread, struct tft_batch *batch)
{
    const struct tft_gather *g = arg;
    const struct tft_data *d = g->windows->data;
    size_t E = d->schema.encoder, D = d->schema.horizon, columns = d->real_count, O = d->schema.target_count;
    struct window_patch patches[TFT_INPUTS_MAX];

    (void)thread;
    for (size_t b = 0; b < batch->B; b++) {
        struct tft_window w = tft_gather_window(g, (size_t)batch->position + b);
        size_t first = w.origin - w.length, steps = w.length + D, to = (b + 1) * (E + D) - steps;
        enum halay_status status = tft_data_check(d, first, steps);
        if (status)
            return status;
        batch->lengths[b] = w.length; /* what is before a shorter one is never read */
        memcpy(batch->reals + to * columns, d->values + first * columns, steps * columns * sizeof *d->values);
        for (size_t k = 0; k < steps * d->cat_count; k++)
            batch->cats[to * d->cat_count + k] = d->categories[first * d->cat_count + k];
        for (size_t k = 0; k < d->static_count; k++)
            batch->static_reals[b * d->static_count + k] = d->static_values[w.entity * d->static_count + k];
        for (size_t k = 0; k < d->static_cat_count; k++)
            batch->static_cats[b * d->static_cat_count + k] = d->static_codes[w.entity * d->static_cat_count + k];
        for (size_t i = tft_gather_patches(g, &w, batch->position + b, patches); i-- > 0;)
            apply_patch(d, &patches[i], batch, b);
        for (size_t h = 0; h < D; h++)
            fill_targets(d, w.origin + h, batch->targets + (b * D + h) * O, batch->weights + (b * D + h) * O);
        scale_window(g->windows->data, &w, batch, b);
        if (g->occlusion)
            tft_occlusion_apply(g->occlusion, d, &w, batch, b);
    }
    return HALAY_OK;
}

static enum halay_status check_scale(struct halay_log *log, const struct tft_data *d, size_t o)
{
    const struct tft_input *input = &d->schema.inputs[d->schema.targets[o]];

    if (input->scale != TFT_SCALE_LOG1P)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_FORMAT,
                      "target '%s' is scaled by its logarithm, and 'loss: %s' is of the target itself: prepare it with "
                      "'scale: standard', or use 'loss: gaussian', which is then of the logarithm",
                      input->name, tft_loss_words[d->loss]);
}

static enum halay_status refuse_value(struct halay_log *log, const struct tft_data *d, size_t e, size_t row, size_t o)
{
    double y = d->target[row * d->schema.target_count + o];
    char time[40];

    tft_schema_print_time(&d->schema, tft_data_time(d, e, row), time, sizeof time);
    return halay_fail(log, HALAY_ERR_FORMAT, "target '%s' of '%s' is %g at %s: 'loss: %s' is of %s from 0 on; %s",
                      d->schema.inputs[d->schema.targets[o]].name, d->entities[e].id, y, time, tft_loss_words[d->loss],
                      tft_loss_counts(d->loss) ? "whole numbers" : "numbers",
                      y < 0 ? "gaussian and student-t are of any" : "tweedie is of others, too");
}

enum halay_status tft_targets_check(struct halay_log *log, const struct tft_data *d)
{
    const size_t O = d->schema.target_count;
    enum halay_status status;

    if (!tft_loss_is_unscaled(d->loss))
        return HALAY_OK;
    for (size_t o = 0; o < O; o++)
        if ((status = check_scale(log, d, o)))
            return status;
    for (size_t e = 0; e < d->entity_count; e++) {
        const size_t first = d->entities[e].first, end = first + d->entities[e].rows;
        if ((status = tft_data_check(d, first, end - first)))
            return status;
        for (size_t i = first * O; i < end * O; i++)
            if (d->present[i] &&
                (d->target[i] < 0 || (tft_loss_counts(d->loss) && d->target[i] != floor(d->target[i]))))
                return refuse_value(log, d, e, i / O, i % O);
    }
    return HALAY_OK;
}

/* Adds up the changes between the last rows. */
static struct tft_changes changes_of(const struct tft_data *d, size_t e, size_t o, size_t rows)
{
    const struct tft_scaler *scaler = tft_data_target_scaler(d, e, o);
    const size_t O = d->schema.target_count, end = d->entities[e].first + d->entities[e].rows;
    struct tft_changes changes = { 0 };

    for (size_t i = end - rows + 1; i < end; i++)
        if (d->present[i * O + o] && d->present[(i - 1) * O + o])
            tft_changes_add(scaler, d->target[(i - 1) * O + o], d->target[i * O + o], &changes);
    return changes;
}

static void warn_of(struct halay_log *log, const struct tft_data *d, size_t e, size_t o,
                    const struct tft_changes *changes)
{
    const struct tft_input *target = &d->schema.inputs[d->schema.targets[o]];
    const char *advice = tft_loss_is_unscaled(d->loss)     ? "use 'loss: gaussian', or its"
                         : target->scale == TFT_SCALE_NONE ? "train with 'scale: standard', or on its"
                         : target->per == TFT_PER_ALL      ? "train with 'per: entity', or on its"
                                                           : "train on its";
    char why[80] = "";

    if (tft_loss_is_unscaled(d->loss))
        snprintf(why, sizeof why, "'loss: %s' is of the target itself, and ", tft_loss_words[d->loss]);
    halay_warning(log,
                  "target '%s' of '%.64s': %s32-bit numbers do not hold its changes, about %.3g from row to row, of "
                  "values up to %.3g; %s differences from row to row as the target",
                  target->name, d->entities[e].id, why, changes->sum / (double)changes->lost, changes->most, advice);
}

int tft_targets_warn(struct halay_log *log, const struct tft_data *d, size_t rows)
{
    int warned = 0;

    for (size_t o = 0; o < d->schema.target_count; o++)
        for (size_t e = 0, found = 0; e < d->entity_count && !found; e++) {
            const struct tft_entity *entity = &d->entities[e];
            const size_t last = rows < entity->rows ? rows : entity->rows;
            if (tft_data_check(d, entity->first + entity->rows - last, last))
                return warned;
            const struct tft_changes changes = changes_of(d, e, o, last);
            found = (size_t)tft_changes_are_lost(&changes);
            if (found)
                warn_of(log, d, e, o, &changes);
            warned |= found != 0;
        }
    return warned;
}
