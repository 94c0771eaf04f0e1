/* SPDX-License-Identifier: Apache-2.0
 *
 * Choose hosts: the command line first, then the allocation, then this machine alone.
 */
#include "launcher/where/choose_hosts.h"
#include "base/config.h"
#include "base/machine/topology.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/where/elastic_options.h"
#include "launcher/where/gpus.h"
#include "launcher/where/layout.h"
#include <string.h>

static int is_among(const struct host_list *hosts, const char *name)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (!strcmp(hosts->at[i].name, name))
            return 1;
    return 0;
}

static int are_among(const struct host_list *some, const struct host_list *all)
{
    for (size_t i = 0; i < some->count; i++)
        if (!is_among(all, some->at[i].name))
            return 0;
    return some->count > 0;
}

/* 0, or an exit code. If the command line names hosts, the allocation is not needed and its errors do not matter. */
static int ask_allocation(const struct environment *from, int is_needed, struct allocation *a)
{
    char why[1024];

    if (halay_environment_get("HALAY_RANK") || recognise(from, a, why, sizeof why) == HALAY_OK || !is_needed)
        return 0;
    report("%s", why);
    report("-H overrides it: '-H localhost:4' starts 4 ranks here");
    return EXIT_USAGE;
}

/* 0, or an exit code. */
static int take_hosts(struct chosen_hosts *chosen)
{
    const struct allocation *a = &chosen->allocation;

    if (a->copies > 1) {
        report("%s has started halayrun itself %d times, and each would start all ranks: start it once, from the job's "
               "script",
               allocation_name(a->kind), a->copies);
        return EXIT_USAGE;
    }
    chosen->hosts = &a->hosts;
    return 0;
}

/* A shell in an allocation (srun --pty) and scripts that ask for nodes have one task on each host, whatever processors
 * they have. If -np asks for more ranks, those are what counts. */
static void use_processors(const struct options *options, struct host_list *hosts)
{
    int even = (options->ranks + (int)hosts->count - 1) / (int)hosts->count, are_enough = 1;

    for (size_t i = 0; i < hosts->count; i++) {
        if (hosts->at[i].slots != 1 || hosts->at[i].processors < 1)
            return;
        are_enough &= hosts->at[i].processors >= even;
    }
    for (size_t i = 0; even > 1 && i < hosts->count; i++)
        hosts->at[i].slots = are_enough ? even : hosts->at[i].processors;
}

int ranks_of_this_host(int per_host)
{
    struct halay_topology topology;

    if (per_host > 0)
        return per_host;
    int gpus = per_host == PER_HOST_CPU ? 0 : gpus_count("");
    if (!gpus && per_host == PER_HOST_GPU)
        report("option --nproc-per-node gpu: no GPU is found on this host");
    if (gpus || per_host == PER_HOST_GPU || halay_topology_load(NULL, &topology) != HALAY_OK)
        return gpus;
    return halay_topology_ranks(&topology);
}

/* --nproc-per-node; this host's number for all, which are alike as a rule. 0, or an exit code. */
static int take_per_host(struct options *options, struct host_list *hosts)
{
    int ranks = ranks_of_this_host(options->per_host);

    if (!ranks)
        return EXIT_USAGE;
    if (options->discovery_script) {
        report("option --nproc-per-node: with --host-discovery-script the script gives it, or --slots-per-host");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < hosts->count; i++)
        hosts->at[i].slots = ranks;
    if (!hosts->count && options->ranks > ranks) {
        report("option -np: %d ranks on one host, and --nproc-per-node allows %d", options->ranks, ranks);
        return EXIT_USAGE;
    }
    if (!hosts->count && !options->ranks)
        options->ranks = ranks;
    return 0;
}

int choose_hosts(const struct environment *from, struct options *options, struct chosen_hosts *chosen)
{
    struct allocation *a = &chosen->allocation;

    *chosen = (struct chosen_hosts){ .hosts = &chosen->named };
    int code = options->discovery_script ? elastic_discover(options, &chosen->named)
                                         : layout_read_hosts(options, &chosen->named);
    const int is_named = options->hosts || options->hostfile || options->discovery_script || options->joined ||
                         options->nodes == 1; /* this one */
    if (options->joined)
        chosen->hosts = options->joined;
    if (!code)
        code = ask_allocation(from, !is_named, a);
    if (!code && !is_named && a->hosts.count) {
        code = take_hosts(chosen);
        use_processors(options, &a->hosts);
    }
    if (!code && options->per_host && !options->joined)
        code = take_per_host(options, chosen->hosts == &chosen->named ? &chosen->named : &a->hosts);
    if (code)
        return code;
    if (!options->ranks)
        options->ranks = is_named || options->per_host || !a->hosts.count ? hosts_ranks(chosen->hosts) : a->ranks;
    if (!options->ranks) {
        report("how many ranks? give -np N");
        halay_command_line_print_help(&options_line, stderr);
        return EXIT_USAGE;
    }
    if (!options->ssh && a->remote_shell && are_among(chosen->hosts, &a->hosts))
        options->ssh = a->remote_shell;
    if (options->verbose && chosen->hosts == &a->hosts)
        report("the hosts are those of %s: see --explain", allocation_name(a->kind));
    return 0;
}

void chosen_hosts_fini(struct chosen_hosts *chosen)
{
    hosts_fini(&chosen->named);
    allocation_fini(&chosen->allocation);
}
