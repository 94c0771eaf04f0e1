/* SPDX-License-Identifier: Apache-2.0
 *
 * Job: starts the ranks (job_start.c), serves their store, passes on their output and signals, and ends.
 *
 *     RUNNING --- a rank fails, or a signal to stop ---> STOPPING --- grace is over, or a 2nd signal --> KILLING
 *        |            (SIGTERM, or that signal, to all)     |          (SIGKILL to all descendants)        |
 *        +---- last rank ended ----------------------------+----------------------------------------------+
 *                                    |
 *                                 LEAVING: processes that ranks left get SIGTERM, then SIGKILL; output is drained
 *
 * A rank may end with 0 while others run. The exit code is that of the first rank that failed. Of several
 * that end together, one that a signal killed counts as the first, since the others usually just complain about it.
 * "Together" means within HEARSAY_MS if ranks run on other hosts, because news of their ends takes time.
 *
 * One loop; nothing in it blocks, and other threads write the output. local_ranks.h has the processes of this host.
 *
 * Ranks of other hosts are started, read and signalled through an agent there (host_link.h, agent.h). They count as
 * running from the moment the agent gets its plan until it reports their end or is lost.
 *
 * Cleanup: job_fini accepts any half-built state that began with zeros.
 */
#include "base/clock.h"
#include "base/config.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include "launcher/local/processes.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/join_door.h"
#include "launcher/where/elastic_options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILL_MS = 10000, SETTLE_MS = 2000, HEARSAY_MS = 500, ONE_EVENT_US = 3000000 };

/* ---- signals to ranks -------------------------------------------------------------------------------------------- */

void job_signal_rank(struct job *job, int r, int signal)
{
    if (job->ranks[r].link)
        link_signal_rank(job->ranks[r].link, r, signal);
    else
        local_ranks_signal_one(&job->local_ranks, r, signal);
}

static void job_signal_ranks(struct job *job, int signal)
{
    local_ranks_signal(&job->local_ranks, signal);
    for (size_t i = 0; i < job->link_count; i++)
        link_signal(&job->links[i], signal);
}

static void kill_all(struct job *job)
{
    job->stage = JOB_KILLING;
    job->deadline_us = halay_deadline_us(KILL_MS);
    job_signal_ranks(job, SIGKILL);
    for (size_t i = 0; i < job->link_count; i++)
        link_kill(&job->links[i]);
    if (!job->link_count) /* otherwise the ssh processes are among them */
        processes_signal_descendants(SIGKILL);
}

/* Asks all ranks to end. SIGCONT, because a stopped process could not. */
static void begin_stop(struct job *job, int signal, int grace_ms)
{
    job->stage = JOB_STOPPING;
    job->deadline_us = halay_deadline_us(grace_ms);
    job_elastic_stop(job);
    job_signal_ranks(job, signal);
    job_signal_ranks(job, SIGCONT);
}

