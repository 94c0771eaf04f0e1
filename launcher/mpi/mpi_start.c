/* SPDX-License-Identifier: Apache-2.0
 *
 * Start by MPI. Hosts are put on the line only where MPI's launcher does not find them itself, as it does under SLURM,
 * LSF, PBS and the MPI Operator.
 *
 * Cleanup: struct mpi_making begins with zeros; making_free accepts any state.
 */
#include "launcher/mpi/mpi_start.h"
#include "base/config.h"
#include "base/machine/topology.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/local/start.h"
#include "launcher/mpi/as_rank.h"
#include "launcher/mpi/mpi_follow.h"
#include "launcher/mpi/mpi_line.h"
#include "launcher/where/binding.h"
#include "launcher/where/layout.h"
#include "launcher/where/recognise.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct mpi_making {
    struct allocation allocation;
    struct host_list named;                 /* by --hosts or --hostfile */
    struct args variables, more, line, ssh; /* ssh: its program and first arguments */
    char ssh_args[2048];
    char folder[PATH_MAX], installed[PATH_MAX], halayrun[PATH_MAX];
    char master[HOST_NAME_MAX + 256]; /* MASTER_ADDR, unless the user gave it; "": the ranks find it */
    struct mpi_job job;               /* borrows from the others */
};

/* ---- which MPI --------------------------------------------------------------------------------------------------- */

/* The beginning of the command's output, "" if it cannot be run. */
static void ask_command(const char *command, char *text, size_t size)
{
    FILE *pipe = popen(command, "re");
    char rest[512];

    *text = 0;
    if (!pipe)
        return;
    text[fread(text, 1, size - 1, pipe)] = 0;
    while (fread(rest, 1, sizeof rest, pipe) == sizeof rest)
        ;
    if (pclose(pipe) < 0)
        *text = 0;
}

/* MPI_NONE: reported. */
static enum mpi_flavour find_flavour(const struct options *options)
{
    char text[4096];
    const char *asked = "mpirun --version";

    if (options->mpi_flavour) {
        enum mpi_flavour named = mpi_flavour_parse(options->mpi_flavour);
        if (!named)
            report("option --mpi-flavour: '%s' is not one of openmpi4, openmpi5, mpich, intel, srun",
                   options->mpi_flavour);
        return named;
    }
    ask_command("mpirun --version 2>/dev/null", text, sizeof text);
    if (!*text) {
        asked = "srun --version";
        ask_command("srun --version 2>/dev/null", text, sizeof text);
    }
    enum mpi_flavour flavour = mpi_flavour_of_version(text);
    if (!flavour && !*text)
        report("option --mpi: there is neither mpirun nor srun in PATH");
    else if (!flavour)
        report(
            "option --mpi: '%s' prints '%.*s', which is not a known MPI; if it takes another's options, name that one: "
            "--mpi-flavour openmpi4, openmpi5, mpich, intel or srun",
            asked, (int)strcspn(text, "\n"), text);
    else if (options->verbose)
        report("%s, by the output of '%s'", mpi_flavour_name(flavour), asked);
    return flavour;
}

static int is_open_mpi(enum mpi_flavour flavour)
{
    return flavour == MPI_OPEN_4 || flavour == MPI_OPEN_5;
}

/* ---- what is on the line ----------------------------------------------------------------------------------------- */

static void add_once(struct args *names, const char *name, size_t length)
{
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->at[i]) == length && !strncmp(names->at[i], name, length))
            return;
    args_addf(names, "%.*s", (int)length, name);
}

/* Variables that -x and other options name, those of halay, and what a program needs to be found and loaded. */
static void name_variables(const struct options *options, struct args *names)
{
    static const char *const always[] = { "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT", "PATH", "PYTHONPATH" };
    const char *const *all = halay_environment_all();

    for (size_t i = 0; i < options->given_count; i++)
        if (!strcmp(options->given[i].option, "-x"))
            add_once(names, options->given[i].value, strcspn(options->given[i].value, "="));
    for (size_t i = 0; i < options->assignment_count; i++)
        add_once(names, options->assignments[i].name, strlen(options->assignments[i].name));
    for (; *all; all++)
        if (!strncmp(*all, "HALAY_", strlen("HALAY_")) || !strncmp(*all, "HOROVOD_", strlen("HOROVOD_")))
            add_once(names, *all, strcspn(*all, "="));
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (halay_environment_get(always[i]))
            add_once(names, always[i], strlen(always[i]));
}

static int is_known_to_mpi(enum allocation_kind kind)
{
    return kind == ALLOCATION_SLURM || kind == ALLOCATION_LSF || kind == ALLOCATION_PBS ||
           kind == ALLOCATION_KUBERNETES;
}

