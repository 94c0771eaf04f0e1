/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic keys: messages between the processes of an elastic job and halayrun, through the store.
 *
 * A process is a *worker*, by a number below HALAY_SIZE that another process may have once this one has ended; that
 * number and HALAY_ELASTIC, the number of its start, identify it. The job assigns ranks to workers again and again;
 * each time is a *generation*. Values are little-endian numbers of 4 bytes:
 *
 *     elastic/ready/WORKER.START.N   process    it waits for its N-th place     generation that it was in (0: none),
 *                                                                               1 + the rank by whose loss that ended
 *                                                                               (0: none), whether it has made or been
 *                                                                               given a commit
 *     elastic/place/WORKER.START.N   halayrun   the answer, once it is known    enum halay_verdict, generation, rank,
 *                                                                               size
 *     elastic/change/GENERATION      halayrun   processes wait for a place, or some are to leave: commit, and be ready
 *     elastic/over/GENERATION        halayrun   processes on the way into it must give up: one is lost
 *
 * When the next generation is formed no process asks for an older one, and halayrun removes its keys.
 *
 * A process that is ready has unmapped all memory of others, and has nothing under way. halayrun answers when all
 * processes of the generation are ready or have ended: so no process writes into memory that is in use again.
 */
#ifndef HALAY_BASE_ELASTIC_KEYS_H
#define HALAY_BASE_ELASTIC_KEYS_H

#include "base/store/store.h"

#define HALAY_ELASTIC_READY "elastic/ready/"
/* Prefix of the keys of a generation: its bootstrap, its change, its end. */
#define HALAY_ELASTIC_GENERATION "generation/"
#define HALAY_ELASTIC_CHANGE "elastic/change/"
#define HALAY_ELASTIC_OVER "elastic/over/"

enum halay_verdict {
    HALAY_VERDICT_PLACE = 0, /* continue as this rank */
    HALAY_VERDICT_LEAVE = 1, /* leave: its host is not part of the job now */
    HALAY_VERDICT_OVER = 2,  /* the job is ending: no process gets a place */
};

/* The process that waits for a place. */
struct halay_worker {
    int worker, start;
    unsigned times; /* N */
};

struct halay_ready {
    unsigned generation;
    int lost;      /* -1: none */
    int has_state; /* it can give a commit to others */
};

struct halay_place {
    enum halay_verdict verdict;
    unsigned generation;
    int rank, size;
};

enum { HALAY_READY_BYTES = 12, HALAY_PLACE_BYTES = 16 };

void halay_elastic_ready_key(const struct halay_worker *worker, char key[HALAY_STORE_KEY_MAX]);
void halay_elastic_place_key(const struct halay_worker *worker, char key[HALAY_STORE_KEY_MAX]);
/* Writes the prefix of all places of a worker, of any process. */
void halay_elastic_places_prefix(int worker, char prefix[HALAY_STORE_KEY_MAX]);
void halay_elastic_change_key(unsigned generation, char key[HALAY_STORE_KEY_MAX]);
void halay_elastic_over_key(unsigned generation, char key[HALAY_STORE_KEY_MAX]);
/* Parses a key with the prefix HALAY_ELASTIC_READY. Returns 0 for another key. */
int halay_elastic_read_key(const char *key, struct halay_worker *worker);

void halay_ready_write(const struct halay_ready *ready, unsigned char bytes[HALAY_READY_BYTES]);
int halay_ready_read(const void *bytes, size_t count, struct halay_ready *ready); /* 0: other bytes */
void halay_place_write(const struct halay_place *place, unsigned char bytes[HALAY_PLACE_BYTES]);
/* Returns 0 for other bytes. */
int halay_place_read(const void *bytes, size_t count, struct halay_place *place);

#endif
