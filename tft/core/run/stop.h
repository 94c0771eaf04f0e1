/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop: a request that the calculation which polls it end, with what it has. The reason is a number above 0, a signal's
 * for example.
 */
#ifndef HALAY_TFT_STOP_H
#define HALAY_TFT_STOP_H

#include "halay.h"
#include <stdatomic.h>

/* Zero-initialise. Lock-free, so that a signal handler may ask; relaxed, since it publishes no other memory. */
struct tft_stop {
    atomic_int reason;
};

void tft_stop_ask(struct tft_stop *stop, int reason);
/* From any thread: the reason, 0 if nobody asked; of NULL, where nobody can, 0. */
int tft_stop_asked(const struct tft_stop *stop);
/* All ranks together: what one of them was asked counts for all. *reason: the largest, the same on all ranks; 0 if
 * there was none. Blocks until all ranks have called it. */
enum halay_status tft_stop_share(struct halay_context *ctx, struct tft_stop *stop, int *reason);

#endif
