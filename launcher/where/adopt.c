/* SPDX-License-Identifier: Apache-2.0
 *
 * Adopt: the command line first, then the allocation, then this machine alone.
 */
#include "launcher/where/adopt.h"
#include "base/config.h"
#include "launcher/common/say.h"
#include "launcher/where/elastic_options.h"
#include "launcher/where/layout.h"
#include <string.h>

enum { EXIT_USAGE = 2 };

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

/* 0, or an exit code. With hosts of its own the command line has no need of it, and what is wrong in it does not
 * matter. */
static int ask_allocation(const struct surroundings *from, int is_needed, struct allocation *a)
{
    char why[1024];

    if (halay_environment_get("HALAY_RANK") || recognise(from, a, why, sizeof why) == HALAY_OK || !is_needed)
        return 0;
    say("%s", why);
    say("-H overrides it: '-H localhost:4' starts 4 ranks here");
    return EXIT_USAGE;
}

/* 0, or an exit code. */
static int take_hosts(struct adopted *adopted)
{
    const struct allocation *a = &adopted->allocation;

    if (a->copies > 1) {
        say("%s has started halayrun itself %d times, and each would start all ranks: start it once, from the job's "
            "script",
            allocation_name(a->kind), a->copies);
        return EXIT_USAGE;
    }
    adopted->hosts = &a->hosts;
    return 0;
}

int adopt(const struct surroundings *from, struct options *options, struct adopted *adopted)
{
    struct allocation *a = &adopted->allocation;

    *adopted = (struct adopted){ .hosts = &adopted->named };
    int code = options->discovery_script ? elastic_discover(options, &adopted->named)
                                         : layout_name_hosts(options, &adopted->named);
    const int is_named = options->hosts || options->hostfile || options->discovery_script;
    if (!code)
        code = ask_allocation(from, !is_named, a);
    if (!code && !is_named && a->hosts.count)
        code = take_hosts(adopted);
    if (code)
        return code;
    if (!options->ranks)
        options->ranks = is_named || !a->hosts.count ? (int)hosts_slots(adopted->hosts) : a->ranks;
    if (!options->ranks) {
        say("how many ranks? give -np N");
        options_print_help(stderr);
        return EXIT_USAGE;
    }
    if (a->kind == ALLOCATION_TORCHRUN)
        say("warning: %s run already; each of them starts %d more", allocation_name(a->kind), options->ranks);
    if (!options->ssh && a->agent && are_among(adopted->hosts, &a->hosts))
        options->ssh = a->agent;
    if (options->verbose && adopted->hosts == &a->hosts)
        say("the hosts are those of %s: --explain says more", allocation_name(a->kind));
    return 0;
}

void adopted_fini(struct adopted *adopted)
{
    hosts_fini(&adopted->named);
    allocation_fini(&adopted->allocation);
}
