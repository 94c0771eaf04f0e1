/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a signature: checks the caller's description, in the order in which faults are reported.
 */
#include "base/memory.h"
#include "collectives/reduce/scale.h"
#include "fusion/protocol/members.h"
#include "fusion/protocol/signature.h"
#include "halay_tools.h"
#include <string.h>

static enum halay_status set_fault(enum halay_status status, const char *text, const char **why)
{
    *why = text;
    return status;
}

/* Checks the rows that an all-to-all sends, or the blocks of a reduce-scatter, or of a scatter at its root; the caller
 * checks that blocks add up to the rows. */
static enum halay_status check_splits(const struct halay_tensor_info *info, int size, const char **why)
{
    size_t rows = info->shape[0], sum = 0;
    int is_alltoall = info->collective == HALAY_ALLTOALL;

    if (!info->splits && is_alltoall && rows % (size_t)size)
        return set_fault(HALAY_ERR_ARGUMENT,
                         "without splits the first dimension must be a multiple of the number of ranks", why);
    if (info->splits && size > HALAY_PAYLOAD_MAX)
        return set_fault(HALAY_ERR_UNSUPPORTED, "splits are supported with 8000 ranks at most", why);
    for (int r = 0; info->splits && r < size; r++)
        if (halay_add_overflows(sum, info->splits[r], &sum))
            return set_fault(HALAY_ERR_ARGUMENT, "the splits have more rows than memory", why);
    if (is_alltoall && sum > rows)
        return set_fault(HALAY_ERR_ARGUMENT, "the sum of the splits is greater than the first dimension", why);
    return HALAY_OK;
}

/* Sets the reduction and the factors. */
static enum halay_status make_reduction(const struct halay_tensor_info *info, struct halay_signature *made,
                                        const char **why)
{
    if (info->reduction < 0 || info->reduction >= HALAY_REDUCTION_COUNT)
        return set_fault(HALAY_ERR_ARGUMENT, "unknown reduction", why);
    if (!info->members && !halay_reduction_takes(info->reduction, info->dtype))
        return set_fault(HALAY_ERR_UNSUPPORTED, halay_type_fault, why);
    if (info->reduction == HALAY_ADASUM && info->collective != HALAY_ALLREDUCE)
        return set_fault(HALAY_ERR_UNSUPPORTED, "adasum is for all-reduce only", why);
    made->reduction = (uint8_t)info->reduction;
    made->prescale = halay_scale_factor(info->prescale);
    made->postscale = halay_scale_factor(info->postscale);
    if (!halay_signature_scales_are_valid(made))
        return set_fault(HALAY_ERR_ARGUMENT, "a scale factor must be a finite number, and 1 for bool", why);
    return HALAY_OK;
}

static enum halay_status check_wire(const struct halay_tensor_info *info, const char **why)
{
    if ((unsigned)info->wire > HALAY_WIRE_BF16)
        return set_fault(HALAY_ERR_ARGUMENT, "unknown wire type", why);
    if (info->wire && info->collective != HALAY_ALLREDUCE)
        return set_fault(HALAY_ERR_UNSUPPORTED, "only all-reduces are compressed", why);
    if (info->wire && !info->members && info->dtype != HALAY_F32)
        return set_fault(HALAY_ERR_UNSUPPORTED, "only f32 is compressed", why);
    return HALAY_OK;
}

/* Makes the signature of a group: count is that of its members; types and shapes are in the payload. */
static enum halay_status make_group(const struct halay_tensor_info *info, struct halay_signature *made, size_t *bytes,
                                    const char **why)
{
    size_t payload_count;

    made->members = (uint16_t)info->member_count;
    enum halay_status status = make_reduction(info, made, why);
    if (status != HALAY_OK)
        return status;
    *why = halay_members_fault(info, &payload_count, bytes);
    if (*why)
        return HALAY_ERR_ARGUMENT;
    made->payload_count = (uint16_t)payload_count;
    made->is_on_devices = info->memory == HALAY_MEMORY_DEVICES && halay_signature_may_be_on_devices(made);
    return HALAY_OK;
}

/* Sets the fields of the operation; made has type and shape. */
static enum halay_status make_operation(const struct halay_tensor_info *info, int size, struct halay_signature *made,
                                        const char **why)
{
    if (halay_collective_reduces(info->collective)) {
        enum halay_status status = make_reduction(info, made, why);
        if (status != HALAY_OK)
            return status;
    }
    if (halay_collective_has_root(info->collective))
        made->root = info->root;
    if (halay_collective_goes_by_rows(info->collective) && !info->dimensions)
        return set_fault(HALAY_ERR_ARGUMENT, "a scalar has no first dimension", why);
    if (halay_collective_is_ragged(info->collective)) {
        if (size > HALAY_PAYLOAD_MAX)
            return set_fault(HALAY_ERR_UNSUPPORTED, "the collective is supported with 8000 ranks at most", why);
        made->shape[0] = 0;
    }
    if (info->collective == HALAY_REDUCE_SCATTER && info->splits)
        made->payload_count = (uint16_t)size; /* the blocks are in the payload, equal on all ranks */
    int has_splits = info->collective == HALAY_REDUCE_SCATTER || info->collective == HALAY_SCATTER ||
                     info->collective == HALAY_ALLTOALL;
    return has_splits ? check_splits(info, size, why) : HALAY_OK;
}

