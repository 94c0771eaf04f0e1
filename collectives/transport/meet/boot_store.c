/* SPDX-License-Identifier: Apache-2.0
 *
 * Bootstrap over the launcher's store: an allgather sets one key and gets every rank's.
 *
 *     boot/CONNECTION/ROUND/RANK            connection: how often this rank connected before; round: the n-th
 *                                           allgather since
 *     generation/GENERATION/ROUND/RANK      in an elastic job (participant.c)
 *
 * Getting a key waits until it is set, so nothing has to be polled. Keys are never used twice, so a rank that is late
 * can still read what the others have read long ago.
 */
#include "base/clock.h"
#include "collectives/transport/meet/boot_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 500 }; /* between two looks whether it is over */

struct boot_store {
    struct halay_boot base;
    struct halay_meeting meeting;
    struct halay_store_access access; /* owned: what the meeting borrows, unless it is somebody else's */
    unsigned round;
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
        if (!needed[i].is_set) {
            halay_error(log, "start over the store: %s is not set; halayrun sets it for the programs it starts",
                        needed[i].name);
            return HALAY_ERR_CONFIG;
        }
    return HALAY_OK;
}

enum halay_status halay_store_access_open(struct halay_log *log, const struct halay_config *config,
                                          struct halay_store_access *access, unsigned *reconnects)
{
    enum halay_status status = check_config(log, config);
    if (status == HALAY_OK)
        status = halay_store_read_secret(log, config->store_secret_fd, access->secret);
    if (status == HALAY_OK)
        status = halay_store_client_open(log, config->store_address, access->secret, config->rank,
                                         config->start_timeout_ms, &access->client, reconnects);
    return status;
}

void halay_store_access_close(struct halay_store_access *access)
{
    halay_store_client_close(access->client);
    access->client = NULL;
    explicit_bzero(access->secret, sizeof access->secret);
}

/* ---- allgather ---- */

static void key_set(char key[HALAY_STORE_KEY_MAX], const struct boot_store *self, int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, "%s%u/%u/%d", self->meeting.prefix, self->meeting.number, self->round, rank);
}

/* halay_store_get, calling the caller's function meanwhile. */
static enum halay_status get_meanwhile(struct boot_store *self, const char *key, void *value, size_t bytes,
                                       int timeout_ms)
{
    struct halay_store_client *client = self->meeting.access->client;
    int64_t deadline_us = halay_deadline_us(timeout_ms);

    if (!self->base.meanwhile)
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
        self->base.meanwhile(self->base.meanwhile_arg);
    }
}

/* For a meeting that may be over before all have come, or at which somebody looks: wait in slices, so that a rank lost
 * on the way holds the others up for one slice at most. */
static enum halay_status get(struct boot_store *self, int rank, void *value, size_t bytes, int64_t deadline_us)
{
    const struct halay_meeting *meeting = &self->meeting;
    char key[HALAY_STORE_KEY_MAX];

    key_set(key, self, rank);
    for (;;) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        if ((meeting->is_over || self->base.watch) && (left_ms < 0 || left_ms > SLICE_MS))
            left_ms = SLICE_MS;
        enum halay_status status = get_meanwhile(self, key, value, bytes, left_ms);
        if (status != HALAY_ERR_TIMEOUT)
            return status;
        if ((status = halay_boot_look(self->base.log, self->base.watch, rank)) != HALAY_OK)
            return status;
        if (meeting->is_over && meeting->is_over(meeting->arg)) {
            halay_info(self->base.log, "a rank was lost before all had come");
            return HALAY_ERR_PEER;
        }
        if ((!meeting->is_over && !self->base.watch) || halay_deadline_passed(deadline_us))
            return HALAY_ERR_TIMEOUT;
    }
}

static enum halay_status store_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                         int timeout_ms)
{
    struct boot_store *self = (struct boot_store *)boot;
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    char key[HALAY_STORE_KEY_MAX];

    key_set(key, self, boot->rank);
    enum halay_status status = halay_store_set(self->meeting.access->client, key, mine, bytes);
    for (int r = 0; all && r < boot->size && status == HALAY_OK; r++) {
        status = get(self, r, (unsigned char *)all + (size_t)r * bytes, bytes, deadline_us);
        if (status == HALAY_ERR_TIMEOUT)
            halay_error(boot->log, "rank %d has not come within %d s (HALAY_START_TIMEOUT)", r, timeout_ms / 1000);
    }
    self->round++;
    return status;
}

static void store_secret(struct halay_boot *boot, unsigned char *secret)
{
    memcpy(secret, ((struct boot_store *)boot)->meeting.access->secret, HALAY_SECRET_BYTES);
}

static void unique_finish(struct halay_boot *boot)
{
    halay_store_access_close(&((struct boot_store *)boot)->access);
}

static void store_destroy(struct halay_boot *boot)
{
    halay_store_access_close(&((struct boot_store *)boot)->access);
    free(boot);
}

static const struct halay_boot_ops store_ops = {
    .name = "store",
    .allgather = store_allgather,
    .secret = store_secret,
    .destroy = store_destroy,
};

static const struct halay_boot_ops unique_ops = {
    .name = "unique id",
    .allgather = store_allgather,
    .secret = store_secret,
    .finish = unique_finish,
    .destroy = store_destroy,
};

static struct boot_store *create(struct halay_log *log, int rank, int size)
{
    struct boot_store *self = calloc(1, sizeof *self);

    if (self)
        self->base = (struct halay_boot){ .ops = &store_ops, .rank = rank, .size = size, .log = log };
    return self;
}

enum halay_status halay_boot_meeting_create(struct halay_log *log, int rank, int size,
                                            const struct halay_meeting *meeting, struct halay_boot **out)
{
    struct boot_store *self = create(log, rank, size);

    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->meeting = *meeting;
    *out = &self->base;
    return HALAY_OK;
}

enum halay_status halay_boot_unique_meeting(struct halay_log *log, int rank, int size,
                                            struct halay_store_access *access, unsigned number, struct halay_boot **out)
{
    struct boot_store *self = create(log, rank, size);

    if (!self) {
        halay_store_access_close(access);
        return HALAY_ERR_NO_MEMORY;
    }
    self->base.ops = &unique_ops;
    self->access = *access;
    self->meeting = (struct halay_meeting){ .access = &self->access, .prefix = "boot/", .number = number };
    *out = &self->base;
    return HALAY_OK;
}

enum halay_status halay_boot_store_create(struct halay_log *log, const struct halay_config *config,
                                          struct halay_boot **out)
{
    struct boot_store *self;

    if (config->size >= 1 && config->rank >= config->size) {
        halay_error(log, "HALAY_RANK is %d, must be less than HALAY_SIZE, which is %d", config->rank, config->size);
        return HALAY_ERR_CONFIG;
    }
    if (!(self = create(log, config->rank, config->size)))
        return HALAY_ERR_NO_MEMORY;
    self->meeting = (struct halay_meeting){ .access = &self->access, .prefix = "boot/" };
    enum halay_status status = halay_store_access_open(log, config, &self->access, &self->meeting.number);
    if (status != HALAY_OK) {
        store_destroy(&self->base);
        return status;
    }
    *out = &self->base;
    return HALAY_OK;
}
