/* SPDX-License-Identifier: Apache-2.0
 *
 * Describe: checks a program's description of a tensor before any of it is kept, and makes a tensor of it.
 */
#include "fusion/api/describe.h"
#include "base/struct_size.h"
#include "fusion/protocol/members.h"
#include "fusion/protocol/signature.h"
#include "fusion/requests/names.h"
#include "fusion/requests/path.h"
#include "halay_tools.h"
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns how many bytes of UTF-8 follow this first byte; -1 if it cannot be a first byte. */
static int bytes_behind(unsigned char c)
{
    if (c < 0x80)
        return 0;
    if (c >= 0xc2 && c < 0xe0)
        return 1;
    if ((c & 0xf0) == 0xe0)
        return 2;
    return c >= 0xf0 && c < 0xf5 ? 3 : -1;
}

/* Narrows the range of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF. */
static void bound_second(unsigned char c, unsigned char *least, unsigned char *most)
{
    if (c == 0xe0)
        *least = 0xa0;
    else if (c == 0xf0)
        *least = 0x90;
    else if (c == 0xed)
        *most = 0x9f;
    else if (c == 0xf4)
        *most = 0x8f;
}

/* Returns nonzero for well-formed UTF-8 without control characters, as names are written to log lines. */
static int is_name(const char *name, size_t *length)
{
    const unsigned char *p = (const unsigned char *)name;
    size_t n = name ? strnlen(name, HALAY_NAME_MAX + 1) : 0;

    if (!n || n > HALAY_NAME_MAX)
        return 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = p[i++];
        if (c >= 0x20 && c < 0x7f)
            continue;
        int more = bytes_behind(c);
        unsigned char least = 0x80, most = 0xbf;
        bound_second(c, &least, &most);
        if (more <= 0)
            return 0;
        for (; more; more--, i++, least = 0x80, most = 0xbf)
            if (i >= n || p[i] < least || p[i] > most)
                return 0;
    }
    *length = n;
    return 1;
}

/* Returns the rows of this rank's block of a reduce-scatter, or of a scatter at its root. */
static size_t scattered_rows(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t *first)
{
    if (!info->splits)
        return halay_scatter_rows(info->shape[0], set->size, set->rank, first);
    *first = 0;
    for (int r = 0; r < set->rank; r++)
        *first += info->splits[r];
    return info->splits[set->rank];
}

/* Returns how many bytes at out this rank's result may use. */
static size_t room_at_out(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes)
{
    size_t first = 0;

    if (info->members || !info->out)
        return 0;
    if (halay_collective_is_ragged((int)info->collective))
        return info->out_bytes;
    if (info->collective != HALAY_REDUCE_SCATTER || !bytes)
        return bytes;
    return scattered_rows(set, info, &first) * (bytes / info->shape[0]);
}

static int may_be_in_place(const struct halay_tensor_info *info)
{
    return info->collective == HALAY_ALLREDUCE || info->collective == HALAY_REDUCE;
}

/* Returns nonzero if in and out overlap as the operation permits in place. */
static int is_in_place(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes)
{
    const char *in = info->in, *out = info->out;
    size_t first = 0;

    if (info->collective == HALAY_BROADCAST || (may_be_in_place(info) && (!info->in || info->in == info->out)))
        return 1;
    /* The place of this rank's rows in out is known once all ranks have announced theirs. */
    if (info->collective == HALAY_ALLGATHER || info->collective == HALAY_GATHER)
        return out && in >= out && (size_t)(in - out) <= info->out_bytes &&
               bytes <= info->out_bytes - (size_t)(in - out);
    if ((info->collective != HALAY_REDUCE_SCATTER && info->collective != HALAY_SCATTER) || !bytes)
        return 0;
    scattered_rows(set, info, &first);
    return out == in + first * (bytes / info->shape[0]);
}

/* Returns nonzero if the blocks, which halay_signature_make has accepted, do not add up to the rows. Writes the
 * text. */
static int has_other_rows(const struct halay_process_set *set, const struct halay_tensor_info *info, char *text,
                          size_t size)
{
    size_t sum = 0;

    if ((info->collective != HALAY_REDUCE_SCATTER && info->collective != HALAY_SCATTER) || !info->splits)
        return 0;
    for (int r = 0; r < set->size; r++)
        sum += info->splits[r];
    snprintf(text, size, "the splits of rank %d have %zu rows together, its first dimension is %zu", set->ctx->rank,
             sum, info->shape[0]);
    return sum != info->shape[0];
}

/* Returns a fault that only this rank's collective would notice, after the ranks have agreed to run it. NULL: no
 * fault. */
static const char *buffer_fault(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t count)
{
    size_t element = halay_dtype_size(info->dtype), bytes = count * element, room;
    uintptr_t in = (uintptr_t)info->in, out = (uintptr_t)info->out;

    if (halay_collective_is_empty((int)info->collective) || info->members)
        return NULL; /* members have been checked one by one */
    if (info->collective == HALAY_REDUCE && bytes && !out && info->root == set->ctx->rank)
        return "out is NULL";
    room = room_at_out(set, info, bytes);
    if (room && out % element)
        return "out is not aligned to its element";
    if (is_in_place(set, info, bytes))
        return NULL;
    if (bytes && in % element)
        return "in is not aligned to its element";
    if (!out || !bytes || !room || in >= out + room || out >= in + bytes)
        return NULL;
    return may_be_in_place(info) ? "in and out overlap and are not the same" : "in and out overlap";
}