/* "rank 2", "ranks 0, 2 and 3 more" */
static void name_running(const struct job *job, char *text, size_t size)
{
    int named = 0;
    size_t used = (size_t)snprintf(text, size, job->running == 1 ? "rank" : "ranks");

    for (int r = 0; r < job->size && used < size; r++) {
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
    if (job->stage == JOB_KILLING) {
        output_report(&job->output, "%s cannot be ended", names);
        job->has_given_up = 1;
        return;
    }
    if (job->stage == JOB_STOPPING)
        output_report(&job->output, "%s did not end in time: SIGKILL", names);
    kill_all(job);
}

/* A batch system signals every process of a job: this one, and the supervisor, which passes the signal on. That counts
 * once. */
static int is_repeated_signal(const struct job *job, const struct signalfd_siginfo *info)
{
    return job->stop_signal == (int)info->ssi_signo && job->stop_sender != (pid_t)info->ssi_pid &&
           halay_now_us() - job->stop_us < ONE_EVENT_US;
}

static void take_stop_signal(struct job *job, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;

    if (is_repeated_signal(job, info))
        return;
    job->stop_signal = signal;
    job->stop_sender = (pid_t)info->ssi_pid;
    job->stop_us = halay_now_us();
    if (job_elastic_continues(job) &&
        !job->running) /* waiting for hosts: no rank will report that the job is not done */
        job->exit_code = EXIT_SIGNAL + signal;
    if (job->stage == JOB_RUNNING) {
        output_report(&job->output, "%s: passed on to the ranks; SIGKILL after %g s, or at once on a second signal",
                      signal_name(signal), job->setting->options->stop_grace_ms / 1000.0);
        begin_stop(job, signal, job->setting->options->stop_grace_ms);
    } else if (job->stage != JOB_KILLING) {
        output_report(&job->output, "%s: SIGKILL to all ranks", signal_name(signal));
        kill_all(job);
    }
}

/* ---- the end of ranks -------------------------------------------------------------------------------------------- */

static int has_failed(const struct rank *rank)
{
    return !WIFEXITED(rank->status) || WEXITSTATUS(rank->status) != 0;
}

static int exit_code_of(const struct rank *rank)
{
    return WIFSIGNALED(rank->status) ? EXIT_SIGNAL + WTERMSIG(rank->status) : WEXITSTATUS(rank->status);
}

/* "pid 123", "pid 123 on host 'b'" */
static void name_process(const struct job *job, int r, char *text, size_t size)
{
    const struct rank *rank = &job->ranks[r];

    if (rank->link)
        snprintf(text, size, "pid %d on host '%s'", (int)rank->pid, rank->link->host);
    else
        snprintf(text, size, "pid %d", (int)rank->pid);
}

static void emit_failure(struct job *job, int r)
{
    const struct rank *rank = &job->ranks[r];
    char why[64];

    if (WIFSIGNALED(rank->status))
        snprintf(why, sizeof why, "killed by %s", signal_name(WTERMSIG(rank->status)));
    else
        snprintf(why, sizeof why, "ended with exit code %d", WEXITSTATUS(rank->status));
    job_watch_event(job->watch, "rank_failed", "{s:i, s:i, s:s, s:s}", "rank", r, "pid", (int)rank->pid, "host",
                    rank->link ? rank->link->host : "localhost", "why", why);
}

/* Reports until end_cause are the first cause. They are copied to cause_fd, after a line with the host ("": this one)
 * and, if a rank was killed, a tab and that word. */
static void begin_cause(struct job *job, const struct host_link *link, int was_killed)
{
    int fd = job->setting->cause_fd;

    if (!fd || lseek(fd, 0, SEEK_CUR) > 0)
        return;
    dprintf(fd, "%s%s\n", link ? link->host : "", was_killed ? "\tkilled" : "");
    job->output.copy_fd = fd;
}

void job_cause_read(const char *written, struct job_cause *cause)
{
    const size_t host = strcspn(written, "\t\n"), line = strcspn(written, "\n");

    snprintf(cause->host, sizeof cause->host, "%.*s", (int)host, written);
    cause->was_killed = written[host] == '\t';
    cause->text = written[line] ? written + line + 1 : "";
}

static void end_cause(struct job *job)
{
    job->output.copy_fd = 0;
}

static void report_failure(struct job *job, int r)
{
    struct rank *rank = &job->ranks[r];
    struct output *out = &job->output;
    char process[300];

    begin_cause(job, rank->link, WIFSIGNALED(rank->status));
    emit_failure(job, r);
    name_process(job, r, process, sizeof process);
    if (WIFSIGNALED(rank->status))
        output_report(out, "rank %d (%s) was killed by %s%s", r, process, signal_name(WTERMSIG(rank->status)),
                      WCOREDUMP(rank->status) ? ", core dumped" : "");
    else
        output_report(out, "rank %d (%s) ended with exit code %d", r, process, WEXITSTATUS(rank->status));
    if (rank->streams[1].tail_count)
        output_report(out, "its last lines on standard error:");
    stream_report_tail(&rank->streams[1]);
    end_cause(job);
}

/* Ends the other ranks, too. */
void job_end_others(struct job *job)
{
    char names[128];

    job_elastic_stop(job);
    for (size_t i = 0; i < job->link_count; i++)
        link_keep(&job->links[i]);
    if (!job->running)
        return;
    name_running(job, names, sizeof names);
    output_report(&job->output, "ending %s: SIGTERM now, SIGKILL after %g s", names,
                  job->setting->options->grace_ms / 1000.0);
    begin_stop(job, SIGTERM, job->setting->options->grace_ms);
}

static void rank_failed(struct job *job, int r)
{
    if (job->stage != JOB_RUNNING) {
        if (job->stop_signal && !job->exit_code)
            job->exit_code = EXIT_SIGNAL + job->stop_signal;
        return;
    }
    for (int i = 0; i < 2; i++) /* all that it wrote precedes the report about it */
        stream_read(&job->ranks[r].streams[i]);
    int leaves = job_elastic_is_leaving(job, r);
    if (!leaves)
        report_failure(job, r);
    if (job_elastic_takes_end(job, r, ELASTIC_FAILED, exit_code_of(&job->ranks[r])))
        return;
    job->exit_code = exit_code_of(&job->ranks[r]);
    job_end_others(job);
}

static void rank_ended(struct job *job, int r, int status)
{
    char process[300];

    job->ranks[r].is_running = 0;
    job->ranks[r].status = status;
    job->running--;
    job_watch_event(job->watch, "rank_ended", "{s:i, s:i, s:s, s:i}", "rank", r, "pid", (int)job->ranks[r].pid, "host",
                    job->ranks[r].link ? job->ranks[r].link->host : "localhost", "exit_code",
                    exit_code_of(&job->ranks[r]));
    name_process(job, r, process, sizeof process);
    if (job->setting->options->verbose)
        output_report(&job->output, "rank %d (%s) has ended", r, process);
}

/* A rank that was not killed may only have reacted to the end of another, or of a host, whose news is still on its
 * way. */
static void suspect_rank(struct job *job, int r)
{
    if (job->elastic || !job->link_count || WIFSIGNALED(job->ranks[r].status)) {
        job->suspect = -1;
        rank_failed(job, r);
        return;
    }
    for (size_t i = 0; i < job->link_count; i++)
        if (&job->links[i] != job->ranks[r].link &&
            halay_now_us() - job->links[i].received_us > 2000 * (int64_t)ALIVE_MS)
            link_doubt(&job->links[i]);
    if (job->suspect >= 0)
        return;
    job->suspect = r;
    job->suspect_us = halay_deadline_us(HEARSAY_MS);
}

static void judge_suspect(struct job *job)
{
    int r = job->suspect, waits = !halay_deadline_passed(job->suspect_us);

    for (size_t i = 0; i < job->link_count; i++)
        waits |= link_is_doubted(&job->links[i]);
    if (r < 0 || (job->stage == JOB_RUNNING && job->running && waits))
        return;
    job->suspect = -1;
    rank_failed(job, r);
}

/* Takes a rank's end into account. */
static void judge_end(struct job *job, int r)
{
    if (has_failed(&job->ranks[r]))
        suspect_rank(job, r);
    else
        job_elastic_takes_end(job, r, ELASTIC_ENDED_WELL, 0);
}

/* ---- other hosts ------------------------------------------------------------------------------------------------- */

static void remote_started(void *context, int r, int pid, const char *processors)
{
    struct job *job = context;

    job->ranks[r].pid = pid;
    job_watch_event(job->watch, "rank_started", "{s:i, s:i, s:s}", "rank", r, "pid", pid, "host",
                    job->ranks[r].link->host);
    if (job->setting->options->verbose)
        output_report(&job->output, "rank %d: pid %d on host '%s', processors %s", r, pid, job->ranks[r].link->host,
                      processors);
}

static void remote_wrote(void *context, int r, int which, const char *bytes, size_t count)
{
    struct job *job = context;

    struct stream *stream = &job->ranks[r].streams[which];
    if (!stream_is_read(stream))
        link_close(job->ranks[r].link, r, which);
    else
        stream_feed(stream, bytes, count);
}

static void remote_ended(void *context, int r, int status)
{
    struct job *job = context;

    if (!job->ranks[r].is_running)
        return;
    for (int which = 0; which < 2; which++)
        stream_end_line(&job->ranks[r].streams[which]);
    rank_ended(job, r, status);
    judge_end(job, r);
}

static void remote_printed(void *context, const char *host, const char *line, int is_detail)
{
    struct job *job = context;

    if (!is_detail || job->setting->options->verbose)
        output_report(&job->output, "host '%s': %s", host, line);
}

static void remote_sampled(void *context, const struct host_link *link, int rank, const void *bytes, size_t count)
{
    struct job *job = context;

    job_watch_take(job->watch, link, rank, bytes, count);
}

static void remote_fetched(void *context, int rank, const void *bytes, size_t count)
{
    job_watch_take_record(((struct job *)context)->watch, rank, bytes, count);
}

static void remote_found_master(void *context, const char *address, int port)
{
    struct job *job = context;

    int code = job_take_master(job, address, port);
    if (!code)
        return;
    job->exit_code = code;
    job_end_others(job);
}

/* The agent's exit code is why it could not start its ranks, unless the agent was killed or it is ssh's own. */
static int start_failure_code(const struct host_link *link)
{
    int code = link->state == LINK_ENDED && WIFEXITED(link->status) ? WEXITSTATUS(link->status) : 0;

    return code && code < EXIT_SIGNAL ? code : 1;
}

/* Its ssh has ended or is silent. Ranks there whose end was not reported are lost, and that is a failure. */
static void host_lost(struct job *job, struct host_link *link)
{
    char why[512], names[64];
    int lost = 0, not_started = 0, goes_on = 1;

    for (int r = link->first; r < link->first + link->count; r++)
        if (job->ranks[r].is_running && job->ranks[r].link == link) {
            not_started += !job->ranks[r].pid;
            rank_ended(job, r, 0);
            job->ranks[r].is_lost = 1;
            lost++;
        }
    if (!lost || job->stage != JOB_RUNNING)
        return;
    link_explain(link, why, sizeof why);
    if (not_started && link->reason)
        snprintf(why, sizeof why, "see above"); /* reported when it arrived */
    if (link->count == 1)
        snprintf(names, sizeof names, "rank %d", link->first);
    else
        snprintf(names, sizeof names, "ranks %d to %d", link->first, link->first + link->count - 1);
    begin_cause(job, link, 0);
    job_watch_event(job->watch, not_started ? "host_not_started" : "host_lost", "{s:s, s:i, s:i, s:s}", "host",
                    link->host, "first_rank", link->first, "ranks", link->count, "why", why);
    output_report(&job->output, "host '%s' (%s) %s: %s", link->host, names,
                  not_started ? "cannot be started" : "is lost", why);
    end_cause(job);
    for (int r = link->first; r < link->first + link->count; r++)
        if (job->ranks[r].link == link && job->ranks[r].is_lost)
            goes_on &= job_elastic_takes_end(job, r, ELASTIC_HOST_LOST, 1);
    if (goes_on && job->elastic)
        return;
    job->suspect = -1;
    job->exit_code = not_started ? start_failure_code(link) : 1;
    job_end_others(job);
}

/* A child that is not a rank has ended: perhaps an ssh. */
static void link_ended(struct job *job, pid_t pid, int status)
{
    for (size_t i = 0; i < job->link_count; i++) {
        struct host_link *link = &job->links[i];
        if (link->state == LINK_ENDED || link->ssh != pid)
            continue;
        link_reaped(link, status);
        host_lost(job, link);
    }
}

/* A host that was called while the job runs, or whose ranks wait for the master. */
static void progress_call(struct job *job, struct host_link *link)
{
    int64_t patience_us = (int64_t)job->setting->peer_start_ms * 1000;

    if (link->state != LINK_CALLING && link->state != LINK_READY)
        return;
    if (job->stage != JOB_RUNNING) /* nothing runs there that could be asked to end */
        link_end_ssh(link);
    else if (link->state == LINK_READY && job->master.port && job_send_plan(job, link))
        link_end_ssh(link);
    else if (link->state == LINK_CALLING && link->ssh > 0 && halay_now_us() - link->received_us > patience_us)
        link_end_ssh(link);
}

static void progress_links(struct job *job)
{
    for (size_t i = 0; i < job->link_count; i++) {
        struct host_link *link = &job->links[(job->turns / 2 + i) % job->link_count];
        link_progress(link, !output_is_full(&job->output));
        if (link->is_silent && link->state != LINK_ENDED) {
            link_end_ssh(link); /* it is reaped like any other */
            host_lost(job, link);
        }
        progress_call(job, link);
    }
    output_flush(&job->output);
}

static void pass_input(void *context)
{
    struct job *job = context;
    char bytes[1 << 14];

    ssize_t n = read(job->input_fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    link_input(job->ranks[0].link, bytes, n > 0 ? (size_t)n : 0);
    if (n <= 0) {
        close(job->input_fd);
        job->input_fd = -1;
    }
}

/* A node has come for which there is room. A job of which a rank has ended is about to end, and is left alone. */
static void take_growth(void *context)
{
    struct job *job = context;
    char text[512];

    enum join_door_answer answer = join_door_take(job->door, text, sizeof text);
    if (answer == DOOR_FAILED) /* it is readable from now on; the next start reports it */
        job->door = NULL;
    if (answer != DOOR_GROWS || job->stage != JOB_RUNNING || job->running < job->size)
        return;
    job->is_growing = 1;
    output_report(&job->output, "%s: all ranks are started again; SIGTERM now, SIGKILL after %g s", text,
                  job->setting->options->grace_ms / 1000.0);
    begin_stop(job, SIGTERM, job->setting->options->grace_ms);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static void job_reap(struct job *job)
{
    int failed = -1, r, status;
    pid_t pid;

    while ((pid = local_ranks_reap(&job->local_ranks, &r, &status))) {
        if (r < 0) {
            if (!job_elastic_reaped(job, pid, status))
                link_ended(job, pid, status);
            continue;
        }
        rank_ended(job, r, status);
        halay_host_ranks_ended(&job->host_ranks, r);
        if (job->elastic)
            judge_end(job, r);
        else if (has_failed(&job->ranks[r]) &&
                 (failed < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(job->ranks[failed].status))))
            failed = r;
    }
    if (failed >= 0)
        suspect_rank(job, failed);
}

/* On all hosts; the records show what the stacks do not: what each rank did last. */
static void job_show_stacks(struct job *job)
{
    report("the ranks that can show their stacks do so");
    processes_show_stacks();
    for (size_t i = 0; i < job->link_count; i++)
        link_signal(&job->links[i], STACKS_SIGNAL);
    job_watch_report_records(job->setting, job->watch);
}

static void job_take_signals(struct job *job)
{
    struct signalfd_siginfo info;

    while (halay_signals_take(job->signal_fd, &info)) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            job_reap(job);
        else if (signal_is_stop(signal))
            take_stop_signal(job, &info);
        else if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGTSTP || signal == SIGCONT || signal == SIGWINCH)
            job_signal_ranks(job, signal);
        else if (signal == STACKS_SIGNAL)
            job_show_stacks(job);
    }
}

