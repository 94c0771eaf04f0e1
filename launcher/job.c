/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: starts the ranks, serves their store, passes their output and their signals on, and ends.
 *
 *     RUNNING --- a rank fails, or a signal to stop ---> STOPPING --- grace is over, or told again ---> KILLING
 *        |            (SIGTERM, or that signal, to all)     |          (SIGKILL to all descendants)        |
 *        +---- last rank ended ----------------------------+----------------------------------------------+
 *                                    |
 *                                 LEAVING: what ranks left behind gets SIGTERM, then SIGKILL; output is drained; the end
 *
 * A rank that ends with 0 while others run is no event. The exit code is that of the first rank that failed; of those that
 * are found ended together, one that a signal killed counts as the first, since the others most often complain about it.
 * One loop, one poll; nothing in it blocks. Signals to a rank go to its process group, and only while the rank has not been
 * reaped: its number cannot have been given to another group then.
 *
 * Cleanup: job_fini accepts any half-built state that began with zeros.
 */
#include "launcher/job.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/store.h"
#include "launcher/output.h"
#include "launcher/processes.h"
#include "launcher/say.h"
#include "launcher/start.h"
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum stage { RUNNING, STOPPING, KILLING, LEAVING };
enum { EXIT_SIGNAL = 128, FIXED_FDS = 3, KILL_MS = 10000 };

struct rank {
    pid_t pid;
    int is_running;
    int status;                /* of waitpid, once it has ended */
    struct stream streams[2];  /* standard output, standard error */
};

struct job {
    const struct job_setting *setting; /* borrowed */
    int size, started, running;
    struct rank *ranks;                /* owned */
    struct pollfd *fds;                /* owned: FIXED_FDS + sinks + streams */
    struct output output;
    struct halay_store_server *store;  /* owned */
    int secret_fd, signal_fd;
    enum stage stage;
    int64_t deadline_us; /* HALAY_NEVER while RUNNING */
    int stop_signal;     /* halayrun was told to stop by it; 0: not */
    int exit_code;
    int is_orphaned; /* the front has died */
    int has_given_up; /* the system has let us down, or a killed rank is stuck in the kernel */
};

/* ---- signals to ranks -------------------------------------------------------------------------------------------- */

static void signal_ranks(struct job *job, int signal)
{
    for (int r = 0; r < job->started; r++)
        if (job->ranks[r].is_running)
            kill(-job->ranks[r].pid, signal); /* its group exists as long as it is not reaped */
}

static void kill_all(struct job *job)
{
    job->stage = KILLING;
    job->deadline_us = halay_deadline_us(KILL_MS);
    signal_ranks(job, SIGKILL);
    processes_signal_descendants(SIGKILL, 0);
}

/* Ask all to end; a stopped one must run to be able to. */
static void begin_stop(struct job *job, int signal, int grace_ms)
{
    job->stage = STOPPING;
    job->deadline_us = halay_deadline_us(grace_ms);
    signal_ranks(job, signal);
    signal_ranks(job, SIGCONT);
}

