/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine, inside view: the context and what its files share. docs/reference/threading.md has the whole picture of who
 * runs where.
 *
 * Two worlds meet here. User threads submit, wait and register under `lock`, for moments. One thread at a time is the
 * *driver* (the background thread, or one in halay_wait) and does everything else; what only it uses has no lock.
 */
#ifndef HALAY_ENGINE_H
#define HALAY_ENGINE_H

#include "base/fork.h"
#include "collectives/api/group.h"
#include "collectives/group/world.h"
#include "fusion/coordinator/autotune.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/observe/counters.h"
#include "fusion/observe/recorder.h"
#include "fusion/rank/express.h"
#include "fusion/rank/link.h"
#include "fusion/values/members.h"
#include "fusion/values/row_words.h"
#include "fusion/values/table.h"
#include "halay.h"
#include <pthread.h>
#include <stdatomic.h>

/* A name this rank knows in a process set: registered, in flight, or with an agreed id. */
struct halay_entry {
    struct halay_table_node node;  /* first; the name is in the same block */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_tensor *tensor;   /* registered, or NULL; guarded by lock */
    struct halay_request *request; /* in flight, or NULL; set under lock by submit, cleared under lock by the driver */
    uint64_t submissions;          /* so far; guarded by lock */
    uint64_t tuned_step;           /* halay_autotune_submitted's memory; driver only */
    uint32_t id;                   /* agreed, or HALAY_NO_ID; written by the driver under lock */
    struct halay_signature agreed; /* valid with an id; driver only, as are these */
    struct halay_enrolment enrolment;
    struct halay_words said;  /* owned: by this rank, when it was agreed */
    struct halay_words heard; /* owned: the answer */
    /* how often in succession another submission or a wait followed at once, up to a few; guarded by lock */
    int followed;
};

/* The static bucket of a registered tensor (rank 0 in a deterministic mode); guarded by lock where not said
 * otherwise. */
struct halay_static_bucket {
    struct halay_static_bucket *next;
    uint64_t kind;
    size_t bytes, count, capacity;
    char **names; /* owned: the members in order of registration; NULL: unregistered before it was sealed */
    size_t alive;
    int is_sealed;                           /* a member was submitted: nothing is added any more */
    struct halay_coordinator_bucket *sealed; /* borrowed: the coordinator's; driver only */
    size_t *position;                        /* owned: of each name among the sealed ones; driver only */
};

struct halay_tensor {
    struct halay_context *ctx; /* borrowed: outlives it */
    struct halay_entry *entry; /* borrowed: outlives it */
    struct halay_signature signature;
    size_t count, bytes;
    struct halay_words words; /* owned: what this rank says with the signature */
    struct halay_part *parts; /* owned: of a group */
    const void *in;           /* borrowed while in flight */
    void *out;
    size_t out_bytes;
    uint64_t order;                     /* of registration, from 1 */
    struct halay_static_bucket *bucket; /* shared, or NULL */
    size_t member;
    int is_stale; /* it depends on the ranks that there were when it was registered; guarded by lock */
};

