/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun's command line and its file of settings. Options precede the program: the first word that is not an option
 * begins the command. Most options only name a variable of base/config.c and check their value with its row, so that a
 * flag and its variable cannot differ in what they accept.
 *
 * The command line beats the environment, which beats the file, wherever on the line the file is named: the file is
 * read when the line has been. What was given is kept with its place, for complaints and for --dry-run --verbose.
 */
#include "base/config.h"
#include "base/parse.h"
#include "launcher/cli/horovod.h"
#include "launcher/cli/options_impl.h"
#include "launcher/cli/outer_job.h"
#include "launcher/cli/python_program.h"
#include "launcher/cli/torchrun.h"
#include "launcher/common/command_line.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/rank_list.h"
#include "launcher/common/report.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT_MAX = 65535,
    GRACE_MAX = 24 * 60 * 60,
    JOINED_BYTES = 128, /* of two values */
};

/* ---- values that the table takes by a function ------------------------------------------------------------------- */

static int add_assignment(struct options *options, const char *name, size_t name_length, const char *value,
                          const char *from)
{
    struct assignment *grown = realloc(options->assignments, (options->assignment_count + 1) * sizeof *grown);

    if (grown)
        options->assignments = grown;
    char *copy = grown ? malloc(name_length + strlen(value) + 2) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, name, name_length);
    copy[name_length] = 0;
    strcpy(copy + name_length + 1, value);
    grown[options->assignment_count++] = (struct assignment){ copy, copy + name_length + 1, from };
    return 1;
}

int options_set_variable(const struct halay_option *o, const char *value, void *options, char *why, size_t size)
{
    char reason[256];

    if (halay_config_check(o->variable, value, reason, sizeof reason) != HALAY_OK) {
        snprintf(why, size, "'%s' %s", value, reason);
        return 0;
    }
    if (add_assignment(options, o->variable, strlen(o->variable), value, o->name))
        return 1;
    snprintf(why, size, "out of memory");
    return 0;
}

static int set_megabytes(const struct halay_option *o, const char *value, void *options, char *why, size_t size)
{
    size_t megabytes;
    char bytes[64];

    if (halay_parse_size(value, &megabytes) != HALAY_OK || value[strspn(value, "0123456789")] ||
        megabytes > SIZE_MAX >> 20) {
        snprintf(why, size, "'%s' is not a whole number of MiB", value);
        return 0;
    }
    snprintf(bytes, sizeof bytes, "%zu", megabytes << 20);
    return options_set_variable(o, bytes, options, why, size);
}

static int set_off(const struct halay_option *o, const char *value, void *options, char *why, size_t size)
{
    (void)value;
    return options_set_variable(o, "0", options, why, size);
}

static int export_variable(const struct halay_option *o, const char *text, void *options, char *why, size_t size)
{
    size_t length = strcspn(text, "=");
    const char *value = text + length + 1;
    char name[256] = "";

    if (length && length < sizeof name)
        snprintf(name, sizeof name, "%.*s", (int)length, text);
    if (*name && !text[length])
        value = halay_environment_get(name);
    if (!*name)
        snprintf(why, size, "'%s' is not a variable; write NAME or NAME=VALUE", text);
    else if (outer_job_is_of_rank(name))
        snprintf(why, size, "%s differs from rank to rank and is set by halayrun", name);
    else if (!strcmp(name, "HALAY_SECRET"))
        snprintf(why, size, "%s is for halayrun alone, which reads it in its own environment", name);
    else if (!value)
        snprintf(why, size, "%s is not in the environment; write %s=VALUE", name, name);
    else if (add_assignment(options, name, length, value, o->name))
        return 1;
    else
        snprintf(why, size, "out of memory");
    return 0;
}

static int take_seconds(const struct halay_option *o, const char *value, void *ms, char *why, size_t size)
{
    double seconds;

    (void)o;
    if (halay_parse_double(value, 0, GRACE_MAX, &seconds) != HALAY_OK) {
        snprintf(why, size, "'%s' is not a number of seconds from 0 to %d", value, GRACE_MAX);
        return 0;
    }
    *(int *)ms = (int)(seconds * 1000 + 0.5);
    return 1;
}

