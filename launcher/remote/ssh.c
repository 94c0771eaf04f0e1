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
static void add_agent(struct words *words, const struct options *options, int is_shell)
{
    char own[PATH_MAX];
    const char *path = agent_path(options, own, sizeof own);

    if (is_shell) {
        const char *quote = path[strcspn(path, " \t'\"\\$&;()<>|*?[]#~!`{}")] ? "'" : "";
        words_addf(words, "exec %s%s%s --agent", quote, path, quote);
    } else {
        words_add(words, path);
        words_add(words, "--agent");
    }
}

static void add_srun_variables(struct words *words)
{
    static const char *const harmful[] = { "SLURM_LABELIO",     "SLURM_STDINMODE", "SLURM_STDOUTMODE",
                                           "SLURM_STDERRMODE",  "SLURM_EXACT",     "SLURM_CPUS_PER_TASK",
                                           "SRUN_CPUS_PER_TASK" };

    words_add(words, "env");
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++) {
        words_add(words, "-u");
        words_add(words, harmful[i]);
    }
}

int ssh_words(const struct options *options, const char *host, struct words *words)
{
    struct words command = { 0 };

    if (!words_split(&command, options->ssh ? options->ssh : "ssh") || !command.count) {
        words_fini(&command);
        return 0;
    }
    const int is_srun = is_program(command.at[0], "srun");
    if (is_srun)
        add_srun_variables(words);
    words_add_all(words, command.at);
    if (is_program(command.at[0], "ssh")) {
        static const char *const fixed[] = {
            "-T", "-x", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "BatchMode=yes", "-o"
        };
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            words_add(words, fixed[i]);
        words_addf(words, "ConnectTimeout=%d", CONNECT_S);
    }
    words_fini(&command);
    if (options->ssh_port) {
        words_add(words, "-p");
        words_addf(words, "%d", options->ssh_port);
    }
    if (options->ssh_identity) {
        words_add(words, "-i");
        words_add(words, options->ssh_identity);
    }
    words_add(words, host);
    add_agent(words, options, !is_srun);
    return !words->has_failed;
}
