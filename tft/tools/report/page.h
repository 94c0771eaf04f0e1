/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages: what every HTML page of halay-tft begins and ends with. Neither looks at the stream's errors: its owner does,
 * at the end.
 */
#ifndef HALAY_TFT_PAGE_H
#define HALAY_TFT_PAGE_H

#include <stdio.h>

/* Up to the first heading; title: plain text. */
void tft_page_begin(FILE *file, const char *title);
void tft_page_end(FILE *file);

#endif
