/* SPDX-License-Identifier: Apache-2.0
 *
 * Roll: what the coordinator keeps of a name: which ranks have come, what they announced, and what was agreed.
 *
 * A roll is on one of three lists: waiting (some ranks have come), resting (none has; used longest ago first), or none
 * (agreed, not yet given out).
 */
#ifndef HALAY_ROLL_H
#define HALAY_ROLL_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/row_words.h"
#include "fusion/protocol/table.h"

struct halay_withdrawal;

/* Of a rank on a roll: it has not come; it has, with what is agreed; it has, with what it announced. */
enum { HALAY_ROLL_ABSENT, HALAY_ROLL_READY, HALAY_ROLL_ANNOUNCED };

struct halay_roll_list {
    struct halay_roll *first, *last;
    size_t count;
};

struct halay_roll_vector {
    struct halay_roll **rolls; /* owned array of borrowed rolls */
    size_t count, capacity;
};

/* What a rank has announced. */
struct halay_announcement {
    struct halay_signature signature;
    struct halay_words words; /* owned */
};

struct halay_roll {
    struct halay_table_node node;         /* first */
    uint32_t id;                          /* HALAY_NO_ID: none */
    int forgetting;                       /* ranks that have not yet answered FORGET */
    int is_revived;                       /* agreed again meanwhile */
    int is_new;                           /* not given out since it was agreed */
    struct halay_signature agreed;        /* valid while there is an id, or on the fresh list */
    int present, different;               /* ranks that came; those of them that announced a signature */
    int absent;                           /* ranks that an average is not to be divided by, as they have joined */
    int has_parts;                        /* some have joined */
    unsigned char *state;                 /* [rank]; in the same block */
    unsigned char *outside;               /* owned: [rank], is not to come; NULL: all are (a change of process sets) */
    int outsiders;                        /* how many */
    struct halay_words words;             /* owned: what each rank says with it, one after the other */
    struct halay_announcement *announced; /* owned: [rank], valid where state is HALAY_ROLL_ANNOUNCED; or NULL */
    int64_t since_us, latest_us;          /* when the first rank came, and the latest one */
    uint64_t order;                       /* rank 0's order of registration + 1; 0: by name */
    uint64_t bucket_number;               /* which bucket it was chosen for */
    uint64_t turn;                        /* the last one that it was in (capture.h) */
    size_t position;                      /* scratch: among the chosen */
    struct halay_withdrawal *withdrawal;  /* borrowed: submissions that were taken back (withdraw.h); or NULL */
    int is_join;                          /* ranks that join meet here */
    int is_change;                        /* ranks that change the process sets meet here */
    struct halay_roll_list *list;         /* the one it is on, or NULL */
    struct halay_roll *previous, *next;
};

/* Of a coordinator of so many ranks; the name is copied. NULL: no memory. */
struct halay_roll *halay_roll_create(const char *name, size_t length, uint64_t hash, int size);
/* It is in no table and on no list any more. */
void halay_roll_free(struct halay_roll *roll, int size);
/* Nobody has announced anything that is not agreed. */
void halay_roll_free_announced(struct halay_roll *roll, int size);
/* Only these ranks of the coordinator's are to come: numbers, which may be any. */
enum halay_status halay_roll_ask_only(struct halay_roll *roll, int size, const uint64_t *ranks, size_t count);
/* Keep what a rank says that is not what is agreed. */
enum halay_status halay_roll_announce(struct halay_roll *roll, int size, int rank,
                                      const struct halay_signature *signature, const void *words, size_t count);

/* Take it off the list that it is on, if any; put it at the end of one. */
void halay_roll_list_remove(struct halay_roll *roll);
void halay_roll_list_append(struct halay_roll_list *list, struct halay_roll *roll);
enum halay_status halay_roll_push(struct halay_roll_vector *v, struct halay_roll *roll);

/* Has a rank not come that is to come? */
static inline int halay_roll_lacks(const struct halay_roll *roll, int rank)
{
    return !roll->state[rank] && !(roll->outside && roll->outside[rank]);
}

/* What a rank that has come says. */
static inline const struct halay_signature *halay_roll_signature(const struct halay_roll *roll, int rank)
{
    return roll->state[rank] == HALAY_ROLL_ANNOUNCED ? &roll->announced[rank].signature : &roll->agreed;
}

/* The words that go with it: `says` of them. */
static inline const uint64_t *halay_roll_words(const struct halay_roll *roll, int rank, size_t says)
{
    return roll->state[rank] == HALAY_ROLL_ANNOUNCED ? roll->announced[rank].words.at
                                                     : roll->words.at + (size_t)rank * says;
}

#endif
