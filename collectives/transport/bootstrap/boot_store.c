/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over the launcher's store: ranks find each other by its keys, and exchange over a tree (boot_tree.h).
 *
 *     boot/CONNECTION/KEY            connection: how often this rank connected before
 *     generation/GENERATION/KEY      in an elastic job (elastic_client.c)
 *     host/RANK                      the launcher's: asked for only if a rank is missing
 *
 * Where the launcher has described the ranks of each host (base/store/host_ranks.h), these count the starts, and a rank
 * connects only if it needs a key: to a parent or a child on another host, or to see why a rank is gone. The keys of a
 * start are removed at its end.
 *
 * Getting a key waits until it is set, so nothing has to be polled. Keys are never used twice, so a rank that is late
 * can still read what the others have read long ago.
 */
#include "base/clock.h"
#include "collectives/transport/bootstrap/boot_impl.h"
#include "collectives/transport/bootstrap/boot_tree.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HOST_MS = 100,       /* where the launcher has set none, nothing answers */
    LAST_WAIT_MS = 1000, /* after a start that has failed: some rank may never have come */
    OVER_PAUSE_MS = 1000 /* between two questions whether the start is over */
};

struct boot_store {
    struct halay_boot base;
    struct halay_store_rendezvous rendezvous;
    struct halay_store_access access;  /* owned, unless the caller lent another one */
    const struct halay_config *config; /* borrowed; NULL: another one's connection, which is open */
    struct halay_boot_tree tree;
    int host_end, host_end_ms;       /* owned: readable when this rank's store has ended, -1: none; how long to wait */
    char asked[HALAY_STORE_KEY_MAX]; /* the key that the store has been asked for last; "": none */
    int64_t over_us;                 /* when it may be asked again whether the start is over */
};

/* ---- the connection ---- */

static enum halay_status check_config(struct halay_log *log, const struct halay_config *config)
{
    const struct {
        const char *name;
        int is_set;
    } needed[] = { { "HALAY_STORE_ADDRESS", config->store_address != NULL },
                   { "HALAY_STORE_SECRET_FD", config->store_secret_fd >= 0 },
                   { "HALAY_SIZE", config->size >= 1 },
                   { "HALAY_RANK", config->rank >= 0 } };

    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].is_set)
            return halay_fail(log, HALAY_ERR_CONFIG,
                              "start over the store: %s is not set; halayrun sets it for the programs it starts",
                              needed[i].name);
    return HALAY_OK;
}

/* Reads the address and the secret of the store from the settings. */
static enum halay_status read_access(struct halay_log *log, const struct halay_config *config,
                                     struct halay_store_access *access)
{
    enum halay_status status = check_config(log, config);

    return status == HALAY_OK ? halay_store_read_secret(log, config->store_secret_fd, access->secret) : status;
}

static enum halay_status connect_access(struct halay_log *log, const struct halay_config *config,
                                        struct halay_store_access *access, unsigned *reconnects)
{
    return halay_store_client_open(log, config->store_address, config->network_interface, access->secret, config->rank,
                                   config->start_timeout_ms, &access->client, reconnects);
}

enum halay_status halay_store_access_open(struct halay_log *log, const struct halay_config *config,
                                          struct halay_store_access *access, unsigned *reconnects)
{
    enum halay_status status = read_access(log, config, access);

    return status == HALAY_OK ? connect_access(log, config, access, reconnects) : status;
}

void halay_store_access_close(struct halay_store_access *access)
{
    halay_store_client_close(access->client);
    access->client = NULL;
    explicit_bzero(access->secret, sizeof access->secret);
}

/* ---- keys ---- */

static void full_key(char full[HALAY_STORE_KEY_MAX], const struct boot_store *self, const char *key)
{
    snprintf(full, HALAY_STORE_KEY_MAX, "%s%u/%s", self->rendezvous.prefix, self->rendezvous.number, key);
}

/* Connects, if that was left to the first key: the launcher has given this rank the file of its host's ranks. */
static enum halay_status need_connection(struct boot_store *self)
{
    unsigned reconnects; /* of this rank: no number of a start */

    if (self->rendezvous.access->client || !self->config)
        return HALAY_OK;
    return connect_access(self->base.log, self->config, &self->access, &reconnects);
}

static enum halay_status key_set(void *arg, const char *key, const void *value, size_t bytes)
{
    struct boot_store *self = arg;
    char full[HALAY_STORE_KEY_MAX];

    self->asked[0] = 0;
    full_key(full, self, key);
    enum halay_status status = need_connection(self);
    return status == HALAY_OK ? halay_store_set(self->rendezvous.access->client, full, value, bytes) : status;
}

/* The store answers once the key is there: it is asked again only if anything else has been asked meanwhile. */
static enum halay_status key_get(void *arg, const char *key, void *value, size_t bytes, int timeout_ms)
{
    struct boot_store *self = arg;
    char full[HALAY_STORE_KEY_MAX];
    enum halay_status status = need_connection(self);

