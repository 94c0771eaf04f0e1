/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor entry: the coordinator's state of a name: the ranks that have arrived (submitted it), their announcements, and
 * the agreement.
 *
 * An entry is on one of three lists: waiting (some ranks have arrived), resting (none has; least recently used first),
 * or none (agreed, not yet dispatched).
 */
#ifndef HALAY_TENSOR_ENTRY_H
#define HALAY_TENSOR_ENTRY_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/payload.h"
#include "fusion/protocol/table.h"

struct halay_withdrawal;

/* States of a rank: it has not arrived; it has, with what is agreed; it has, with an announcement. */
enum { HALAY_ENTRY_ABSENT, HALAY_ENTRY_READY, HALAY_ENTRY_ANNOUNCED };

struct halay_tensor_entry_list {
    struct halay_tensor_entry *first, *last;
    size_t count;
};

struct halay_tensor_entry_vector {
    struct halay_tensor_entry **entries; /* owned array of borrowed entries */
    size_t count, capacity;
};

/* The announcement of a rank. */
struct halay_announcement {
    struct halay_signature signature;
    struct halay_payload payload; /* owned */
};

struct halay_tensor_entry {
    struct halay_table_node node;  /* first */
    uint32_t id;                   /* HALAY_NO_ID: none */
    int forgetting;                /* ranks that have not yet answered FORGET */
    int is_revived;                /* agreed again meanwhile */
    int is_new;                    /* not dispatched since it was agreed */
    struct halay_signature agreed; /* valid while there is an id, or on the fresh list */
    int present, different;        /* ranks that have arrived; those of them that announced a signature */
    int absent;                    /* joined ranks, by which an average is not divided */
    int has_parts;                 /* some have joined */
    unsigned char *state;          /* [rank]; in the same block */
    unsigned char *outside;        /* owned: [rank], does not take part; NULL: all do (a change of process sets) */
    int outsiders;                 /* their number */
    struct halay_payload payload;  /* owned: those of each rank, consecutive */
    struct halay_announcement *announced; /* owned: [rank], valid where state is HALAY_ENTRY_ANNOUNCED; or NULL */
    int64_t since_us, latest_us;          /* when the first rank arrived, and the latest one */
    uint64_t order;                       /* rank 0's order of registration + 1; 0: by name */
    uint64_t bucket_number;               /* the bucket that it was chosen for */
    uint64_t turn;                        /* its last turn (capture.h) */
    size_t position;                      /* scratch: among the chosen */
    struct halay_withdrawal *withdrawal;  /* borrowed: withdrawn submissions (withdraw.c); or NULL */
    int is_join;                          /* of a join */
    int is_change;                        /* of a change of process sets */
    struct halay_tensor_entry_list *list; /* the list that it is on, or NULL */
    struct halay_tensor_entry *previous, *next;
};

/* Creates an entry for a coordinator of this number of ranks; the name is copied. NULL: no memory. */
struct halay_tensor_entry *halay_tensor_entry_create(const char *name, size_t length, uint64_t hash, int size);
/* Frees an entry that is in no table and on no list any more. */
void halay_tensor_entry_free(struct halay_tensor_entry *entry, int size);
/* Frees the announcements, which are agreed or void. */
void halay_tensor_entry_free_announced(struct halay_tensor_entry *entry, int size);
/* Limits the entry to these ranks of the coordinator: numbers, which may be any. */
enum halay_status halay_tensor_entry_ask_only(struct halay_tensor_entry *entry, int size, const uint64_t *ranks,
                                              size_t count);
/* Keeps a rank's announcement that differs from the agreement. */
enum halay_status halay_tensor_entry_announce(struct halay_tensor_entry *entry, int size, int rank,
                                              const struct halay_signature *signature, const void *payload,
                                              size_t count);

/* Removes it from its list, if any; appends it to a list. */
void halay_tensor_entry_list_remove(struct halay_tensor_entry *entry);
void halay_tensor_entry_list_append(struct halay_tensor_entry_list *list, struct halay_tensor_entry *entry);
enum halay_status halay_tensor_entry_push(struct halay_tensor_entry_vector *v, struct halay_tensor_entry *entry);

/* Returns nonzero if a rank that takes part has not arrived. */
static inline int halay_tensor_entry_lacks(const struct halay_tensor_entry *entry, int rank)
{
    return !entry->state[rank] && !(entry->outside && entry->outside[rank]);
}

/* Returns the signature of a rank that has arrived. */
static inline const struct halay_signature *halay_tensor_entry_signature(const struct halay_tensor_entry *entry,
                                                                         int rank)
{
    return entry->state[rank] == HALAY_ENTRY_ANNOUNCED ? &entry->announced[rank].signature : &entry->agreed;
}

/* Returns its payload of `count` words. */
static inline const uint64_t *halay_tensor_entry_payload(const struct halay_tensor_entry *entry, int rank, size_t count)
{
    return entry->state[rank] == HALAY_ENTRY_ANNOUNCED ? entry->announced[rank].payload.at
                                                       : entry->payload.at + (size_t)rank * count;
}

#endif
