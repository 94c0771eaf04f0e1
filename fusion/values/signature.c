/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: pure functions on values; no state.
 */
#include "fusion/values/signature.h"
#include "base/memory.h"
#include "collectives/reduce/scale.h"
#include "fusion/values/signature_impl.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct halay_signature) == 40 + 8 * HALAY_DIMENSIONS_MAX, "no padding: compared by bytes");

static const char *const operation_names[] = {
    [HALAY_ALLREDUCE] = "allreduce", [HALAY_BROADCAST] = "broadcast",
    [HALAY_ALLGATHER] = "allgather", [HALAY_REDUCE_SCATTER] = "reduce-scatter",
    [HALAY_ALLTOALL] = "alltoall",   [HALAY_BARRIER] = "barrier",
    [HALAY_JOIN] = "join",           [HALAY_CHANGE_SETS] = "change of process sets"
};
static const char *const wire_names[] = {
    [HALAY_WIRE_AS_IS] = "as is", [HALAY_WIRE_F16] = "f16", [HALAY_WIRE_BF16] = "bf16"
};
enum { OPERATIONS = sizeof operation_names / sizeof *operation_names };

static int is_reduction(int operation)
{
    return operation == HALAY_ALLREDUCE || operation == HALAY_REDUCE_SCATTER;
}

/* Its first dimension may differ between ranks. */
static int is_ragged(int operation)
{
    return operation == HALAY_ALLGATHER || operation == HALAY_ALLTOALL;
}

static int goes_by_rows(int operation)
{
    return operation == HALAY_REDUCE_SCATTER || is_ragged(operation);
}

size_t halay_shape_count(const uint64_t *shape, int dimensions, size_t element, int *fits)
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

#define REFUSE(status, text) \
    do {                     \
        *why = text;         \
        return status;       \
    } while (0)

static enum halay_status check_splits(const struct halay_tensor_info *info, int size, const char **why)
{
    size_t rows = info->shape[0], sum = 0;

    if (!info->splits && rows % (size_t)size)
        REFUSE(HALAY_ERR_ARGUMENT, "without splits the first dimension must be a multiple of the number of ranks");
    for (int r = 0; info->splits && r < size; r++)
        if (halay_add_overflows(sum, info->splits[r], &sum))
            REFUSE(HALAY_ERR_ARGUMENT, "the splits have more rows than memory");
    if (sum > rows)
        REFUSE(HALAY_ERR_ARGUMENT, "the sum of the splits is greater than the first dimension");
    return HALAY_OK;
}

/* Uneven parts of a reduce-scatter: what they are is said in words, equal on all ranks. */
static enum halay_status check_parts(const struct halay_tensor_info *info, int size, struct halay_signature *made,
                                     const char **why)
{
    size_t sum = 0;

    if (size > HALAY_WORDS_MAX)
        REFUSE(HALAY_ERR_UNSUPPORTED, "no splits with more than 8000 ranks");
    for (int r = 0; r < size; r++)
        if (halay_add_overflows(sum, info->splits[r], &sum))
            REFUSE(HALAY_ERR_ARGUMENT, "the splits have more rows than memory");
    if (sum != info->shape[0])
        REFUSE(HALAY_ERR_ARGUMENT, "the sum of the splits is not the first dimension");
    made->words = (uint32_t)size;
    return HALAY_OK;
}

static enum halay_status check_wire(const struct halay_tensor_info *info, const char **why)
{
    if ((unsigned)info->wire > HALAY_WIRE_BF16)
        REFUSE(HALAY_ERR_ARGUMENT, "unknown wire type");
    if (info->wire && info->operation != HALAY_ALLREDUCE)
        REFUSE(HALAY_ERR_UNSUPPORTED, "only all-reduces are compressed");
    if (info->wire && !info->members && info->dtype != HALAY_F32)
        REFUSE(HALAY_ERR_UNSUPPORTED, "only f32 is compressed");
    return HALAY_OK;
}

/* A group: count is that of its members; types and shapes are in words. */
static enum halay_status make_group(const struct halay_tensor_info *info, struct halay_signature *made, size_t *bytes,
                                    const char **why)
{
    size_t words;

    if (info->op < 0 || info->op >= HALAY_OP_COUNT)
        REFUSE(HALAY_ERR_ARGUMENT, "unknown reduction");
    made->op = (uint8_t)info->op;
    made->prescale = halay_scale_factor(info->prescale);
    made->postscale = halay_scale_factor(info->postscale);
    if (!isfinite(made->prescale) || !isfinite(made->postscale))
        REFUSE(HALAY_ERR_ARGUMENT, "a scale factor must be a finite number");
    *why = halay_members_fault(info, &words, bytes);
    if (*why)
        return HALAY_ERR_ARGUMENT;
    made->members = (uint32_t)info->member_count;
    made->words = (uint32_t)words;
    return HALAY_OK;
}

