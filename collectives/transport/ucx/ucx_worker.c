/* SPDX-License-Identifier: Apache-2.0
 *
 * The UCP worker of the ucx transport, and the exchange of addresses.
 *
 * What we set in UCX's configuration, each only while the environment has not set it (nor, RX_SEG_SIZE apart, a file of
 * UCX's):
 *
 *     TLS           no shared memory of UCX's: it can't tell that a peer has died, and ranks of one host have ours
 *     RX_SEG_SIZE   of TCP, the largest message that goes in one: as large as a part and its headers, so that UCX hands
 *                   it over from where it received it; more than one are joined in memory that it allocates for that
 *     RNDV_THRESH   where there is nothing but TCP, parts are sent at once: a rendezvous pays where it lets the network
 *                   write into place; over TCP it only waits for an answer
 *     ZCOPY_THRESH  there, too, parts are sent from where they are: UCX 1.18 would copy one message at a time in pieces
 *                   of 8 KiB, which it takes for faster
 *     NET_DEVICES   of TCP: the network that the user names, or by which other hosts were reached (ucx_network.h)
 *     PORT_RANGE    of TCP: where HALAY_PORTS has the ports that may be used
 *
 * What devices there are only a context that is open knows: it is opened again for what depends on that.
 *
 * And always MAX_EAGER_RAILS = 1: over several rails a short message overtakes a long one.
 *
 * A UCX_TLS of the user's that asks for shared memory is obeyed, but for endpoints in PEER mode UCX leaves out what
 * can't report deaths: posix and sysv carry nothing unless UCX_MM_ERROR_HANDLING is set.
 *
 * Cleanup: zero-init and fini.
 */
#include "collectives/transport/ucx/ucx_worker.h"
#include "collectives/transport/ucx/ucx_network.h"
#include <stdlib.h>
#include <string.h>

/* 2M: more than a part (ucx_transport.c). */
static const struct setting {
    const char *name, *variable;
    const char *as_default[2]; /* lines of UCX's print-out, one by version, while it is not set; NULL: not printed */
    const char *wanted;        /* NULL: it depends */
} tls = { "TLS", "UCX_TLS", { "UCX_TLS=all\n" }, "^posix,sysv,cma" },
  segment = { "TCP_RX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE", { NULL }, "260K" },
  rendezvous = { "RNDV_THRESH",
                 "UCX_RNDV_THRESH",
                 { "UCX_RNDV_THRESH=auto\n", "UCX_RNDV_THRESH=intra:auto,inter:auto\n" },
                 "2M" },
  zero_copy = { "ZCOPY_THRESH", "UCX_ZCOPY_THRESH", { "UCX_ZCOPY_THRESH=auto\n" }, "8K" },
  devices = { "NET_DEVICES", "UCX_NET_DEVICES", { "UCX_NET_DEVICES=all\n" }, NULL },
  ports = { "TCP_PORT_RANGE", "UCX_TCP_PORT_RANGE", { NULL }, NULL };

enum halay_status halay_ucx_check(const struct halay_host *host, ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return HALAY_OK;
    return halay_host_fail(host, HALAY_ERR_SYSTEM, "%s: %s", what, ucs_status_string(status));
}

/* Returns what one of UCX's print functions prints; owned by the caller. NULL: out of memory. */
static char *text_of(void (*print)(const void *what, FILE *stream), const void *what)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;

    print(what, stream);
    if (fclose(stream)) {
        free(text);
        return NULL;
    }
    return text;
}

static void print_config(const void *config, FILE *stream)
{
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
}

static void print_context(const void *context, FILE *stream)
{
    ucp_context_print_info((ucp_context_h)context, stream);
}

/* Returns nonzero if a line of the text is equal to this one. */
static int has_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);

    return at && (at == text || at[-1] == '\n');
}

/* Returns nonzero if neither environment nor files set it: UCX has read them, and its print-out has the values. */
static int is_open(const struct halay_host *host, const ucp_config_t *config, const struct setting *setting)
{
    if (host->environment_get(setting->variable))
        return 0;
    char *text = setting->as_default[0] ? text_of(print_config, config) : NULL;
    int is_default = !setting->as_default[0];
    for (int i = 0; i < 2 && text && setting->as_default[i]; i++)
        is_default |= has_line(text, setting->as_default[i]);
    free(text);
    return is_default;
}

/* Settings of one network are named without its prefix up to 1.16. A name that no network knows is warned about. */
static const char *name_of(const struct setting *setting)
{
    unsigned major = 0, minor = 0, release = 0;

    ucp_get_version(&major, &minor, &release);
    return !strncmp(setting->name, "TCP_", 4) && major == 1 && minor <= 16 ? setting->name + 4 : setting->name;
}

/* Sets what is_open leaves open. An older UCX that does not know a name is left without it. */
static void setting_apply(const struct halay_host *host, ucp_config_t *config, const struct setting *setting,
                          const char *value)
{
    if (!is_open(host, config, setting))
        return;
    ucs_status_t status = ucp_config_modify(config, name_of(setting), value);
    if (status != UCS_OK)
        halay_host_info(host, "UCX takes no %s=%s: %s", setting->variable, value, ucs_status_string(status));
}

