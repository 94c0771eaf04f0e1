/* SPDX-License-Identifier: Apache-2.0
 *
 * Join: from the options of one node to its part in the job.
 *
 * The same command line may be given on every node: node 0 is where --join's address is, unless --node-rank says it.
 */
#include "launcher/remote/join.h"
#include "base/config.h"
#include "base/secure/secret.h"
#include "launcher/common/command_line.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/say.h"
#include "launcher/where/choose_hosts.h"
#include "launcher/where/elastic_options.h"
#include "launcher/where/layout.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_LEAST = 16, SECRET_MAX = 1 << 16, HOST_MAX = 256, COMMAND_MAX = TALK_TEXT_MAX / 2 };

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

static int read_secret_file(const char *path, char *bytes, size_t *count)
{
    FILE *file = fopen(path, "re");

    *count = file ? fread(bytes, 1, SECRET_MAX, file) : 0;
    int has_failed = !file || ferror(file);
    if (has_failed)
        say("secret file '%s': %s", path, strerror(errno));
    else if (*count < SECRET_LEAST)
        say("secret file '%s' has %zu bytes; it takes %d at least that nobody can guess, for example: head -c 32 "
            "/dev/urandom",
            path, *count, SECRET_LEAST);
    if (file)
        fclose(file);
    return has_failed || *count < SECRET_LEAST ? EXIT_FAILURE : 0;
}

int join_derive_secret(struct halay_log *log, const struct halay_secret_part parts[3], const char *file,
                       unsigned char secret[HALAY_SECRET_BYTES], int *is_secret)
{
    const char *word = halay_environment_get("HALAY_SECRET");
    char *bytes = calloc(1, SECRET_MAX);
    size_t count = 0;
    int code = bytes ? 0 : say_no_memory();

    word = word ? word : "";
    if (!code && *word && strlen(word) < SECRET_LEAST) {
        say("HALAY_SECRET has %zu characters; it takes %d at least that nobody can guess", strlen(word), SECRET_LEAST);
        code = EXIT_USAGE;
    }
    if (!code && file)
        code = read_secret_file(file, bytes, &count);
    const struct halay_secret_part all[] = { parts[0], parts[1], parts[2], { bytes, count }, { word, strlen(word) } };
    if (!code && halay_derive_secret(log, all, sizeof all / sizeof *all, secret) != HALAY_OK)
        code = EXIT_FAILURE;
    *is_secret = count || *word;
    if (!code && unsetenv("HALAY_SECRET") < 0) /* the ranks have no use for it */
        code = say_no_memory();
    if (bytes)
        explicit_bzero(bytes, SECRET_MAX);
    free(bytes);
    return code;
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
        say("--join: halayrun is started on every node, and needs none of -H, --hostfile, --host-discovery-script, "
            "--ssh and --mpi");
        return EXIT_USAGE;
    }
    if (options->least_ranks || options->most_ranks || options->max_restarts) {
        say("--join: the nodes of a job stay the same and end with it: not with --min-np, --max-np, --max-restarts");
        return EXIT_USAGE;
    }
    if (options->node_rank >= 0 && options->nodes && options->node_rank >= options->nodes) {
        say("--node-rank %d: %d nodes have numbers from 0 to %d", options->node_rank, options->nodes,
            options->nodes - 1);
        return EXIT_USAGE;
    }
    return 0;
}

/* Whether this is node 0; or an exit code below zero (reported). */
static int leads(struct halay_log *log, const struct options *options, const char *host)
{
    int is_leader = options->node_rank == 0 || options->nodes == 1 ||
                    (options->node_rank < 0 && options->nodes && layout_is_here(log, host));

    if (is_leader && !options->nodes) {
        say("--node-rank 0: of how many nodes? give --nnodes N");
        return -EXIT_USAGE;
    }
    if (is_leader && !*options->command) {
        say("which program? node 0 says it: halayrun --nnodes N --join HOST program");
        return -EXIT_USAGE;
    }
    return is_leader;
}

/* Cut if it is long. */
static void write_command(char *const *words, char text[COMMAND_MAX])
{
    FILE *out = fmemopen(text, COMMAND_MAX - 1, "w");

    memset(text, 0, COMMAND_MAX);
    for (int i = 0; out && words[i]; i++) {
        if (i)
            putc(' ', out);
        quote_word(words[i], out);
    }
    if (out)
        fclose(out);
}

static int print_follower(const struct join *join)
{
    printf("# this node joins the job of '%s', port %d, and starts what that tells it\n", join->leader, join->port);
    return 0;
}

static int find_secret(struct halay_log *log, const struct options *options, struct join *join)
{
    static const char what[] = "halayrun --join 1";
    const struct halay_secret_part parts[3] = { { what, sizeof what }, { "", 0 }, { "", 0 } };
    int is_secret = 0;

    int code = join_derive_secret(log, parts, options->secret_file, join->secret, &is_secret);
    if (!code && !is_secret)
        say("WARNING: neither --secret-file nor HALAY_SECRET: anyone who can reach these nodes can run programs on "
            "them");
    return code;
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
                         .node = options->node_rank,
                         .ranks = options->per_host > 0 ? options->per_host : ranks_of_this_host(),
                         .is_chosen = options->per_host > 0,
                         .start_ms = join_start_ms(options) };

    int code = check_options(options);
    if (!code && !split_address(options->join, host, &join.port)) {
        say("option --join: '%s' is not HOST or HOST:PORT", options->join);
        code = EXIT_USAGE;
    }
    if (code)
        return code;
    if (gethostname(name, sizeof name - 1) < 0 || !*name)
        snprintf(name, sizeof name, "a node without a name");
    write_command(options->command, command);
    int is_leader = leads(log, options, host);
    code = is_leader < 0 ? -is_leader : find_secret(log, options, &join);
    if (!code && !is_leader && options->dry_run)
        code = print_follower(&join);
    else if (!code && is_leader)
        join_lead(&join, options, run, &result);
    else if (!code)
        join_follow(&join, &result);
    explicit_bzero(join.secret, sizeof join.secret);
    return code ? code : result.code;
}
