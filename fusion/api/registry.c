/* SPDX-License-Identifier: Apache-2.0
 *
 * Registry: names, registered tensors, and submission.
 *
 * Everything here runs on the program's threads. A submission takes the lock once: it finds or makes the name's entry,
 * marks it as in flight and queues an event for the driver, in order. Nothing is sent here.
 *
 * On rank 0 the deterministic modes put registered tensors into static buckets, in order of registration: neighbours of
 * one kind up to the threshold. The first submission of a member seals its bucket; what is registered later opens
 * another.
 */
#include "base/memory.h"
#include "base/struct_size.h"
#include "fusion/engine.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum halay_status halay_events_push(struct halay_context *ctx, const struct halay_event *event)
{
    struct halay_events *q = &ctx->submitted;

    if (q->count == q->capacity) {
        size_t capacity = q->capacity ? q->capacity * 2 : 256;
        struct halay_event *grown = realloc(q->events, capacity * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        q->events = grown;
        q->capacity = capacity;
    }
    q->events[q->count++] = *event;
    /* Relaxed: the driver takes the lock to read the events; this only says that it is worth it. */
    atomic_store_explicit(&ctx->has_events, 1, memory_order_relaxed);
    return HALAY_OK;
}

/* ---- names ---- */

/* Well-formed UTF-8 without control characters: names go into log lines. */
static int is_name(const char *name, size_t *length)
{
    const unsigned char *p = (const unsigned char *)name;
    size_t n = name ? strnlen(name, HALAY_NAME_MAX + 1) : 0;

    if (!n || n > HALAY_NAME_MAX)
        return 0;
    for (size_t i = 0; i < n;) {
        unsigned char c = p[i++];
        int more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : (c & 0xf0) == 0xe0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : -1;
        unsigned char least = c == 0xe0   ? 0xa0
                              : c == 0xf0 ? 0x90
                                          : 0x80,
                      most = c == 0xed   ? 0x9f
                             : c == 0xf4 ? 0x8f
                                         : 0xbf;
        if (more < 0 || c < 0x20 || c == 0x7f)
            return 0;
        for (; more; more--, i++, least = 0x80, most = 0xbf)
            if (i >= n || p[i] < least || p[i] > most)
                return 0;
    }
    *length = n;
    return 1;
}

struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash)
{
    struct halay_entry *entry = (struct halay_entry *)halay_table_find(&set->names, name, length, hash);

    if (entry)
        return entry;
    entry = calloc(1, sizeof *entry + length + 1);
    if (!entry)
        return NULL;
    memcpy(entry + 1, name, length);
    entry->node = (struct halay_table_node){ .name = (char *)(entry + 1), .length = length, .hash = hash };
    entry->set = set;
    entry->id = (uint32_t)HALAY_NO_ID;
    if (halay_table_add(&set->names, &entry->node) != HALAY_OK) {
        free(entry);
        return NULL;
    }
    return entry;
}

static void entry_free(struct halay_entry *entry)
{
    halay_words_fini(&entry->said);
    halay_words_fini(&entry->heard);
    free(entry);
}

void halay_entry_release_locked(struct halay_entry *entry)
{
    struct halay_context *ctx = entry->set->ctx;

    if (entry->tensor || entry->request || entry->id != (uint32_t)HALAY_NO_ID)
        return;
    if (ctx->latest == entry)
        ctx->latest = NULL;
    halay_table_remove(&entry->set->names, &entry->node);
    entry_free(entry);
}

/* This rank's part of a reduce-scatter. */
static size_t scattered_rows(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t *first)
{
    if (!info->splits)
        return halay_scatter_rows(info->shape[0], set->size, set->rank, first);
    *first = 0;
    for (int r = 0; r < set->rank; r++)
        *first += info->splits[r];
    return info->splits[set->rank];
}

/* Bytes at out that this rank's result may take. */
static size_t room_at_out(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes)
{
    size_t first;

    if (info->members)
        return 0;
    if (info->operation == HALAY_ALLGATHER || info->operation == HALAY_ALLTOALL)
        return info->out_bytes;
    if (info->operation != HALAY_REDUCE_SCATTER || !bytes)
        return bytes;
    return scattered_rows(set, info, &first) * (bytes / info->shape[0]);
}

