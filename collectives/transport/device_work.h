/* SPDX-License-Identifier: Apache-2.0
 *
 * What devices are given to reduce. Plain C and C++: the kernels' side includes it, too.
 */
#ifndef HALAY_DEVICE_WORK_H
#define HALAY_DEVICE_WORK_H

#include "halay_types.h"
#include <stdint.h>

enum {
    HALAY_DEVICE_RANKS = 16,  /* at most */
    HALAY_DEVICE_HANDLE = 64, /* bytes of a segment's handle */
    HALAY_DEVICE_PIECES = 32, /* that one launch takes at most */
    HALAY_DEVICE_BLOCKS = 36, /* that wait for other ranks at most; each has a flag for each rank */
    HALAY_DEVICE_FLAGS = HALAY_DEVICE_BLOCKS * HALAY_DEVICE_RANKS * 4, /* bytes of a rank's flags */
};

/* Returns nonzero for a sum or average of f32, f16 or bf16. */
static inline int halay_sums_floats(int reduction, int dtype)
{
    return (reduction == HALAY_SUM || reduction == HALAY_AVERAGE) &&
           (dtype == HALAY_F32 || dtype == HALAY_F16 || dtype == HALAY_BF16);
}

/* How the ranks of a host reach a segment: device memory of one of them through which they reduce. Plain bytes that
 * travel between ranks. */
struct halay_device_share {
    int64_t process; /* whose it is */
    uint64_t nonce;  /* a random number of that process: in containers two may have one number */
    int32_t device;  /* as that process counts them */
    int32_t is_there;
    uint64_t bytes;
    uint64_t exchange_max;  /* bytes of a sum in one launch, as the rank is configured; the engine sets it */
    uint64_t address;       /* in that process */
    unsigned char uuid[16]; /* of the device; 0: kernels of it cannot wait for other ranks */
    unsigned char handle[HALAY_DEVICE_HANDLE];
};

/* A tensor's part that goes through the segments at a time. */
struct halay_device_piece {
    const void *in;
    void *out;
    size_t at;                 /* where it begins in the segments: elements, a multiple of 16 bytes */
    size_t count;              /* elements */
    int rank;                  /* unpack: whose segment it is in */
    float prescale, postscale; /* of what goes in, and of the sum; only if that is one of f32, f16 or bf16 */
};

struct halay_device_work {
    enum halay_dtype dtype;
    size_t element;                 /* bytes of an element: 1, 2, 4, 8 */
    enum halay_reduction reduction; /* not adasum; exchange: a sum or average of f32, f16 or bf16 */
    int divisor;                    /* of sums: that of an average, the ranks of all hosts; otherwise 1 */
    const struct halay_device_piece *pieces;
    size_t piece_count;
    void *const *segments; /* [ranks], as this rank reaches them */
    int ranks, rank;
    /* exchange: each rank's flags, as this rank reaches them; what its flags become; a word that is not 0 once the job
     * has failed. */
    void *const *flags;
    uint32_t turn;
    const uint32_t *failed;
    int is_shared; /* reduce: the pieces are this rank's share, and the sums go to all segments */
};

#endif
