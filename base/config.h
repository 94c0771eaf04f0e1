/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: every environment variable that halay reads, in one table (config.c): name, type, default, help.
 *
 * Only config.c and launchers.c read the environment. HALAY_X overrides HOROVOD_X, and a program's setting overrides
 * both. A value that does not parse is an error with the accepted form (HALAY_ERR_CONFIG), never a default. An unknown
 * HALAY_X is a warning with the nearest known name (HALAY_TFT_* belongs to the trainer), an unknown setting an error,
 * an unknown HOROVOD_X a line at info level.
 */
#ifndef HALAY_BASE_CONFIG_H
#define HALAY_BASE_CONFIG_H

#include "base/launchers.h"
#include "base/log.h"
#include <stddef.h>
#include <stdio.h>

enum halay_deterministic { HALAY_DETERMINISTIC_OFF, HALAY_DETERMINISTIC_RUN, HALAY_DETERMINISTIC_RANKS };
enum halay_gpus { HALAY_GPUS_NONE, HALAY_GPUS_AUTO };
enum halay_join_average { HALAY_JOIN_AVERAGE_ALL, HALAY_JOIN_AVERAGE_PRESENT };

enum { HALAY_UCX_ENDPOINTS_MAX = 8, HALAY_TCP_STREAMS_MAX = 8 };

/* Values after parsing; strings are owned by the struct. */
struct halay_config {
    enum halay_log_level log_level; /* HALAY_LOG */
    char *bootstrap;                /* HALAY_BOOTSTRAP: auto, self, store, mpi */
    char *transport;                /* HALAY_TRANSPORT: transports.h */
    char *node;                     /* HALAY_NODE; NULL if absent */
    char *network_interface;        /* HALAY_NETWORK_INTERFACE: as in struct halay_network; NULL: all */
    int ports[2];                   /* HALAY_PORTS: as in struct halay_network */
    char *module_path;              /* HALAY_MODULE_PATH: the first folder to search for libhalay-mpi.so and so on */
    char *library;                  /* HALAY_LIBRARY: for the Python package only */
    size_t fusion_threshold;        /* HALAY_FUSION_THRESHOLD, bytes; 0: no fusion */
    size_t device_slab;             /* HALAY_DEVICE_SLAB, bytes; 0: none */
    enum halay_deterministic deterministic; /* HALAY_DETERMINISTIC */
    enum halay_join_average join_average;   /* HALAY_JOIN_AVERAGE; rank 0's counts */
    char *process_sets;                     /* HALAY_PROCESS_SETS: fusion/values/set_words.h reads it; NULL: none */
    size_t segment_bytes;      /* HALAY_SEGMENT_BYTES: address space of a rank's shared segment; 0: RAM and 8 GiB */
    long spin_us;              /* HALAY_SPIN_US: microseconds that a wait spins before it sleeps; -1: automatic */
    char *thread_affinity;     /* HALAY_THREAD_AFFINITY: auto, off or a list for fusion/observe/placement.h */
    enum halay_gpus gpus;      /* HALAY_GPUS: halayrun's */
    char *secret;              /* HALAY_SECRET: for halayrun, which reads it itself */
    char *opt_ml;              /* HALAY_OPT_ML: for halayrun, sm-entry and halay-tft, which read it themselves */
    int start_timeout_ms;      /* HALAY_START_TIMEOUT, given in seconds */
    int peer_timeout_ms;       /* HALAY_PEER_TIMEOUT, given in seconds */
    int host_silence_ms;       /* HALAY_HOST_SILENCE, given in seconds */
    int encrypt;               /* HALAY_ENCRYPT: connections between hosts are encrypted */
    int check;                 /* HALAY_CHECK: ranks compare what they call; rank 0's, once a world is open */
    int stall_check_ms;        /* HALAY_STALL_CHECK_TIME, given in seconds; 0: off */
    size_t slot_bytes;         /* HALAY_SLOT; 0: by the tuning table */
    int stall_shutdown_ms;     /* HALAY_STALL_SHUTDOWN_TIME, given in seconds; 0: never */
    char *flight;              /* HALAY_FLIGHT: a pattern for halay_rank_path; NULL: none */
    size_t flight_bytes;       /* HALAY_FLIGHT_BYTES */
    char *timeline;            /* HALAY_TIMELINE: a pattern as above, or "DYNAMIC" */
    size_t timeline_bytes;     /* HALAY_TIMELINE_BYTES */
    size_t fragment_bytes;     /* HALAY_RING_SEGMENT; 0: by the tuning table, until a world is open */
    int tcp_streams;           /* HALAY_TCP_STREAMS: connections with each peer of another host; 0: by the network */
    int ucx_endpoints;         /* HALAY_UCX_ENDPOINTS: connections with each peer */
    char *tuning;              /* HALAY_TUNING: a file, or "builtin"; NULL: the usual places */
    char *allreduce_algorithm; /* HALAY_ALLREDUCE_ALGORITHM, "auto" */
    char *reduce_algorithm;
    char *reduce_scatter_algorithm;
    char *broadcast_algorithm;
    char *allgather_algorithm;
    char *alltoall_algorithm;
    char *barrier_algorithm;
    /* Set by halayrun for its ranks. */
    int rank, size;             /* HALAY_RANK, HALAY_SIZE; both or none; -1 if absent */
    int local_rank, local_size; /* HALAY_LOCAL_RANK, HALAY_LOCAL_SIZE, from halayrun; -1 if absent */
    char *store_address;        /* HALAY_STORE_ADDRESS, "127.0.0.1:40000"; NULL if absent */
    int store_secret_fd;        /* HALAY_STORE_SECRET_FD; -1 if absent */
    int elastic;                /* HALAY_ELASTIC: base/store/elastic_words.h; -1: not an elastic job */
    struct halay_launchers launchers;
};