/* What the operation needs; made has type and shape. */
static enum halay_status make_operation(const struct halay_tensor_info *info, int size, struct halay_signature *made,
                                        const char **why)
{
    if (is_reduction(info->operation)) {
        if (info->op < 0 || info->op >= HALAY_OP_COUNT)
            REFUSE(HALAY_ERR_ARGUMENT, "unknown reduction");
        if (!halay_op_takes(info->op, info->dtype))
            REFUSE(HALAY_ERR_UNSUPPORTED, "the reduction does not take the type");
        if (info->op == HALAY_ADASUM && info->operation != HALAY_ALLREDUCE)
            REFUSE(HALAY_ERR_UNSUPPORTED, "adasum is for all-reduce only");
        made->op = (uint8_t)info->op;
        made->prescale = halay_scale_factor(info->prescale);
        made->postscale = halay_scale_factor(info->postscale);
        if (!scales_are_valid(made))
            REFUSE(HALAY_ERR_ARGUMENT, "a scale factor must be a finite number, and 1 for bool");
    }
    if (info->operation == HALAY_BROADCAST)
        made->root = info->root;
    if (goes_by_rows(info->operation) && !info->dimensions)
        REFUSE(HALAY_ERR_ARGUMENT, "a scalar has no first dimension");
    if (is_ragged(info->operation)) {
        if (size > HALAY_WORDS_MAX)
            REFUSE(HALAY_ERR_UNSUPPORTED, "not with more than 8000 ranks");
        made->shape[0] = 0;
    }
    if (info->operation == HALAY_REDUCE_SCATTER && info->splits)
        return check_parts(info, size, made, why);
    return info->operation == HALAY_ALLTOALL ? check_splits(info, size, why) : HALAY_OK;
}

/* What holds whatever the operation. */
static enum halay_status check_any(const struct halay_tensor_info *info, const char **why)
{
    if ((unsigned)info->operation >= OPERATIONS)
        REFUSE(HALAY_ERR_ARGUMENT, "unknown operation");
    if (info->priority < INT16_MIN || info->priority > INT16_MAX)
        REFUSE(HALAY_ERR_ARGUMENT, "priority must be -32768 to 32767");
    if ((info->operation == HALAY_JOIN) != !strcmp(info->name, HALAY_JOIN_NAME))
        REFUSE(HALAY_ERR_ARGUMENT, "the name is kept for halay_join");
    if ((info->operation == HALAY_CHANGE_SETS) != !strcmp(info->name, HALAY_CHANGE_SETS_NAME))
        REFUSE(HALAY_ERR_ARGUMENT, "the name is kept for halay_process_set_create");
    if (info->operation == HALAY_CHANGE_SETS && (!info->splits || !info->shape[0] || info->shape[0] > HALAY_WORDS_MAX))
        REFUSE(HALAY_ERR_ARGUMENT, "no process sets, or more than 8000 ranks in them");
    return info->operation >= HALAY_BARRIER ? HALAY_OK : check_wire(info, why);
}

/* An operation on one tensor. */
static enum halay_status make_tensor(const struct halay_tensor_info *info, int size, struct halay_signature *made,
                                     size_t *count, const char **why)
{
    int fits;

    if (!halay_dtype_size(info->dtype))
        REFUSE(HALAY_ERR_ARGUMENT, "unknown type");
    if (info->dimensions < 0 || info->dimensions > HALAY_DIMENSIONS_MAX)
        REFUSE(HALAY_ERR_ARGUMENT, "dimensions must be 0 to 8");
    made->dtype = (uint8_t)info->dtype;
    made->dimensions = (uint8_t)info->dimensions;
    for (int d = 0; d < info->dimensions; d++)
        made->shape[d] = info->shape[d];
    size_t elements = halay_shape_count(made->shape, made->dimensions, halay_dtype_size(info->dtype), &fits);
    if (!fits)
        REFUSE(HALAY_ERR_ARGUMENT, "the shape has more bytes than memory");
    enum halay_status status = make_operation(info, size, made, why);
    if (status != HALAY_OK)
        return status;
    if (elements && !info->out && !goes_by_rows(info->operation))
        REFUSE(HALAY_ERR_ARGUMENT, "out is NULL");
    if (elements && !info->in && goes_by_rows(info->operation))
        REFUSE(HALAY_ERR_ARGUMENT, "in is NULL");
    *count = elements;
    return HALAY_OK;
}

enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why)
{
    struct halay_signature made = { .prescale = 1,
                                    .postscale = 1,
                                    .priority = info->priority,
                                    .wire = (uint32_t)info->wire,
                                    .operation = (uint8_t)info->operation };
    size_t elements = 0;

    enum halay_status status = check_any(info, why);
    if (status != HALAY_OK)
        return status;
    if (info->operation >= HALAY_BARRIER) {
        made.wire = 0;
        made.words = info->operation == HALAY_CHANGE_SETS ? (uint32_t)info->shape[0] : 0;
    } else if (info->members) {
        status = make_group(info, &made, &elements, why);
    } else {
        status = make_tensor(info, size, &made, &elements, why);
    }
    if (status == HALAY_OK) {
        *signature = made;
        *count = elements;
    }
    return status;
}
#undef REFUSE

size_t halay_signature_said_count(const struct halay_signature *s, int size)
{
    if (s->operation == HALAY_ALLTOALL)
        return (size_t)size;
    if (s->words)
        return s->words;
    return s->operation == HALAY_ALLGATHER;
}

void halay_signature_say(const struct halay_tensor_info *info, int size, uint64_t *words)
{
    if (info->members && info->operation == HALAY_ALLREDUCE)
        halay_members_say(info, words);
    if (info->operation == HALAY_ALLGATHER)
        words[0] = info->shape[0];
    for (size_t i = 0; info->operation == HALAY_CHANGE_SETS && i < info->shape[0]; i++)
        words[i] = info->splits[i];
    for (int r = 0; info->operation == HALAY_REDUCE_SCATTER && info->splits && r < size; r++)
        words[r] = info->splits[r];
    for (int r = 0; info->operation == HALAY_ALLTOALL && r < size; r++)
        words[r] = info->splits ? info->splits[r] : info->shape[0] / (size_t)size;
}

size_t halay_signature_heard_count(const struct halay_signature *s, int size)
{
    if (s->operation == HALAY_JOIN)
        return 1;
    return is_ragged(s->operation) ? (size_t)size : s->words;
}

