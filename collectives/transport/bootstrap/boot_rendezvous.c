/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over the program's key-value store (struct halay_rendezvous): ranks find each other by its keys, and
 * exchange over a tree (boot_tree.h).
 *
 *     PREFIX/START/0/RANK      start: the n-th in this store. The hello of a rank
 *     PREFIX/START/KEY         one of the tree's
 *
 * No key is put twice, so the store need not replace any, and a rank that is late still finds what others have read
 * long ago. A rank's start is the first whose hello it has not put yet. So the n-th start of each rank meets the n-th
 * of the others, without a count kept anywhere.
 *
 * The hello has the job's size, as the rank was given it. Rank 0's has the job's secret, too, since only the job reads
 * the store.
 */
#include "base/clock.h"
#include "base/store/store.h"
#include "base/struct_size.h"
#include "collectives/transport/bootstrap/boot_tree.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_MAX = 128 };

struct boot_rendezvous {
    struct halay_boot base;
    struct halay_rendezvous store; /* what arg points to is borrowed */
    char prefix[PREFIX_MAX + 1];
    unsigned start;
    struct halay_boot_tree tree;
    unsigned char secret[HALAY_SECRET_BYTES];
};

struct hello {
    int32_t size;
    unsigned char secret[HALAY_SECRET_BYTES]; /* rank 0's; zeros of the others */
};

/* ---- the program's callbacks ---- */

static void full_key(char full[HALAY_STORE_KEY_MAX], const struct boot_rendezvous *self, const char *key)
{
    snprintf(full, HALAY_STORE_KEY_MAX, "%s/%u/%s", self->prefix, self->start, key);
}

static void hello_key(char key[32], int rank)
{
    snprintf(key, 32, "0/%d", rank);
}

/* Logs a callback's failure; its status may be any number. */
static enum halay_status callback_fail(struct boot_rendezvous *self, const char *call, const char *key,
                                       enum halay_status status)
{
    return halay_fail(self->base.log, status == HALAY_IN_PROGRESS || (int)status < 0 ? HALAY_ERR_SYSTEM : status,
                      "start over the program's store: %s of '%s' failed: %s (%d)", call, key,
                      halay_status_string(status), (int)status);
}

static enum halay_status store_put(void *arg, const char *key, const void *value, size_t bytes)
{
    struct boot_rendezvous *self = arg;
    char full[HALAY_STORE_KEY_MAX];

    full_key(full, self, key);
    enum halay_status status = self->store.put(self->store.arg, full, value, bytes);
    return status == HALAY_OK ? HALAY_OK : callback_fail(self, "put", full, status);
}

/* HALAY_ERR_TIMEOUT, without a line: it is not there yet. */
static enum halay_status store_get(void *arg, const char *key, void *value, size_t bytes, int timeout_ms)
{
    struct boot_rendezvous *self = arg;
    char full[HALAY_STORE_KEY_MAX];

    full_key(full, self, key);
    enum halay_status status = self->store.get(self->store.arg, full, value, bytes, timeout_ms);
    return status == HALAY_OK || status == HALAY_ERR_TIMEOUT ? status : callback_fail(self, "get", full, status);
}

/* ---- the bootstrap ---- */

static enum halay_status rendezvous_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                              int timeout_ms)
{
    struct boot_rendezvous *self = (struct boot_rendezvous *)boot;

    return halay_boot_tree_allgather(&self->tree, self->secret, mine, bytes, all, timeout_ms);
}

static enum halay_status rendezvous_broadcast(struct halay_boot *boot, void *data, size_t bytes, int timeout_ms)
{
    struct boot_rendezvous *self = (struct boot_rendezvous *)boot;

    return halay_boot_tree_broadcast(&self->tree, self->secret, data, bytes, timeout_ms);
}

static void rendezvous_secret(struct halay_boot *boot, unsigned char *secret)
{
    memcpy(secret, ((struct boot_rendezvous *)boot)->secret, HALAY_SECRET_BYTES);
}

static void rendezvous_give_up(struct halay_boot *boot)
{
    halay_boot_tree_give_up(&((struct boot_rendezvous *)boot)->tree);
}

static void rendezvous_finish(struct halay_boot *boot)
{
    halay_boot_tree_fini(&((struct boot_rendezvous *)boot)->tree);
}

static void rendezvous_destroy(struct halay_boot *boot)
{
    struct boot_rendezvous *self = (struct boot_rendezvous *)boot;

    rendezvous_finish(boot);
    explicit_bzero(self->secret, sizeof self->secret);
    free(self);
}