    if (status != HALAY_OK)
        return status;
    struct halay_store_client *client = self->rendezvous.access->client;
    full_key(full, self, key);
    status = strcmp(full, self->asked) ? halay_store_ask(client, full) : HALAY_OK;
    if (status == HALAY_OK) {
        memcpy(self->asked, full, sizeof full);
        status = halay_store_answer(client, full, value, bytes, timeout_ms);
    }
    if (status != HALAY_ERR_TIMEOUT)
        self->asked[0] = 0;
    return status;
}

static int key_fd(void *arg)
{
    const struct halay_store_client *client = ((struct boot_store *)arg)->rendezvous.access->client;

    return client ? halay_store_client_fd(client) : -1;
}

/* Asks whether the start is over. This takes the place of the question for a key, whose answer is lost if it is on its
 * way; the pause is the time that the next answer has. */
static int is_over(void *arg)
{
    struct boot_store *self = arg;

    if (!self->rendezvous.is_over || !halay_deadline_passed(self->over_us))
        return 0;
    self->asked[0] = 0;
    int over = self->rendezvous.is_over(self->rendezvous.arg);
    self->over_us = halay_deadline_us(OVER_PAUSE_MS);
    return over;
}

static int known_host(void *arg, int rank, struct halay_store_host *host)
{
    struct boot_store *self = arg;
    char key[32];

    snprintf(key, sizeof key, "host/%d", rank);
    self->asked[0] = 0;
    int is_known = need_connection(self) == HALAY_OK &&
                   halay_store_get(self->rendezvous.access->client, key, host, sizeof *host, HOST_MS) == HALAY_OK &&
                   host->count > 0;
    host->name[sizeof host->name - 1] = 0;
    return is_known;
}

/* ---- the bootstrap ---- */

static enum halay_status store_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                         int timeout_ms)
{
    struct boot_store *self = (struct boot_store *)boot;

    return halay_boot_tree_allgather(&self->tree, self->rendezvous.access->secret, mine, bytes, all, timeout_ms);
}

static enum halay_status store_broadcast(struct halay_boot *boot, void *data, size_t bytes, int timeout_ms)
{
    struct boot_store *self = (struct boot_store *)boot;

    return halay_boot_tree_broadcast(&self->tree, self->rendezvous.access->secret, data, bytes, timeout_ms);
}

static void store_secret(struct halay_boot *boot, unsigned char *secret)
{
    memcpy(secret, ((struct boot_store *)boot)->rendezvous.access->secret, HALAY_SECRET_BYTES);
}

static void store_give_up(struct halay_boot *boot)
{
    struct boot_store *self = (struct boot_store *)boot;

    if (self->rendezvous.access->client) /* or this rank has not asked for anything yet */
        halay_boot_tree_give_up(&self->tree);
}

static void store_finish(struct halay_boot *boot)
{
    halay_boot_tree_fini(&((struct boot_store *)boot)->tree);
}

/* The connection has served its purpose. */
static void launched_finish(struct halay_boot *boot)
{
    struct boot_store *self = (struct boot_store *)boot;
    char prefix[HALAY_STORE_KEY_MAX];

    store_finish(boot);
    if (!self->access.client)
        return;
    full_key(prefix, self, "");
    (void)halay_store_leave(self->access.client, prefix); /* has logged why; only keys are left over */
    halay_store_client_close(self->access.client);
    self->access.client = NULL;
}

/* The secret stays, for groups that are made of a context (fusion/api/group_of.c). */
static void unique_finish(struct halay_boot *boot)
{
    struct boot_store *self = (struct boot_store *)boot;

    store_finish(boot);
    halay_store_client_close(self->access.client);
    self->access.client = NULL;
}

/* Serves the others until they have all left, or this time is over: the process may end next. */
static void wait_for_others(struct boot_store *self, int timeout_ms)
{
    const int64_t deadline_us = halay_deadline_us(timeout_ms);
    struct pollfd p = { .fd = self->host_end, .events = POLLIN };

    if (self->host_end < 0)
        return;
    while (poll(&p, 1, halay_deadline_left_ms(deadline_us)) < 0 && errno == EINTR)
        ;
    close(self->host_end);
    self->host_end = -1;
}

static void slurm_finish(struct halay_boot *boot)
{
    unique_finish(boot);
    wait_for_others((struct boot_store *)boot, ((struct boot_store *)boot)->host_end_ms);
}

static void store_destroy(struct halay_boot *boot)
{
    store_finish(boot);
    halay_store_access_close(&((struct boot_store *)boot)->access);
    wait_for_others((struct boot_store *)boot, LAST_WAIT_MS);
    if (boot->port.is_open)
        close(boot->port.fd);
    free(boot);
}

static const struct halay_boot_ops store_ops = {
    .name = "store",
    .allgather = store_allgather,
    .broadcast = store_broadcast,
    .secret = store_secret,
    .give_up = store_give_up,
    .finish = store_finish,
    .destroy = store_destroy,
};