struct halay_request {
    struct halay_context *ctx;     /* borrowed */
    struct halay_process_set *set; /* borrowed: outlives it */
    struct halay_entry *entry;     /* borrowed while in flight */
    struct halay_request *next;    /* free list, or list of those that have ended */
    struct halay_signature signature;
    size_t count, bytes;
    struct halay_words words; /* owned, kept: what this rank says with the signature */
    struct halay_part *parts; /* owned, kept: of a group; as many as its signature has members */
    size_t part_capacity;
    size_t buckets_left; /* of a group: one a type; driver only */
    const void *in;      /* borrowed while in flight; in == out: in place */
    void *out;
    size_t out_bytes; /* room at out, of operations whose result has a size of its own; of their results: */
    void *held;       /* owned until the request is released: the result, where out is NULL or too small for it */
    size_t result_rows, result_bytes;
    int last_joined; /* of a join */
    int set_number;  /* of a change of process sets: of the first one made */
    size_t *rows;    /* owned, kept, [row_capacity]: of each rank in the result */
    size_t row_capacity;
    int has_rows;
    halay_callback callback;
    void *arg;
    uint64_t order;                     /* of the registered tensor's registration, 0: by name */
    struct halay_static_bucket *bucket; /* of the registered tensor; NULL: none */
    _Atomic int references;             /* the engine's until it has ended, the caller's */
    _Atomic int status; /* HALAY_IN_PROGRESS until it has ended: stored (release) by the driver after text and data are
                             final, loaded (acquire) by halay_test and halay_wait */
    int is_running;     /* given out by the coordinator; driver only */
    int is_over;        /* on the list of the ended; driver only */
    int is_part;        /* of nobody: join.c; driver only */
    int is_told;        /* of express: the coordinator knows of it; driver only, as is the next */
    int64_t put_us;
    enum halay_status final; /* what status will be; driver only */
    char *text;              /* owned, or NULL; written before status */
    uint64_t ordinal;        /* which submission of its name, from 1 */
    uint64_t hash;           /* of its name */
    /* For the recorder; 0: not recorded. Set under lock before the driver has it, then driver only. */
    int64_t submitted_ns, started_ns;
    uint64_t collective;
};

enum halay_event_kind { HALAY_EVENT_SUBMITTED, HALAY_EVENT_WAITED, HALAY_EVENT_UNREGISTERED };

/* What user threads tell the driver, in order. */
struct halay_event {
    enum halay_event_kind kind;
    struct halay_request *request;      /* SUBMITTED: borrowed, in flight */
    struct halay_static_bucket *bucket; /* UNREGISTERED */
    size_t member;
};

struct halay_events {
    struct halay_event *events; /* owned */
    size_t count, capacity;
};

enum halay_driver { HALAY_DRIVER_NONE, HALAY_DRIVER_THREAD, HALAY_DRIVER_WAITER };

struct halay_bucket; /* bucket.h */
struct request_slab; /* request.c */

/*
 * Some ranks of the job, or all of them: with names, an order, buckets and a group of their own, so that nothing in one
 * set waits for anything in another. Driver only, where not said otherwise.
 */
enum halay_set_state { HALAY_SET_OPEN, HALAY_SET_CLOSING, HALAY_SET_REMOVED };

struct halay_process_set {
    struct halay_context *ctx;      /* borrowed; set once, as are these */
    int number, size, rank;         /* 0: that of all ranks; this rank's number in it, -1: it is no member */
    int *ranks;                     /* owned, [size]: the job's numbers, ascending; NULL: all of them */
    struct halay_process_set *next; /* stored under lock by the driver: others look under lock */
    enum halay_set_state state;     /* guarded by lock */
    struct halay_table names;       /* guarded by lock */
    struct halay_entry **by_id;     /* owned array: [id], borrowed entries */
    size_t id_capacity;
    struct halay_coordinator *coordinator;        /* owned; rank 0 of the job only */
    struct halay_group *group;                    /* owned; NULL where this rank is no member */
    struct halay_bucket *waiting, **waiting_last; /* buckets to be started, in the agreed order */
    struct halay_bucket *running;                 /* under way */
    uint64_t collectives;                         /* that the coordinator has given out */
};

struct halay_context {
    struct halay_world *world;         /* owned; has been left while there is no link */
    struct halay_elastic *elastic;     /* owned; NULL: no elastic job, and no state either */
    struct halay_process_set all;      /* of all ranks; the first of the list of all sets that live */
    struct halay_process_set *removed; /* owned: those that don't; guarded by lock */
    struct halay_transport *control;   /* borrowed from world; NULL in a job of one rank without one */
    struct halay_log *log;             /* borrowed from world */
    int rank, size;