/* "rank 2", "ranks 0, 2 and 3 more" */
static void name_running(const struct job *job, char *text, size_t size)
{
    int named = 0;
    size_t used = (size_t)snprintf(text, size, job->running == 1 ? "rank" : "ranks");

    for (int r = 0; r < job->started && used < size; r++) {
        if (!job->ranks[r].is_running)
            continue;
        if (named == 8) {
            snprintf(text + used, size - used, " and %d more", job->running - named);
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s %d", named++ ? "," : "", r);
    }
}

static void end_grace(struct job *job)
{
    char names[128];

    name_running(job, names, sizeof names);
    if (job->stage == KILLING) {
        output_say(&job->output, "%s cannot be ended", names);
        job->has_given_up = 1;
        return;
    }
    if (job->stage == STOPPING)
        output_say(&job->output, "%s did not end in time: SIGKILL", names);
    kill_all(job);
}

static void told_to_stop(struct job *job, int signal)
{
    job->stop_signal = signal;
    if (job->stage == RUNNING) {
        output_say(&job->output, "%s: passed on to the ranks; SIGKILL after %g s, or at once when told again",
                   signal_name(signal), job->setting->options->stop_grace_ms / 1000.0);
        begin_stop(job, signal, job->setting->options->stop_grace_ms);
    } else if (job->stage != KILLING) {
        output_say(&job->output, "%s: SIGKILL to all ranks", signal_name(signal));
        kill_all(job);
    }
}

/* ---- the end of ranks -------------------------------------------------------------------------------------------- */

static int has_failed(const struct rank *rank)
{
    return !WIFEXITED(rank->status) || WEXITSTATUS(rank->status) != 0;
}

static int code_of(const struct rank *rank)
{
    return WIFSIGNALED(rank->status) ? EXIT_SIGNAL + WTERMSIG(rank->status) : WEXITSTATUS(rank->status);
}

static void say_failure(struct job *job, int r)
{
    struct rank *rank = &job->ranks[r];
    struct output *out = &job->output;

    if (WIFSIGNALED(rank->status))
        output_say(out, "rank %d (pid %d) was killed by %s%s", r, (int)rank->pid, signal_name(WTERMSIG(rank->status)),
                   WCOREDUMP(rank->status) ? ", core dumped" : "");
    else
        output_say(out, "rank %d (pid %d) ended with exit code %d", r, (int)rank->pid, WEXITSTATUS(rank->status));
    if (rank->streams[1].tail_count)
        output_say(out, "the last it wrote to standard error:");
    stream_say_tail(&rank->streams[1]);
}

static void rank_failed(struct job *job, int r)
{
    char names[128];

    if (job->stage != RUNNING) {
        if (job->stop_signal && !job->exit_code)
            job->exit_code = EXIT_SIGNAL + job->stop_signal;
        return;
    }
    for (int i = 0; i < 2; i++) /* all that it said comes before what is said about it */
        stream_read(&job->ranks[r].streams[i]);
    say_failure(job, r);
    job->exit_code = code_of(&job->ranks[r]);
    if (!job->running)
        return;
    name_running(job, names, sizeof names);
    output_say(&job->output, "ending %s: SIGTERM now, SIGKILL after %g s", names, job->setting->options->grace_ms / 1000.0);
    begin_stop(job, SIGTERM, job->setting->options->grace_ms);
}

static int find_rank(const struct job *job, pid_t pid)
{
    for (int r = 0; r < job->started; r++)
        if (job->ranks[r].is_running && job->ranks[r].pid == pid)
            return r;
    return -1; /* an orphan that was ours to reap */
}

static void reap(struct job *job)
{
    int failed = -1, status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int r = find_rank(job, pid);
        if (r < 0)
            continue;
        struct rank *rank = &job->ranks[r];
        rank->is_running = 0;
        rank->status = status;
        job->running--;
        if (job->setting->options->verbose)
            output_say(&job->output, "rank %d (pid %d) has ended", r, (int)pid);
        if (has_failed(rank) && (failed < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(job->ranks[failed].status))))
            failed = r;
    }
    if (failed >= 0)
        rank_failed(job, failed);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void take_signals(struct job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            reap(job);
        else if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
            told_to_stop(job, signal);
        else if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGTSTP || signal == SIGCONT || signal == SIGWINCH)
            signal_ranks(job, signal);
    }
}

