/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: registered once, submitted by handle; and their treatment when the ranks change. Runs on the program's
 * threads.
 */
#include "base/error_text.h"
#include "fusion/api/describe.h"
#include "fusion/api/open.h"
#include "fusion/api/wait.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include <stdlib.h>

/* Gives a described tensor its own copies of the payload and of a group's buffers. */
static enum halay_status keep_contents(struct halay_tensor *tensor)
{
    const struct halay_tensor_info *info = tensor->naming->info;

    if (halay_payload_resize(&tensor->payload, tensor->payload.count) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    if (info->members && !(tensor->buffers = calloc(info->member_count, sizeof *tensor->buffers)))
        return HALAY_ERR_NO_MEMORY;
    halay_tensor_write(tensor, tensor->payload.at, tensor->buffers);
    return HALAY_OK;
}

static void tensor_free(struct halay_tensor *tensor)
{
    if (tensor) {
        halay_payload_fini(&tensor->payload);
        free(tensor->buffers);
    }
    free(tensor);
}

/* Enters the name of a tensor that is otherwise complete. *why: the text of the error, if there is one. */
static enum halay_status enter_locked(struct halay_context *ctx, const struct halay_naming *naming,
                                      struct halay_tensor *tensor, const char **why)
{
    struct halay_entry *entry = halay_entry_get_locked(naming->names, naming->info->name, naming->length, naming->hash);

    if (!entry)
        return HALAY_ERR_NO_MEMORY;
    if (entry->tensor) {
        *why = "a tensor of that name is registered";
        return HALAY_ERR_DUPLICATE;
    }
    if (tensor->set->state != HALAY_SET_OPEN && (*why = halay_set_refusal_locked(tensor->set))) {
        halay_entry_release_locked(entry);
        return HALAY_ERR_ARGUMENT;
    }
    tensor->entry = entry;
    tensor->order = entry->set->path ? 0 : ++ctx->registered; /* other tensors are not sent to the coordinator */
    tensor->name = entry->node.name;
    tensor->naming = NULL;
    entry->tensor = tensor;
    return HALAY_OK;
}

enum halay_status halay_register(struct halay_context *ctx, const struct halay_tensor_info *info,
                                 struct halay_tensor **out)
{
    struct halay_tensor_info known;
    struct halay_naming naming;
    const char *why = NULL;

    if (!ctx || !out)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_register: no %s", ctx ? "place for the tensor" : "context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    enum halay_status status = halay_info_read(ctx, info, &known);
    if (status == HALAY_OK && known.collective == HALAY_JOIN)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_register: a join is not a tensor");
    struct halay_tensor *tensor = calloc(1, sizeof *tensor);
    if (status == HALAY_OK)
        status = tensor ? halay_describe(ctx, &known, 0, &naming, tensor) : HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK && halay_carrier_is_wanted(ctx, &tensor->placing))
        status = ctx->carrier->ops->load(ctx);
    if (status == HALAY_OK)
        status = keep_contents(tensor);
    if (status == HALAY_OK) {
        pthread_mutex_lock(&ctx->lock);
        status = enter_locked(ctx, &naming, tensor, &why);
        pthread_mutex_unlock(&ctx->lock);
    }
    if (why)
        halay_info_say_fault(ctx, tensor->set, naming.info->name, why);
    if (status == HALAY_OK)
        *out = tensor;
    else
        tensor_free(tensor);
    return halay_returns(status);
}

enum halay_status halay_unregister(struct halay_tensor *tensor)
{
    enum halay_status status;

    if (!tensor)
        return HALAY_OK;
    struct halay_context *ctx = tensor->ctx;
    if (halay_is_child(ctx))
        return halay_refuse_child();
    pthread_mutex_lock(&ctx->lock);
    if (tensor->entry->request || !halay_steady_drop_locked(tensor->entry))
        status = halay_refuses(HALAY_ERR_ARGUMENT, "tensor '%s' is in flight: it stays registered",
                               tensor->entry->node.name);
    else
        status = HALAY_OK;
    if (status == HALAY_OK) {
        tensor->entry->tensor = NULL;
        halay_entry_release_locked(tensor->entry);
    }
    pthread_mutex_unlock(&ctx->lock);
    if (status == HALAY_OK)
        tensor_free(tensor);
    return status;
}

/* Returns nonzero if a change of ranks has made the description invalid. */
static int depends_on_ranks(const struct halay_context *ctx, const struct halay_tensor *tensor)
{
    const struct halay_signature *s = &tensor->signature;

    if (s->collective == HALAY_BROADCAST)
        return s->root >= ctx->size;
    return s->collective == HALAY_REDUCE_SCATTER || s->collective == HALAY_ALLTOALL ||
           halay_collective_has_root(s->collective);
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
    entry->submissions = 0;
    entry->agreed = (struct halay_signature){ 0 };
    entry->planned = NULL;
    halay_payload_fini(&entry->sent);
    halay_payload_fini(&entry->answer);
    entry->followed = 0;
    tensor->is_stale |= depends_on_ranks(ctx, tensor);
}

/* Empties the set's names; puts the registered ones into tensors, in order of registration. Returns how many. */
static size_t take_registered(struct halay_context *ctx, struct halay_tensor **tensors)
{
    struct halay_table_node *node;
    size_t count = 0;

    while ((node = halay_table_take(&ctx->all.names))) {
        struct halay_entry *entry = (struct halay_entry *)node;
        if (entry->tensor) {
            tensors[count++] = entry->tensor;
        } else {
            halay_steady_drop_locked(entry); /* no other thread exists: no lock is needed */
            halay_entry_free(entry);
        }
    }
    qsort(tensors, count, sizeof *tensors, by_order);
    return count;
}

/* Marks all registered tensors of a path as stale. */
static void make_stale(struct halay_process_set *names)
{
    for (size_t i = 0; i < names->names.size; i++)
        for (struct halay_table_node *node = names->names.chains[i]; node; node = node->next)
            if (((struct halay_entry *)node)->tensor)
                ((struct halay_entry *)node)->tensor->is_stale = 1;
}

enum halay_status halay_registry_renew(struct halay_context *ctx)
{
    struct halay_tensor **tensors = calloc(ctx->registered + 1, sizeof *tensors);
    enum halay_status status = HALAY_OK;

    if (!tensors)
        return HALAY_ERR_NO_MEMORY;
    for (struct halay_path *path = ctx->paths; path; path = path->next)
        make_stale(&path->names);
    size_t count = take_registered(ctx, tensors);
    halay_queue_clear(&ctx->queue);
    for (size_t i = 0; i < count; i++) {
        entry_renew(ctx, tensors[i]->entry);
        if (halay_table_add(&ctx->all.names, &tensors[i]->entry->node) != HALAY_OK)
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
        halay_entry_free(entry);
    }
    halay_table_fini(&set->names);
}
