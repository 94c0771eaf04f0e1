/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun's command line and its file of settings. Options come before the program; the first word that is none begins
 * the command. An option's value follows it or stands behind '='. Most options only name a variable of base/config.c
 * and check their value with its row, so that a flag and its variable cannot differ in what they accept.
 *
 * The command line beats the environment, which beats the file, wherever on the line the file is named: the file is
 * read when the line has been. What was given is kept with its place, for complaints and for --dry-run --verbose.
 */
#include "base/config.h"
#include "launcher/cli/horovod.h"
#include "launcher/cli/options_impl.h"
#include "launcher/common/say.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANKS_MAX = 65536,
    GRACE_MAX = 24 * 60 * 60,
    JOINED_BYTES = 128, /* of two values */
};

#define OF(kind, member) kind, NULL, offsetof(struct options, member)
#define FLAG_OF(member) OF(FLAG, member)

static const struct option table[] = {
    { "-np", "N", OF(RANKS, ranks), "number of ranks (also -n, --np); default: a rank for each slot of the hosts" },
    { "-n", "N", OF(RANKS, ranks), NULL },
    { "--np", "N", OF(RANKS, ranks), NULL },
    { "--hosts", "LIST", OF(TEXT, hosts),
      "where ranks run, like node1:4,node[2-9]:8,[fd00::1]:2 (also -H); default: the hosts of the batch job, or here" },
    { "-H", "LIST", OF(TEXT, hosts), NULL },
    { "--hostfile", "FILE", OF(TEXT, hostfile), "the same in a file, see halay-hostfile(5) (also -hostfile)" },
    { "-hostfile", "FILE", OF(TEXT, hostfile), NULL },
    { "--oversubscribe", NULL, FLAG_OF(oversubscribe), "more ranks than slots, up to max_slots" },
    { "--ssh-port", "N", OF(PORT, ssh_port), "port of the other hosts' ssh (also -p)" },
    { "-p", "N", OF(PORT, ssh_port), NULL },
    { "--ssh-identity-file", "FILE", OF(TEXT, ssh_identity), "key for them (also -i)" },
    { "-i", "FILE", OF(TEXT, ssh_identity), NULL },
    { "--ssh", "COMMAND", OF(TEXT, ssh), "called as COMMAND HOST WORDS in place of ssh" },
    { "--remote-halayrun", "PATH", OF(TEXT, remote_halayrun),
      "where halayrun is on the other hosts; default: where it is here" },
    { "--min-np", "N", OF(RANKS, least_ranks), "elastic job: goes on when ranks are lost, with N at least" },
    { "--max-np", "N", OF(RANKS, most_ranks), "elastic job: ranks join as long as there are no more than N" },
    { "--host-discovery-script", "SCRIPT", OF(TEXT, discovery_script),
      "elastic job: prints the hosts, like node1:4, one a line; run every second" },
    { "--slots-per-host", "N", OF(RANKS, slots), "slots of a host that it prints without a number (default 1)" },
    { "--elastic-timeout", "SECONDS", OF(SECONDS, elastic_timeout_ms),
      "how long an elastic job waits for --min-np ranks (default 600)" },
    { "--reset-limit", "N", OF(RANKS, reset_limit), "how often an elastic job may be re-formed; default: no limit" },
    { "--cooldown", "MIN:MAX", OF(RANGE, cooldown_ms),
      "seconds for which a host is left out that has failed twice, and doubled up to (default 10:300)" },
    { "-x", "NAME[=VALUE]", EXPORT, NULL, 0,
      "set a variable for the ranks; without =VALUE, say that it must be there" },
    { "--bind", "WHAT", OF(BINDING, binding),
      "auto: ranks on cores of their own if there are enough (default); cores; none" },
    { "--gpus", "none|auto", SETS, "HALAY_GPUS", 0,
      "auto: each rank sees one GPU of its host, by CUDA_VISIBLE_DEVICES" },
    { "--opt-ml", "DIR", SETS, "HALAY_OPT_ML", 0, "in place of SageMaker's /opt/ml" },
    { "--grace", "SECONDS", OF(SECONDS, grace_ms), "between SIGTERM and SIGKILL after a rank has failed (default 5)" },
    { "--stop-grace", "SECONDS", OF(SECONDS, stop_grace_ms), "the same after halayrun was told to stop (default 30)" },
    { "--no-prefix", NULL, FLAG_OF(no_prefix), "pass the ranks' lines on as they are, without [rank]" },
    { "--timestamp", NULL, FLAG_OF(timestamp), "begin each line with the time" },
    { "--output-filename", "DIR", OF(TEXT, output_folder), "also write DIR/rank.N/stdout and DIR/rank.N/stderr" },
    { "--wdir", "DIR", OF(TEXT, folder), "start the ranks in this folder; default: where halayrun is started" },
    { "--network-interface", "NAMES", SETS, "HALAY_NETWORK_INTERFACE", 0, "listen on this network only, like eth0" },
    { "--ports", "FIRST-LAST", SETS, "HALAY_PORTS", 0, "listen on these ports only for other hosts" },
    { "--transport", "NAME", SETS, "HALAY_TRANSPORT", 0, "auto, shm, mpi, ucx" },
    { "--fusion-threshold", "SIZE", SETS, "HALAY_FUSION_THRESHOLD", 0, "largest fused bucket, like 64M; 0: no fusion" },
    { "--fusion-threshold-mb", "N", SETS_MB, "HALAY_FUSION_THRESHOLD", 0, "the same in MiB" },
    { "--autotune", "[off|on]", SETS, "HALAY_AUTOTUNE", 0, "find the best sizes of buckets and chunks while it runs" },
    { "--autotune-file", "FILE", SETS, "HALAY_AUTOTUNE_FILE", 0, "keep what was found there" },
    { "--deterministic", "MODE", SETS, "HALAY_DETERMINISTIC", 0, "off, run, ranks" },
    { "--process-sets", "SETS", SETS, "HALAY_PROCESS_SETS", 0, "process sets made at the start, like 0,1;2-5" },
    { "--join-average", "all|present", SETS, "HALAY_JOIN_AVERAGE", 0,
      "what averages divide by while ranks have joined" },
    { "--log-level", "LEVEL", SETS, "HALAY_LOG", 0, "error, warning, info, debug" },
    { "--start-timeout", "SECONDS", SETS, "HALAY_START_TIMEOUT", 0,
      "how long a rank waits for the others at the start" },
    { "--peer-timeout", "SECONDS", SETS, "HALAY_PEER_TIMEOUT", 0, "silence after which a peer counts as lost" },
    { "--check", "0|1", SETS, "HALAY_CHECK", 0, "1: ranks compare what they call before each collective" },
    { "--stall-check-time", "SECONDS", SETS, "HALAY_STALL_CHECK_TIME", 0, "when a stalled tensor is reported" },
    { "--no-stall-check", NULL, SETS_OFF, "HALAY_STALL_CHECK_TIME", 0, "never report a stalled tensor" },
    { "--stall-shutdown-time", "SECONDS", SETS, "HALAY_STALL_SHUTDOWN_TIME", 0, "when it ends the job" },
    { "--flight", "FILE", SETS, "HALAY_FLIGHT", 0, "flight recorder's file, %r is the rank" },
    { "--flight-bytes", "SIZE", SETS, "HALAY_FLIGHT_BYTES", 0, "its size" },
    { "--timeline", "FILE", SETS, "HALAY_TIMELINE", 0, "write a timeline there, %r is the rank" },
    { "--timeline-bytes", "SIZE", SETS, "HALAY_TIMELINE_BYTES", 0, "memory for it" },
    { "--allreduce-algorithm", "NAME", SETS, "HALAY_ALLREDUCE_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--reduce-algorithm", "NAME", SETS, "HALAY_REDUCE_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--reduce-scatter-algorithm", "NAME", SETS, "HALAY_REDUCE_SCATTER_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--broadcast-algorithm", "NAME", SETS, "HALAY_BROADCAST_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--allgather-algorithm", "NAME", SETS, "HALAY_ALLGATHER_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--alltoall-algorithm", "NAME", SETS, "HALAY_ALLTOALL_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--barrier-algorithm", "NAME", SETS, "HALAY_BARRIER_ALGORITHM", 0, "algorithm by name, or auto" },
    { "--ring-segment", "SIZE", SETS, "HALAY_RING_SEGMENT", 0, "piece of a ring's block that is sent at once" },
    { "--slot", "SIZE", SETS, "HALAY_SLOT", 0, "piece of private data that passes through shared memory at once" },
    { "--tuning", "FILE", SETS, "HALAY_TUNING", 0, "table that algorithms are chosen by, or builtin" },
    { "--segment-bytes", "SIZE", SETS, "HALAY_SEGMENT_BYTES", 0, "address space of a rank's shared segment" },
    { "--thread-affinity", "WHERE", SETS, "HALAY_THREAD_AFFINITY", 0,
      "where the engine's threads run: auto, off, or one number for each rank of a host" },
    { "--spin-us", "N", SETS, "HALAY_SPIN_US", 0, "microseconds that a wait spins; -1: by the cores there are" },
    { "--ucx-endpoints", "N", SETS, "HALAY_UCX_ENDPOINTS", 0, "connections of UCX to each peer" },
    { "--module-path", "DIR", SETS, "HALAY_MODULE_PATH", 0, "where transport modules are looked for first" },
    { "--sagemaker", NULL, FLAG_OF(sagemaker),
      "this runs on every host of a SageMaker job: start one job on them, without ssh" },
    { "--sagemaker-port", "N", OF(PORT, sagemaker_port), "port between these hosts (default 7778)" },
    { "--secret-file", "FILE", OF(TEXT, secret_file), "what only these hosts can read, for the secret between them" },
    { "--ssh-keys", "DIR", OF(TEXT, ssh_keys),
      "write the keys of this SageMaker job's hosts for ssh there, and start nothing" },
    { "--mpi", NULL, FLAG_OF(mpi), "start the ranks by mpirun or srun, with the right options for the one there is" },
    { "--mpi-flavour", "NAME", OF(TEXT, mpi_flavour),
      "openmpi4, openmpi5, mpich, intel, srun; default: what --version says" },
    { "--mpi-args", "WORDS", OF(WORDS, mpi_args), "more words for mpirun or srun, quoted as for a shell" },
    { "--explain", NULL, FLAG_OF(explain), "print which batch system or platform is recognised, and what follows" },
    { "--config-file", "FILE", OF(TEXT, config_file),
      "settings in YAML, for what neither is given here nor in the environment" },
    { "--dry-run", NULL, FLAG_OF(dry_run), "print what would be started, and start nothing" },
    { "--check-build", NULL, FLAG_OF(check_build), "print what is built in" },
    { "--verbose", NULL, FLAG_OF(verbose), "say which rank runs where; with --dry-run, where each setting comes from" },
    { "--version", NULL, FLAG_OF(version), "print the version" },
    { "--help", NULL, FLAG_OF(help), "print this (also -h)" },
    { "-h", NULL, FLAG_OF(help), NULL },
    { "--agent", NULL, FLAG_OF(is_agent), NULL },
    { "--call", "HOST", OF(TEXT, call), NULL },
};