/* In place as its operation knows it. */
static int is_in_place(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t bytes)
{
    const char *in = info->in, *out = info->out;
    size_t first;

    if (info->operation == HALAY_BROADCAST ||
        (info->operation == HALAY_ALLREDUCE && (!info->in || info->in == info->out)))
        return 1;
    if (info->operation == HALAY_ALLGATHER) /* where its rows go in out is known when all have said theirs */
        return out && in >= out && (size_t)(in - out) <= info->out_bytes &&
               bytes <= info->out_bytes - (size_t)(in - out);
    if (info->operation != HALAY_REDUCE_SCATTER || !bytes)
        return 0;
    scattered_rows(set, info, &first);
    return out == in + first * (bytes / info->shape[0]);
}

/* What a collective would refuse on this rank alone, after the ranks have agreed to run it. NULL: nothing. */
static const char *buffer_fault(const struct halay_process_set *set, const struct halay_tensor_info *info, size_t count)
{
    size_t element = halay_dtype_size(info->dtype), bytes = count * element, room;
    uintptr_t in = (uintptr_t)info->in, out = (uintptr_t)info->out;

    if (info->operation >= HALAY_BARRIER || info->members)
        return NULL; /* members were looked at one by one */
    room = room_at_out(set, info, bytes);
    if (room && out % element)
        return "out is not aligned to its element";
    if (is_in_place(set, info, bytes))
        return NULL;
    if (bytes && in % element)
        return "in is not aligned to its element";
    if (!out || !bytes || !room || in >= out + room || out >= in + bytes)
        return NULL;
    return info->operation == HALAY_ALLREDUCE ? "in and out overlap and are not the same" : "in and out overlap";
}

/* A program's description, of whichever version, as this version's. */
static enum halay_status read_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                   struct halay_tensor_info *known)
{
    enum { FIRST_VERSION = offsetof(struct halay_tensor_info, prescale) };

    if (info)
        return halay_struct_read(ctx->log, "halay_tensor_info", info, FIRST_VERSION, sizeof *known, known);
    halay_error(ctx->log, "tensor: no description of it");
    return HALAY_ERR_ARGUMENT;
}

/* The process set that the caller means. */
static struct halay_process_set *set_of(struct halay_context *ctx, const struct halay_tensor_info *info)
{
    return info->set ? info->set : &ctx->all;
}

/* What is wrong with doing this in this process set. */
static const char *set_fault(const struct halay_context *ctx, const struct halay_process_set *set,
                             const struct halay_tensor_info *info)
{
    if (set->ctx != ctx)
        return "its process set is of another context";
    if (set->rank < 0)
        return "this rank is no member of its process set";
    if (set->number && info->operation >= HALAY_JOIN)
        return "all ranks do this, no process set by itself";
    if (info->operation == HALAY_BROADCAST && (info->root < 0 || info->root >= ctx->size))
        return "root is no rank";
    if (info->operation == HALAY_BROADCAST && halay_process_set_rank_of(set, info->root) < 0)
        return "root is no member of its process set";
    return NULL;
}

static void say_fault(struct halay_context *ctx, const struct halay_process_set *set, const char *name, const char *why)
{
    char text[200];

    if (!set->number) {
        halay_error(ctx->log, "tensor '%s': %s", name, why);
        return;
    }
    halay_process_set_print_ranks(set, text, sizeof text);
    halay_error(ctx->log, "tensor '%s' of process set %d %s: %s", name, set->number, text, why);
}

/* Check what the caller describes; says what is wrong. */
static enum halay_status check_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    struct halay_signature *signature, size_t *count, size_t *length)
{
    const struct halay_process_set *set = set_of(ctx, info);
    const char *why = "";

