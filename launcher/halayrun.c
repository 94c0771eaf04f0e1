/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun: start the ranks of a program.
 *
 * Every error that needs no rank to show is found here, before anything starts: in the command line, the program, the
 * whole configuration (the ranks' environment is made once, here, and loaded as they will load it), the binding.
 */
#include "base/config.h"
#include "base/module_file.h"
#include "base/transports.h"
#include "halay_types.h"
#include "launcher/cli/options.h"
#include "launcher/cli/outer_job.h"
#include "launcher/cli/settings.h"
#include "launcher/common/command_line.h"
#include "launcher/common/descriptors.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/report.h"
#include "launcher/explain.h"
#include "launcher/job/job.h"
#include "launcher/local/start.h"
#include "launcher/local/supervisor.h"
#include "launcher/mpi/as_rank.h"
#include "launcher/mpi/mpi_start.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/join.h"
#include "launcher/remote/ssh.h"
#include "launcher/remote/started.h"
#include "launcher/watch/status.h"
#include "launcher/watch/token.h"
#include "launcher/where/binding.h"
#include "launcher/where/choose_hosts.h"
#include "launcher/where/elastic_options.h"
#include "launcher/where/gpus.h"
#include "launcher/where/layout.h"
#include "sagemaker/launch.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the ranks' environment -------------------------------------------------------------------------------------- */

static int set_environment(struct halay_log *log, const struct options *options, struct halay_config *config)
{
    outer_job_forget();
    for (size_t i = 0; i < options->assignment_count; i++)
        if (setenv(options->assignments[i].name, options->assignments[i].value, 1) < 0) {
            report("cannot set %s: %s", options->assignments[i].name, strerror(errno));
            return 1;
        }
    if (halay_config_load(log, config) != HALAY_OK)
        return 2;
    return 0;
}

/* ---- what is printed and nothing started ------------------------------------------------------------------------- */

static void print_rank(const struct options *options, const struct layout *layout, const struct binding_map *map,
                       int rank)
{
    const struct place *place = layout_place(layout, rank);
    int local = place->is_here ? layout_local_rank(layout, rank) : rank - place->first;
    char cores[1024];

    if (map->is_bound && place->is_here) {
        binding_text(map, local, cores, sizeof cores);
        printf("taskset -c %s ", cores);
    }
    printf("env ");
    if (options->folder) {
        printf("-C ");
        quote_word(options->folder, stdout);
        putchar(' ');
    }
    printf("HALAY_RANK=%d HALAY_SIZE=%d HALAY_LOCAL_RANK=%d HALAY_LOCAL_SIZE=%d", rank, options->ranks, local,
           place->is_here ? layout->ranks_here : place->count);
    for (size_t i = 0; i < options->assignment_count; i++) {
        printf(" %s=", options->assignments[i].name);
        quote_word(options->assignments[i].value, stdout);
    }
    if (map->gpus && place->is_here)
        printf(" CUDA_VISIBLE_DEVICES=%d", gpus_of_rank(map->gpus, local));
    for (char **word = options->command; *word; word++) {
        putchar(' ');
        quote_word(*word, stdout);
    }
    putchar('\n');
}

static void print_place(const struct options *options, const struct place *place)
{
    struct args args = { 0 };

    printf("# %d rank%s on host '%s', in ", place->count, place->count == 1 ? "" : "s", place->host);
    if (options->folder && !options->has_own_folders)
        printf("folder '%s'", options->folder);
    else
        printf(options->joined ? "its own folder" : "the same folder");
    if (options->joined) {
        printf(", which joins the job\n");
        return;
    }
    printf(", with this environment, by: ");
    if (ssh_args(options, place->host, &args))
        quote_args(&args, stdout);
    putchar('\n');
    args_fini(&args);
}

static void print_dry_run(const struct options *options, const struct layout *layout, const struct binding_map *map)
{
    if (layout->ranks_here)
        printf("# %d rank%s on this machine, each in a process group of its own\n", layout->ranks_here,
               layout->ranks_here == 1 ? "" : "s");
    if (layout->ranks_here && !map->is_bound)
        printf("# not bound to cores: %s\n", map->why_not);
    for (size_t i = 0; i < layout->count; i++)
        if (!layout->at[i].is_here)
            print_place(options, &layout->at[i]);
    printf("# also set, when the store is up: HALAY_STORE_ADDRESS, HALAY_STORE_SECRET_FD, MASTER_ADDR, MASTER_PORT\n"
           "# and, for Python: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, "
           "NODE_RANK\n");
    for (int rank = 0; rank < options->ranks; rank++)
        print_rank(options, layout, map, rank);
}

static void print_item(const char *name, int is_built, const char *remark)
{
    printf("  [%c] %-9s %s\n", is_built ? 'x' : ' ', name, remark);
}

static void print_module(const char *name)
{
    char path[HALAY_MODULE_FILE_MAX];
    int is_there = halay_module_file_find(halay_environment_get("HALAY_MODULE_PATH"), name, path);

    print_item(name, is_there, is_there ? path : "not there: neither in HALAY_MODULE_PATH nor in " HALAY_PKGLIBDIR);
}

static void print_build(void)
{
    printf("halay %s\ntransports:\n", halay_version());
    for (const struct halay_transport_build *build = halay_transport_builds; build->module; build++)
        if (build->is_module)
            print_module(build->module);
        else
            print_item(build->module, build->is_built, "in the library");
    printf("memory of devices:\n");
    print_module("cuda");
    printf("machine:\n");
    print_item("http", HALAY_HAVE_MICROHTTPD, HALAY_HAVE_MICROHTTPD ? "" : "libmicrohttpd is missing: no --metrics");
    printf("trainer:\n");
    print_item("oneDNN", HALAY_HAVE_ONEDNN, "");
    print_item("BLAS", HALAY_HAVE_BLAS, "");
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

/* Otherwise the next descriptors we open would take the place of closed standard streams. */
static int open_standard_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd < 0)
        return 0;
    close(fd);
    return 1;
}

