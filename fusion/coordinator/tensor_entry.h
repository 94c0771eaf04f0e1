/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor entry: what the coordinator keeps of a name: which ranks have come, what they announced, and what was agreed.
 *
 * A entry is on one of three lists: waiting (some ranks have come), resting (none has; used longest ago first), or none
 * (agreed, not yet given out).
 */
#ifndef HALAY_TENSOR_ENTRY_H
#define HALAY_TENSOR_ENTRY_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/row_words.h"
#include "fusion/protocol/table.h"

struct halay_withdrawal;

/* Of a rank on an entry: it has not come; it has, with what is agreed; it has, with what it announced. */
enum { HALAY_ENTRY_ABSENT, HALAY_ENTRY_READY, HALAY_ENTRY_ANNOUNCED };

struct halay_tensor_entry_list {
    struct halay_tensor_entry *first, *last;
    size_t count;
};

struct halay_tensor_entry_vector {
    struct halay_tensor_entry **entries; /* owned array of borrowed entries */
    size_t count, capacity;
};

/* What a rank has announced. */
struct halay_announcement {
    struct halay_signature signature;
    struct halay_words words; /* owned */
};

struct halay_tensor_entry {
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
    struct halay_announcement *announced; /* owned: [rank], valid where state is HALAY_ENTRY_ANNOUNCED; or NULL */
    int64_t since_us, latest_us;          /* when the first rank came, and the latest one */
    uint64_t order;                       /* rank 0's order of registration + 1; 0: by name */
    uint64_t bucket_number;               /* which bucket it was chosen for */
    uint64_t turn;                        /* the last one that it was in (capture.h) */
    size_t position;                      /* scratch: among the chosen */
    struct halay_withdrawal *withdrawal;  /* borrowed: submissions that were taken back (withdraw.h); or NULL */
    int is_join;                          /* ranks that join meet here */
    int is_change;                        /* ranks that change the process sets meet here */
    struct halay_tensor_entry_list *list; /* the one it is on, or NULL */
    struct halay_tensor_entry *previous, *next;
};

/* Of a coordinator of so many ranks; the name is copied. NULL: no memory. */
struct halay_tensor_entry *halay_tensor_entry_create(const char *name, size_t length, uint64_t hash, int size);
/* It is in no table and on no list any more. */
void halay_tensor_entry_free(struct halay_tensor_entry *entry, int size);
/* Nobody has announced anything that is not agreed. */
void halay_tensor_entry_free_announced(struct halay_tensor_entry *entry, int size);
/* Only these ranks of the coordinator's are to come: numbers, which may be any. */
enum halay_status halay_tensor_entry_ask_only(struct halay_tensor_entry *entry, int size, const uint64_t *ranks,
                                              size_t count);
/* Keep what a rank says that is not what is agreed. */
enum halay_status halay_tensor_entry_announce(struct halay_tensor_entry *entry, int size, int rank,
                                              const struct halay_signature *signature, const void *words, size_t count);

/* Take it off the list that it is on, if any; put it at the end of one. */
void halay_tensor_entry_list_remove(struct halay_tensor_entry *entry);
void halay_tensor_entry_list_append(struct halay_tensor_entry_list *list, struct halay_tensor_entry *entry);
enum halay_status halay_tensor_entry_push(struct halay_tensor_entry_vector *v, struct halay_tensor_entry *entry);

/* Has a rank not come that is to come? */
static inline int halay_tensor_entry_lacks(const struct halay_tensor_entry *entry, int rank)
{
    return !entry->state[rank] && !(entry->outside && entry->outside[rank]);
}

/* What a rank that has come says. */
static inline const struct halay_signature *halay_tensor_entry_signature(const struct halay_tensor_entry *entry,
                                                                         int rank)
{
    return entry->state[rank] == HALAY_ENTRY_ANNOUNCED ? &entry->announced[rank].signature : &entry->agreed;
}

/* The words that go with it: `says` of them. */
static inline const uint64_t *halay_tensor_entry_words(const struct halay_tensor_entry *entry, int rank, size_t says)
{
    return entry->state[rank] == HALAY_ENTRY_ANNOUNCED ? entry->announced[rank].words.at
                                                       : entry->words.at + (size_t)rank * says;
}

#endif