/* "10:300", and as horovodrun has it "10 300". */
static int take_range(const struct halay_option *o, const char *value, void *ms, char *why, size_t size)
{
    size_t length = strcspn(value, ": ");
    char first[32];
    int range[2];

    snprintf(first, sizeof first, "%.*s", (int)length, value);
    if (length >= sizeof first || !value[length]) {
        snprintf(why, size, "'%s' is not a range of seconds like 10:300", value);
        return 0;
    }
    if (!take_seconds(o, first, &range[0], why, size) || !take_seconds(o, value + length + 1, &range[1], why, size))
        return 0;
    if (range[0] > range[1] || !range[1]) {
        snprintf(why, size, "'%s' begins above its end, or is 0", value);
        return 0;
    }
    memcpy(ms, range, sizeof range);
    return 1;
}

static int take_per_host(const struct halay_option *o, const char *value, void *number, char *why, size_t size)
{
    long ranks = !strcmp(value, "gpu") ? PER_HOST_GPU : !strcmp(value, "cpu") ? PER_HOST_CPU : PER_HOST_AUTO;

    (void)o;
    if (ranks == PER_HOST_AUTO && strcmp(value, "auto") && halay_parse_long(value, 1, RANKS_MAX, &ranks) != HALAY_OK) {
        snprintf(why, size, "'%s' is neither auto, gpu, cpu nor a whole number from 1 to %d", value, RANKS_MAX);
        return 0;
    }
    *(int *)number = (int)ranks;
    return 1;
}

/* "2", and as torchrun has it "2:2" and "1:4". */
static int take_nodes(const struct halay_option *o, const char *value, void *context, char *why, size_t size)
{
    struct options *options = context;
    const char *colon = strchr(value, ':');
    long least = 0, most = 0;
    char first[16];

    (void)o;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(value, ":"), value);
    if (halay_parse_long(first, 1, RANKS_MAX, &least) != HALAY_OK ||
        halay_parse_long(colon ? colon + 1 : value, least, RANKS_MAX, &most) != HALAY_OK) {
        snprintf(why, size, "'%s' is neither a whole number from 1 to %d nor a range like 2:4", value, RANKS_MAX);
        return 0;
    }
    options->nodes = (int)most;
    options->least_nodes = least < most ? (int)least : 0;
    return 1;
}

static int take_rank_list(const struct halay_option *o, const char *value, void *text, char *why, size_t size)
{
    (void)o;
    if (strcmp(value, "none") && rank_list_last(value) < 0) { /* "none" has no rank */
        snprintf(why, size, "'%s' is not a list of ranks like 0,3-5", value);
        return 0;
    }
    *(const char **)text = value;
    return 1;
}

/* A program and its first arguments, quoted as for a shell. */
static int take_command(const struct halay_option *o, const char *value, void *command, char *why, size_t size)
{
    struct args args = { 0 };
    int is_closed = args_split(&args, value), is_one = args.count > 0;

    (void)o;
    args_fini(&args);
    if (!is_closed)
        snprintf(why, size, "a quote in '%s' is not closed", value);
    else if (!is_one)
        snprintf(why, size, "no program is named");
    *(const char **)command = value;
    return is_closed && is_one;
}

