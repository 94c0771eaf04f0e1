/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans.
 */
#include "tft/tools/drift/spans.h"
#include <math.h>

enum { DAY = 86400, YEAR = 31556952, SEASON_DAYS = 45 };

void tft_spans_init(int counts, int64_t begin, int64_t end, int64_t since, int64_t until, struct tft_spans *s)
{
    int64_t length = until - since, least = (end - begin) / TFT_SLOTS_MOST + 1;

    *s = (struct tft_spans){ .begin = begin, .end = end, .since = since, .until = until };
    s->year = counts ? 0 : YEAR;
    s->width = length / 4 > least ? length / 4 : least;
    s->block = (size_t)((length + s->width / 2) / s->width);
    s->block = s->block ? s->block : 1;
    s->slots = end > begin ? (size_t)((end - begin) / s->width) : 0;
    s->blocks = s->slots >= s->block ? s->slots - s->block + 1 : 0;
    s->reach = INFINITY;
    s->is_seasonal = s->year && end - begin >= s->year + s->year / 2 + length && length <= s->year / 2;
}

static double middle_of(const struct tft_spans *s, size_t number)
{
    if (number < s->blocks)
        return (double)s->end - ((double)number + (double)s->block / 2) * (double)s->width;
    return (double)s->since + (double)(s->until - s->since) / 2;
}

int tft_spans_counts(const struct tft_spans *s, size_t block)
{
    return !s->is_seasonal ||
           fabs(remainder(middle_of(s, block) - middle_of(s, s->blocks), (double)s->year)) <= s->reach;
}

void tft_spans_narrow(struct tft_spans *s, double rate)
{
    size_t counted = 0;

    if (!s->is_seasonal)
        return;
    for (s->reach = SEASON_DAYS * (double)DAY; s->reach < (double)s->year / 2; s->reach += 7 * (double)DAY) {
        counted = 0;
        for (size_t b = 0; b < s->blocks; b++)
            counted += tft_spans_counts(s, b) != 0;
        if ((double)(counted / s->block) + 1 >= 1 / rate)
            return;
    }
}

size_t tft_spans_slot(const struct tft_spans *s, int64_t moment)
{
    return moment < s->end ? (size_t)((s->end - 1 - moment) / s->width) : s->slots;
}

/* Slots whose middles lie in the moments [low, high). */
static struct tft_slot_range slots_between(const struct tft_spans *s, double low, double high)
{
    double first = ceil(((double)s->end - high) / (double)s->width - 0.5);
    double end = ceil(((double)s->end - low) / (double)s->width - 0.5);

    first = first > 0 ? first : 0;
    end = end < (double)s->slots ? end : (double)s->slots;
    return (struct tft_slot_range){ (size_t)first, end > first ? (size_t)end : (size_t)first };
}

static void add(struct tft_slot_range range, struct tft_slot_range *ranges, size_t *count)
{
    if (range.first < range.end && *count < TFT_RANGES_MOST)
        ranges[(*count)++] = range;
}

size_t tft_spans_reference(const struct tft_spans *s, size_t number, struct tft_slot_range ranges[TFT_RANGES_MOST])
{
    double length = (double)(s->until - s->since);
    double middle = middle_of(s, number);
    double half = length / 2 + SEASON_DAYS * (double)DAY;
    size_t count = 0;

    if (!s->is_seasonal) {
        add(slots_between(s, middle + 1.5 * length, INFINITY), ranges, &count);
        add(slots_between(s, -INFINITY, middle - 1.5 * length), ranges, &count);
        return count;
    }
    /* Half a year away or more, in the season of each year. */
    half = half < (double)s->year / 2 ? half : (double)s->year / 2;
    int years = (int)((double)(s->until - s->begin) / (double)s->year) + 1;
    for (int k = -years; k <= years; k++) {
        double at = middle + k * (double)s->year;
        if (k)
            add(slots_between(s, at - half, at + half), ranges, &count);
    }
    return count;
}
