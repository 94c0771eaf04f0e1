/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that show the same source compiled for a GPU and run in the emulation: launchers with a C interface.
 */
#ifndef PROOF_H
#define PROOF_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PROOF_RANKS = 4, PROOF_BLOCKS = 2 };

/* What ranks show each other: data, and for each block and rank a word that counts their meetings. */
struct proof_ranks {
    int rank, size;
    const float *data[PROOF_RANKS];
    uint32_t *words[PROOF_RANKS]; /* (PROOF_BLOCKS, PROOF_RANKS) */
    uint32_t *abort;              /* pinned: a rank that waits gives up when it is not 0 */
};

cudaError_t proof_add(const float *a, const float *b, float *c, size_t n, cudaStream_t stream);
/* The sum of all, by blocks whose last one adds what they left: parts (blocks), count 0. */
cudaError_t proof_sum(const float *x, size_t n, float *parts, unsigned *count, float *sum, cudaStream_t stream);
/* x becomes x / max |x|, in one cooperative launch; parts (blocks). */
cudaError_t proof_scale(float *x, size_t n, float *parts, cudaStream_t stream);
/* out = the sum over ranks in their order, n of each; turn: 1, 2, ... */
cudaError_t proof_all_reduce(const struct proof_ranks *ranks, float *out, size_t n, uint32_t turn, cudaStream_t stream);
/* bf16 rows transposed through shared memory: to (W, R) of from (R, W). */
cudaError_t proof_transpose(const void *from, size_t R, size_t W, void *to, cudaStream_t stream);
/* d (16, 8) += a (16, 16) b (16, 8), whose numbers bf16 has, by one warp's tensor cores. */
cudaError_t proof_multiply(const float *a, const float *b, float *d, cudaStream_t stream);

/* A kernel that writes its first thread's number to *x: any shape, cooperative or not. */
cudaError_t proof_launch(unsigned blocks, unsigned threads, size_t dynamic, int cooperative, float *x,
                         cudaStream_t stream);
/* Allows it so much dynamic shared memory. */
cudaError_t proof_allow(int dynamic);
cudaError_t proof_occupancy(int threads, size_t dynamic, int *blocks);

#ifdef __cplusplus
}
#endif

#endif
