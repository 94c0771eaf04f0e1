/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of Adasum (allreduce_adasum.c), for reduce.c and reduce_vector.h, in vectors that the compiler cuts to
 * the size that TARGET allows. The order of all sums is written down here, SIDE_BY_SIDE partial sums and then halves of
 * them, so every version gives the same bits.
 */
#include <string.h>

enum { EIGHT = 8, SIDE_BY_SIDE = 2 * EIGHT };

typedef double doubles8 __attribute__((vector_size(EIGHT * sizeof(double))));
typedef float floats8 __attribute__((vector_size(EIGHT * sizeof(float))));

/* Three partial sums of each place: a.b, a.a, b.b. */
struct dots {
    doubles8 ab[2], aa[2], bb[2];
};

TARGET static inline double dots_total(const doubles8 *sums)
{
    double side[SIDE_BY_SIDE];

    memcpy(side, sums, sizeof side);
    for (int half = SIDE_BY_SIDE / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            side[k] += side[k + half];
    return side[0];
}

#define DEFINE_ADASUM(T, TYPE, EIGHT_OF_TYPE)                                                                     \
    TARGET static inline void T##_dots_add(struct dots *d, const TYPE *a, const TYPE *b)                          \
    {                                                                                                             \
        for (int k = 0; k < 2; k++) {                                                                             \
            EIGHT_OF_TYPE x, y;                                                                                   \
            memcpy(&x, a + k * EIGHT, sizeof x);                                                                  \
            memcpy(&y, b + k * EIGHT, sizeof y);                                                                  \
            doubles8 u = __builtin_convertvector(x, doubles8), v = __builtin_convertvector(y, doubles8);          \
            d->ab[k] += u * v;                                                                                    \
            d->aa[k] += u * u;                                                                                    \
            d->bb[k] += v * v;                                                                                    \
        }                                                                                                         \
    }                                                                                                             \
    TARGET static void T##_dots(const void *a, const void *b, size_t count, double three[3])                      \
    {                                                                                                             \
        const TYPE *x = a, *y = b;                                                                                \
        TYPE last_x[SIDE_BY_SIDE] = { 0 }, last_y[SIDE_BY_SIDE] = { 0 };                                          \
        struct dots d = { 0 };                                                                                    \
        size_t i = 0;                                                                                             \
                                                                                                                  \
        for (; i + SIDE_BY_SIDE <= count; i += SIDE_BY_SIDE)                                                      \
            T##_dots_add(&d, x + i, y + i);                                                                       \
        memcpy(last_x, x + i, (count - i) * sizeof *x);                                                           \
        memcpy(last_y, y + i, (count - i) * sizeof *y);                                                           \
        T##_dots_add(&d, last_x, last_y);                                                                         \
        three[0] += dots_total(d.ab);                                                                             \
        three[1] += dots_total(d.aa);                                                                             \
        three[2] += dots_total(d.bb);                                                                             \
    }                                                                                                             \
    TARGET static void T##_join(void *restrict a, const void *restrict b, size_t count, double of_a, double of_b) \
    {                                                                                                             \
        TYPE *restrict x = a;                                                                                     \
        const TYPE *restrict y = b;                                                                               \
                                                                                                                  \
        for (size_t i = 0; i < count; i++)                                                                        \
            x[i] = (TYPE)(of_a * (double)x[i] + of_b * (double)y[i]);                                             \
    }

DEFINE_ADASUM(f32, float, floats8)
DEFINE_ADASUM(f64, double, doubles8)