    unsigned char *is_parent; /* owned: base/fork.h; set once before start */
    pthread_mutex_t lock;
    struct halay_events submitted;                          /* guarded by lock */
    struct halay_request *free_requests;                    /* guarded by lock */
    struct request_slab *slabs;                             /* owned; guarded by lock */
    size_t registered;                                      /* count of registrations ever; guarded by lock */
    struct halay_static_bucket *static_first, *static_last; /* owned; guarded by lock */
    _Atomic size_t in_flight; /* submitted and not ended; written under lock, read anywhere (relaxed: a hint) */
    _Atomic int
        is_closing; /* halay_fini was called; stored (release) under lock after the last event, loaded by the driver */
    enum halay_status status;  /* first cause; guarded by lock, written by the driver */
    int lost;                  /* the rank that it names, -1: none; written by the driver */
    char text[HALAY_TEXT_MAX]; /* likewise */
    int is_joined;             /* a join is in flight: nothing else is taken; guarded by lock */
    _Atomic int is_unwaited; /* something was submitted since the last WAITED; written under lock, relaxed: read by the
                                program's thread that submitted */
    /* What a program's thread waits for, for the stall report, or NULL; relaxed: it is looked into under lock only, and
     * a request in halay_wait stays where it is. Of several waiting threads the last one to begin. */
    struct halay_request *_Atomic waited;
    _Atomic int flush_wanted; /* a waiter waits for something not running; relaxed: the wake orders it */
    _Atomic int has_left;     /* halay_fini need not wait longer; stored by the driver (release) */
    _Atomic int has_events;   /* submitted.count > 0; stored under lock, read by the driver before it takes it */

    /* The driver's role; guarded by lock. */
    enum halay_driver driver;
    _Atomic pthread_t calling_back; /* who is in a program's callback, or 0; relaxed: a thread looks for itself only */
    uint64_t role;                  /* grows whenever the role is taken: who slept sees whether it still has it */
    int is_asleep;                  /* who has the role sleeps, and touches nothing but the bell */
    int thread_dozes;     /* the background thread sleeps in the transport, whether it still has the role or not */
    int thread_is_parked; /* it sleeps on thread_wakes, and nobody has signalled that yet */
    int bell_wanted;      /* somebody has fallen asleep in the transport since the bell was rung last */
    int has_news;         /* something came while the driver was awake; it looks before it sleeps */
    int64_t drove_us;     /* when somebody gave the role up last */
    int listens;          /* somebody listens to peers at all times: rank 0 serves ranks in which it takes no part */
    _Atomic int waiters; /* threads in halay_wait that don't drive; written under lock, the driver reads it to hand over
                            (relaxed: whoever becomes a waiter leaves news) */
    _Atomic int is_stopping; /* the thread is to end; written under lock, the driver reads it (relaxed) */
    /* Threads that have unlocked and wake somebody: the context stays until they are through. Added to under lock
     * (relaxed); subtracted with release, for the acquire in halay_cycle_stop. */
    _Atomic int leaving;
    pthread_cond_t thread_wakes; /* the background thread: the role is free and there is work, or it is to end */
    pthread_cond_t waiter_wakes; /* waiters: something ended, or the role is free */
    pthread_cond_t idle;         /* a driver without a control transport */

    /* Wakes that are owed, because a call is expected to follow at once; guarded by lock. */
    int64_t owed_us;            /* since when */
    size_t owed_bytes;          /* of what was submitted since */
    _Atomic int is_owed;        /* written under lock; relaxed: read by the thread that is expected to call */
    struct halay_entry *latest; /* submitted last, and nothing was submitted or waited for since; or NULL */
    int has_left_some;          /* the same of a wait that ended with more in flight */
    int waits_followed;         /* how often in succession another wait followed such a one at once, up to a few */
    _Atomic int64_t called_us;  /* when the last of these calls came, or returned if it took long; relaxed: a hint */

    pthread_t thread; /* set once before start */

