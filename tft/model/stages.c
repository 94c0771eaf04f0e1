/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages: what lies between two segments is copied into the numbers that travel, and out of them.
 */
#include "tft/model/stages.h"
#include "tft/model/network.h"
#include <string.h>

/* The contexts that segments behind the first need. */
static const int contexts[] = { CONTEXT_ENRICHMENT, CONTEXT_H, CONTEXT_C };
enum { TRAVELLING = sizeof contexts / sizeof *contexts };

int tft_segment_rank(int segment, int ranks)
{
    return segment < ranks ? segment : ranks - 1;
}

size_t tft_stage_numbers(const struct tft_model *model, size_t B)
{
    return (model->T + TRAVELLING) * B * model->config.H;
}

/* What a segment gets from the one before. */
static real *between(const struct tft_workspace *w, int segment)
{
    return segment == TFT_SEGMENT_SEQUENCE ? w->selected : w->phi;
}

static void pack(const struct tft_workspace *w, size_t B, const real *rows, real *const *of_contexts, real *numbers)
{
    size_t state = B * w->model->config.H, count = w->model->T * state;

    memcpy(numbers, rows, count * sizeof *numbers);
    for (int k = 0; k < TRAVELLING; k++)
        memcpy(numbers + count + (size_t)k * state, of_contexts[contexts[k]], state * sizeof *numbers);
}

static void unpack(const struct tft_workspace *w, size_t B, const real *numbers, real *rows, real *const *of_contexts)
{
    size_t state = B * w->model->config.H, count = w->model->T * state;

    memcpy(rows, numbers, count * sizeof *numbers);
    for (int k = 0; k < TRAVELLING; k++)
        memcpy(of_contexts[contexts[k]], numbers + count + (size_t)k * state, state * sizeof *numbers);
}

static enum halay_status forward(struct tft_workspace *w, const struct pass *pass, const struct tft_stage *s, size_t g)
{
    real *up = s->numbers(s->arg, g, TFT_UP), *down = s->numbers(s->arg, g, TFT_DOWN);
    enum halay_status status = HALAY_OK;

    if (s->first > 0)
        status = s->move(s->arg, g, TFT_UP, 0);
    if (status)
        return status;
    if (s->first > 0) {
        unpack(w, pass->B, up, between(w, s->first), w->context);
        w->past = w->coming = 0; /* of the forecasts before */
    }
    for (int segment = s->first; segment < s->end; segment++)
        segment_forward(w, pass, segment);
    if (s->end == TFT_SEGMENTS)
        return HALAY_OK;
    pack(w, pass->B, between(w, s->end), w->context, down);
    return s->move(s->arg, g, TFT_DOWN, 0);
}

static enum halay_status backward(struct tft_workspace *w, const struct pass *pass, const struct tft_stage *s, size_t g)
{
    real *up = s->numbers(s->arg, g, TFT_UP), *down = s->numbers(s->arg, g, TFT_DOWN);
    enum halay_status status = HALAY_OK;

    if (s->end < TFT_SEGMENTS)
        status = s->move(s->arg, g, TFT_DOWN, 1);
    if (status)
        return status;
    if (s->end < TFT_SEGMENTS) {
        unpack(w, pass->B, down, w->d_phi, w->d_context);
        memset(w->d_context[CONTEXT_SELECTION], 0, pass->B * w->model->config.H * sizeof(real));
    }
    for (int segment = s->end; segment-- > s->first;)
        segment_backward(w, pass, segment);
    if (s->first == 0)
        return HALAY_OK;
    pack(w, pass->B, w->d_phi, w->d_context, up);
    return s->move(s->arg, g, TFT_UP, 1);
}

enum halay_status workspace_stage(struct tft_workspace *w, const struct pass *pass, const struct tft_stage *stage,
                                  size_t granule, const struct outputs_run *run)
{
    enum halay_status status = forward(w, pass, stage, granule);

    if (!status && stage->end == TFT_SEGMENTS) {
        kernel_loss(w->queue, run, w->loss, w->d_output);
        workspace_clock(w, TFT_PART_LOSS);
    }
    return status ? status : backward(w, pass, stage, granule);
}
