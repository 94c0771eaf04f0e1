/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that windows share. A selection's output for a row depends only on that row's inputs and the static inputs, and
 * consecutive windows of one entity have most of their rows in common. In forecasts, which have no dropout, such a
 * granule computes each row once, on devices that find equal rows (tft/core/kernels/kernels.h).
 */
#include "tft/core/model/network.h"
#include <string.h>

int shared_rows_statics(const struct tft_workspace *workspace)
{
    const struct tft_columns *columns = &workspace->model->columns;
    const struct tft_batch *batch = &workspace->batch;
    size_t reals = columns->static_reals, cats = columns->static_cats;

    if (!workspace->model->kernels->shared_rows_gather)
        return 0;
    for (size_t b = 1; b < batch->B; b++)
        if (memcmp(batch->static_reals + b * reals, batch->static_reals, reals * sizeof(real)) != 0 ||
            memcmp(batch->static_cats + b * cats, batch->static_cats, cats * sizeof *batch->static_cats) != 0)
            return 0;
    return 1;
}

size_t shared_rows_gather(struct tft_workspace *w, const struct vsn *vsn, size_t row, size_t R)
{
    struct shared_input inputs[TFT_VARIABLES_MAX];
    size_t count;
    const struct shared_rows rows = {
        .R = R, .V = vsn->V, .inputs = inputs, .places = w->places + row, .slots = w->slots
    };

    for (size_t j = 0; j < vsn->V; j++) {
        size_t i = vsn->chosen[j];

        inputs[j] = (struct shared_input){ .x = w->x[i] ? w->x[i] + row : NULL,
                                           .codes = w->codes[i] ? w->codes[i] + row : NULL };
    }
    kernel_shared_rows_gather(w->queue, &rows, &count);
    return count;
}
