/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: another run's parameters as initial values. Tensors are matched by name, and inside of them what belongs to
 * an input, a category, a target or a quantile by that one's name, whatever the order:
 *
 *     embeddings           rows of categories that both runs have. A new one begins as the other run's unknown
 *                          category, if it has one that was trained here ('unknown: true'), else as the mean
 *     joint networks of    rows and columns of inputs that both have; those of a new input begin at random, as do its
 *     the selections       own tensors. (pytorch-forecasting's inner width goes by the number of inputs: where that
 *                          changes, the joint network begins at random)
 *     the last layer       columns of targets that both have, and quantiles: one that the other run lacks begins
 *                          between its neighbours there, or as the outermost one. (With 'crossing: forbid' columns are
 *                          distances: other quantiles begin at random)
 *
 * Windows may have other lengths. What the other run alone has is left out.
 *
 * Tensor by tensor. A tensor is a matrix (a vector: of one row), and its rows and columns have each a map of
 * which of the other run's it begins.
 */
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/core/train/trainer.h"
#include <stdio.h>
#include <string.h>

#define NONE SIZE_MAX

enum { LIST_SIZE = 300 };

/* A transfer under way. */
struct transfer {
    struct halay_log *log; /* borrowed, as the next */
    const char *folder;
    const struct tft_run *from;
    const struct tft_model_config *theirs;
    const struct tft_transfer_to *to;
    size_t whole, part, fresh;      /* tensors */
    char categories[2 * LIST_SIZE]; /* what happened to those of each input */
    int has_other_quantiles;
    struct halay_region region; /* owned: maps and rows */
    enum halay_status status;   /* of the first failure */
};

/* A row or column begins as (1 - share) of one of the other run's and share of another. */
struct mix {
    size_t from[2]; /* the same for one alone; NONE: it begins at random */
    double share;
};

static struct mix mix_of_one(size_t i)
{
    return (struct mix){ { i, i }, 0 };
}

static const struct tft_param *param_named(const struct tft_param_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->params[i].name, name))
            return &table->params[i];
    return NULL;
}

/* The input whose categories are a tensor's rows; input_count if it is another tensor. */
static size_t input_of(const struct tft_schema *schema, const char *tensor)
{
    char name[TFT_PARAM_NAME_MAX + 1];
    size_t i = 0;

    for (; i < schema->input_count; i++) {
        snprintf(name, sizeof name, "input.%s.table", schema->inputs[i].name);
        if (schema->inputs[i].is_category && !strcmp(tensor, name))
            break;
    }
    return i;
}

/* Returns nonzero if the rows have names: a calendar's are numbers, the same everywhere. */
static int has_names(const struct tft_schema *schema, size_t input)
{
    return input < schema->input_count && schema->inputs[input].source != TFT_FROM_CALENDAR;
}

/* ---- embeddings ---- */

/* Makes the initial row of a category that the other run did not have: its row for unknown ones, or the mean of the
 * others: other implementations, of whose model it may be, train no row for unknown ones. */
static void make_unknown(const struct tft_run *from, size_t input, const float *rows, size_t count, size_t width,
                         float *row)
{
    int32_t unknown = -1;
    int has_row = tft_encoding_unknown(&from->schema, &from->encoding, input, &unknown);
    size_t named = count - (size_t)has_row;

    if (has_row && (from->config.conformance == TFT_PUBLISHED || !named)) {
        memcpy(row, rows + (size_t)unknown * width, width * sizeof *row);
        return;
    }
    for (size_t k = 0; k < width; k++) {
        double sum = 0;
        for (size_t r = 0; r < named; r++)
            sum += rows[r * width + k];
        row[k] = (float)(sum / (double)named);
    }
}

/* Returns how many of an input's rows have names: all but that for unknown ones. */
static size_t named_rows(const struct tft_schema *schema, const struct tft_encoding *encoding, size_t input,
                         size_t rows)
{
    int32_t unknown;

    return rows - (size_t)tft_encoding_unknown(schema, encoding, input, &unknown);
}

