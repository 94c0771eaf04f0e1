/* SPDX-License-Identifier: Apache-2.0
 *
 * What ranks agree on before they work together: that none has failed, and that all have the same data. A rank that
 * fails is named with its host, on every rank.
 */
#include "base/number_text.h"
#include "tft/core/api/api_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 56, NAMED_MAX = 8 };

static void write_host(char host[HOST_SIZE])
{
    memset(host, 0, HOST_SIZE);
    if (gethostname(host, HOST_SIZE - 1))
        snprintf(host, HOST_SIZE, "?");
}

/* Sends the error of a rank that failed to the others; those without an error of their own log it. */
static enum halay_status share_cause(struct halay_tft *t, int failed, enum halay_status status)
{
    char text[HALAY_ERROR_TEXT_MAX] = "", own[HALAY_ERROR_TEXT_MAX], host[HOST_SIZE];

    if (t->rank == failed) {
        write_host(host);
        halay_log_last_error(&t->log, own, sizeof own);
        if (*own)
            halay_snprintf(text, sizeof text, "rank %d on host '%s': %s", failed, host, own);
    }
    enum halay_status shared = halay_broadcast(t->ctx, "session.cause", text, sizeof text, HALAY_U8, failed);
    if (status || shared)
        return status ? status : shared;
    return halay_fail(&t->log, HALAY_ERR_PEER, "%s", *text ? text : "another rank failed; its error has the cause");
}

enum halay_status tft_session_agree(struct halay_tft *t, enum halay_status status)
{
    int32_t first = status ? t->ranks - (t->ctx ? t->rank : 0) : 0; /* the size less the first rank that failed */

    t->owes_status = 0;
    if (!t->ctx || t->ranks == 1)
        return status;
    enum halay_status agreed = halay_allreduce(t->ctx, "session", NULL, &first, 1, HALAY_I32, HALAY_MAX);
    if (agreed)
        return status ? status : agreed;
    return first ? share_cause(t, t->ranks - first, status) : HALAY_OK;
}

/* A rank's record for the comparison, which rank 0 gets. */
struct data_mark {
    uint64_t digest;
    char host[HOST_SIZE];
};

/* Rank 0: fails if a rank has other data than this one, and names those that do. */
static enum halay_status compare_marks(struct halay_tft *t, const struct data_mark *marks)
{
    char others[NAMED_MAX * (HOST_SIZE + 32)] = "";
    size_t used = 0;
    int differing = 0;

    for (int r = 1; r < t->ranks; r++) {
        if (marks[r].digest == marks[0].digest || ++differing > NAMED_MAX)
            continue;
        used += (size_t)snprintf(others + used, sizeof others - used, "%srank %d on host '%.*s'",
                                 differing > 1 ? ", " : "", r, HOST_SIZE - 1, marks[r].host);
    }
    if (!differing)
        return HALAY_OK;
    if (differing > NAMED_MAX)
        snprintf(others + used, sizeof others - used, " and %d more", differing - NAMED_MAX);
    return halay_fail(&t->log, HALAY_ERR_FORMAT,
                      "the data of %s differ from those of rank 0 on host '%.*s': give all hosts copies of one file",
                      others, HOST_SIZE - 1, marks[0].host);
}

enum halay_status tft_session_compare_data(struct halay_tft *t, const struct halay_tft_data *data)
{
    struct data_mark mine = { 0 }, *all = NULL;

    if (!t->ctx || t->ranks == 1)
        return HALAY_OK;
    write_host(mine.host);
    enum halay_status status = tft_htd_digest(&t->log, &data->data, &mine.digest);
    if (!status && t->rank == 0 && !(all = calloc((size_t)t->ranks, sizeof *all)))
        status = halay_no_memory(&t->log, "to compare the data of %d ranks", t->ranks);
    if (!(status = tft_session_agree(t, status)) &&
        !(status = halay_gather(t->ctx, "session.data", &mine, 1, sizeof mine, HALAY_U8, all,
                                t->rank == 0 ? (size_t)t->ranks : 0, 0, NULL)))
        status = tft_session_agree(t, t->rank == 0 ? compare_marks(t, all) : HALAY_OK);
    free(all);
    return status;
}