enum { OPTIONS = sizeof table / sizeof *table };

const struct option *options_row(size_t index)
{
    return index < OPTIONS ? &table[index] : NULL;
}

const struct option *options_find(const char *name, size_t length)
{
    for (const struct option *o = table; o < table + OPTIONS; o++)
        if (strlen(o->name) == length && !strncmp(o->name, name, length))
            return o;
    return NULL;
}

const char *options_flag_of(const char *variable)
{
    for (const struct option *o = table; o < table + OPTIONS; o++)
        if (o->kind == SETS && !strcmp(o->variable, variable))
            return o->name;
    return NULL;
}

void options_print_help(FILE *out)
{
    char left[64];

    fprintf(out, "usage: halayrun -np N [options] program [arguments]\n"
                 "Start N ranks of a program, on this machine or on several; they find each other by themselves.\n\n");
    for (const struct option *o = table; o < table + OPTIONS; o++)
        if (o->help) {
            snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
            fprintf(out, "  %-30s %s\n", left, o->help);
        }
    fprintf(out, "\nOptions of horovodrun are understood: docs/guides/from-horovod.md.\n");
    fprintf(out,
            "Exit code: that of the first rank that failed, 128 + n if signal n ended it; 126 and 127 if the program\n"
            "cannot be run or found; 2 for a wrong command line. See halayrun(1) and halay-environment(7).\n");
}