    if (!is_name(info->name, length)) {
        halay_error(ctx->log, "tensor: the name must be 1 to %d bytes of UTF-8", HALAY_NAME_MAX);
        return HALAY_ERR_ARGUMENT;
    }
    if ((why = set_fault(ctx, set, info))) {
        say_fault(ctx, set, info->name, why);
        return HALAY_ERR_ARGUMENT;
    }
    enum halay_status status = halay_signature_make(info, set->size, signature, count, &why);
    if (status == HALAY_OK && info->operation == HALAY_ALLREDUCE && info->op == HALAY_ADASUM &&
        ctx->world->config.deterministic == HALAY_DETERMINISTIC_RANKS) {
        why = "adasum is not possible under HALAY_DETERMINISTIC=ranks: its bits depend on what is fused";
        status = HALAY_ERR_UNSUPPORTED;
    }
    if (status == HALAY_OK && (why = buffer_fault(set, info, *count)))
        status = HALAY_ERR_ARGUMENT;
    if (status != HALAY_OK)
        say_fault(ctx, set, info->name, why);
    return status;
}

/* ---- static buckets ---- */

static void static_bucket_free(struct halay_static_bucket *b)
{
    for (size_t i = 0; i < b->count; i++)
        free(b->names[i]);
    free(b->names);
    free(b->position);
    free(b);
}

void halay_static_bucket_remove_locked(struct halay_context *ctx, struct halay_static_bucket *bucket)
{
    struct halay_static_bucket **at = &ctx->static_first, *last = NULL;

    for (; *at && *at != bucket; at = &(*at)->next)
        last = *at;
    if (!*at)
        return;
    *at = bucket->next;
    if (ctx->static_last == bucket)
        ctx->static_last = last;
    static_bucket_free(bucket);
}

static enum halay_status static_bucket_reserve(struct halay_static_bucket *b)
{
    if (b->count < b->capacity)
        return HALAY_OK;
    size_t capacity = b->capacity ? b->capacity * 2 : 16;
    char **names = realloc(b->names, capacity * sizeof *names);
    if (!names)
        return HALAY_ERR_NO_MEMORY;
    b->names = names;
    b->capacity = capacity;
    return HALAY_OK;
}

static enum halay_status static_bucket_join_locked(struct halay_context *ctx, struct halay_tensor *tensor)
{
    uint64_t kind = halay_signature_kind(&tensor->signature);
    struct halay_static_bucket *b = ctx->static_last, *fresh = NULL;

    if (!halay_signature_fuses(&tensor->signature))
        return HALAY_OK;
    if (!b || b->is_sealed ||
        !halay_plan_joins(b->kind, b->bytes, b->count, kind, tensor->bytes, ctx->world->config.fusion_threshold)) {
        b = fresh = calloc(1, sizeof *fresh);
        if (!b)
            return HALAY_ERR_NO_MEMORY;
        b->kind = kind;
    }
    char *name = strdup(tensor->entry->node.name);
    if (!name || static_bucket_reserve(b) != HALAY_OK) {
        free(name);
        if (fresh)
            static_bucket_free(fresh);
        return HALAY_ERR_NO_MEMORY;
    }
    tensor->bucket = b;
    tensor->member = b->count;
    b->names[b->count++] = name;
    b->alive++;
    b->bytes += tensor->bytes;
    if (fresh) {
        *(ctx->static_last ? &ctx->static_last->next : &ctx->static_first) = fresh;
        ctx->static_last = fresh;
    }
    return HALAY_OK;
}

static enum halay_status static_bucket_leave_locked(struct halay_context *ctx, struct halay_tensor *tensor)
{
    struct halay_static_bucket *b = tensor->bucket;

    if (!b)
        return HALAY_OK;
    if (b->is_sealed) /* the coordinator knows it, or will before it hears of this */
        return halay_events_push(
            ctx, &(struct halay_event){ .kind = HALAY_EVENT_UNREGISTERED, .bucket = b, .member = tensor->member });
    free(b->names[tensor->member]);
    b->names[tensor->member] = NULL;
    b->bytes -= tensor->bytes;
    if (--b->alive == 0)
        halay_static_bucket_remove_locked(ctx, b);
    return HALAY_OK;
}

