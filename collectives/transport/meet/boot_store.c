/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over the launcher's store: an allgather sets one key and gets everybody's.
 *
 *     boot/GENERATION/ROUND/RANK      generation: the n-th time this rank connects; round: the n-th allgather since
 *
 * Getting a key waits until it is set, so nothing has to be polled. Keys are never used twice, so a rank that is late
 * can still read what the others have read long ago.
 */
#include "base/clock.h"
#include "base/store/store.h"
#include "collectives/transport/meet/boot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct boot_store {
    struct halay_boot base;
    struct halay_store_client *client; /* owned */
    unsigned char secret[HALAY_SECRET_BYTES];
    unsigned generation;
    unsigned round;
};

static void key_set(char key[HALAY_STORE_KEY_MAX], const struct boot_store *self, int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, "boot/%u/%u/%d", self->generation, self->round, rank);
}

enum halay_status halay_boot_store_get(struct halay_boot *boot, struct halay_store_client *client, const char *key,
                                       void *value, size_t bytes, int timeout_ms)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms);

    if (!boot->meanwhile)
        return halay_store_get(client, key, value, bytes, timeout_ms);
    enum halay_status status = halay_store_ask(client, key);
    if (status != HALAY_OK)
        return status;
    for (;;) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        int slice_ms = left_ms < 0 || left_ms > HALAY_BOOT_SLICE_MS ? HALAY_BOOT_SLICE_MS : left_ms;
        status = halay_store_answer(client, key, value, bytes, slice_ms);
        if (status != HALAY_ERR_TIMEOUT || halay_deadline_passed(deadline_us))
            return status;
        boot->meanwhile(boot->meanwhile_arg);
    }
}

static enum halay_status store_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                         int timeout_ms)
{
    struct boot_store *self = (struct boot_store *)boot;
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    char key[HALAY_STORE_KEY_MAX];

    key_set(key, self, boot->rank);
    enum halay_status status = halay_store_set(self->client, key, mine, bytes);
    for (int r = 0; all && r < boot->size && status == HALAY_OK; r++) {
        key_set(key, self, r);
        status = halay_boot_store_get(boot, self->client, key, (unsigned char *)all + (size_t)r * bytes, bytes,
                                      halay_deadline_left_ms(deadline_us));
        if (status == HALAY_ERR_TIMEOUT)
            halay_error(boot->log, "rank %d has not come within %d s (HALAY_START_TIMEOUT)", r, timeout_ms / 1000);
    }
    self->round++;
    return status;
}

static void store_secret(struct halay_boot *boot, unsigned char *secret)
{
    memcpy(secret, ((struct boot_store *)boot)->secret, HALAY_SECRET_BYTES);
}

static void boot_free(struct boot_store *self)
{
    explicit_bzero(self->secret, sizeof self->secret);
    free(self);
}

static void store_destroy(struct halay_boot *boot)
{
    struct boot_store *self = (struct boot_store *)boot;

    halay_store_client_close(self->client);
    boot_free(self);
}

static const struct halay_boot_ops store_ops = {
    .name = "store",
    .allgather = store_allgather,
    .secret = store_secret,
    .destroy = store_destroy,
};

/* What the launcher must have given. */
static enum halay_status check_config(struct halay_log *log, const struct halay_config *config)
{
    const char *missing = !config->store_address        ? "HALAY_STORE_ADDRESS"
                          : config->store_secret_fd < 0 ? "HALAY_STORE_SECRET_FD"
                          : config->size < 1            ? "HALAY_SIZE"
                          : config->rank < 0            ? "HALAY_RANK"
                                                        : NULL;

    if (missing) {
        halay_error(log, "start over the store: %s is not set; halayrun sets it for the programs it starts", missing);
        return HALAY_ERR_CONFIG;
    }
    if (config->rank >= config->size) {
        halay_error(log, "HALAY_RANK is %d, must be less than HALAY_SIZE, which is %d", config->rank, config->size);
        return HALAY_ERR_CONFIG;
    }
    return HALAY_OK;
}

static enum halay_status connect_to_store(struct boot_store *self, const struct halay_config *config)
{
    struct halay_log *log = self->base.log;

    enum halay_status status = halay_store_read_secret(log, config->store_secret_fd, self->secret);
    if (status != HALAY_OK)
        return status;
    return halay_store_client_open(log, config->store_address, self->secret, config->rank, config->start_timeout_ms,
                                   &self->client, &self->generation);
}

enum halay_status halay_boot_store_create(struct halay_log *log, const struct halay_config *config,
                                          struct halay_boot **out)
{
    enum halay_status status = check_config(log, config);
    if (status != HALAY_OK)
        return status;
    struct boot_store *self = calloc(1, sizeof *self);
    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->base = (struct halay_boot){ .ops = &store_ops, .rank = config->rank, .size = config->size, .log = log };
    status = connect_to_store(self, config);
    if (status != HALAY_OK) {
        boot_free(self);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