static size_t watch(struct job *job)
{
    size_t n = 0;

    job->fds[n++] = (struct pollfd){ .fd = job->signal_fd, .events = POLLIN };
    job->fds[n++] = (struct pollfd){ .fd = job->setting->lifeline, .events = POLLIN };
    job->fds[n++] = (struct pollfd){ .fd = halay_store_server_fd(job->store), .events = POLLIN };
    for (int i = 0; i < 2; i++)
        if (job->output.sinks[i].pending.count)
            job->fds[n++] = (struct pollfd){ .fd = job->output.sinks[i].fd, .events = POLLOUT };
    for (int r = 0; r < job->started; r++)
        for (int i = 0; i < 2; i++) {
            struct stream *stream = &job->ranks[r].streams[i];
            if (stream->fd >= 0 && !sink_is_full(stream->sink))
                job->fds[n++] = (struct pollfd){ .fd = stream->fd, .events = POLLIN };
        }
    return n;
}

/* Reads every stream that can be read; those that were not polled give EAGAIN at the cost of a call. */
static void pass_output(struct job *job, size_t polled)
{
    int any = 0;

    for (size_t i = FIXED_FDS; i < polled && !any; i++)
        any = job->fds[i].revents != 0;
    if (!any)
        return;
    output_flush(&job->output);
    for (int r = 0; r < job->started; r++)
        for (int i = 0; i < 2; i++)
            stream_read(&job->ranks[r].streams[i]);
    output_flush(&job->output);
}

static void turn(struct job *job)
{
    size_t n = watch(job);

    if (poll(job->fds, (nfds_t)n, halay_deadline_left_ms(job->deadline_us)) < 0) {
        job->has_given_up = errno != EINTR;
        if (job->has_given_up)
            say("cannot wait for the ranks: %s", strerror(errno));
        return;
    }
    pass_output(job, n);
    if (job->fds[0].revents)
        take_signals(job);
    if (job->fds[1].revents) {
        job->is_orphaned = 1;
        kill_all(job);
        return;
    }
    if (job->fds[2].revents && halay_store_server_progress(job->store) != HALAY_OK)
        job->has_given_up = 1;
    if (halay_deadline_passed(job->deadline_us))
        end_grace(job);
}

static int goes_on(const struct job *job)
{
    return !job->is_orphaned && !job->has_given_up;
}

/* What the ranks started and left behind. */
static void end_leftovers(struct job *job)
{
    if (processes_signal_descendants(SIGTERM, 0) > 0 && job->stage != KILLING) {
        job->stage = LEAVING;
        job->deadline_us = halay_deadline_us(job->setting->options->grace_ms);
        while (job->stage == LEAVING && goes_on(job) && processes_signal_descendants(0, 0) > 0)
            turn(job);
    }
    int left = processes_end_descendants();
    if (left > 0)
        output_say(&job->output, "%d process%s left by the ranks cannot be ended", left, left == 1 ? "" : "es");
}

/* Whoever reads our output may be slow: from here on halayrun can be interrupted as any program. */
static void drain_output(struct job *job)
{
    sigset_t none;

    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int r = 0; r < job->started; r++)
        for (int i = 0; i < 2; i++) {
            struct stream *stream = &job->ranks[r].streams[i];
            stream_read(stream);
            while (stream->fd >= 0 && sink_is_full(stream->sink)) {
                output_finish(&job->output);
                stream_read(stream);
            }
        }
    output_finish(&job->output);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* mkdir -p; 0 if it cannot be. */
static int make_folders(char *path)
{
    for (char *slash = path; slash; ) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        int failed = mkdir(path, 0777) < 0 && errno != EEXIST;
        if (failed) {
            say("cannot create folder '%s': %s", path, strerror(errno));
            return 0;
        }
        if (slash)
            *slash = '/';
    }
    return 1;
}