/* ---- registered tensors ---- */

/* count: as halay_signature_make gives it; of a group these are bytes. */
static size_t bytes_of(const struct halay_tensor_info *info, size_t count)
{
    return info->members || info->operation >= HALAY_BARRIER ? count : count * halay_dtype_size(info->dtype);
}

static const void *input_of(const struct halay_tensor_info *info)
{
    int is_out = info->operation == HALAY_BROADCAST || (info->operation == HALAY_ALLREDUCE && !info->in);

    return is_out ? info->out : info->in;
}

static enum halay_status tensor_describe(struct halay_context *ctx, const struct halay_tensor_info *info,
                                         const struct halay_signature *signature, size_t count,
                                         struct halay_tensor *tensor)
{
    const struct halay_process_set *set = set_of(ctx, info);
    size_t bytes = bytes_of(info, count);

    *tensor = (struct halay_tensor){ .ctx = ctx,
                                     .signature = *signature,
                                     .count = count,
                                     .bytes = bytes,
                                     .in = input_of(info),
                                     .out = info->out,
                                     .out_bytes = room_at_out(set, info, bytes) };
    if (halay_words_resize(&tensor->words, halay_signature_says(signature, set->size)) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    halay_signature_say(info, set->size, tensor->words.at);
    if (!info->members)
        return HALAY_OK;
    tensor->parts = calloc(info->member_count, sizeof *tensor->parts);
    if (!tensor->parts)
        return HALAY_ERR_NO_MEMORY;
    halay_members_parts(info, tensor->parts);
    return HALAY_OK;
}

static void tensor_free(struct halay_tensor *tensor)
{
    if (tensor) {
        halay_words_fini(&tensor->words);
        free(tensor->parts);
    }
    free(tensor);
}

/* Why nothing is taken for this set; NULL: something is. */
static const char *refusal_locked(const struct halay_process_set *set)
{
    if (set->state == HALAY_SET_REMOVED)
        return "its process set has been removed";
    if (set->state == HALAY_SET_CLOSING)
        return "its process set is being removed";
    return set->ctx->is_joined ? "this rank has joined, and the others have not yet" : NULL;
}

enum halay_status halay_register(struct halay_context *ctx, const struct halay_tensor_info *info,
                                 struct halay_tensor **out)
{
    struct halay_signature signature;
    struct halay_tensor_info known;
    size_t count, length;

    if (!ctx || !out)
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    enum halay_status status = read_info(ctx, info, &known);
    if (status != HALAY_OK)
        return status;
    info = &known;
    status = check_info(ctx, info, &signature, &count, &length);
    if (status != HALAY_OK)
        return status;
    struct halay_tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor || tensor_describe(ctx, info, &signature, count, tensor) != HALAY_OK) {
        tensor_free(tensor);
        return HALAY_ERR_NO_MEMORY;
    }
    const char *why = NULL;
    pthread_mutex_lock(&ctx->lock);
    status = HALAY_ERR_NO_MEMORY;
    struct halay_entry *entry =
        halay_entry_get_locked(set_of(ctx, info), info->name, length, halay_table_hash(info->name, length));
    if (!entry)
        goto err_unlock;
    status = HALAY_ERR_DUPLICATE;
    why = "a tensor of that name is registered";
    if (entry->tensor)
        goto err_unlock;
    status = HALAY_ERR_ARGUMENT;
    why = entry->set->state == HALAY_SET_OPEN ? NULL : refusal_locked(entry->set);
    if (why)
        goto err_release;
    tensor->entry = entry;
    tensor->order = ctx->registered + 1;
    if (ctx->rank == 0 && !entry->set->number && ctx->world->config.deterministic != HALAY_DETERMINISTIC_OFF) {
        status = static_bucket_join_locked(ctx, tensor);
        if (status != HALAY_OK)
            goto err_release;
    }
    entry->tensor = tensor;
    ctx->registered++;
    pthread_mutex_unlock(&ctx->lock);
    *out = tensor;
    return HALAY_OK;

err_release:
    halay_entry_release_locked(entry);
err_unlock:
    pthread_mutex_unlock(&ctx->lock);
    tensor_free(tensor);
    if (why)
        say_fault(ctx, set_of(ctx, info), info->name, why);
    return status;
}

