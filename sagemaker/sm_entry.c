/* SPDX-License-Identifier: Apache-2.0
 *
 * sm-entry: the first process of a SageMaker container.
 *
 * As process 1 it starts the command (SageMaker's words for it are train and serve), reaps orphans, and exits with the
 * command's exit code. SageMaker stops a container with SIGTERM, and with SIGKILL 120 s later. sm-entry then asks this
 * host's ranks to end, each by a signal that it handles: SIGUSR1, or else SIGTERM. It knows ranks by the variables that
 * their launcher sets. It does not signal mpirun, which would kill all ranks a second later, nor the shell between
 * mpirun and a rank, whose death ends the job. Only if no rank handles either signal does the command itself get
 * SIGTERM.
 */
#include "base/config.h"
#include "halay_types.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/local/processes.h"
#include "sagemaker/opt_ml.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAVE_MS = 5000, PAUSE_MS = 50 };

struct entry {
    char **command;
    pid_t child;
    int is_stopping; /* SIGTERM or SIGINT has come */
};

static const char help[] =
    "usage: sm-entry [COMMAND [ARGUMENT...]]\n"
    "The first process of a SageMaker container: runs COMMAND, and turns SIGTERM into SIGUSR1 to the ranks below it.\n"
    "Without COMMAND, or with \"train\", it runs the program 'train' (SageMaker's toolkit) if there is one in PATH, "
    "else\n"
    "'halayrun --sagemaker'; with \"serve\" a program of that name, else 'halay-tft serve' of the model. See "
    "sm-entry(1).\n";

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

/* At most size - 1 bytes of a file of /proc, with a zero behind them; how many: 0 if it cannot be read. */
static size_t read_file(int pid, const char *name, char *bytes, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(bytes, 1, size - 1, file) : 0;
    if (file)
        fclose(file);
    bytes[n] = 0;
    return n;
}

/* 0 if it cannot be read. */
static int parent_of(int pid)
{
    char status[8192];

    read_file(pid, "status", status, sizeof status);
    const char *line = strstr(status, "\nPPid:");
    return line ? atoi(line + 6) : 0;
}

/* In a container every process is, since we adopt orphans; elsewhere there may be ranks of other jobs. */
static int is_descendant(int pid)
{
    int own = getpid();

    for (int depth = 0; pid > 0 && pid != own && depth < 1000; depth++)
        pid = parent_of(pid);
    return pid == own;
}