static int add_assignment(struct options *options, const char *name, size_t name_length, const char *value,
                          const char *from)
{
    struct assignment *grown = realloc(options->assignments, (options->assignment_count + 1) * sizeof *grown);

    if (!grown)
        return say_no_memory();
    options->assignments = grown;
    char *copy = malloc(name_length + strlen(value) + 2);
    if (!copy)
        return say_no_memory();
    memcpy(copy, name, name_length);
    copy[name_length] = 0;
    strcpy(copy + name_length + 1, value);
    grown[options->assignment_count++] = (struct assignment){ copy, copy + name_length + 1, from };
    return 0;
}

static int set_variable(struct options *options, const struct option *o, const char *who, const char *value)
{
    char why[256], bytes[64];
    size_t megabytes;

    if (o->kind == SETS_MB) {
        if (halay_parse_size(value, &megabytes) != HALAY_OK || value[strspn(value, "0123456789")] ||
            megabytes > SIZE_MAX >> 20) {
            say("%s: '%s' is no whole number of MiB", who, value);
            return EXIT_USAGE;
        }
        snprintf(bytes, sizeof bytes, "%zu", megabytes << 20);
        value = bytes;
    }
    if (halay_config_check(o->variable, value, why, sizeof why) != HALAY_OK) {
        say("%s: '%s' %s", who, value, why);
        return EXIT_USAGE;
    }
    return add_assignment(options, o->variable, strlen(o->variable), value, o->name);
}

