/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming: a path may name a submission itself (fusion/requests/path.h). Other collectives without a name get one when
 * they are submitted (requests/names.h); a barrier always has the same.
 */
#include "fusion/api/naming.h"
#include "fusion/api/describe.h"
#include "fusion/requests/names.h"

enum halay_status halay_naming_make(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_naming *naming)
{
    enum halay_status status = HALAY_OK;

    naming->info = info;
    naming->names = halay_info_set(ctx, info);
    naming->unnamed = NULL;
    for (struct halay_path *path = ctx->paths; path && status == HALAY_OK; path = path->next)
        status = path->ops->name(path, info, naming);
    return status;
}

void halay_naming_unnamed(struct halay_naming *naming)
{
    int collective = (int)naming->info->collective;

    if (naming->info->name)
        return;
    naming->own = *naming->info;
    naming->own.name = "barrier";
    naming->info = &naming->own;
    if (collective == HALAY_BARRIER)
        return;
    halay_unnamed_print(collective, naming->name);
    naming->own.name = naming->unnamed = naming->name;
}