static void note_output(void *context)
{
    ((struct job *)context)->has_output = 1;
}

static void wake_output(void *context)
{
    struct job *job = context;

    output_awake(&job->output);
    job->has_output = 1;
}

static void lose_supervisor(void *context)
{
    ((struct job *)context)->is_orphaned = 1;
}

static void job_watch_descriptors(struct job *job)
{
    struct halay_loop *loop = &job->loop;
    int reads_input = job->input_fd >= 0 && !link_is_full(job->ranks[0].link);

    halay_loop_watch(loop, job->signal_fd, POLLIN, NULL, NULL);
    halay_loop_watch(loop, job->setting->lifeline, POLLIN, lose_supervisor, job);
    halay_loop_watch(loop, halay_store_server_fd(job->store), POLLIN, NULL, NULL);
    halay_loop_watch(loop, reads_input ? job->input_fd : -1, POLLIN, pass_input, job);
    halay_loop_watch(loop, job_watch_fd(job->watch), POLLIN, NULL, NULL);
    halay_loop_watch(loop, job->elastic ? job_elastic_fd(job) : -1, POLLIN, NULL, NULL);
    halay_loop_watch(loop, job->door ? job->door->fd : -1, POLLIN, take_growth, job);
    halay_loop_watch(loop, job->output.wake_fd, POLLIN, wake_output, job);
    for (int r = 0; job->ranks && r < job->size; r++)
        for (int i = 0; i < 2; i++) {
            struct stream *stream = &job->ranks[r].streams[i];
            if (stream->fd >= 0 && !stream_is_held(stream))
                halay_loop_watch(loop, stream->fd, POLLIN, note_output, job);
        }
    for (size_t i = 0; i < job->link_count; i++)
        link_watch(&job->links[i], !output_is_full(&job->output), loop);
}