enum halay_status halay_unregister(struct halay_tensor *tensor)
{
    enum halay_status status = HALAY_ERR_ARGUMENT;

    if (!tensor)
        return HALAY_OK;
    struct halay_context *ctx = tensor->ctx;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    pthread_mutex_lock(&ctx->lock);
    if (!tensor->entry->request)
        status = static_bucket_leave_locked(ctx, tensor);
    if (status == HALAY_OK) {
        tensor->entry->tensor = NULL;
        halay_entry_release_locked(tensor->entry);
    }
    pthread_mutex_unlock(&ctx->lock);
    if (status == HALAY_OK)
        tensor_free(tensor);
    return status;
}

/* ---- submission ---- */

/* What a submission is, from the handle or from the caller's description. */
struct submission {
    const struct halay_signature *signature;
    const struct halay_tensor_info *info; /* NULL: as the registered tensor says */
    size_t count, bytes;
    const void *in;
    void *out;
    size_t out_bytes;
    halay_callback callback;
    void *arg;
};

/* HALAY_OK if submissions are taken. */
static enum halay_status check_open_locked(const struct halay_context *ctx)
{
    if (ctx->status != HALAY_OK)
        return ctx->status;
    return ctx->is_closing ? HALAY_ERR_CLOSED : HALAY_OK;
}

