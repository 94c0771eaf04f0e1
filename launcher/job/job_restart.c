/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's restarts: starts all ranks again after one has failed, --max-restarts times at most. The job itself (job.c)
 * begins anew each time; only its metrics and events (job_watch.c) live on. Before a restart there is a pause that
 * doubles each time: ranks that fail at once must not ask other machines for the same data many times a second. Where
 * nodes have joined, new tunnels to them follow, and one that is lost is waited for (join_door.h). Where their number
 * is a range, each start has the ranks of the nodes that are there, and one with more nodes is not counted.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "launcher/common/descriptors.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include "launcher/remote/join_door.h"
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAUSE_MS = 100, PAUSE_MAX_MS = 5000 };

/* Restores the state before the ranks ran: drain_output has let signals through, and the first cause is obsolete. */
static void begin_again(const struct job_setting *setting)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, 0);
    if (setting->cause_fd && (ftruncate(setting->cause_fd, 0) < 0 || lseek(setting->cause_fd, 0, SEEK_SET) < 0))
        report("cannot forget the first failure: %s", strerror(errno));
}

/* As torchrun does. Ranks inherit them. */
static int export_restarts(int restarts, int most)
{
    char text[2][16];

    snprintf(text[0], sizeof text[0], "%d", restarts);
    snprintf(text[1], sizeof text[1], "%d", most);
    return setenv("TORCHELASTIC_RESTART_COUNT", text[0], 1) || setenv("TORCHELASTIC_MAX_RESTARTS", text[1], 1)
               ? report_no_memory()
               : 0;
}

/* Writes the last event: the result, its cost, the first failure, and what failures cost. has_failed: by itself, not by
 * a signal to stop. */
static int write_end_event(const struct job_setting *setting, struct job_watch *watch, int64_t begun_us,
                           int64_t failed_us, int restarts, int has_failed, int code)
{
    double seconds = (double)(halay_now_us() - begun_us) / 1e6, failed = (double)failed_us / 1e6;

    job_watch_event(watch, "end", "{s:i, s:f, s:f, s:i, s:f, s:O?}", "exit_code", code, "seconds", seconds,
                    "rank_seconds", seconds * setting->options->ranks, "restarts", restarts, "failed_rank_seconds",
                    failed * setting->options->ranks, "first_failure", job_watch_first_failure(watch));
    if (has_failed)
        job_watch_report_records(setting, watch);
    job_watch_destroy(watch, has_failed);
    return code;
}

static int pause_before(int restart)
{
    int ms = PAUSE_MS;

    while (--restart > 0 && ms < PAUSE_MAX_MS)
        ms *= 2;
    return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

static void note_lifeline(void *context)
{
    *(int *)context = SIGKILL;
}

/* Returns 0 at that time, or when awaited (-1: none) is readable; earlier, the signal by which halayrun is to stop, or
 * SIGKILL if the supervisor has died. All signals are blocked, so that nothing else ends the wait. */
static int wait_unless_stopped(const struct job_setting *setting, int64_t due_us, int awaited)
{
    struct signalfd_siginfo info;
    struct halay_loop loop;
    int signal = 0;
    sigset_t stops;

    sigemptyset(&stops);
    for (int each = 1; each < NSIG; each++)
        if (signal_is_stop(each))
            sigaddset(&stops, each);
    const int fd = halay_signals_open(&stops, NULL); /* below 0: the next start will report it */
    halay_loop_init(&loop);
    halay_loop_watch(&loop, fd, POLLIN, NULL, NULL);
    halay_loop_watch(&loop, setting->lifeline, POLLIN, note_lifeline, &signal);
    halay_loop_watch(&loop, awaited, POLLIN, NULL, NULL);
    if (halay_loop_turn(&loop, due_us) == HALAY_OK && halay_signals_take(fd, &info))
        signal = (int)info.ssi_signo;
    halay_loop_fini(&loop);
    if (fd >= 0)
        close(fd);
    return signal;
}

/* Makes new tunnels to all nodes. *code is that of the failure; it changes if a signal to stop arrives. Returns 0 if
 * there is to be no restart. */
static int await_nodes(const struct job_setting *setting, int *code)
{
    struct join_door *door = setting->options->door;
    enum join_door_answer answer = DOOR_MORE;
    char why[1024] = "";

    if (!door)
        return 1;
    join_door_begin(door); /* if it is gone, that is the answer */
    while (answer == DOOR_MORE || answer == DOOR_GROWS) {
        int signal = wait_unless_stopped(setting, HALAY_NEVER, door->fd);
        if (signal) {
            report("%s: no restart", signal_name(signal));
            *code = EXIT_SIGNAL + signal;
            return 0;
        }
        answer = join_door_take(door, why, sizeof why);
    }
    if (answer == DOOR_BEGUN)
        return 1;
    report("no restart: %s", why);
    *code = *code ? *code : EXIT_FAILURE;
    if (setting->cause_fd)
        dprintf(setting->cause_fd, "\n%s\n", why);
    return 0;
}

/* Likewise. */
static int await_restart(const struct job_setting *setting, int restart, int most, int *code)
{
    const int pause_ms = pause_before(restart);

    report("restart %d of %d: all ranks are started again in %g s", restart, most, pause_ms / 1000.0);
    int signal = wait_unless_stopped(setting, halay_deadline_us(pause_ms), -1);
    if (!signal)
        return await_nodes(setting, code);
    report("%s: no restart", signal_name(signal));
    *code = EXIT_SIGNAL + signal;
    return 0;
}

/* The nodes may be others now. 0, or an exit code (reported). */
static int take_nodes(const struct job_setting *setting, struct job_watch *watch)
{
    struct options *options = setting->options;

    if (!options->least_nodes || !options->door)
        return 0;
    options->ranks = hosts_ranks(options->joined);
    descriptors_allow((size_t)options->ranks, options->joined->count);
    layout_fini(setting->layout);
    int code = layout_make(setting->log, options, options->joined, NULL, setting->layout);
    return code ? code : job_watch_resize(watch, options->ranks);
}

int job_run(const struct job_setting *setting)
{
    const struct options *options = setting->options;
    int most = options->max_restarts, counted = 0; /* restarts after a failure */
    enum job_again again = JOB_IS_OVER;
    int64_t begun_us = halay_now_us(), failed_us = 0, start_us; /* failed_us: of the starts that failed */
    struct job_watch *watch;

    int code = job_watch_create(setting, &watch);
    if (code)
        return code;
    for (int restarts = 0;; restarts++) {
        code = code || !(most || options->least_nodes) ? code : export_restarts(counted, most);
        start_us = halay_now_us();
        job_watch_event(watch, "start", "{s:i, s:i, s:s}", "ranks", options->ranks, "restarts", restarts, "program",
                        options->command[0]);
        if (!code)
            code = job_run_once(setting, watch, restarts, &again);
        const int has_failed = again == JOB_HAS_FAILED;
        failed_us += has_failed ? halay_now_us() - start_us : 0;
        if (again == JOB_IS_OVER || (has_failed && counted == most))
            return write_end_event(setting, watch, begun_us, failed_us, restarts, has_failed, code);
        begin_again(setting);
        counted += has_failed;
        if (!(has_failed ? await_restart(setting, counted, most, &code) : await_nodes(setting, &code)))
            return write_end_event(setting, watch, begun_us, failed_us, restarts, has_failed, code);
        code = take_nodes(setting, watch);
    }
}
