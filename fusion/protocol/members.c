/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: pure functions between descriptions, payloads and buffers.
 */
#include "fusion/protocol/members.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "collectives/reduce/scale.h"
#include "halay_tools.h"
#include <stdio.h>
#include <string.h>

const char halay_type_fault[] = "the reduction does not support the type";

/* Returns a member. A program built against a later version has larger ones; members of the struct that this version
 * does not have are zero. */
const struct halay_member *halay_members_at(const struct halay_tensor_info *info, size_t i)
{
    return (const struct halay_member *)((const char *)info->members + i * info->member_bytes);
}

static const char *size_fault(const struct halay_tensor_info *info)
{
    const char *at = (const char *)info->members;

    if (info->member_bytes < sizeof(struct halay_member) || info->member_bytes > HALAY_STRUCT_MAX ||
        info->member_bytes % sizeof(size_t))
        return "member_bytes is not sizeof(struct halay_member)";
    for (size_t i = 0; i < info->member_count; i++, at += info->member_bytes)
        for (size_t k = sizeof(struct halay_member); k < info->member_bytes; k++)
            if (at[k])
                return "a member has a field set that this version of the library does not support";
    return NULL;
}

static uint64_t head_of(enum halay_dtype dtype, int dimensions)
{
    return (uint64_t)dtype | (uint64_t)dimensions << 8;
}

static int dimensions_of(uint64_t head)
{
    return (int)(head >> 8);
}

static void shape_of(const struct halay_member *m, uint64_t shape[HALAY_DIMENSIONS_MAX])
{
    for (int d = 0; d < m->dimensions; d++)
        shape[d] = m->shape[d];
}

/* Returns the elements of a member; sets *fits to 0 if their bytes exceed memory. */
static size_t count_of(const struct halay_member *m, int *fits)
{
    uint64_t shape[HALAY_DIMENSIONS_MAX];

    shape_of(m, shape);
    return halay_shape_count(shape, m->dimensions, halay_dtype_size(m->dtype), fits);
}

/* Returns the fault of a type under the parameters that a group's members share; NULL: no fault. */
static const char *type_fault(int reduction, double prescale, double postscale, int wire, enum halay_dtype dtype)
{
    if (!halay_reduction_takes((enum halay_reduction)reduction, dtype))
        return halay_type_fault;
    if ((prescale != 1 || postscale != 1) && !halay_scale_takes(dtype))
        return "a member: bool has no scale factor";
    if (wire && dtype != HALAY_F32)
        return "a member: only f32 is compressed";
    return NULL;
}

static const char *buffer_fault(const struct halay_member *m, size_t count)
{
    size_t element = halay_dtype_size(m->dtype), bytes = count * element;
    uintptr_t in = (uintptr_t)(m->in ? m->in : m->out), out = (uintptr_t)m->out;

    if (!count)
        return NULL;
    if (!out)
        return "a member: out is NULL";
    if (in % element || out % element)
        return "a member: in or out is not aligned to its element";
    return in != out && in < out + bytes && out < in + bytes ? "a member: in and out overlap and are not the same"
                                                             : NULL;
}

static const char *member_fault(const struct halay_tensor_info *info, const struct halay_member *m, size_t *bytes)
{
    double prescale = halay_scale_factor(info->prescale), postscale = halay_scale_factor(info->postscale);
    int fits;

    if (!halay_dtype_size(m->dtype))
        return "a member: unknown type";
    if (m->dimensions < 0 || m->dimensions > HALAY_DIMENSIONS_MAX)
        return "a member: dimensions must be 0 to 8";
    size_t count = count_of(m, &fits);
    if (!fits || halay_add_overflows(*bytes, count * halay_dtype_size(m->dtype), bytes) || *bytes > PTRDIFF_MAX)
        return "the members exceed the memory of a process";
    const char *why = type_fault((int)info->reduction, prescale, postscale, (int)info->wire, m->dtype);
    return why ? why : buffer_fault(m, count);
}

