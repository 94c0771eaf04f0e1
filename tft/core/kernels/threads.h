/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's compute threads: one pool, created once; each call runs one function on all of them.
 *
 * The caller is thread 0, so that a pool of one starts none. On each thread, the matrix libraries are set to use that
 * thread alone. Between calls the threads sleep.
 */
#ifndef HALAY_TFT_THREADS_H
#define HALAY_TFT_THREADS_H

#include "base/log.h"
#include "halay_types.h"

struct tft_pool;

/* threads >= 1. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM. */
enum halay_status tft_pool_create(struct halay_log *log, int threads, struct tft_pool **out);
void tft_pool_destroy(struct tft_pool *pool); /* no call in progress; NULL is allowed */
int tft_pool_threads(const struct tft_pool *pool);

/* Run f(arg, thread) once on each thread and return when all have returned. One call at a time; f must not call it. */
void tft_pool_run(struct tft_pool *pool, void (*f)(void *arg, int thread), void *arg);

#endif
