/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages: a result as one HTML file, which loads nothing from elsewhere. page.html is the template: its script draws the
 * result's JSON, by its member "kind"; tables of all numbers are what readers without scripts see.
 */
#ifndef HALAY_TFT_PAGE_H
#define HALAY_TFT_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* Writes the page of a result. Its member "tables", if there is one, is for the script alone. The stream's owner checks
 * its errors. */
void tft_page_write(FILE *file, const json_t *result);

#endif
