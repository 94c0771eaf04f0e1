/* SPDX-License-Identifier: Apache-2.0
 *
 * A value is carried over gaps by doubling: what is missing takes what stands 1, 2, 4 ... steps before, so that after
 * k rounds gaps of 2^k - 1 steps are closed.
 */
#include "tft/tools/export/onnx_fill.h"
#include <math.h>
#include <stdlib.h>

size_t onnx_fill_forward(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_double(g, NAN);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_shift(g, x, (int64_t)by, empty), x);
    return x;
}

size_t onnx_fill_codes(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_integer(g, -1), zero = onnx_integer(g, 0);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "Less", x, zero), onnx_shift(g, x, (int64_t)by, empty), x);
    return x;
}

/* x with each gap closed by what follows it. */
static size_t fill_backward(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t empty = onnx_double(g, NAN);

    for (size_t by = 1; by < steps; by *= 2)
        x = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_shift(g, x, -(int64_t)by, empty), x);
    return x;
}

/* The numbers of the steps that have a value, NaN at those that have none. */
static size_t places(struct onnx_graph *g, size_t x, size_t steps)
{
    double *numbers = calloc(steps + 1, sizeof *numbers);

    g->failed |= !numbers;
    for (size_t t = 0; numbers && t < steps; t++)
        numbers[t] = (double)t;
    size_t all = numbers ? onnx_doubles(g, numbers, &steps, 1) : ONNX_NONE;
    free(numbers);
    return ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", x), onnx_double(g, NAN), all);
}

size_t onnx_fill_line(struct onnx_graph *g, size_t x, size_t steps)
{
    size_t at = places(g, x, steps), is_missing = ONNX_OP(g, "IsNaN", x);
    size_t before = onnx_fill_forward(g, x, steps), after = fill_backward(g, x, steps);
    size_t first = onnx_fill_forward(g, at, steps), last = fill_backward(g, at, steps);
    /* of a missing step: its own number is not in `at` */
    size_t own = places(g, onnx_double(g, 0), steps);
    size_t share = ONNX_OP(g, "Div", ONNX_OP(g, "Sub", own, first), ONNX_OP(g, "Sub", last, first));
    size_t line = ONNX_OP(g, "Add", before, ONNX_OP(g, "Mul", ONNX_OP(g, "Sub", after, before), share));

    line = ONNX_OP(g, "Where", ONNX_OP(g, "IsNaN", after), before, line);
    return ONNX_OP(g, "Where", is_missing, line, x);
}
