/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch: the two parts that a host can play, and what must be right before it plays one.
 */
#include "contrib/sagemaker/launch.h"
#include "base/clock.h"
#include "base/config.h"
#include "contrib/sagemaker/cluster.h"
#include "contrib/sagemaker/hyperparameters.h"
#include "contrib/sagemaker/opt_ml.h"
#include "contrib/sagemaker/ssh_keys.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/say.h"
#include "launcher/remote/tunnel.h"
#include "launcher/remote/tunnel_listen.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { START_MS = 15 * 60 * 1000, STOP_GRACE_MS = 80000 };

struct launch {
    struct sagemaker_cluster cluster;
    struct options *options;                                                  /* borrowed */
    int (*run)(struct halay_log *log, struct options *options, int cause_fd); /* launch.h */
};

/* --start-timeout if it was given: its default of 30 s would be too short here. */
static int start_ms(const struct options *options)
{
    double seconds;
    int ms = START_MS;

    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, "HALAY_START_TIMEOUT") &&
            !halay_parse_double(options->assignments[i].value, 0, 24 * 60 * 60, &seconds))
            ms = (int)(seconds * 1000);
    return ms;
}

/* ---- the failure file -------------------------------------------------------------------------------------------- */

/* cause: as run writes it. If the first rank that failed ran on this host and ended by itself, the file that it has
 * written is better than ours. If it was killed, that file is another rank's, which only knows that it lost a peer. */
static void keep_failure(const struct sagemaker_cluster *c, int code, const char *cause)
{
    const char *lines = strchr(cause, '\n');
    char text[TUNNEL_TEXT_MAX];
    size_t host = lines ? (size_t)(lines - cause) : 0;
    int was_killed = strstr(cause, "was killed by") != NULL; /* in job.c's words */
    int is_here = !host || (strlen(c->allocation.this_host) == host && !strncmp(cause, c->allocation.this_host, host));

    if (lines && lines[1])
        snprintf(text, sizeof text, "%s", lines + 1);
    else if (code > EXIT_SIGNAL && code < EXIT_SIGNAL + NSIG)
        snprintf(text, sizeof text, "halayrun was stopped by %s\n", signal_name(code - EXIT_SIGNAL));
    else
        snprintf(text, sizeof text, "halayrun ended with exit code %d\n", code);
    opt_ml_write_failure(text, !is_here || was_killed);
}

static void fail_to_begin(const struct sagemaker_cluster *c)
{
    char text[sizeof c->reason + 64];

    snprintf(text, sizeof text, "halayrun --sagemaker could not begin: %s\n", *c->reason ? c->reason : "see the log");
    opt_ml_write_failure(text, 0);
}

/* ---- the first host ---------------------------------------------------------------------------------------------- */

static int is_given(const struct options *options, const char *name)
{
    for (size_t i = 0; i < options->given_count; i++)
        if (!strcmp(options->given[i].option, name))
            return 1;
    return 0;
}

/* "algo-1:2,algo-2:2"; owned; NULL without memory. */
static char *list_hosts(const struct sagemaker_cluster *c)
{
    char *list = NULL;
    size_t size;
    FILE *out = open_memstream(&list, &size);

    for (size_t i = 0; out && i < c->count; i++)
        fprintf(out, "%s%s:%d", i ? "," : "", c->names[i], c->allocation.hosts.at[0].slots);
    if (!out || !fclose(out))
        return list;
    free(list);
    return NULL;
}

/* The whole text that run has written there, with this host's name if it names none, so that other hosts know too. */
static void read_cause(const struct sagemaker_cluster *c, int fd, char *text, size_t size)
{
    char cause[TUNNEL_TEXT_MAX];
    ssize_t n = pread(fd, cause, sizeof cause - 1, 0);

    cause[n > 0 ? n : 0] = 0;
    snprintf(text, size, "%s%s", *cause == '\n' ? c->allocation.this_host : "", cause);
}

/* A tunnel for each other host's result: 0, or an exit code. */
static int open_results(const struct launch *l, struct tunnel *results)
{
    const struct sagemaker_cluster *c = &l->cluster;
    int64_t deadline_us = halay_deadline_us(start_ms(l->options));
    int code = 0;

    for (size_t i = 0; i < c->count; i++)
        results[i].fd = -1;
    for (size_t i = 1; !code && !l->options->dry_run && i < c->count; i++)
        code = tunnel_open(c->names[i], c->port, c->secret, TUNNEL_RESULT, deadline_us, &results[i]);
    return code;
}

static void send_results(const struct sagemaker_cluster *c, struct tunnel *results, int code, const char *cause)
{
    for (size_t i = 1; i < c->count; i++)
        if (results[i].fd >= 0)
            tunnel_send_result(&results[i], code, cause);
    explicit_bzero(results, c->count * sizeof *results);
}

/* With this host's halayrun in ssh's place. */
static int run_on_hosts(const struct launch *l, char *hosts, int cause_fd)
{
    const struct sagemaker_cluster *c = &l->cluster;
    struct options *options = l->options;
    const char *file = options->secret_file;
    char ssh[PATH_MAX + 128];

    snprintf(ssh, sizeof ssh, "/proc/self/exe --sagemaker-port %d%s%.4000s --call", c->port,
             file ? " --secret-file " : "", file ? file : "");
    options->hosts = hosts;
    if (c->count > 1)
        options->ssh = ssh;
    if (!is_given(options, "--stop-grace"))
        options->stop_grace_ms = STOP_GRACE_MS;
    int code = l->run(c->log, options, cause_fd);
    options->hosts = options->ssh = NULL;
    return code;
}

