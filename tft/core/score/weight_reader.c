/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/score/weight_reader.h"

const char *const tft_part_names[TFT_CHOICES] = {
    [TFT_CHOICE_STATIC] = "static", [TFT_CHOICE_HISTORY] = "past", [TFT_CHOICE_FUTURE] = "future"
};

const char *tft_weight_name(const struct tft_weight_reader *r, int choice, size_t j)
{
    return tft_model_config(r->model)->variables[r->variables[choice][j]].name;
}

size_t tft_weight_steps(const struct tft_weight_reader *r, int choice)
{
    if (choice == TFT_CHOICE_STATIC)
        return 1;
    return choice == TFT_CHOICE_HISTORY ? r->E : r->D;
}

enum halay_status tft_weight_reader_init(struct halay_log *log, const struct tft_model *model, size_t threads,
                                         struct tft_weight_reader *r)
{
    const struct tft_model_config *c = tft_model_config(model);

    *r = (struct tft_weight_reader){ .model = model, .E = c->E, .D = c->D, .T = c->E + c->D, .heads = c->heads };
    for (int choice = 0; choice < TFT_CHOICES; choice++)
        r->all += r->V[choice] = tft_config_choice(c, (enum tft_choice)choice, r->variables[choice]);
    r->threads = halay_region_alloc(&r->memory, threads, sizeof *r->threads);
    for (size_t i = 0; r->threads && i < threads; i++)
        r->threads[i] = (struct tft_weights){
            .statics = halay_region_alloc(&r->memory, c->granule, r->V[TFT_CHOICE_STATIC] * sizeof(real)),
            .history = halay_region_alloc(&r->memory, c->granule * r->E, r->V[TFT_CHOICE_HISTORY] * sizeof(real)),
            .future = halay_region_alloc(&r->memory, c->granule * r->D, r->V[TFT_CHOICE_FUTURE] * sizeof(real)),
            .attention = halay_region_alloc(&r->memory, c->granule * r->heads * r->D, r->T * sizeof(real)),
        };
    return r->memory.failed ? halay_no_memory(log, "for the weights of %zu threads", threads) : HALAY_OK;
}

void tft_weight_reader_fini(struct tft_weight_reader *r)
{
    halay_region_fini(&r->memory);
    *r = (struct tft_weight_reader){ 0 };
}

const struct tft_weights *tft_weight_reader_read(const struct tft_weight_reader *r,
                                                 const struct tft_forecast_granule *granule)
{
    const struct tft_weights *weights = &r->threads[granule->thread];

    tft_workspace_weights(granule->workspace, weights);
    return weights;
}

/* Computes the means of rows [0, steps) of V weights. */
static void mean_of_rows(const real *rows, size_t steps, size_t V, float *means)
{
    for (size_t j = 0; j < V; j++) {
        double sum = 0;
        for (size_t t = 0; t < steps; t++)
            sum += (double)rows[t * V + j];
        means[j] = (float)(sum / (double)steps);
    }
}

void tft_weight_means(const struct tft_weight_reader *r, const struct tft_weights *w, const struct tft_batch *batch,
                      size_t b, float *means)
{
    size_t statics = r->V[TFT_CHOICE_STATIC], past = r->V[TFT_CHOICE_HISTORY], future = r->V[TFT_CHOICE_FUTURE];
    size_t length = batch->lengths[b];

    mean_of_rows(w->statics + b * statics, 1, statics, means);
    mean_of_rows(w->history + ((b + 1) * r->E - length) * past, length, past, means + statics);
    mean_of_rows(w->future + b * r->D * future, r->D, future, means + statics + past);
}

void tft_weight_lags(const struct tft_weight_reader *r, const struct tft_weights *w, const struct tft_batch *batch,
                     size_t b, float *lags)
{
    size_t length = batch->lengths[b];

    for (size_t lag = 0; lag < r->T; lag++) {
        double sum = 0;
        size_t first = lag > length ? lag - length : 0; /* the first step of the horizon that sees so far back */
        for (size_t h = first; h < r->D; h++)
            sum += tft_weight_attention(r, w, b, h, r->E + h - lag);
        lags[lag] = first < r->D ? (float)(sum / (double)(r->D - first)) : 0;
    }
}

void tft_weight_places(const struct tft_weight_reader *r, const struct tft_weights *w, size_t b, float *places)
{
    for (size_t t = 0; t < r->T; t++) {
        double sum = 0;
        for (size_t h = 0; h < r->D; h++)
            sum += tft_weight_attention(r, w, b, h, t);
        places[t] = (float)(sum / (double)r->D);
    }
}
