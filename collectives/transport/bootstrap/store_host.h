/* SPDX-License-Identifier: Apache-2.0
 *
 * Store host: serves the store of a start (base/store/store.h) within one of its ranks, on a thread of its own (the one
 * other than the engine's; docs/reference/threading.md). A rank that served it inside halay_init would have to do so in
 * all of its waits, and until the last of the others has read what it needs.
 *
 * The thread owns all that it uses and no thread waits for it. It ends when all clients have come and left, or when
 * none has been connected for as long as a rank waits at the start; if their number is unknown, once there was one.
 */
#ifndef HALAY_STORE_HOST_H
#define HALAY_STORE_HOST_H

#include "base/log.h"
#include "base/store/store.h"

/* Serves at a port that listens, which is the thread's to close then, also after an error. clients: the number of
 * connections that there will be; 0: unknown. *end, unless end is NULL: a descriptor, owned by the caller, that is
 * readable once the thread has ended: a process that ends before takes the store from the others.
 * HALAY_ERR_SYSTEM, HALAY_ERR_NO_MEMORY, logged. */
enum halay_status halay_store_host_start(struct halay_log *log, int listener,
                                         const unsigned char secret[HALAY_SECRET_BYTES], size_t clients, int linger_ms,
                                         int *end);

#endif
