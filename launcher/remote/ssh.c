/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: its command line has nothing of the job, only where halayrun is on the other host. The rest follows through the
 * connection.
 *
 * A program in place of ssh is assumed to give what follows the host to a shell there, as ssh, rsh and the MPI
 * Operator's kubexec.sh do. srun executes it as it is. The job's variables must not make srun label lines, redirect
 * streams, or give the agent, and with it all ranks of its host, the processors of one task only.
 *
 * Host keys are checked as the user's ssh is configured to. Nobody is there to answer questions (BatchMode), so a new
 * host fails with ssh's own words instead of hanging. A connection that the user keeps open (ControlPath) is used; none
 * is left open for others, since it would end with the job; and ports that the user's ssh_config forwards are not
 * forwarded here.
 */
#include "launcher/remote/ssh.h"
#include "base/config.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_S = 10 };

/* Returns nonzero if this is the program of this name, in any folder. */
static int is_program(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return !strcmp(slash ? slash + 1 : path, name);
}

/* The path of halayrun on the other host. */
static const char *agent_path(const struct options *options, char *own, size_t size)
{
    if (options->remote_halayrun)
        return options->remote_halayrun;
    ssize_t n = readlink("/proc/self/exe", own, size - 1);
    if (n <= 0)
        return "halayrun";
    own[n] = 0;
    return own;
}

/* Quoted for any shell. No quoting survives all shells, so a path with a quote is not supported. */
static void add_agent(struct args *args, const struct options *options, int is_shell)
{
    char own[PATH_MAX];
    const char *path = agent_path(options, own, sizeof own);

    if (is_shell) {
        const char *quote = path[strcspn(path, " \t'\"\\$&;()<>|*?[]#~!`{}")] ? "'" : "";
        args_addf(args, "exec %s%s%s --agent", quote, path, quote);
    } else {
        args_add(args, path);
        args_add(args, "--agent");
    }
}

static void add_srun_variables(struct args *args)
{
    static const char *const harmful[] = { "SLURM_LABELIO",     "SLURM_STDINMODE", "SLURM_STDOUTMODE",
                                           "SLURM_STDERRMODE",  "SLURM_EXACT",     "SLURM_CPUS_PER_TASK",
                                           "SRUN_CPUS_PER_TASK" };

    args_add(args, "env");
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++) {
        args_add(args, "-u");
        args_add(args, harmful[i]);
    }
}

int ssh_args(const struct options *options, const char *host, struct args *args)
{
    struct args command = { 0 };

    if (!args_split(&command, options->ssh ? options->ssh : "ssh") || !command.count) {
        args_fini(&command);
        return 0;
    }
    const int is_srun = is_program(command.at[0], "srun");
    if (is_srun)
        add_srun_variables(args);
    args_add_all(args, command.at);
    if (is_program(command.at[0], "ssh")) {
        static const char *const fixed[] = {
            "-T", "-x", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "BatchMode=yes", "-o"
        };
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            args_add(args, fixed[i]);
        args_addf(args, "ConnectTimeout=%d", CONNECT_S);
    }
    args_fini(&command);
    if (options->ssh_port) {
        args_add(args, "-p");
        args_addf(args, "%d", options->ssh_port);
    }
    if (options->ssh_identity) {
        args_add(args, "-i");
        args_add(args, options->ssh_identity);
    }
    args_add(args, host);
    add_agent(args, options, !is_srun);
    return !args->has_failed;
}
