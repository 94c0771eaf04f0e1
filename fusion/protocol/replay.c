/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay: answers of several ranks are merged by minimum and maximum.
 */
#include "fusion/protocol/replay.h"
#include <string.h>

size_t halay_answers_count(enum halay_item_kind kind)
{
    return kind == HALAY_ITEM_ENTERED ? (size_t)HALAY_ENTERED_NUMBERS : (size_t)HALAY_EPOCH_VALUES;
}

enum halay_status halay_answers_add(struct halay_answers *a, const struct halay_item *item, int max)
{
    if (item->payload_count != halay_answers_count(item->kind) || item->ranks < 1 || item->ranks > max - a->ranks)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < item->payload_count; i++) {
        uint64_t number;
        memcpy(&number, (const char *)item->payload + i * sizeof number, sizeof number);
        if (!a->ranks || (item->kind == HALAY_ITEM_ENTERED ? number < a->numbers[i] : number > a->numbers[i]))
            a->numbers[i] = number;
    }
    a->ranks += item->ranks;
    return HALAY_OK;
}
