/* SPDX-License-Identifier: Apache-2.0
 *
 * Supervisor: two processes that watch each other, so that no single SIGKILL leaves a rank running.
 *
 *     shell -> supervisor -------> job -----------> rank 0 -> ...
 *              signals, terminal   store, output    rank 1 -> ...
 *
 *     it is killed      the lifeline, a pipe whose write end only the supervisor has, ends: the job kills everything
 *     job is killed     ranks get their parent-death signal; it, also a subreaper, inherits and kills the rest
 *     one is stopped    of an agent only: the other continues it (the supervisor after stopped_ms, the job when it
 *                       ends); otherwise ranks would outlive the job that they belong to
 *
 * The job leads a process group of its own, so that the terminal's signals reach the supervisor alone, which passes
 * them on: each arrives once, whether from the keyboard or from kill. For the terminal, the ranks' groups are in the
 * background. If standard input is a terminal, the supervisor reads it for rank 0, since only the supervisor may, and
 * only in the foreground.
 *
 * Cleanup: the process ends after this, and the kernel closes its descriptors.
 */
#include "launcher/local/supervisor.h"
#include "base/clock.h"
#include "base/loop.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/local/processes.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct supervisor {
    pid_t job;
    int has_ended, exit_code; /* of the job */
    int was_killed;           /* the job */
    int stopped_ms;           /* as in struct job_setting */
    int64_t continue_us;      /* when to continue the job, which is stopped; HALAY_NEVER */
    sigset_t ignored;         /* by whatever started us, as nohup does; a signalfd delivers them all the same */
    int signal_fd;
    int pump; /* write end of rank 0's standard input; -1: it reads ours itself, or reads no more */
    char typed[4096];
    size_t typed_count, typed_sent; /* bytes still to be passed on */
    atomic_uint *lines;             /* setting->typed */
};

static int is_foreground(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void end_pump(struct supervisor *supervisor)
{
    close(supervisor->pump);
    supervisor->pump = -1;
}

static void pump_out(void *context)
{
    struct supervisor *supervisor = context;
    ssize_t n = write(supervisor->pump, supervisor->typed + supervisor->typed_sent,
                      supervisor->typed_count - supervisor->typed_sent);

    if (n > 0)
        supervisor->typed_sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        end_pump(supervisor); /* rank 0 reads no more */
}

static void pump_in(void *context)
{
    struct supervisor *supervisor = context;

    if (!is_foreground()) /* any more */
        return;
    ssize_t n = read(STDIN_FILENO, supervisor->typed, sizeof supervisor->typed);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_pump(supervisor);
    supervisor->typed_sent = 0;
    supervisor->typed_count = n > 0 ? (size_t)n : 0;
    if (n > 0 && supervisor->typed[n - 1] == '\n')
        atomic_fetch_add(supervisor->lines, 1); /* before rank 0 can answer; output.c loads it */
}

static void supervisor_end(struct supervisor *supervisor, int exit_code)
{
    supervisor->has_ended = 1;
    supervisor->exit_code = exit_code;
}

static void supervisor_reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != supervisor->job)
            continue; /* an orphan of a job that was killed */
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            supervisor->continue_us =
                WIFSTOPPED(status) && supervisor->stopped_ms ? halay_deadline_us(supervisor->stopped_ms) : HALAY_NEVER;
            continue;
        }
        if (WIFEXITED(status)) {
            supervisor_end(supervisor, WEXITSTATUS(status));
            return;
        }
        report("the process that runs the job (pid %d) was killed by %s: ending the ranks", (int)pid,
               signal_name(WTERMSIG(status)));
        processes_end_descendants();
        supervisor->was_killed = 1;
        supervisor_end(supervisor, EXIT_SIGNAL + WTERMSIG(status));
        return;
    }
}

