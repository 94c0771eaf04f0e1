/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Digits only, into *value; *end is what follows them. */
static int parse_digits(const char *text, size_t *value, const char **end)
{
    size_t sum = 0;

    if (!isdigit((unsigned char)*text))
        return 0;
    for (; isdigit((unsigned char)*text); text++)
        if (halay_mul_overflows(sum, 10, &sum) || halay_add_overflows(sum, (size_t)(*text - '0'), &sum))
            return 0;
    *value = sum;
    *end = text;
    return 1;
}

enum halay_status halay_parse_size(const char *text, size_t *value)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = { { "", 0 },     { "B", 0 },  { "K", 10 },  { "KB", 10 },  { "KiB", 10 }, { "M", 20 },  { "MB", 20 },
                  { "MiB", 20 }, { "G", 30 }, { "GB", 30 }, { "GiB", 30 }, { "T", 40 },   { "TB", 40 }, { "TiB", 40 } };
    size_t number;
    const char *unit;

    if (!parse_digits(text, &number, &unit))
        return HALAY_ERR_CONFIG;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcasecmp(unit, units[i].unit))
            return halay_mul_overflows(number, (size_t)1 << units[i].shift, value) ? HALAY_ERR_CONFIG : HALAY_OK;
    return HALAY_ERR_CONFIG;
}

enum halay_status halay_parse_long(const char *text, long min, long max, long *value)
{
    char *end;

    if (!isdigit((unsigned char)text[*text == '-']))
        return HALAY_ERR_CONFIG;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || *end || number < min || number > max)
        return HALAY_ERR_CONFIG;
    *value = number;
    return HALAY_OK;
}

enum halay_status halay_parse_bool(const char *text, int *value)
{
    static const char *const names[] = { "0", "1", "off", "on", "no", "yes", "false", "true" }; /* false, true, ... */

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(text, names[i])) {
            *value = i & 1;
            return HALAY_OK;
        }
    return HALAY_ERR_CONFIG;
}

/* strtod would also take blanks, hexadecimal and "nan". */
static int is_plain_number(const char *text)
{
    int digits = 0;

    text += *text == '-';
    for (; isdigit((unsigned char)*text); text++)
        digits++;
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++)
            digits++;
    if (!digits)
        return 0;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        if (!isdigit((unsigned char)*text))
            return 0;
        while (isdigit((unsigned char)*text))
            text++;
    }
    return !*text;
}

enum halay_status halay_parse_double(const char *text, double min, double max, double *value)
{
    char *end;

    if (!is_plain_number(text))
        return HALAY_ERR_CONFIG;
    double number = halay_strtod(text, &end);
    if (*end || !isfinite(number) || number < min || number > max)
        return HALAY_ERR_CONFIG;
    *value = number;
    return HALAY_OK;
}

enum halay_status halay_parse_prefix(const char *text, size_t length, struct halay_prefix *prefix)
{
    char word[64];
    struct halay_prefix found = { .family = AF_INET };
    long bits;

    if (length >= sizeof word)
        return HALAY_ERR_CONFIG;
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    char *slash = strchr(word, '/');
    if (!slash)
        return HALAY_ERR_CONFIG;
    *slash = 0;
    if (inet_pton(AF_INET, word, found.bytes) != 1) {
        found.family = AF_INET6;
        if (inet_pton(AF_INET6, word, found.bytes) != 1)
            return HALAY_ERR_CONFIG;
    }
    if (halay_parse_long(slash + 1, 0, found.family == AF_INET ? 32 : 128, &bits) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    found.bits = (int)bits;
    *prefix = found;
    return HALAY_OK;
}

enum { NAME_MAX_LETTERS = 63 };

static size_t min_of_three(size_t a, size_t b, size_t c)
{
    size_t min = a < b ? a : b;

    return min < c ? min : c;
}

/* Insertions, removals, replacements and swaps of neighbours that turn a into b (optimal string alignment); capitals
 * count as their small letters. Both have at most NAME_MAX_LETTERS letters. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t rows[3][NAME_MAX_LETTERS + 1]; /* row i is rows[i % 3]: distances of the first i letters of a */

    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t *here = &rows[i % 3][j];
            if (!i || !j) {
                *here = i + j;
                continue;
            }
            const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            *here = min_of_three(above[j] + 1, here[-1] + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]) &&
                two_above[j - 2] + 1 < *here)
                *here = two_above[j - 2] + 1;
        }
    return rows[n % 3][m];
}

const char *halay_nearest_name(const char *text, const char *const *names)
{
    const char *nearest = NULL;
    size_t length = strlen(text), best = SIZE_MAX;

    if (length > NAME_MAX_LETTERS)
        return NULL;
    for (; *names; names++) {
        if (strlen(*names) > NAME_MAX_LETTERS)
            continue;
        size_t distance = edit_distance(text, *names);
        if (distance < best) {
            best = distance;
            nearest = *names;
        }
    }
    /* A third of the letters wrong, or three: more than that is another name. */
    size_t bound = length / 3 > 0 ? length / 3 : 1;
    return best <= (bound < 3 ? bound : 3) ? nearest : NULL;
}

const char *halay_suggest(const char *text, const char *const *names, char to[HALAY_SUGGESTION_BYTES])
{
    const char *nearest = halay_nearest_name(text, names);

    snprintf(to, HALAY_SUGGESTION_BYTES, nearest ? "; did you mean '%s'?" : "", nearest);
    return to;
}

enum halay_status halay_parse_ports(const char *text, int ports[2])
{
    size_t length = strcspn(text, "-");
    char first[16];
    long range[2] = { 0, 0 };

