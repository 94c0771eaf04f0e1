/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers: digits are gathered in an integer. While that is below 2^53 and the power of ten at most 22, both are exact
 * doubles, so that one division or product is correctly rounded (Clinger 1990); everything else goes to strtod.
 */
#include "tft/core/data/number.h"
#include "base/number_text.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Everything that is not short and plain. */
static int parse_slowly(const char *text, size_t length, char decimal, double *value)
{
    char copy[512], *end;

    if (length >= sizeof copy || strspn(text, decimal == ',' ? "+-,0123456789eE" : "+-.0123456789eE") < length)
        return 0;
    memcpy(copy, text, length);
    copy[length] = 0;
    for (size_t i = 0; i < length; i++)
        if (copy[i] == ',')
            copy[i] = '.';
    *value = halay_strtod(copy, &end);
    return length && !*end;
}

int tft_number_parse(const char *text, char decimal, double *value)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    uint64_t digits = 0;
    size_t n = 0, fraction = 0;

    while (*text == ' ')
        text++;
    const char *p = text + (*text == '-' || *text == '+');
    for (; *p >= '0' && *p <= '9' && n < 18; p++, n++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    if (*p == decimal)
        for (p++; *p >= '0' && *p <= '9' && n < 18; p++, n++, fraction++)
            digits = digits * 10 + (uint64_t)(*p - '0');
    const char *end = p;
    while (*end == ' ')
        end++;
    if (*end || !n || digits >= (uint64_t)1 << 53) {
        size_t length = strlen(text);
        while (length && text[length - 1] == ' ')
            length--;
        return parse_slowly(text, length, decimal, value);
    }
    *value = (double)digits / powers[fraction];
    if (*text == '-')
        *value = -*value;
    return 1;
}

int tft_number_is_missing(const char *text)
{
    static const char *const words[] = { "",     "NA",     "NaN",     "nan",     "null",     "NULL", "None",
                                         "N/A",  "n/a",    "<NA>",    "#N/A",    "#N/A N/A", "#NA",  "-NaN",
                                         "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN" };
    size_t length;

    text += strspn(text, " ");
    for (length = strlen(text); length && text[length - 1] == ' ';)
        length--;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], text, length))
            return 1;
    return 0;
}
