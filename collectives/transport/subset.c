/* SPDX-License-Identifier: Apache-2.0
 *
 * Subset: a table of operations whose peers are translated.
 *
 *     view       0     1     2            ranks = { 4, 0, 7 }
 *     inner      4     0     7
 *
 * A transfer is the inner transport's from the moment it is posted (x->peer is the inner number), so taking it back
 * needs no translation. The table is the view's own, since it carries the inner transport's name and has no more slots
 * than it.
 */
#include "collectives/transport/subset.h"
#include <stdlib.h>

struct subset {
    struct halay_link base;
    struct halay_link_ops ops;
    struct halay_link *inner; /* borrowed until close */
    int ranks[];              /* base.size of them: their numbers in inner; behind them is base.lost */
};

static struct subset *self_of(struct halay_link *t)
{
    return (struct subset *)t;
}

static void subset_send(struct halay_link *t, int peer, uint64_t tag, const void *buf, size_t bytes,
                        struct halay_transfer *x)
{
    struct subset *self = self_of(t);

    self->inner->ops->send(self->inner, self->ranks[peer], tag, buf, bytes, x);
}

static void subset_recv(struct halay_link *t, int peer, uint64_t tag, void *buf, size_t bytes, struct halay_transfer *x)
{
    struct subset *self = self_of(t);

    self->inner->ops->recv(self->inner, self->ranks[peer], tag, buf, bytes, x);
}

static void peer_gone(struct halay_link *t, int rank)
{
    t->lost[rank] = 1;
    if (t->failed_peer < 0)
        t->failed_peer = rank;
}

/* Lost ranks that are not in this view do not matter here. */
static enum halay_status subset_progress(struct halay_link *t)
{
    struct subset *self = self_of(t);

    enum halay_status status = self->inner->ops->progress(self->inner);
    if (status == HALAY_OK)
        return HALAY_OK;
    for (int r = 0; r < t->size; r++)
        if (self->ranks[r] == self->inner->failed_peer) /* the one to name, if it is here */
            peer_gone(t, r);
    for (int r = 0; r < t->size; r++)
        if (self->inner->lost[self->ranks[r]])
            peer_gone(t, r);
    return status == HALAY_ERR_PEER && t->failed_peer < 0 ? HALAY_OK : status;
}

static void subset_cancel(struct halay_link *t, struct halay_transfer *x)
{
    struct subset *self = self_of(t);

    self->inner->ops->cancel(self->inner, x);
}

static enum halay_status subset_alloc(struct halay_link *t, size_t bytes, void **out)
{
    struct subset *self = self_of(t);

    return self->inner->ops->alloc(self->inner, bytes, out);
}

static void subset_free(struct halay_link *t, void *ptr)
{
    struct subset *self = self_of(t);

    self->inner->ops->free(self->inner, ptr);
}

static enum halay_status subset_hold(struct halay_link *t, size_t bytes, void **out)
{
    struct subset *self = self_of(t);

    return self->inner->ops->hold(self->inner, bytes, out);
}

static void subset_release(struct halay_link *t, void *ptr)
{
    struct subset *self = self_of(t);

    self->inner->ops->release(self->inner, ptr);
}

static void *subset_area(struct halay_link *t, int peer, int index)
{
    struct subset *self = self_of(t);

    return self->inner->ops->area(self->inner, self->ranks[peer], index);
}

static void subset_clear(struct halay_link *t, int index, int count)
{
    struct subset *self = self_of(t);

    self->inner->ops->clear(self->inner, index, count);
}

static uint64_t subset_locate(struct halay_link *t, const void *ptr, size_t bytes)
{
    struct subset *self = self_of(t);

    return self->inner->ops->locate(self->inner, ptr, bytes);
}

static void *subset_reach(struct halay_link *t, int peer, uint64_t offset, size_t bytes)
{
    struct subset *self = self_of(t);

    return self->inner->ops->reach(self->inner, self->ranks[peer], offset, bytes);
}

static int subset_has_left(struct halay_link *t, int peer)
{
    struct subset *self = self_of(t);

    return self->inner->ops->has_left(self->inner, self->ranks[peer]);
}

static void subset_notify(struct halay_link *t, int peer)
{
    struct subset *self = self_of(t);

    self->inner->ops->notify(self->inner, self->ranks[peer]);
}

static long subset_arm(struct halay_link *t)
{
    struct subset *self = self_of(t);

    return self->inner->ops->arm(self->inner);
}

static void subset_close(struct halay_link *t)
{
    free(t);
}

static const struct halay_link_ops subset_ops = {
    .send = subset_send,
    .recv = subset_recv,
    .progress = subset_progress,
    .cancel = subset_cancel,
    .alloc = subset_alloc,
    .free = subset_free,
    .area = subset_area,
    .clear = subset_clear,
    .locate = subset_locate,
    .reach = subset_reach,
    .has_left = subset_has_left,
    .notify = subset_notify,
    .arm = subset_arm,
    .close = subset_close,
};

int halay_subset_inner_rank(const struct halay_link *t, int rank)
{
    while (t->ops->close == subset_close) {
        const struct subset *self = (const struct subset *)t;
        rank = self->ranks[rank];
        t = self->inner;
    }
    return rank;
}

enum halay_status halay_subset_open(struct halay_link *inner, const int *ranks, int count, int rank, unsigned caps,
                                    struct halay_link **out)
{
    struct subset *self = calloc(1, sizeof *self + (size_t)count * (sizeof *self->ranks + sizeof *self->base.lost));

    if (!self)
        return HALAY_ERR_NO_MEMORY;
    self->ops = subset_ops;
    self->ops.name = inner->ops->name;
    if (inner->ops->hold) { /* NULL there means that any memory is as good */
        self->ops.hold = subset_hold;
        self->ops.release = subset_release;
    }
    self->base = (struct halay_link){
        .ops = &self->ops,
        .caps = inner->caps & caps,
        .rank = rank,
        .size = count,
        .failed_peer = -1,
        .lost = (unsigned char *)(self->ranks + count),
        .log = inner->log,
    };
    self->inner = inner;
    for (int r = 0; r < count; r++)
        self->ranks[r] = ranks[r];
    *out = &self->base;
    return HALAY_OK;
}
