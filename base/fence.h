/* SPDX-License-Identifier: Apache-2.0
 *
 * Fence: a full memory barrier.
 */
#ifndef HALAY_BASE_FENCE_H
#define HALAY_BASE_FENCE_H

#include <stdatomic.h>

/* ThreadSanitizer does not know fences and says so; between processes it has nothing to see anyway. */
static inline void halay_full_fence(void)
{
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    atomic_thread_fence(memory_order_seq_cst);
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

#endif
