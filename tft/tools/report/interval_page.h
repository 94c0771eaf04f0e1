/* SPDX-License-Identifier: Apache-2.0
 *
 * The report's section on intervals: do they hold what they promise?
 */
#ifndef HALAY_TFT_INTERVAL_PAGE_H
#define HALAY_TFT_INTERVAL_PAGE_H

#include <jansson.h>
#include <stdio.h>

/* Reliability, histogram, coverage by horizon, and a table, of one target's scores as `evaluate` reports them. */
void tft_interval_page_write(FILE *file, const json_t *scores);

#endif
