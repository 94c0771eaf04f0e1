/* SPDX-License-Identifier: Apache-2.0
 *
 * Front: two processes that watch each other, so that no single SIGKILL leaves a rank running.
 *
 *     shell -> front ------------> job -----------> rank 0 -> ...
 *              signals, terminal   store, output    rank 1 -> ...
 *
 *     front is killed   the lifeline, a pipe whose write end only the front has, ends: the job kills everything
 *     job is killed     ranks get their parent-death signal; the front, also a subreaper, inherits and kills the rest
 *     one is stopped    of an agent only: the other continues it (the front after stopped_ms, the job when it ends);
 *                       otherwise ranks would outlive the job that they belong to
 *
 * The job leads a process group of its own, so that the terminal's signals reach the front alone, which passes them on:
 * each arrives once, whether from the keyboard or from kill. For the terminal, the ranks' groups are in the background.
 * If standard input is a terminal, the front reads it for rank 0, since only the front may, and only in the foreground.
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

struct front {
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

static void end_pump(struct front *front)
{
    close(front->pump);
    front->pump = -1;
}

static void pump_out(void *context)
{
    struct front *front = context;
    ssize_t n = write(front->pump, front->typed + front->typed_sent, front->typed_count - front->typed_sent);

    if (n > 0)
        front->typed_sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        end_pump(front); /* rank 0 reads no more */
}

static void pump_in(void *context)
{
    struct front *front = context;

    if (!is_foreground()) /* any more */
        return;
    ssize_t n = read(STDIN_FILENO, front->typed, sizeof front->typed);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end_pump(front);
    front->typed_sent = 0;
    front->typed_count = n > 0 ? (size_t)n : 0;
    if (n > 0 && front->typed[n - 1] == '\n')
        atomic_fetch_add(front->lines, 1); /* before rank 0 can answer; output.c loads it */
}

static void end_front(struct front *front, int exit_code)
{
    front->has_ended = 1;
    front->exit_code = exit_code;
}

static void front_reap(struct front *front)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != front->job)
            continue; /* an orphan of a job that was killed */
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            front->continue_us =
                WIFSTOPPED(status) && front->stopped_ms ? halay_deadline_us(front->stopped_ms) : HALAY_NEVER;
            continue;
        }
        if (WIFEXITED(status)) {
            end_front(front, WEXITSTATUS(status));
            return;
        }
        say("the process that runs the job (pid %d) was killed by %s: ending the ranks", (int)pid,
            signal_name(WTERMSIG(status)));
        processes_end_descendants();
        front->was_killed = 1;
        end_front(front, EXIT_SIGNAL + WTERMSIG(status));
        return;
    }
}

/* SIGTSTP stops the ranks and then halayrun, as the shell expects; SIGCONT goes the same way. */
static void front_take_signals(void *context)
{
    struct front *front = context;
    struct signalfd_siginfo info;

    while (!front->has_ended && halay_signals_take(front->signal_fd, &info)) {
        int signal = (int)info.ssi_signo;
        if (sigismember(&front->ignored, signal))
            continue;
        if (signal == STACKS_SIGNAL) /* not a constant */
            kill(front->job, signal);
        switch (signal) {
        case SIGCHLD:
            front_reap(front);
            break;
        case SIGTSTP:
            kill(front->job, signal);
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
            kill(front->job, signal);
            break;
        }
    }
}

/* Until the job has ended. Returns its exit code. */
static int front_loop(struct front *front)
{
    struct halay_loop loop;

    halay_loop_init(&loop);
    while (!front->has_ended) {
        if (front->pump >= 0 && front->typed_sent < front->typed_count)
            halay_loop_watch(&loop, front->pump, POLLOUT, pump_out, front);
        else if (front->pump >= 0 && is_foreground())
            halay_loop_watch(&loop, STDIN_FILENO, POLLIN, pump_in, front);
        halay_loop_watch(&loop, front->signal_fd, POLLIN, front_take_signals, front);
        halay_loop_until(&loop, front->continue_us);
        if (halay_loop_turn(&loop, HALAY_NEVER) != HALAY_OK) {
            say("cannot wait: %s", strerror(errno));
            processes_end_descendants();
            end_front(front, 1);
        }
        if (halay_deadline_passed(front->continue_us)) {
            kill(front->job, SIGCONT);
            front->continue_us = HALAY_NEVER;
        }
    }
    halay_loop_fini(&loop);
    return front->exit_code;
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
                                                 int (*run)(const struct job_setting *), pid_t front)
{
    setpgid(0, 0);
    prctl(PR_SET_NAME, "halayrun-job");
    processes_become_subreaper();
    int code = run(setting);
    if (setting->stopped_ms && getppid() == front)
        kill(front, SIGCONT);
    _exit(code);
}

static int open_pump(struct job_setting *setting, struct front *front)
{
    int ends[2];

    front->pump = -1;
    setting->rank0_stdin = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 1;
    void *shared = mmap(NULL, sizeof *front->lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
        return 0;
    front->lines = setting->typed = shared;
    setting->rank0_stdin = ends[0];
    front->pump = ends[1];
    return 1;
}

int front_run(struct job_setting *setting, int (*run)(const struct job_setting *))
{
    struct front front = { .job = -1, .stopped_ms = setting->stopped_ms, .continue_us = HALAY_NEVER };
    pid_t self = getpid();
    sigset_t all, before;
    int lifeline[2];

    sigfillset(&all);
    front.signal_fd = halay_signals_open(&all, &before);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no child could be waited for */
    find_ignored(&front.ignored);
    if (front.signal_fd < 0 || pipe2(lifeline, O_CLOEXEC) < 0 || !open_pump(setting, &front) ||
        !processes_become_subreaper()) {
        say("cannot prepare the job: %s", strerror(errno));
        return 1;
    }
    setting->lifeline = lifeline[0];
    setting->rank_signals = &before;
    front.job = fork();
    if (front.job < 0) {
        say("cannot fork: %s", strerror(errno));
        return 1;
    }
    if (front.job == 0) {
        close(lifeline[1]);
        close(front.signal_fd);
        if (front.pump >= 0)
            close(front.pump);
        become_job(setting, run, self);
    }
    setpgid(front.job, front.job);
    close(lifeline[0]);
    if (front.pump >= 0)
        close(setting->rank0_stdin);
    int code = front_loop(&front);
    setting->was_killed = front.was_killed;
    return code;
}
