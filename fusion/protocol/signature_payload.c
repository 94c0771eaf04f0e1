/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload of a signature: see signature.h. Pure.
 */
#include "base/memory.h"
#include "fusion/protocol/members.h"
#include "fusion/protocol/signature.h"
#include <string.h>

size_t halay_signature_sent_count(const struct halay_signature *s, int size)
{
    if (s->collective == HALAY_ALLTOALL || s->collective == HALAY_SCATTER)
        return (size_t)size;
    if (s->payload_count)
        return s->payload_count;
    return halay_collective_is_ragged(s->collective);
}

void halay_signature_write_payload(const struct halay_tensor_info *info, int size, uint64_t *payload)
{
    if (info->members && info->collective == HALAY_ALLREDUCE)
        halay_members_write_payload(info, payload);
    if (info->collective == HALAY_ALLGATHER || info->collective == HALAY_GATHER)
        payload[0] = info->shape[0];
    for (size_t i = 0; halay_collective_is_point((int)info->collective) && i < HALAY_POINT_PAYLOAD; i++)
        payload[i] = info->splits[i];
    for (size_t i = 0; info->collective == HALAY_CHANGE_SETS && i < info->shape[0]; i++)
        payload[i] = info->splits[i];
    for (int r = 0; info->collective == HALAY_REDUCE_SCATTER && info->splits && r < size; r++)
        payload[r] = info->splits[r];
    for (int r = 0; info->collective == HALAY_ALLTOALL && r < size; r++)
        payload[r] = info->splits ? info->splits[r] : info->shape[0] / (size_t)size;
    for (int r = 0; info->collective == HALAY_SCATTER && r < size; r++)
        payload[r] = info->splits ? info->splits[r] : halay_scatter_rows(info->shape[0], size, r, NULL);
}

size_t halay_signature_answer_count(const struct halay_signature *s, int size)
{
    if (s->collective == HALAY_JOIN)
        return 1;
    return halay_collective_is_ragged(s->collective) ? (size_t)size : s->payload_count;
}

int halay_signature_fits(const struct halay_signature *s, const void *payload, size_t count)
{
    uint64_t shape[HALAY_DIMENSIONS_MAX], rows;
    size_t total = 0;
    int fits;

    if (s->members)
        return halay_members_are_valid(s, payload, count);
    if (s->collective == HALAY_CHANGE_SETS)
        return 1; /* the changes are checked when they are made */
    memcpy(shape, s->shape, sizeof shape);
    for (size_t i = 0; i < count; i++) {
        memcpy(&rows, (const char *)payload + i * sizeof rows, sizeof rows);
        if (rows > SIZE_MAX || halay_add_overflows(total, (size_t)rows, &total))
            return 0;
    }
    if (s->payload_count)
        return total == s->shape[0];
    shape[0] = total;
    halay_shape_count(shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    return fits;
}

/* Returns nonzero if a row has data, and none of these ranks has no row. */
static int has_rows(const struct halay_signature *s, const uint64_t *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!rows[i])
            return 0;
    return halay_signature_row(s) > 0;
}

/* Returns nonzero if a group has data. */
static int has_elements(const struct halay_signature *s, const uint64_t *payload)
{
    for (size_t i = 0; i < s->members; i++) {
        struct halay_buffers member;
        halay_members_read(payload, 1, &member);
        if (member.count)
            return 1;
        payload += halay_members_words(payload);
    }
    return 0;
}

int halay_signature_needs_all(const struct halay_signature *s, const uint64_t *payload, int size)
{
    size_t ranks = (size_t)size;

    if (s->is_on_devices)
        return 0;
    switch ((int)s->collective) {
    case HALAY_BARRIER:
        return 1;
    case HALAY_ALLREDUCE:
        return s->members ? has_elements(s, payload) : halay_signature_bytes(s) > 0;
    case HALAY_REDUCE_SCATTER:
        return s->payload_count ? has_rows(s, payload, ranks) : s->shape[0] >= ranks && halay_signature_row(s) > 0;
    case HALAY_ALLGATHER:
        return has_rows(s, payload, ranks);
    case HALAY_ALLTOALL:
        return has_rows(s, payload, ranks * ranks);
    default:
        return 0;
    }
}
