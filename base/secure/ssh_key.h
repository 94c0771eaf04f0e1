/* SPDX-License-Identifier: Apache-2.0
 *
 * An ssh key that is derived from a secret: all hosts with the secret have the same key, without a transfer.
 */
#ifndef HALAY_BASE_SSH_KEY_H
#define HALAY_BASE_SSH_KEY_H

#include "base/store/store.h"

enum { HALAY_SSH_PRIVATE_BYTES = 1024, HALAY_SSH_PUBLIC_BYTES = 128 };

/* Derives an Ed25519 key, in OpenSSH's format. label: its purpose; each has a key of its own. private_text ends with a
 * newline; public_text is "ssh-ed25519 AAAA...". Wiping private_text is the caller's. HALAY_ERR_SYSTEM: no libsodium.
 * */
enum halay_status halay_ssh_key(const unsigned char secret[HALAY_SECRET_BYTES], const char label[8],
                                char private_text[HALAY_SSH_PRIVATE_BYTES], char public_text[HALAY_SSH_PUBLIC_BYTES]);

#endif
