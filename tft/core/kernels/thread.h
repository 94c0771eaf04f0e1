/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread beside the caller, from its start to its end: all threads of the program begin here. Those that compute are
 * a pool (tft/core/kernels/threads.h); others read ahead (tft/core/data/csv.h). Whoever starts a thread waits for
 * its end.
 */
#ifndef HALAY_TFT_THREAD_H
#define HALAY_TFT_THREAD_H

#include "base/log.h"

struct tft_thread;

/* Run f(arg) beside the caller. HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM (logged). */
enum halay_status tft_thread_start(struct halay_log *log, void (*f)(void *arg), void *arg, struct tft_thread **thread);
/* Wait until f has returned; NULL is allowed. */
void tft_thread_join(struct tft_thread *thread);

#endif
