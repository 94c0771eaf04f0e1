/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in texts.
 */
#ifndef HALAY_TFT_NUMBER_H
#define HALAY_TFT_NUMBER_H

/* A decimal number and nothing else but blanks around it: its value, to the last bit that of strtod; infinite if it is
 * too large. decimal is '.' or ','. Returns 0 if the text is none. */
int tft_number_parse(const char *text, char decimal, double *value);

#endif