/* Empty, too. */
static int take_args(const struct halay_option *o, const char *value, void *args, char *why, size_t size)
{
    (void)o, (void)why, (void)size;
    *(const char **)args = value;
    return 1;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define AT(member) HALAY_OPTION_SETS(options, member)
#define FLAG(member) HALAY_OPTION_FLAG, AT(member)
#define TEXT(member) HALAY_OPTION_TEXT, AT(member)
#define RANKS(member) HALAY_OPTION_NUMBER, AT(member), .min = 1, .max = RANKS_MAX
#define PORT(member) HALAY_OPTION_NUMBER, AT(member), .min = 1, .max = PORT_MAX
#define TAKEN(member, function) HALAY_OPTION_TAKEN, AT(member), .take = function
#define SECONDS(member) TAKEN(member, take_seconds)
#define SETS_BY(name, function) HALAY_OPTION_TAKEN, .variable = name, .take = function
#define SETS(name) SETS_BY(name, options_set_variable)

static const char *const binding_names[] = { "auto", "cores", "none", NULL };

static const struct halay_option table[] = {
    { .name = "Ranks and hosts" },
    { "-np", "-n, --np", "N", "number of ranks; default: a rank for each slot of the hosts", RANKS(ranks) },
    { "--nproc-per-node", "--nproc_per_node", "auto|gpu|cpu|N",
      "ranks of each host; gpu, cpu: one for each; auto: each GPU, or else each core", TAKEN(per_host, take_per_host) },
    { "--hosts", "-H", "LIST",
      "where ranks run, like node1:4,node[2-9]:8,[fd00::1]:2; default: the hosts of the batch job, or here",
      TEXT(hosts) },
    { "--hostfile", "-hostfile", "FILE", "the same in a file, see halay-hostfile(5)", TEXT(hostfile) },
    { "--oversubscribe", NULL, NULL, "more ranks than slots, up to max_slots", FLAG(oversubscribe) },
    { "-x", NULL, "NAME[=VALUE]", "set a variable for the ranks; without =VALUE, say that it must be there",
      HALAY_OPTION_TAKEN, .take = export_variable },
    { "--wdir", NULL, "DIR", "start the ranks in this folder; default: where halayrun is started", TEXT(folder) },
    { "--module", "-m", NULL, "the program is a Python module, which python3 runs", FLAG(is_module) },
    { "--no-python", "--no_python", NULL, "run a program as it is, also if it ends in .py", FLAG(no_python) },
    { "--bind", NULL, NULL, "auto: ranks on cores of their own if there are enough (default)", HALAY_OPTION_CHOICE,
      AT(binding), .choices = binding_names },
    { "--gpus", NULL, NULL, "auto: each rank sees one GPU of its host, by CUDA_VISIBLE_DEVICES", SETS("HALAY_GPUS") },
    { "--grace", NULL, "SECONDS", "between SIGTERM and SIGKILL after a rank has failed (default 5)",
      SECONDS(grace_ms) },
    { "--stop-grace", NULL, "SECONDS", "the same after a signal to halayrun (default 30)", SECONDS(stop_grace_ms) },
    { "--max-restarts", "--max_restarts", "N",
      "start all ranks again after one has failed, N times at most (default 0); pauses grow from 0.1 to 5 s",
      HALAY_OPTION_NUMBER, AT(max_restarts), .min = 0, .max = RESTARTS_MAX },
    { .name = "Other hosts" },
    { "--ssh-port", "-p", "N", "port of the other hosts' ssh", PORT(ssh_port) },
    { "--ssh-identity-file", "-i", "FILE", "key for them", TEXT(ssh_identity) },
    { "--ssh", NULL, "COMMAND", "called as COMMAND HOST WORDS in place of ssh", TAKEN(ssh, take_command) },
    { "--remote-halayrun", NULL, "PATH", "where halayrun is on the other hosts; default: where it is here",
      TEXT(remote_halayrun) },
    { "--network-interface", NULL, "NETWORKS", "use this network only, like eth0 or 10.0.0.0/8",
      SETS("HALAY_NETWORK_INTERFACE") },
    { "--ports", NULL, "FIRST-LAST", "listen on these ports only for other hosts", SETS("HALAY_PORTS") },
    { "--encrypt", NULL, "0|1", "1: what ranks of different hosts send each other is encrypted",
      SETS("HALAY_ENCRYPT") },
    { .name = "The same command on every node" },
    { "--join", "--rdzv-endpoint, --rdzv_endpoint, --master-addr, --master_addr", "HOST[:PORT]",
      "halayrun is started on every node, and they meet at node 0, which has this address; no ssh", TEXT(join) },
    { "--nnodes", NULL, "N|MIN:MAX",
      "of how many nodes; needed on node 0 only; MIN:MAX: all ranks start again when nodes come or are lost",
      HALAY_OPTION_TAKEN, .take = take_nodes },
    { "--node-rank", "--node_rank", "N",
      "which of them this is; default: 0 where --join's address is, the others in order of arrival",
      HALAY_OPTION_NUMBER, AT(node_rank), .min = 0, .max = RANKS_MAX - 1 },
    { "--join-port", "--master-port, --master_port, --sagemaker-port", "N",
      "where node 0 listens, unless --join has it (default 7778)", PORT(join_port) },
    { "--secret-file", NULL, "FILE", "what only these nodes can read, for the secret between them", TEXT(secret_file) },
    { "--insecure", NULL, NULL, "let nodes join without a secret: all who reach them can run programs on them",
      FLAG(insecure) },
    { .name = "Elastic jobs" },
    { "--min-np", NULL, "N", "continue when ranks are lost, with N at least", RANKS(least_ranks) },
    { "--max-np", NULL, "N", "let ranks join, up to N of them", RANKS(most_ranks) },
    { "--host-discovery-script", NULL, "SCRIPT", "prints the hosts, like node1:4, one a line; run every second",
      TEXT(discovery_script) },
    { "--slots-per-host", NULL, "N", "slots of a host that it prints without a number (default 1)", RANKS(slots) },
    { "--elastic-timeout", NULL, "SECONDS", "how long to wait for --min-np ranks (default 600)",
      SECONDS(elastic_timeout_ms) },
    { "--reset-limit", NULL, "N", "how often the job may be re-formed; default: no limit", RANKS(reset_limit) },
    { "--cooldown", NULL, "MIN:MAX",
      "seconds for which a host is left out that has failed twice, and doubled up to (default 10:300)",
      TAKEN(cooldown_ms, take_range) },
    { .name = "Output and records" },
    { "--no-prefix", NULL, NULL, "pass the ranks' lines on as they are, without [rank]", FLAG(no_prefix) },
    { "--show-ranks", NULL, "LIST", "show the output of these ranks only, like 0,3-5; none: of no rank",
      TAKEN(shown_ranks, take_rank_list) },
    { "--timestamp", NULL, NULL, "begin each line with the time", FLAG(timestamp) },
    { "--output-filename", NULL, "DIR", "also write DIR/rank.N/stdout and DIR/rank.N/stderr", TEXT(output_folder) },
    { "--call", NULL, "DIR", "send DIR/call to the ranks, and write what they return to DIR/result.N (halay.run)",
      TEXT(call) },
    { "--log-level", NULL, NULL, "log lines down to this level", SETS("HALAY_LOG") },
    { "--timeline", NULL, "FILE", "write a timeline there, %r is the rank", SETS("HALAY_TIMELINE") },
    { "--timeline-bytes", NULL, "SIZE", "memory for it", SETS("HALAY_TIMELINE_BYTES") },
    { "--metrics", NULL, "WHERE", "tell how the job goes by HTTP, at PORT, HOST:PORT or unix:PATH", TEXT(metrics) },
    { "--metrics-token-file", NULL, "FILE", "requests must have the word in this file", TEXT(metrics_token_file) },
    { "--events", NULL, "FILE", "append what happens to the job, as JSON lines", TEXT(events) },
    { "--flight", NULL, "FILE", "flight recorder's file, %r is the rank", SETS("HALAY_FLIGHT") },
    { "--flight-bytes", NULL, "SIZE", "its size", SETS("HALAY_FLIGHT_BYTES") },
    { .name = "Engine" },
    { "--fusion-threshold", NULL, "SIZE", "largest fused bucket, like 64M; 0: no fusion",
      SETS("HALAY_FUSION_THRESHOLD") },
    { "--fusion-threshold-mb", NULL, "N", "the same in MiB", SETS_BY("HALAY_FUSION_THRESHOLD", set_megabytes) },
    { "--deterministic", NULL, NULL, "the same bits again: in every run, or also on any number of ranks",
      SETS("HALAY_DETERMINISTIC") },
    { "--replay", NULL, "0|1", "1: a step that repeats itself needs no agreement", SETS("HALAY_REPLAY") },
    { "--process-sets", NULL, "SETS", "process sets made at the start, like 0,1;2-5", SETS("HALAY_PROCESS_SETS") },
    { "--join-average", NULL, NULL, "what averages divide by while ranks have joined", SETS("HALAY_JOIN_AVERAGE") },
    { "--check", NULL, "0|1", "1: ranks compare what they call before each collective", SETS("HALAY_CHECK") },
    { "--start-timeout", NULL, "SECONDS", "how long a rank waits for the others at the start",
      SETS("HALAY_START_TIMEOUT") },
    { "--host-silence", NULL, "SECONDS", "silence after which a host counts as lost", SETS("HALAY_HOST_SILENCE") },
    { "--peer-timeout", NULL, "SECONDS", "silence after which a peer counts as lost", SETS("HALAY_PEER_TIMEOUT") },
    { "--stall-check-time", NULL, "SECONDS", "when a stalled tensor is reported", SETS("HALAY_STALL_CHECK_TIME") },
    { "--no-stall-check", NULL, NULL, "never report a stalled tensor", SETS_BY("HALAY_STALL_CHECK_TIME", set_off) },
    { "--stall-shutdown-time", NULL, "SECONDS", "when it ends the job", SETS("HALAY_STALL_SHUTDOWN_TIME") },
    { "--thread-affinity", NULL, "WHERE",
      "where the engine's threads run: auto, off, or one number for each rank of a host",
      SETS("HALAY_THREAD_AFFINITY") },
    { "--spin-us", NULL, "N", "microseconds that a wait spins; -1: by the cores there are", SETS("HALAY_SPIN_US") },
    { .name = "Transports and algorithms" },
    { "--transport", NULL, NULL, "what moves the data", SETS("HALAY_TRANSPORT") },
    { "--tcp-streams", NULL, "N", "TCP connections to each peer on another host; 0: by the network",
      SETS("HALAY_TCP_STREAMS") },
    { "--module-path", NULL, "DIR", "where transport modules are looked for first", SETS("HALAY_MODULE_PATH") },
    { "--segment-bytes", NULL, "SIZE", "address space of a rank's shared segment", SETS("HALAY_SEGMENT_BYTES") },
    { "--allreduce-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_ALLREDUCE_ALGORITHM") },
    { "--reduce-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_REDUCE_ALGORITHM") },
    { "--reduce-scatter-algorithm", NULL, "NAME", "algorithm by name, or auto",
      SETS("HALAY_REDUCE_SCATTER_ALGORITHM") },
    { "--broadcast-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_BROADCAST_ALGORITHM") },
    { "--allgather-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_ALLGATHER_ALGORITHM") },
    { "--alltoall-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_ALLTOALL_ALGORITHM") },
    { "--barrier-algorithm", NULL, "NAME", "algorithm by name, or auto", SETS("HALAY_BARRIER_ALGORITHM") },
    { "--tuning", NULL, "FILE", "table that algorithms are chosen by, or builtin", SETS("HALAY_TUNING") },
    { "--ring-segment", NULL, "SIZE", "piece of a ring's block that is sent at once", SETS("HALAY_RING_SEGMENT") },
    { "--slot", NULL, "SIZE", "piece of private data that passes through shared memory at once", SETS("HALAY_SLOT") },
    { "--device-slab", NULL, "SIZE", "device memory through which devices reduce; 0: through the host's",
      SETS("HALAY_DEVICE_SLAB") },
    { "--device-exchange", NULL, "SIZE",
      "largest sum that devices make in one kernel that waits for the others'; 0: none",
      SETS("HALAY_DEVICE_EXCHANGE") },
    { "--device-algorithm", NULL, "NAME", "all-reduces of device data: auto, or nccl where usable",
      SETS("HALAY_DEVICE_ALGORITHM") },
    { .name = "Batch systems, MPI and SageMaker" },
    { "--mpi", NULL, NULL, "start the ranks by mpirun or srun, with the right options for the one there is",
      FLAG(mpi) },
    { "--mpi-flavour", NULL, "NAME", "openmpi4, openmpi5, mpich, intel, srun; default: by its --version",
      TEXT(mpi_flavour) },
    { "--mpi-args", NULL, "WORDS", "more words for mpirun or srun, quoted as for a shell", TAKEN(mpi_args, take_args) },
    { "--as-rank", NULL, NULL, "this is a rank of mpirun's or srun's: set RANK and the like, and become PROGRAM",
      FLAG(as_rank) },
    { "--sagemaker", NULL, NULL, "this runs on every host of a SageMaker job: start one job on them, without ssh",
      FLAG(sagemaker) },
    { "--ssh-keys", NULL, "DIR", "write the keys of this SageMaker job's hosts for ssh there, and start nothing",
      TEXT(ssh_keys) },
    { "--opt-ml", NULL, "DIR", "in place of SageMaker's /opt/ml", SETS("HALAY_OPT_ML") },
    { .name = "Settings and information" },
    { "--config-file", NULL, "FILE", "settings in YAML, for what neither is given here nor in the environment",
      TEXT(config_file) },
    { "--dry-run", NULL, NULL, "print what would be started, and start nothing", FLAG(dry_run) },
    { "--verbose", NULL, NULL, "print which rank runs where; with --dry-run, the source of each setting",
      FLAG(verbose) },
    { "--explain", NULL, NULL, "print which batch system or platform is recognised, and what follows", FLAG(explain) },
    { "--status", NULL, "WHERE", "print how the job goes that has --metrics there; again and again in a terminal",
      TEXT(status) },
    { "--dump", NULL, "DIR", "with --status: copy the ranks' flight records there", TEXT(dump) },
    { "--check-build", NULL, NULL, "print what is built in", FLAG(check_build) },
    { "--version", NULL, NULL, "print the version", FLAG(version) },
    { "--agent", NULL, NULL, NULL, FLAG(is_agent) },
    { .name = NULL },
};