    /* Driver only from here on. */
    struct halay_events taken;
    struct halay_link *link; /* owned */
    struct halay_express express;
    struct halay_coordinator *coordinator;                /* borrowed: that of all ranks; rank 0 only */
    struct halay_coordinator_options coordinator_options; /* of its process sets but for what differs; rank 0 only */
    int sets_made;                                        /* process sets so far; the same on all ranks */
    int is_changing; /* process sets are about to be made or removed: nothing new is given out until then */
    struct halay_group_making *making; /* owned: the group of set number `making_number`; NULL: none is being made */
    int making_number;
    struct halay_request *ended, **ended_last; /* ended, to be delivered */
    struct halay_bucket *free_buckets;
    size_t *counts;                      /* owned: [2 size], scratch: elements to and from each rank */
    size_t running_count;                /* buckets under way, in all sets */
    int64_t now_us;                      /* the clock at the beginning of this step */
    int64_t checked_us;                  /* when peers and stalls were looked at last */
    unsigned char *left;                 /* owned: [rank], who said BYE */
    int suspect;                         /* gone, nobody knows why; since suspected_us */
    int64_t suspected_us;                /* 0: nobody is */
    int is_draining;                     /* failed because somebody left: what is under way still completes */
    int said_bye, is_done, said_fail;    /* BYE, FAIL was sent; DONE has come */
    long spin_thread_us, spin_waiter_us; /* set once before start */
    struct halay_autotune *autotune;     /* owned; NULL: off, or not rank 0. Set once before start, then driver only */
    _Atomic int autotune_stops;          /* the program wants no more of it; relaxed: any time soon will do */
    struct halay_recorder recorder;
    struct halay_tally tally; /* counters.h says who writes what */
};

/* ---- context.c ---- */

/* Is this a child of fork? It has neither the engine's thread nor a place among the ranks. */
static inline int halay_is_child(const struct halay_context *ctx)
{
    return halay_is_forked(ctx->is_parent);
}

/* A context over a world that is open; owns the world from success on. */
enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out);
/* What create does with a context that is closed, as new but for names and requests. On error it is closed still. */
enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world);
/* Leave the other ranks: all that is in flight ends, the thread too. What belongs to the world is destroyed, the world
 * is not. */
void halay_context_close(struct halay_context *ctx);

/* ---- elastic.c ---- */

/* Is it worth to start again after this? */
int halay_elastic_may_retry(enum halay_status status);
/* The context is of an elastic job; takes what heritage owns. how: as it was started. On error the context is gone. */
enum halay_status halay_elastic_init(struct halay_context *ctx, const struct halay_options *how,
                                     const struct halay_heritage *heritage);
void halay_elastic_fini(struct halay_context *ctx); /* the world is closed */
enum halay_status halay_elastic_alloc(struct halay_context *ctx, size_t bytes, void **ptr);
void halay_elastic_free(struct halay_context *ctx, void *ptr);

/* ---- fail.c: driver only ---- */

/* The engine is over: every request in flight ends with status and text, later submissions get status. The first cause
 * is kept. Tells the other ranks what it can. rank: whose fault, or -1. */
void halay_engine_fail(struct halay_context *ctx, enum halay_status status, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Somebody has left: what was under way has completed. */
void halay_engine_drained(struct halay_context *ctx);
/* A peer is gone: says "has left" or "has died". */
void halay_engine_fail_peer(struct halay_context *ctx, int rank);
/* The same, but if nobody knows why, the word of another rank is waited for. judge: in each step from then on. */
void halay_engine_peer_is_gone(struct halay_context *ctx, int rank);
void halay_engine_judge(struct halay_context *ctx);

/* ---- request.c ---- */

/* A request with one reference for the engine and one for the caller; NULL: no memory. */
struct halay_request *halay_request_get_locked(struct halay_context *ctx);
void halay_request_put(struct halay_request *request);
void halay_request_put_locked(struct halay_request *request);
/* Driver: the request ends; delivered later in this step. text may be NULL; copied. */
void halay_request_end(struct halay_request *request, enum halay_status status, const char *text);
/* HALAY_OK: this thread may wait for the engine (ctx may be NULL). HALAY_ERR_UNSUPPORTED: it is in a callback, for
 * whose return the engine waits; what (a call, for people) is logged. */
enum halay_status halay_may_block(struct halay_context *ctx, const char *what);
/* Driver, no lock held: callbacks, then waiters. Returns how many. */
size_t halay_requests_deliver(struct halay_context *ctx);
void halay_requests_free_all(struct halay_context *ctx);

/* ---- registry.c ---- */

/* Tell the driver; the lock is held. */
enum halay_status halay_events_push(struct halay_context *ctx, const struct halay_event *event);
/* The entry of a name; made if there is none. NULL: no memory. */
struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash);
/* Free the entry if nothing needs it any more. */
void halay_entry_release_locked(struct halay_entry *entry);
/* Every member was unregistered and the coordinator has let go of it. */
void halay_static_bucket_remove_locked(struct halay_context *ctx, struct halay_static_bucket *bucket);
/* Submit with a choice: wake the driver, or leave it to a wait that follows at once. */
enum halay_status halay_submit_info(struct halay_context *ctx, const struct halay_tensor_info *info,
                                    halay_callback callback, void *arg, int wakes, struct halay_request **request);