/* Fills an embedding's rows, each by its category's name; rows: (count, width). */
static void take_rows(struct transfer *t, const struct tft_param *theirs, const struct tft_param *mine,
                      const size_t inputs[2], float *rows)
{
    const struct tft_run *from = t->from;
    size_t width = mine->shape[1], count = mine->shape[0], kept = 0, code;
    const float *old = from->params + theirs->offset;
    float *unknown = halay_region_alloc(&t->region, width, sizeof *unknown);

    if (!unknown)
        return;
    make_unknown(from, inputs[0], old, theirs->shape[0], width, unknown);
    for (size_t r = 0; r < count; r++) {
        const char *name = tft_encoding_name(t->to->schema, t->to->encoding, inputs[1], r);
        int is_no_holiday = t->to->schema->inputs[inputs[1]].source == TFT_FROM_HOLIDAYS && r == 0;
        const float *row = unknown;
        if (is_no_holiday || (name && tft_encoding_find(&from->schema, &from->encoding, inputs[0], name, &code))) {
            row = old + (is_no_holiday ? 0 : code) * width;
            kept++;
        }
        memcpy(rows + r * width, row, width * sizeof *row);
    }
    size_t here = named_rows(t->to->schema, t->to->encoding, inputs[1], count);
    size_t there = named_rows(&from->schema, &from->encoding, inputs[0], theirs->shape[0]);
    if (kept < here || kept < there)
        halay_append(t->categories, sizeof t->categories, "; input '%s', categories: %zu kept, %zu new, %zu left out",
                     t->to->schema->inputs[inputs[1]].name, kept, here - kept, there - kept);
}

/* ---- rows and columns ---- */

/* The things that an axis of a tensor counts. */
enum axis { AS_IT_IS, EMBEDDED, VARIABLES, OUTPUTS };

/* The axes of a tensor of a selection's joint network; part: its name there. */
static void axes_of_joint(const char *part, enum axis axes[2])
{
    int is_kernel = strstr(part, ".kernel") != NULL;

    axes[0] = axes[1] = AS_IT_IS;
    if (is_kernel && (!strncmp(part, "dense1.", 7) || !strncmp(part, "skip.", 5)))
        axes[0] = EMBEDDED;
    if (!strncmp(part, "skip.", 5) || !strncmp(part, "value.", 6) || !strncmp(part, "gate.", 5) ||
        !strncmp(part, "norm.", 5))
        axes[1] = VARIABLES;
}

/* Rows (of a vector: none) and columns of a tensor; *choice: of which selection. */
static void axes_of(const char *tensor, enum axis axes[2], enum tft_choice *choice)
{
    static const char *const joints[TFT_CHOICES] = { "static.joint.", "history.joint.", "future.joint." };

    axes[0] = axes[1] = AS_IT_IS;
    *choice = TFT_CHOICES;
    for (int k = 0; k < TFT_CHOICES; k++)
        if (!strncmp(tensor, joints[k], strlen(joints[k]))) {
            *choice = (enum tft_choice)k;
            axes_of_joint(tensor + strlen(joints[k]), axes);
        }
    if (!strncmp(tensor, "output.", 7))
        axes[1] = OUTPUTS;
}

static int is_same_variable(const struct tft_variable *a, const struct tft_variable *b)
{
    return a->type == b->type && !strcmp(a->name, b->name);
}

/* Maps the inputs of a selection, each of as many numbers as its embedding has, or of one. */
static void map_variables(const struct transfer *t, enum tft_choice choice, int is_embedded, struct mix *map)
{
    const struct tft_model_config *theirs = t->theirs, *mine = t->to->config;
    size_t chosen[2][TFT_VARIABLES_MAX];
    size_t theirs_count = tft_config_choice(theirs, choice, chosen[0]);
    size_t count = tft_config_choice(mine, choice, chosen[1]);

    for (size_t j = 0; j < count; j++) {
        const struct tft_variable *variable = &mine->variables[chosen[1][j]];
        size_t width = is_embedded ? tft_config_width(mine, variable) : 1, place = 0, found = NONE;
        for (size_t i = 0; i < theirs_count; i++) {
            const struct tft_variable *v = &theirs->variables[chosen[0][i]];
            size_t wide = is_embedded ? tft_config_width(theirs, v) : 1;
            if (is_same_variable(v, variable) && wide == width)
                found = place;
            place += wide;
        }
        for (size_t k = 0; k < width; k++)
            *map++ = mix_of_one(found == NONE ? NONE : found + k);
    }
}

/* Returns the target's place among the other run's, or NONE. */
static size_t target_there(const struct transfer *t, size_t target)
{
    const struct tft_schema *here = t->to->schema, *there = &t->from->schema;

    for (size_t o = 0; o < there->target_count; o++)
        if (!strcmp(there->inputs[there->targets[o]].name, here->inputs[here->targets[target]].name))
            return o;
    return NONE;
}

static int has_same_quantiles(const struct transfer *t)
{
    const struct tft_model_config *a = t->theirs, *b = t->to->config;

    return a->quantile_count == b->quantile_count && a->ascending == b->ascending &&
           !memcmp(a->quantiles, b->quantiles, a->quantile_count * sizeof *a->quantiles);
}

/* The mix for column k O + o of a last layer. */
static struct mix mix_of_output(struct transfer *t, size_t k, size_t o)
{
    const struct tft_model_config *a = t->theirs, *b = t->to->config;
    size_t O = t->from->schema.target_count, there = target_there(t, o), above = 0;