/* Converts a program's description, of any version, to this version's. */
enum halay_status halay_info_read(struct halay_context *ctx, const struct halay_tensor_info *info,
                                  struct halay_tensor_info *known)
{
    enum { FIRST_VERSION = offsetof(struct halay_tensor_info, prescale) };

    if (!info) {
        halay_error(ctx->log, "tensor: no description of it");
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status =
        halay_struct_read(ctx->log, "halay_tensor_info", info, FIRST_VERSION, sizeof *known, known);
    if (status == HALAY_OK && (unsigned)known->collective >= HALAY_COLLECTIVE_COUNT) {
        halay_error(ctx->log, "tensor: %d is not a collective", (int)known->collective);
        return HALAY_ERR_ARGUMENT;
    }
    if (status == HALAY_OK && known->collective == HALAY_JOIN)
        *known = (struct halay_tensor_info){ .struct_size = sizeof *known,
                                             .name = HALAY_JOIN_NAME,
                                             .collective = HALAY_JOIN };
    return status;
}

static struct halay_process_set *set_of(struct halay_context *ctx, const struct halay_tensor_info *info)
{
    return info->set ? info->set : &ctx->all;
}

enum { FAULT_MAX = 120 };

/* Returns why a rank is invalid as a root or peer; NULL: it is valid. */
static const char *rank_fault(const struct halay_process_set *set, const char *what, int rank, char *text)
{
    int size = set->ctx->size;

    if (rank < 0 || rank >= size)
        snprintf(text, FAULT_MAX, "%s %d is not a rank: the job has %d, from 0 on", what, rank, size);
    else if (halay_process_set_rank_of(set, rank) < 0)
        snprintf(text, FAULT_MAX, "%s %d is not a member of its process set", what, rank);
    else
        return NULL;
    return text;
}

static const char *peer_fault(const struct halay_context *ctx, const struct halay_process_set *set,
                              const struct halay_tensor_info *info, char *text)
{
    if (info->peer == ctx->rank)
        return "peer is this rank itself";
    if (info->peer != HALAY_ANY_RANK)
        return rank_fault(set, "peer", info->peer, text);
    if (info->collective == HALAY_SEND)
        return "a send is to one rank";
    return set->size > 1 ? NULL : "its process set has only this rank";
}

/* Returns why the operation is not possible in this process set; NULL: it is. text: room for a printed reason. */
static const char *set_fault(const struct halay_context *ctx, const struct halay_process_set *set,
                             const struct halay_tensor_info *info, char *text)
{
    if (set->ctx != ctx)
        return "its process set is of another context";
    if (set->rank < 0)
        return "this rank is not a member of its process set";
    if (set->number && info->collective >= HALAY_JOIN)
        return "all ranks do this, no process set by itself";
    if (halay_collective_has_root((int)info->collective))
        return rank_fault(set, "root", info->root, text);
    return halay_collective_is_point((int)info->collective) ? peer_fault(ctx, set, info, text) : NULL;
}

void halay_info_say_fault(struct halay_context *ctx, const struct halay_process_set *set, const char *name,
                          const char *why)
{
    char text[200];

    if (!set->number) {
        halay_error(ctx->log, "tensor '%s': %s", name, why);
        return;
    }
    halay_process_set_print_ranks(set, text, sizeof text);
    halay_error(ctx->log, "tensor '%s' of process set %d %s: %s", name, set->number, text, why);
}

/* Writes the fault "the reduction does not support the type", with both, and with the member if it is a member's. */
static void say_type_fault(const struct halay_tensor_info *info, char *text, size_t size)
{
    enum halay_dtype dtype = info->dtype;
    char member[40] = "";

    for (size_t i = 0; i < info->member_count; i++) {
        dtype = halay_members_at(info, i)->dtype;
        if (!halay_reduction_takes(info->reduction, dtype)) {
            snprintf(member, sizeof member, "member %zu: ", i);
            break;
        }
    }
    snprintf(text, size, "%sthe reduction %s does not support the type %s", member,
             halay_reduction_name(info->reduction), halay_dtype_name(dtype));
}

/* Checks a description, and logs the fault. *count: elements, for a group bytes; *length: of the name. */
static enum halay_status check_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_signature *signature, size_t *count, size_t *length)
{
    const struct halay_process_set *set = set_of(ctx, info);
    const char *why = "";
    char text[FAULT_MAX];

