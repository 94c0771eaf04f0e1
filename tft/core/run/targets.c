/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/targets.h"
#include "tft/core/data/lost_changes.h"
#include "tft/core/run/run_config.h"
#include <math.h>
#include <stdio.h>

static enum halay_status check_scale(struct halay_log *log, const struct tft_data *d, size_t o)
{
    const struct tft_input *input = &d->schema.inputs[d->schema.targets[o]];

    if (input->scale != TFT_SCALE_LOG1P)
        return HALAY_OK;
    halay_error(log,
                "target '%s' is scaled by its logarithm, and 'loss: %s' is of the target itself: prepare it with "
                "'scale: standard', or use 'loss: gaussian', which is then of the logarithm",
                input->name, tft_loss_words[d->loss]);
    return HALAY_ERR_FORMAT;
}

static enum halay_status refuse(struct halay_log *log, const struct tft_data *d, size_t e, size_t row, size_t o)
{
    double y = d->target[row * d->schema.target_count + o];
    char time[40];

    tft_schema_print_time(&d->schema, tft_data_time(d, e, row), time, sizeof time);
    halay_error(log, "target '%s' of '%s' is %g at %s: 'loss: %s' is of %s from 0 on; %s",
                d->schema.inputs[d->schema.targets[o]].name, d->entities[e].id, y, time, tft_loss_words[d->loss],
                tft_loss_counts(d->loss) ? "whole numbers" : "numbers",
                y < 0 ? "gaussian and student-t are of any" : "tweedie is of others, too");
    return HALAY_ERR_FORMAT;
}

enum halay_status tft_targets_check(struct halay_log *log, const struct tft_data *d)
{
    size_t O = d->schema.target_count;
    enum halay_status status = HALAY_OK;

    if (!tft_loss_is_unscaled(d->loss))
        return HALAY_OK;
    for (size_t o = 0; o < O && !status; o++)
        status = check_scale(log, d, o);
    for (size_t e = 0; e < d->entity_count && !status; e++) {
        size_t first = d->entities[e].first, end = first + d->entities[e].rows;
        status = tft_data_check(d, first, end - first);
        for (size_t i = first * O; i < end * O && !status; i++)
            if (d->present[i] &&
                (d->target[i] < 0 || (tft_loss_counts(d->loss) && d->target[i] != floor(d->target[i]))))
                status = refuse(log, d, e, i / O, i % O);
    }
    return status;
}

/* Of the last rows. */
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
