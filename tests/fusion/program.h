/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs for the engine, the same on every rank except for the order of calls: for test_programs.c (threads
 * over fake) and job.c (processes over shm, mpi, ucx).
 */
#ifndef HALAY_TEST_PROGRAM_H
#define HALAY_TEST_PROGRAM_H

#include "halay.h"
#include <stdint.h>

/*
 * Reduces random tensors (type, reduction, operation, size, registered or by name, shared or private memory, in place
 * or not, in existing process sets and a few new ones), a random subset a step, submitted in this rank's own order from
 * several threads, completed by wait, test or callback; compares the results with a reference. In one more step some
 * ranks have joined. The same seed on all ranks. Returns the number of checks that have failed so far.
 */
int program_run(struct halay_context *ctx, uint64_t seed, int steps);

/*
 * Sums random floats in three steps, in registered tensors and some by name, some of them in a second set of all ranks,
 * submitted in an order that depends on order_seed and the rank. Returns a hash of all results, 0 if anything failed.
 * With HALAY_DETERMINISTIC=run and ranks it is a function of seed only. alone: every tensor is waited for before the
 * next is submitted.
 */
uint64_t program_bits(struct halay_context *ctx, uint64_t seed, uint64_t order_seed, int alone);

#endif
