/* SPDX-License-Identifier: Apache-2.0
 *
 * Inflate: the bytes of a file, plain or gzip-compressed, read ahead of their reader.
 *
 * A file of more than one block is read and inflated on a thread of its own, at most eight blocks (1 MiB) ahead; a
 * smaller one by the reader. Bytes and errors are the same either way. A text in memory is read alike, but never
 * inflated: whoever sent it could make any amount of it.
 */
#ifndef HALAY_TFT_INFLATE_H
#define HALAY_TFT_INFLATE_H

#include "base/log.h"
#include <stddef.h>

#define TFT_INFLATE_BLOCK ((size_t)1 << 17)

struct tft_inflate;

/* path is borrowed until close. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT (the name ends in .gz, and it is not compressed),
 * HALAY_ERR_NO_MEMORY; all are logged. */
enum halay_status tft_inflate_open(struct halay_log *log, const char *path, struct tft_inflate **inflate);
/* A text in memory, borrowed like its name. */
enum halay_status tft_inflate_open_text(struct halay_log *log, const char *name, const char *text, size_t bytes,
                                        struct tft_inflate **inflate);
/* Ends the thread, wherever it is; NULL is allowed. */
void tft_inflate_close(struct tft_inflate *inflate);

/* The next bytes, at most TFT_INFLATE_BLOCK: *got of them, 0 at the end. Blocks while the thread is behind. A
 * compressed file whose end is missing, or whose checksum is wrong, is an error (HALAY_ERR_FORMAT), never a shorter
 * file. */
enum halay_status tft_inflate_read(struct tft_inflate *inflate, char *to, size_t *got);

#endif
