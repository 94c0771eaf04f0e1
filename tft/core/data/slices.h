/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices: work on entities that do not depend on each other, by several threads.
 */
#ifndef HALAY_TFT_SLICES_H
#define HALAY_TFT_SLICES_H

#include "halay_types.h"
#include <stddef.h>

/* Slice `number` of `count` slices of some entities: [first, last). */
void tft_slice(size_t entities, size_t number, size_t count, size_t *first, size_t *last);

/* Run f(arg, number) for each of `count` slices at the same time, and return when all have returned. An f that fails
 * says nothing: which message came first would be chance. The first failed slice's status. */
enum halay_status tft_slices_run(size_t count, enum halay_status (*f)(void *arg, size_t number), void *arg);

#endif
