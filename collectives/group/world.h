/* SPDX-License-Identifier: Apache-2.0
 *
 * World: all ranks of this job and how they are reached: bootstrap, peers, transports. Opened once per context.
 */
#ifndef HALAY_WORLD_H
#define HALAY_WORLD_H

#include "base/config.h"
#include "base/log.h"
#include "base/machine/topology.h"
#include "base/transports.h"
#include "collectives/group/group_end.h"
#include "collectives/group/visit.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/bootstrap/boot.h"
#include "collectives/transport/device_work.h"
#include "collectives/transport/route.h"

struct halay_devices; /* transport/devices.h */
struct halay_group;
struct halay_host; /* transport/module.h */
struct halay_tuning;
struct halay_peers; /* where each rank runs, and whether it still does: bootstrap/peers.h */

/* State that a process of an elastic job carries from one world to the next; the first fills it. Zero-initialised. */
struct halay_carried {
    struct halay_log *log;                       /* owned, as are these; NULL: there has been no elastic world */
    struct halay_elastic_client *elastic_client; /* bootstrap/elastic_client.h */
    struct halay_shm_memory *memory; /* shm/shm_memory.h: of this process, whether a transport uses it or not */
};
void halay_carried_fini(struct halay_carried *carried);

enum { HALAY_INTERFACES_BYTES = 64 };

struct halay_world {
    struct halay_log *log;      /* owned */
    struct halay_config config; /* owned */
    struct halay_topology topology;
    struct halay_boot *boot;           /* owned */
    struct halay_tuning *tuning;       /* owned: what algorithms are chosen by, the same on all ranks */
    struct halay_peers *peers;         /* owned; NULL if `dead` is in its place */
    uint32_t modules_any, modules_all; /* bits of enum halay_transport_index: some rank has the module's file, or all */
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host, in order of rank */
    int cross_rank, cross_size; /* this host's number, in order of the hosts' lowest ranks; number of hosts */
    int is_homogeneous;         /* every host has the same number of ranks */
    int *node_of;               /* owned, [rank]: the number of its node, in order of their lowest rank */
    int *node_rank;             /* owned, [rank]: its rank among the ranks of its node */
    unsigned char *restless;    /* owned, [rank]: it was writing here when a group was given up (drive.c) */
    struct halay_link *data;    /* owned: what collectives move data over */
    /* Owned: the ranks of this host, numbered in their order. NULL where there is one host, where each has one rank, or
     * where the ranks of some host cannot share memory. All ranks have it or none. */
    struct halay_link *node;
    struct halay_shared_memory *memory; /* borrowed: of one of these; NULL: this rank shares none */
    /* Carries the engine's messages. Owned unless it is `data`. On several hosts NULL until
     * halay_world_open_control. */
    struct halay_link *control;
    struct halay_link *reached; /* owned: as control, before an engine wants it; NULL: it isn't open, or control */
    /* The networks that the connections with ranks of other hosts take here, as "eth0,eth1"; "": not known. */
    char interfaces[HALAY_INTERFACES_BYTES];
    struct halay_route route; /* over data and node; owned, from settle on */
    struct halay_bell bell;   /* what this rank sleeps on, whichever of them it waits for */
    /* No group that this rank has been in has this number or a higher one, below HALAY_EPOCHS_FIRST and from there. */
    uint32_t next_group;
    uint64_t next_epoch;
    struct halay_group_end *ends;        /* owned: of groups that are closed here, and not yet by all their members */
    struct halay_group *groups;          /* borrowed: all groups that are open */
    struct halay_visits visits;          /* of threads that do not use the groups */
    unsigned char *is_parent;            /* owned: base/fork.h */
    int closes_with_groups;              /* the last group that is closed closes the world */
    struct halay_host *host;             /* owned: what modules may call */
    enum halay_mpi_abi comm_abi;         /* of the program's communicator; 0 if it gave none */
    void *module[HALAY_TRANSPORT_COUNT]; /* owned: handles of loaded modules */
    struct halay_devices *devices;       /* owned: whose memory groups take (detour.h); NULL: the host's only */
    void *(*stream)(void *arg, int device); /* as in struct halay_options */
    void *stream_arg;                       /* borrowed */
    int moving;                             /* detours that wait for a device */
    int64_t moved_us;                       /* when that number changed */
    /* Borrowed. NULL: the world owns its log, and belongs to no elastic job. */
    struct halay_carried *carried;
    /* Instead of peers where ranks are not processes: returns the one that has died, or -1. NULL: none can die. */
    int (*dead)(void *arg);
    void *dead_arg; /* borrowed */
};

/* Returns nonzero if devices of all ranks that access each other's memory make collectives among themselves; of several
 * hosts only a sum or average of f32, f16 or bf16. The same on all ranks. */
static inline int halay_world_devices_can_take(const struct halay_world *world, int is_sum)
{
    return world->is_homogeneous && world->local_size <= HALAY_DEVICE_RANKS && (world->cross_size == 1 || is_sum);
}

