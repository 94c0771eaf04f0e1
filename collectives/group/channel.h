/* SPDX-License-Identifier: Apache-2.0
 *
 * Group and channels: the structs of group.h, for group.c, drive.c and the algorithms over shared memory.
 */
#ifndef HALAY_CHANNEL_H
#define HALAY_CHANNEL_H

#include "base/fork.h"
#include "collectives/group/world.h"
#include "collectives/schedule/coll.h"
#include <pthread.h>
#include <stdatomic.h>

struct halay_area;   /* area.h */
struct halay_p2p;    /* p2p.h */
struct halay_detour; /* detour.h */
struct halay_nodes;  /* nodes.h */

/* The channel's counters; equal on all ranks between two collectives, except all_read. */
struct halay_channel_numbers {
    uint64_t chunks;   /* of collectives that arrive, fill and are done in chunks */
    uint64_t oneshots; /* exchanges */
    uint64_t all_read; /* all ranks are known to be done with these first exchanges: oneshot.h */
    uint64_t barriers;
};

struct halay_channel {
    int index;
    int is_taken;  /* from start to end of its collective; after a withdrawal until the group is renewed */
    uint64_t next; /* the number of the next collective here: modulo HALAY_CHANNELS it is index */
    struct halay_coll coll;
    unsigned char *state;   /* owned; NULL until the channel is first used */
    unsigned char *scratch; /* owned: the link's alloc gave it, where it has one */
    size_t scratch_bytes;
    size_t *starts; /* owned: 3 (size + 1): coll.h's starts, then in_starts, then rooted */
    struct halay_channel_numbers numbers;
    /* Owned, [rank]: this channel's area of each that shares memory with this rank, NULL for the others; all NULL if
     * nothing is shared. */
    struct halay_area **areas;
    _Atomic uint32_t **closed; /* borrowed from the group, [rank]: has it given up; NULL if nothing is shared */
};

/* One block that halay_group_alloc gave. */
struct halay_block {
    void *ptr;
    struct halay_block *next;
};

enum { HALAY_CHOICES = 64 };

/* A choice that choice.c has made. */
struct halay_choice {
    const struct halay_algorithm *algorithm; /* NULL: none yet */
    size_t slot;                             /* bytes: halay_select_slot */
    size_t bytes;
    int is_half;
};

/* The time for which a wait has made no progress (stalled.c). Zero-initialised. */
struct halay_stall {
    uint64_t work;       /* what the caller counts, at the last look */
    int64_t looked_us;   /* when that was; 0: not yet */
    int64_t waited_us;   /* without progress so far */
    int64_t reported_us; /* waited_us at the last report */
    int suspect;         /* the rank that was stopped at the last look, -1: none */
};

enum halay_stall_event { HALAY_STALL_NONE, HALAY_STALL_COUNTED, HALAY_STALL_REPORT, HALAY_STALL_END };

/* The transfers that a group without progress waits for; halay_posted_add fills it. */
struct halay_posted {
    uint64_t moved;            /* bytes of transfers under way that have been moved */
    unsigned char *is_awaited; /* borrowed, [rank]: set for a peer of a transfer; NULL: not wanted */
};

/* Sends and receives with a member that has closed its group: they have come this far since then. */
struct halay_p2p_left {
    uint64_t work;
    int64_t since_us; /* 0: no such member */
};

