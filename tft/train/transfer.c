/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfer: tensor by tensor, and embeddings row by row.
 */
#include "tft/train/transfer.h"
#include <stdlib.h>
#include <string.h>

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

/* Do both know the rows' names? A calendar's are numbers, the same everywhere. */
static int has_names(const struct tft_schema *schema, size_t input)
{
    return input < schema->input_count && schema->inputs[input].source != TFT_FROM_CALENDAR;
}

/* The initial row of a category that the other run did not have: its row for unknown ones, or the mean of the
 * others. */
static void make_unknown(const struct tft_run *from, size_t input, const float *rows, size_t count, size_t width,
                         float *row)
{
    int32_t unknown = -1;
    int has_row = tft_encoding_unknown(&from->schema, &from->encoding, input, &unknown);
    size_t named = count - (size_t)has_row;

    if (has_row && (from->config.category_dropout > 0 || !named)) {
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

/* Fill an embedding's rows, each by its category's name; rows: (count, width). Returns how many are new. */
static size_t take_rows(const struct tft_run *from, const struct tft_param *theirs, const struct tft_transfer_to *to,
                        const struct tft_param *mine, size_t inputs[2], float *rows)
{
    size_t width = mine->shape[1], news = 0, code;
    const float *old = from->params + theirs->offset;

    for (size_t r = 0; r < mine->shape[0]; r++) {
        const char *name = tft_encoding_name(to->schema, to->encoding, inputs[1], r);
        float *row = rows + r * width;
        if (to->schema->inputs[inputs[1]].source == TFT_FROM_HOLIDAYS && r == 0) {
            memcpy(row, old, width * sizeof *row); /* a day that is no holiday */
        } else if (name && tft_encoding_find(&from->schema, &from->encoding, inputs[0], name, &code)) {
            memcpy(row, old + code * width, width * sizeof *row);
        } else {
            make_unknown(from, inputs[0], old, theirs->shape[0], width, row);
            news += name != NULL;
        }
    }
    return news;
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
    halay_error(
        log,
        "init_from: tensor '%s' is %s in '%s', this model's is %s: both need the same keys of the model, the same "
        "inputs but for their categories, and as many quantiles",
        mine->name, shapes[0], folder, shapes[1]);
    return HALAY_ERR_CONFIG;
}

static int same_shape(const struct tft_param *a, const struct tft_param *b)
{
    return a->dimensions == b->dimensions && !memcmp(a->shape, b->shape, (size_t)a->dimensions * sizeof *a->shape);
}

enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_run *from,
                               const struct tft_transfer_to *to, float *params)
{
    const struct tft_param_table *table = tft_model_params(from->model);
    size_t left = 0;

    for (size_t i = 0; i < to->table->count; i++) {
        const struct tft_param *mine = &to->table->params[i], *theirs = param_named(table, mine->name);
        size_t inputs[2] = { input_of(&from->schema, mine->name), input_of(to->schema, mine->name) };
        if (!theirs) {
            halay_info(log, "'%s' is not in '%s'", mine->name, folder);
            left++;
        } else if (has_names(&from->schema, inputs[0]) && has_names(to->schema, inputs[1]) &&
                   theirs->shape[1] == mine->shape[1]) {
            size_t news = take_rows(from, theirs, to, mine, inputs, params + mine->offset);
            if (news)
                halay_warning(
                    log,
                    "init_from: categories of input '%s' that '%s' does not have and that begin as unknown ones: %zu",
                    to->schema->inputs[inputs[1]].name, folder, news);
        } else if (same_shape(theirs, mine)) {
            memcpy(params + mine->offset, from->params + theirs->offset, mine->count * sizeof *params);
        } else {
            return other_shape(log, folder, theirs, mine);
        }
    }
    if (left == to->table->count) {
        halay_error(log, "init_from: '%s' has no tensor that this model has", folder);
        return HALAY_ERR_CONFIG;
    }
    if (left)
        halay_warning(log, "init_from: %zu of %zu tensors are not in '%s' and begin at random", left, to->table->count,
                      folder);
    return HALAY_OK;
}
