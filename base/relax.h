/* SPDX-License-Identifier: Apache-2.0
 *
 * Relax: tells the processor that this is a loop that waits for memory to change.
 */
#ifndef HALAY_BASE_RELAX_H
#define HALAY_BASE_RELAX_H

static inline void halay_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
