/* SPDX-License-Identifier: Apache-2.0
 *
 * Secret: its sources are a private file, text that people choose, and values that both ends know anyway. Random bytes
 * are used unchanged. Text can be guessed, and a recorded handshake is enough to try guesses: text is stretched
 * (Argon2id), so that each guess costs 64 MiB and a tenth of a second.
 */
#ifndef HALAY_BASE_SECRET_H
#define HALAY_BASE_SECRET_H

#include "base/store/store.h"

/* Bytes of a text that a secret is derived from. */
struct halay_secret_part {
    const void *bytes;
    size_t count;
};

/* Derives a secret from values that both ends know: as secret as the best kept of its parts. */
enum halay_status halay_derive_secret(struct halay_log *log, const struct halay_secret_part *parts, size_t count,
                                      unsigned char secret[HALAY_SECRET_BYTES]);

/* Makes a key from text. The same text gives the same key on every host: ends that share nothing but the text cannot
 * agree on a salt, so the salt is a constant of this use, and tables of guesses for other programs do not serve.
 * HALAY_ERR_NO_MEMORY, logged: it takes 64 MiB. */
enum halay_status halay_stretch_text(struct halay_log *log, const char *text, size_t count,
                                     unsigned char key[HALAY_SECRET_BYTES]);

/* Reads a file that only its owner can read, this user or root, up to size bytes; *count: the bytes read. If root owns
 * it and this user is another, the file's group may read it, too. Pipes are accepted, as a shell's <(command) makes
 * them. HALAY_ERR_AUTH: other users can read it, or own it; HALAY_ERR_SYSTEM: it cannot be read; why has one line, with
 * the file's name and what would be right, of room bytes at most. */
enum halay_status halay_private_file_read(const char *path, void *bytes, size_t size, size_t *count, char *why,
                                          size_t room);

#endif
