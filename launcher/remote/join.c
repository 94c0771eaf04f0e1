/* SPDX-License-Identifier: Apache-2.0
 *
 * Join: from the options of one node to its part in the job.
 *
 * The same command line may be given on every node: node 0 has --join's address, or --node-rank 0.
 */
#include "launcher/remote/join.h"
#include "base/config.h"
#include "base/parse.h"
#include "launcher/common/command_line.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/join_secret.h"
#include "launcher/where/choose_hosts.h"
#include "launcher/where/elastic_options.h"
#include "launcher/where/layout.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_MAX = 256, COMMAND_MAX = TALK_TEXT_MAX / 2 };

/* ---- what SageMaker's start uses, too ---------------------------------------------------------------------------- */

const char *join_variable(const struct options *options, const char *name)
{
    const char *value = halay_environment_get(name);

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, name))
            value = options->assignments[i].value;
    return value && *value ? value : NULL;
}

int join_start_ms(const struct options *options)
{
    double seconds;
    int ms = JOIN_START_MS;

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, "HALAY_START_TIMEOUT") &&
            !halay_parse_double(options->assignments[i].value, 0, 24 * 60 * 60, &seconds))
            ms = (int)(seconds * 1000);
    return ms;
}

/* ---- the options ------------------------------------------------------------------------------------------------- */

/* "HOST", "HOST:PORT", "[fd00::1]:PORT". 0: malformed. */
static int split_address(const char *text, char host[HOST_MAX], int *port)
{
    const char *colon = strrchr(text, ':');
    long number = *port;

    if (*text == '[' ? !colon || colon[-1] != ']' : colon && strchr(text, ':') != colon)
        colon = NULL; /* that of an address */
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (*text == '[' && length && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (!length || length >= HOST_MAX || (colon && halay_parse_long(colon + 1, 1, 65535, &number) != HALAY_OK))
        return 0;
    memcpy(host, text, length);
    host[length] = 0;
    *port = (int)number;
    return 1;
}

static int check_options(const struct options *options)
{
    if (options->hosts || options->hostfile || options->discovery_script || options->ssh || options->mpi) {
        report("--join: halayrun is started on every node, and needs none of -H, --hostfile, --host-discovery-script, "
               "--ssh and --mpi");
        return EXIT_USAGE;
    }
    if (options->least_ranks || options->most_ranks) {
        report("--join: the nodes of a job stay the same and end with it: not with --min-np, --max-np");
        return EXIT_USAGE;
    }
    if (options->least_nodes && options->ranks) {
        report("option -np: with --nnodes %d:%d the number of ranks follows the nodes: give --nproc-per-node",
               options->least_nodes, options->nodes);
        return EXIT_USAGE;
    }
    if (options->node_rank >= 0 && options->nodes && options->node_rank >= options->nodes) {
        report("--node-rank %d: %d nodes have numbers from 0 to %d", options->node_rank, options->nodes,
               options->nodes - 1);
        return EXIT_USAGE;
    }
    return 0;
}

/* Returns nonzero if this is node 0, or an exit code below zero (reported). */
static int is_leader(struct halay_log *log, const struct options *options, const char *host)
{
    int is_leader = options->node_rank == 0 || options->nodes == 1 ||
                    (options->node_rank < 0 && options->nodes && layout_is_here(log, host));

    if (is_leader && !options->nodes) {
        report("--node-rank 0: of how many nodes? give --nnodes N");
        return -EXIT_USAGE;
    }
    if (is_leader && !*options->command) {
        report("which program? node 0 gives it: halayrun --nnodes N --join HOST program");
        return -EXIT_USAGE;
    }
    return is_leader;
}

/* Cuts it if it is long. */
static void write_command(char *const *args, char text[COMMAND_MAX])
{
    FILE *out = fmemopen(text, COMMAND_MAX - 1, "w");

    memset(text, 0, COMMAND_MAX);
    for (int i = 0; out && args[i]; i++) {
        if (i)
            putc(' ', out);
        quote_word(args[i], out);
    }
    if (out)
        fclose(out);
}

static int print_follower(const struct join *join)
{
    printf("# this node joins the job of '%s', port %d, and starts the ranks that it gets\n", join->leader, join->port);
    return 0;
}

static int find_secret(struct halay_log *log, const struct options *options, struct join *join)
{
    static const char what[] = "halayrun --join 2";
    const struct halay_secret_part parts[3] = { { what, sizeof what }, { "", 0 }, { "", 0 } };
    const char *word = halay_environment_get("HALAY_SECRET");
    struct join_secret_file file = { .path = options->secret_file };
    int is_secret = 0, code = 0;

    if (options->insecure && (file.path || (word && *word))) {
        report("--insecure: there is a secret, %s: leave out one of them",
               file.path ? "--secret-file" : "HALAY_SECRET");
        return EXIT_USAGE;
    }
    if (options->insecure)
        report("WARNING: --insecure: anyone who can reach these nodes can run programs on them");
    else if (!file.path && !(word && *word)) {
        code = join_secret_find_own(join->own_secret);
        file.path = join->own_secret;
    }
    return code ? code : join_secret_derive(log, parts, &file, join->secret, &is_secret);
}

int join_run(struct halay_log *log, struct options *options,
             int (*run)(struct halay_log *log, struct options *options, int cause_fd))
{
    char host[HOST_MAX], name[HOST_MAX] = "", command[COMMAND_MAX];
    struct join_result result = { 0 };
    struct join join = { .log = log,
                         .leader = host,
                         .name = name,
                         .command = command,
                         .interface = join_variable(options, "HALAY_NETWORK_INTERFACE"),
                         .port = options->join_port ? options->join_port : JOIN_PORT,
                         .nodes = options->nodes,
                         .least = options->least_nodes ? options->least_nodes : options->nodes,
                         .node = options->node_rank,
                         .ranks = ranks_of_this_host(options->per_host),
                         .is_chosen = options->per_host && options->per_host != PER_HOST_AUTO,
                         .start_ms = join_start_ms(options) };

    int code = join.ranks ? check_options(options) : EXIT_USAGE;
    if (!code && !split_address(options->join, host, &join.port)) {
        report("option --join: '%s' is not HOST or HOST:PORT", options->join);
        code = EXIT_USAGE;
    }
    if (code)
        return code;
    if (gethostname(name, sizeof name - 1) < 0 || !*name)
        snprintf(name, sizeof name, "a node without a name");
    write_command(options->command, command);
    const int leads = is_leader(log, options, host);
    code = leads < 0 ? -leads : 0;
    if (!code && !options->dry_run && join.nodes != 1) /* there are others */
        code = find_secret(log, options, &join);
    if (!code && !leads && options->dry_run)
        code = print_follower(&join);
    else if (!code && leads)
        join_lead(&join, options, run, &result);
    else if (!code)
        join_follow(&join, &result);
    explicit_bzero(join.secret, sizeof join.secret);
    return code ? code : result.code;
}