static void job_watch_deadlines(struct job *job)
{
    halay_loop_until(&job->loop, job_elastic_due(job));
    halay_loop_until(&job->loop, job->deadline_us);
    halay_loop_until(&job->loop, job->output.due_us);
    halay_loop_until(&job->loop, job->suspect >= 0 ? job->suspect_us : HALAY_NEVER);
    halay_loop_until(&job->loop, halay_deadline_us(job_watch_patience_ms(job->watch)));
    for (size_t i = 0; i < job->link_count; i++)
        halay_loop_until(&job->loop, halay_deadline_us(link_patience_ms(&job->links[i])));
}

/* Reads every stream that can be read; one that was not polled costs a call that gives EAGAIN. Each time another one is
 * the first: if it writes without pause, it fills the sink, and the others are not read. */
static void pass_output(struct job *job)
{
    if (!job->has_output)
        return;
    job->has_output = 0;
    const size_t count = 2 * (size_t)job->size;
    for (size_t i = 0; i < count; i++) {
        size_t k = (job->turns / 2 + i) % count; /* every other turn reads links first */
        stream_read(&job->ranks[k / 2].streams[k % 2]);
    }
    output_flush(&job->output);
}

/* The beginnings of lines that have waited for their ends. */
static void show_parts(struct job *job)
{
    if (!halay_deadline_passed(job->output.due_us))
        return;
    job->output.due_us = HALAY_NEVER;
    for (int r = 0; r < job->size; r++)
        for (int i = 0; i < 2; i++)
            stream_show_part(&job->ranks[r].streams[i]);
    output_flush(&job->output);
}

