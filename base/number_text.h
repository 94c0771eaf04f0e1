/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in text, with a decimal point whatever the locale: the program around the library may have set one with a
 * decimal comma. tests/build/number_text.sh finds what reads or writes such numbers otherwise.
 */
#ifndef HALAY_BASE_NUMBER_TEXT_H
#define HALAY_BASE_NUMBER_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* strtod, in the locale C. */
double halay_strtod(const char *text, char **end);

/* The functions of stdio.h, in the locale C. */
int halay_vsnprintf(char *text, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
int halay_snprintf(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int halay_vfprintf(FILE *file, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
int halay_fprintf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints after the end of a text in an array of `size` bytes, as far as there is room. */
void halay_append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
