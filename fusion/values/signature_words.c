/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of a signature: see signature_words.h. Pure.
 */
#include "fusion/values/signature_words.h"
#include "base/memory.h"
#include "fusion/values/members.h"
#include <string.h>

size_t halay_signature_said_count(const struct halay_signature *s, int size)
{
    if (s->collective == HALAY_ALLTOALL)
        return (size_t)size;
    if (s->words)
        return s->words;
    return s->collective == HALAY_ALLGATHER;
}

void halay_signature_say(const struct halay_tensor_info *info, int size, uint64_t *words)
{
    if (info->members && info->collective == HALAY_ALLREDUCE)
        halay_members_say(info, words);
    if (info->collective == HALAY_ALLGATHER)
        words[0] = info->shape[0];
    for (size_t i = 0; info->collective == HALAY_CHANGE_SETS && i < info->shape[0]; i++)
        words[i] = info->splits[i];
    for (int r = 0; info->collective == HALAY_REDUCE_SCATTER && info->splits && r < size; r++)
        words[r] = info->splits[r];
    for (int r = 0; info->collective == HALAY_ALLTOALL && r < size; r++)
        words[r] = info->splits ? info->splits[r] : info->shape[0] / (size_t)size;
}

size_t halay_signature_heard_count(const struct halay_signature *s, int size)
{
    if (s->collective == HALAY_JOIN)
        return 1;
    return halay_collective_is_ragged(s->collective) ? (size_t)size : s->words;
}

int halay_signature_fits(const struct halay_signature *s, const void *words, size_t count)
{
    uint64_t shape[HALAY_DIMENSIONS_MAX], rows;
    size_t total = 0;
    int fits;

    if (s->members)
        return halay_members_are_valid(s, words, count);
    if (s->collective == HALAY_CHANGE_SETS)
        return 1; /* what they ask for is looked at when it is done */
    memcpy(shape, s->shape, sizeof shape);
    for (size_t i = 0; i < count; i++) {
        memcpy(&rows, (const char *)words + i * sizeof rows, sizeof rows);
        if (rows > SIZE_MAX || halay_add_overflows(total, (size_t)rows, &total))
            return 0;
    }
    if (s->words)
        return total == s->shape[0];
    shape[0] = total;
    halay_shape_count(shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    return fits;
}
