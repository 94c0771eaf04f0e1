/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor of random_steps.c: its description, its data and results, and one submission of it.
 */
#ifndef HALAY_TEST_RANDOM_TENSOR_H
#define HALAY_TEST_RANDOM_TENSOR_H

#include "halay.h"
#include "tests/fusion/random.h"
#include "tests/fusion/random_steps.h"
#include <stdatomic.h>

enum {
    TENSORS_MAX = 10,
    EXTRA = TENSORS_MAX, /* a tensor that is in no pattern */
    TENSORS = TENSORS_MAX + 1,
    RANKS_MAX = 16,
    ELEMENTS_MAX = 20000,
    BUFFER_BYTES = ELEMENTS_MAX * 8 + 64,
    BANKS = 2, /* places of each tensor's buffers */
    WAIT_MS = 60000
};

struct random_tensor {
    char name[48];
    struct halay_tensor_info info; /* the same on all ranks, except shape[0] of rows, and the pointers */
    size_t elements;               /* of a reduction, a broadcast */
    int is_registered, in_place, is_group;
    struct halay_member members[2];
    struct halay_tensor *handle;
    int bank;
    size_t splits[RANKS_MAX];

    /* The current submission. */
    int number; /* the step */
    int is_in_flight, by_callback;
    struct halay_request *request;
    int timeout_ms;
    _Atomic int calls, status;
};

struct random_world {
    struct halay_context *ctx;
    int rank, size;
    uint64_t seed, schedule;
    struct random common, own;
    struct halay_process_set *set;     /* NULL: all ranks */
    int members[RANKS_MAX], count, me; /* of the set; this rank's number in it */
    int has_joined[RANKS_MAX];         /* by number in the set */
    int step;
    const char *doing; /* the last deviation */
    uint64_t notes;    /* a hash of how submissions ended */
    size_t tensor_count;
    struct random_tensor tensors[TENSORS];
    unsigned char *in[TENSORS][BANKS], *out[TENSORS][BANKS];
    struct random_steps_tally *tally;
};

enum { OK_ONLY = 1 << HALAY_OK };

/* A rank's buffers; with the context and its size in place. */
void random_world_init(struct random_world *w);
void random_world_fini(struct random_world *w);
/* Notes an outcome that has to be the same on all ranks, in any order. */
void random_world_note(struct random_world *w, uint64_t a, uint64_t b, uint64_t c);
/* Returns the number of checks of this file that have failed. */
int random_world_failed(void);

/* Draws the tensors of a pattern, and registers some. */
void random_pattern_draw(struct random_world *w);
/* Draws the description of a tensor's name, common to all ranks, and the place of this rank's data. */
void random_tensor_draw(struct random_world *w, struct random_tensor *t);
void random_tensor_draw_place(struct random_world *w, struct random_tensor *t);
int random_tensor_goes_by_rows(const struct random_tensor *t);
void random_tensor_register(struct random_world *w, struct random_tensor *t); /* if it is to be, and is not */
void random_tensor_unregister(struct random_tensor *t);

/* Prepares a submission: fills the tensor, and decides how it is completed. Then any thread may submit it. */
void random_tensor_submit(struct random_world *w, struct random_tensor *t);
void random_tensor_prepare(struct random_world *w, struct random_tensor *t);
void random_tensor_submit_prepared(struct random_world *w, struct random_tensor *t);
/* The same, with a request that can be canceled. */
void random_tensor_submit_kept(struct random_world *w, struct random_tensor *t);
/* Makes only the call, which may be refused. */
enum halay_status random_tensor_give(struct random_world *w, struct random_tensor *t, struct halay_request **request);
/* Waits for its end, which has to be one of `allowed`: bit s for status s. Checks data, callbacks and text. */
void random_tensor_finish(struct random_world *w, struct random_tensor *t, unsigned allowed);

#endif
