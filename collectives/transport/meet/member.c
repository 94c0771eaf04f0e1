/* SPDX-License-Identifier: Apache-2.0
 *
 * Member: see member.h. The bootstrap of an epoch is that of boot_store.c over the member's connection; while a rank is
 * missing it asks whether the epoch is over.
 */
#include "collectives/transport/meet/member.h"
#include "base/store/elastic_words.h"
#include "collectives/transport/meet/boot_impl.h"
#include <stdlib.h>

enum { OVER_MS = 200 };

struct halay_member {
    struct halay_log *log;        /* borrowed */
    struct halay_store_link link; /* owned */
    struct halay_seat seat;
    struct halay_place place; /* the newest */
    unsigned place_epoch;     /* the last epoch in which this process had a place; 0: none */
    int has_asked;            /* the change of this epoch has been asked about */
    int is_called;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

enum halay_status halay_member_open(struct halay_log *log, const struct halay_config *config, struct halay_member **out)
{
    struct halay_member *member = calloc(1, sizeof *member);
    unsigned generation;

    if (!member)
        return HALAY_ERR_NO_MEMORY;
    member->log = log;
    member->seat = (struct halay_seat){ .seat = config->rank, .start = config->elastic };
    enum halay_status status = halay_store_link_open(log, config, &member->link, &generation);
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
    halay_store_link_close(&member->link);
    free(member);
}

/* ---- a place ----------------------------------------------------------------------------------------------------- */

static enum halay_status take_place(struct halay_member *member, const unsigned char *bytes)
{
    if (!halay_place_read(bytes, HALAY_PLACE_BYTES, &member->place)) {
        halay_error(member->log, "halayrun's answer does not describe a place in an elastic job");
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
    member->has_asked = member->is_called = 0;
    halay_ready_write(&ready, said);
    halay_elastic_ready_key(&member->seat, key);
    enum halay_status status = halay_store_set(member->link.client, key, said, sizeof said);
    halay_elastic_place_key(&member->seat, key);
    member->seat.times++;
    if (status == HALAY_OK)
        status = halay_store_get(member->link.client, key, heard, sizeof heard, -1);
    return status == HALAY_OK ? take_place(member, heard) : status;
}

unsigned halay_member_epoch(const struct halay_member *member)
{
    return member->place_epoch;
}

int halay_member_listen(struct halay_member *member)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_change_key(member->place.epoch, key);
    if (!member->has_asked && halay_store_ask(member->link.client, key) != HALAY_OK)
        return 0;
    member->has_asked = 1;
    if (!member->is_called)
        member->is_called = halay_store_answer(member->link.client, key, NULL, 0, 0) == HALAY_OK;
    return member->is_called;
}

/* ---- bootstrap --------------------------------------------------------------------------------------------------- */

static int is_over(void *arg)
{
    const struct halay_member *member = arg;
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_over_key(member->place.epoch, key);
    return halay_store_get(member->link.client, key, NULL, 0, OVER_MS) == HALAY_OK;
}

enum halay_status halay_member_boot(struct halay_member *member, struct halay_boot **out)
{
    const struct halay_meeting meeting = {
        .link = &member->link,
        .prefix = HALAY_ELASTIC_EPOCH,
        .number = member->place.epoch,
        .is_over = is_over,
        .arg = member,
    };

    return halay_boot_meeting_create(member->log, member->place.rank, member->place.size, &meeting, out);
}
