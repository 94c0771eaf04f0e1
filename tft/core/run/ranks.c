/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/ranks.h"
#include "base/machine/topology.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

int tft_rank_threads(struct halay_log *log, const struct halay_context *ctx)
{
    struct halay_topology topology;

    if (halay_topology_load(log, &topology))
        return 1;
    int share = halay_topology_usable(&topology) / halay_local_size(ctx);
    return share > 1 ? share : 1;
}

void tft_stop_ask(struct tft_stop *stop, int reason)
{
    atomic_store_explicit(&stop->reason, reason, memory_order_relaxed);
}

int tft_stop_asked(const struct tft_stop *stop)
{
    return stop ? atomic_load_explicit(&stop->reason, memory_order_relaxed) : 0;
}

enum halay_status tft_stop_share(struct halay_context *ctx, struct tft_stop *stop, int *reason)
{
    int32_t max = tft_stop_asked(stop);
    enum halay_status status;

    if (halay_size(ctx) > 1 && (status = halay_allreduce(ctx, "interrupt", NULL, &max, 1, HALAY_I32, HALAY_MAX)))
        return status;
    if (max && stop)
        tft_stop_ask(stop, max);
    *reason = max;
    return HALAY_OK;
}

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

    if (!status && !*text && !(*text = malloc((size_t)size + 1)))
        status = halay_no_memory(log, "for a document of rank 0");
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
    if (has_it && !status && !(text = json_dumps(*document, JSON_COMPACT)))
        status = halay_no_memory(log, "for the text of '%s'", name);
    status = tft_agree(ctx, "document.read", status);
    if (!status)
        status = share_text(log, ctx, &text);
    if (!status && !has_it && !(*document = json_loads(text, 0, NULL)))
        status = halay_no_memory(log, "for '%s'", name);
    free(text);
    return tft_agree(ctx, "document.known", status);
}
