/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: SIGTERM, SIGINT and SIGUSR1 as a question that a loop asks. The first one is noted, so that a checkpoint
 * can be written (a spot instance is taken back, a scheduler's time is over); a second one, if it comes a second later
 * or more, ends the process as ever.
 */
#ifndef HALAY_TFT_INTERRUPT_H
#define HALAY_TFT_INTERRUPT_H

#include "halay.h"

/* From now on; call it on the main thread. A signal that the process was started with as ignored stays so. */
void tft_interrupt_watch(void);
/* Another signal that means the same, again and again: SIGCONT, which Open MPI sends before SIGTERM when its mpirun is
 * ended. */
void tft_interrupt_watch_also(int number);
/* From any thread: the number of the signal that came, 0 if none has. */
int tft_interrupt_seen(void);
/* All ranks together: a signal that came to one of them has come to all. *number: the largest, on all ranks the same; 0
 * if there was none. Blocks until all are here. */
enum halay_status tft_interrupt_share(struct halay_context *ctx, int *number);

#endif
