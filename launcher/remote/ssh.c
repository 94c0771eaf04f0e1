/* SPDX-License-Identifier: Apache-2.0
 *
 * Ssh: nothing of the job is in these words, only where halayrun is on the other host; the rest follows through the
 * connection.
 *
 * What is called in place of ssh is taken to give what follows the host to a shell there, as ssh, rsh and the MPI
 * Operator's kubexec.sh do; srun executes it as it is, and must not be told by the job's variables to mark lines, to
 * send streams elsewhere, or to give the agent, and with it all ranks of its host, the processors of one task.
 *
 * Host keys are checked as the user's ssh is told to check them; nobody is there to be asked (BatchMode), so a new host
 * fails with ssh's own words instead of hanging. A connection that the user keeps open (ControlPath) is used; none is
 * left open for others, since it would end with the job, and ports that the user's ssh_config forwards are not this
 * connection's.
 */
#include "launcher/remote/ssh.h"
#include "base/config.h"
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_S = 10 };

/* "ssh -F file" into words, at blanks. */
static void add_split(struct words *words, const char *text)
{
    while (*(text += strspn(text, " \t"))) {
        size_t length = strcspn(text, " \t");
        words_addf(words, "%.*s", (int)length, text);
        text += length;
    }
}

/* Is that the name of the command's program, wherever it is? */
static int is_program(const char *command, const char *name)
{
    size_t length = strcspn(command, " \t"), wanted = strlen(name);

    return length >= wanted && !strncmp(command + length - wanted, name, wanted) &&
           (length == wanted || command[length - wanted - 1] == '/');
}

/* Where halayrun is there. */
static const char *agent_path(const struct options *options, char *own, size_t size)
{
    if (options->remote_halayrun)
        return options->remote_halayrun;
    ssize_t n = readlink("/proc/self/exe", own, size - 1);
    snprintf(own + (n > 0 ? n : 0), size - (size_t)(n > 0 ? n : 0), "%s", n > 0 ? "" : "halayrun");
    return own;
}

/* In quotes for any shell; a quote in a path cannot be carried through all of them, so none is looked for. */
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
    const char *command = options->ssh ? options->ssh : "ssh";

    const int is_srun = is_program(command, "srun");

    if (is_srun)
        add_srun_variables(words);
    add_split(words, command);
    if (is_program(command, "ssh")) {
        static const char *const fixed[] = {
            "-T", "-x", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes", "-o", "BatchMode=yes", "-o"
        };
        for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
            words_add(words, fixed[i]);
        words_addf(words, "ConnectTimeout=%d", CONNECT_S);
    }
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
