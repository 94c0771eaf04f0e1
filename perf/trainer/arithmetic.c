/* SPDX-License-Identifier: Apache-2.0
 *
 * A dense layer over R rows costs R in out multiply-adds; a layer of rank 1 counts as none. For the Electricity
 * configuration that gives 145.0 million a sample. With the loops of rank 1, 0.24, and the joint network of the single
 * static variable, 0.05, which is not computed, it would be 145.3.
 */
#include "perf/trainer/arithmetic.h"
#include "tft/core/model/model_impl.h"
#include <string.h>

static double dense(const struct linear *layer)
{
    return layer->w == TFT_NONE ? 0 : (double)layer->in * (double)layer->out;
}

static double glu(const struct glu *layer)
{
    return dense(&layer->value) + dense(&layer->gate);
}

/* Of a row, what follows the first layer and the skip connection. */
static double tail(const struct grn *grn)
{
    return dense(&grn->dense2) + glu(&grn->glu);
}

/* R rows of a sample. */
static double grn(const struct grn *layer, double R)
{
    return R * (dense(&layer->dense1) + dense(&layer->skip) + tail(layer)) + dense(&layer->context);
}

/* A row of a variable's own network; what has rank 1 is none. */
static double variable(const struct grn *own, int rank1)
{
    if (own->bare)
        return dense(&own->skip);
    return rank1 ? tail(own) : tail(own) + dense(&own->dense1) + dense(&own->skip);
}

static double selection(const struct tft_model *model, const struct vsn *vsn, double R)
{
    double sum = 0;

    for (size_t j = 0; j < vsn->V; j++) {
        const struct grn *own = &vsn->variables[j];
        int rank1 = model->variables[vsn->chosen[j]].rank1;

        sum += variable(own, rank1);
        if (!vsn->single && !rank1)
            sum += (double)own->in * (double)(vsn->joint.H + vsn->V);
    }
    return vsn->single ? R * sum : R * (sum + tail(&vsn->joint)) + dense(&vsn->joint.context);
}

void tft_model_products(const struct tft_model *model, double *products)
{
    double E = (double)model->config.E, D = (double)model->config.D, T = E + D, N = (double)model->queries;
    double H = (double)model->config.H, d = (double)model->attention.d;

    memset(products, 0, TFT_PART_COUNT * sizeof *products);
    if (model->static_selection.V)
        products[TFT_PART_STATIC] = selection(model, &model->static_selection, 1);
    for (size_t k = 0; k < CONTEXTS; k++)
        products[TFT_PART_STATIC] += grn(&model->contexts[k], 1);
    products[TFT_PART_HISTORY] = selection(model, &model->history_selection, E);
    products[TFT_PART_FUTURE] = selection(model, &model->future_selection, D);
    products[TFT_PART_LSTM] = T * (dense(&model->encoder.input) + dense(&model->encoder.recurrent));
    products[TFT_PART_GATE] = T * glu(&model->sequence_gate);
    products[TFT_PART_ENRICHMENT] = grn(&model->enrichment, T);
    products[TFT_PART_ATTENTION] = (N + T) * H * H + (T + N) * H * d + 2 * N * T * H;
    products[TFT_PART_TAIL] = N * (glu(&model->attention_gate) + glu(&model->output_gate)) +
                              grn(&model->feedforward, N) + D * dense(&model->output);
}
