/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline: loops over memory, as wide as the processor can. What they compute is of no interest: integers, so that no
 * value is special.
 */
#include "perf/src/operation/roofline.h"
#include <stdint.h>
#include <string.h>

/* Sixteen words that need not be aligned; the compiler cuts them into what the processor has. */
typedef uint32_t wide __attribute__((vector_size(64), aligned(1), may_alias));
enum { WIDE = sizeof(wide) };

/* to = a + b, word by word. */
static inline __attribute__((always_inline)) void add(unsigned char *to, const unsigned char *a, const unsigned char *b,
                                                      size_t count)
{
    size_t i = 0;

    for (; i + WIDE <= count; i += WIDE)
        *(wide *)(to + i) = *(const wide *)(a + i) + *(const wide *)(b + i);
    for (; i < count; i++)
        to[i] = (unsigned char)(a[i] + b[i]);
}

static inline __attribute__((always_inline)) void update(unsigned char *bytes, size_t count)
{
    size_t i = 0;

    for (; i + WIDE <= count; i += WIDE)
        *(wide *)(bytes + i) += 1;
    for (; i < count; i++)
        bytes[i]++;
}

struct loops {
    void (*add)(unsigned char *to, const unsigned char *a, const unsigned char *b, size_t count);
    void (*update)(unsigned char *bytes, size_t count);
};

#define LOOPS(suffix, attribute)                                                                          \
    attribute static void add_##suffix(unsigned char *to, const unsigned char *a, const unsigned char *b, \
                                       size_t count)                                                      \
    {                                                                                                     \
        add(to, a, b, count);                                                                             \
    }                                                                                                     \
    attribute static void update_##suffix(unsigned char *bytes, size_t count)                             \
    {                                                                                                     \
        update(bytes, count);                                                                             \
    }                                                                                                     \
    static const struct loops loops_##suffix = { add_##suffix, update_##suffix };

LOOPS(plain, )
#ifdef __x86_64__
LOOPS(avx2, __attribute__((target("avx2"))))
LOOPS(avx512, __attribute__((target("avx512f"))))
#endif

static const struct loops *best_loops(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return &loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &loops_avx2;
#endif
    return &loops_plain;
}

void perf_roofline_update(void *buffer, size_t bytes)
{
    best_loops()->update(buffer, bytes);
}

/* In chunks that stay in the first cache until all parts are added, so that each byte of the sum goes to memory
 * once. */
void perf_roofline_combine(void *to, const void *from, size_t parts, size_t bytes)
{
    enum { CHUNK = 4096 };
    const struct loops *loops = best_loops();
    const unsigned char *first = from;

    for (size_t i = 0; i < bytes; i += CHUNK) {
        size_t n = bytes - i < CHUNK ? bytes - i : CHUNK;
        unsigned char *sum = (unsigned char *)to + i;
        if (parts > 1)
            loops->add(sum, first + i, first + bytes + i, n);
        else
            memmove(sum, first + i, n);
        for (size_t p = 2; p < parts; p++)
            loops->add(sum, sum, first + p * bytes + i, n);
    }
}

void perf_roofline_copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
