/* SPDX-License-Identifier: Apache-2.0
 *
 * Relay: a rank sends a chunk on as soon as it has it, so that the levels of the tree overlap. WINDOW receives are
 * posted ahead, and WINDOW chunks are on their way to the children, with tags of their own: when some are taken back,
 * what was sent behind them does not meet the wrong receive.
 */
#include "collectives/messages/relay.h"
#include "collectives/group/channel.h"

enum { WINDOW = RELAY_WINDOW };

static size_t chunk_bytes(const struct relay *s, size_t k)
{
    size_t left = s->bytes - k * s->chunk;

    return left < s->chunk ? left : s->chunk;
}

size_t relay_state_bytes(int size)
{
    (void)size;
    return sizeof(struct relay);
}

void relay_start(const struct halay_coll *c)
{
    struct relay *s = c->state;

    s->bytes = c->out.count * c->element;
    s->chunk = c->group->world->config.fragment_bytes;
    s->chunks = halay_span_cuts(s->bytes, s->chunk);
    if (s->parent < 0)
        s->received = s->posted = s->chunks;
}

static void receive(struct halay_coll *c, struct relay *s)
{
    for (; s->posted < s->chunks && s->posted < s->received + WINDOW; s->posted++)
        coll_recv(c, s->parent, (uint32_t)(s->posted % WINDOW), coll_out(c) + s->posted * s->chunk,
                  chunk_bytes(s, s->posted), &s->recv[s->posted % WINDOW]);
    for (; s->received < s->posted && coll_is_settled(&s->recv[s->received % WINDOW]); s->received++)
        coll_advanced(c);
}

static int is_taken(struct relay *s, size_t k)
{
    for (int i = 0; i < s->children; i++)
        if (!coll_is_settled(&s->send[k % WINDOW][i]))
            return 0;
    return 1;
}

static void give(struct halay_coll *c, struct relay *s)
{
    for (; s->sent < s->giving && is_taken(s, s->sent); s->sent++)
        coll_advanced(c);
    for (; s->giving < s->received && s->giving < s->sent + WINDOW; s->giving++) {
        for (int i = 0; i < s->children; i++)
            coll_send(c, s->child[i], (uint32_t)(s->giving % WINDOW), coll_out(c) + s->giving * s->chunk,
                      chunk_bytes(s, s->giving), &s->send[s->giving % WINDOW][i]);
        coll_advanced(c);
    }
}

enum halay_status relay_progress(struct halay_coll *c)
{
    struct relay *s = c->state;

    if (s->parent >= 0)
        receive(c, s);
    give(c, s);
    return s->sent == s->chunks ? HALAY_OK : HALAY_IN_PROGRESS;
}

void relay_cancel(struct halay_coll *c)
{
    struct relay *s = c->state;

    for (int k = 0; k < WINDOW; k++) {
        coll_take_back(c, &s->recv[k]);
        for (int i = 0; i < s->children; i++)
            coll_take_back(c, &s->send[k][i]);
    }
}