void halay_names_free_all(struct halay_process_set *set);
/* The ranks are others: nothing is agreed on any more. Names that are not registered are forgotten; registered tensors
 * that have become meaningless are marked. The engine is closed; rank and size are the new ones. */
enum halay_status halay_registry_renew(struct halay_context *ctx);
void halay_registry_free_all(struct halay_context *ctx);

/* ---- ids.c: agreed ids; driver only ---- */

enum halay_status halay_cache_agree(struct halay_process_set *set, const struct halay_item *item);
struct halay_entry *halay_cache_find(const struct halay_process_set *set, uint32_t id); /* NULL: no such id */
enum halay_status halay_cache_forget(struct halay_process_set *set, uint32_t id);

/* ---- tell.c: driver only ---- */

/* Tell the coordinator what was submitted since the last time; returns how many events. */
size_t halay_negotiate_submitted(struct halay_context *ctx);
/* An item from the coordinator or, on rank 0, from a rank. */
enum halay_status halay_negotiate_receive(void *ctx, int rank, const struct halay_item *item);
/* From a process set's coordinator, on rank 0, to the set's ranks. */
enum halay_status halay_negotiate_emit(void *set, int rank, const struct halay_item *item);
/* Rank 0: report what stalls, and end it after the limit. */
void halay_negotiate_stalls(struct halay_context *ctx);
/* Somebody is missing for a tensor that went by express. */
void halay_negotiate_late(struct halay_context *ctx, const struct halay_request *request);
/* Say BYE once the program is leaving. Nonzero if it was said now: what follows from it needs another step. */
int halay_negotiate_leave(struct halay_context *ctx);

/* ---- bucket.c: driver only ---- */

/* The coordinator gave this BUCKET out. HALAY_ERR_FORMAT: an id that this rank did not submit, or all are absent. */
enum halay_status halay_bucket_add(struct halay_process_set *set, const struct halay_item *item);
/* Start what can be started, progress what runs, end what has ended. Nonzero if
 * anything got further. */
size_t halay_buckets_progress(struct halay_context *ctx);
/* Give up everything; the requests have been ended by the caller. */
void halay_buckets_abandon(struct halay_context *ctx);
/* Is any given out and not ended? */
int halay_buckets_are_pending(const struct halay_context *ctx);
void halay_buckets_free_all(struct halay_context *ctx);

/* ---- step.c: driver only ---- */

/* What was submitted here, to the coordinator and the peers. Hears nothing, decides nothing, delivers nothing: a
 * submission does it, and returns at once. */
void halay_engine_say(struct halay_context *ctx);
/* One bounded piece of everything; never blocks. Nonzero if something happened. */
int halay_engine_step(struct halay_context *ctx);
/* Is something in flight, here or (rank 0) elsewhere? */
int halay_engine_is_pending(const struct halay_context *ctx);