struct halay_group {
    struct halay_world *world; /* borrowed; if it closes_with_groups, the last one owns it */
    struct halay_group *next;  /* on world->groups */
    uint32_t number;           /* of its collectives' tags, in this epoch */
    uint32_t p2p_number;       /* of its sends, receives and close notices: another one, in all epochs */
    uint64_t proposed;         /* for the next epoch (epoch.h): what is agreed on is this or higher; 0: none */
    int rank, size, local_rank, local_size;
    int *members;                       /* owned, [rank]: its number in the world; NULL: all ranks in order */
    struct halay_shared_memory *memory; /* borrowed: what this rank shares with members; NULL: nothing */
    int *shared;                        /* owned, [rank]: its number there, -1: it shares none; NULL without memory */
    enum halay_sharing sharing;
    const char *transport;     /* the name of the link that reaches the farthest member */
    struct halay_nodes *nodes; /* owned; NULL: not several nodes, or none that shares memory */
    /* Owned, [rank]: each rank's flag there; NULL for a rank that shares none, and without memory. */
    _Atomic uint32_t **closed;
    /* Owned: what is left of it until all members have closed it; NULL: all ranks' group. */
    struct halay_group_end *end;
    const struct halay_reducer *reducer;
    enum halay_deterministic deterministic;
    int absent;                                             /* ranks that an average is not divided by */
    int chunk_shift;                                        /* 0; for tests, which have little data: coll.h */
    int is_checked;                                         /* ranks compare what they call first (check.h) */
    const struct halay_algorithm *forced[HALAY_COLL_COUNT]; /* NULL: choose by table */
    int hosts;                                              /* that the ranks are on */
    struct halay_choice choices[HALAY_CHOICES];             /* recent ones */

    const unsigned char *is_parent;    /* borrowed: the world's; base/fork.h */
    _Atomic(enum halay_status) status; /* the first cause; any thread reads it */
    _Atomic int failed_rank;           /* the rank that it names, or -1; stored before the status */
    _Atomic int is_aborted;            /* an abort is wanted; relaxed: struct halay_visits orders it */
    uint64_t next_number;              /* of the next collective */
    unsigned under_way;                /* bit i: channel i has a collective that is not complete */
    unsigned long work;                /* grows when a collective gets further */
    unsigned idle_polls;               /* looks since something happened; every so often the peers are checked */
    struct halay_stall stall;
    struct halay_posted *posted; /* borrowed; not NULL while cancel lists what is posted */
    long spin_us;                /* how long a wait may spin before it sleeps */
    int may_hog;                 /* there is a processor for every local rank: spinning takes it from no one */
    struct halay_channel channels[HALAY_CHANNELS];
    struct halay_p2p *p2p_first; /* borrowed: sends and receives under way, in the order of their start */
    struct halay_p2p *p2p_all;   /* owned: all that there are */
    struct halay_p2p_left p2p_left;
    struct halay_detour *detours; /* owned: all that there are */

    pthread_mutex_t lock;       /* guards blocks */
    struct halay_block *blocks; /* owned: what halay_group_alloc gave and halay_group_free has not taken */
};

/* Return the world's number of a rank of the group, and back: -1 if it is not a member. */
int halay_group_world_rank(const struct halay_group *group, int rank);
int halay_group_rank_of(const struct halay_group *group, int world_rank);

/* Returns nonzero if collectives, sends or receives are under way. */
static inline int halay_group_is_active(const struct halay_group *group)
{
    return group->under_way || group->p2p_first;
}

/* Wakes a member that shares memory with this rank and may be waiting for what was stored there. Any thread. */
static inline void halay_group_notify(const struct halay_group *group, int rank)
{
    group->memory->ops->notify(group->memory, group->shared[rank]);
}

/* group.c: makes a group of these ranks (NULL: of all), of which this is number `rank`, without a number; it is not yet
 * on the world's list. */
enum halay_status halay_group_make(struct halay_world *world, const int *members, int size, int rank,
                                   struct halay_group **out);
/* Not all members have areas for it: none uses shared memory in it. */
void halay_group_unshare(struct halay_group *group);
/* Opens a group whose number is set. offsets: [rank], of the areas of those that share memory with this rank; unused if
 * none does. HALAY_ERR_FORMAT: one is outside of what they share. */
enum halay_status halay_group_enter(struct halay_group *group, const uint64_t *offsets);
void halay_group_free_all(struct halay_group *group); /* NULL is allowed */

/* Logs that a forked child must not use a group, whose memory other ranks see; HALAY_ERR_UNSUPPORTED. */
enum halay_status halay_group_refuse_child(void);
static inline enum halay_status halay_group_check_process(const struct halay_group *group)
{
    return halay_is_forked(group->is_parent) ? halay_group_refuse_child() : HALAY_OK;
}

