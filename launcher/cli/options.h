/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun's command line: one table of options, from which parsing, help and suggestions follow.
 */
#ifndef HALAY_LAUNCHER_OPTIONS_H
#define HALAY_LAUNCHER_OPTIONS_H

#include "base/options.h"
#include <stddef.h>

enum { PER_HOST_AUTO = -1, PER_HOST_GPU = -2, PER_HOST_CPU = -3 };
enum { RESTARTS_MAX = 1000000 };

struct host_list;
struct join_door;
struct tunnel_pair;

enum binding { BIND_AUTO, BIND_CORES, BIND_NONE };

/* A variable that the ranks' environment gets. */
struct assignment {
    char *name;        /* owned */
    const char *value; /* points into name's block, after its zero */
    const char *from;  /* the option that set it; static */
};

/* An option as it was given. */
struct given {
    const char *option;    /* its name; static */
    char *value;           /* owned; "" if it takes none */
    int line;              /* of --config-file; 0: on the command line */
    const char *beaten_by; /* static: "the command line", "the environment" if that overrides it; NULL: it counts */
};

struct options {
    int ranks;
    int per_host;                 /* ranks of each host; PER_HOST_AUTO: as it has GPUs, or else cores; 0: not given */
    int is_module, no_python;     /* python_program.h */
    int max_restarts;             /* how often all ranks are started again after one has failed */
    const char *shown_ranks;      /* rank_list.h; borrowed from given; NULL: all */
    int is_elastic;               /* elastic_options.h */
    int least_ranks, most_ranks;  /* of an elastic job; 0: not given */
    const char *discovery_script; /* borrowed from given */
    int slots;                    /* of a host that the script names without a number; 0: not given */
    int elastic_timeout_ms, reset_limit, cooldown_ms[2];
    enum binding binding;
    int grace_ms;      /* after a rank has failed */
    int stop_grace_ms; /* after SIGINT, SIGTERM, SIGHUP, SIGQUIT */
    int no_prefix, timestamp, verbose;
    int dry_run, check_build, explain, version, help, list; /* say something and end */
    int mpi;                                                /* start by an MPI's launcher */
    int as_rank;                                            /* as_rank.h */
    const char *mpi_flavour, *mpi_args;                     /* borrowed from given; NULL if not given */
    int sagemaker;                                          /* sagemaker/launch.h */
    const char *join;                                       /* borrowed from given: node 0's address (join.h); NULL */
    int join_port, nodes, node_rank;                        /* of it; 0: not given; -1: not given */
    int least_nodes;                                        /* of a range, of which nodes is the end; 0: none */
    /* Set by join_lead in a job whose nodes have joined: all nodes, this one first, and the ways to them. */
    const struct host_list *joined;
    const struct tunnel_pair *tunnels;
    struct join_door *door;       /* NULL: this node is the only one */
    const char *ssh_keys;         /* borrowed from given: write them there; NULL if not given */
    const char *secret_file;      /* borrowed from given; NULL if not given */
    int insecure;                 /* no secret */
    int is_agent;                 /* started by a halayrun on another host: agent.h */
    int oversubscribe;            /* more ranks than slots */
    const char *hosts, *hostfile; /* borrowed from given; NULL if not asked for */
    const char *ssh;              /* a program and its first arguments */
    const char *ssh_identity, *remote_halayrun;
    int ssh_port;        /* 0: ssh's own */
    const char *metrics; /* where they are served (base/http/http.h) */
    const char *metrics_token_file;
    const char *status;        /* where the job's metrics are */
    const char *dump;          /* with status: a folder for records */
    const char *events;        /* a file */
    int removes_record;        /* halayrun chose the flight recorder's file */
    const char *output_folder; /* borrowed from given; NULL if not asked for */
    const char *call;          /* job/job_call.c */
    const char *folder;        /* where ranks begin */
    int has_own_folders;       /* the other hosts have theirs: folder is for this one */
    const char *config_file;
    struct given *given; /* owned; the command line's first, in order, then the file's */
    size_t given_count;
    struct assignment *assignments; /* owned; in the order in which they are to be set: -x first, flags last */
    size_t assignment_count;
    char **command;        /* borrowed: the rest of argv, NULL at the end; or python_command */
    char **python_command; /* owned: the same after python3; NULL: the program is run as it is */
};

/* Parses argv, and the file that --config-file names, into *options (zeroed or not). 0, or the exit code of a complaint
 * that has been written to standard error. */
int options_parse(int argc, char **argv, struct options *options);
void options_fini(struct options *options);

extern const struct halay_command_line options_line; /* in options.c: the table, for --help, tests and documentation */

#endif
