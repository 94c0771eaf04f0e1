/* SPDX-License-Identifier: Apache-2.0
 *
 * Path: an optional way of a submission without the coordinator. The engine knows the paths of a context only by this
 * table; fusion/paths/paths.c lists them.
 *
 *     program's thread   name       takes the description, and keeps its name
 *     driver             submit     takes the request, which the path ends (halay_request_end)
 *                        progress   does what is possible without waiting, in each step
 *                        withdraw   the program cancels the request, or its time limit has expired
 *                        look       reports stalls, after a step in which nothing happened
 *                        abandon    the engine has failed, or closes
 */
#ifndef HALAY_PATH_H
#define HALAY_PATH_H

#include "fusion/protocol/signature.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"

/* The name and the description under which a submission or registration is kept. */
struct halay_naming {
    const struct halay_tensor_info *info; /* the program's, or own */
    struct halay_process_set *names;      /* the set that keeps its name */
    size_t length;                        /* of the name */
    uint64_t hash;                        /* of the name */
    char *unnamed;                        /* name, if the submission completes it; otherwise NULL */
    struct halay_tensor_info own;
    size_t payload[HALAY_POINT_PAYLOAD]; /* own.splits, if a path has set it */
    char name[HALAY_NAME_MAX + 1];
};

/* Parameters and result of a check for stalls. */
struct halay_path_look {
    int64_t report_us;         /* report requests after this time, and again after it; 0: never */
    int64_t limit_us;          /* fail if a request has waited for this time; 0: never */
    int rank;                  /* set on failure: the missing rank, -1: none in particular */
    char text[HALAY_TEXT_MAX]; /* set on failure */
};

struct halay_path_ops {
    const char *failed; /* for messages: "a send or receive failed" */
    /* Sets naming->info and names if this path takes the description. HALAY_ERR_ARGUMENT, logged: its name is invalid.
     * On the program's threads, no lock held; all the following functions are for the driver. */
    enum halay_status (*name)(struct halay_path *path, const struct halay_tensor_info *info,
                              struct halay_naming *naming);
    /* Takes a request whose entry is one of path->names. HALAY_ERR_NO_MEMORY. */
    enum halay_status (*submit)(struct halay_path *path, struct halay_request *request);
    /* Withdraws a request, with request->withdrawn, if it has not begun. May be called again. HALAY_ERR_NO_MEMORY. */
    enum halay_status (*withdraw)(struct halay_path *path, struct halay_request *request);
    /* Notes that a rank has sent this one `due` messages of the path so far (HALAY_ITEM_LISTEN).
     * HALAY_ERR_NO_MEMORY. */
    enum halay_status (*listen)(struct halay_path *path, int rank, uint64_t due);
    /* Continues; *did grows if anything progressed. HALAY_ERR_PEER: *rank (-1: unknown) is lost; other errors are this
     * rank's. */
    enum halay_status (*progress)(struct halay_path *path, size_t *did, int *rank);
    /* Reports stalls. HALAY_ERR_PEER: a request has waited for too long. */
    enum halay_status (*look)(struct halay_path *path, struct halay_path_look *look);
    /* Abandons all requests; the caller ends them, and the path no longer accesses their memory. */
    void (*abandon)(struct halay_path *path);
    void (*destroy)(struct halay_path *path);
};

/* The part of a path that the engine uses; first in the path's own struct. */
struct halay_path {
    const struct halay_path_ops *ops;
    struct halay_context *ctx; /* borrowed */
    struct halay_path *next;
    struct halay_process_set names; /* names of its requests: not a set of ranks */
};

/* Returns the path that has the request; NULL: the coordinator has it. In flight only. */
static inline struct halay_path *halay_request_path(const struct halay_request *request)
{
    return request->entry->set->path;
}

#endif