static int lead(const struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    char *hosts = list_hosts(c), cause[TUNNEL_TEXT_MAX] = "";
    struct tunnel *results = calloc(c->count, sizeof *results);
    int cause_fd = memfd_create("halay-cause", MFD_CLOEXEC);

    int code = hosts && results && cause_fd >= 0 ? open_results(l, results) : say_no_memory();
    if (!code)
        code = run_on_hosts(l, hosts, cause_fd);
    if (cause_fd >= 0) {
        read_cause(c, cause_fd, cause, sizeof cause);
        close(cause_fd);
    }
    if (results)
        send_results(c, results, code, cause);
    if (code && !l->options->dry_run)
        keep_failure(c, code, cause);
    free(results);
    free(hosts);
    return code;
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

static int follow(const struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    struct tunnel_result result;

    if (l->options->dry_run) {
        printf("# host '%s' listens on port %d, and starts what '%s' tells it\n", c->allocation.this_host, c->port,
               c->names[0]);
        return 0;
    }
    tunnel_listen(c->log, c->names[0], c->port, c->secret, start_ms(l->options), &result);
    if (result.code)
        keep_failure(c, result.code, result.text);
    return result.code;
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

int sagemaker_is_meant(const struct surroundings *from, const struct options *options)
{
    struct allocation a;
    char why[256];

    if (options->sagemaker || options->ssh_keys || options->call)
        return 1;
    if (options->hosts || options->hostfile || options->discovery_script || options->ssh || options->mpi ||
        halay_environment_get("HALAY_RANK") || recognise(from, &a, why, sizeof why) != HALAY_OK)
        return 0; /* whoever needs what cannot be read reports it */
    int is_meant = a.kind == ALLOCATION_SAGEMAKER && a.hosts.count > 1;
    allocation_fini(&a);
    return is_meant;
}

/* 0, or an exit code. */
static int check_options(const struct options *options)
{
    if (options->hosts || options->hostfile || options->discovery_script || options->mpi || options->ssh) {
        say("--sagemaker finds the hosts itself and needs no ssh: leave out -H, --hostfile, --host-discovery-script, "
            "--ssh and --mpi");
        return EXIT_USAGE;
    }
    if (options->sagemaker && (options->least_ranks || options->most_ranks)) {
        say("an elastic job (--min-np, --max-np) and --sagemaker: the hosts of a SageMaker job stay the same");
        return EXIT_USAGE;
    }
    if (options->max_restarts) {
        say("--max-restarts and --sagemaker: the other hosts end with the first failure; a RetryStrategy of the "
            "training "
            "job starts all of it again");
        return EXIT_USAGE;
    }
    if (options->secret_file && strpbrk(options->secret_file, " \t")) {
        say("--secret-file '%s': the name must not contain a blank", options->secret_file);
        return EXIT_USAGE;
    }
    return 0;
}

/* --opt-ml is for this process too. 0, or an exit code. */
static int take_opt_ml(const struct options *options)
{
    for (size_t i = 0; i < options->assignment_count; i++)
        if (!strcmp(options->assignments[i].name, "HALAY_OPT_ML") &&
            setenv("HALAY_OPT_ML", options->assignments[i].value, 1) < 0)
            return say_no_memory();
    return 0;
}

/* If the command line names no program. 0, or an exit code. */
static int find_program(struct options *options, struct words *command)
{
    char folder[PATH_MAX] = "";

    if (*options->command)
        return 0;
    if (sagemaker_find_program(command, folder, sizeof folder) != HALAY_OK)
        return 1;
    options->command = command->at;
    if (*folder && chdir(folder) < 0) {
        say("cannot go to folder '%s': %s", folder, strerror(errno));
        return 1;
    }
    return 0;
}

static int play(const struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    size_t place = 0;

    while (place < c->count && strcmp(c->names[place], c->allocation.this_host))
        place++;
    if (place == 0)
        return lead(l);
    if (place < c->count)
        return follow(l);
    say("host '%s' is in none of the groups that train together: nothing to do here", c->allocation.this_host);
    return 0;
}

static int run_job(struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    struct words command = { 0 };

    sagemaker_cluster_warn(c);
    int code = find_program(l->options, &command);
    if (code)
        fail_to_begin(c);
    else
        code = play(l);
    words_fini(&command);
    return code;
}

int sagemaker_run(struct halay_log *log, const struct surroundings *from, struct options *options,
                  int (*run)(struct halay_log *log, struct options *options, int cause_fd))
{
    struct launch l = { .options = options, .run = run };
    const int is_job = !options->ssh_keys && !options->call;

    int code = is_job ? check_options(options) : 0;
    if (!code)
        code = take_opt_ml(options);
    if (code)
        return code;
    code = sagemaker_cluster_init(log, from, options, &l.cluster);
    if (code && is_job)
        fail_to_begin(&l.cluster);
    else if (!code && options->ssh_keys)
        code = sagemaker_write_ssh_keys(&l.cluster, options->ssh_keys);
    else if (!code && options->call)
        code = tunnel_run(options->call, l.cluster.port, l.cluster.secret);
    else if (!code)
        code = run_job(&l);
    sagemaker_cluster_fini(&l.cluster);
    return code;
}
