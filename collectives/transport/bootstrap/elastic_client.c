/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic client: see elastic_client.h. The bootstrap of a generation is that of boot_store.c over the client's
 * connection; while a rank is missing it asks whether the generation is over.
 */
#include "collectives/transport/bootstrap/elastic_client.h"
#include "base/store/elastic_keys.h"
#include "collectives/transport/bootstrap/boot_impl.h"
#include <stdlib.h>

enum { OVER_MS = 200 };

struct halay_elastic_client {
    struct halay_log *log;            /* borrowed */
    struct halay_store_access access; /* owned */
    struct halay_worker worker;
    struct halay_place place;  /* the newest */
    unsigned place_generation; /* the last generation in which this process had a place; 0: none */
    int has_asked;             /* the change of this generation has been asked about */
    int is_called;
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

enum halay_status halay_elastic_client_open(struct halay_log *log, const struct halay_config *config,
                                            struct halay_elastic_client **out)
{
    struct halay_elastic_client *client = calloc(1, sizeof *client);
    unsigned reconnects;

    if (!client)
        return HALAY_ERR_NO_MEMORY;
    client->log = log;
    client->worker = (struct halay_worker){ .worker = config->rank, .start = config->elastic };
    enum halay_status status = halay_store_access_open(log, config, &client->access, &reconnects);
    if (status != HALAY_OK) {
        halay_elastic_client_close(client);
        return status;
    }
    /* A process may have several contexts, one after the other; none reuses another's keys. */
    client->worker.times = reconnects << 16;
    *out = client;
    return HALAY_OK;
}

void halay_elastic_client_close(struct halay_elastic_client *client)
{
    if (!client)
        return;
    halay_store_access_close(&client->access);
    free(client);
}

/* ---- a place ----------------------------------------------------------------------------------------------------- */

static enum halay_status take_place(struct halay_elastic_client *client, const unsigned char *bytes)
{
    if (!halay_place_read(bytes, HALAY_PLACE_BYTES, &client->place))
        return halay_fail(client->log, HALAY_ERR_FORMAT,
                          "halayrun's answer does not describe a place in an elastic job");
    if (client->place.verdict == HALAY_VERDICT_PLACE) {
        client->place_generation = client->place.generation;
        return HALAY_OK;
    }
    if (client->place.verdict == HALAY_VERDICT_LEAVE)
        halay_warning(client->log, "this process's host is not part of the job any more");
    else
        halay_error(client->log, "the job is ending: this process gets no place");
    return HALAY_ERR_CLOSED;
}

enum halay_status halay_elastic_client_register(struct halay_elastic_client *client, int lost, int has_state)
{
    const struct halay_ready ready = { .generation = client->place_generation, .lost = lost, .has_state = has_state };
    unsigned char request[HALAY_READY_BYTES], answer[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_info(client->log, "this process asks for a place among the ranks");
    client->has_asked = client->is_called = 0;
    halay_ready_write(&ready, request);
    halay_elastic_ready_key(&client->worker, key);
    enum halay_status status = halay_store_set(client->access.client, key, request, sizeof request);
    halay_elastic_place_key(&client->worker, key);
    client->worker.times++;
    if (status == HALAY_OK)
        status = halay_store_get(client->access.client, key, answer, sizeof answer, -1);
    return status == HALAY_OK ? take_place(client, answer) : status;
}

unsigned halay_elastic_client_generation(const struct halay_elastic_client *client)
{
    return client->place_generation;
}

int halay_elastic_client_listen(struct halay_elastic_client *client)
{
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_change_key(client->place.generation, key);
    if (!client->has_asked && halay_store_ask(client->access.client, key) != HALAY_OK)
        return 0;
    client->has_asked = 1;
    if (!client->is_called)
        client->is_called = halay_store_answer(client->access.client, key, NULL, 0, 0) == HALAY_OK;
    return client->is_called;
}

/* ---- bootstrap --------------------------------------------------------------------------------------------------- */

static int is_over(void *arg)
{
    const struct halay_elastic_client *client = arg;
    char key[HALAY_STORE_KEY_MAX];

    halay_elastic_over_key(client->place.generation, key);
    return halay_store_get(client->access.client, key, NULL, 0, OVER_MS) == HALAY_OK;
}

enum halay_status halay_elastic_client_boot(struct halay_elastic_client *client, struct halay_boot **out)
{
    const struct halay_store_rendezvous rendezvous = {
        .access = &client->access,
        .prefix = HALAY_ELASTIC_GENERATION,
        .number = client->place.generation,
        .is_over = is_over,
        .arg = client,
    };

    return halay_boot_store_create_at(client->log, client->place.rank, client->place.size, &rendezvous, out);
}
