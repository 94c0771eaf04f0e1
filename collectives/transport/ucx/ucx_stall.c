/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: the log gets a line for each of the first few ranks that transfers wait for:
 *
 *     rank 1: sent 2, received 1, waiting 1, credit 4194304, owed 4096, connected; posted 0x900; early 0x800;
 *     held none; UCX: lane[0]: 2:tcp/eth0 ...
 *
 * The counts are parts. That rank's own line says whether a part was lost on the way (its `sent` is larger than our
 * `received`), or arrived and met no receive (`early` has its tag).
 */
#include "collectives/transport/ucx/ucx_stall.h"
#include "base/clock.h"
#include "collectives/transport/ucx/ucx_worker.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer than a rank is late in a healthy collective. */
enum { STALL_S = 10 };

enum { PEERS_MAX = 4, TAGS_MAX = 4, TEXT_BYTES = 128, LINE_BYTES = 256 };

/* "posted 0x900 0x901 and 3 more" */
static void describe_list(const char *name, const struct halay_part *list, char text[TEXT_BYTES])
{
    int used = snprintf(text, TEXT_BYTES, "%s%s", name, list ? "" : " none"), count = 0;

    for (const struct halay_part *part = list; part; part = part->next)
        if (count++ < TAGS_MAX)
            used += snprintf(text + used, (size_t)(TEXT_BYTES - used), " %#" PRIx64, part->tag);
    if (count > TAGS_MAX)
        snprintf(text + used, (size_t)(TEXT_BYTES - used), " and %d more", count - TAGS_MAX);
}

static void print_endpoint(const void *ep, FILE *stream)
{
    ucp_ep_print_info((ucp_ep_h)ep, stream);
}

/* Writes what UCX prints of its lanes, on one line, without the blanks that make columns. */
static void describe_endpoint(ucp_ep_h ep, char line[LINE_BYTES])
{
    char *text = ep ? halay_ucx_text(print_endpoint, ep) : NULL;
    size_t used = 0;

    for (const char *at = text; at && used < LINE_BYTES - 3 && (at = strstr(at, "lane["));) {
        used += (size_t)snprintf(line + used, LINE_BYTES - used, "%s", used ? "; " : "");
        for (; *at && *at != '\n' && used < LINE_BYTES - 1; at++)
            if (*at != ' ' || at[1] != ' ')
                line[used++] = *at;
        line[used] = 0;
    }
    if (!used)
        snprintf(line, LINE_BYTES, "%s", ep ? "nothing" : "no endpoint");
    free(text);
}

static void report_peer(const struct halay_ucx_frames *frames, int rank)
{
    const struct halay_ucx_peer *peer = &frames->peers[rank];
    const struct halay_parts_peer *p = &frames->parts.peers[rank];
    char posted[TEXT_BYTES], granted[TEXT_BYTES], early[TEXT_BYTES], held[TEXT_BYTES], lanes[LINE_BYTES];

    describe_list("posted", peer->posted, posted);
    describe_list("granted", peer->granted, granted);
    describe_list("early", peer->early, early);
    describe_list("held", peer->held, held);
    describe_endpoint(peer->eps[0], lanes);
    halay_host_warning(
        frames->parts.host,
        "rank %d: sent %llu, received %llu, waiting %zu, credit %zu, owed %zu, %s; %s; %s; %s; %s; UCX: %s", rank,
        (unsigned long long)p->sent, (unsigned long long)p->received, p->waiting, peer->credit, peer->owed,
        p->is_unconnected ? "not connected" : "connected", posted, granted, early, held, lanes);
}

static void report(const struct halay_ucx_frames *frames)
{
    int count = 0;

    halay_host_warning(
        frames->parts.host,
        "nothing has moved over UCX for %d s. A rank may be late; if the job hangs, these lines of all its "
        "ranks, and `ss -tinp` on their hosts, say where",
        STALL_S);
    for (int r = 0; r < frames->parts.t.size && count < PEERS_MAX; r++)
        if (frames->parts.peers[r].waiting) {
            report_peer(frames, r);
            count++;
        }
}

static int is_waiting(const struct halay_ucx_frames *frames)
{
    for (int r = 0; r < frames->parts.t.size; r++)
        if (frames->parts.peers[r].waiting)
            return 1;
    return 0;
}

void halay_ucx_stall_look(struct halay_ucx_stall *stall, struct halay_ucx_frames *frames)
{
    /* A posted transfer starts the time: before it the program may have had nothing to move. */
    uint64_t moves = frames->moves + frames->parts.posted;

    if (stall->is_reported)
        return;
    if (stall->moves != moves || !stall->since_us) {
        stall->moves = moves;
        stall->since_us = halay_now_us();
        return;
    }
    if (halay_now_us() - stall->since_us < (int64_t)STALL_S * 1000000)
        return;
    stall->since_us = 0;
    if (!is_waiting(frames))
        return;
    stall->is_reported = 1;
    report(frames);
}
