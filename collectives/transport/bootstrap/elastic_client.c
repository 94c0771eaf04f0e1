/* SPDX-License-Identifier: Apache-2.0
 *
 * Participant: see elastic_client.h. The bootstrap of a generation is that of boot_store.c over the participant's
 * connection; while a rank is missing it asks whether the generation is over.
 */
#include "collectives/transport/bootstrap/elastic_client.h"
#include "base/store/elastic_keys.h"
#include "collectives/transport/bootstrap/boot_impl.h"
#include <stdlib.h>

enum { OVER_MS = 200 };

struct halay_participant {
    struct halay_log *log;            /* borrowed */
    struct halay_store_access access; /* owned */
    struct halay_worker worker;
    struct halay_place place;  /* the newest */
    unsigned place_generation; /* the last generation in which this process had a place; 0: none */
    int has_asked;             /* the change of this generation has been asked about */
    int is_called;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

enum halay_status halay_participant_open(struct halay_log *log, const struct halay_config *config,
                                         struct halay_participant **out)
{
    struct halay_participant *participant = calloc(1, sizeof *participant);
    unsigned reconnects;

    if (!participant)
        return HALAY_ERR_NO_MEMORY;
    participant->log = log;
    participant->worker = (struct halay_worker){ .worker = config->rank, .start = config->elastic };
    enum halay_status status = halay_store_access_open(log, config, &participant->access, &reconnects);
    if (status != HALAY_OK) {
        halay_participant_close(participant);
        return status;
    }
    /* A process may have several contexts, one after the other; none reuses another's keys. */
    participant->worker.times = reconnects << 16;
    *out = participant;
    return HALAY_OK;
}

void halay_participant_close(struct halay_participant *participant)
{
    if (!participant)
        return;
    halay_store_access_close(&participant->access);
    free(participant);
}

/* ---- a place ----------------------------------------------------------------------------------------------------- */

static enum halay_status take_place(struct halay_participant *participant, const unsigned char *bytes)
{
    if (!halay_place_read(bytes, HALAY_PLACE_BYTES, &participant->place))
        return halay_fail(participant->log, HALAY_ERR_FORMAT,
                          "halayrun's answer does not describe a place in an elastic job");
    if (participant->place.verdict == HALAY_VERDICT_PLACE) {
        participant->place_generation = participant->place.generation;
        return HALAY_OK;
    }
    if (participant->place.verdict == HALAY_VERDICT_LEAVE)
        halay_warning(participant->log, "this process's host is not part of the job any more");
    else
        halay_error(participant->log, "the job is ending: this process gets no place");
    return HALAY_ERR_CLOSED;
}

enum halay_status halay_participant_enrol(struct halay_participant *participant, int lost, int has_state)
{
    const struct halay_ready ready = { .generation = participant->place_generation,
                                       .lost = lost,
                                       .has_state = has_state };
    unsigned char said[HALAY_READY_BYTES], heard[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_info(participant->log, "this process asks for a place among the ranks");
    participant->has_asked = participant->is_called = 0;
    halay_ready_write(&ready, said);
    halay_elastic_ready_key(&participant->worker, key);
    enum halay_status status = halay_store_set(participant->access.client, key, said, sizeof said);
    halay_elastic_place_key(&participant->worker, key);
    participant->worker.times++;
    if (status == HALAY_OK)
        status = halay_store_get(participant->access.client, key, heard, sizeof heard, -1);
    return status == HALAY_OK ? take_place(participant, heard) : status;
}

unsigned halay_participant_generation(const struct halay_participant *participant)
{
    return participant->place_generation;
}

int halay_participant_listen(struct halay_participant *participant)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_change_key(participant->place.generation, key);
    if (!participant->has_asked && halay_store_ask(participant->access.client, key) != HALAY_OK)
        return 0;
    participant->has_asked = 1;
    if (!participant->is_called)
        participant->is_called = halay_store_answer(participant->access.client, key, NULL, 0, 0) == HALAY_OK;
    return participant->is_called;
}

/* ---- bootstrap --------------------------------------------------------------------------------------------------- */

static int is_over(void *arg)
{
    const struct halay_participant *participant = arg;
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_over_key(participant->place.generation, key);
    return halay_store_get(participant->access.client, key, NULL, 0, OVER_MS) == HALAY_OK;
}

enum halay_status halay_participant_boot(struct halay_participant *participant, struct halay_boot **out)
{
    const struct halay_store_rendezvous rendezvous = {
        .access = &participant->access,
        .prefix = HALAY_ELASTIC_GENERATION,
        .number = participant->place.generation,
        .is_over = is_over,
        .arg = participant,
    };

    return halay_boot_store_create_at(participant->log, participant->place.rank, participant->place.size, &rendezvous,
                                      out);
}
