/* SPDX-License-Identifier: Apache-2.0
 *
 * Payload: 64-bit words that are sent with a signature. signature.h lists their contents.
 */
#ifndef HALAY_PAYLOAD_H
#define HALAY_PAYLOAD_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct halay_payload { /* zero-initialised */
    uint64_t *at;      /* owned */
    size_t count, capacity;
};

/* Resizes to count words; the old ones are kept where they fit. HALAY_ERR_NO_MEMORY: nothing has changed. */
enum halay_status halay_payload_resize(struct halay_payload *payload, size_t count);
/* Copies count words from any address (not aligned). */
enum halay_status halay_payload_set(struct halay_payload *payload, const void *from, size_t count);
int halay_payload_equal(const struct halay_payload *payload, const void *other, size_t count);
void halay_payload_fini(struct halay_payload *payload);

#endif
