/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in texts.
 */
#ifndef HALAY_TFT_NUMBER_H
#define HALAY_TFT_NUMBER_H

/* A decimal number with nothing but blanks around it: its value, bit for bit that of strtod; infinite if it is too
 * large. decimal is '.' or ','. Returns 0 if the text is no number. */
int tft_number_parse(const char *text, char decimal, double *value);

/* Is it a text that programs write in place of a number that is missing? Those that pandas.read_csv takes for it, with
 * nothing but blanks around them, and none. */
int tft_number_is_missing(const char *text);

#endif