static int is_rank(int pid)
{
    static const char *const marks[] = { "OMPI_COMM_WORLD_RANK=", "HALAY_RANK=", "PMI_RANK=" };
    static char environment[1 << 20]; /* more than any sensible one */
    size_t n = read_file(pid, "environ", environment, sizeof environment);

    for (const char *at = environment; at < environment + n; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (!strncmp(at, marks[i], strlen(marks[i])))
                return 1;
    return 0;
}

/* SIGUSR1 or SIGTERM, whichever the process handles; 0: neither. */
static int handled_signal(int pid)
{
    char status[8192];

    read_file(pid, "status", status, sizeof status);
    const char *line = strstr(status, "\nSigCgt:");
    unsigned long long caught = line ? strtoull(line + 8, NULL, 16) : 0;
    if (caught >> (SIGUSR1 - 1) & 1)
        return SIGUSR1;
    return caught >> (SIGTERM - 1) & 1 ? SIGTERM : 0;
}

static int signal_rank(int pid)
{
    if (pid <= 0 || pid == getpid() || !is_descendant(pid) || !is_rank(pid))
        return 0;
    int number = handled_signal(pid);
    return number && kill(pid, number) == 0;
}

/* How many got a signal. */
static int signal_ranks(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    while (folder && (entry = readdir(folder)))
        count += signal_rank(atoi(entry->d_name));
    if (folder)
        closedir(folder);
    return count;
}

/* The ranks the first time, the command after that. */
static void stop_ranks(struct entry *e, int number)
{
    int ranks = e->is_stopping ? 0 : signal_ranks();

    e->is_stopping = 1;
    if (ranks > 0) {
        fprintf(stderr, "sm-entry: %s: passed on to %d rank%s of this host\n", signal_name(number), ranks,
                ranks == 1 ? "" : "s");
        return;
    }
    fprintf(stderr, "sm-entry: %s: passed on to '%s'\n", signal_name(number), e->command[0]);
    kill(e->child, SIGTERM);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* mode: as access() takes it. */
static int is_in_path(const char *name, int mode)
{
    const char *path = halay_environment_get("PATH");
    char at[PATH_MAX];

    while (path && *path) {
        size_t length = strcspn(path, ":");
        snprintf(at, sizeof at, "%.*s/%s", (int)length, path, name);
        if (length && !access(at, mode))
            return 1;
        path += length + (path[length] == ':');
    }
    return 0;
}

/* The model's server, where SageMaker's hosting asks for it. */
static char **find_server(void)
{
    static char program[] = "halay-tft", serve[] = "serve", listen[] = "--listen", insecure[] = "--insecure",
                model[PATH_MAX], where[64];
    /* SageMaker's requests have no token: it lets nothing else reach the container. */
    static char *args[] = { program, serve, model, listen, where, insecure, NULL };
    const char *port = halay_environment_get("SAGEMAKER_BIND_TO_PORT");

    opt_ml_path("model", model, sizeof model);
    snprintf(where, sizeof where, "0.0.0.0:%.32s", port && *port ? port : "8080");
    return args;
}

static char **find_command(int argc, char **argv)
{
    static char halayrun[] = "halayrun", option[] = "--sagemaker", train[] = "train";
    static char *own[] = { halayrun, option, NULL }, *toolkits[] = { train, NULL };

    if (argc == 2 && !strcmp(argv[1], "serve") && !is_in_path("serve", X_OK))
        return find_server();
    if (argc > 1 && strcmp(argv[1], "train"))
        return argv + 1;
    if (!is_in_path("train", X_OK))
        return own;
    return argc > 1 ? argv + 1 : toolkits;
}

static int start_command(struct entry *e, const sigset_t *signals)
{
    e->child = fork();
    if (e->child) {
        if (e->child < 0)
            fprintf(stderr, "sm-entry: cannot fork: %s\n", strerror(errno));
        return e->child > 0;
    }
    sigprocmask(SIG_SETMASK, signals, NULL);
    execvp(e->command[0], e->command);
    int error = errno;
    if (error == EACCES && !strchr(e->command[0], '/') && !is_in_path(e->command[0], F_OK))
        error = ENOENT; /* EACCES was of a folder in PATH that we may not read */
    fprintf(stderr, "sm-entry: cannot run '%s': %s\n", e->command[0], strerror(error));
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* waitpid's status once the command has ended; -1 before. */
static int reap_children(const struct entry *e)
{
    int status, ended = -1;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == e->child)
            ended = status;
    return ended;
}

static int await_command(struct entry *e, int signal_fd)
{
    struct signalfd_siginfo info;
    int status = -1;

    while (status < 0) {
        if (read(signal_fd, &info, sizeof info) != (ssize_t)sizeof info) {
            if (errno == EINTR)
                continue;
            fprintf(stderr, "sm-entry: cannot wait: %s\n", strerror(errno));
            kill(e->child, SIGTERM);
            return EXIT_FAILURE << 8;
        }
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD)
            status = reap_children(e);
        else if (number == SIGTERM || number == SIGINT)
            stop_ranks(e, number);
        else if (number == SIGHUP || number == SIGQUIT || number == SIGUSR1 || number == SIGUSR2 || number == SIGCONT)
            kill(e->child, number);
    }
    return status;
}

/* Processes that outlived the command: an sshd, ranks whose mpirun was killed. */
static void end_leftovers(void)
{
    for (int ms = 0; processes_signal_descendants(ms ? 0 : SIGTERM) > 0 && ms < LEAVE_MS; ms += PAUSE_MS) {
        usleep(PAUSE_MS * 1000);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    int left = processes_end_descendants();
    if (left > 0)
        fprintf(stderr, "sm-entry: %d processes cannot be ended\n", left);
}

/* The exit code, which also goes into the failure file unless somebody has explained the failure there. */
static int report_end(const struct entry *e, int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = number ? EXIT_SIGNAL + number : WEXITSTATUS(status);
    char text[512];

    if (number)
        snprintf(text, sizeof text, "'%.200s' was killed by %s%s\n", e->command[0], signal_name(number),
                 number == SIGKILL ? " (for lack of memory?)" : "");
    else
        snprintf(text, sizeof text, "'%.200s' ended with exit code %d%s\n", e->command[0], code,
                 e->is_stopping ? " after the container was stopped" : "");
    if (code)
        opt_ml_write_failure(text, 0);
    return code;
}

int main(int argc, char **argv)
{
    struct entry e = { .command = find_command(argc, argv) };
    sigset_t all, before;

    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return fflush(stdout) ? EXIT_FAILURE : 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        printf("sm-entry (halay) %s\n", halay_version());
        return fflush(stdout) ? EXIT_FAILURE : 0;
    }
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "sm-entry: unknown option '%s'\n%s", argv[1], help);
        return EXIT_USAGE;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    int signal_fd = signalfd(-1, &all, SFD_CLOEXEC);
    if (signal_fd < 0 || !processes_become_subreaper() || !start_command(&e, &before)) {
        fprintf(stderr, "sm-entry: cannot begin: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    int status = await_command(&e, signal_fd);
    end_leftovers();
    return report_end(&e, status);
}