int halay_signature_fits(const struct halay_signature *s, const void *words, size_t count)
{
    uint64_t shape[HALAY_DIMENSIONS_MAX], rows;
    size_t total = 0;
    int fits;

    if (s->members)
        return halay_members_are_valid(s, words, count);
    if (s->operation == HALAY_CHANGE_SETS)
        return 1; /* what they ask for is looked at when it is done */
    memcpy(shape, s->shape, sizeof shape);
    for (size_t i = 0; i < count; i++) {
        memcpy(&rows, (const char *)words + i * sizeof rows, sizeof rows);
        if (rows > SIZE_MAX || halay_add_overflows(total, (size_t)rows, &total))
            return 0;
    }
    if (s->words)
        return total == s->shape[0];
    shape[0] = total;
    halay_shape_count(shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    return fits;
}

/* Are there words where an operation has some, and as many? A group's are looked at with them. */
static int words_are_valid(const struct halay_signature *s, int size)
{
    if (s->operation == HALAY_CHANGE_SETS)
        return s->words != 0;
    return s->members || !s->words || (s->operation == HALAY_REDUCE_SCATTER && s->words == (uint32_t)size);
}

/* What does not fit its operation is zero or one. */
static int unused_is_neutral(const struct halay_signature *s)
{
    if (!is_reduction(s->operation) && (s->op != 0 || s->prescale != 1 || s->postscale != 1))
        return 0;
    if (s->operation != HALAY_BROADCAST && s->root != 0)
        return 0;
    if ((s->operation >= HALAY_BARRIER || s->members) && (s->dtype != 0 || s->dimensions != 0))
        return 0;
    if (s->operation != HALAY_ALLREDUCE && (s->members || s->wire))
        return 0;
    return !is_ragged(s->operation) || s->shape[0] == 0;
}

int halay_signature_is_valid(const struct halay_signature *s, int size)
{
    int fits;

    if (s->operation >= OPERATIONS || s->dtype >= HALAY_DTYPE_COUNT || s->dimensions > HALAY_DIMENSIONS_MAX)
        return 0;
    for (int d = s->dimensions; d < HALAY_DIMENSIONS_MAX; d++)
        if (s->shape[d])
            return 0;
    halay_shape_count(s->shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    if (s->wire > HALAY_WIRE_BF16 || s->priority < INT16_MIN || s->priority > INT16_MAX)
        return 0;
    if (!fits || !unused_is_neutral(s) || !words_are_valid(s, size) || (goes_by_rows(s->operation) && !s->dimensions))
        return 0;
    if (s->operation == HALAY_BROADCAST)
        return s->root >= 0 && s->root < size;
    if (!is_reduction(s->operation))
        return 1;
    if (s->members) /* the types are known with the words */
        return s->op < HALAY_OP_COUNT && isfinite(s->prescale) && isfinite(s->postscale) && s->prescale != 0 &&
               s->postscale != 0;
    return (!s->wire || s->dtype == HALAY_F32) && scales_are_valid(s) && s->op < HALAY_OP_COUNT &&
           halay_op_takes((enum halay_op)s->op, (enum halay_dtype)s->dtype) &&
           (s->op != HALAY_ADASUM || s->operation == HALAY_ALLREDUCE);
}

int halay_signature_equal(const struct halay_signature *a, const struct halay_signature *b)
{
    return !memcmp(a, b, sizeof *a);
}

size_t halay_signature_count(const struct halay_signature *s)
{
    int fits;

    return halay_shape_count(s->shape, s->dimensions, 1, &fits);
}

size_t halay_signature_bytes(const struct halay_signature *s)
{
    return halay_signature_count(s) * halay_dtype_size((enum halay_dtype)s->dtype);
}

size_t halay_signature_row(const struct halay_signature *s)
{
    int fits;

    return halay_shape_count(s->shape + 1, s->dimensions - 1, 1, &fits);
}

int halay_signature_fuses(const struct halay_signature *s)
{
    return (s->operation == HALAY_ALLREDUCE && !s->members) || s->operation == HALAY_BROADCAST;
}

uint64_t halay_signature_kind(const struct halay_signature *s)
{
    uint64_t priority = (uint64_t)(uint16_t)s->priority << 48;

    if (s->operation == HALAY_BROADCAST)
        return priority | (uint64_t)1 << 32 | (uint32_t)s->root;
    return priority | (uint64_t)s->wire << 16 | (uint64_t)s->dtype << 8 | s->op;
}

void halay_shape_print(const uint64_t *shape, int dimensions, int has_any_rows, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int d = 0; d < dimensions && used < size; d++)
        if (d == 0 && has_any_rows)
            used += (size_t)snprintf(text + used, size - used, "*");
        else
            used += (size_t)snprintf(text + used, size - used, "%s%llu", d ? "," : "", (unsigned long long)shape[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static void print_shape(const struct halay_signature *s, char *text, size_t size)
{
    halay_shape_print(s->shape, s->dimensions, is_ragged(s->operation), text, size);
}

static void print_members(const struct halay_signature *s, char *text, size_t size)
{
    if (s->members)
        snprintf(text, size, "%u member%s", (unsigned)s->members, s->members > 1 ? "s" : "");
    else
        snprintf(text, size, "no members");
}

int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size)
{
    char shape[8 * 21 + 2];

    if (a->operation != b->operation) {
        snprintf(a_text, size, "operation %s", operation_names[a->operation]);
        snprintf(b_text, size, "%s", operation_names[b->operation]);
    } else if (a->members != b->members) {
        print_members(a, a_text, size);
        print_members(b, b_text, size);
    } else if (a->dtype != b->dtype) {
        snprintf(a_text, size, "type %s", halay_dtype_name((enum halay_dtype)a->dtype));
        snprintf(b_text, size, "%s", halay_dtype_name((enum halay_dtype)b->dtype));
    } else if (a->dimensions != b->dimensions || memcmp(a->shape, b->shape, sizeof a->shape)) {
        print_shape(a, shape, sizeof shape);
        snprintf(a_text, size, "shape %s", shape);
        print_shape(b, shape, sizeof shape);
        snprintf(b_text, size, "%s", shape);
    } else if (!a->words != !b->words) {
        snprintf(a_text, size, a->words ? "splits" : "no splits");
        snprintf(b_text, size, b->words ? "splits" : "none");
    } else if (a->op != b->op) {
        snprintf(a_text, size, "reduction %s", halay_op_name((enum halay_op)a->op));
        snprintf(b_text, size, "%s", halay_op_name((enum halay_op)b->op));
    } else if (a->prescale != b->prescale || a->postscale != b->postscale) {
        snprintf(a_text, size, "scale factors %.17g, %.17g", a->prescale, a->postscale);
        snprintf(b_text, size, "%.17g, %.17g", b->prescale, b->postscale);
    } else if (a->wire != b->wire) {
        snprintf(a_text, size, "wire type %s", wire_names[a->wire]);
        snprintf(b_text, size, "%s", wire_names[b->wire]);
    } else if (a->priority != b->priority) {
        snprintf(a_text, size, "priority %d", (int)a->priority);
        snprintf(b_text, size, "%d", (int)b->priority);
    } else if (a->root != b->root) {
        snprintf(a_text, size, "root %d", (int)a->root);
        snprintf(b_text, size, "%d", (int)b->root);
    } else {
        return 0;
    }
    return 1;
}
