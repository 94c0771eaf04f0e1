/* SPDX-License-Identifier: Apache-2.0
 *
 * Path: an optional way of a submission, which does without the coordinator. The engine knows the paths of a context
 * only by this table; fusion/paths/paths.c lists them.
 *
 *     program's thread   name       the path takes the description, and keeps its name
 *     driver             submit     it has the request, which it ends (halay_request_end)
 *                        progress   it does what can be done without waiting, in each step
 *                        withdraw   the program cancels the request, or its time is over
 *                        look       nothing happened in a step: it reports what stalls
 *                        abandon    the engine has failed, or closes
 */
#ifndef HALAY_PATH_H
#define HALAY_PATH_H

#include "fusion/protocol/signature_words.h"
#include "fusion/state/context.h"
#include "fusion/state/entry.h"
#include "fusion/state/request.h"

/* What a description is submitted or registered as. */
struct halay_naming {
    const struct halay_tensor_info *info; /* what the program gave, or own */
    struct halay_process_set *names;      /* where its name is kept */
    char *unnamed;                        /* name, if it becomes complete with the submission; else NULL */
    struct halay_tensor_info own;
    size_t words[HALAY_POINT_WORDS]; /* own.splits, if a path has set it */
    char name[HALAY_NAME_MAX + 1];
};

/* Where and when a stall is reported. */
struct halay_path_look {
    int64_t report_us;         /* report what has waited for this time, and again after it; 0: never */
    int64_t limit_us;          /* fail if something has waited for this time; 0: never */
    int rank;                  /* set on failure: the rank that is missing, -1: none in particular */
    char text[HALAY_TEXT_MAX]; /* set on failure */
};

struct halay_path_ops {
    const char *what; /* for messages: "a send or receive" */
    /* Sets naming->info and names if this path takes the description. HALAY_ERR_ARGUMENT, said: its name is invalid.
     * On the program's threads, no lock held; everything below is for the driver. */
    enum halay_status (*name)(struct halay_path *path, const struct halay_tensor_info *info,
                              struct halay_naming *naming);
    /* Takes a request whose entry is one of path->names. HALAY_ERR_NO_MEMORY. */
    enum halay_status (*submit)(struct halay_path *path, struct halay_request *request);
    /* Takes it back, with request->withdrawn, if it has not begun. May be called again. HALAY_ERR_NO_MEMORY. */
    enum halay_status (*withdraw)(struct halay_path *path, struct halay_request *request);
    /* That rank has sent this one `due` messages of the path so far (HALAY_ITEM_LISTEN). HALAY_ERR_NO_MEMORY. */
    enum halay_status (*listen)(struct halay_path *path, int rank, uint64_t due);
    /* *did grows if anything got further. HALAY_ERR_PEER: *rank (-1: not known) is gone; other errors are this
     * rank's. */
    enum halay_status (*progress)(struct halay_path *path, size_t *did, int *rank);
    /* Reports what stalls. HALAY_ERR_PEER: something has waited for too long. */
    enum halay_status (*look)(struct halay_path *path, struct halay_path_look *look);
    /* Gives everything up; the caller ends the requests, whose memory nothing touches any more. */
    void (*abandon)(struct halay_path *path);
    void (*destroy)(struct halay_path *path);
};

/* The part of a path that the engine knows; first in the path's own struct. */
struct halay_path {
    const struct halay_path_ops *ops;
    struct halay_context *ctx; /* borrowed */
    struct halay_path *next;
    struct halay_process_set names; /* of what it takes: no set of ranks */
};

/* The path that has the request; NULL: the coordinator has it. In flight only. */
static inline struct halay_path *halay_request_path(const struct halay_request *request)
{
    return request->entry->set->path;
}

#endif
