/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of transports, made from transports.def.
 */
#include "base/transports.h"
#include <stddef.h>

#define IS_MODULE_LIBRARY 0
#define IS_MODULE_MODULE 1

#define HALAY_TRANSPORT_VARIANT(name, built, module, what)

const struct halay_transport_row halay_transport_rows[HALAY_TRANSPORT_COUNT] = {
#define HALAY_TRANSPORT(name, home, built, networks, what, pip, install) \
    { #name, IS_MODULE_##home, networks, pip, install },
#include "base/transports.def"
#undef HALAY_TRANSPORT
};

const char *const halay_transport_names[] = {
    "auto",
#define HALAY_TRANSPORT(name, home, built, networks, what, pip, install) #name,
#include "base/transports.def"
#undef HALAY_TRANSPORT
    NULL,
};

const char halay_transport_help[] = "what moves the data: auto"
#define HALAY_TRANSPORT(name, home, built, networks, what, pip, install) ", " #name
#include "base/transports.def"
#undef HALAY_TRANSPORT
    ;

#undef HALAY_TRANSPORT_VARIANT

const struct halay_transport_build halay_transport_builds[] = {
#define HALAY_TRANSPORT(name, home, built, networks, what, pip, install) { #name, IS_MODULE_##home, built, what },
#define HALAY_TRANSPORT_VARIANT(name, built, module, what) { module, 1, built, what },
#include "base/transports.def"
    { .module = NULL },
};