static int find_allocation(const struct options *options, struct mpi_making *m)
{
    const struct environment here = environment_here();
    struct allocation *a = &m->allocation;
    char why[1024];

    if (recognise(&here, a, why, sizeof why) != HALAY_OK) {
        report("%s", why);
        return EXIT_USAGE;
    }
    int code = layout_read_hosts(options, &m->named);
    if (code)
        return code;
    if (!m->job.ranks && m->named.count)
        m->job.ranks = hosts_ranks(&m->named);
    else if (!m->job.ranks && !a->is_started)
        m->job.ranks = a->ranks;
    if (m->named.count) {
        m->job.hosts = &m->named;
    } else if (a->hosts.count && !is_known_to_mpi(a->kind)) {
        m->job.hosts = &a->hosts;
        m->job.interface = a->interface;
    }
    if (m->job.ranks)
        return 0;
    report("how many ranks? give -np N");
    return EXIT_USAGE;
}

static int most_slots(const struct host_list *hosts)
{
    int most = 0;

    for (size_t i = 0; i < hosts->count; i++)
        most = hosts->at[i].slots > most ? hosts->at[i].slots : most;
    return most;
}

/* Other hosts are assumed to have as many cores as this one; their ranks are bound only with --bind cores. */
static int plan_binding(struct halay_log *log, const struct options *options, struct mpi_making *m)
{
    struct binding_map map;
    struct halay_thread *threads = NULL;
    const struct host_list *hosts = m->named.count ? &m->named : &m->allocation.hosts;
    const int is_far = hosts->count > 0;
    int here = m->job.ranks;
    size_t count = 0;

    if (options->binding == BIND_NONE || (options->binding == BIND_AUTO && is_far))
        return 0;
    if (is_far && most_slots(hosts) < here)
        here = most_slots(hosts);
    int code = binding_plan(log, options->binding, here, &map);
    if (code)
        return code;
    if (map.is_bound && halay_topology_threads(log, &threads, &count) != HALAY_OK)
        code = 1;
    m->job.cores = count ? (threads[count - 1].core + 1) / here : 0;
    m->job.oversubscribe = !map.is_bound && !is_far;
    free(threads);
    binding_fini(&map);
    return code;
}

/* Options for what halayrun does itself without --mpi; MPI's launcher does not do it. */
static void warn_of_unused(const struct options *options)
{
    static const char *const names[] = { "--grace", "--stop-grace", "--gpus", "--max-restarts", "--show-ranks" };

    for (size_t i = 0; i < options->given_count; i++)
        for (size_t j = 0; j < sizeof names / sizeof *names; j++)
            if (!strcmp(options->given[i].option, names[j]))
                report("warning: option %s does nothing with --mpi: the MPI's launcher starts and ends the ranks",
                       names[j]);
}

/* -p, -i and --ssh in the form that launchers take: a program, and arguments that they split at blanks. 0, or an exit
 * code. */
static int plan_ssh(const struct options *options, struct mpi_making *m)
{
    size_t used = 0, size = sizeof m->ssh_args;

    if (options->ssh_identity && strpbrk(options->ssh_identity, " \t")) {
        report("option -i: an MPI's launcher splits its words for ssh at blanks, and '%s' has one",
               options->ssh_identity);
        return EXIT_USAGE;
    }
    if (options->ssh && !args_split(&m->ssh, options->ssh)) {
        report("option --ssh: a quote in '%s' is not closed", options->ssh);
        return EXIT_USAGE;
    }
    for (size_t i = 1; i < m->ssh.count && used < size; i++)
        used += (size_t)snprintf(m->ssh_args + used, size - used, "%s ", m->ssh.at[i]);
    if (options->ssh_port && used < size)
        used += (size_t)snprintf(m->ssh_args + used, size - used, "-p %d ", options->ssh_port);
    if (options->ssh_identity && used < size)
        used += (size_t)snprintf(m->ssh_args + used, size - used, "-i %s ", options->ssh_identity);
    if (used >= size) {
        report("the words for ssh are longer than %zu", size);
        return EXIT_USAGE;
    }
    if (used)
        m->ssh_args[used - 1] = 0; /* the last blank */
    m->job.ssh = m->ssh.count ? m->ssh.at[0] : NULL;
    m->job.ssh_args = used ? m->ssh_args : NULL;
    return 0;
}

/* Finds the halayrun by which each rank sets its variables. Other hosts have it at the path of --remote-halayrun, or
 * at this one's. */
static void find_halayrun(const struct options *options, struct mpi_making *m)
{
    ssize_t n = readlink("/proc/self/exe", m->halayrun, sizeof m->halayrun - 1);

    m->halayrun[n > 0 ? n : 0] = 0;
    m->job.as_rank = options->remote_halayrun ? options->remote_halayrun : n > 0 ? m->halayrun : "halayrun";
}

