/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: pure functions on values; no state.
 */
#include "fusion/signature.h"
#include "base/memory.h"
#include "fusion/scale.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct halay_signature) == 24 + 8 * HALAY_DIMENSIONS_MAX, "no padding: compared by bytes");

static const char *const operation_names[] = { "allreduce", "broadcast" };

/* Elements; 0 in *fits if elements or bytes exceed size_t. */
static size_t count_elements(const uint64_t *shape, int dimensions, size_t element, int *fits)
{
    size_t count = 1, bytes;

    *fits = 1;
    for (int d = 0; d < dimensions; d++)
        if (shape[d] == 0)
            return 0;
    for (int d = 0; d < dimensions; d++)
        if (shape[d] > SIZE_MAX || halay_mul_overflows(count, (size_t)shape[d], &count))
            *fits = 0;
    if (*fits && (halay_mul_overflows(count, element, &bytes) || bytes > PTRDIFF_MAX))
        *fits = 0;
    return count;
}

static int scales_are_valid(const struct halay_signature *s)
{
    if (!isfinite(s->prescale) || !isfinite(s->postscale) || s->prescale == 0 || s->postscale == 0)
        return 0;
    return (s->prescale == 1 && s->postscale == 1) || halay_scale_takes((enum halay_dtype)s->dtype);
}

enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size, struct halay_signature *signature,
                                       size_t *count, const char **why)
{
    struct halay_signature made = { .prescale = 1, .postscale = 1 };
    int fits;

#define REFUSE(status, text)                                                                                            \
    do {                                                                                                                \
        *why = text;                                                                                                    \
        return status;                                                                                                  \
    } while (0)
    if (info->operation != HALAY_ALLREDUCE && info->operation != HALAY_BROADCAST)
        REFUSE(HALAY_ERR_ARGUMENT, "unknown operation");
    if (!halay_dtype_size(info->dtype))
        REFUSE(HALAY_ERR_ARGUMENT, "unknown type");
    if (info->dimensions < 0 || info->dimensions > HALAY_DIMENSIONS_MAX)
        REFUSE(HALAY_ERR_ARGUMENT, "dimensions must be 0 to 8");
    made.operation = (uint8_t)info->operation;
    made.dtype = (uint8_t)info->dtype;
    made.dimensions = (uint8_t)info->dimensions;
    for (int d = 0; d < info->dimensions; d++)
        made.shape[d] = info->shape[d];
    if (info->operation == HALAY_ALLREDUCE) {
        if (info->op < 0 || info->op >= HALAY_OP_COUNT)
            REFUSE(HALAY_ERR_ARGUMENT, "unknown reduction");
        if (!halay_op_takes(info->op, info->dtype))
            REFUSE(HALAY_ERR_UNSUPPORTED, "the reduction does not take the type");
        made.op = (uint8_t)info->op;
        made.prescale = info->prescale == 0 ? 1 : info->prescale;
        made.postscale = info->postscale == 0 ? 1 : info->postscale;
        if (!scales_are_valid(&made))
            REFUSE(HALAY_ERR_ARGUMENT, "a scale factor must be a finite number, and 1 for bool");
    } else {
        if (info->root < 0 || info->root >= size)
            REFUSE(HALAY_ERR_ARGUMENT, "root is no rank");
        made.root = info->root;
    }
    size_t elements = count_elements(made.shape, made.dimensions, halay_dtype_size(info->dtype), &fits);
    if (!fits)
        REFUSE(HALAY_ERR_ARGUMENT, "the shape has more bytes than memory");
    if (elements && !info->out)
        REFUSE(HALAY_ERR_ARGUMENT, "out is NULL");
#undef REFUSE
    *signature = made;
    *count = elements;
    return HALAY_OK;
}

int halay_signature_is_valid(const struct halay_signature *s, int size)
{
    int fits;

    if (s->operation > HALAY_BROADCAST || s->dtype >= HALAY_DTYPE_COUNT || s->dimensions > HALAY_DIMENSIONS_MAX)
        return 0;
    for (int d = s->dimensions; d < HALAY_DIMENSIONS_MAX; d++)
        if (s->shape[d])
            return 0;
    count_elements(s->shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    if (!fits)
        return 0;
    if (s->operation == HALAY_BROADCAST)
        return s->op == 0 && s->root >= 0 && s->root < size && s->prescale == 1 && s->postscale == 1;
    return s->root == 0 && scales_are_valid(s) && s->op < HALAY_OP_COUNT &&
           halay_op_takes((enum halay_op)s->op, (enum halay_dtype)s->dtype);
}

int halay_signature_equal(const struct halay_signature *a, const struct halay_signature *b)
{
    return !memcmp(a, b, sizeof *a);
}

size_t halay_signature_count(const struct halay_signature *s)
{
    int fits;

    return count_elements(s->shape, s->dimensions, 1, &fits);
}

size_t halay_signature_bytes(const struct halay_signature *s)
{
    return halay_signature_count(s) * halay_dtype_size((enum halay_dtype)s->dtype);
}

uint64_t halay_signature_kind(const struct halay_signature *s)
{
    if (s->operation == HALAY_BROADCAST)
        return (uint64_t)1 << 32 | (uint32_t)s->root;
    return (uint64_t)s->dtype << 8 | s->op;
}

static void print_shape(const struct halay_signature *s, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (int d = 0; d < s->dimensions && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%llu", d ? "," : "", (unsigned long long)s->shape[d]);
}

int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size)
{
    char shape[8 * 21 + 1];

    if (a->operation != b->operation) {
        snprintf(a_text, size, "operation %s", operation_names[a->operation]);
        snprintf(b_text, size, "%s", operation_names[b->operation]);
    } else if (a->dtype != b->dtype) {
        snprintf(a_text, size, "type %s", halay_dtype_name((enum halay_dtype)a->dtype));
        snprintf(b_text, size, "%s", halay_dtype_name((enum halay_dtype)b->dtype));
    } else if (a->dimensions != b->dimensions || memcmp(a->shape, b->shape, sizeof a->shape)) {
        print_shape(a, shape, sizeof shape);
        snprintf(a_text, size, "shape [%s]", shape);
        print_shape(b, shape, sizeof shape);
        snprintf(b_text, size, "[%s]", shape);
    } else if (a->op != b->op) {
        snprintf(a_text, size, "reduction %s", halay_op_name((enum halay_op)a->op));
        snprintf(b_text, size, "%s", halay_op_name((enum halay_op)b->op));
    } else if (a->prescale != b->prescale || a->postscale != b->postscale) {
        snprintf(a_text, size, "scale factors %.17g, %.17g", a->prescale, a->postscale);
        snprintf(b_text, size, "%.17g, %.17g", b->prescale, b->postscale);
    } else if (a->root != b->root) {
        snprintf(a_text, size, "root %d", (int)a->root);
        snprintf(b_text, size, "%d", (int)b->root);
    } else {
        return 0;
    }
    return 1;
}
