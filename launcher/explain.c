/* SPDX-License-Identifier: Apache-2.0
 *
 * Explain: three blocks: what was found and where, what follows from it, what overrides it.
 */
#include "launcher/explain.h"
#include "launcher/common/say.h"

enum { EXIT_USAGE = 2, HOSTS_SHOWN = 16 };

static void print_hosts(const struct host_list *hosts, FILE *out)
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
    fprintf(out,
            "what follows:\n  the ranks run already, %d of them, and halayrun would start as many again as it is told "
            "for each\n",
            a->ranks);
    if (a->kind == ALLOCATION_MPI)
        fprintf(out, "  start the program itself under mpirun or srun, without halayrun\n");
    else
        fprintf(out,
                "  start the program by halayrun in place of torchrun: ranks of halay meet through halayrun or MPI\n");
}

static void print_allocation(const struct options *options, const struct allocation *a, FILE *out)
{
    fprintf(out, "what follows:\n");
    if (a->hosts.count)
        print_hosts(&a->hosts, out);
    if (a->here)
        fprintf(out, "  this host: %s\n", a->here);
    if (a->interface)
        fprintf(out, "  network between the hosts: %s\n", a->interface);
    if (a->agent)
        fprintf(out, "  other hosts are reached by: %s\n", a->agent);
    if (options->ranks)
        fprintf(out, "  ranks: %d, as -np says\n", options->ranks);
    else
        fprintf(out, "  ranks without -np: %d\n", a->ranks);
    if (a->kind == ALLOCATION_SAGEMAKER && a->hosts.count > 1 && !options->ssh)
        fprintf(out, "  start: halayrun, started on every host, starts them together, without ssh (--sagemaker); "
                     "halayrun --mpi by the "
                     "MPI's launcher, on one\n");
    else if (a->copies > 1)
        fprintf(out, "  start: none, since each of the %d halayruns would start all ranks\n", a->copies);
    else if (a->hosts.count)
        fprintf(out,
                "  start: halayrun starts them on these hosts, by %s where that is not this one; halayrun --mpi by the "
                "MPI's launcher\n",
                options->ssh ? options->ssh
                : a->agent   ? a->agent
                             : "ssh");
    else
        fprintf(out, "  start: halayrun starts ranks on this machine, as many as -np says\n");
    fprintf(
        out,
        "what overrides it:\n  -np N, -H or --hostfile, --ssh COMMAND; with --mpi also --mpi-args, for all that the "
        "MPI's launcher can be told\n");
}

int explain(const struct options *options, const struct surroundings *surroundings, FILE *out)
{
    struct allocation a;
    char why[1024];

    if (recognise(surroundings, &a, why, sizeof why) != HALAY_OK) {
        say("%s", why);
        return EXIT_USAGE;
    }
    if (!a.kind) {
        fprintf(
            out,
            "recognised: nothing (looked for an MPI's ranks, torchrun, SageMaker, the MPI Operator, SLURM, LSF, PBS, "
            "TF_CONFIG)\nwhat follows:\n  all ranks are started on this machine, as many as -np says\n");
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
