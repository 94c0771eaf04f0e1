/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: SIGTERM, SIGINT and SIGUSR1 as a flag that a loop polls. The first one is recorded, so that a checkpoint
 * can be written (a spot instance is reclaimed, a job's time is over); a second one, at least a second later, ends the
 * process as usual.
 */
#ifndef HALAY_TFT_INTERRUPT_H
#define HALAY_TFT_INTERRUPT_H

#include "halay.h"

/* Watch from now on; call it on the main thread. A signal that was ignored at the process's start stays ignored. */
void tft_interrupt_watch(void);
/* Another signal that means the same, however often it comes: SIGCONT, which Open MPI sends before SIGTERM when mpirun
 * is ended. */
void tft_interrupt_watch_also(int number);
/* From any thread: the number of the signal that came, 0 if none has. */
int tft_interrupt_seen(void);
/* All ranks together: a signal to one of them counts for all. *number: the largest, the same on all ranks; 0 if there
 * was none. Blocks until all ranks have called it. */
enum halay_status tft_interrupt_share(struct halay_context *ctx, int *number);

#endif
