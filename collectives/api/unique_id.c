/* SPDX-License-Identifier: Apache-2.0
 *
 * Unique id: made by a process that then serves the store of the start (store_host.h).
 */
#include "collectives/transport/bootstrap/unique_id.h"
#include "base/config.h"
#include "base/error_text.h"
#include "base/net/listen.h"
#include "collectives/transport/bootstrap/store_host.h"
#include "halay_types.h"
#include <string.h>

static enum halay_status open_host(struct halay_log *log, const struct halay_config *config,
                                   struct halay_unique_endpoint *endpoint)
{
    const struct halay_network network = { config->network_interface, { config->ports[0], config->ports[1] } };
    int listener;

    enum halay_status status = halay_store_draw_secret(log, endpoint->secret);
    if (status == HALAY_OK)
        status =
            halay_listen(log, &network, HALAY_UNIQUE_ADDRESSES_MAX, &listener, endpoint->addresses, &endpoint->count);
    if (status != HALAY_OK)
        return status;
    return halay_store_host_start(log, listener, endpoint->secret, 0, config->start_timeout_ms, NULL);
}

enum halay_status halay_unique_id_create(struct halay_unique_id *id)
{
    struct halay_unique_endpoint endpoint = { .count = 0 };
    struct halay_config config;
    struct halay_log log;

    if (!id)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_unique_id_create: no place for the id");
    halay_log_init(&log, HALAY_LOG_WARNING);
    enum halay_status status = halay_config_load(&log, &config);
    if (status == HALAY_OK) {
        status = open_host(&log, &config, &endpoint);
        halay_config_fini(&config);
    }
    if (status == HALAY_OK)
        halay_unique_id_write(&endpoint, id);
    halay_log_fini(&log);
    explicit_bzero(&endpoint, sizeof endpoint);
    return halay_returns(status);
}