static void job_turn(struct job *job)
{
    output_flush(&job->output);
    job_watch_descriptors(job);
    job_watch_deadlines(job);
    if (halay_loop_turn(&job->loop, HALAY_NEVER) != HALAY_OK) {
        report("cannot wait for the ranks: %s", strerror(errno));
        job->has_given_up = 1;
        return;
    }
    const int is_local_first = job->turns++ % 2 == 0;
    if (is_local_first)
        pass_output(job);
    progress_links(job);
    pass_output(job);
    show_parts(job);
    job_watch_turn(job->watch);
    job_take_signals(job);
    if (job->is_orphaned) {
        kill_all(job);
        return;
    }
    if (halay_store_server_progress(job->store) != HALAY_OK)
        job->has_given_up = 1;
    judge_suspect(job);
    if (halay_deadline_passed(job->deadline_us))
        end_grace(job);
    if (job->elastic)
        job_elastic_progress(job);
}

static int job_can_continue(const struct job *job)
{
    return !job->is_orphaned && !job->has_given_up;
}

/* The agents end the processes that their ranks left, send the rest of the output, and end. */
static void await_agents(struct job *job)
{
    int open = 1;

    if (!job->link_count)
        return;
    if (job->stage != JOB_KILLING) {
        job->stage = JOB_LEAVING;
        job->deadline_us = halay_deadline_us(job->setting->options->grace_ms + SETTLE_MS);
    }
    while (open && job_can_continue(job)) {
        open = 0;
        for (size_t i = 0; i < job->link_count; i++)
            open |= job->links[i].state != LINK_ENDED;
        if (open && halay_deadline_passed(job->deadline_us))
            return;
        if (open)
            job_turn(job);
    }
}