const struct halay_command_line options_line = {
    .command = "halayrun",
    .synopsis = "-np N [options] program [arguments]",
    .about = "Start N ranks of a program, on this machine or on several; they find each other by themselves.",
    .table = table,
    .notes = "Options of horovodrun are understood: docs/guides/from-horovod.md.\n"
             "Exit code: that of the first rank that failed, 128 + n if signal n ended it; 126 and 127 if the program "
             "cannot be run or found; 2 for a wrong command line. See halayrun(1) and halay-environment(7).",
};

int options_apply(struct options *options, const struct halay_option *o, const char *who, const char *value)
{
    char why[512];

    if (halay_option_apply(o, value, options, why, sizeof why))
        return 0;
    report("%s: %s", who, why);
    return EXIT_USAGE;
}

struct given *options_add_given(struct options *options, const struct halay_option *o, const char *value, int line)
{
    struct given *grown = realloc(options->given, (options->given_count + 1) * sizeof *grown);

    if (grown)
        options->given = grown;
    char *copy = grown ? strdup(value ? value : "") : NULL;
    if (!copy) {
        report_no_memory();
        return NULL;
    }
    grown[options->given_count] = (struct given){ .option = o->name, .value = copy, .line = line };
    return &grown[options->given_count++];
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* Puts flags after -x, since they override it. Stable within each, so that the later of two flags wins. */
static int put_flags_last(struct options *options)
{
    struct assignment *sorted = calloc(options->assignment_count + 1, sizeof *sorted);
    size_t n = 0;

    if (!sorted)
        return report_no_memory();
    for (int flags = 0; flags < 2; flags++)
        for (size_t i = 0; i < options->assignment_count; i++)
            if (!!strcmp(options->assignments[i].from, "-x") == flags)
                sorted[n++] = options->assignments[i];
    free(options->assignments);
    options->assignments = sorted;
    return 0;
}

/* The second of two values follows the first. */
static int take_second(const struct horovod_flag *flag, char ***next, const char **value, char joined[JOINED_BYTES])
{
    const char *second = *(*next)++;

    if (!second) {
        report("option %s wants two values", flag->name);
        return EXIT_USAGE;
    }
    snprintf(joined, JOINED_BYTES, "%s:%s", *value, second);
    *value = joined;
    return 0;
}

/* A flag of horovodrun's or torchrun's. given->option becomes the one that it means, NULL if there is nothing to apply.
 * 0, or an exit code. */
static int translate_flag(const struct horovod_flag *flag, char ***next, struct halay_option_given *given,
                          char joined[JOINED_BYTES])
{
    char *word = *(*next)++, *equals = strchr(word, '=');

    *given = (struct halay_option_given){ .value = equals ? equals + 1 : NULL };
    if (flag->fate == HOROVOD_REFUSED) {
        report("option %s: %s", flag->name, flag->text);
        return EXIT_USAGE;
    }
    if (given->value && !flag->values) {
        report("option %s takes no value, but '%s' is given", flag->name, given->value);
        return EXIT_USAGE;
    }
    if (flag->values && !given->value && !(given->value = *(*next)++)) {
        report("option %s wants a value", flag->name);
        return EXIT_USAGE;
    }
    if (flag->values > 1 && take_second(flag, next, &given->value, joined))
        return EXIT_USAGE;
    if (flag->fate == HOROVOD_IGNORED)
        report("option %s has no effect: %s", flag->name, flag->text);
    if (flag->fate != HOROVOD_TRANSLATED)
        return 0;
    given->option = halay_command_line_find(&options_line, flag->option, strlen(flag->option));
    given->value = flag->value ? flag->value : given->value;
    snprintf(given->name, sizeof given->name, "%s", flag->option);
    return 0;
}

static int parse_one(struct options *options, char ***next)
{
    const struct horovod_flag *flag = horovod_flag_find(**next, strcspn(**next, "="));
    char who[80], why[512], joined[JOINED_BYTES];
    struct halay_option_given given;

    flag = flag ? flag : torchrun_flag_find(*next);
    int code = flag ? translate_flag(flag, next, &given, joined) : 0;

    if (!flag && !halay_option_read(&options_line, next, &given, why, sizeof why)) {
        report("%s", why);
        return EXIT_USAGE;
    }
    if (code || !given.option)
        return code;
    options->help |= given.option->kind == HALAY_OPTION_HELP;
    options->list |= given.option->kind == HALAY_OPTION_LIST;
    struct given *kept = options_add_given(options, given.option, given.value, 0);
    if (!kept)
        return EXIT_FAILURE;
    snprintf(who, sizeof who, "option %s", given.name);
    return options_apply(options, given.option, who, kept->value);
}

/* The ranks get a flight recorder: what they did last is known if the job fails, and metrics are read from it. 0: no
 * memory. */
static int keep_record(struct options *options)
{
    static const char wanted[] = "HALAY_FLIGHT", otherwise[] = "HALAY_DEFAULT_FLIGHT";
    const char *name = options->metrics ? wanted : otherwise;
    char pattern[96];
    struct timespec now;

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, wanted))
            return 1;
    if (halay_environment_get(wanted))
        return 1;
    clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    snprintf(pattern, sizeof pattern, "/dev/shm/halayrun-%d-%llx-%%r.flight", (int)getpid(),
             (unsigned long long)now.tv_sec << 30 | (unsigned long long)now.tv_nsec);
    options->removes_record = 1;
    return add_assignment(options, name, strlen(name), pattern, options->metrics ? "--metrics" : "halayrun");
}