/* stalled.c */

/* Called while nothing advances; cheap. Logs a line when the collectives under way have not advanced for
 * HALAY_STALL_CHECK_TIME, and again after each such time. Returns nonzero, after a line, if the group must be closed: a
 * rank is stopped and nothing arrived for HALAY_PEER_TIMEOUT, or nothing advanced for HALAY_STALL_SHUTDOWN_TIME.
 * *rank: the rank to name, -1: none is known. */
int halay_group_has_stalled(struct halay_group *group, int *rank);
/* Returns the shortest of those times, or HALAY_NEVER. */
int64_t halay_stall_limit_us(const struct halay_config *config);
/* Counts the same for a wait outside of collectives. work changes with progress. */
enum halay_stall_event halay_stall_look(struct halay_stall *stall, const struct halay_config *config, uint64_t work);
/* Writes "stalled for 60 s: SUBJECT: waits for ranks 1, 3". is_awaited: [rank] of count; members: their numbers in the
 * world, NULL: the same. */
void halay_stall_print(const struct halay_stall *stall, const char *subject, const unsigned char *is_awaited, int count,
                       const int *members, char *text, size_t size);
/* Adds a transfer to group->posted. */
void halay_posted_add(const struct halay_group *group, const struct halay_transfer *x);

/* drive.c */

/* Begin and end a call of the thread that uses the world's groups (visit.h). What an abort changes, such as a
 * collective's status, is read and written within calls only. */
static inline void halay_call_enter(struct halay_world *world)
{
    if (halay_visits_begin(&world->visits))
        halay_visits_give_way(world);
}
static inline void halay_call_leave(struct halay_world *world)
{
    while (halay_visits_end(&world->visits))
        halay_call_enter(world);
}

/* Drives the collectives under way in all groups of the world. */
void halay_world_drive(struct halay_world *world);
/* How far all groups have come; changes when any collective does. */
unsigned long halay_world_work(const struct halay_world *world);

/* Makes the handle of a send or receive, which has no channel and no algorithm. */
void halay_coll_init(struct halay_coll *c, struct halay_group *group);
/* Returns HALAY_OK if the group takes calls. operation: for errors. */
enum halay_status halay_group_check_call(const struct halay_group *group, const char *operation);
/* Closes the group with an error that keeps this rank from its part, such as a device's: the other ranks do not wait
 * for it. What is refused, and a mismatch, end a call alone. Returns status. */
enum halay_status halay_group_take_error(struct halay_group *group, enum halay_status status);
/* Takes the next channel and resets its collective. */
enum halay_status halay_coll_take(struct halay_group *group, enum halay_coll_kind operation, struct halay_coll **out);
/* Starts the collective that the caller has filled in: chooses the algorithm, gets the storage. Returns the channel on
 * error. */
enum halay_status halay_coll_launch(struct halay_coll *c);
/* Returns the choice for it, valid until the next one; NULL if no data has to be moved. */
const struct halay_choice *halay_coll_choose(const struct halay_coll *c);
/* Starts it on the host's memory: with the check of the ranks first, if the group is checked. Returns as begin. */
enum halay_status halay_coll_go(struct halay_coll *c);
/* Starts the chosen algorithm; launch calls it, or the check once the ranks agree: HALAY_IN_PROGRESS, HALAY_OK if it is
 * complete, or HALAY_ERR_NO_MEMORY. */
enum halay_status halay_coll_begin(struct halay_coll *c);
/* Releases the channel's scratch. */
void halay_channel_scratch_put(struct halay_channel *channel, struct halay_link *link);
/* Checks the peers for a rank that waits for the others outside of collectives: closes the group if any rank has given
 * up. */
void halay_group_check_all(struct halay_group *group);
/* Ends a group: gives up the collectives under way and sends the peers a close notice. */
void halay_group_leave(struct halay_group *group);

#endif
