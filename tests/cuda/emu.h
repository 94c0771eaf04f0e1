/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test says to the emulation, beside the EMU_* variables that README.md lists.
 */
#ifndef EMU_H
#define EMU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The nth call from now on of this name (1: the next; 0: all) fails with this code, and does nothing. "kernel": the nth
 * launch from now on succeeds, and the kernel fails: so does every call after. "init": CUDA as a whole, as without a
 * driver (cudaErrorInsufficientDriver), a device (cudaErrorNoDevice), the permission (cudaErrorNotPermitted).
 * "cublasLtMatmulAlgoGetHeuristic" knows no algorithm, which it says in one way or the other. Weak: NULL on a GPU, as
 * the next ones. */
__attribute__((weak)) void emu_fail(const char *call, int nth, int code);

/* How many calls of this name there have been; "bytes_to_devices", "bytes_from_devices": what asynchronous copies with
 * memory of the host have moved; "products_that_may_round": those in bf16 and tf32; "workspace_limits": the bytes of
 * workspace that cuBLASLt's heuristic was told to stay below, those of all calls together. */
__attribute__((weak)) size_t emu_calls(const char *call);

/* The devices' compute capability from now on, which is 90 at first: 75 for 7.5. */
__attribute__((weak)) void emu_capability(int major_minor);

/* Nonzero if this process has a context on the device, which costs hundreds of megabytes on a GPU. */
__attribute__((weak)) int emu_has_context(int device);

/* Limits of each launch from now on, as a kernel's author expects them; 0: none. */
struct emu_limits {
    size_t accesses; /* the most of one thread, of any memory but its own: a serial loop has more */
    size_t threads;  /* the fewest that access device memory, in a launch of more than 32 accesses for each of them */
    size_t sectors;  /* the most of 32 bytes of device memory that an instruction of a warp accesses */
};
__attribute__((weak)) void emu_limit(const struct emu_limits *limits); /* NULL: none */

#ifdef __cplusplus
}
#endif

#endif