static const struct halay_boot_ops rendezvous_ops = {
    .name = "rendezvous",
    .allgather = rendezvous_allgather,
    .broadcast = rendezvous_broadcast,
    .secret = rendezvous_secret,
    .give_up = rendezvous_give_up,
    .finish = rendezvous_finish,
    .destroy = rendezvous_destroy,
};

/* ---- create ---- */

static enum halay_status check_store(struct halay_log *log, const struct halay_rendezvous *store)
{
    const char *wrong = NULL;

    if (store->size < 1)
        wrong = "size is less than 1";
    else if (store->rank < 0 || store->rank >= store->size)
        wrong = "rank is not from 0 to size - 1";
    else if (!store->put || !store->get)
        wrong = "put and get must both be there";
    else if (store->prefix && (!*store->prefix || strlen(store->prefix) > PREFIX_MAX))
        wrong = "prefix has no character, or more than 128";
    if (!wrong)
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_ARGUMENT, "struct halay_rendezvous: %s (rank %d, size %d)", wrong, store->rank,
                      store->size);
}

/* The first start that this rank has not begun. */
static enum halay_status find_start(struct boot_rendezvous *self)
{
    struct hello old;
    enum halay_status status = HALAY_OK;
    char key[32];

    hello_key(key, self->base.rank);
    for (self->start = 0; status == HALAY_OK; self->start += status == HALAY_OK)
        status = store_get(self, key, &old, sizeof old, 0);
    explicit_bzero(&old, sizeof old);
    return status == HALAY_ERR_TIMEOUT ? HALAY_OK : status;
}

/* Put this rank's hello, get rank 0's. */
static enum halay_status exchange_hellos(struct boot_rendezvous *self, int timeout_ms)
{
    struct hello hello = { .size = self->base.size };
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    enum halay_status status = HALAY_OK;
    char key[32];

    full_key(self->tree.name, self, "");
    snprintf(self->tree.missing_text, sizeof self->tree.missing_text,
             " to start %u under '%.40s' in the program's store", self->start, self->prefix);
    hello_key(key, self->base.rank);
    if (self->base.rank == 0)
        status = halay_store_draw_secret(self->base.log, hello.secret);
    if (status == HALAY_OK)
        status = store_put(self, key, &hello, sizeof hello);
    hello_key(key, 0);
    if (status == HALAY_OK && self->base.rank != 0) {
        status = halay_boot_tree_get(&self->tree, 0, key, &hello, sizeof hello, deadline_us);
        if (status == HALAY_ERR_TIMEOUT)
            halay_error(self->base.log, "rank 0 has not come within %g s (HALAY_START_TIMEOUT)%s", timeout_ms / 1000.0,
                        self->tree.missing_text);
    }
    if (status == HALAY_OK && hello.size != self->base.size) {
        halay_error(self->base.log, "struct halay_rendezvous: rank %d was given size %d, rank 0 was given %d",
                    self->base.rank, self->base.size, (int)hello.size);
        status = HALAY_ERR_MISMATCH;
    }
    memcpy(self->secret, hello.secret, sizeof hello.secret);
    explicit_bzero(&hello, sizeof hello);
    return status;
}

enum halay_status halay_boot_rendezvous_create(struct halay_log *log, const struct halay_rendezvous *rendezvous,
                                               int timeout_ms, struct halay_boot_watch *watch, struct halay_boot **out)
{
    struct halay_rendezvous store;

    enum halay_status status =
        halay_struct_read(log, "halay_rendezvous", rendezvous, sizeof store, sizeof store, &store);
    if (status == HALAY_OK)
        status = check_store(log, &store);
    if (status != HALAY_OK)
        return status;
    if (store.size == 1)
        return halay_boot_self_create(log, out);
    struct boot_rendezvous *self = calloc(1, sizeof *self);
    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->base = (struct halay_boot){ .ops = &rendezvous_ops, .rank = store.rank, .size = store.size, .log = log };
    self->base.watch = watch;
    self->store = store;
    snprintf(self->prefix, sizeof self->prefix, "%s", store.prefix ? store.prefix : "halay");
    self->store.prefix = self->prefix;
    self->tree.boot = &self->base;
    self->tree.keys = (struct halay_boot_keys){ .arg = self, .set = store_put, .get = store_get };
    status = find_start(self);
    if (status == HALAY_OK)
        status = exchange_hellos(self, timeout_ms);
    if (status != HALAY_OK) {
        rendezvous_destroy(&self->base);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
