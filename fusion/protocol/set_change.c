/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of process sets: pure functions. A payload may have any contents: a program or another rank chooses it.
 */
#include "fusion/protocol/set_change.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK_MAX = 1 << 20 }; /* so that a range cannot use all memory */

size_t halay_set_change_members(const void *payload, size_t count, size_t *members)
{
    uint64_t kind = HALAY_SET_MAKE;

    if (count > 2)
        memcpy(&kind, payload, sizeof kind);
    *members = kind == HALAY_SET_MAKE ? 0 : count - 2;
    return *members ? 2 : 0;
}

static void print_sets(const uint64_t *payload, size_t count, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, count > 1 ? "makes" : "makes none");

    for (size_t at = 1, left = 0, is_first = 1; at < count && used < size; at++) {
        if (!left) {
            left = (size_t)payload[at] < count - at ? (size_t)payload[at] : count - at - 1;
            is_first = 1;
            used += (size_t)snprintf(text + used, size - used, left ? " [" : " []");
            continue;
        }
        left--;
        used += (size_t)snprintf(text + used, size - used, "%s%d%s", is_first ? "" : ",", (int)payload[at],
                                 left ? "" : "]");
        is_first = 0;
    }
}

void halay_set_change_print(const uint64_t *payload, size_t count, char *text, size_t size)
{
    if (count > 2 && payload[0] == HALAY_SET_REMOVE)
        snprintf(text, size, "removes %d", (int)payload[1]);
    else if (count > 2 && payload[0] == HALAY_SET_BUSY)
        snprintf(text, size, "removes %d, in which it has tensors in flight", (int)payload[1]);
    else
        print_sets(payload, count, text, size);
}

static int list_fault(const uint64_t *ranks, size_t count, int job, char *text, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (ranks[i] >= (uint64_t)job)
            return snprintf(text, size, "process sets: %d is not a rank: the job has %d, from 0 on", (int)ranks[i],
                            job);
        if (i && ranks[i] <= ranks[i - 1])
            return snprintf(text, size, "process sets: rank %d is in the list twice", (int)ranks[i]);
    }
    return 0;
}

int halay_set_change_fault(const uint64_t *payload, size_t count, int ranks, char *text, size_t size)
{
    if (count > 2 && payload[0] == HALAY_SET_REMOVE)
        return 0;
    if (count > 2 && payload[0] == HALAY_SET_BUSY)
        return snprintf(text, size, "process set %d cannot be removed: tensors of it are in flight", (int)payload[1]);
    if (count < 2 || payload[0] > HALAY_SET_FORM)
        return snprintf(text, size, "process sets: invalid change");
    for (size_t at = 1; at < count;) {
        size_t n = (size_t)payload[at++];
        if (!n || n > count - at)
            return snprintf(text, size, "process sets: a set has at least one rank");
        if (list_fault(payload + at, n, ranks, text, size))
            return 1;
        at += n;
    }
    return 0;
}

static void skip_spaces(const char **p)
{
    while (isspace((unsigned char)**p))
        ++*p;
}

static int parse_rank(const char **p, long *rank)
{
    char *end;

    skip_spaces(p);
    if (!isdigit((unsigned char)**p))
        return 1;
    *rank = strtol(*p, &end, 10);
    *p = end;
    skip_spaces(p);
    return *rank > RANK_MAX;
}

/* Parses "4" or "4-7". */
static int parse_ranks(const char **p, size_t *payload, size_t *count)
{
    long first, last;

    if (parse_rank(p, &first))
        return 1;
    last = first;
    if (**p == '-' && (++*p, parse_rank(p, &last)))
        return 1;
    for (long rank = first; rank <= last; rank++, ++*count)
        if (payload)
            payload[*count] = (size_t)rank;
    return last < first;
}

int halay_set_change_parse(const char *text, size_t *payload, size_t *count)
{
    const char *p = text;

    for (*count = 0;; p++) {
        size_t head = (*count)++;
        do {
            if (parse_ranks(&p, payload, count))
                return 1;
        } while (*p == ',' && p++);
        if (payload)
            payload[head] = *count - head - 1;
        if (*p != ';')
            return *p != 0;
    }
}