    if (there == NONE)
        return mix_of_one(NONE);
    if (b->loss != TFT_LOSS_QUANTILES || has_same_quantiles(t))
        return mix_of_one(k * O + there);
    t->has_other_quantiles = 1;
    if (a->ascending || b->ascending)
        return mix_of_one(NONE);
    while (above < a->quantile_count && a->quantiles[above] < b->quantiles[k])
        above++;
    size_t high = above < a->quantile_count ? above : above - 1, low = above ? above - 1 : 0;
    double apart = a->quantiles[high] - a->quantiles[low];
    return (struct mix){ { low * O + there, high * O + there },
                         apart > 0 ? (b->quantiles[k] - a->quantiles[low]) / apart : 0 };
}

/* ---- a tensor ---- */

static size_t rows_of(const struct tft_param *p)
{
    return p->dimensions == 1 ? 1 : p->shape[0];
}

static size_t columns_of(const struct tft_param *p)
{
    return p->shape[p->dimensions - 1];
}

/* Makes the map of an axis of mine; NULL: without memory, or where that axis cannot have another size. sizes: theirs
 * and mine. */
static struct mix *make_map(struct transfer *t, enum axis axis, enum tft_choice choice, const size_t sizes[2])
{
    struct mix *map = halay_region_alloc(&t->region, sizes[1], sizeof *map);
    const size_t O = t->to->schema->target_count;

    if (!map || (axis == AS_IT_IS && sizes[0] != sizes[1]))
        return NULL;
    if (axis == EMBEDDED || axis == VARIABLES)
        map_variables(t, choice, axis == EMBEDDED, map);
    else
        for (size_t i = 0; i < sizes[1]; i++)
            map[i] = axis == OUTPUTS ? mix_of_output(t, i / O, i % O) : mix_of_one(i);
    return map;
}

static size_t count_fresh(const struct mix *map, size_t size)
{
    size_t fresh = 0;

    for (size_t i = 0; i < size; i++)
        fresh += map[i].from[0] == NONE;
    return fresh;
}

static enum halay_status other_shape(struct halay_log *log, const char *folder, const struct tft_param *theirs,
                                     const struct tft_param *mine)
{
    char shapes[2][64];
    const struct tft_param *const both[2] = { theirs, mine };

    for (size_t i = 0; i < 2; i++) {
        if (both[i]->dimensions == 1)
            snprintf(shapes[i], sizeof shapes[i], "[%zu]", both[i]->shape[0]);
        else
            snprintf(shapes[i], sizeof shapes[i], "[%zu, %zu]", both[i]->shape[0], both[i]->shape[1]);
    }
    return halay_fail(
        log, HALAY_ERR_CONFIG,
        "init_from: tensor '%s' is %s in '%s', this model's is %s: both need the same hidden_size, heads, "
        "conformance and hidden_continuous_size",
        mine->name, shapes[0], folder, shapes[1]);
}

/* Only columns are mixed. */
static void take_mapped(const float *from, size_t wide, const struct mix *rows, size_t row_count,
                        const struct mix *columns, size_t column_count, float *to)
{
    for (size_t r = 0; r < row_count; r++)
        for (size_t c = 0; c < column_count; c++) {
            if (rows[r].from[0] == NONE || columns[c].from[0] == NONE)
                continue;
            const float *row = from + rows[r].from[0] * wide;
            double a = row[columns[c].from[0]], b = row[columns[c].from[1]];
            to[r * column_count + c] = (float)(a + columns[c].share * (b - a));
        }
}

/* Takes a tensor whose rows and columns are as in the other run, or belong to inputs, targets and quantiles. */
static void take_matrix(struct transfer *t, const struct tft_param *theirs, const struct tft_param *mine, float *to)
{
    const size_t R = rows_of(mine), C = columns_of(mine);
    enum axis axes[2];
    enum tft_choice choice;

    axes_of(mine->name, axes, &choice);
    const struct mix *rows = make_map(t, axes[0], choice, (size_t[]){ rows_of(theirs), R });
    const struct mix *columns = make_map(t, axes[1], choice, (size_t[]){ columns_of(theirs), C });
    if (t->region.failed)
        return;
    if (rows && columns) {
        const size_t fresh_columns = count_fresh(columns, C), fresh = count_fresh(rows, R) + fresh_columns;
        take_mapped(t->from->params + theirs->offset, columns_of(theirs), rows, R, columns, C, to);
        *(axes[1] == OUTPUTS && fresh_columns == C ? &t->fresh : fresh ? &t->part : &t->whole) += 1;
    } else if (choice < TFT_CHOICES && t->to->config->conformance == TFT_PYTORCH_FORECASTING &&
               t->theirs->H == t->to->config->H) {
        t->fresh++; /* the joint network's inner width goes by the number of inputs */
    } else {
        t->status = other_shape(t->log, t->folder, theirs, mine);
    }
}

