/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature: pure functions on values; no state.
 */
#include "fusion/protocol/signature.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "collectives/reduce/scale.h"
#include "halay_tools.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct halay_signature) == 32 + 8 * HALAY_DIMENSIONS_MAX, "no padding: compared by bytes");

static const char *const collective_names[] = { [HALAY_ALLREDUCE] = "allreduce",
                                                [HALAY_BROADCAST] = "broadcast",
                                                [HALAY_ALLGATHER] = "allgather",
                                                [HALAY_REDUCE_SCATTER] = "reduce-scatter",
                                                [HALAY_ALLTOALL] = "alltoall",
                                                [HALAY_BARRIER] = "barrier",
                                                [HALAY_REDUCE] = "reduce",
                                                [HALAY_GATHER] = "gather",
                                                [HALAY_SCATTER] = "scatter",
                                                [HALAY_SEND] = "send",
                                                [HALAY_RECEIVE] = "receive",
                                                [HALAY_JOIN] = "join",
                                                [HALAY_CHANGE_SETS] = "change of process sets" };
static const char *const wire_names[] = {
    [HALAY_WIRE_AS_IS] = "as is", [HALAY_WIRE_F16] = "f16", [HALAY_WIRE_BF16] = "bf16"
};
_Static_assert(sizeof collective_names / sizeof *collective_names == HALAY_COLLECTIVE_KINDS, "each has a name");

const char *halay_collective_name(int collective)
{
    return collective_names[collective];
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

int halay_signature_scales_are_valid(const struct halay_signature *s)
{
    if (!isfinite(s->prescale) || !isfinite(s->postscale) || s->prescale == 0 || s->postscale == 0)
        return 0;
    return (s->prescale == 1 && s->postscale == 1) || s->members || halay_scale_takes((enum halay_dtype)s->dtype);
}

/* Returns nonzero if the length of the payload suits the operation. A group's payload is checked by its contents. size:
 * the number of ranks of the job; the members of a smaller set compare the length with their set's. */
static int payload_count_is_valid(const struct halay_signature *s, int size)
{
    if (s->collective == HALAY_CHANGE_SETS)
        return s->payload_count != 0;
    return s->members || !s->payload_count || (s->collective == HALAY_REDUCE_SCATTER && s->payload_count <= size);
}

/* Returns nonzero if the fields that the operation does not use are neutral: factors 1, all others 0. */
static int unused_is_neutral(const struct halay_signature *s)
{
    if (!halay_collective_reduces(s->collective) && (s->reduction != 0 || s->prescale != 1 || s->postscale != 1))
        return 0;
    if (!halay_collective_has_root(s->collective) && s->root != 0)
        return 0;
    if ((halay_collective_is_empty(s->collective) || s->members) && (s->dtype != 0 || s->dimensions != 0))
        return 0;
    if (s->collective != HALAY_ALLREDUCE && (s->members || s->wire))
        return 0;
    return !halay_collective_is_ragged(s->collective) || s->shape[0] == 0;
}

int halay_signature_is_valid(const struct halay_signature *s, int size)
{
    int fits;

    if (s->collective >= HALAY_COLLECTIVE_KINDS || halay_collective_is_point(s->collective) ||
        s->dtype >= HALAY_DTYPE_COUNT || s->dimensions > HALAY_DIMENSIONS_MAX)
        return 0;
    for (int d = s->dimensions; d < HALAY_DIMENSIONS_MAX; d++)
        if (s->shape[d])
            return 0;
    halay_shape_count(s->shape, s->dimensions, halay_dtype_size((enum halay_dtype)s->dtype), &fits);
    if (s->is_on_devices > 1 || (s->is_on_devices && !halay_signature_may_be_on_devices(s)))
        return 0;
    if (s->wire > HALAY_WIRE_BF16)
        return 0;
    if (!fits || !unused_is_neutral(s) || !payload_count_is_valid(s, size) ||
        (halay_collective_goes_by_rows(s->collective) && !s->dimensions))
        return 0;
    if (halay_collective_has_root(s->collective) && (s->root < 0 || s->root >= size))
        return 0;
    if (!halay_collective_reduces(s->collective))
        return 1;
    if (s->reduction >= HALAY_REDUCTION_COUNT || !halay_signature_scales_are_valid(s))
        return 0;
    return s->members || /* the payload has the types */
           ((!s->wire || s->dtype == HALAY_F32) &&
            halay_reduction_takes((enum halay_reduction)s->reduction, (enum halay_dtype)s->dtype) &&
            (s->reduction != HALAY_ADASUM || s->collective == HALAY_ALLREDUCE));
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
    return (s->collective == HALAY_ALLREDUCE && !s->members) || s->collective == HALAY_BROADCAST;
}

uint64_t halay_signature_kind(const struct halay_signature *s)
{
    uint64_t priority = (uint64_t)(uint16_t)s->priority << 48;

    if (s->collective == HALAY_BROADCAST)
        return priority | (uint64_t)(s->is_on_devices ? s->dtype : 0) << 34 | (uint64_t)s->is_on_devices << 33 |
               (uint64_t)1 << 32 | (uint32_t)s->root;
    return priority | (uint64_t)s->is_on_devices << 24 | (uint64_t)s->wire << 16 | (uint64_t)s->dtype << 8 |
           s->reduction;
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

/* The fields that ranks may differ in, in the order in which they are compared. */
enum field { COLLECTIVE, MEMBERS, TYPE, SHAPE, SPLITS, REDUCTION, SCALES, WIRE, MEMORY, PRIORITY, ROOT, FIELDS };

/* Prints the value of a field, different for different values. Returns what precedes it. */
static const char *print_field(const struct halay_signature *s, enum field field, char *text, size_t size)
{
    switch (field) {
    case COLLECTIVE:
        snprintf(text, size, "%s", collective_names[s->collective]);
        return "collective ";
    case MEMBERS:
        snprintf(text, size, s->members ? "%d member%s" : "no members", (int)s->members, s->members > 1 ? "s" : "");
        return "";
    case TYPE:
        snprintf(text, size, "%s", halay_dtype_name((enum halay_dtype)s->dtype));
        return "type ";
    case SHAPE:
        halay_shape_print(s->shape, s->dimensions, halay_collective_is_ragged(s->collective), text, size);
        return "shape ";
    case SPLITS:
        snprintf(text, size, s->payload_count ? "splits" : "no splits");
        return "";
    case REDUCTION:
        snprintf(text, size, "%s", halay_reduction_name((enum halay_reduction)s->reduction));
        return "reduction ";
    case SCALES:
        halay_snprintf(text, size, "%.17g, %.17g", s->prescale, s->postscale);
        return "scale factors ";
    case WIRE:
        snprintf(text, size, "%s", wire_names[s->wire]);
        return "wire type ";
    case MEMORY:
        snprintf(text, size, "%s", s->is_on_devices ? "on devices of all ranks" : "of its own kind");
        return "memory ";
    case PRIORITY:
        snprintf(text, size, "%d", (int)s->priority);
        return "priority ";
    default:
        snprintf(text, size, "%d", (int)s->root);
        return "root ";
    }
}

int halay_signature_difference(const struct halay_signature *a, const struct halay_signature *b, char *a_text,
                               char *b_text, size_t size)
{
    char value[8 * 21 + 2]; /* the longest: a shape */

    for (int field = 0; field < FIELDS; field++) {
        const char *label = print_field(a, (enum field)field, value, sizeof value);
        print_field(b, (enum field)field, b_text, size);
        snprintf(a_text, size, "%s%s", label, value);
        if (strcmp(value, b_text))
            return 1;
    }
    return 0;
}
