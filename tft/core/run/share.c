/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/share.h"
#include <stdlib.h>
#include <string.h>

enum halay_status tft_agree(struct halay_context *ctx, const char *name, enum halay_status status)
{
    int32_t worst = (int32_t)status;
    enum halay_status agreed = HALAY_OK;

    if (halay_size(ctx) > 1)
        agreed = halay_allreduce(ctx, name, NULL, &worst, 1, HALAY_I32, HALAY_MAX);
    if (status || agreed)
        return status ? status : agreed;
    return worst ? HALAY_ERR_PEER : HALAY_OK;
}

/* Broadcast a text of rank 0; the others own theirs. */
static enum halay_status share_text(struct halay_log *log, struct halay_context *ctx, char **text)
{
    int64_t size = *text ? (int64_t)strlen(*text) + 1 : 0;
    enum halay_status status = halay_broadcast(ctx, "document.size", &size, 1, HALAY_I64, 0);

    if (!status && !*text) {
        *text = malloc((size_t)size + 1);
        status = *text ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for a document of rank 0");
    status = tft_agree(ctx, "document.room", status);
    return status ? status : halay_broadcast(ctx, "document", *text, (size_t)size, HALAY_U8, 0);
}

enum halay_status tft_share_document(struct halay_log *log, struct halay_context *ctx, const char *name,
                                     enum halay_status status, json_t **document)
{
    const int has_it = halay_rank(ctx) == 0;
    char *text = NULL;

    if (halay_size(ctx) == 1)
        return status;
    if (has_it && !status) {
        text = json_dumps(*document, JSON_COMPACT);
        status = text ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(log, "no memory for the text of '%s'", name);
    }
    status = tft_agree(ctx, "document.read", status);
    if (!status)
        status = share_text(log, ctx, &text);
    if (!status && !has_it) {
        *document = json_loads(text, 0, NULL);
        status = *document ? HALAY_OK : HALAY_ERR_NO_MEMORY;
        if (status)
            halay_error(log, "no memory for '%s'", name);
    }
    free(text);
    return tft_agree(ctx, "document.known", status);
}

enum halay_status tft_share_members(struct halay_context *ctx, const struct tft_param_table *table,
                                    struct tft_members *members)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < members->count && !status && halay_size(ctx) > 1; i++)
        status = halay_broadcast(ctx, "run.member", members->params[i], table->reals, HALAY_F32, 0);
    return status;
}

/* The numbers of what rank 0 has read, in memory that all ranks have. */
static enum halay_status share_params(struct halay_log *log, struct halay_context *ctx, struct tft_run *r)
{
    const size_t reals = tft_model_params(r->model)->reals;
    double about[] = { (double)r->step, r->refit != NULL, (double)r->members.count };
    enum halay_status status = halay_broadcast(ctx, "run.step", about, 3, HALAY_F64, 0), room = HALAY_OK;

    r->step = (long long)about[0];
    if (!status && about[1] && !r->refit) {
        r->refit = tft_alloc_params(log, r->model);
        room = r->refit ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    }
    if (!status && !room && !r->members.count)
        room = tft_members_init(log, r->model, (size_t)about[2], &r->members);
    status = tft_agree(ctx, "run.room", status ? status : room);
    if (!status)
        status = tft_share_members(ctx, tft_model_params(r->model), &r->members);
    if (!status && r->refit)
        status = halay_broadcast(ctx, "run.refit", r->refit, reals, HALAY_F32, 0);
    if (!status && r->blend.errors)
        status = halay_broadcast(ctx, "run.blend", r->blend.weights, tft_blend_weights_count(&r->blend), HALAY_F64, 0);
    return status ? status : halay_broadcast(ctx, "run.parameters", r->params, reals, HALAY_F32, 0);
}

enum halay_status tft_run_load_shared(struct halay_log *log, struct halay_context *ctx, const char *folder,
                                      const struct tft_device *device, struct tft_run *run)
{
    const int reads = halay_rank(ctx) == 0;
    struct tft_run r = { 0 };
    enum halay_status status = reads ? tft_run_load(log, folder, device, &r) : HALAY_OK;
    json_t *document = json_incref(r.document); /* NULL stays that */

    status = tft_share_document(log, ctx, folder, status, &document);
    if (!status && !reads)
        status = tft_run_of(log, folder, document, device, &r);
    json_decref(document);
    status = tft_agree(ctx, "run.made", status);
    if (!status && halay_size(ctx) > 1)
        status = share_params(log, ctx, &r);
    if (status)
        tft_run_fini(&r);
    else
        *run = r;
    return status;
}