/* What goes with the signature. */
static enum halay_status say(const struct halay_process_set *set, const struct halay_tensor *tensor,
                             const struct submission *s, struct halay_words *words)
{
    size_t says = halay_signature_says(s->signature, set->size);

    if (!s->info)
        return halay_words_set(words, tensor->words.at, says);
    if (halay_words_resize(words, says) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    halay_signature_say(s->info, set->size, words->at);
    return HALAY_OK;
}

/* A group's tensors. */
static enum halay_status take_parts(const struct halay_tensor *tensor, const struct submission *s,
                                    struct halay_request *request)
{
    size_t members = s->signature->members;

    if (members > request->part_capacity) {
        struct halay_part *grown = realloc(request->parts, members * sizeof *grown);
        if (!grown)
            return HALAY_ERR_NO_MEMORY;
        request->parts = grown;
        request->part_capacity = members;
    }
    if (members && s->info)
        halay_members_parts(s->info, request->parts);
    else if (members)
        memcpy(request->parts, tensor->parts, members * sizeof *tensor->parts);
    return HALAY_OK;
}

/* *why: the error, if there is a text for it. */
static enum halay_status submit_locked(struct halay_context *ctx, struct halay_entry *entry, const struct submission *s,
                                       struct halay_request **out, const char **why)
{
    int is_change = s->signature->operation == HALAY_CHANGE_SETS;

    *why = is_change ? "another call that makes or removes some is under way"
                     : "a tensor of that name is in flight already";
    if (entry->request)
        return HALAY_ERR_DUPLICATE;
    *why = entry->tensor && entry->tensor->is_stale
               ? "it was registered for other ranks: unregister it, and register it again"
               : NULL;
    if (*why)
        return HALAY_ERR_ARGUMENT;
    *why = refusal_locked(entry->set);
    if (*why)
        return is_change ? HALAY_ERR_UNSUPPORTED : HALAY_ERR_ARGUMENT; /* as the others get */
    struct halay_request *request = halay_request_get_locked(ctx);
    if (!request)
        return HALAY_ERR_NO_MEMORY;
    struct halay_tensor *tensor = entry->tensor;
    if (say(entry->set, tensor, s, &request->words) != HALAY_OK || take_parts(tensor, s, request) != HALAY_OK)
        goto err_put;
    request->set = entry->set;
    request->entry = entry;
    request->signature = *s->signature;
    request->count = s->count;
    request->bytes = s->bytes;
    request->in = s->in;
    request->out = s->out;
    request->out_bytes = s->out_bytes;
    request->callback = s->callback;
    request->arg = s->arg;
    request->order = tensor ? tensor->order : 0;
    request->bucket = tensor ? tensor->bucket : NULL;
    if (halay_events_push(ctx, &(struct halay_event){ .kind = HALAY_EVENT_SUBMITTED, .request = request }) != HALAY_OK)
        goto err_put;
    if (request->bucket)
        request->bucket->is_sealed = 1;
    atomic_store_explicit(&ctx->is_unwaited, 1, memory_order_relaxed);
    entry->request = request;
    ctx->is_joined = request->signature.operation == HALAY_JOIN;
    request->ordinal = ++entry->submissions;
    request->hash = entry->node.hash;
    if (halay_recording(&ctx->recorder))
        halay_record_submitted(ctx, request);
    atomic_fetch_add_explicit(&ctx->in_flight, 1, memory_order_relaxed);
    halay_count(&ctx->tally.submissions, 1);
    if (out)
        *out = request;
    else
        atomic_store_explicit(&request->references, 1, memory_order_relaxed);
    return HALAY_OK;

err_put:
    atomic_store_explicit(&request->references, 1, memory_order_relaxed);
    halay_request_put_locked(request);
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_submit(struct halay_tensor *tensor, halay_callback callback, void *arg,
                               struct halay_request **request)
{
    if (!tensor || (!callback && !request))
        return HALAY_ERR_ARGUMENT;
    struct halay_context *ctx = tensor->ctx;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    struct submission s = { &tensor->signature, NULL,       tensor->count,
                            tensor->bytes,      tensor->in, tensor->out,
                            tensor->out_bytes,  callback,   arg };
    const char *why = NULL;
    pthread_mutex_lock(&ctx->lock);
    enum halay_status status = check_open_locked(ctx);
    if (status == HALAY_OK)
        status = submit_locked(ctx, tensor->entry, &s, request, &why);
    if (status == HALAY_OK)
        halay_cycle_submitted_unlock(ctx, tensor->entry, callback ? HALAY_CALLS_BACK : HALAY_MAY_WAIT);
    else
        pthread_mutex_unlock(&ctx->lock);
    if (why)
        say_fault(ctx, tensor->entry->set, tensor->entry->node.name, why);
    return status;
}

enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, int wakes, struct halay_request **request)
{
    struct halay_signature signature;
    size_t count, length;
    const char *why = NULL;

    if (!ctx || (!callback && !request))
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    enum halay_status status = check_info(ctx, info, &signature, &count, &length);
    if (status != HALAY_OK)
        return status;
    uint64_t hash = halay_table_hash(info->name, length);
    size_t bytes = bytes_of(info, count), out_bytes = room_at_out(set_of(ctx, info), info, bytes);
    struct submission s = { &signature, info, count, bytes, input_of(info), info->out, out_bytes, callback, arg };

    pthread_mutex_lock(&ctx->lock);
    struct halay_entry *entry = NULL;
    status = check_open_locked(ctx);
    if (status == HALAY_OK && !(entry = halay_entry_get_locked(set_of(ctx, info), info->name, length, hash)))
        status = HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK && entry->tensor && !halay_signature_equal(&entry->tensor->signature, &signature)) {
        why = "it is registered with another operation, type, shape, reduction or root";
        status = HALAY_ERR_ARGUMENT;
    }
    if (status == HALAY_OK) {
        status = submit_locked(ctx, entry, &s, request, &why);
        if (status != HALAY_OK)
            halay_entry_release_locked(entry);
    }
    if (status == HALAY_OK)
        halay_cycle_submitted_unlock(ctx, entry,
                                     callback ? HALAY_CALLS_BACK
                                     : wakes  ? HALAY_MAY_WAIT
                                              : HALAY_WILL_WAIT);
    else
        pthread_mutex_unlock(&ctx->lock);
    if (why && info->operation == HALAY_CHANGE_SETS)
        halay_error(ctx->log, "process sets: %s", why);
    else if (why)
        say_fault(ctx, set_of(ctx, info), info->name, why);
    return status;
}

