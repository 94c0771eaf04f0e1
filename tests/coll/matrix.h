/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix of cases that every transport must pass: run by each rank on its own group, all in the same order.
 */
#ifndef HALAY_TEST_MATRIX_H
#define HALAY_TEST_MATRIX_H

#include "collectives/group/group.h"

/* quick: fewer types and counts, for slow builds (ThreadSanitizer). TEST_BRIEF=1 in the environment, for runs beside
 * one that does all: that at any number of ranks but three, and nothing huge. Failures are counted by tests/test.h's
 * counters, which matrix.c has of its own; returns the number of failures and prints each. */
int matrix_run(struct halay_group *group, int quick);

#endif
