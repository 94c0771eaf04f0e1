/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/model/outputs.h"
#include "tft/core/model/distribution.h"

void tft_outputs_forecast(const struct tft_model_config *config, const real *o, real offset, real unit, real *forecast)
{
    double numbers[TFT_LOSS_PARAMETERS_MAX];

    if (!tft_loss_is_distribution(config->loss)) {
        for (size_t q = 0; q < config->quantile_count; q++)
            forecast[q] = offset + unit * o[q];
        return;
    }
    for (size_t k = 0; k < tft_config_outputs(config); k++)
        numbers[k] = (double)o[k];
    const struct tft_distribution d =
        tft_distribution_of(config->loss, config->tweedie_power, numbers, (double)offset, (double)unit);
    for (size_t q = 0; q < config->quantile_count; q++)
        forecast[q] = (real)tft_distribution_quantile(&d, config->quantiles[q]);
}