static int is_loopback_name(const char *name)
{
    return !strcmp(name, "localhost") || !strncmp(name, "127.", strlen("127."));
}

/* The host of rank 0, the first one. srun's tasks know it unless halayrun distributes them. 0, or an exit code. */
static int plan_master(struct mpi_making *m)
{
    const struct host_list *hosts = m->job.hosts ? m->job.hosts : &m->allocation.hosts;
    char port[16], text[64];

    if (hosts->count > 1 && !halay_environment_get("MASTER_ADDR") && (m->job.hosts || m->job.flavour != MPI_SRUN)) {
        const char *user = strrchr(hosts->at[0].name, '@');
        snprintf(m->master, sizeof m->master, "%s", user ? user + 1 : hosts->at[0].name);
        if (is_loopback_name(m->master) && gethostname(m->master, sizeof m->master) < 0) {
            report("cannot find this host's name: %s", strerror(errno));
            return EXIT_FAILURE;
        }
        if (setenv("MASTER_ADDR", m->master, 1) < 0)
            return report_no_memory();
    }
    if (halay_environment_get("MASTER_PORT"))
        return 0;
    snprintf(text, sizeof text, "%d %lld", (int)getpid(), (long long)time(NULL));
    snprintf(port, sizeof port, "%d", master_port_of(text));
    return setenv("MASTER_PORT", port, 1) < 0 ? report_no_memory() : 0;
}

/* Returns nonzero if this option is among the user's own words for the launcher. */
static int is_among_args(const struct args *more, const char *option)
{
    size_t length = strlen(option);

    for (size_t i = 0; i < more->count; i++) {
        const char *word = more->at[i] + strspn(more->at[i], "-");
        if (!strncmp(word, option, length) && (!word[length] || word[length] == '='))
            return 1;
    }
    return 0;
}

/* An Open MPI in a folder that other hosts' logins may not find, or in which they may find another. */
static void find_installation(struct mpi_making *m)
{
    static const char *const usual[] = { "", "/usr", "/usr/local" };
    static const char bin[] = "/bin/mpirun";

    if (!(m->named.count || m->allocation.hosts.count) || is_among_args(&m->more, "prefix") ||
        is_among_args(&m->more, "noprefix") || !start_find_program("mpirun", m->installed, sizeof m->installed) ||
        *m->installed != '/')
        return;
    size_t length = strlen(m->installed), bytes = strlen(bin);
    if (length < bytes || strcmp(m->installed + length - bytes, bin) != 0)
        return;
    m->installed[length - bytes] = 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!strcmp(m->installed, usual[i]))
            return;
    m->job.installed = m->installed;
}

/* Returns what Intel's mpirun would pass to its mpiexec.hydra, unless the user's variables do. */
static enum mpi_batch intel_batch(enum allocation_kind kind)
{
    static const char *const settings[] = { "I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_RMK" };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (halay_environment_get(settings[i]))
            return MPI_BATCH_NONE;
    switch (kind) {
    case ALLOCATION_SLURM:
        return MPI_BATCH_SLURM;
    case ALLOCATION_LSF:
        return MPI_BATCH_LSF;
    case ALLOCATION_PBS:
        return MPI_BATCH_PBS;
    default:
        return MPI_BATCH_NONE;
    }
}

/* Without a plugin for MPI, each of srun's ranks would be alone in its world. A site's default is kept; without
 * one, PMIx, which Open MPI and new MPICHs speak, is preferred to PMI 2. */
static const char *find_plugin(const struct args *more)
{
    static const char *const known[] = { "pmix", "pmi2" };
    char text[1024];

    if (is_among_args(more, "mpi") || halay_environment_get("SLURM_MPI_TYPE"))
        return NULL;
    ask_command("scontrol show config 2>/dev/null | grep '^MpiDefault.*none'", text, sizeof text);
    if (!*text)
        return NULL;
    ask_command("srun --mpi=list 2>&1", text, sizeof text);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(text, known[i]))
            return known[i];
    report("warning: this SLURM has MpiDefault=none, and 'srun --mpi=list' has neither pmix nor pmi2: ranks will not "
           "find each other "
           "through MPI; start them by halayrun without --mpi");
    return NULL;
}

/* The folder that ranks start in. */
static int plan_folder(const struct options *options, struct mpi_making *m)
{
    if (options->folder) {
        snprintf(m->folder, sizeof m->folder, "%s", options->folder);
    } else if (!getcwd(m->folder, sizeof m->folder)) {
        report("cannot find the current folder: %s", strerror(errno));
        return 1;
    }
    m->job.folder = m->folder;
    return 0;
}