/* Makes options->folder absolute. Returns 0, or an exit code. */
static int find_folder(struct options *options, char *folder, size_t size)
{
    char here[PATH_MAX] = "";

    if (!options->folder)
        return 0;
    if (*options->folder != '/' && !getcwd(here, sizeof here)) {
        report("cannot find the current folder: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    if (snprintf(folder, size, "%s%s%s", here, *here ? "/" : "", options->folder) >= (int)size) {
        report("the name of folder '%.60s...' is too long", options->folder);
        return EXIT_FAILURE;
    }
    options->folder = folder;
    return 0;
}

/* Returns the number of processes that share this host's cores. */
static int local_workers(const struct options *options, const struct layout *layout, const struct host_list *hosts)
{
    return elastic_is_wanted(options) ? elastic_local_workers(options, layout, hosts) : layout->ranks_here;
}

/* Checks --show-ranks. Returns 0, or an exit code (reported). */
static int check_shown(const struct options *options)
{
    int ranks = elastic_is_wanted(options) ? options->most_ranks : options->ranks;

    if (!options->shown_ranks || rank_list_last(options->shown_ranks) < ranks)
        return 0;
    report("option --show-ranks: '%s' names a rank that is not there; the last one is %d", options->shown_ranks,
           ranks - 1);
    return EXIT_USAGE;
}

/* Reads the variables that the job needs. */
static void take_config(const struct halay_config *config, struct job_setting *setting)
{
    setting->peer_start_ms = config->start_timeout_ms;
    setting->silence_ms = config->host_silence_ms > SILENCE_MIN_MS ? config->host_silence_ms : SILENCE_MIN_MS;
    setting->network = (struct halay_network){ config->network_interface, { config->ports[0], config->ports[1] } };
}

static int run_job(struct job_setting *setting)
{
    int code = supervisor_run(setting, job_run);

    if (setting->was_killed) /* it could not say so itself */
        job_watch_report_records(setting, NULL);
    return code;
}

static int run_ranks(struct halay_log *log, struct options *options, int cause_fd)
{
    char folder[PATH_MAX];
    const struct environment around = environment_here();
    struct halay_config config = { 0 };
    struct binding_map map = { 0 };
    struct layout layout = { 0 };
    struct chosen_hosts chosen = { 0 };
    struct job_setting setting = {
        .options = options, .layout = &layout, .map = &map, .log = log, .cause_fd = cause_fd
    };

    if (options->dry_run && options->verbose)
        settings_print(options, stdout);
    int code = elastic_complete(options);
    if (!code)
        code = find_folder(options, folder, sizeof folder);
    if (!code && !options->mpi)
        code = choose_hosts(&around, options, &chosen);
    if (!code && elastic_is_wanted(options))
        code = elastic_size(options, chosen.hosts);
    if (!code)
        code = set_environment(log, options, &config);
    if (!code && options->mpi) {
        code = mpi_start(log, options);
        halay_config_fini(&config);
        return code;
    }
    if (!code)
        code = layout_make(log, options, chosen.hosts, chosen.allocation.this_host, &layout);
    code = code ? code : check_shown(options);
    if (!code && layout.ranks_here)
        code = start_check_program(options->folder, options->command[0]);
    if (!code && layout.ranks_here)
        code = binding_plan(log, options->binding, local_workers(options, &layout, chosen.hosts), &map);
    if (!code && options->dry_run) {
        print_dry_run(options, &layout, &map);
    } else if (!code) {
        descriptors_allow((size_t)(options->most_ranks > options->ranks ? options->most_ranks : options->ranks),
                          layout.count + (size_t)options->most_ranks);
        take_config(&config, &setting);
        setting.interface = chosen.allocation.interface;
        setting.hosts = chosen.hosts;
        setting.local_workers = local_workers(options, &layout, chosen.hosts);
        code = run_job(&setting);
    }
    layout_fini(&layout);
    chosen_hosts_fini(&chosen);
    binding_fini(&map);
    halay_config_fini(&config);
    return code;
}

static int print_status(const struct options *options)
{
    char token[WATCH_TOKEN_MAX];
    int code = watch_token_read(options->metrics_token_file, token);

    if (!code)
        code = status_run(options->status, *token ? token : NULL, options->dump);
    explicit_bzero(token, sizeof token);
    return code;
}

/* 0, or an exit code (reported): several nodes need an address where they meet. */
static int check_rendezvous(const struct options *options)
{
    if (options->join || (options->nodes <= 1 && options->node_rank <= 0))
        return 0;
    report("several nodes, each with a halayrun: say where they meet, --join HOST[:PORT], which is node 0's address; "
           "or start one halayrun, with -H");
    return EXIT_USAGE;
}

static int start_or_join(struct halay_log *log, const struct environment *here, struct options *options)
{
    char rendezvous[STARTED_HOST_MAX];
    int code = started_join(here, options, rendezvous);

    code = code ? code : check_rendezvous(options);
    if (!code && options->join)
        return join_run(log, options, run_ranks);
    return code ? code : run_ranks(log, options, 0);
}

int main(int argc, char **argv)
{
    const struct environment here = environment_here();
    struct options options;
    struct halay_log log;

    if (!open_standard_streams())
        return 1;
    int code = options_parse(argc, argv, &options);
    halay_log_init(&log, HALAY_LOG_WARNING);
    if (code)
        ; /* reported */
    else if (options.help)
        halay_command_line_print_help(&options_line, stdout);
    else if (options.list)
        halay_command_line_print_list(&options_line, stdout);
    else if (options.version)
        printf("halayrun (halay) %s\n", halay_version());
    else if (options.check_build)
        print_build();
    else if (options.explain)
        code = explain(&options, &here, stdout);
    else if (options.status)
        code = print_status(&options);
    else if (options.as_rank)
        code = as_rank_run(options.command);
    else if (options.is_agent)
        code = supervisor_run(&(struct job_setting){ .log = &log, .stopped_ms = DEFAULT_SILENCE_MS }, agent_run);
    else if (sagemaker_is_meant(&here, &options))
        code = check_rendezvous(&options) ? EXIT_USAGE : sagemaker_run(&log, &here, &options, run_ranks);
    else
        code = start_or_join(&log, &here, &options);
    options_fini(&options);
    halay_log_fini(&log);
    if ((fflush(stdout) || ferror(stdout)) && !code) {
        report("cannot write to standard output");
        code = 1;
    }
    return code;
}
