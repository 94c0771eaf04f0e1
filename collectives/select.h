/* SPDX-License-Identifier: Apache-2.0
 *
 * Choice of an algorithm: a pure function of what every rank knows alike, over a table that people can read (select.c).
 */
#ifndef HALAY_SELECT_H
#define HALAY_SELECT_H

#include "collectives/coll.h"

struct halay_select_query {
    enum halay_operation operation;
    size_t bytes; /* of the longer of in and out; all-to-all with splits: SIZE_MAX, no rank knows everybody's */
    int size;
    const char *transport; /* its name */
    unsigned caps;         /* of the transport, and HALAY_TRANSPORT_NODES */
    enum halay_deterministic deterministic;
    const struct halay_algorithm *forced; /* by configuration or call; NULL: by table */
};

/* The algorithm, never NULL; *why: a phrase that ends "... because", static storage. */
const struct halay_algorithm *halay_select(const struct halay_select_query *query, const char **why);

/* May this group use that algorithm? HALAY_OK or HALAY_ERR_UNSUPPORTED with *why. */
enum halay_status halay_select_allows(const struct halay_algorithm *algorithm, unsigned caps,
                                      enum halay_deterministic deterministic, const char **why);

#endif
