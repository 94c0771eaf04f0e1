/* SPDX-License-Identifier: Apache-2.0
 *
 * What statuses mean, and the version.
 */
#include "halay_types.h"

static const char *const status_texts[] = {
    [HALAY_OK] = "success",
    [HALAY_IN_PROGRESS] = "in progress",
    [HALAY_ERR_ARGUMENT] = "invalid argument",
    [HALAY_ERR_NO_MEMORY] = "out of memory",
    [HALAY_ERR_SYSTEM] = "system call or library failed",
    [HALAY_ERR_UNSUPPORTED] = "not supported",
    [HALAY_ERR_CONFIG] = "invalid configuration",
    [HALAY_ERR_MISMATCH] = "ranks disagree",
    [HALAY_ERR_DUPLICATE] = "name already in use",
    [HALAY_ERR_PEER] = "peer lost",
    [HALAY_ERR_TIMEOUT] = "timed out",
    [HALAY_ERR_CLOSED] = "closed",
    [HALAY_ERR_CANCELED] = "canceled",
    [HALAY_ERR_AUTH] = "authentication failed",
    [HALAY_ERR_VERSION] = "protocol version differs",
    [HALAY_ERR_FORMAT] = "malformed data",
};

const char *halay_status_string(enum halay_status status)
{
    return (unsigned)status < sizeof status_texts / sizeof *status_texts ? status_texts[status] : "unknown status";
}

const char *halay_version(void)
{
    return HALAY_VERSION;
}