const char *halay_members_fault(const struct halay_tensor_info *info, size_t *payload_count, size_t *bytes)
{
    *payload_count = *bytes = 0;
    if (info->collective != HALAY_ALLREDUCE || !info->member_count)
        return "a group must be an all-reduce of one or more members";
    const char *why = size_fault(info);
    for (size_t i = 0; i < info->member_count && !why; i++) {
        why = member_fault(info, halay_members_at(info, i), bytes);
        if (why)
            break;
        *payload_count += 1 + (size_t)halay_members_at(info, i)->dimensions;
        if (*payload_count > HALAY_PAYLOAD_MAX)
            return "the members and their dimensions must be 8000 at most together";
    }
    return why;
}

void halay_members_write_payload(const struct halay_tensor_info *info, uint64_t *payload)
{
    for (size_t i = 0; i < info->member_count; i++) {
        const struct halay_member *m = halay_members_at(info, i);
        *payload++ = head_of(m->dtype, m->dimensions);
        for (int d = 0; d < m->dimensions; d++)
            *payload++ = m->shape[d];
    }
}

void halay_members_buffers(const struct halay_tensor_info *info, struct halay_buffers *buffers)
{
    int fits;

    for (size_t i = 0; i < info->member_count; i++) {
        const struct halay_member *m = halay_members_at(info, i);
        buffers[i] = (struct halay_buffers){ m->in ? m->in : m->out, m->out, count_of(m, &fits), m->dtype };
    }
}

static struct halay_member read_member(const uint64_t *payload)
{
    struct halay_member m = { .dtype = (enum halay_dtype)(payload[0] & 0xff), .dimensions = dimensions_of(payload[0]) };

    for (int d = 0; d < m.dimensions; d++)
        m.shape[d] = (size_t)payload[1 + d];
    return m;
}

size_t halay_members_words(const uint64_t *payload)
{
    return 1 + (size_t)dimensions_of(payload[0]);
}

void halay_members_read(const uint64_t *payload, size_t members, struct halay_buffers *buffers)
{
    int fits;

    for (size_t i = 0; i < members; i++) {
        struct halay_member m = read_member(payload);
        buffers[i] = (struct halay_buffers){ NULL, NULL, count_of(&m, &fits), m.dtype };
        payload += halay_members_words(payload);
    }
}

int halay_members_are_valid(const struct halay_signature *s, const void *payload, size_t count)
{
    uint64_t w[1 + HALAY_DIMENSIONS_MAX];
    size_t at = 0, members = 0;
    int fits;

    for (; at < count; members++) {
        memcpy(w, (const char *)payload + at * sizeof *w, sizeof *w);
        if ((w[0] & 0xff) >= HALAY_DTYPE_COUNT || w[0] >> 8 > HALAY_DIMENSIONS_MAX || count - at <= w[0] >> 8)
            return 0;
        memcpy(w, (const char *)payload + at * sizeof *w, (1 + (size_t)(w[0] >> 8)) * sizeof *w);
        struct halay_member m = read_member(w);
        count_of(&m, &fits);
        if (!fits || type_fault(s->reduction, s->prescale, s->postscale, (int)s->wire, m.dtype))
            return 0;
        at += 1 + (size_t)m.dimensions;
    }
    return members == s->members;
}

static void print_member(const struct halay_member *m, char *text, size_t size)
{
    uint64_t shape[HALAY_DIMENSIONS_MAX];
    size_t used = (size_t)snprintf(text, size, "%s ", halay_dtype_name(m->dtype));

    shape_of(m, shape);
    if (used < size)
        halay_shape_print(shape, m->dimensions, 0, text + used, size - used);
}

int halay_members_difference(const uint64_t *a, const uint64_t *b, size_t members, char *a_text, char *b_text,
                             size_t size)
{
    for (size_t i = 0; i < members; i++) {
        struct halay_member x = read_member(a), y = read_member(b);
        size_t words = 1 + (size_t)x.dimensions;
        if (x.dimensions != y.dimensions || memcmp(a, b, words * sizeof *a)) {
            size_t used = (size_t)snprintf(a_text, size, "member %zu ", i);
            print_member(&x, a_text + used, size - used);
            print_member(&y, b_text, size);
            return 1;
        }
        a += words;
        b += words;
    }
    return 0;
}