/* Keep TCP to the right networks. */
static enum halay_status apply_devices(const struct halay_host *host, ucp_config_t *config, const char *listing)
{
    const char *named = host->config->network_interface, *interfaces = host->interfaces;
    char allowed[1024];
    int others;

    if (named && strchr(named, '/'))
        named = NULL; /* UCX knows names only: those of the connections that were made, which are in these networks */
    if (named)
        interfaces = named;
    if (!interfaces || !is_open(host, config, &devices))
        return HALAY_OK;
    if (halay_ucx_devices(listing, interfaces, allowed, sizeof allowed, &others) || !others) {
        if (others)
            setting_apply(host, config, &devices, allowed);
        halay_host_info(host, "data over UCX take %s", others ? allowed : "all networks");
        return HALAY_OK;
    }
    if (!named) {
        halay_host_warning(
            host, "UCX knows no network '%s', by which other hosts are reached: it chooses one by itself", interfaces);
        return HALAY_OK;
    }
    return halay_host_fail(host, HALAY_ERR_CONFIG, "UCX knows no network '%s' here (HALAY_NETWORK_INTERFACE)", named);
}

/* A connection with each peer is a descriptor, over TCP alone. */
static enum halay_status allow_connections(const struct halay_host *host, int size)
{
    enum { OWN = 32 }; /* UCX's own, and what else the start opens */
    char what[64];

    snprintf(what, sizeof what, "connections with %d ranks over UCX", size - 1);
    return host->descriptors_allow(host->log, (size_t)(size - 1) + OWN, what);
}

/* Sets the options that depend on the networks of this host. */
static enum halay_status apply_network(const struct halay_host *host, int size, ucp_config_t *config,
                                       const char *listing, int has_cards)
{
    const int *range = host->config->ports;
    char text[32];

    setting_apply(host, config, &segment, segment.wanted);
    snprintf(text, sizeof text, "%d-%d", range[0], range[1]);
    if (range[0])
        setting_apply(host, config, &ports, text);
    enum halay_status status = apply_devices(host, config, listing);
    if (has_cards || status != HALAY_OK)
        return status;
    setting_apply(host, config, &rendezvous, rendezvous.wanted);
    setting_apply(host, config, &zero_copy, zero_copy.wanted);
    return allow_connections(host, size);
}

static enum halay_status context_init(const struct halay_host *host, int size, const ucp_config_t *config,
                                      ucp_context_h *context)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = (size_t)size,
        .name = "halay",
    };

    return halay_ucx_check(host, ucp_init(&params, config, context), "ucp_init");
}

/* Without a name UCX is for the networks that halay's own TCP does not know. */
static int is_named(const struct halay_host *host)
{
    return host->config->transport && !strcmp(host->config->transport, "ucx");
}

static enum halay_status context_open(const struct halay_host *host, int size, ucp_context_h *context)
{
    ucp_config_t *config = NULL;
    ucp_context_h first = NULL;
    int tcp = 0, cards = 0;

    enum halay_status status = halay_ucx_check(host, ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    if (status != HALAY_OK)
        return status;
    setting_apply(host, config, &tls, tls.wanted);
    (void)ucp_config_modify(config, "MAX_EAGER_RAILS", "1"); /* a UCX without it has no rails */
    status = context_init(host, size, config, &first);
    char *listing = status == HALAY_OK ? text_of(print_context, first) : NULL;
    if (listing)
        halay_ucx_networks(listing, &tcp, &cards);
    if (status == HALAY_OK && !cards && !is_named(host)) {
        halay_host_info(host, "UCX knows no network here that is better than TCP");
        status = HALAY_ERR_UNSUPPORTED;
        ucp_cleanup(first);
        first = NULL;
    } else if (tcp) {
        ucp_cleanup(first);
        first = NULL;
        status = apply_network(host, size, config, listing, cards);
        if (status == HALAY_OK)
            status = context_init(host, size, config, &first);
    }
    free(listing);
    ucp_config_release(config);
    *context = first;
    return status;
}

enum halay_status halay_ucx_worker_init(const struct halay_host *host, int size, struct halay_ucx_worker *worker)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .events = UCP_WAKEUP_TX | UCP_WAKEUP_RX,
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

    enum halay_status status = halay_boot_allgather(boot, &mine, sizeof mine, lengths, host->config->start_timeout_ms);
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
    if (!all)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: addresses of %d ranks", boot->size);

    unsigned char *mine = all + (size_t)boot->size * stride;
    memcpy(mine, address, bytes);
    enum halay_status status = halay_boot_allgather(boot, mine, stride, all, host->config->start_timeout_ms);
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
    if (!lengths)
        return halay_host_fail(host, HALAY_ERR_NO_MEMORY, "out of memory: %d ranks", boot->size);

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