/* The user's own words for the launcher, and what depends on them. */
static int plan_args(const struct options *options, struct mpi_making *m)
{
    if (options->mpi_args && !args_split(&m->more, options->mpi_args)) {
        report("option --mpi-args: a quote in '%s' is not closed", options->mpi_args);
        return EXIT_USAGE;
    }
    if (is_open_mpi(m->job.flavour))
        find_installation(m);
    if (m->job.flavour == MPI_SRUN)
        m->job.plugin = find_plugin(&m->more);
    m->job.batch = intel_batch(m->allocation.kind);
    name_variables(options, &m->variables);
    m->job.more = m->more.at;
    m->job.variables = m->variables.at;
    return 0;
}

static void warn_of_limits(const struct options *options, const struct mpi_job *job)
{
    const char *text;

    warn_of_unused(options);
    for (size_t i = 0; (text = mpi_line_lacks(job, i)); i++)
        report("warning: %s: %s", mpi_flavour_name(job->flavour), text);
    if (job->is_root && options->verbose && is_open_mpi(job->flavour))
        report("running as root: --allow-run-as-root is added, without which Open MPI refuses");
}

/* Fills in *m. Returns 0, or an exit code (reported). */
static int make_line(struct halay_log *log, const struct options *options, struct mpi_making *m)
{
    char why[512];

    m->job = (struct mpi_job){ .flavour = find_flavour(options),
                               .ranks = options->ranks,
                               .is_root = geteuid() == 0,
                               .prefix = !options->no_prefix,
                               .timestamp = options->timestamp,
                               .output_folder = options->output_folder,
                               .command = options->command };
    if (options->per_host) {
        report("option --nproc-per-node: with --mpi give -np, and slots in -H");
        return EXIT_USAGE;
    }
    int code = m->job.flavour ? find_allocation(options, m) : EXIT_USAGE;
    if (!code)
        code = plan_binding(log, options, m);
    if (!code)
        code = plan_ssh(options, m);
    if (!code)
        code = plan_folder(options, m);
    find_halayrun(options, m);
    if (!code)
        code = plan_master(m);
    if (!code)
        code = plan_args(options, m);
    if (code)
        return code;
    enum halay_status status = mpi_line_make(&m->job, &m->line, why, sizeof why);
    if (m->variables.has_failed || m->more.has_failed || m->ssh.has_failed || status == HALAY_ERR_NO_MEMORY)
        return report_no_memory();
    if (status != HALAY_OK) {
        report("%s", why);
        return EXIT_USAGE;
    }
    warn_of_limits(options, &m->job);
    return 0;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Preceded by the variables that options set, so that the line does the same by itself. */
static void print_line(const struct options *options, const struct mpi_making *m)
{
    if (options->assignment_count || *m->master)
        printf("env ");
    for (size_t i = 0; i < options->assignment_count; i++) {
        printf("%s=", options->assignments[i].name);
        quote_word(options->assignments[i].value, stdout);
        putchar(' ');
    }
    if (*m->master)
        printf("MASTER_ADDR=%s MASTER_PORT=%s ", m->master, halay_environment_get("MASTER_PORT"));
    quote_args(&m->line, stdout);
    putchar('\n');
}

/* Becomes the launcher, or follows it for --events and --metrics. Returns an exit code, reported if the launcher did
 * not run. */
static int become_launcher(struct halay_log *log, struct options *options, const struct mpi_making *m)
{
    char **args = m->line.at;

    int code = start_check_program(NULL, mpi_flavour_program(m->job.flavour));
    if (code)
        return code;
    if (options->output_folder && mkdir(options->output_folder, 0777) < 0 && errno != EEXIST) {
        report("cannot create folder '%s': %s", options->output_folder, strerror(errno));
        return 1;
    }
    if (options->events || options->metrics)
        return mpi_follow(log, options, m->job.ranks, args);
    execvp(args[0], args);
    report("cannot run '%s': %s", args[0], strerror(errno));
    return EXIT_CANNOT_RUN;
}

static void making_free(struct mpi_making *m)
{
    allocation_fini(&m->allocation);
    hosts_fini(&m->named);
    args_fini(&m->variables);
    args_fini(&m->more);
    args_fini(&m->line);
    args_fini(&m->ssh);
    free(m);
}

int mpi_start(struct halay_log *log, struct options *options)
{
    struct mpi_making *m = calloc(1, sizeof *m);

    if (!m)
        return report_no_memory();
    int code = make_line(log, options, m);
    if (!code && options->dry_run)
        print_line(options, m);
    else if (!code)
        code = become_launcher(log, options, m);
    making_free(m);
    return code;
}
