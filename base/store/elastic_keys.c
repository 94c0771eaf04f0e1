/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: keys and values of the words in elastic_keys.h. Pure.
 */
#include "base/store/elastic_keys.h"
#include "base/store/store_protocol.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PLACE "elastic/place/"

static void worker_key(const char *prefix, const struct halay_worker *worker, char key[HALAY_STORE_KEY_MAX])
{
    snprintf(key, HALAY_STORE_KEY_MAX, "%s%d.%d.%u", prefix, worker->worker, worker->start, worker->times);
}

void halay_elastic_ready_key(const struct halay_worker *worker, char key[HALAY_STORE_KEY_MAX])
{
    worker_key(HALAY_ELASTIC_READY, worker, key);
}

void halay_elastic_place_key(const struct halay_worker *worker, char key[HALAY_STORE_KEY_MAX])
{
    worker_key(PLACE, worker, key);
}

void halay_elastic_places_prefix(int worker, char prefix[HALAY_STORE_KEY_MAX])
{
    snprintf(prefix, HALAY_STORE_KEY_MAX, PLACE "%d.", worker);
}

void halay_elastic_change_key(unsigned generation, char key[HALAY_STORE_KEY_MAX])
{
    snprintf(key, HALAY_STORE_KEY_MAX, HALAY_ELASTIC_CHANGE "%u", generation);
}

void halay_elastic_over_key(unsigned generation, char key[HALAY_STORE_KEY_MAX])
{
    snprintf(key, HALAY_STORE_KEY_MAX, HALAY_ELASTIC_OVER "%u", generation);
}

int halay_elastic_read_key(const char *key, struct halay_worker *worker)
{
    struct halay_worker read;
    char end;

    if (sscanf(key, HALAY_ELASTIC_READY "%9d.%9d.%9u%c", &read.worker, &read.start, &read.times, &end) != 3 ||
        read.worker < 0 || read.start < 0)
        return 0;
    *worker = read;
    return 1;
}

void halay_ready_write(const struct halay_ready *ready, unsigned char bytes[HALAY_READY_BYTES])
{
    store_write_u32(bytes, ready->generation);
    store_write_u32(bytes + 4, (uint32_t)(ready->lost + 1));
    store_write_u32(bytes + 8, ready->has_state != 0);
}

int halay_ready_read(const void *bytes, size_t count, struct halay_ready *ready)
{
    const unsigned char *at = bytes;

    if (count != HALAY_READY_BYTES || store_read_u32(at + 4) > INT_MAX)
        return 0;
    *ready = (struct halay_ready){ .generation = store_read_u32(at),
                                   .lost = (int)store_read_u32(at + 4) - 1,
                                   .has_state = store_read_u32(at + 8) != 0 };
    return 1;
}

void halay_place_write(const struct halay_place *place, unsigned char bytes[HALAY_PLACE_BYTES])
{
    store_write_u32(bytes, (uint32_t)place->verdict);
    store_write_u32(bytes + 4, place->generation);
    store_write_u32(bytes + 8, (uint32_t)place->rank);
    store_write_u32(bytes + 12, (uint32_t)place->size);
}

int halay_place_read(const void *bytes, size_t count, struct halay_place *place)
{
    const unsigned char *at = bytes;
    uint32_t verdict, rank, size;

    if (count != HALAY_PLACE_BYTES)
        return 0;
    verdict = store_read_u32(at);
    rank = store_read_u32(at + 8);
    size = store_read_u32(at + 12);
    if (verdict > HALAY_VERDICT_OVER || (verdict == HALAY_VERDICT_PLACE && (size > INT_MAX || rank >= size)))
        return 0;
    *place = (struct halay_place){ (enum halay_verdict)verdict, store_read_u32(at + 4), (int)rank, (int)size };
    return 1;
}
