/* SPDX-License-Identifier: Apache-2.0
 *
 * The UCP worker of the ucx transport, and the exchange of addresses.
 *
 * UCX's shared memory is switched off: it can't tell that a peer has died (endpoints in PEER mode refuse it anyway, or
 * take it if an environment variable says so), and ranks of one host have ours. A UCX_TLS of the user's is left alone:
 * we change the setting only while it has its default.
 *
 * Cleanup: zero-init and fini.
 */
#include "collectives/transport/ucx_worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const TLS_DEFAULT = "UCX_TLS=all";
static const char *const TLS_WANTED = "^posix,sysv,cma";

enum halay_status halay_ucx_check(const struct halay_host *host, ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return HALAY_OK;
    halay_host_error(host, "%s: %s", what, ucs_status_string(status));
    return HALAY_ERR_SYSTEM;
}

/* Has nobody set UCX_TLS? UCX has read its environment; its own print-out is the way to ask. */
static int tls_is_default(const ucp_config_t *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return 0;

    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    int is_default = 0;
    if (!fclose(stream)) {
        const char *line = strstr(text, TLS_DEFAULT);
        is_default = line && (line == text || line[-1] == '\n') && line[strlen(TLS_DEFAULT)] == '\n';
    }
    free(text);
    return is_default;
}

static enum halay_status context_open(const struct halay_host *host, int size, ucp_context_h *context)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)size,
        .name = "halay",
    };
    ucp_config_t *config = NULL;

    enum halay_status status = halay_ucx_check(host, ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    if (status != HALAY_OK)
        return status;
    if (tls_is_default(config))
        status = halay_ucx_check(host, ucp_config_modify(config, "TLS", TLS_WANTED), "ucp_config_modify");
    if (status == HALAY_OK)
        status = halay_ucx_check(host, ucp_init(&params, config, context), "ucp_init");
    ucp_config_release(config);
    return status;
}

enum halay_status halay_ucx_worker_init(const struct halay_host *host, int size, struct halay_ucx_worker *worker)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .events = UCP_WAKEUP_TX | UCP_WAKEUP_RX | UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV,
    };

    enum halay_status status = context_open(host, size, &worker->context);
    if (status != HALAY_OK)
        return status;
    status = halay_ucx_check(host, ucp_worker_create(worker->context, &params, &worker->worker), "ucp_worker_create");
    if (status != HALAY_OK)
        return status;
    return halay_ucx_check(host, ucp_worker_get_efd(worker->worker, &worker->event_fd), "ucp_worker_get_efd");
}

void halay_ucx_worker_fini(struct halay_ucx_worker *worker)
{
    if (worker->worker)
        ucp_worker_destroy(worker->worker);
    if (worker->context)
        ucp_cleanup(worker->context);
    *worker = (struct halay_ucx_worker){ 0 };
}

/* First the lengths, of those that have an address at all; then, if all have, the addresses. */
static enum halay_status longest_address(const struct halay_host *host, struct halay_boot *boot, size_t bytes,
                                         uint64_t *lengths, size_t *longest)
{
    uint64_t mine = bytes;
    size_t most = 0;

    enum halay_status status = boot->ops->allgather(boot, &mine, sizeof mine, lengths, host->config->start_timeout_ms);
    if (status != HALAY_OK)
        return status;
    for (int r = 0; r < boot->size; r++) {
        if (!lengths[r]) {
            if (bytes)
                halay_host_warning(host, "transport 'ucx' can't be used: rank %d can't", r);
            return HALAY_ERR_UNSUPPORTED;
        }
        most = lengths[r] > most ? lengths[r] : most;
    }
    *longest = most;
    return HALAY_OK;
}

static enum halay_status exchange_padded(const struct halay_host *host, struct halay_boot *boot,
                                         const ucp_address_t *address, size_t bytes, size_t stride, unsigned char **out)
{
    unsigned char *all = calloc((size_t)boot->size + 1, stride); /* the last slot: ours, padded */
    if (!all) {
        halay_host_error(host, "out of memory: addresses of %d ranks", boot->size);
        return HALAY_ERR_NO_MEMORY;
    }

    unsigned char *mine = all + (size_t)boot->size * stride;
    memcpy(mine, address, bytes);
    enum halay_status status = boot->ops->allgather(boot, mine, stride, all, host->config->start_timeout_ms);
    if (status != HALAY_OK) {
        free(all);
        return status;
    }
    *out = all;
    return HALAY_OK;
}

enum halay_status halay_ucx_exchange(const struct halay_host *host, struct halay_boot *boot,
                                     struct halay_ucx_worker *worker, size_t *stride, unsigned char **out)
{
    ucp_address_t *address = NULL;
    size_t bytes = 0, longest = 0;
    uint64_t *lengths = calloc((size_t)boot->size, sizeof *lengths);
    if (!lengths) {
        halay_host_error(host, "out of memory: %d ranks", boot->size);
        return HALAY_ERR_NO_MEMORY;
    }

    if (worker && halay_ucx_check(host, ucp_worker_get_address(worker->worker, &address, &bytes),
                                  "ucp_worker_get_address") != HALAY_OK)
        bytes = 0;
    enum halay_status status = longest_address(host, boot, bytes, lengths, &longest);
    if (status == HALAY_OK)
        status = exchange_padded(host, boot, address, bytes, longest, out);
    if (status == HALAY_OK)
        *stride = longest;
    if (address)
        ucp_worker_release_address(worker->worker, address);
    free(lengths);
    return status;
}
