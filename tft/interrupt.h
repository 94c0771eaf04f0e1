/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupt: SIGTERM and SIGINT as a question that a loop asks. The first one is noted, so that a checkpoint can be written
 * (a spot instance is taken back, a scheduler's time is over); a second one ends the process as ever.
 */
#ifndef HALAY_TFT_INTERRUPT_H
#define HALAY_TFT_INTERRUPT_H

/* From now on; call it on the main thread. A signal that the process was started with as ignored stays so. */
void tft_interrupt_watch(void);
/* From any thread: the number of the signal that came, 0 if none has. */
int tft_interrupt_seen(void);

#endif
