/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank list: read each time it is asked; it is short, and asked once a rank.
 */
#include "launcher/common/rank_list.h"
#include "base/parse.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* "3" or "3-5", and what follows it; NULL: neither. */
static const char *take_range(const char *text, long *first, long *last)
{
    size_t length = strcspn(text, ","), dash = strcspn(text, "-,");
    char one[16], other[16];

    if (length >= sizeof one)
        return NULL;
    snprintf(one, sizeof one, "%.*s", (int)dash, text);
    snprintf(other, sizeof other, "%.*s", (int)(length - dash), text + dash);
    if (halay_parse_long(one, 0, INT_MAX - 1, first) != HALAY_OK)
        return NULL;
    *last = *first;
    if (*other && halay_parse_long(other + 1, *first, INT_MAX - 1, last) != HALAY_OK)
        return NULL;
    return text + length;
}

int rank_list_last(const char *text)
{
    long first, last, most = -1;

    for (;; text++) {
        text = take_range(text, &first, &last);
        if (!text)
            return -1;
        most = last > most ? last : most;
        if (!*text)
            return (int)most;
    }
}

int rank_list_has(const char *text, int rank)
{
    long first, last;

    for (; (text = take_range(text, &first, &last)); text++) {
        if (rank >= first && rank <= last)
            return 1;
        if (!*text)
            return 0;
    }
    return 0;
}