/* Parses the environment (environ). On error logs one line for each fault, and *config holds nothing. Sets log->level
 * to HALAY_LOG's first, so that the lines of this call obey it. */
enum halay_status halay_config_load(struct halay_log *log, struct halay_config *config);

/* Does the same for a caller that must find the other ranks even after an error, to report it to them: on error *config
 * holds all values that parse, and defaults for the rest; the caller calls fini. settings ("HALAY_X=value", NULL at the
 * end; NULL: none) override the environment; an unknown one, or one that halayrun makes, is HALAY_ERR_CONFIG. */
enum halay_status halay_config_load_rest(struct halay_log *log, const char *const *settings,
                                         struct halay_config *config);
void halay_config_fini(struct halay_config *config); /* zeroed or loaded */

/* Prints the table: a line a variable with its value, default and help. */
void halay_config_print(const struct halay_config *config, FILE *out);

/* A row of the table, for documentation, command lines and tests. Static storage. */
struct halay_config_variable {
    const char *name;           /* "HALAY_FUSION_THRESHOLD" */
    const char *horovod;        /* accepted too; NULL: none */
    const char *default_text;   /* "64M"; "": none */
    const char *help;           /* one line */
    const char *const *choices; /* accepted values, NULL at the end; NULL: any that parses */
    int is_set_by_launcher; /* belongs to one rank of one job: halayrun sets it, and never inherits an outer job's */
};
const struct halay_config_variable *halay_config_variable(size_t index); /* NULL past the last one */

/* Checks a value for a variable. HALAY_ERR_CONFIG: why names the accepted form ("is not a size; write for example
 * 67108864, 64M or 1G"); HALAY_ERR_ARGUMENT: unknown variable. */
enum halay_status halay_config_check(const char *name, const char *value, char *why, size_t size);

/* The environment, for programs that read it themselves or pass it on; NULL if the variable is absent. */
const char *halay_environment_get(const char *name);
const char *const *halay_environment_all(void); /* "NAME=value", NULL at the end; borrowed until it is changed */

#endif
