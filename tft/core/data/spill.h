/* SPDX-License-Identifier: Apache-2.0
 *
 * Spill: room for a table that may be larger than memory.
 *
 * A part of the limit is ordinary memory. What is asked for beyond it lies in a file without a name, so that nothing of
 * it is left whenever the process ends; it is mapped, and whoever walks through it says how far, so that pages that
 * were read or written go back to the system in time. Room on the disk is taken before it is written to: a full disk is
 * an error, not a signal. One thread at a time.
 */
#ifndef HALAY_TFT_SPILL_H
#define HALAY_TFT_SPILL_H

#include "base/log.h"
#include <stddef.h>

struct tft_spill;

/* A file would be made in the folder of `beside`, which is copied. limit: bytes, for all that users of the spill hold;
 * 0: half of what this host, or the process's group, has. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_spill_create(struct halay_log *log, const char *beside, size_t limit, struct tft_spill **spill);
/* NULL is allowed. All memory that it gave ends. */
void tft_spill_destroy(struct tft_spill *spill);

/* Memory, aligned to 64 bytes, until the spill is destroyed. HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_spill_get(struct tft_spill *spill, size_t bytes, void **memory);
/* So many bytes of such memory, any of it, have been read or written. NULL is allowed. */
void tft_spill_touched(struct tft_spill *spill, size_t bytes);
/* Does some of it lie in the file? Then one thread at a time may walk through it. NULL is allowed. */
int tft_spill_has_file(const struct tft_spill *spill);
/* What one user may hold in memory of its own; SIZE_MAX for NULL. */
size_t tft_spill_share(const struct tft_spill *spill);

#endif
