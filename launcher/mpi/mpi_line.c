/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines of mpirun and srun, one function for each kind of launcher. The order is: ranks and hosts, placement,
 * output, folder, variables, the user's own words, the command. So the user's words override ours wherever the last one
 * wins.
 *
 *                    Open MPI 4         Open MPI 5             MPICH          Intel MPI            srun
 *     program        mpirun             mpirun                 mpirun         mpiexec.hydra        srun
 *     hosts          --host a:2         --host a:2             -hosts a:2     -hosts a -ppn 2      --nodelist=a,a
 *     binding        ppr:2:node:PE=4    ppr:2:node:PE=4        -bind-to core:4  I_MPI_PIN_DOMAIN   --cpus-per-task=4
 *     lines' rank    --tag-output       --output tag           -prepend-rank  -prepend-rank        --label
 *     variables      -x NAME            -x NAME                -genvall       -genvall             --export=ALL
 *     files          a folder           a prefix of names      patterns       patterns             patterns
 *     ssh's words    plm_rsh_args       plm_ssh_args           HYDRA_LAUNCHER_EXTRA_ARGS  -bootstrap-exec-args
 *
 * Open MPI runs its daemon on other hosts by a bare name, so any MPI in a login's PATH might answer: --prefix names
 * which one is meant. Open MPI 5 loses the ranks' output if it is given a folder (up to 5.0.11 it takes an existing
 * folder for an error), so it is given a prefix of file names. Intel's mpirun is a shell script that a signal ends
 * while the ranks run on. mpiexec.hydra, which the script calls, passes signals on; the script's only other use is to
 * tell it the batch system.
 */
#include "launcher/mpi/mpi_line.h"
#include <stdlib.h>
#include <string.h>

enum {
    TREE_HOSTS = 64
}; /* from this number of hosts on, halayrun's host calls all at once, instead of hosts calling each other */

static const struct {
    const char *word, *name, *program;
} flavours[] = {
    [MPI_NONE] = { "", "no MPI", "" },
    [MPI_OPEN_4] = { "openmpi4", "Open MPI 4", "mpirun" },
    [MPI_OPEN_5] = { "openmpi5", "Open MPI 5", "mpirun" },
    [MPI_MPICH] = { "mpich", "MPICH", "mpirun" },
    [MPI_INTEL] = { "intel", "Intel MPI", "mpiexec.hydra" },
    [MPI_SRUN] = { "srun", "srun", "srun" },
};

enum mpi_flavour mpi_flavour_parse(const char *word)
{
    for (size_t i = MPI_NONE + 1; i < sizeof flavours / sizeof *flavours; i++)
        if (!strcmp(word, flavours[i].word))
            return (enum mpi_flavour)i;
    return MPI_NONE;
}

const char *mpi_flavour_name(enum mpi_flavour flavour)
{
    return flavours[flavour].name;
}

const char *mpi_flavour_program(enum mpi_flavour flavour)
{
    return flavours[flavour].program;
}

/* Open MPI's number follows its name: "mpirun (Open MPI) 4.1.4", "mpirun (OpenRTE) 4.0.3". */
static enum mpi_flavour open_mpi_of_version(const char *text)
{
    static const char *const names[] = { "(Open MPI)", "(OpenRTE)" };

    for (int i = 0; i < 2; i++) {
        const char *name = strstr(text, names[i]);
        if (name)
            return strtol(name + strlen(names[i]), NULL, 10) >= 5 ? MPI_OPEN_5 : MPI_OPEN_4;
    }
    return MPI_NONE;
}

enum mpi_flavour mpi_flavour_of_version(const char *text)
{
    enum mpi_flavour open_mpi = open_mpi_of_version(text);

    if (open_mpi)
        return open_mpi;
    if (strstr(text, "Intel(R) MPI")) /* a Hydra, too */
        return MPI_INTEL;
    if (strstr(text, "HYDRA build details") || strstr(text, "MPICH"))
        return MPI_MPICH;
    return strncmp(text, "slurm", 5) ? MPI_NONE : MPI_SRUN;
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

static void add_option(struct args *line, const char *option, const char *value)
{
    args_add(line, option);
    args_add(line, value);
}

enum list_style { NAMES, COUNTED, REPEATED }; /* "a,b"; "a:2,b:1"; "a,a,b" */

static void print_host_list(FILE *out, enum list_style style, const struct host_list *hosts, const int *counts)
{
    const char *comma = "";

    for (size_t i = 0; i < hosts->count; i++)
        for (int times = style == REPEATED ? counts[i] : counts[i] > 0; times > 0; times--) {
            fprintf(out, "%s%s", comma, hosts->at[i].name);
            if (style == COUNTED)
                fprintf(out, ":%d", counts[i]);
            comma = ",";
        }
}

/* Appended to an option that ends with '=', otherwise as the next word. */
static void add_hosts(struct args *line, const char *option, enum list_style style, const struct host_list *hosts,
                      const int *counts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out) {
        line->has_failed = 1;
        return;
    }
    print_host_list(out, style, hosts, counts);
    if (fclose(out) == EOF)
        line->has_failed = 1;
    else if (option[strlen(option) - 1] == '=')
        args_addf(line, "%s%s", option, text);
    else
        add_option(line, option, text);
    free(text);
}

