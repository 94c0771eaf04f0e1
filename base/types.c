/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses, element types and reductions: their names, sizes and what goes with what. Tables only.
 */
#include "halay_types.h"
#include <string.h>

static const char *const status_texts[] = {
    [HALAY_OK] = "success",
    [HALAY_IN_PROGRESS] = "in progress",
    [HALAY_ERR_ARGUMENT] = "invalid argument",
    [HALAY_ERR_NO_MEMORY] = "out of memory",
    [HALAY_ERR_SYSTEM] = "system call or library failed",
    [HALAY_ERR_UNSUPPORTED] = "not supported",
    [HALAY_ERR_CONFIG] = "invalid configuration",
    [HALAY_ERR_MISMATCH] = "ranks disagree",
    [HALAY_ERR_DUPLICATE] = "name already in use",
    [HALAY_ERR_PEER] = "peer lost",
    [HALAY_ERR_TIMEOUT] = "timed out",
    [HALAY_ERR_CLOSED] = "closed",
    [HALAY_ERR_CANCELED] = "canceled",
    [HALAY_ERR_AUTH] = "authentication failed",
    [HALAY_ERR_VERSION] = "protocol version differs",
    [HALAY_ERR_FORMAT] = "malformed data",
};

static const struct {
    const char *name;
    size_t size;
    int floating;
} dtypes[HALAY_DTYPE_COUNT] = {
    [HALAY_F32] = { "f32", 4, 1 },   [HALAY_F64] = { "f64", 8, 1 },   [HALAY_F16] = { "f16", 2, 1 },
    [HALAY_BF16] = { "bf16", 2, 1 }, [HALAY_I32] = { "i32", 4, 0 },   [HALAY_I64] = { "i64", 8, 0 },
    [HALAY_U8] = { "u8", 1, 0 },     [HALAY_I8] = { "i8", 1, 0 },     [HALAY_U16] = { "u16", 2, 0 },
    [HALAY_I16] = { "i16", 2, 0 },   [HALAY_BOOL] = { "bool", 1, 0 },
};

enum { FLOATING = 1, OTHER = 2 };

static const struct {
    const char *name;
    int takes; /* FLOATING, OTHER types, or both */
} ops[HALAY_REDUCTION_COUNT] = {
    [HALAY_SUM] = { "sum", FLOATING | OTHER },
    [HALAY_AVERAGE] = { "average", FLOATING },
    [HALAY_MIN] = { "min", FLOATING | OTHER },
    [HALAY_MAX] = { "max", FLOATING | OTHER },
    [HALAY_PRODUCT] = { "product", FLOATING | OTHER },
    [HALAY_BIT_AND] = { "bit-and", OTHER },
    [HALAY_BIT_OR] = { "bit-or", OTHER },
    [HALAY_ADASUM] = { "adasum", FLOATING },
};

static int is_dtype(enum halay_dtype dtype)
{
    return (unsigned)dtype < HALAY_DTYPE_COUNT;
}

const char *halay_status_string(enum halay_status status)
{
    return (unsigned)status < sizeof status_texts / sizeof *status_texts ? status_texts[status] : "unknown status";
}

size_t halay_dtype_size(enum halay_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

const char *halay_dtype_name(enum halay_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

enum halay_status halay_dtype_parse(const char *name, enum halay_dtype *dtype)
{
    for (int d = 0; d < HALAY_DTYPE_COUNT; d++)
        if (!strcmp(name, dtypes[d].name)) {
            *dtype = (enum halay_dtype)d;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

const char *halay_reduction_name(enum halay_reduction op)
{
    return (unsigned)op < HALAY_REDUCTION_COUNT ? ops[op].name : "?";
}

enum halay_status halay_reduction_parse(const char *name, enum halay_reduction *op)
{
    for (int o = 0; o < HALAY_REDUCTION_COUNT; o++)
        if (!strcmp(name, ops[o].name)) {
            *op = (enum halay_reduction)o;
            return HALAY_OK;
        }
    return HALAY_ERR_ARGUMENT;
}

int halay_reduction_takes(enum halay_reduction op, enum halay_dtype dtype)
{
    return (unsigned)op < HALAY_REDUCTION_COUNT && is_dtype(dtype) &&
           ops[op].takes & (dtypes[dtype].floating ? FLOATING : OTHER);
}

const char *halay_version(void)
{
    return HALAY_VERSION;
}
