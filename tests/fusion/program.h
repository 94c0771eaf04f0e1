/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs for the engine, the same one on every rank up to the order of things: for test_programs.c (threads
 * over fake) and job.c (processes over shm, mpi, ucx).
 */
#ifndef HALAY_TEST_PROGRAM_H
#define HALAY_TEST_PROGRAM_H

#include "halay.h"
#include <stdint.h>

/*
 * Random tensors (type, reduction, operation, size, registered or by name, shared or private memory, in place or not,
 * in random process sets: those that are there, and a few made for it), random subsets a step, submitted in an order of
 * this rank's own from several threads, completed by wait, test or callback; results against a reference. In one more
 * step some ranks have joined. The same seed on all ranks. Returns how many checks have failed so far.
 */
int program_run(struct halay_context *ctx, uint64_t seed, int steps);

/*
 * Random floats through registered tensors and some by name, some of them in a second set of all ranks, three steps,
 * submitted in an order that depends on order_seed and the rank; returns a hash of all results.
 * HALAY_DETERMINISTIC=run and ranks: a function of seed only. alone: every tensor is waited for before the next is
 * submitted. 0: something failed.
 */
uint64_t program_bits(struct halay_context *ctx, uint64_t seed, uint64_t order_seed, int alone);

#endif