static void take_tensor(struct transfer *t, const struct tft_param *mine, float *params)
{
    const struct tft_param *theirs = param_named(tft_model_params(t->from->model), mine->name);
    const size_t inputs[2] = { input_of(&t->from->schema, mine->name), input_of(t->to->schema, mine->name) };

    if (!theirs) {
        halay_info(t->log, "init_from: '%s' is not in '%s'", mine->name, t->folder);
        t->fresh++;
    } else if (has_names(&t->from->schema, inputs[0]) && has_names(t->to->schema, inputs[1]) &&
               theirs->shape[1] == mine->shape[1]) {
        take_rows(t, theirs, mine, inputs, params + mine->offset);
        t->whole++;
    } else if (has_names(t->to->schema, inputs[1]) && t->to->config->conformance == TFT_PYTORCH_FORECASTING &&
               t->theirs->H == t->to->config->H && theirs->shape[1] != mine->shape[1]) {
        halay_append(t->categories, sizeof t->categories, "; input '%s': an embedding of another width",
                     t->to->schema->inputs[inputs[1]].name); /* it goes by the number of categories */
        t->fresh++;
    } else {
        take_matrix(t, theirs, mine, params + mine->offset);
    }
}

/* ---- the report ---- */

/* Lists the names of a's variables that b lacks. */
static void list_others(const struct tft_model_config *a, const struct tft_model_config *b, const char *what,
                        char *text)
{
    size_t n = 0;

    for (size_t i = 0; i < a->variable_count; i++) {
        size_t j = 0;
        while (j < b->variable_count && !is_same_variable(&a->variables[i], &b->variables[j]))
            j++;
        if (j == b->variable_count)
            halay_append(text, LIST_SIZE, "%s%s", n++ ? ", " : what, a->variables[i].name);
    }
}

/* Lists inputs of both whose values mean something else. */
static void list_rescaled(const struct transfer *t, char *text)
{
    const struct tft_schema *here = t->to->schema, *there = &t->from->schema;
    size_t n = 0;

    for (size_t i = 0; i < here->input_count; i++)
        for (size_t j = 0; j < there->input_count; j++) {
            const struct tft_input *a = &here->inputs[i], *b = &there->inputs[j];
            if (!strcmp(a->name, b->name) && a->is_category == b->is_category &&
                (a->scale != b->scale || a->per != b->per || a->transform != b->transform))
                halay_append(text, LIST_SIZE, "%s%s", n++ ? ", " : "; scaled otherwise: ", a->name);
        }
}

static enum halay_status report_transfer(const struct transfer *t)
{
    char text[4 * LIST_SIZE] = "", added[LIST_SIZE] = "", left[LIST_SIZE] = "", rescaled[LIST_SIZE] = "";

    if (!t->whole && !t->part)
        return halay_fail(t->log, HALAY_ERR_CONFIG, "init_from: '%s' has no tensor that this model has", t->folder);
    list_others(t->to->config, t->theirs, "; new inputs: ", added);
    list_others(t->theirs, t->to->config, "; inputs left out: ", left);
    list_rescaled(t, rescaled);
    halay_append(text, sizeof text, "%s%s%s%s", added, left, rescaled, t->categories);
    if (t->has_other_quantiles || t->theirs->loss != t->to->config->loss)
        halay_append(text, sizeof text, t->has_other_quantiles ? "; other quantiles" : "; another loss");
    if (t->theirs->conformance != t->to->config->conformance)
        halay_append(text, sizeof text, "; another conformance");
    if (t->part || t->fresh || *text)
        halay_warning(t->log, "init_from: of '%s': %zu tensors whole, %zu in part; %zu begin at random%s", t->folder,
                      t->whole, t->part, t->fresh, text);
    else
        halay_info(t->log, "init_from: all %zu tensors are those of '%s'", t->whole, t->folder);
    return HALAY_OK;
}

enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_run *from,
                               const struct tft_transfer_to *to, float *params)
{
    struct transfer t = {
        .log = log, .folder = folder, .from = from, .theirs = tft_model_config(from->model), .to = to
    };

    for (size_t i = 0; i < to->table->count && !t.status && !t.region.failed; i++)
        take_tensor(&t, &to->table->params[i], params);
    if (t.region.failed)
        t.status = halay_no_memory(log, "for a transfer from '%s'", folder);
    halay_region_fini(&t.region);
    return t.status ? t.status : report_transfer(&t);
}
