/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles, and the log of a model's queries, as calls.
 */
#include "tft/core/api/model_calls.h"

enum halay_status halay_tft_profile(struct halay_tft_model *model, struct halay_tft_data *data, const char *folder)
{
    json_t *document = NULL;

    if (!model || !data || !folder)
        return tft_session_refuse_null("halay_tft_profile", "an argument");
    struct halay_tft *t = model->tft;
    enum halay_status status = tft_model_enter(model);
    if (!status)
        status = tft_model_lend_data(model, data, TFT_CALIBRATE_NONE);
    if (!status && t->rank == 0)
        status = tft_profile_make(&t->log, &model->inference.data, &document);
    if (!status && t->rank == 0)
        status = tft_profile_save(&t->log, folder, document);
    status = tft_session_agree(t, status);
    json_decref(document);
    tft_model_return_data(model);
    return tft_session_leave(t, status);
}

enum halay_status halay_tft_model_inputs(const struct halay_tft_model *model, char **json)
{
    if (!model || !json)
        return tft_session_refuse_null("halay_tft_model_inputs", "an argument");
    tft_session_enter(model->tft);
    json_t *inputs = tft_profile_json(model->profile, &model->inference.run.schema);
    return tft_session_leave(model->tft, tft_session_text(model->tft, inputs, json));
}