/* Checks what all operations require. */
static enum halay_status check_any(const struct halay_tensor_info *info, const char **why)
{
    if ((unsigned)info->collective >= HALAY_COLLECTIVE_KINDS)
        return set_fault(HALAY_ERR_ARGUMENT, "unknown operation", why);
    if (info->priority < INT16_MIN || info->priority > INT16_MAX)
        return set_fault(HALAY_ERR_ARGUMENT, "priority must be -32768 to 32767", why);
    if ((info->collective == HALAY_JOIN) != !strcmp(info->name, HALAY_JOIN_NAME))
        return set_fault(HALAY_ERR_ARGUMENT, "the name is reserved for halay_join", why);
    if ((info->collective == HALAY_CHANGE_SETS) !=
        !strncmp(info->name, HALAY_CHANGE_SETS_NAME, sizeof HALAY_CHANGE_SETS_NAME - 1))
        return set_fault(HALAY_ERR_ARGUMENT, "names that begin so are reserved for halay_process_set_create", why);
    if (info->collective == HALAY_CHANGE_SETS &&
        (!info->splits || !info->shape[0] || info->shape[0] > HALAY_PAYLOAD_MAX))
        return set_fault(HALAY_ERR_ARGUMENT, "process sets must be one or more, with 8000 ranks in all at most", why);
    return halay_collective_is_empty((int)info->collective) ? HALAY_OK : check_wire(info, why);
}

/* Makes the signature of an operation on one tensor. */
static enum halay_status make_tensor(const struct halay_tensor_info *info, int size, struct halay_signature *made,
                                     size_t *count, const char **why)
{
    int fits;

    if (!halay_dtype_size(info->dtype))
        return set_fault(HALAY_ERR_ARGUMENT, "unknown type", why);
    if (info->dimensions < 0 || info->dimensions > HALAY_DIMENSIONS_MAX)
        return set_fault(HALAY_ERR_ARGUMENT, "dimensions must be 0 to 8", why);
    made->dtype = (uint8_t)info->dtype;
    made->dimensions = (uint8_t)info->dimensions;
    for (int d = 0; d < info->dimensions; d++)
        made->shape[d] = info->shape[d];
    size_t elements = halay_shape_count(made->shape, made->dimensions, halay_dtype_size(info->dtype), &fits);
    if (!fits)
        return set_fault(HALAY_ERR_ARGUMENT, "the shape exceeds the memory of a process", why);
    enum halay_status status = make_operation(info, size, made, why);
    if (status != HALAY_OK)
        return status;
    int only_gives = halay_collective_goes_by_rows(info->collective) || info->collective == HALAY_SEND ||
                     info->collective == HALAY_REDUCE;
    if (elements && !info->out && !only_gives)
        return set_fault(HALAY_ERR_ARGUMENT, "out is NULL", why);
    if (elements && !info->in && only_gives)
        return set_fault(HALAY_ERR_ARGUMENT, "in is NULL", why);
    *count = elements;
    made->is_on_devices = info->memory == HALAY_MEMORY_DEVICES && halay_signature_may_be_on_devices(made);
    return HALAY_OK;
}

enum halay_status halay_signature_make(const struct halay_tensor_info *info, int size,
                                       struct halay_signature *signature, size_t *count, const char **why)
{
    struct halay_signature made = { .prescale = 1,
                                    .postscale = 1,
                                    .priority = (int16_t)info->priority,
                                    .wire = (uint8_t)info->wire,
                                    .collective = (uint8_t)info->collective };
    size_t elements = 0;

    enum halay_status status = check_any(info, why);
    if (status != HALAY_OK)
        return status;
    if (halay_collective_is_empty((int)info->collective)) {
        made.wire = 0;
        made.payload_count = info->collective == HALAY_CHANGE_SETS ? (uint16_t)info->shape[0] : 0;
    } else if (info->members && !halay_collective_is_point((int)info->collective)) {
        status = make_group(info, &made, &elements, why);
    } else {
        status = make_tensor(info, size, &made, &elements, why);
        if (halay_collective_is_point((int)info->collective))
            made.payload_count = HALAY_POINT_PAYLOAD;
    }
    if (status == HALAY_OK) {
        *signature = made;
        *count = elements;
    }
    return status;
}
