/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch: the two parts that a host can play, and what must be right before it plays one.
 */
#include "sagemaker/launch.h"
#include "base/config.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/job/job.h"
#include "launcher/remote/join.h"
#include "launcher/where/choose_hosts.h"
#include "sagemaker/cluster.h"
#include "sagemaker/hyperparameters.h"
#include "sagemaker/opt_ml.h"
#include "sagemaker/ssh_keys.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_GRACE_MS = 80000 };

struct launch {
    struct sagemaker_cluster cluster;
    struct options *options;                   /* borrowed */
    char code[PATH_MAX], folder[2 * PATH_MAX]; /* where the user's program is, "": not known; where ranks begin */
    int (*run)(struct halay_log *log, struct options *options, int cause_fd); /* launch.h */
};

/* ---- the failure file -------------------------------------------------------------------------------------------- */

/* If the first rank that failed ran on this host and ended by itself,
 * the file that it has written is better than ours. If it was killed, that file is another rank's, which only knows
 * that it lost a peer. */
static void keep_failure(const struct sagemaker_cluster *c, int code, const struct job_cause *cause)
{
    char text[TALK_TEXT_MAX];
    const int is_here = !*cause->host || !strcmp(cause->host, c->allocation.this_host);

    if (*cause->text)
        snprintf(text, sizeof text, "%s", cause->text);
    else if (code > EXIT_SIGNAL && code < EXIT_SIGNAL + NSIG)
        snprintf(text, sizeof text, "halayrun was stopped by %s\n", signal_name(code - EXIT_SIGNAL));
    else
        snprintf(text, sizeof text, "halayrun ended with exit code %d\n", code);
    opt_ml_write_failure(text, !is_here || cause->was_killed);
}

static void fail_to_begin(const struct sagemaker_cluster *c)
{
    char text[sizeof c->reason + 64];

    snprintf(text, sizeof text, "halayrun --sagemaker could not begin: %s\n", *c->reason ? c->reason : "see the log");
    opt_ml_write_failure(text, 0);
}

/* ---- this host's part -------------------------------------------------------------------------------------------- */

static int is_given(const struct options *options, const char *name)
{
    for (size_t i = 0; i < options->given_count; i++)
        if (!strcmp(options->given[i].option, name))
            return 1;
    return 0;
}

/* What this host's part in the job is; place: its own in the order of all. */
static struct join describe_part(const struct launch *l, size_t place)
{
    const struct sagemaker_cluster *c = &l->cluster;
    struct join join = { .log = c->log,
                         .leader = c->names[0],
                         .name = c->allocation.this_host,
                         .command = "",
                         .interface = join_variable(l->options, "HALAY_NETWORK_INTERFACE"),
                         .port = c->port,
                         .least = (int)c->count,
                         .nodes = (int)c->count,
                         .node = (int)place,
                         .ranks = l->options->per_host ? ranks_of_this_host(l->options->per_host)
                                                       : c->allocation.hosts.at[0].slots,
                         .is_chosen = 1,
                         .start_ms = join_start_ms(l->options) };

    memcpy(join.secret, c->secret, sizeof join.secret);
    return join;
}

/* Ranks begin where the user's program is, on each host. Where output goes, the first host's halayrun stays where it
 * was started: files on its command line are relative to that. 0, or an exit code. */
static int begin_in_code(struct launch *l, int leads)
{
    struct options *options = l->options;

    if (!*l->code)
        return 0;
    if (!leads && chdir(l->code) < 0) {
        report("cannot go to folder '%s': %s", l->code, strerror(errno));
        return EXIT_FAILURE;
    }
    if (!leads || (options->folder && *options->folder == '/'))
        return 0;
    options->has_own_folders = !options->folder;
    snprintf(l->folder, sizeof l->folder, "%s%s%s", l->code, options->folder ? "/" : "",
             options->folder ? options->folder : "");
    options->folder = l->folder;
    return 0;
}

static int take_part(struct launch *l, size_t place)
{
    struct join join = describe_part(l, place);
    struct join_result result = { 0 };

    if (place && l->options->dry_run) {
        printf("# host '%s' calls '%s', port %d, and starts the ranks that it gets\n", join.name, join.leader,
               join.port);
        return 0;
    }
    if (!join.ranks)
        return EXIT_USAGE; /* reported */
    if (!is_given(l->options, "--stop-grace"))
        l->options->stop_grace_ms = STOP_GRACE_MS;
    result.code = begin_in_code(l, place == 0);
    if (result.code)
        fail_to_begin(&l->cluster);
    else if (place)
        join_follow(&join, &result);
    else
        join_lead(&join, l->options, l->run, &result);
    explicit_bzero(join.secret, sizeof join.secret);
    if (result.code && !l->options->dry_run) {
        struct job_cause cause;
        job_cause_read(result.text, &cause);
        keep_failure(&l->cluster, result.code, &cause);
    }
    return result.code;
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

int sagemaker_is_meant(const struct environment *from, const struct options *options)
{
    struct allocation a;
    char why[256];

    if (options->sagemaker || options->ssh_keys)
        return 1;
    if (options->hosts || options->hostfile || options->discovery_script || options->ssh || options->mpi ||
        options->join || halay_environment_get("HALAY_RANK") || recognise(from, &a, why, sizeof why) != HALAY_OK)
        return 0; /* whoever needs what cannot be read reports it */
    int is_meant = a.kind == ALLOCATION_SAGEMAKER && a.hosts.count > 1;
    allocation_fini(&a);
    return is_meant;
}

/* 0, or an exit code. */
static int check_options(const struct options *options)
{
    if (options->hosts || options->hostfile || options->discovery_script || options->mpi || options->ssh ||
        options->join) {
        report(
            "--sagemaker finds the hosts itself and needs no ssh: leave out -H, --hostfile, --host-discovery-script, "
            "--ssh, --mpi and --join");
        return EXIT_USAGE;
    }
    if (options->sagemaker && (options->least_ranks || options->most_ranks)) {
        report("an elastic job (--min-np, --max-np) and --sagemaker: the hosts of a SageMaker job stay the same");
        return EXIT_USAGE;
    }
    if (options->max_restarts) {
        report("--max-restarts and --sagemaker: the other hosts end with the first failure; a RetryStrategy of the "
               "training "
               "job starts all of it again");
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
            return report_no_memory();
    return 0;
}

/* If the command line names no program. 0, or an exit code. */
static int find_program(struct launch *l, struct args *command)
{
    if (*l->options->command)
        return 0;
    if (sagemaker_find_program(command, l->code, sizeof l->code) != HALAY_OK)
        return 1;
    l->options->command = command->at;
    return 0;
}

static int play(struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    size_t place = 0;

    while (place < c->count && strcmp(c->names[place], c->allocation.this_host))
        place++;
    if (place < c->count)
        return take_part(l, place);
    report("host '%s' is in none of the groups that train together: nothing to do here", c->allocation.this_host);
    return 0;
}

static int run_job(struct launch *l)
{
    const struct sagemaker_cluster *c = &l->cluster;
    struct args command = { 0 };

    sagemaker_cluster_warn(c);
    int code = find_program(l, &command);
    if (code)
        fail_to_begin(c);
    else
        code = play(l);
    args_fini(&command);
    return code;
}

int sagemaker_run(struct halay_log *log, const struct environment *from, struct options *options,
                  int (*run)(struct halay_log *log, struct options *options, int cause_fd))
{
    struct launch l = { .options = options, .run = run };
    const int is_job = !options->ssh_keys;

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
    else if (!code)
        code = run_job(&l);
    sagemaker_cluster_fini(&l.cluster);
    return code;
}