static const struct halay_boot_ops launched_ops = {
    .name = "store",
    .allgather = store_allgather,
    .broadcast = store_broadcast,
    .secret = store_secret,
    .give_up = store_give_up,
    .finish = launched_finish,
    .destroy = store_destroy,
};

static const struct halay_boot_ops unique_ops = {
    .name = "unique id",
    .allgather = store_allgather,
    .broadcast = store_broadcast,
    .secret = store_secret,
    .give_up = store_give_up,
    .finish = unique_finish,
    .destroy = store_destroy,
};

static const struct halay_boot_ops slurm_ops = {
    .name = "srun",
    .allgather = store_allgather,
    .broadcast = store_broadcast,
    .secret = store_secret,
    .give_up = store_give_up,
    .finish = slurm_finish,
    .destroy = store_destroy,
};

static struct boot_store *boot_store_new(struct halay_log *log, int rank, int size)
{
    struct boot_store *self = calloc(1, sizeof *self);

    if (!self)
        return NULL;
    self->base = (struct halay_boot){ .ops = &store_ops, .rank = rank, .size = size, .log = log };
    self->host_end = -1;
    self->tree.boot = &self->base;
    self->tree.keys =
        (struct halay_boot_keys){ .arg = self, .set = key_set, .get = key_get, .fd = key_fd, .is_over = is_over };
    return self;
}

static void name_tree(struct boot_store *self)
{
    full_key(self->tree.name, self, "");
}

enum halay_status halay_boot_store_create_at(struct halay_log *log, int rank, int size,
                                             const struct halay_store_rendezvous *rendezvous, struct halay_boot **out)
{
    struct boot_store *self = boot_store_new(log, rank, size);

    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->rendezvous = *rendezvous;
    name_tree(self);
    *out = &self->base;
    return HALAY_OK;
}

enum halay_status halay_boot_store_create_unique(struct halay_log *log, int rank, int size,
                                                 struct halay_store_access *access, unsigned number,
                                                 struct halay_boot **out)
{
    struct boot_store *self = boot_store_new(log, rank, size);

    if (!self) {
        halay_store_access_close(access);
        return HALAY_ERR_NO_MEMORY;
    }
    self->base.ops = &unique_ops;
    self->access = *access;
    self->rendezvous = (struct halay_store_rendezvous){ .access = &self->access, .prefix = "boot/", .number = number };
    name_tree(self);
    *out = &self->base;
    return HALAY_OK;
}

enum halay_status halay_boot_store_create_slurm(struct halay_log *log, const struct halay_config *config,
                                                const struct halay_slurm_step *step, struct halay_store_access *access,
                                                int host_end, struct halay_boot **out)
{
    enum halay_status status = halay_boot_store_create_unique(log, step->rank, step->size, access, 0, out);

    if (status != HALAY_OK) {
        if (host_end >= 0)
            close(host_end);
        return status;
    }
    struct boot_store *self = (struct boot_store *)*out;
    self->base.ops = &slurm_ops;
    self->host_end = host_end;
    self->host_end_ms = config->start_timeout_ms;
    self->tree.network = (struct halay_network){ config->network_interface, { config->ports[0], config->ports[1] } };
    return HALAY_OK;
}

/* The start's number. */
static enum halay_status find_number(struct boot_store *self, const struct halay_config *config)
{
    struct halay_host_ranks *host = &self->tree.host;

    if (config->host_ranks_fd < 0)
        return connect_access(self->base.log, config, &self->access, &self->rendezvous.number);
    enum halay_status status =
        halay_host_ranks_open(self->base.log, config->host_ranks_fd, config->rank, config->size, host);
    if (status != HALAY_OK)
        return status;
    halay_host_ranks_begin(host);
    self->rendezvous.number = host->number;
    return HALAY_OK;
}

enum halay_status halay_boot_store_create(struct halay_log *log, const struct halay_config *config,
                                          struct halay_boot **out)
{
    struct boot_store *self;

    if (config->size >= 1 && config->rank >= config->size)
        return halay_fail(log, HALAY_ERR_CONFIG, "HALAY_RANK is %d, must be less than HALAY_SIZE, which is %d",
                          config->rank, config->size);
    if (!(self = boot_store_new(log, config->rank, config->size)))
        return HALAY_ERR_NO_MEMORY;
    self->base.ops = &launched_ops;
    self->config = config;
    self->rendezvous = (struct halay_store_rendezvous){ .access = &self->access, .prefix = "boot/" };
    self->tree.block = config->local_size;
    self->tree.network = (struct halay_network){ config->network_interface, { config->ports[0], config->ports[1] } };
    self->tree.keys.host = known_host;
    enum halay_status status = read_access(log, config, &self->access);
    if (status == HALAY_OK)
        status = find_number(self, config);
    name_tree(self);
    if (status != HALAY_OK) {
        store_destroy(&self->base);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