static int open_streams(struct job *job, int r, const int fds[2])
{
    static const char *const names[] = { "stdout", "stderr" };
    const char *folder = job->setting->options->output_folder;
    char path[PATH_MAX];
    int ok = 1;

    if (folder) {
        if (snprintf(path, sizeof path, "%s/rank.%d", folder, r) >= (int)sizeof path - 8) {
            say("the name of folder '%.60s...' is too long", folder);
            ok = 0;
        } else {
            ok = make_folders(path);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (ok && folder)
            snprintf(path, sizeof path, "%s/rank.%d/%s", folder, r, names[i]);
        ok &= stream_init(&job->ranks[r].streams[i], &job->output, r, i, fds[i], ok && folder ? path : NULL);
    }
    return ok;
}

static int start_one(struct job *job, int r)
{
    const struct job_setting *s = job->setting;
    struct start start = { .rank = r, .size = job->size, .command = s->options->command, .map = s->map,
                           .store_address = halay_store_server_address(job->store), .secret_fd = job->secret_fd,
                           .stdin_fd = r == 0 ? s->rank0_stdin : -1, .signals = s->rank_signals };
    struct rank *rank = &job->ranks[r];
    char cores[256];
    int fds[2];

    int code = start_rank(&start, &rank->pid, fds);
    if (code)
        return code;
    rank->is_running = 1;
    job->started++;
    job->running++;
    if (s->options->verbose) {
        binding_text(s->map, r, cores, sizeof cores);
        output_say(&job->output, "rank %d: pid %d, processors %s", r, (int)rank->pid, cores);
    }
    return open_streams(job, r, fds) ? 0 : 1;
}

static int start_all(struct job *job)
{
    if (job->setting->options->verbose && !job->setting->map->is_bound)
        output_say(&job->output, "ranks are not bound: %s", job->setting->map->why_not);
    for (int r = 0; r < job->size; r++) {
        int code = start_one(job, r);
        if (code)
            return code;
    }
    if (job->setting->rank0_stdin > STDERR_FILENO)
        close(job->setting->rank0_stdin); /* rank 0 alone reads it */
    return 0;
}

static int job_init(struct job *job, const struct job_setting *setting)
{
    unsigned char secret[HALAY_SECRET_BYTES];
    const char *no_colour = halay_environment_get("NO_COLOR"), *terminal = halay_environment_get("TERM");
    int colours = !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb");
    sigset_t all;

    *job = (struct job){ .setting = setting, .size = setting->options->ranks, .secret_fd = -1, .signal_fd = -1,
                         .deadline_us = HALAY_NEVER };
    output_init(&job->output, job->size, setting->options->no_prefix, setting->options->timestamp, colours);
    job->ranks = calloc((size_t)job->size, sizeof *job->ranks);
    job->fds = calloc((size_t)job->size * 2 + FIXED_FDS + 2, sizeof *job->fds);
    if (!job->ranks || !job->fds)
        return say_no_memory();
    for (int r = 0; r < job->size; r++)
        job->ranks[r].streams[0].fd = job->ranks[r].streams[1].fd = -1;
    sigfillset(&all);
    job->signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0) {
        say("cannot receive signals: %s", strerror(errno));
        return 1;
    }
    if (halay_store_create_secret(setting->log, secret, &job->secret_fd) != HALAY_OK ||
        halay_store_server_create(setting->log, NULL, secret, &job->store) != HALAY_OK)
        return 1;
    explicit_bzero(secret, sizeof secret);
    return 0;
}

static void job_fini(struct job *job)
{
    for (int r = 0; job->ranks && r < job->size; r++)
        for (int i = 0; i < 2; i++)
            stream_fini(&job->ranks[r].streams[i]);
    output_fini(&job->output);
    halay_store_server_destroy(job->store);
    if (job->secret_fd >= 0)
        close(job->secret_fd);
    if (job->signal_fd >= 0)
        close(job->signal_fd);
    free(job->ranks);
    free(job->fds);
}

int job_run(const struct job_setting *setting)
{
    struct job job;

    int code = job_init(&job, setting);
    if (!code)
        code = start_all(&job);
    if (code) {
        processes_end_descendants();
    } else {
        while (job.running && goes_on(&job))
            turn(&job);
        end_leftovers(&job);
        code = job.has_given_up && !job.exit_code ? 1 : job.exit_code;
    }
    if (!job.is_orphaned)
        drain_output(&job);
    job_fini(&job);
    return code;
}
