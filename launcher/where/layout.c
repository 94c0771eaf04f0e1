/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: turns named hosts into places of ranks. A host is this one if it has its name, or if one of its addresses is
 * ours. "user@host" never is, since we cannot fork that user's ranks.
 */
#include "launcher/where/layout.h"
#include "base/net/address.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name that does not resolve is not this host: ssh will report it, or knows it from its configuration. */
int layout_is_here(struct halay_log *log, const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct halay_address own[HALAY_ADDRESSES_ALL];
    struct addrinfo *found;
    char host[256] = "";
    int count, here = 0;

    if (strchr(name, '@'))
        return 0;
    if (gethostname(host, sizeof host - 1) == 0 && !strcmp(name, host))
        return 1;
    if (!strcmp(name, "localhost"))
        return 1;
    if (halay_addresses_list(log, NULL, own, &count) != HALAY_OK || getaddrinfo(name, "0", &hints, &found))
        return 0;
    for (struct addrinfo *at = found; at && !here; at = at->ai_next)
        here = halay_address_is_among(at->ai_addr, own, count);
    freeaddrinfo(found);
    return here;
}

/* Loopback by its number or as localhost is meant; but many systems give their own name an address of loopback. */
static int is_meant(const char *name, const struct halay_address *address)
{
    unsigned char number[sizeof(struct in6_addr)];

    return !halay_address_is_loopback(address) || !strcmp(name, "localhost") ||
           inet_pton(address->family, name, number) == 1;
}

int layout_only_address(struct halay_log *log, const char *name, struct halay_address *only)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct halay_address own[HALAY_ADDRESSES_ALL], address;
    struct addrinfo *found;
    int count, matches = 0;

    if (halay_addresses_list(log, NULL, own, &count) != HALAY_OK || getaddrinfo(name, "0", &hints, &found))
        return 0;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        if (!halay_address_take(at->ai_addr, 0, &address) || !is_meant(name, &address) ||
            (!halay_address_is_loopback(&address) && !halay_address_is_among(at->ai_addr, own, count)))
            continue;
        *only = address;
        matches++;
    }
    freeaddrinfo(found);
    return matches == 1 || (matches && halay_address_is_loopback(only));
}

int layout_read_hosts(const struct options *options, struct host_list *hosts)
{
    char why[512];
    enum halay_status status = HALAY_OK;

    if (options->hosts && options->hostfile) {
        report("option --hosts and option --hostfile: give one of them");
        return EXIT_USAGE;
    }
    if (options->hosts)
        status = hosts_parse(options->hosts, 1, hosts, why, sizeof why);
    else if (options->hostfile)
        status = hosts_read(options->hostfile, 1, hosts, why, sizeof why);
    if (status == HALAY_OK)
        return 0;
    report("option %s: %s", options->hosts ? "--hosts" : "--hostfile", why);
    return EXIT_USAGE;
}

static int place_ranks(struct halay_log *log, const struct options *options, const struct host_list *hosts,
                       const char *this_host, const int *host_of_rank, struct layout *layout)
{
    layout->at = calloc(hosts->count ? hosts->count : 1, sizeof *layout->at);
    if (!layout->at)
        return report_no_memory();
    for (int rank = 0; rank < options->ranks; rank++) {
        if (rank && host_of_rank[rank] == host_of_rank[rank - 1]) {
            layout->at[layout->count - 1].count++;
            continue;
        }
        const char *name = hosts->count ? hosts->at[host_of_rank[rank]].name : "localhost";
        int is_ours = options->joined
                          ? host_of_rank[rank] == 0
                          : !hosts->count || (this_host && !strcmp(name, this_host)) || layout_is_here(log, name);
        layout->at[layout->count++] = (struct place){ name, rank, 1, is_ours };
    }
    for (size_t i = 0; i < layout->count; i++)
        layout->ranks_here += layout->at[i].is_here ? layout->at[i].count : 0;
    return 0;
}

int layout_make(struct halay_log *log, const struct options *options, const struct host_list *hosts,
                const char *this_host, struct layout *layout)
{
    char why[512];
    int code = 0;

    *layout = (struct layout){ 0 };
    int *host_of_rank = calloc((size_t)options->ranks, sizeof *host_of_rank);
    if (!host_of_rank)
        return report_no_memory();
    if (hosts->count &&
        hosts_assign(hosts, options->ranks, options->oversubscribe, host_of_rank, why, sizeof why) != HALAY_OK) {
        report("%s", why);
        code = EXIT_USAGE;
    }
    if (!code)
        code = place_ranks(log, options, hosts, this_host, host_of_rank, layout);
    free(host_of_rank);
    if (!code && options->joined && layout->count < hosts->count) {
        report("option -np: %d ranks leave host '%s' without one", options->ranks, hosts->at[layout->count].name);
        code = EXIT_USAGE;
    }
    if (code)
        layout_fini(layout);
    return code;
}

void layout_fini(struct layout *layout)
{
    free(layout->at);
    *layout = (struct layout){ 0 };
}

const struct place *layout_place(const struct layout *layout, int rank)
{
    size_t i = 0;

    while (i + 1 < layout->count && rank >= layout->at[i + 1].first)
        i++;
    return &layout->at[i];
}

int layout_local_rank(const struct layout *layout, int rank)
{
    int before = 0;

    for (size_t i = 0; i < layout->count && rank >= layout->at[i].first + layout->at[i].count; i++)
        if (layout->at[i].is_here)
            before += layout->at[i].count;
    return before + rank - layout_place(layout, rank)->first;
}

int layout_node(const struct layout *layout, int rank, int *nodes)
{
    const struct place *wanted = layout_place(layout, rank);
    int here = -1, node = 0;

    *nodes = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const struct place *place = &layout->at[i];
        int number = place->is_here && here >= 0 ? here : (*nodes)++;
        if (place->is_here)
            here = number;
        if (place == wanted)
            node = number;
    }
    return node;
}
