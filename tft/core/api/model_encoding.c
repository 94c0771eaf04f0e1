/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls for programs that compute a model's forecasts themselves: how values are encoded, the formulas' numbers, and
 * the factors of a calibration.
 */
#include "tft/core/api/api_impl.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/model/tft.h"
#include "tft/core/run/batches.h"
#include <stdlib.h>
#include <string.h>

/* Returns the factors by which a skip connection's numbers are multiplied; NULL without memory. */
static json_t *list_skip_scales(const float *mask, size_t count)
{
    float *scales = calloc(count, sizeof *scales);
    json_t *list = scales ? json_array() : NULL;

    if (list)
        tft_kernels_cpu()->resample(NULL, mask, 1, count, scales); /* one number, repeated and scaled */
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(list, json_real((double)scales[i]));
    free(scales);
    return list;
}

static json_t *describe_formulas(const struct tft_run *run)
{
    const struct tft_distribution normal = { .family = TFT_LOSS_GAUSSIAN, .at = { 0, 1 } };
    const struct tft_model_config *config = tft_model_config(run->model);
    const struct tft_param_table *table = tft_model_params(run->model);
    json_t *quantiles = json_array(), *skips = json_object();

    for (size_t q = 0; q < config->quantile_count; q++)
        json_array_append_new(quantiles, json_real(tft_distribution_quantile(&normal, config->quantiles[q])));
    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *param = &table->params[i];
        const char *last = strrchr(param->name, '.');
        if (last && !strcmp(last, ".mask"))
            json_object_set_new(skips, param->name, list_skip_scales(run->params + param->offset, param->count));
    }
    return json_pack("{sf sf so so}", "spread_least", tft_spread_least, "deviation_least", TFT_LEAST_SPREAD,
                     "normal_quantiles", quantiles, "skip_scales", skips);
}

static json_t *describe_encoding(const struct tft_run *run)
{
    json_t *encoding = tft_encoding_json(&run->schema, &run->encoding);

    if (!json_object_set_new(encoding, "formulas", describe_formulas(run)))
        return encoding;
    json_decref(encoding);
    return NULL;
}

enum halay_status halay_tft_model_encoding(const struct halay_tft_model *m, char **json)
{
    return TFT_CALL(m && json, m->tft, tft_session_text(m->tft, describe_encoding(&m->inference.run), json));
}

static enum halay_status give_calibration(const struct halay_tft_model *m, const char *calibrate, char **json)
{
    const struct tft_run *run = &m->inference.run;
    struct halay_log *log = &m->tft->log;
    json_t *described;
    int word;
    enum halay_status status =
        tft_session_word(m->tft, "calibrate", calibrate, tft_calibrate_words, (int)run->config.calibrate, &word);

    if (status)
        return status;
    if (word == TFT_CALIBRATE_NONE ||
        (word == TFT_CALIBRATE_AUTO && !tft_calibration_suits(log, m->folder, m->calibration, run)))
        return tft_session_text(m->tft, json_pack("{ss ss}", "kind", "calibration", "method", "none"), json);
    if (!m->calibration)
        return halay_fail(log, HALAY_ERR_ARGUMENT,
                          "the model has no calibration: halay_tft_calibrate makes one, 'none' does without");
    if ((status = tft_calibration_describe(log, m->folder, m->calibration, run, &described)))
        return status;
    json_object_set_new(described, "method", json_string(word == TFT_CALIBRATE_ROLLING ? "rolling" : "conformal"));
    return tft_session_text(m->tft, described, json);
}

enum halay_status halay_tft_model_calibration(const struct halay_tft_model *m, const char *calibrate, char **json)
{
    return TFT_CALL(m && json, m->tft, give_calibration(m, calibrate, json));
}
