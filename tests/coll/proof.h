/* SPDX-License-Identifier: Apache-2.0
 *
 * Proof of a schedule (schedule/step.h) for one number of ranks without a transport: the programs of all ranks run
 * together, with values that say which ranks are summed in them and how.
 *
 * - Each rank ends with each block that it is due, to which every rank contributed exactly once; a `tree` algorithm's
 *   along the binary tree over ranks.
 * - A send ends only when its receive is posted, and a rank has a window of steps: the programs end all the same.
 * - Nothing that depends on fewer than all ranks goes to the output of a reduction, nothing goes there twice, and
 *   nothing before its old contents, the input of an operation in place, are no longer needed.
 *
 * All blocks of a message have the same contributors (it is an error otherwise), so a step costs the same whatever the
 * number of blocks.
 *
 * By symmetry: if the program of rank r is that of rank 0 with r added to every peer and block, modulo the number of
 * ranks, then all ranks can do the same step at once, and rank 0 alone is run: what it receives from a peer is what it
 * sent itself, moved on by that peer. The steps of every rank are compared first, or of some ranks only if there are
 * more than PROOF_COMPARED.
 */
#ifndef HALAY_TESTS_PROOF_H
#define HALAY_TESTS_PROOF_H

#include "collectives/schedule/step.h"

enum { PROOF_COMPARED = 2048 };

enum proof_way { PROOF_ALL_RANKS, PROOF_BY_SYMMETRY };

struct proof {
    const char *wrong; /* NULL: proved */
    int way;           /* enum proof_way: of what was run */
    int depth;         /* messages that follow each other, at most */
    /* Of the rank with the most, of a vector of one byte: */
    double bytes; /* received */
    double wide;  /* the same where a partial sum has twice the bytes */
    double added;
};

/* PROOF_BY_SYMMETRY: all the same by all ranks if they are not alike. */
struct proof proof_run(const struct halay_algorithm *algorithm, int ranks, int is_in_place, enum proof_way way);

#endif