/* ---- process_set.c ---- */

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank);
/* All of them, that of all ranks included; accepts any state from its init on. The engine has stopped. */
void halay_process_sets_fini(struct halay_context *ctx);
/* All but that of all ranks are removed, and that has nothing left but its names. The engine has stopped. */
void halay_process_sets_end(struct halay_context *ctx);
/* The number in the set of a rank of the job, -1: it is no member. */
int halay_process_set_rank_of(const struct halay_process_set *set, int rank);
/* The one of that number, if it lives, or NULL. lock held, or driver. */
struct halay_process_set *halay_process_set_by_number(struct halay_context *ctx, int number);
/* Its ranks, for people: "[0,3]". Cut to size. */
void halay_process_set_print_ranks(const struct halay_process_set *set, char *text, size_t size);
/* Those that halay_init makes: the program's, and the configuration's. Find out whether there are any (*wanted), and
 * whether they can be read: HALAY_ERR_CONFIG, HALAY_ERR_ARGUMENT. */
enum halay_status halay_process_sets_read_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                 size_t count, int *wanted);
/* Make them. Every rank of the job calls it if any wants some: who wants none says so, and disagrees. Blocks until all
 * ranks have asked, at most HALAY_START_TIMEOUT. */
enum halay_status halay_process_sets_create_static(struct halay_context *ctx, const struct halay_rank_list *lists,
                                                   size_t count);
/* Driver only: a request on which all ranks agree is in line. Sets that it makes exist from now on, since members that
 * are faster speak of them. */
enum halay_status halay_process_sets_prepare(struct halay_context *ctx, struct halay_request *request);
/* Driver only: do what this request asks for, on which all ranks agree; it is ended here if that is not possible.
 * HALAY_IN_PROGRESS: groups are being made, progress says when they are. abandon: nobody waits for them any more. */
enum halay_status halay_process_sets_change(struct halay_context *ctx, struct halay_request *request);
enum halay_status halay_process_sets_progress(struct halay_context *ctx, struct halay_request *request);
void halay_process_sets_abandon(struct halay_context *ctx);
/* Driver only: may it be done now? */
int halay_process_sets_may_change(struct halay_context *ctx, const struct halay_request *request);
/* Driver only: close the groups of all sets, with the context's status. culprit: whom others are to blame, -1: this
 * rank. */
void halay_process_sets_fail(struct halay_context *ctx, int culprit);
/* Driver only: look at the peers; HALAY_OK if the groups of all sets live. */
void halay_process_sets_check(struct halay_context *ctx);
enum halay_status halay_process_sets_status(const struct halay_context *ctx);

/* ---- join.c: driver only ---- */

/* This rank's part of what it did not submit, as it has joined. NULL: it has not, or no memory. */
struct halay_request *halay_join_part(struct halay_context *ctx, const struct halay_entry *entry);
void halay_join_part_end(struct halay_request *part);

/* ---- driver.c ---- */

/* What more than one submission may at most leave owed: so long after the first, and so much. */
enum { HALAY_OWED_US = 100, HALAY_OWED_BYTES = 4 << 20 };

void halay_cycle_init(struct halay_context *ctx); /* its locks */
void halay_cycle_fini(struct halay_context *ctx);
/* What a driver finds at the beginning; the thread is started. */
enum halay_status halay_cycle_start(struct halay_context *ctx);
void halay_cycle_stop(struct halay_context *ctx);
/* There is something new for the driver. lock not held. */
void halay_cycle_wake(struct halay_context *ctx);
/* Something of this entry was submitted, and who sees to its end: a callback; perhaps a wait; a wait that follows at
 * once. lock held; unlocks. */
enum halay_attendance { HALAY_CALLS_BACK, HALAY_MAY_WAIT, HALAY_WILL_WAIT };
void halay_cycle_submitted_unlock(struct halay_context *ctx, struct halay_entry *entry,
                                  enum halay_attendance attendance);
/* The program does something else than to wait: if a wake is owed because a wait was expected, it is done now. lock not
 * held. Cheap if none is. */
void halay_cycle_pay(struct halay_context *ctx);
/* Drive or sleep until done(arg) or the deadline. lock not held. Returns what done said last. */
int halay_cycle_wait(struct halay_context *ctx, int (*done)(void *arg), void *arg, int64_t deadline_us);

#endif
