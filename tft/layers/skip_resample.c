/* SPDX-License-Identifier: Apache-2.0
 *
 * With c_io the interpolation's coefficients: S_io = 2 s(mask_o) c_io,  d_mask_o = 2 s'(mask_o) sum over i of c_io
 * d_S_io.
 */
#include "tft/layers/skip_resample.h"
#include "tft/kernels/vector.h"

/* The two inputs of output o, and the second one's share. */
struct between {
    size_t left, right;
    real share;
};

static struct between between(size_t o, size_t in, size_t out)
{
    real position = out > 1 ? (real)o * (real)(in - 1) / (real)(out - 1) : 0;
    size_t left = (size_t)position;

    if (left > in - 1)
        left = in - 1;
    return (struct between){ left, left + 1 < in ? left + 1 : left, position - (real)left };
}

void resample_matrix(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    size_t in = layer->in, out = layer->out;
    real *s = pass->derived + (layer->w - TFT_DERIVED);

    reals_zero(s, in * out);
    for (size_t o = 0; o < out; o++) {
        struct between at = between(o, in, out);
        real scale = resample->mask == TFT_NONE ? 1 : 2 * real_sigmoid(pass->p[resample->mask + o]);

        s[at.left * out + o] += scale * (1 - at.share);
        s[at.right * out + o] += scale * at.share;
    }
}

void resample_backward(const struct pass *pass, const struct resample *resample, const struct linear *layer)
{
    size_t in = layer->in, out = layer->out;
    const real *d_s = pass_g(pass, layer->w);

    for (size_t o = 0; o < out; o++) {
        struct between at = between(o, in, out);
        real open = real_sigmoid(pass->p[resample->mask + o]);
        real along = (1 - at.share) * d_s[at.left * out + o] + at.share * d_s[at.right * out + o];

        pass->g[resample->mask + o] = 2 * open * (1 - open) * along;
    }
}
