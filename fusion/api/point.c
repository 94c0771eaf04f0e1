/* SPDX-License-Identifier: Apache-2.0
 *
 * Point: by name one of each name, peer and direction is in flight; by tag each has a name of its own. Other
 * collectives without a name get theirs when they are submitted (requests/names.h), a barrier has always the same.
 */
#include "fusion/api/point.h"
#include "base/error_text.h"
#include "fusion/api/describe.h"
#include "fusion/paths/p2p/offers.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/names.h"
#include <stdio.h>
#include <string.h>

/* "from 3" */
static void print_way(const struct halay_tensor_info *info, char *text, size_t size)
{
    if (info->peer == HALAY_ANY_RANK)
        snprintf(text, size, "from any rank");
    else
        snprintf(text, size, "%s %d", info->collective == HALAY_SEND ? "to" : "from", info->peer);
}

static struct halay_tensor_info describe(const struct halay_tensor_info *info, const char *name)
{
    struct halay_tensor_info point = { .struct_size = sizeof point,
                                       .name = name,
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

enum halay_status halay_point_name(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_point *point)
{
    int is_point = halay_collective_is_point((int)info->collective);
    size_t length = is_point && info->name ? strnlen(info->name, HALAY_POINT_NAME_MAX + 1) : 0;
    struct halay_process_set *set = halay_info_set(ctx, info);
    char way[32];

    point->info = is_point ? &point->own : info;
    point->names = is_point ? &ctx->points : set;
    point->meeting = (struct halay_meeting){ .set = NULL };
    point->unnamed = NULL;
    if (!is_point)
        return HALAY_OK;
    if (length > HALAY_POINT_NAME_MAX || (info->name && !length))
        return halay_refuses(HALAY_ERR_ARGUMENT, "the name of a send or receive must be 1 to %d bytes, or NULL",
                             HALAY_POINT_NAME_MAX);
    print_way(info, way, sizeof way);
    if (length)
        snprintf(point->name, sizeof point->name, "%s %s of set %d", info->name, way, set->number);
    else
        snprintf(point->name, sizeof point->name, "%s tag %lld #%llu", way, (long long)info->tag,
                 (unsigned long long)atomic_fetch_add_explicit(&ctx->points_named, 1, memory_order_relaxed));
    point->own = describe(info, point->name);
    point->meeting =
        (struct halay_meeting){ .set = set, .peer = info->peer, .tag = length ? 0 : info->tag, .name_length = length };
    return HALAY_OK;
}

void halay_point_name_unnamed(struct halay_point *point)
{
    int collective = (int)point->info->collective;

    if (point->info->name)
        return;
    point->own = *point->info;
    point->own.name = "barrier";
    point->info = &point->own;
    if (collective == HALAY_BARRIER)
        return;
    halay_unnamed_print(collective, point->name);
    point->own.name = point->unnamed = point->name;
}
