/* SPDX-License-Identifier: Apache-2.0
 *
 * Follow: signals that are sent to halayrun alone are passed on. The launcher is in halayrun's process group, so that
 * it receives those of the terminal itself, and can read from it.
 */
#include "launcher/mpi/mpi_follow.h"
#include "base/clock.h"
#include "base/loop.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

/* It does not outlive halayrun. */
__attribute__((noreturn)) static void become(pid_t parent, const sigset_t *mask, char **args)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(args[0], args);
    report("cannot run '%s': %s", args[0], strerror(errno));
    _exit(EXIT_CANNOT_RUN);
}

/* Returns zero while it runs. */
static int has_ended(pid_t pid, int *code)
{
    int status;

    if (waitpid(pid, &status, WNOHANG) != pid)
        return 0;
    *code = WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    return 1;
}

static int wait_for_end(pid_t pid, int signals, struct job_watch *watch)
{
    struct signalfd_siginfo info;
    struct halay_loop loop;
    int code;

    halay_loop_init(&loop);
    while (!has_ended(pid, &code)) {
        const int patience_ms = job_watch_patience_ms(watch);
        halay_loop_watch(&loop, signals, POLLIN, NULL, NULL);
        halay_loop_watch(&loop, job_watch_fd(watch), POLLIN, NULL, NULL);
        halay_loop_turn(&loop, patience_ms < 0 ? HALAY_NEVER : halay_deadline_us(patience_ms));
        while (halay_signals_take(signals, &info))
            if (info.ssi_signo != SIGCHLD && info.ssi_code <= 0) /* a process sent it, not the terminal */
                kill(pid, (int)info.ssi_signo);
        job_watch_turn(watch);
    }
    halay_loop_fini(&loop);
    return code;
}

static int run(char **args, struct job_watch *watch)
{
    static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD };
    const pid_t parent = getpid();
    sigset_t set, before;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaddset(&set, passed[i]);
    int signals = halay_signals_open(&set, &before);
    pid_t pid = signals < 0 ? -1 : fork();
    if (pid == 0)
        become(parent, &before, args);
    if (pid < 0)
        report("cannot start '%s': %s", args[0], strerror(errno));
    int code = pid < 0 ? EXIT_FAILURE : wait_for_end(pid, signals, watch);
    if (signals >= 0)
        close(signals);
    return code;
}

/* ---- events and metrics ------------------------------------------------------------------------------------------ */

int mpi_follow(struct halay_log *log, struct options *options, int ranks, char **args)
{
    const struct job_setting setting = { .options = options, .log = log };
    const int64_t begun_us = halay_now_us();
    struct job_watch *watch;

    int code = job_watch_create(&setting, &watch);
    if (!code)
        code = job_watch_resize(watch, ranks);
    if (code) {
        job_watch_destroy(watch, 0);
        return code;
    }
    job_watch_event(watch, "start", "{s:i, s:i, s:s}", "ranks", ranks, "restarts", 0, "program", options->command[0]);
    code = run(args, watch);
    const double seconds = (double)(halay_now_us() - begun_us) / 1e6;
    job_watch_event(watch, "end", "{s:i, s:f, s:f, s:i, s:f, s:n}", "exit_code", code, "seconds", seconds,
                    "rank_seconds", seconds * ranks, "restarts", 0, "failed_rank_seconds", code ? seconds * ranks : 0.0,
                    "first_failure");
    job_watch_destroy(watch, code != 0);
    return code;
}
