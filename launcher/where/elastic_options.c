/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic options: see elastic_options.h.
 */
#include "launcher/where/elastic_options.h"
#include "base/clock.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/where/discover.h"
#include <string.h>

/* An option for elastic jobs only; NULL: none is given. */
static const char *stray_option(const struct options *options)
{
    static const char *const names[] = { "--elastic-timeout", "--reset-limit", "--cooldown", "--slots-per-host" };

    for (size_t i = 0; i < options->given_count; i++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++)
            if (!strcmp(options->given[i].option, names[n]))
                return names[n];
    return NULL;
}

static int reject_number(const char *what, int number, const char *limit, int of)
{
    report("option %s: %d is %s, which is %d", what, number, limit, of);
    return EXIT_USAGE;
}

int elastic_complete(struct options *options)
{
    if (!options->least_ranks && !options->most_ranks && !options->discovery_script) {
        const char *stray = stray_option(options);
        if (stray)
            report("option %s is for elastic jobs: give --min-np, --max-np or --host-discovery-script too", stray);
        return stray ? EXIT_USAGE : 0;
    }
    options->is_elastic = 1;
    if (options->mpi) {
        report("an elastic job (--min-np, --max-np, --host-discovery-script) and --mpi: MPI ends the whole job when a "
               "rank is lost; "
               "without --mpi halayrun starts the ranks itself");
        return EXIT_USAGE;
    }
    if (options->discovery_script && (options->hosts || options->hostfile)) {
        report("option --host-discovery-script and option %s: give one of them",
               options->hosts ? "--hosts" : "--hostfile");
        return EXIT_USAGE;
    }
    if (!options->ranks && !options->most_ranks && !options->hosts && !options->hostfile) {
        report("how many ranks at most? give --max-np N, or -np N");
        return EXIT_USAGE;
    }
    if (!options->most_ranks && options->ranks)
        options->most_ranks = options->ranks;
    if (!options->least_ranks)
        options->least_ranks = options->ranks ? options->ranks : 1;
    if (options->ranks && options->least_ranks > options->ranks)
        return reject_number("--min-np", options->least_ranks, "above -np", options->ranks);
    if (options->ranks && options->ranks > options->most_ranks)
        return reject_number("--max-np", options->most_ranks, "below -np", options->ranks);
    if (options->most_ranks && options->least_ranks > options->most_ranks)
        return reject_number("--min-np", options->least_ranks, "above --max-np", options->most_ranks);
    if (!options->ranks)
        options->ranks = options->most_ranks;
    return 0;
}

int elastic_discover(const struct options *options, struct host_list *hosts)
{
    const int64_t deadline_us = halay_deadline_us(options->elastic_timeout_ms);
    struct discover discover;
    char why[800];
    int is_waiting = 0, code = -1;

    discover_init(&discover, options->discovery_script, options->slots);
    while (code < 0) {
        if (!discover_wait(&discover, hosts, why, sizeof why)) {
            report("%s", why); /* the first time, without hosts to fall back on */
            code = 1;
        } else if (hosts_slots(hosts) >= (size_t)options->least_ranks) {
            code = 0;
        } else {
            if (!is_waiting++)
                report("host discovery script '%s': %zu slots, --min-np wants %d; waiting for more",
                       options->discovery_script, hosts_slots(hosts), options->least_ranks);
            hosts_fini(hosts);
            if (halay_deadline_passed(deadline_us)) {
                report("not enough slots after %g s (--elastic-timeout)", options->elastic_timeout_ms / 1000.0);
                code = 1;
            }
        }
    }
    discover_fini(&discover);
    return code;
}

int elastic_size(struct options *options, const struct host_list *hosts)
{
    size_t slots = hosts_slots(hosts);

    if (!options->most_ranks)
        options->most_ranks = (int)slots;
    if (!hosts->count) { /* this machine has as many slots as it was given ranks */
        options->most_ranks = options->ranks;
        return 0;
    }
    options->ranks = options->most_ranks;
    if (slots < (size_t)options->least_ranks) {
        report("the hosts have %zu slots, --min-np wants %d", slots, options->least_ranks);
        return EXIT_USAGE;
    }
    if (slots < (size_t)options->ranks)
        options->ranks = (int)slots;
    return 0;
}

int elastic_local_workers(const struct options *options, const struct layout *layout, const struct host_list *hosts)
{
    int workers = hosts->count ? 0 : options->most_ranks;

    for (size_t p = 0; p < layout->count; p++)
        for (size_t h = 0; h < hosts->count; h++)
            if (layout->at[p].is_here && !strcmp(layout->at[p].host, hosts->at[h].name))
                workers += hosts->at[h].slots;
    return workers < options->most_ranks ? workers : options->most_ranks;
}