enum halay_status halay_submit_named(struct halay_context *ctx, const struct halay_tensor_info *info,
                                     halay_callback callback, void *arg, struct halay_request **request)
{
    struct halay_tensor_info known;

    if (!ctx)
        return HALAY_ERR_ARGUMENT;
    enum halay_status status = read_info(ctx, info, &known);
    return status == HALAY_OK ? halay_submit_info(ctx, &known, callback, arg, 1, request) : status;
}

/* ---- other ranks ---- */

/* Does what the caller said of it hold for other ranks? */
static int depends_on_ranks(const struct halay_context *ctx, const struct halay_tensor *tensor)
{
    const struct halay_signature *s = &tensor->signature;

    return s->operation == HALAY_REDUCE_SCATTER || s->operation == HALAY_ALLTOALL ||
           (s->operation == HALAY_BROADCAST && s->root >= ctx->size);
}

static int by_order(const void *a, const void *b)
{
    uint64_t left = (*(struct halay_tensor *const *)a)->order, right = (*(struct halay_tensor *const *)b)->order;

    return (left > right) - (left < right);
}

static void entry_renew(struct halay_context *ctx, struct halay_entry *entry)
{
    struct halay_tensor *tensor = entry->tensor;

    entry->id = (uint32_t)HALAY_NO_ID;
    entry->submissions = entry->tuned_step = 0;
    entry->agreed = (struct halay_signature){ 0 };
    entry->enrolment = (struct halay_enrolment){ 0 };
    halay_words_fini(&entry->said);
    halay_words_fini(&entry->heard);
    entry->followed = 0;
    tensor->bucket = NULL;
    tensor->is_stale |= depends_on_ranks(ctx, tensor);
}

/* Takes all names; puts those that are registered into tensors, in order of registration. Returns how many. */
static size_t take_registered(struct halay_context *ctx, struct halay_tensor **tensors)
{
    struct halay_table_node *node;
    size_t count = 0;

    while ((node = halay_table_take(&ctx->all.names))) {
        struct halay_entry *entry = (struct halay_entry *)node;
        if (entry->tensor)
            tensors[count++] = entry->tensor;
        else
            entry_free(entry);
    }
    qsort(tensors, count, sizeof *tensors, by_order);
    return count;
}

enum halay_status halay_registry_renew(struct halay_context *ctx)
{
    struct halay_tensor **tensors = calloc(ctx->registered + 1, sizeof *tensors);
    enum halay_status status = HALAY_OK;
    int has_buckets = ctx->rank == 0 && ctx->world->config.deterministic != HALAY_DETERMINISTIC_OFF;

    if (!tensors)
        return HALAY_ERR_NO_MEMORY;
    size_t count = take_registered(ctx, tensors);
    halay_registry_free_all(ctx);
    for (size_t i = 0; i < count; i++) {
        entry_renew(ctx, tensors[i]->entry);
        if (halay_table_add(&ctx->all.names, &tensors[i]->entry->node) != HALAY_OK ||
            (has_buckets && !tensors[i]->is_stale && static_bucket_join_locked(ctx, tensors[i]) != HALAY_OK))
            status = HALAY_ERR_NO_MEMORY;
    }
    free(tensors);
    return status;
}

void halay_names_free_all(struct halay_process_set *set)
{
    struct halay_table_node *node;

    while ((node = halay_table_take(&set->names))) {
        struct halay_entry *entry = (struct halay_entry *)node;
        tensor_free(entry->tensor);
        entry_free(entry);
    }
    halay_table_fini(&set->names);
}

void halay_registry_free_all(struct halay_context *ctx)
{
    for (struct halay_static_bucket *b = ctx->static_first, *next; b; b = next) {
        next = b->next;
        static_bucket_free(b);
    }
    ctx->static_first = ctx->static_last = NULL;
    free(ctx->submitted.events);
    free(ctx->taken.events);
    ctx->submitted = ctx->taken = (struct halay_events){ 0 };
}
