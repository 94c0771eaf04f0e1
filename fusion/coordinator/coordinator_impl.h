/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinator, inside view: shared by coordinator*.c.
 */
#ifndef HALAY_COORDINATOR_IMPL_H
#define HALAY_COORDINATOR_IMPL_H

#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/streams.h"
#include "fusion/values/enrolment.h"
#include "fusion/values/row_words.h"
#include "fusion/values/table.h"
#include <stdatomic.h>

enum { ENTRY_ABSENT, ENTRY_READY, ENTRY_ANNOUNCED };

struct entry_list {
    struct entry *first, *last;
    size_t count;
};

struct entry_vector {
    struct entry **entries; /* owned array of borrowed entries */
    size_t count, capacity;
};

/* What a rank has announced. */
struct announcement {
    struct halay_signature signature;
    struct halay_words words; /* owned */
};

/* A name. */
struct entry {
    struct halay_table_node node;  /* first */
    uint32_t id;                   /* HALAY_NO_ID: none */
    int forgetting;                /* ranks that have not yet answered FORGET */
    int is_revived;                /* agreed again meanwhile */
    struct halay_signature agreed; /* valid while there is an id, or on the fresh list */
    struct halay_enrolment enrolment;
    int present, different;         /* ranks that came; those of them that announced a signature */
    int absent;                     /* ranks that an average is not to be divided by, as they have joined */
    unsigned char *state;           /* [rank]; in the same block */
    struct halay_words words;       /* owned: what each rank says with it, one after the other */
    struct announcement *announced; /* owned: [rank], valid where state is ENTRY_ANNOUNCED; or NULL */
    uint64_t *early;                /* owned: [2 rank + event]: numbers of events before a bucket was sealed; or NULL */
    int64_t since_us, latest_us;    /* when the first rank came, and the latest one */
    uint64_t order;                 /* rank 0's order of registration + 1; 0: by name */
    uint64_t group;                 /* which bucket it was chosen for */
    size_t position;                /* scratch: among the chosen */
    struct halay_coordinator_bucket *bucket; /* borrowed: the static bucket it belongs to, or NULL */
    size_t member;
    int is_join;             /* ranks that join meet here */
    int is_change;           /* ranks that change the process sets meet here */
    struct entry_list *list; /* the one it is on, or NULL */
    struct entry *previous, *next;
};

/* A static bucket. */
struct halay_coordinator_bucket {
    struct halay_coordinator *coordinator; /* borrowed */
    struct halay_coordinator_bucket *previous, *next;
    struct halay_streams *streams; /* owned */
    struct entry **entries;        /* owned array: the members in order */
    struct entry **scratch;        /* owned array */
    size_t count;
};

/* How one rank comes. */
struct arrivals {
    struct entry *last;         /* borrowed: what it submitted last; NULL: nothing, or the name is forgotten */
    int64_t last_us;            /* when; 0: never */
    int is_asked, has_answered; /* for the stall report that is under way */
    enum halay_doing doing;     /* the answer */
    char waited[HALAY_NAME_MAX + 1];
    int waited_set; /* the number of its process set */
    /* As struct halay_straggler; written by the driver, relaxed, read by any thread. */
    _Atomic uint64_t times_last, late_ns, latest_ns;
};

struct halay_coordinator {
    struct halay_coordinator_options options;
    struct halay_coordinator *children, *next; /* borrowed: those of process sets; the parent's next child */
    struct halay_table names;
    struct entry **by_id; /* owned array: [id], NULL: free */
    uint32_t *free_ids;   /* owned; as long as by_id */
    size_t ids, id_capacity, free_count, ids_forgetting;
    size_t enrolled, express_places; /* names with a place for express, and how many may have one */
    struct entry_list waiting, resting;
    struct entry_vector fresh;    /* agreed, and the ranks don't know it yet */
    struct entry_vector runnable; /* agreed, to be planned (off) */
    struct entry_vector chosen;   /* to be given out: groups one behind the other */
    size_t runnable_bytes;
    uint64_t groups, events;
    struct halay_words column;     /* owned: scratch */
    struct halay_id_range *ranges; /* owned: scratch */
    size_t range_capacity;
    struct halay_plan_item *plan; /* owned: scratch */
    size_t *plan_heads;           /* owned: scratch */
    size_t plan_capacity;
    unsigned char *left; /* owned: [rank] */
    int left_count;
    unsigned char *joined; /* owned: [rank], has no more data */
    int joined_count;
    uint64_t last_joined;
    struct entry *join; /* all have joined: to be given out after all else; borrowed, or NULL */
    int flush, has_failed, is_done, out_of_memory;
    struct halay_coordinator_bucket *buckets; /* owned: list */
    struct arrivals *arrivals;                /* owned: [rank of the job]; the parent's only, as is what follows */
    _Atomic uint64_t met;                     /* tensors that all ranks submitted; as in arrivals */
    int64_t asked_us, reported_us;            /* stalls: when ranks were asked, 0: they aren't; the last report */
};