    if (!is_name(info->name, length)) {
        halay_error(ctx->log, "tensor: the name must be 1 to %d bytes of UTF-8", HALAY_NAME_MAX);
        return HALAY_ERR_ARGUMENT;
    }
    if ((why = set_fault(ctx, set, info, text))) {
        halay_info_say_fault(ctx, set, info->name, why);
        return HALAY_ERR_ARGUMENT;
    }
    if (info->timeout_ms < 0) {
        halay_info_say_fault(ctx, set, info->name, "timeout_ms is negative: 0 means no time limit");
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status = halay_signature_make(info, set->size, signature, count, &why);
    if (status == HALAY_OK && has_other_rows(set, info, text, sizeof text)) {
        why = text;
        status = HALAY_ERR_ARGUMENT;
    }
    if (status == HALAY_OK && info->collective == HALAY_ALLREDUCE && info->reduction == HALAY_ADASUM &&
        ctx->world->config.deterministic == HALAY_DETERMINISTIC_RANKS) {
        why = "adasum is not possible under HALAY_DETERMINISTIC=ranks: its bits depend on what is fused";
        status = HALAY_ERR_UNSUPPORTED;
    }
    if (why == halay_type_fault) {
        say_type_fault(info, text, sizeof text);
        why = text;
    }
    if (status == HALAY_OK && (why = buffer_fault(set, info, *count)))
        status = HALAY_ERR_ARGUMENT;
    if (status != HALAY_OK)
        halay_info_say_fault(ctx, set, info->name, why);
    return status;
}

/* ---- the tensor of a description ---- */

/* Gives a collective without a name the prefix of a name, and room for the rest; a barrier always has the same. */
static void name_unnamed(struct halay_naming *naming)
{
    int collective = (int)naming->info->collective;

    naming->own = *naming->info;
    naming->own.name = "barrier";
    naming->info = &naming->own;
    if (collective == HALAY_BARRIER)
        return;
    halay_unnamed_print(collective, naming->name);
    naming->own.name = naming->unnamed = naming->name;
}

/* Removes the root's fields on other ranks, and sets the in of a reduce in place. */
static void trim_info(const struct halay_context *ctx, struct halay_naming *naming)
{
    enum halay_collective collective = naming->info->collective;

    if (!halay_collective_has_root((int)collective))
        return;
    naming->own = *naming->info;
    naming->info = &naming->own;
    if (collective == HALAY_REDUCE && !naming->own.in)
        naming->own.in = naming->own.out;
    if (naming->own.root == ctx->rank)
        return;
    if (collective == HALAY_SCATTER) {
        naming->own.in = naming->own.splits = NULL;
        naming->own.shape[0] = 0;
    }
    if (collective == HALAY_REDUCE || collective == HALAY_GATHER)
        naming->own.out = NULL;
}

/* Sets what follows from a checked description and its signature. count: as of check_info. */
static void describe_data(const struct halay_tensor_info *info, size_t count, struct halay_tensor *tensor)
{
    int is_in_out = info->collective == HALAY_BROADCAST || (info->collective == HALAY_ALLREDUCE && !info->in);
    int is_in_bytes = info->members || halay_collective_is_empty((int)info->collective);

    tensor->count = count;
    tensor->bytes = is_in_bytes ? count : count * halay_dtype_size(info->dtype);
    tensor->payload.count = halay_signature_sent_count(&tensor->signature, tensor->set->size);
    tensor->in = is_in_out ? info->out : info->in;
    tensor->out = info->out;
    tensor->out_bytes = room_at_out(tensor->set, info, tensor->bytes);
    tensor->timeout_ms = info->timeout_ms;
    tensor->placing =
        (struct halay_placing){ .memory = info->memory, .stream = info->after_stream, .event = info->after_event };
}

enum halay_status halay_describe(struct halay_context *ctx, const struct halay_tensor_info *info, int may_lack_name,
                                 struct halay_naming *naming, struct halay_tensor *tensor)
{
    enum halay_status status = HALAY_OK;
    size_t count;

    *tensor = (struct halay_tensor){ .ctx = ctx, .set = set_of(ctx, info), .naming = naming };
    naming->info = info;
    naming->names = tensor->set;
    naming->unnamed = NULL;
    for (struct halay_path *path = ctx->paths; path && status == HALAY_OK; path = path->next)
        status = path->ops->name(path, info, naming);
    if (status != HALAY_OK)
        return status;
    if (may_lack_name && !naming->info->name)
        name_unnamed(naming);
    trim_info(ctx, naming);
    status = check_info(ctx, naming->info, &tensor->signature, &count, &naming->length);
    if (status != HALAY_OK)
        return status;
    tensor->name = naming->info->name;
    naming->hash = halay_table_hash(naming->info->name, naming->length);
    describe_data(naming->info, count, tensor);
    return HALAY_OK;
}

void halay_tensor_write(const struct halay_tensor *tensor, uint64_t *payload, struct halay_buffers *buffers)
{
    halay_signature_write_payload(tensor->naming->info, tensor->set->size, payload);
    if (tensor->signature.members)
        halay_members_buffers(tensor->naming->info, buffers);
}

const char *halay_set_refusal_locked(const struct halay_process_set *set)
{
    if (set->state == HALAY_SET_REMOVED)
        return "its process set has been removed";
    if (set->state == HALAY_SET_CLOSING)
        return "its process set is being removed";
    return set->ctx->queue.is_joined ? "this rank has joined, and the others have not yet" : NULL;
}
