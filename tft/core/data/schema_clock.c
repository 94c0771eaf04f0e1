/* SPDX-License-Identifier: Apache-2.0
 *
 * Schema: by which clock its moments are counted, and what they are by another one.
 */
#include "tft/core/data/schema.h"
#include <stdio.h>

int tft_schema_counts(const struct tft_schema *schema)
{
    return schema->time_kind == TFT_TIME_INTEGER || schema->time_kind == TFT_TIME_NONE;
}

static void print_time(const struct tft_schema *schema, int in_utc, int64_t time, char *text, size_t size)
{
    if (tft_schema_counts(schema))
        snprintf(text, size, "%lld", (long long)time);
    else if (in_utc)
        tft_time_print_offset(time, tft_zone_offset(schema->zone, time), text, size);
    else
        tft_time_print(time, text, size);
}

void tft_schema_print_time(const struct tft_schema *schema, int64_t time, char *text, size_t size)
{
    print_time(schema, schema->is_in_utc, time, text, size);
}

void tft_schema_print_row_time(const struct tft_schema *schema, int64_t time, char *text, size_t size)
{
    print_time(schema, schema->rows_are_in_utc, time, text, size);
}

int64_t tft_schema_clock(const struct tft_schema *schema, int64_t time)
{
    return schema->is_in_utc ? time + tft_zone_offset(schema->zone, time) : time;
}

int64_t tft_schema_row_clock(const struct tft_schema *schema, int64_t time)
{
    return schema->rows_are_in_utc ? time + tft_zone_offset(schema->zone, time) : time;
}

static enum tft_passes to_moment(const struct tft_zone *zone, int in_utc, int64_t time, int is_utc, int64_t *moment)
{
    enum { DAY_SECONDS = 86400 };
    int64_t utc[2];

    *moment = time;
    if (!zone || (is_utc && in_utc) || (!is_utc && !in_utc))
        return TFT_PASSED_ONCE;
    if (is_utc) {
        *moment = time + tft_zone_offset(zone, time);
        return TFT_PASSED_ONCE;
    }
    size_t n = tft_zone_moments(zone, time, utc);
    *moment = n ? utc[0] : time - tft_zone_offset(zone, time - 2 * DAY_SECONDS);
    if (n == 1)
        return TFT_PASSED_ONCE;
    return n ? TFT_PASSED_TWICE : TFT_SKIPPED;
}

enum tft_passes tft_schema_row_moment(const struct tft_schema *schema, int64_t time, int is_utc, int64_t *moment)
{
    return to_moment(schema->zone, schema->rows_are_in_utc, time, is_utc, moment);
}

int64_t tft_schema_second_moment(const struct tft_schema *schema, int64_t moment)
{
    int64_t utc[2];

    return tft_zone_moments(schema->zone, tft_schema_row_clock(schema, moment), utc) == 2 ? utc[1] : moment;
}

enum halay_status tft_schema_read_moment(const struct tft_schema *schema, const char *text, int of_row, int64_t *moment)
{
    int64_t time;
    int is_utc = 0;

    if (tft_schema_counts(schema))
        return tft_time_parse_integer(text, moment);
    if (schema->zone ? tft_time_parse_clock(text, NULL, &time, &is_utc) : tft_time_parse_moment(text, &time))
        return HALAY_ERR_FORMAT;
    to_moment(schema->zone, of_row ? schema->rows_are_in_utc : schema->is_in_utc, time, is_utc, moment);
    return HALAY_OK;
}