static int job_leave_turn(void *context)
{
    struct job *job = context;

    job_turn(job);
    return job->stage == JOB_LEAVING && job_can_continue(job);
}

/* Ends the processes that ranks left. */
static void job_end_leftovers(struct job *job)
{
    if (job->stage != JOB_KILLING) {
        job->stage = JOB_LEAVING;
        job->deadline_us = halay_deadline_us(job->setting->options->grace_ms);
    }
    int left = local_ranks_end_leftovers(job->stage == JOB_LEAVING ? job_leave_turn : NULL, job);
    if (left > 0)
        output_report(&job->output, "%d process%s left by the ranks cannot be ended", left, left == 1 ? "" : "es");
}

/* Passes on what that pipe holds now, at least: a process that is not halayrun's may write on without end. */
static void drain_stream(struct job *job, struct stream *stream)
{
    int left = 0;

    if (stream->fd >= 0 && ioctl(stream->fd, FIONREAD, &left) < 0)
        left = 0;
    output_finish(&job->output); /* so that each stream_read has room for one read */
    while (stream_read(stream) && left > 0) {
        output_finish(&job->output);
        left -= STREAM_READ_BYTES;
    }
}

/* Readers of our output may be slow: from here on halayrun can be interrupted like any program. */
static void drain_output(struct job *job)
{
    sigset_t none;

    sigemptyset(&none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int r = 0; job->ranks && r < job->size; r++)
        for (int i = 0; i < 2; i++)
            drain_stream(job, &job->ranks[r].streams[i]);
    for (int r = 0; job->ranks && r < job->size; r++)
        for (int i = 0; i < 2; i++)
            stream_close_file(&job->ranks[r].streams[i]);
    output_finish(&job->output);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int job_init(struct job *job, const struct job_setting *setting, int restarts)
{
    const char *no_colour = halay_environment_get("NO_COLOR"), *terminal = halay_environment_get("TERM");
    int colours = !(no_colour && *no_colour);
    *job = (struct job){ .setting = setting,
                         .restarts = restarts,
                         .size = elastic_is_wanted(setting->options) ? setting->options->most_ranks
                                                                     : setting->options->ranks,
                         .secret_fd = -1,
                         .host_ranks.fd = -1,
                         .signal_fd = -1,
                         .input_fd = -1,
                         .door = setting->options->least_nodes ? setting->options->door : NULL,
                         .suspect = -1,
                         .deadline_us = HALAY_NEVER };
    halay_loop_init(&job->loop);
    if (!output_init(&job->output, job->size, setting->options->no_prefix, setting->options->timestamp, terminal,
                     colours))
        return 1;
    job->output.typed = setting->typed;
    job->output.shown = setting->options->shown_ranks;
    job->ranks = calloc((size_t)job->size, sizeof *job->ranks);
    for (int r = 0; job->ranks && r < job->size; r++) {
        job->ranks[r].streams[0].fd = job->ranks[r].streams[1].fd = -1;
        job->ranks[r].was_used = restarts > 0;
    }
    if (!job->ranks || !local_ranks_init(&job->local_ranks, job->size))
        return report_no_memory();
    job->signal_fd = local_ranks_open_signals();
    if (job->signal_fd < 0) {
        report("cannot receive signals: %s", strerror(errno));
        return 1;
    }
    job->events = (struct link_events){ remote_started,      remote_wrote,   remote_ended,   remote_printed,
                                        remote_found_master, remote_sampled, remote_fetched, job };
    int code = job_make_links(job);
    if (!code)
        code = job_open_store(job);
    if (!code)
        code = job_open_call(job);
    if (!code && elastic_is_wanted(setting->options))
        code = job_elastic_init(job);
    return code;
}

static void job_fini(struct job *job)
{
    for (int r = 0; job->ranks && r < job->size; r++)
        for (int i = 0; i < 2; i++)
            stream_fini(&job->ranks[r].streams[i]);
    for (size_t i = 0; i < job->link_count; i++)
        link_fini(&job->links[i]);
    free(job->links);
    job_elastic_fini(job);
    output_fini(&job->output);
    explicit_bzero(job->secret, sizeof job->secret);
    halay_store_server_destroy(job->store);
    if (job->secret_fd >= 0)
        close(job->secret_fd);
    halay_host_ranks_close(&job->host_ranks);
    if (job->signal_fd >= 0)
        close(job->signal_fd);
    local_ranks_fini(&job->local_ranks);
    free(job->ranks);
    halay_loop_fini(&job->loop);
}

static enum job_again find_again(struct job *job)
{
    if (job->is_growing && job->stop_signal && !job->exit_code)
        job->exit_code = EXIT_SIGNAL + job->stop_signal;
    if (job->stop_signal || !job_can_continue(job))
        return JOB_IS_OVER;
    return job->is_growing ? JOB_GROWS : job->exit_code ? JOB_HAS_FAILED : JOB_IS_OVER;
}

int job_run_once(const struct job_setting *setting, struct job_watch *watch, int restarts, enum job_again *again)
{
    struct job job;

    *again = JOB_IS_OVER;
    int code = job_init(&job, setting, restarts);
    job.watch = watch;
    job_watch_follow(watch, job.ranks ? &job : NULL);
    if (!code) {
        code = job_call_others(&job);
        if (code == EXIT_FAILURE && setting->options->door)
            *again = JOB_HAS_FAILED; /* a node that was there is lost */
    }
    if (!code)
        code = job_start_all(&job);
    if (code) {
        processes_end_descendants();
    } else {
        while ((job.running || job_elastic_continues(&job)) && job_can_continue(&job))
            job_turn(&job);
        await_agents(&job);
        job_end_leftovers(&job);
        *again = find_again(&job);
        code = job.has_given_up && !job.exit_code ? 1 : job.exit_code;
    }
    job_watch_follow(watch, NULL);
    if (!job.is_orphaned)
        drain_output(&job);
    if (!code && output_is_lost(&job.output))
        code = 1;
    job_fini(&job);
    return code;
}
