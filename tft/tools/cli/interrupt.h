/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: SIGTERM, SIGINT and SIGUSR1 as a request to stop (halay_tft_stop). The first one is recorded, so that a
 * checkpoint can be written (a spot instance is reclaimed, a job's time is over); a second one, at least a second
 * later, ends the process as usual.
 */
#ifndef HALAY_TFT_INTERRUPT_H
#define HALAY_TFT_INTERRUPT_H

#include "halay_tft.h"

/* Watch from now on, and ask the session to stop (halay_tft_stop); call it on the main thread. A signal that was
 * ignored at the process's start stays ignored. */
void tft_interrupt_watch(struct halay_tft *tft);
/* The session ends. */
void tft_interrupt_forget(void);
/* Another signal that means the same, however often it comes: SIGCONT, which Open MPI sends before SIGTERM when mpirun
 * is ended. */
void tft_interrupt_watch_also(int number);

#endif
