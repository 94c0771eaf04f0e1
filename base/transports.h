/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of transports, made from transports.def.
 */
#ifndef HALAY_BASE_TRANSPORTS_H
#define HALAY_BASE_TRANSPORTS_H

enum halay_transport_index {
#define HALAY_TRANSPORT(name, home, built, networks, what, pip, install) HALAY_TRANSPORT_INDEX_##name,
#define HALAY_TRANSPORT_VARIANT(name, built, module, what)
#include "base/transports.def"
#undef HALAY_TRANSPORT
#undef HALAY_TRANSPORT_VARIANT
    HALAY_TRANSPORT_COUNT
};

struct halay_transport_row {
    const char *name;
    int is_module;
    int needs_networks;  /* the world connects to the other hosts first */
    const char *pip;     /* file of a package of pip's, or NULL: the library that the module needs */
    const char *install; /* for an error, or NULL: what has that library */
};

/* In the order in which they are tried; [enum halay_transport_index]. */
extern const struct halay_transport_row halay_transport_rows[HALAY_TRANSPORT_COUNT];

/* A row or a variant of its module, for lists of what was built. */
struct halay_transport_build {
    const char *module; /* the name, as in libhalay-NAME.so */
    int is_module;      /* 0: in the library */
    int is_built;
    const char *what;
};

/* Ends with a module of NULL. */
extern const struct halay_transport_build halay_transport_builds[];

extern const char *const halay_transport_names[]; /* "auto", then those of the rows; NULL ends it */
extern const char halay_transport_help[];         /* "what moves the data: auto, shm, ..." */

#endif