    snprintf(first, sizeof first, "%.*s", (int)(length < sizeof first ? length : sizeof first - 1), text);
    const char *last = text[length] ? text + length + 1 : first;
    if (*text && (halay_parse_long(first, 1, 65535, &range[0]) != HALAY_OK ||
                  halay_parse_long(last, range[0], 65535, &range[1]) != HALAY_OK))
        return HALAY_ERR_CONFIG;
    ports[0] = (int)range[0];
    ports[1] = (int)range[1];
    return HALAY_OK;
}

/* ---- values by rule ---- */

static enum halay_status store_seconds(const struct halay_value_rule *rule, const char *text, int *field)
{
    double seconds;

    if (halay_parse_double(text, rule->min, rule->max, &seconds) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    *field = (int)(seconds * 1000 + 0.5);
    if (seconds > 0 && *field == 0) /* a tenth of a millisecond must not be rounded to 0, "off" */
        *field = 1;
    return HALAY_OK;
}

static enum halay_status store_int(const struct halay_value_rule *rule, const char *text, int *field)
{
    long value;

    if (halay_parse_long(text, (long)rule->min, (long)rule->max, &value) != HALAY_OK)
        return HALAY_ERR_CONFIG;
    *field = (int)value;
    return HALAY_OK;
}

static enum halay_status store_text(const char *text, char **field)
{
    char *copy = NULL;

    if (*text && !(copy = strdup(text)))
        return HALAY_ERR_NO_MEMORY;
    free(*field);
    *field = copy;
    return HALAY_OK;
}

static enum halay_status store_choice(const struct halay_value_rule *rule, const char *text, void *field)
{
    int i = 0;

    while (rule->choices[i] && strcasecmp(text, rule->choices[i]) != 0)
        i++;
    if (!rule->choices[i])
        return HALAY_ERR_CONFIG;
    if (rule->kind == HALAY_VALUE_TEXT)
        return store_text(rule->choices[i], field);
    if (rule->kind == HALAY_VALUE_NAME)
        *(const char **)field = rule->choices[i];
    else
        *(int *)field = i;
    return HALAY_OK;
}

void halay_choices_join(const char *const *choices, const char *between, char *text, size_t size)
{
    *text = 0;
    for (size_t i = 0; choices && choices[i]; i++)
        halay_append(text, size, "%s%s", i ? between : "", choices[i]);
}

/* Writes why a rule refuses a text. */
static void explain_refusal(const struct halay_value_rule *rule, const char *text, char *why, size_t size)
{
    static const char *const forms[] = {
        [HALAY_VALUE_SIZE] = "is not a size; write for example 67108864, 64M or 1G",
        [HALAY_VALUE_LONG] = "is not a whole number from %.0f to %.0f",
        [HALAY_VALUE_INT] = "is not a whole number from %.0f to %.0f",
        [HALAY_VALUE_REAL] = "is not a number from %g to %g",
        [HALAY_VALUE_SECONDS] = "is not a number of seconds from %.0f to %.0f; write for example 30 or 0.5",
        [HALAY_VALUE_NETWORKS] = "is not a list of networks; write for example eth0, or 10.0.0.0/8,fd00::/8",
        [HALAY_VALUE_PORTS] = "is not a range of ports from 1 to 65535; write for example 20000-20100",
    };
    char choices[256], suggestion[HALAY_SUGGESTION_BYTES];

    if (!rule->choices) {
        halay_snprintf(why, size, forms[rule->kind], rule->min, rule->max);
        return;
    }
    halay_choices_join(rule->choices, ", ", choices, sizeof choices);
    snprintf(why, size, "is not one of %s%s", choices, halay_suggest(text, rule->choices, suggestion));
}

/* No interface has a slash in its name. */
static int are_networks(const char *text)
{
    struct halay_prefix prefix;

    for (const char *at = text; *at; at += strspn(at, ",")) {
        size_t length = strcspn(at, ",");
        if (memchr(at, '/', length) && halay_parse_prefix(at, length, &prefix) != HALAY_OK)
            return 0;
        at += length;
    }
    return 1;
}

static enum halay_status store_value(const struct halay_value_rule *rule, const char *text, void *field)
{
    switch (rule->kind) {
    case HALAY_VALUE_SIZE:
        return halay_parse_size(text, field);
    case HALAY_VALUE_LONG:
        return halay_parse_long(text, (long)rule->min, (long)rule->max, field);
    case HALAY_VALUE_INT:
        return store_int(rule, text, field);
    case HALAY_VALUE_REAL:
        return halay_parse_double(text, rule->min, rule->max, field);
    case HALAY_VALUE_SECONDS:
        return store_seconds(rule, text, field);
    case HALAY_VALUE_PORTS:
        return halay_parse_ports(text, field);
    case HALAY_VALUE_NETWORKS:
        return are_networks(text) ? store_text(text, field) : HALAY_ERR_CONFIG;
    default:
        return rule->choices ? store_choice(rule, text, field) : store_text(text, field);
    }
}

enum halay_status halay_value_store(const struct halay_value_rule *rule, const char *text, void *field, char *why,
                                    size_t size)
{
    enum halay_status status = store_value(rule, text, field);

    if (status == HALAY_ERR_CONFIG)
        explain_refusal(rule, text, why, size);
    return status;
}

/* ---- files ---- */

int halay_read_line(char *line, size_t size, const char *prefix, const char *format, ...)
{
    char path[PATH_MAX];
    int found = 0;
    va_list args;

    va_start(args, format);
    int length = halay_vsnprintf(path, sizeof path, format, args);
    va_end(args);
    FILE *file = length < (int)sizeof path ? fopen(path, "re") : NULL;
    while (file && !found && fgets(line, (int)size, file))
        found = !strncmp(line, prefix, strlen(prefix));
    if (file)
        fclose(file);
    if (found)
        line[strcspn(line, "\n")] = 0;
    return found;
}
