/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/members.h"
#include "base/memory.h"
#include "tft/core/model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tft_member_name tft_member_name(size_t member, const char *ending)
{
    struct tft_member_name name;

    snprintf(name.text, sizeof name.text, "member-%zu%s", member + 2, ending);
    return name;
}

float *tft_alloc_params(struct halay_log *log, const struct tft_model *model)
{
    size_t bytes = tft_model_params(model)->reals * sizeof(float);
    float *params = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);

    if (params)
        memset(params, 0, bytes);
    else
        halay_error(log, "no memory for %zu parameters", tft_model_params(model)->reals);
    return params;
}

enum halay_status tft_members_init(struct halay_log *log, const struct tft_model *model, size_t count,
                                   struct tft_members *members)
{
    *members = (struct tft_members){ 0 };
    for (; members->count < count; members->count++) {
        members->params[members->count] = tft_alloc_params(log, model);
        if (!members->params[members->count])
            return HALAY_ERR_NO_MEMORY;
    }
    return HALAY_OK;
}

void tft_members_fini(struct tft_members *members)
{
    for (size_t i = 0; i < members->count; i++)
        free(members->params[i]);
    *members = (struct tft_members){ 0 };
}