/* python3 before the command, if it needs that. 0, or an exit code (reported). */
static int complete_python(struct options *options)
{
    int is_out_of_memory = 0;

    if (options->is_module && options->no_python) {
        report("options --module and --no-python: give one of them");
        return EXIT_USAGE;
    }
    if (!options->no_python)
        options->python_command =
            python_program_args(options->command, options->folder, options->is_module, &is_out_of_memory);
    if (options->python_command)
        options->command = options->python_command;
    return is_out_of_memory ? report_no_memory() : 0;
}

int options_parse(int argc, char **argv, struct options *options)
{
    char **next = argv + (argc > 0);

    *options = (struct options){ .node_rank = -1,
                                 .grace_ms = 5000,
                                 .stop_grace_ms = 30000,
                                 .elastic_timeout_ms = 600000,
                                 .cooldown_ms = { 10000, 300000 } };
    while (*next && **next == '-' && strcmp(*next, "--")) {
        int code = parse_one(options, &next);
        if (code)
            return code;
    }
    if (*next && !strcmp(*next, "--"))
        next++;
    options->command = next;
    if (options->help || options->list || options->version || options->check_build || options->explain ||
        options->is_agent || options->ssh_keys || options->status || options->as_rank)
        return 0;
    int code = options_apply_file(options);
    if (code)
        return code;
    code = complete_python(options);
    if (code)
        return code;
    options->mpi |= options->mpi_flavour || options->mpi_args;
    if (options->mpi && options->call) {
        report("option --call: what --mpi starts has no store");
        return EXIT_USAGE;
    }
    if (!*options->command && !options->sagemaker && !options->join) {
        report("which program? give it after the options: halayrun -np N program");
        if (!options->given_count)
            halay_command_line_print_help(&options_line, stderr);
        return EXIT_USAGE;
    }
    if ((options->metrics || !(options->mpi || options->dry_run)) && !keep_record(options))
        return report_no_memory();
    return put_flags_last(options);
}

void options_fini(struct options *options)
{
    for (size_t i = 0; i < options->assignment_count; i++)
        free(options->assignments[i].name);
    for (size_t i = 0; i < options->given_count; i++)
        free(options->given[i].value);
    free(options->assignments);
    free(options->given);
    free(options->python_command);
    *options = (struct options){ 0 };
}