static inline struct halay_coordinator *halay_coordinator_parent(struct halay_coordinator *c)
{
    return c->options.parent ? c->options.parent : c;
}

/* The job's number of a rank. */
static inline int halay_coordinator_rank(const struct halay_coordinator *c, int rank)
{
    return c->options.ranks ? c->options.ranks[rank] : rank;
}

/* How one of the coordinator's ranks comes. */
static inline struct arrivals *halay_coordinator_arrivals(struct halay_coordinator *c, int rank)
{
    return &halay_coordinator_parent(c)->arrivals[halay_coordinator_rank(c, rank)];
}

/* "tensor 'x'", for people, with the process set if it is not that of all ranks. */
enum { HALAY_SUBJECT_MAX = HALAY_NAME_MAX + 40 };
void halay_coordinator_subject(const struct halay_coordinator *c, const struct entry *e, char *text, size_t size);

/* What a rank that has come says. */
static inline const struct halay_signature *halay_entry_signature(const struct entry *e, int rank)
{
    return e->state[rank] == ENTRY_ANNOUNCED ? &e->announced[rank].signature : &e->agreed;
}

/* The words that go with it: `says` of them. */
static inline const uint64_t *halay_entry_words(const struct entry *e, int rank, size_t says)
{
    return e->state[rank] == ENTRY_ANNOUNCED ? e->announced[rank].words.at : e->words.at + (size_t)rank * says;
}

enum halay_status halay_coordinator_push(struct entry_vector *v, struct entry *e);

/* ---- coordinator_agree.c ---- */

/* All ranks have come. *agreed: they agree; otherwise they are told, and the entry may be gone. */
enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct entry *e, int *agreed);

/* ---- coordinator.c ---- */

/* The entry of a name, made if there is none; NULL: no memory. */
struct entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length);
/* Nobody has announced anything about the name that is not agreed. */
void halay_entry_free_announced(const struct halay_coordinator *c, struct entry *e);
/* These run together, after all that was chosen before. */
enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct entry *const *entries, size_t count);
/* All ranks have come and it can't run: they are told, and it is as if they had not come. */
enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct entry *e, enum halay_status why,
                                           const char *text);
/* Keep what a rank says that is not what is agreed. */
enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, struct entry *e,
                                             const struct halay_signature *signature, const void *words, size_t count);
/* All ranks have come that have not joined: it is to run, or refused (then the entry may be gone). *agreed (NULL: not
 * wanted): the former. */
enum halay_status halay_coordinator_met(struct halay_coordinator *c, struct entry *e, int *agreed);

/* ---- coordinator_join.c ---- */

int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct entry *e);
/* Those that have joined count as present. *is_refused: not with this operation; the entry may be gone. */
enum halay_status halay_coordinator_fill_in(struct halay_coordinator *c, struct entry *e, int *is_refused);
/* A rank joins; what waited for it alone is to run, in all sets. */
enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank);
/* All have joined. */
void halay_coordinator_unjoin(struct halay_coordinator *c);

void halay_coordinator_destroy_buckets(struct halay_coordinator *c);

/* stragglers.c: the rank has come for the entry, e->present counts it; the entry is about to be freed. */
void halay_arrivals_note(struct halay_coordinator *c, int rank, struct entry *e, int64_t now_us);
void halay_arrivals_forget(struct halay_coordinator *c, const struct entry *e);
/* stalls.c: a rank says what it is doing. */
void halay_stalls_answer(struct halay_coordinator *c, int rank, const struct halay_item *item);

#endif
