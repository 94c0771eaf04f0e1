/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths: a line for each, and the carrier.
 */
#include "fusion/paths/paths.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/paths/p2p/p2p.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/path.h"

static struct halay_path *(*const creators[])(void) = {
    halay_p2p_create,
};

enum halay_status halay_paths_create(struct halay_context *ctx)
{
    ctx->carrier = halay_device_carrier_create();
    if (!ctx->carrier)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < sizeof creators / sizeof *creators; i++) {
        struct halay_path *path = creators[i]();
        if (!path)
            return HALAY_ERR_NO_MEMORY;
        path->ctx = ctx;
        halay_process_set_init(&path->names, ctx, ctx->size, ctx->rank);
        path->names.path = path;
        path->next = ctx->paths;
        ctx->paths = path;
    }
    return HALAY_OK;
}

void halay_paths_destroy(struct halay_context *ctx)
{
    while (ctx->paths) {
        struct halay_path *path = ctx->paths;
        ctx->paths = path->next;
        path->ops->destroy(path);
    }
    if (ctx->carrier)
        ctx->carrier->ops->destroy(ctx->carrier);
    ctx->carrier = NULL;
}