static int is_launchers(const char *name)
{
    const struct halay_config_variable *variable;

    for (size_t i = 0; (variable = halay_config_variable(i)); i++)
        if (!strcmp(variable->name, name))
            return variable->is_set_by_launcher;
    return 0;
}

static int export_variable(struct options *options, const char *who, const char *text)
{
    size_t length = strcspn(text, "=");
    char name[256];

    if (length == 0 || length >= sizeof name) {
        say("%s: '%s' is no variable; write NAME or NAME=VALUE", who, text);
        return EXIT_USAGE;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    if (is_launchers(name)) {
        say("%s: %s differs from rank to rank and is set by halayrun", who, name);
        return EXIT_USAGE;
    }
    if (text[length] == '=')
        return add_assignment(options, name, length, text + length + 1, "-x");
    if (!halay_environment_get(name)) {
        say("%s: %s is not in the environment; write %s=VALUE", who, name, name);
        return EXIT_USAGE;
    }
    return add_assignment(options, name, length, halay_environment_get(name), "-x");
}

static int parse_ranks(const char *who, const char *value, int *ranks)
{
    long number;

    if (halay_parse_long(value, 1, RANKS_MAX, &number) != HALAY_OK) {
        say("%s: '%s' is no number of ranks from 1 to %d", who, value, RANKS_MAX);
        return EXIT_USAGE;
    }
    *ranks = (int)number;
    return 0;
}

static int parse_seconds(const char *who, const char *value, int *ms)
{
    double seconds;

    if (halay_parse_double(value, 0, GRACE_MAX, &seconds) != HALAY_OK) {
        say("%s: '%s' is no number of seconds from 0 to %d", who, value, GRACE_MAX);
        return EXIT_USAGE;
    }
    *ms = (int)(seconds * 1000 + 0.5);
    return 0;
}

/* "10:300", and as horovodrun has it "10 300". */
static int parse_range(const char *who, const char *value, int ms[2])
{
    size_t length = strcspn(value, ": ");
    char first[32];
    int range[2];

    snprintf(first, sizeof first, "%.*s", (int)length, value);
    if (length >= sizeof first || !value[length]) {
        say("%s: '%s' is no range of seconds like 10:300", who, value);
        return EXIT_USAGE;
    }
    int code = parse_seconds(who, first, &range[0]);
    if (!code)
        code = parse_seconds(who, value + length + 1, &range[1]);
    if (!code && (range[0] > range[1] || !range[1])) {
        say("%s: '%s' begins above its end, or is 0", who, value);
        code = EXIT_USAGE;
    }
    if (!code)
        memcpy(ms, range, sizeof range);
    return code;
}

static int parse_port(const char *who, const char *value, int *port)
{
    long number;

    if (halay_parse_long(value, 1, 65535, &number) != HALAY_OK) {
        say("%s: '%s' is no port from 1 to 65535", who, value);
        return EXIT_USAGE;
    }
    *port = (int)number;
    return 0;
}

static int parse_binding(const char *who, const char *value, enum binding *binding)
{
    static const char *const words[] = { "auto", "cores", "none" };

    for (int i = 0; i < 3; i++)
        if (!strcmp(value, words[i])) {
            *binding = (enum binding)i;
            return 0;
        }
    say("%s: '%s' is none of auto, cores, none", who, value);
    return EXIT_USAGE;
}

static int parse_text(const char *who, const char *value, const char **text)
{
    if (!*value) {
        say("%s: an empty name", who);
        return EXIT_USAGE;
    }
    *text = value;
    return 0;
}

int options_apply(struct options *options, const struct option *o, const char *who, const char *value)
{
    void *member = (char *)options + o->member;

    switch (o->kind) {
    case SETS:
    case SETS_MB:
        return set_variable(options, o, who, value);
    case SETS_OFF:
        return set_variable(options, o, who, "0");
    case RANKS:
        return parse_ranks(who, value, member);
    case EXPORT:
        return export_variable(options, who, value);
    case BINDING:
        return parse_binding(who, value, member);
    case SECONDS:
        return parse_seconds(who, value, member);
    case RANGE:
        return parse_range(who, value, member);
    case TEXT:
        return parse_text(who, value, member);
    case WORDS:
        *(const char **)member = value;
        return 0;
    case PORT:
        return parse_port(who, value, member);
    case FLAG:
        *(int *)member = 1;
        return 0;
    }
    return EXIT_USAGE;
}

struct given *options_add_given(struct options *options, const struct option *o, const char *value, int line)
{
    struct given *grown = realloc(options->given, (options->given_count + 1) * sizeof *grown);

    if (grown)
        options->given = grown;
    char *copy = grown ? strdup(value ? value : "") : NULL;
    if (!copy) {
        say_no_memory();
        return NULL;
    }
    grown[options->given_count] = (struct given){ .option = o->name, .value = copy, .line = line };
    return &grown[options->given_count++];
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int complain_unknown(const char *name)
{
    const char *names[OPTIONS + 1], *nearest;

    for (int i = 0; i < OPTIONS; i++)
        names[i] = table[i].name;
    names[OPTIONS] = NULL;
    nearest = halay_nearest_word(name, names);
    if (nearest)
        say("unknown option '%s'; did you mean '%s'?", name, nearest);
    else
        say("unknown option '%s'; halayrun --help lists those there are", name);
    return EXIT_USAGE;
}

/* Flags override -x: put them behind. Stable within each, so that the later of two flags wins. */
static int put_flags_last(struct options *options)
{
    struct assignment *sorted = calloc(options->assignment_count + 1, sizeof *sorted);
    size_t n = 0;

    if (!sorted)
        return say_no_memory();
    for (int flags = 0; flags < 2; flags++)
        for (size_t i = 0; i < options->assignment_count; i++)
            if (!!strcmp(options->assignments[i].from, "-x") == flags)
                sorted[n++] = options->assignments[i];
    free(options->assignments);
    options->assignments = sorted;
    return 0;
}

/* A value that may be left out: the next word, if it can be one. */
static const char *optional_value(const struct option *o, char ***next)
{
    char why[256];

    if (**next && halay_config_check(o->variable, **next, why, sizeof why) == HALAY_OK)
        return *(*next)++;
    return "on";
}

/* The second of two values goes behind the first. */
static int take_second(const struct horovod_flag *flag, char ***next, const char **value, char joined[JOINED_BYTES])
{
    const char *second = *(*next)++;

    if (!second) {
        say("option %s wants two values", flag->name);
        return EXIT_USAGE;
    }
    snprintf(joined, JOINED_BYTES, "%s:%s", *value, second);
    *value = joined;
    return 0;
}

/* A flag of horovodrun's, with its first value if it stood behind '='. *o becomes the option that it means, with
 * *value; NULL if there is nothing to apply. */
static int translate(const struct horovod_flag *flag, char ***next, const struct option **o, const char **value,
                     char joined[JOINED_BYTES])
{
    *o = NULL;
    if (flag->fate == HOROVOD_REFUSED) {
        say("option %s: %s", flag->name, flag->text);
        return EXIT_USAGE;
    }
    if (*value && !flag->values) {
        say("option %s takes no value, but '%s' is given", flag->name, *value);
        return EXIT_USAGE;
    }
    if (flag->values && !*value && !(*value = *(*next)++)) {
        say("option %s wants a value", flag->name);
        return EXIT_USAGE;
    }
    if (flag->values > 1 && take_second(flag, next, value, joined))
        return EXIT_USAGE;
    if (flag->fate == HOROVOD_IGNORED)
        say("option %s has no effect: %s", flag->name, flag->text);
    if (flag->fate == HOROVOD_TRANSLATED) {
        *o = options_find(flag->option, strlen(flag->option));
        *value = flag->value ? flag->value : *value;
    }
    return 0;
}

static int parse_one(struct options *options, char ***next)
{
    char *word = *(*next)++, *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct option *o = options_find(word, length);
    const char *value = equals ? equals + 1 : NULL;
    const struct horovod_flag *flag = o ? NULL : horovod_flag_find(word, length);
    char who[64], joined[JOINED_BYTES];

    if (flag) {
        int code = translate(flag, next, &o, &value, joined);
        if (code || !o)
            return code;
    }
    if (!o) {
        if (equals)
            *equals = 0;
        return complain_unknown(word);
    }
    if (!o->value && value) {
        say("option %s takes no value, but '%s' is given", o->name, value);
        return EXIT_USAGE;
    }
    if (o->value && o->value[0] == '[' && !value)
        value = optional_value(o, next);
    if (o->value && !value && !(value = *(*next)++)) {
        say("option %s wants a value: %s %s", o->name, o->name, o->value);
        return EXIT_USAGE;
    }
    struct given *given = options_add_given(options, o, value, 0);
    if (!given)
        return 1;
    snprintf(who, sizeof who, "option %s", o->name);
    return options_apply(options, o, who, given->value);
}

int options_parse(int argc, char **argv, struct options *options)
{
    char **next = argv + (argc > 0);

    *options = (struct options){
        .grace_ms = 5000, .stop_grace_ms = 30000, .elastic_timeout_ms = 600000, .cooldown_ms = { 10000, 300000 }
    };
    while (*next && **next == '-' && strcmp(*next, "--")) {
        int code = parse_one(options, &next);
        if (code)
            return code;
    }
    if (*next && !strcmp(*next, "--"))
        next++;
    options->command = next;
    if (options->help || options->version || options->check_build || options->explain || options->is_agent ||
        options->call || options->ssh_keys)
        return 0;
    int code = options_apply_file(options);
    if (code)
        return code;
    options->mpi |= options->mpi_flavour || options->mpi_args;
    if (!*options->command && !options->sagemaker) {
        say("which program? give it behind the options: halayrun -np N program");
        if (!options->given_count)
            options_print_help(stderr);
        return EXIT_USAGE;
    }
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
    *options = (struct options){ 0 };
}
