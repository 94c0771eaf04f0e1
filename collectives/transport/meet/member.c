/* SPDX-License-Identifier: Apache-2.0
 *
 * Member: see member.h.
 *
 *     epoch/EPOCH/ROUND/RANK      a key of the bootstrap: as in boot_store.c, with the epoch in place of the generation
 *
 * A get waits in slices, and between two of them asks whether the epoch is over, so that nobody waits for a rank that
 * has been lost on the way for longer than a slice.
 */
#include "collectives/transport/meet/member.h"
#include "base/clock.h"
#include "base/store/elastic_words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE_MS = 500, OVER_MS = 200 };

struct halay_member {
    struct halay_log *log;             /* borrowed */
    struct halay_store_client *client; /* owned */
    unsigned char secret[HALAY_SECRET_BYTES];
    struct halay_seat seat;
    struct halay_place place; /* the newest */
    unsigned place_epoch;     /* the last epoch in which this process had a place; 0: none */
    int listens;              /* the change of this epoch has been asked about */
    int is_called;
};

struct boot_member {
    struct halay_boot base;
    struct halay_member *member; /* borrowed */
    unsigned epoch, round;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static enum halay_status check_config(struct halay_log *log, const struct halay_config *config)
{
    const char *missing = !config->store_address        ? "HALAY_STORE_ADDRESS"
                          : config->store_secret_fd < 0 ? "HALAY_STORE_SECRET_FD"
                          : config->rank < 0            ? "HALAY_RANK"
                                                        : NULL;

    if (!missing)
        return HALAY_OK;
    halay_error(log, "start of an elastic job: %s is not set; halayrun sets it for the programs it starts", missing);
    return HALAY_ERR_CONFIG;
}

enum halay_status halay_member_open(struct halay_log *log, const struct halay_config *config, struct halay_member **out)
{
    unsigned generation;

    enum halay_status status = check_config(log, config);
    if (status != HALAY_OK)
        return status;
    struct halay_member *member = calloc(1, sizeof *member);
    if (!member)
        return HALAY_ERR_NO_MEMORY;
    member->log = log;
    member->seat = (struct halay_seat){ .seat = config->rank, .start = config->elastic };
    status = halay_store_read_secret(log, config->store_secret_fd, member->secret);
    if (status == HALAY_OK)
        status = halay_store_client_open(log, config->store_address, member->secret, config->rank,
                                         config->start_timeout_ms, &member->client, &generation);
    if (status != HALAY_OK) {
        halay_member_close(member);
        return status;
    }
    /* A process may have several contexts, one after the other; none says what another has said. */
    member->seat.times = generation << 16;
    *out = member;
    return HALAY_OK;
}

void halay_member_close(struct halay_member *member)
{
    if (!member)
        return;
    halay_store_client_close(member->client);
    explicit_bzero(member->secret, sizeof member->secret);
    free(member);
}

/* ---- a place ----------------------------------------------------------------------------------------------------- */

static enum halay_status take_place(struct halay_member *member, const unsigned char *bytes)
{
    if (!halay_place_read(bytes, HALAY_PLACE_BYTES, &member->place)) {
        halay_error(member->log, "halayrun's answer is no place in an elastic job");
        return HALAY_ERR_FORMAT;
    }
    if (member->place.verdict == HALAY_VERDICT_PLACE) {
        member->place_epoch = member->place.epoch;
        return HALAY_OK;
    }
    if (member->place.verdict == HALAY_VERDICT_LEAVE)
        halay_warning(member->log, "this process's host is not part of the job any more");
    else
        halay_error(member->log, "the job is ending: there is no place for this process");
    return HALAY_ERR_CLOSED;
}

enum halay_status halay_member_enrol(struct halay_member *member, int lost, int has_state)
{
    const struct halay_ready ready = { .epoch = member->place_epoch, .lost = lost, .has_state = has_state };
    unsigned char said[HALAY_READY_BYTES], heard[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_info(member->log, "this process asks for a place among the ranks");
    member->listens = member->is_called = 0;
    halay_ready_write(&ready, said);
    halay_elastic_ready_key(&member->seat, key);
    enum halay_status status = halay_store_set(member->client, key, said, sizeof said);
    halay_elastic_place_key(&member->seat, key);
    member->seat.times++;
    if (status == HALAY_OK)
        status = halay_store_get(member->client, key, heard, sizeof heard, -1);
    return status == HALAY_OK ? take_place(member, heard) : status;
}

unsigned halay_member_epoch(const struct halay_member *member)
{
    return member->place_epoch;
}

int halay_member_is_called(struct halay_member *member)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_change_key(member->place.epoch, key);
    if (!member->listens && halay_store_ask(member->client, key) != HALAY_OK)
        return 0;
    member->listens = 1;
    if (!member->is_called)
        member->is_called = halay_store_answer(member->client, key, NULL, 0, 0) == HALAY_OK;
    return member->is_called;
}

/* ---- bootstrap --------------------------------------------------------------------------------------------------- */

static void key_set(char key[HALAY_STORE_KEY_MAX], const struct boot_member *self, int rank)
{
    snprintf(key, HALAY_STORE_KEY_MAX, HALAY_ELASTIC_EPOCH "%u/%u/%d", self->epoch, self->round, rank);
}

static int is_over(const struct boot_member *self)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_over_key(self->epoch, key);
    return halay_store_get(self->member->client, key, NULL, 0, OVER_MS) == HALAY_OK;
}

