/* SPDX-License-Identifier: Apache-2.0
 *
 * P2p, names: by name one point of each name, peer and direction is in flight; by tag each has a name of its own. Runs
 * on the program's threads.
 */
#include "base/error_text.h"
#include "fusion/paths/p2p/p2p_impl.h"
#include <stdio.h>
#include <string.h>

/* Prints "from 3". */
static void print_way(const struct halay_tensor_info *info, char *text, size_t size)
{
    if (info->peer == HALAY_ANY_RANK)
        snprintf(text, size, "from any rank");
    else
        snprintf(text, size, "%s %d", info->collective == HALAY_SEND ? "to" : "from", info->peer);
}

static struct halay_tensor_info describe(const struct halay_tensor_info *info, const struct halay_naming *naming)
{
    struct halay_tensor_info point = { .struct_size = sizeof point,
                                       .name = naming->name,
                                       .splits = naming->payload,
                                       .collective = info->collective,
                                       .dtype = info->dtype,
                                       .dimensions = info->dimensions,
                                       .in = info->collective == HALAY_SEND ? info->in : NULL,
                                       .out = info->collective == HALAY_SEND ? NULL : info->out,
                                       .set = info->set,
                                       .timeout_ms = info->timeout_ms,
                                       .peer = info->peer,
                                       .tag = info->tag,
                                       .memory = info->memory,
                                       .after_stream = info->after_stream,
                                       .after_event = info->after_event };

    memcpy(point.shape, info->shape, sizeof point.shape);
    return point;
}

enum halay_status halay_p2p_name(struct halay_path *path, const struct halay_tensor_info *info,
                                 struct halay_naming *naming)
{
    struct p2p *p2p = p2p_of(path);
    size_t length = info->name ? strnlen(info->name, HALAY_POINT_NAME_MAX + 1) : 0;
    char way[32];

    if (!halay_collective_is_point((int)info->collective))
        return HALAY_OK;
    if (length > HALAY_POINT_NAME_MAX || (info->name && !length))
        return halay_refuses(HALAY_ERR_ARGUMENT, "the name of a send or receive must be 1 to %d bytes, or NULL",
                             HALAY_POINT_NAME_MAX);
    print_way(info, way, sizeof way);
    if (length)
        snprintf(naming->name, sizeof naming->name, "%s %s of set %d", info->name, way,
                 info->set ? info->set->number : 0);
    else
        snprintf(naming->name, sizeof naming->name, "%s tag %lld #%llu", way, (long long)info->tag,
                 (unsigned long long)atomic_fetch_add_explicit(&p2p->unnamed, 1, memory_order_relaxed));
    naming->payload[P2P_PEER] = (size_t)info->peer;
    naming->payload[P2P_TAG] = length ? 0 : (size_t)info->tag;
    naming->payload[P2P_NAME_LENGTH] = length;
    naming->own = describe(info, naming);
    naming->info = &naming->own;
    naming->names = &path->names;
    return HALAY_OK;
}