struct halay_world_options {
    const char *bootstrap; /* NULL: the configuration's */
    /* An MPI_Comm whose ranks these are, instead of a bootstrap's; NULL: none. Borrowed for the call. */
    const void *comm;
    enum halay_mpi_abi comm_abi;
    const struct halay_rendezvous *rendezvous; /* the same with a store of the program's; NULL: none. Borrowed, too. */
    const struct halay_unique_id *unique_id;   /* borrowed, too; NULL: none */
    int rank, size;                            /* with a unique id */
    struct halay_boot *boot;                   /* one that is open, instead; the world owns it */
    struct halay_boot_watch *watch;            /* borrowed until halay_world_finish_start; NULL: none */
    const char *transport;
    const char *const *settings; /* halay_config_load_rest's; NULL: none */
    /* With boot: the settings of another world, to be copied; borrowed for the call. NULL: the environment. */
    const struct halay_config *config;
    const char *join_average; /* "all", "present"; NULL: the configuration's */
    int uses_devices;         /* groups take data on devices: as in struct halay_options, as the next */
    void *(*stream)(void *arg, int device);
    void *stream_arg;
    void (*log_write)(void *arg, enum halay_log_level level, const char *line); /* NULL: standard error */
    void *log_arg;
    /* Borrowed until close. NULL: the caller has no use for an elastic job, and is refused in one. */
    struct halay_carried *carried;
    int lost;      /* with carried state in use: the rank whose loss ended the last generation, or -1 */
    int has_state; /* with one: whether this process can give the job's state to others */
    /* An error that the caller has found in its arguments, and logged, or HALAY_OK. The world still starts with
     * the other ranks and reports it to them. */
    enum halay_status status;
};

/* Reads a program's options into *how, zeros where it has none, and fills *start from them. An error, logged, is in
 * start->status. options may be NULL; what they point to is borrowed until the world is open. */
void halay_world_options_read(const struct halay_options *options, struct halay_options *how,
                              struct halay_world_options *start);

/* Blocks until all ranks have started; in an elastic job first until halayrun gives this process a place, without a
 * time limit (HALAY_ERR_CLOSED: it gets none), and HALAY_ERR_PEER and HALAY_ERR_TIMEOUT mean that it is worth
 * to try again. With a communicator HALAY_ERR_ARGUMENT too. *out is not written if options->status is an error. */
enum halay_status halay_world_open(const struct halay_world_options *options, struct halay_world **out);

/* Ends the start: halay_world_agree is not called after this. */
void halay_world_finish_start(struct halay_world *world);

/* Once data, node and memory are known: makes the route, and takes the size of a chunk from the tuning table.
 * HALAY_ERR_NO_MEMORY. */
enum halay_status halay_world_settle(struct halay_world *world);

/* Opens a control transport among all ranks, unless one is open. Every rank calls it; it may block until all have. With
 * one rank it does nothing. */
enum halay_status halay_world_open_control(struct halay_world *world);

/* The ranks of other hosts are connected, so that it is known by which networks they are reached; an engine's control
 * transport takes the connections over. forget: no engine will. Every rank calls reach, as open_control. */
enum halay_status halay_world_reach_hosts(struct halay_world *world);
void halay_world_forget_hosts(struct halay_world *world);

/* Every rank sends its status (mine) and whether it wants something; *wanted: whether any does.
 * Returns mine if it is an error, else the first error of another rank, whose number is logged. Over the bootstrap: may
 * block until all have come, at most HALAY_START_TIMEOUT. */
enum halay_status halay_world_agree(struct halay_world *world, enum halay_status mine, int *wanted);

/* HALAY_OK, or HALAY_ERR_PEER with *rank set once a peer is known to be dead. Cheap: looks at the operating system at
 * most every millisecond of `now_us` (base/clock.h). */
enum halay_status halay_world_check_peers(struct halay_world *world, int *rank);
/* Returns nonzero if that rank is known to be dead, once check_peers has found any. */
int halay_world_is_dead(const struct halay_world *world, int rank);
/* Another rank, `teller`, has found that rank dead: this one reports it in its turn when it leaves. Returns nonzero if
 * it is dead here, too, which is logged. The driver. */
int halay_world_learn_death(struct halay_world *world, int rank, int teller);
/* Returns nonzero if that rank's process has ended without leaving. Looks at once; of another host's process only its
 * connection is known. */
int halay_world_has_died(const struct halay_world *world, int rank);
/* Returns nonzero if it is lost because its host does not answer. */
int halay_world_is_unreachable(const struct halay_world *world, int rank);
/* Returns the name of the host of a rank that is unreachable; borrowed. */
const char *halay_world_host(const struct halay_world *world, int rank);

/* Returns nonzero if that rank's process is stopped; only ranks of this host are known. Reads /proc. */
int halay_world_is_stopped(const struct halay_world *world, int rank);

/* Loads the module of devices, as options ask. HALAY_ERR_UNSUPPORTED, HALAY_ERR_VERSION, HALAY_ERR_NO_MEMORY. */
enum halay_status halay_world_open_devices(struct halay_world *world, const struct halay_world_options *options);

/* Sets world->host: what modules may call. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_world_host_create(struct halay_world *world);

/* Returns how long this rank may sleep on world->bell, in us, after halay_bell_arm and a last look: HALAY_RINGS without
 * a limit, 0 if something has arrived. Called by the thread that drives. */
long halay_world_arm(struct halay_world *world);

/* Sets the fields that follow from node_of: node_rank, local, cross. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_world_lay_out(struct halay_world *world);

/* The first half of close: this rank leaves, and unmaps the memory that others write to. Queries about ranks still
 * work. */
void halay_world_leave(struct halay_world *world);
void halay_world_close(struct halay_world *world); /* NULL is allowed */

#endif