/* Counts the ranks of each host. */
static enum halay_status count_ranks(const struct mpi_job *job, int *counts, char *why, size_t size)
{
    int *host_of_rank = calloc((size_t)job->ranks, sizeof *host_of_rank);

    if (!host_of_rank)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = hosts_assign(job->hosts, job->ranks, job->oversubscribe, host_of_rank, why, size);
    for (int rank = 0; status == HALAY_OK && rank < job->ranks; rank++)
        counts[host_of_rank[rank]]++;
    free(host_of_rank);
    return status;
}

/* The most ranks that one host gets. */
static int count_fullest(const struct mpi_job *job, const int *counts)
{
    int most = job->hosts ? 0 : job->ranks;

    for (size_t i = 0; job->hosts && i < job->hosts->count; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

/* Each host gets as many as the first, the last perhaps fewer, as -ppn fills them. */
static int is_filled_evenly(const struct host_list *hosts, const int *counts)
{
    int before = counts[0];

    for (size_t i = 1; i < hosts->count; i++) {
        if (counts[i] > before || (counts[i] && before < counts[0]))
            return 0;
        before = counts[i];
    }
    return 1;
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

static void add_ranks(struct args *line, int ranks)
{
    args_add(line, "-np");
    args_addf(line, "%d", ranks);
}

/* "tag,timestamp,file=DIR/rank", without what is not asked for. */
static void add_open_mpi_5_output(const struct mpi_job *job, struct args *line)
{
    const char *folder = job->output_folder;
    const int marks = job->prefix + job->timestamp;
    char tags[32];

    if (!marks && !folder)
        return;
    snprintf(tags, sizeof tags, "%s%s%s", job->prefix ? "tag" : "", marks == 2 ? "," : "",
             job->timestamp ? "timestamp" : "");
    args_add(line, "--output");
    if (folder)
        args_addf(line, "%s%sfile=%s/rank", tags, marks ? "," : "", folder);
    else
        args_add(line, tags);
}

static void add_open_mpi_4_output(const struct mpi_job *job, struct args *line)
{
    if (job->prefix)
        args_add(line, "--tag-output");
    if (job->timestamp)
        args_add(line, "--timestamp-output");
    if (job->output_folder)
        add_option(line, "--output-filename", job->output_folder);
}

static void add_open_mpi_placement(const struct mpi_job *job, const int *counts, struct args *line)
{
    const char *more = job->oversubscribe && job->flavour == MPI_OPEN_5 ? ":OVERSUBSCRIBE" : "";

    if (job->oversubscribe && job->flavour == MPI_OPEN_4)
        args_add(line, "--oversubscribe");
    args_add(line, "--map-by");
    if (job->cores)
        args_addf(line, "ppr:%d:node:PE=%d%s", count_fullest(job, counts), job->cores, more);
    else
        args_addf(line, "slot%s", more);
    args_add(line, "--bind-to");
    args_add(line, job->cores ? "core" : "none");
}

static void add_open_mpi_network(const struct mpi_job *job, struct args *line)
{
    static const char *const of_4[] = { "-mca", "plm_rsh_no_tree_spawn", "plm_rsh_num_concurrent",
                                        "oob_tcp_if_include" };
    static const char *const of_5[] = { "--prtemca", "plm_ssh_no_tree_spawn", "plm_ssh_num_concurrent",
                                        "prte_if_include" };
    const char *const *names = job->flavour == MPI_OPEN_4 ? of_4 : of_5;

    if (job->hosts && job->hosts->count >= TREE_HOSTS) {
        add_option(line, names[0], names[1]);
        args_add(line, "1");
        add_option(line, names[0], names[2]);
        args_addf(line, "%zu", job->hosts->count);
    }
    if (job->interface) {
        add_option(line, job->flavour == MPI_OPEN_4 ? "-mca" : "--mca", "btl_tcp_if_include");
        args_add(line, job->interface);
        add_option(line, names[0], names[3]);
        args_add(line, job->interface);
    }
}

/* How the launcher reaches other hosts. */
static void add_open_mpi_ssh(const struct mpi_job *job, struct args *line)
{
    static const char *const of_4[] = { "-mca", "plm_rsh_agent", "plm_rsh_args" };
    static const char *const of_5[] = { "--prtemca", "plm_ssh_agent", "plm_ssh_args" };
    const char *const *names = job->flavour == MPI_OPEN_4 ? of_4 : of_5;

    if (job->ssh) {
        add_option(line, names[0], names[1]);
        args_add(line, job->ssh);
    }
    if (job->ssh_args) {
        add_option(line, names[0], names[2]);
        args_add(line, job->ssh_args);
    }
}

static void add_command(const struct mpi_job *job, struct args *line)
{
    if (job->as_rank)
        add_option(line, job->as_rank, "--as-rank");
    args_add_all(line, job->command);
}

static void add_open_mpi(const struct mpi_job *job, const int *counts, struct args *line)
{
    args_add(line, "mpirun");
    if (job->is_root)
        args_add(line, "--allow-run-as-root");
    if (job->installed)
        add_option(line, "--prefix", job->installed);
    add_ranks(line, job->ranks);
    if (job->hosts)
        add_hosts(line, "--host", COUNTED, job->hosts, counts);
    add_open_mpi_ssh(job, line);
    add_open_mpi_network(job, line);
    add_open_mpi_placement(job, counts, line);
    if (job->flavour == MPI_OPEN_4)
        add_open_mpi_4_output(job, line);
    else
        add_open_mpi_5_output(job, line);
    add_option(line, "--wdir", job->folder);
    for (char *const *name = job->variables; *name; name++)
        add_option(line, "-x", *name);
    args_add_all(line, job->more);
    add_command(job, line);
}

/* Options that MPICH's and Intel's Hydra share. */
static void add_hydra_options(const struct mpi_job *job, struct args *line)
{
    if (job->interface)
        add_option(line, "-iface", job->interface);
    args_add(line, "-genvall");
    if (job->prefix)
        args_add(line, "-prepend-rank");
    if (job->output_folder) {
        args_add(line, "-outfile-pattern");
        args_addf(line, "%s/rank.%%r.stdout", job->output_folder);
        args_add(line, "-errfile-pattern");
        args_addf(line, "%s/rank.%%r.stderr", job->output_folder);
    }
    args_add_all(line, job->more);
}

/* A set of arguments. Its own options hold for it alone, unlike those before the first set. */
static void add_set(const struct mpi_job *job, const char *host, int ranks, struct args *line)
{
    if (host)
        add_option(line, "-host", host);
    add_option(line, "-wdir", job->folder);
    add_ranks(line, ranks);
    add_command(job, line);
}

static void add_mpich(const struct mpi_job *job, const int *counts, struct args *line)
{
    if (job->ssh_args) { /* its Hydra has no option for them */
        args_add(line, "env");
        args_addf(line, "HYDRA_LAUNCHER_EXTRA_ARGS=%s", job->ssh_args);
    }
    args_add(line, "mpirun");
    if (job->ssh || job->ssh_args)
        add_option(line, "-launcher", "ssh");
    if (job->ssh)
        add_option(line, "-launcher-exec", job->ssh);
    if (job->hosts)
        add_hosts(line, "-hosts", COUNTED, job->hosts, counts);
    args_add(line, "-bind-to");
    if (job->cores)
        args_addf(line, "core:%d", job->cores);
    else
        args_add(line, "none");
    add_hydra_options(job, line);
    add_set(job, NULL, job->ranks, line);
}

/* Hosts with different numbers of ranks: a set of arguments for each. */
static void add_sets(const struct mpi_job *job, const int *counts, struct args *line)
{
    const char *colon = NULL;

    for (size_t i = 0; i < job->hosts->count; i++) {
        if (!counts[i])
            continue;
        if (colon)
            args_add(line, colon);
        colon = ":";
        add_set(job, job->hosts->at[i].name, counts[i], line);
    }
}

/* As Intel's mpirun would. */
static void add_intel_batch(enum mpi_batch batch, struct args *line)
{
    if (batch == MPI_BATCH_SLURM || batch == MPI_BATCH_PBS)
        add_option(line, "-bootstrap", batch == MPI_BATCH_SLURM ? "slurm" : "pbs");
    if (batch == MPI_BATCH_LSF || batch == MPI_BATCH_PBS)
        add_option(line, "-rmk", batch == MPI_BATCH_LSF ? "lsf" : "pbs");
}

static void add_intel(const struct mpi_job *job, const int *counts, struct args *line)
{
    const int is_even = !job->hosts || is_filled_evenly(job->hosts, counts);

    args_add(line, "mpiexec.hydra");
    if (job->ssh || job->ssh_args)
        add_option(line, "-bootstrap", "ssh");
    else
        add_intel_batch(job->batch, line);
    if (job->ssh)
        add_option(line, "-bootstrap-exec", job->ssh);
    if (job->ssh_args)
        add_option(line, "-bootstrap-exec-args", job->ssh_args);
    if (job->hosts && is_even) {
        args_add(line, "-ppn");
        args_addf(line, "%d", counts[0]);
        add_hosts(line, "-hosts", NAMES, job->hosts, counts);
    }
    add_option(line, "-genv", job->cores ? "I_MPI_PIN_DOMAIN" : "I_MPI_PIN");
    args_add(line, job->cores ? "auto" : "0");
    add_hydra_options(job, line);
    if (is_even)
        add_set(job, NULL, job->ranks, line);
    else
        add_sets(job, counts, line);
}

static void add_srun(const struct mpi_job *job, const int *counts, struct args *line)
{
    args_add(line, "srun");
    args_addf(line, "--ntasks=%d", job->ranks);
    args_add(line, "--kill-on-bad-exit=1");
    if (job->plugin)
        args_addf(line, "--mpi=%s", job->plugin);
    if (job->hosts) {
        args_add(line, "--distribution=arbitrary");
        add_hosts(line, "--nodelist=", REPEATED, job->hosts, counts);
    }
    if (job->oversubscribe)
        args_add(line, "--overcommit");
    if (job->cores)
        args_addf(line, "--cpus-per-task=%d", job->cores);
    args_add(line, job->cores ? "--cpu-bind=cores" : "--cpu-bind=none");
    if (job->prefix)
        args_add(line, "--label");
    if (job->output_folder) {
        args_addf(line, "--output=%s/rank.%%t.stdout", job->output_folder);
        args_addf(line, "--error=%s/rank.%%t.stderr", job->output_folder);
    }
    args_addf(line, "--chdir=%s", job->folder);
    args_add(line, "--export=ALL");
    args_add_all(line, job->more);
    add_command(job, line);
}

/* Their lists use ':' as a separator and know no brackets. */
static enum halay_status check_hosts(const struct mpi_job *job, char *why, size_t size)
{
    for (size_t i = 0; job->hosts && i < job->hosts->count; i++)
        if (strchr(job->hosts->at[i].name, ':')) {
            snprintf(why, size, "host '%s': the list of hosts of %s takes no IPv6 address; give a name for it",
                     job->hosts->at[i].name, flavours[job->flavour].name);
            return HALAY_ERR_ARGUMENT;
        }
    return HALAY_OK;
}

enum halay_status mpi_line_make(const struct mpi_job *job, struct args *line, char *why, size_t size)
{
    size_t hosts = job->hosts ? job->hosts->count : 0;
    int *counts = calloc(hosts + 1, sizeof *counts);
    enum halay_status status = counts ? check_hosts(job, why, size) : HALAY_ERR_NO_MEMORY;

    if (status == HALAY_OK && hosts)
        status = count_ranks(job, counts, why, size);
    if (status == HALAY_OK)
        switch (job->flavour) {
        case MPI_OPEN_4:
        case MPI_OPEN_5:
            add_open_mpi(job, counts, line);
            break;
        case MPI_MPICH:
            add_mpich(job, counts, line);
            break;
        case MPI_INTEL:
            add_intel(job, counts, line);
            break;
        case MPI_SRUN:
            add_srun(job, counts, line);
            break;
        case MPI_NONE:
            status = HALAY_ERR_ARGUMENT;
            snprintf(why, size, "no MPI");
        }
    free(counts);
    return status == HALAY_OK && line->has_failed ? HALAY_ERR_NO_MEMORY : status;
}

const char *mpi_line_lacks(const struct mpi_job *job, size_t index)
{
    const int is_open = job->flavour == MPI_OPEN_4 || job->flavour == MPI_OPEN_5;
    const char *lacks[3];
    size_t count = 0;

    if (job->flavour == MPI_SRUN && (job->ssh || job->ssh_args))
        lacks[count++] = "it calls no ssh: options --ssh, --ssh-port and --ssh-identity-file do nothing";
    if (job->timestamp && !is_open)
        lacks[count++] = "it puts no time in front of lines: option --timestamp does nothing";
    if (job->output_folder && job->flavour == MPI_OPEN_5)
        lacks[count++] = "what it writes to files (DIR/rank.JOB.N.out, DIR/rank.JOB.N.err) it does not show";
    else if (job->output_folder && !is_open)
        lacks[count++] = "what it writes to files (DIR/rank.N.stdout, DIR/rank.N.stderr) it does not show";
    return index < count ? lacks[index] : NULL;
}
