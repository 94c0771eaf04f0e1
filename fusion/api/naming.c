/* SPDX-License-Identifier: Apache-2.0
 *
 * Naming: sends and receives are named in paths/p2p/p2p_name.c. Other collectives without a name get one when they are
 * submitted (requests/names.h); a barrier always has the same.
 */
#include "fusion/api/naming.h"
#include "fusion/api/describe.h"
#include "fusion/paths/p2p/p2p.h"

enum halay_status halay_naming_make(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_naming *naming)
{
    naming->info = info;
    naming->names = halay_info_set(ctx, info);
    naming->unnamed = NULL;
    return halay_collective_is_point((int)info->collective) ? halay_points_name(ctx->points, info, naming) : HALAY_OK;
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
