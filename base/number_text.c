/* SPDX-License-Identifier: Apache-2.0
 *
 * Each call switches the locale of its own thread and restores it; other threads are not affected.
 */
#include "base/number_text.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Returns the locale C. With all categories it is a static object of the C library: this neither allocates nor fails.
 * */
static locale_t locale_c(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double halay_strtod(const char *text, char **end)
{
    return strtod_l(text, end, locale_c());
}

int halay_vsnprintf(char *text, size_t size, const char *format, va_list args)
{
    const locale_t before = uselocale(locale_c());
    int length = vsnprintf(text, size, format, args);

    uselocale(before);
    return length;
}

int halay_snprintf(char *text, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int length = halay_vsnprintf(text, size, format, args);
    va_end(args);
    return length;
}

int halay_vfprintf(FILE *file, const char *format, va_list args)
{
    const locale_t before = uselocale(locale_c());
    int length = vfprintf(file, format, args);

    uselocale(before);
    return length;
}

int halay_fprintf(FILE *file, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int length = halay_vfprintf(file, format, args);
    va_end(args);
    return length;
}

void halay_append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    halay_vsnprintf(text + used, size - used, format, args);
    va_end(args);
}
