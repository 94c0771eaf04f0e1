/* SPDX-License-Identifier: Apache-2.0
 *
 * Explain prints three blocks: what was found and where, what follows from it, what overrides it.
 */
#include "launcher/explain.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/started.h"

enum { HOSTS_SHOWN = 16 };

static void print_slots(const struct host_list *hosts, FILE *out)
{
    fprintf(out, "  hosts with slots:");
    for (size_t i = 0; i < hosts->count && i < HOSTS_SHOWN; i++)
        fprintf(out, " %s:%d", hosts->at[i].name, hosts->at[i].slots);
    if (hosts->count > HOSTS_SHOWN)
        fprintf(out, " and %zu more", hosts->count - HOSTS_SHOWN);
    fprintf(out, "\n");
}

static void print_started(const struct allocation *a, FILE *out)
{
    fprintf(out, "what follows:\n  %d ranks run already, and halayrun would start more for each of them\n", a->ranks);
    if (a->kind == ALLOCATION_MPI)
        fprintf(out, "  start the program itself under mpirun or srun, without halayrun\n");
    else
        fprintf(out,
                "  start the program by halayrun in place of torchrun: ranks of halay meet through halayrun or MPI\n");
}

/* Returns the command that halayrun reaches other hosts by. */
static const char *reached_by(const struct options *options, const struct allocation *a)
{
    if (options->ssh)
        return options->ssh;
    return a->remote_shell ? a->remote_shell : "ssh";
}

static void print_allocation(const struct options *options, const struct allocation *a, FILE *out)
{
    fprintf(out, "what follows:\n");
    if (a->hosts.count)
        print_slots(&a->hosts, out);
    if (a->this_host)
        fprintf(out, "  this host: %s\n", a->this_host);
    if (a->interface)
        fprintf(out, "  network between the hosts: %s\n", a->interface);
    if (a->remote_shell)
        fprintf(out, "  other hosts are reached by: %s\n", a->remote_shell);
    if (options->ranks)
        fprintf(out, "  ranks: %d, of -np\n", options->ranks);
    else
        fprintf(out, "  ranks without -np: %d\n", a->ranks);
    if (a->kind == ALLOCATION_SAGEMAKER && a->hosts.count > 1 && !options->ssh)
        fprintf(out, "  start: halayrun on every host starts the ranks together, without ssh (--sagemaker); halayrun "
                     "--mpi on one host starts them by the MPI's launcher\n");
    else if (a->copies > 1)
        fprintf(out, "  start: none, since each of the %d halayruns would start all ranks\n", a->copies);
    else if (a->hosts.count)
        fprintf(out,
                "  start: halayrun starts the ranks on these hosts, through %s on all but this one; halayrun --mpi "
                "starts them by the MPI's launcher\n",
                reached_by(options, a));
    else
        fprintf(out, "  start: halayrun starts the ranks of -np on this machine\n");
    fprintf(out,
            "what overrides it:\n  -np N, -H or --hostfile, --ssh COMMAND; with --mpi also --mpi-args, for any option "
            "of the MPI's launcher\n");
}

static void print_node_job(const struct node_job *job, FILE *out)
{
    char line[STARTED_HOST_MAX + 64];

    started_write_line(job, line, sizeof line);
    fprintf(out,
            "recognised: %s\n  %s\nwhat follows:\n  halayrun runs on each of %s%d nodes, and with a secret "
            "(--secret-file, "
            "HALAY_SECRET) they start one job: %s\nwhat overrides it:\n  --nnodes 1 for a job on each node, -H or "
            "--hostfile\n",
            job->launcher, job->variables, job->least_nodes ? "up to " : "the ", job->nodes, line);
}

int explain(const struct options *options, const struct environment *environment, FILE *out)
{
    struct allocation a;
    struct node_job job;
    char why[1024];

    int code = started_find(environment, options->nodes > 1 ? options->nodes : 0, &job);
    if (code)
        return code;
    if (job.nodes) {
        print_node_job(&job, out);
        return 0;
    }
    if (recognise(environment, &a, why, sizeof why) != HALAY_OK) {
        report("%s", why);
        return EXIT_USAGE;
    }
    if (!a.kind) {
        fprintf(
            out,
            "recognised: nothing (looked for an MPI's ranks, torchrun, SageMaker, the MPI Operator, SLURM, LSF, PBS, "
            "TF_CONFIG)\nwhat follows:\n  halayrun starts the ranks of -np on this machine\n");
        return 0;
    }
    fprintf(out, "recognised: %s\n", allocation_name(a.kind));
    for (size_t i = 0; i < a.remarks.count; i++)
        fprintf(out, "  %s\n", a.remarks.at[i]);
    if (a.is_started)
        print_started(&a, out);
    else
        print_allocation(options, &a, out);
    allocation_fini(&a);
    return 0;
}
