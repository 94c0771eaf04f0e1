/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefetch: have lines that another core modified last brought here, to be written.
 */
#ifndef HALAY_BASE_PREFETCH_H
#define HALAY_BASE_PREFETCH_H

/* One trip instead of two (read it, then own it), and nobody waits for it. Where the processor has no such instruction
 * it does nothing. The compiler's own built-in reads only unless it is told that prefetchw exists. */
static inline void halay_prefetch_write(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1, 3);
#endif
}

#endif