/* SIGTSTP stops the ranks and then halayrun, as the shell expects; SIGCONT goes the same way. */
static void supervisor_take_signals(void *context)
{
    struct supervisor *supervisor = context;
    struct signalfd_siginfo info;

    while (!supervisor->has_ended && halay_signals_take(supervisor->signal_fd, &info)) {
        int signal = (int)info.ssi_signo;
        if (sigismember(&supervisor->ignored, signal))
            continue;
        if (signal == STACKS_SIGNAL) /* not a constant */
            kill(supervisor->job, signal);
        switch (signal) {
        case SIGCHLD:
            supervisor_reap(supervisor);
            break;
        case SIGTSTP:
            kill(supervisor->job, signal);
            raise(SIGSTOP);
            break;
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
        case SIGUSR1:
        case SIGUSR2:
        case SIGCONT:
        case SIGWINCH:
            kill(supervisor->job, signal);
            break;
        }
    }
}

/* Until the job has ended. Returns its exit code. */
static int supervisor_loop(struct supervisor *supervisor)
{
    struct halay_loop loop;

    halay_loop_init(&loop);
    while (!supervisor->has_ended) {
        if (supervisor->pump >= 0 && supervisor->typed_sent < supervisor->typed_count)
            halay_loop_watch(&loop, supervisor->pump, POLLOUT, pump_out, supervisor);
        else if (supervisor->pump >= 0 && is_foreground())
            halay_loop_watch(&loop, STDIN_FILENO, POLLIN, pump_in, supervisor);
        halay_loop_watch(&loop, supervisor->signal_fd, POLLIN, supervisor_take_signals, supervisor);
        halay_loop_until(&loop, supervisor->continue_us);
        if (halay_loop_turn(&loop, HALAY_NEVER) != HALAY_OK) {
            report("cannot wait: %s", strerror(errno));
            processes_end_descendants();
            supervisor_end(supervisor, 1);
        }
        if (halay_deadline_passed(supervisor->continue_us)) {
            kill(supervisor->job, SIGCONT);
            supervisor->continue_us = HALAY_NEVER;
        }
    }
    halay_loop_fini(&loop);
    return supervisor->exit_code;
}

static void find_ignored(sigset_t *ignored)
{
    struct sigaction action;

    sigemptyset(ignored);
    for (int s = 1; s < SIGRTMIN; s++)
        if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(ignored, s);
}

/* In the job's process. */
__attribute__((noreturn)) static void become_job(const struct job_setting *setting,
                                                 int (*run)(const struct job_setting *), pid_t supervisor)
{
    setpgid(0, 0);
    prctl(PR_SET_NAME, "halayrun-job");
    processes_become_subreaper();
    int code = run(setting);
    if (setting->stopped_ms && getppid() == supervisor)
        kill(supervisor, SIGCONT);
    _exit(code);
}

static int open_pump(struct job_setting *setting, struct supervisor *supervisor)
{
    int ends[2];

    supervisor->pump = -1;
    setting->rank0_stdin = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 1;
    void *shared = mmap(NULL, sizeof *supervisor->lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
        return 0;
    supervisor->lines = setting->typed = shared;
    setting->rank0_stdin = ends[0];
    supervisor->pump = ends[1];
    return 1;
}

int supervisor_run(struct job_setting *setting, int (*run)(const struct job_setting *))
{
    struct supervisor supervisor = { .job = -1, .stopped_ms = setting->stopped_ms, .continue_us = HALAY_NEVER };
    pid_t self = getpid();
    sigset_t all, before;
    int lifeline[2];

    sigfillset(&all);
    supervisor.signal_fd = halay_signals_open(&all, &before);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no child could be waited for */
    find_ignored(&supervisor.ignored);
    if (supervisor.signal_fd < 0 || pipe2(lifeline, O_CLOEXEC) < 0 || !open_pump(setting, &supervisor) ||
        !processes_become_subreaper()) {
        report("cannot prepare the job: %s", strerror(errno));
        return 1;
    }
    setting->lifeline = lifeline[0];
    setting->rank_signals = &before;
    supervisor.job = fork();
    if (supervisor.job < 0) {
        report("cannot fork: %s", strerror(errno));
        return 1;
    }
    if (supervisor.job == 0) {
        close(lifeline[1]);
        close(supervisor.signal_fd);
        if (supervisor.pump >= 0)
            close(supervisor.pump);
        become_job(setting, run, self);
    }
    setpgid(supervisor.job, supervisor.job);
    close(lifeline[0]);
    if (supervisor.pump >= 0)
        close(setting->rank0_stdin);
    int code = supervisor_loop(&supervisor);
    setting->was_killed = supervisor.was_killed;
    return code;
}