static enum halay_status get(struct boot_member *self, int rank, void *value, size_t bytes, int64_t deadline_us)
{
    char key[HALAY_STORE_KEY_MAX];

    key_set(key, self, rank);
    for (;;) {
        int left_ms = halay_deadline_left_ms(deadline_us);
        int slice_ms = left_ms < 0 || left_ms > SLICE_MS ? SLICE_MS : left_ms;
        enum halay_status status = halay_boot_store_get(&self->base, self->member->client, key, value, bytes, slice_ms);
        if (status != HALAY_ERR_TIMEOUT)
            return status;
        if (is_over(self)) {
            halay_info(self->base.log, "a rank was lost before all had come");
            return HALAY_ERR_PEER;
        }
        if (halay_deadline_passed(deadline_us)) {
            halay_error(self->base.log, "rank %d has not come in time (HALAY_START_TIMEOUT)", rank);
            return HALAY_ERR_TIMEOUT;
        }
    }
}

static enum halay_status member_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                          int timeout_ms)
{
    struct boot_member *self = (struct boot_member *)boot;
    int64_t deadline_us = halay_deadline_us(timeout_ms);
    char key[HALAY_STORE_KEY_MAX];

    key_set(key, self, boot->rank);
    enum halay_status status = halay_store_set(self->member->client, key, mine, bytes);
    for (int r = 0; all && r < boot->size && status == HALAY_OK; r++)
        status = get(self, r, (unsigned char *)all + (size_t)r * bytes, bytes, deadline_us);
    self->round++;
    return status;
}

static void member_secret(struct halay_boot *boot, unsigned char *secret)
{
    memcpy(secret, ((struct boot_member *)boot)->member->secret, HALAY_SECRET_BYTES);
}

static void member_boot_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops member_ops = {
    .name = "store",
    .allgather = member_allgather,
    .secret = member_secret,
    .destroy = member_boot_destroy,
};

enum halay_status halay_member_boot(struct halay_member *member, struct halay_boot **out)
{
    struct boot_member *self = calloc(1, sizeof *self);

    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->base = (struct halay_boot){
        .ops = &member_ops, .rank = member->place.rank, .size = member->place.size, .log = member->log
    };
    self->member = member;
    self->epoch = member->place.epoch;
    *out = &self->base;
    return HALAY_OK;
}
