/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/layers/skip_resample.h"

void resample_matrix(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    const real *mask = resample->mask == TFT_NONE ? NULL : pass->p + resample->mask;

    kernel_resample(pass->queue, mask, layer->in, layer->out, pass->derived + (layer->w - TFT_DERIVED));
}

void resample_backward(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    kernel_resample_backward(pass->queue, pass->p + resample->mask, pass_g(pass, layer->w), layer->in, layer->out,
                             pass->g + resample->mask);
}
