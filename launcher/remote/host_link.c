/* SPDX-License-Identifier: Apache-2.0
 *
 * Host link: three pipes to an ssh, or to what is in its place, two buffers, and what its lines on standard error mean.
 *
 * Whatever the other host's login prints before the agent's greeting is skipped. Errors of ssh and of the agent come on
 * standard error. Once ranks run, these lines are passed on as they come; before that they are kept, and the last one
 * is the reason of a call that failed.
 *
 * Cleanup: link_fini accepts any half-built state that began with zeros and a link_call.
 */
#include "launcher/remote/host_link.h"
#include "base/clock.h"
#include "halay_types.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/frame.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16, LINE_BYTES = 4096, GREETING_BYTES = 1 << 16 };
#define TO_MAX ((size_t)1 << 20)

/* ---- ssh --------------------------------------------------------------------------------------------------------- */

/* Gives the child its three streams, and no life without its parent. */
static void take_streams(pid_t parent, const int ends[3])
{
    setpgid(0, 0); /* halayrun passes the terminal's signals on */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(ends[0], STDIN_FILENO) < 0 || dup2(ends[1], STDOUT_FILENO) < 0 ||
        dup2(ends[2], STDERR_FILENO) < 0)
        _exit(EXIT_SSH);
}

/* Nothing is executed, so that nothing closes by itself what belongs to others: their pipes would never end. */
static void close_others(const struct tunnel_pair *kept)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);
        if (fd > STDERR_FILENO && fd != dirfd(folder) && fd != kept->frames.fd && fd != kept->errors.fd)
            close(fd);
    }
    if (folder)
        closedir(folder);
}

/* All signals stay blocked, as they are in the job. */
__attribute__((noreturn)) static void be_tunnels(const struct tunnel_pair *tunnels, pid_t parent, const int ends[3])
{
    prctl(PR_SET_NAME, "halayrun-relay");
    take_streams(parent, ends);
    close_others(tunnels);
    _exit(tunnel_carry(tunnels));
}

__attribute__((noreturn)) static void be_ssh(char *const *args, pid_t parent, const int ends[3])
{
    sigset_t none;

    sigemptyset(&none);
    take_streams(parent, ends);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(EXIT_SSH);
    execvp(args[0], args);
    fprintf(stderr, "cannot run '%s': %s\n", args[0], strerror(errno));
    fflush(stderr);
    _exit(EXIT_SSH);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* The call failed: nothing is left of it. */
static void close_pipes(struct host_link *link)
{
    close_fd(&link->in);
    close_fd(&link->out);
    close_fd(&link->err);
    if (link->tunnels) /* halayrun's other processes have them open, too */
        tunnel_shut(link->tunnels);
}

void link_end_ssh(const struct host_link *link)
{
    if (link->ssh > 0)
        kill(link->ssh, SIGKILL);
}

int link_call(struct host_link *link, char *const *args, const struct link_events *events)
{
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    pid_t parent = getpid();

    *link = (struct host_link){ .host = link->host,
                                .events = events,
                                .in = -1,
                                .out = -1,
                                .err = -1,
                                .first = link->first,
                                .count = link->count,
                                .tunnels = link->tunnels,
                                .received_us = halay_now_us() };
    int failed = 0;
    for (int i = 0; i < 3; i++)
        failed |= pipe2(pipes[i], O_CLOEXEC) < 0;
    if (!failed && (link->ssh = fork()) == 0) {
        const int ends[3] = { pipes[0][0], pipes[1][1], pipes[2][1] };
        if (link->tunnels)
            be_tunnels(link->tunnels, parent, ends);
        be_ssh(args, parent, ends);
    }
    failed |= link->ssh < 0 || fcntl(pipes[0][1], F_SETFL, O_NONBLOCK) < 0 ||
              fcntl(pipes[1][0], F_SETFL, O_NONBLOCK) < 0 || fcntl(pipes[2][0], F_SETFL, O_NONBLOCK) < 0;
    if (failed)
        report("cannot call host '%s': %s", link->host, strerror(errno));
    link->in = pipes[0][1];
    link->out = pipes[1][0];
    link->err = pipes[2][0];
    close_fd(&pipes[0][0]);
    close_fd(&pipes[1][1]);
    close_fd(&pipes[2][1]);
    if (failed) {
        link_end_ssh(link); /* it is reaped like any other */
        close_pipes(link);
    }
    return failed;
}

/* ---- to the agent ------------------------------------------------------------------------------------------------ */

static void flush_to(struct host_link *link)
{
    if (link->in >= 0 && !buffer_write(&link->to, link->in))
        close_fd(&link->in); /* waitpid reports its end */
}

static int link_send(struct host_link *link, enum frame_kind kind, int number, const void *bytes, size_t count)
{
    if (link->in < 0 || (link->state != LINK_RUNNING && kind != FRAME_PLAN && kind != FRAME_ALIVE))
        return 1;
    link->sent_us = halay_now_us();
    int ok = frame_put(&link->to, kind, (uint32_t)number, bytes, count);
    flush_to(link);
    return ok;
}

int link_start(struct host_link *link, const struct host_plan *plan)
{
    struct buffer bytes = { 0 };

    int ok = host_plan_write(plan, &bytes) && link_send(link, FRAME_PLAN, 0, bytes.bytes, bytes.count);
    if (bytes.count)
        explicit_bzero(bytes.bytes, bytes.count); /* the secret */
    buffer_fini(&bytes);
    link->state = LINK_RUNNING;
    link->silence_ms = plan->silence_ms;
    link->received_us = halay_now_us();
    return ok;
}

void link_signal(struct host_link *link, int signal)
{
    if (!link_send(link, FRAME_SIGNAL, signal, NULL, 0))
        close_fd(&link->in); /* no memory: closing it stops the agent, too */
}

void link_signal_rank(struct host_link *link, int rank, int signal)
{
    char text[16];

    int n = snprintf(text, sizeof text, "%d", rank);
    if (!link_send(link, FRAME_SIGNAL, signal, text, (size_t)n))
        close_fd(&link->in);
}

void link_kill(struct host_link *link)
{
    if (!link_send(link, FRAME_KILL, 0, NULL, 0))
        close_fd(&link->in);
}

void link_keep(struct host_link *link)
{
    if (!link_send(link, FRAME_KEEP, 0, NULL, 0))
        close_fd(&link->in);
}

void link_fetch(struct host_link *link, int rank)
{
    if (!link_send(link, FRAME_FETCH, (uint32_t)rank, NULL, 0))
        close_fd(&link->in);
}

void link_input(struct host_link *link, const char *bytes, size_t count)
{
    if (!link_send(link, FRAME_INPUT, 0, bytes, count))
        close_fd(&link->in);
    link->untaken += count;
}

void link_close(struct host_link *link, int rank, int which)
{
    if (!link_send(link, FRAME_CLOSE, rank, which ? "1" : "0", 1))
        close_fd(&link->in);
}

int link_is_full(const struct host_link *link)
{
    return link->to.count >= TO_MAX || link->untaken >= INPUT_MAX;
}

void link_doubt(struct host_link *link)
{
    if (link->state == LINK_RUNNING && !link->doubted_us)
        link->doubted_us = halay_now_us();
}

int link_is_doubted(const struct host_link *link)
{
    return link->state == LINK_RUNNING && link->doubted_us;
}

int link_patience_ms(const struct host_link *link)
{
    return link_is_doubted(link) ? DOUBT_MIN_MS / 10 : ALIVE_MS;
}

/* ---- from the agent ---------------------------------------------------------------------------------------------- */

static void keep_reason(struct host_link *link, const char *line)
{
    char *copy = strdup(line);

    if (!copy)
        return;
    free(link->reason);
    link->reason = copy;
}

/* A line from ssh or the agent. */
static void take_line(struct host_link *link, char *line)
{
    static const char own[] = "halayrun: ";

    line[strcspn(line, "\r\n")] = 0;
    if (!strncmp(line, own, sizeof own - 1))
        line += sizeof own - 1;
    if (!*line)
        return;
    keep_reason(link, line);
    link->events->printed(link->events->context, link->host, line, link->state != LINK_RUNNING);
}

static void take_lines(struct host_link *link)
{
    char line[LINE_BYTES], *newline;

    while (link->errors.count && ((newline = memchr(link->errors.bytes, '\n', link->errors.count)) ||
                                  link->errors.count >= sizeof line || link->err < 0)) {
        size_t length = newline ? (size_t)(newline - link->errors.bytes) + 1 : link->errors.count;
        size_t kept = length < sizeof line ? length : sizeof line - 1;
        memcpy(line, link->errors.bytes, kept);
        line[kept] = 0;
        buffer_remove_front(&link->errors, kept);
        take_line(link, line);
    }
}

/* Reads what is there until `to` has `most` bytes, and closes the descriptor at its end. Returns 1 if bytes arrived. */
static int read_available(int *fd, struct buffer *to, size_t most)
{
    char bytes[READ_BYTES];
    int any = 0;

    while (*fd >= 0 && to->count < most) {
        ssize_t n = read(*fd, bytes, sizeof bytes);
        if (n > 0)
            any |= buffer_append(to, bytes, (size_t)n);
        else if (n == 0 || (errno != EINTR && errno != EAGAIN))
            close_fd(fd);
        else if (errno == EAGAIN)
            break;
    }
    return any;
}

static int is_rank_of_link(const struct host_link *link, uint32_t number)
{
    return number >= (uint32_t)link->first && number < (uint32_t)(link->first + link->count);
}

/* "123 0-1": returns the number; rest is what follows it. The frame's bytes have no zero at the end. */
static int read_number_and_rest(const struct frame *frame, char *rest, size_t size)
{
    char text[512], *end;

    snprintf(text, sizeof text, "%.*s", (int)(frame->count < 500 ? frame->count : 500), frame->bytes);
    long number = strtol(text, &end, 10);
    snprintf(rest, size, "%s", *end == ' ' ? end + 1 : end);
    return (int)number;
}

static void deliver_frame(struct host_link *link, const struct frame *frame)
{
    const struct link_events *events = link->events;
    char text[512];

    if (frame->kind >= FRAME_STARTED && frame->kind <= FRAME_ENDED && !is_rank_of_link(link, frame->number))
        return;
    int rank = (int)frame->number;
    switch (frame->kind) {
    case FRAME_STARTED:;
        int pid = read_number_and_rest(frame, text, sizeof text);
        events->started(events->context, rank, pid, text);
        break;
    case FRAME_OUTPUT:
    case FRAME_ERROR:
        events->wrote(events->context, rank, frame->kind == FRAME_ERROR, frame->bytes, frame->count);
        break;
    case FRAME_ENDED:
        events->ended(events->context, rank, read_number_and_rest(frame, text, sizeof text));
        break;
    case FRAME_TAKEN:
        link->untaken -= frame->number < link->untaken ? frame->number : link->untaken;
        break;
    case FRAME_NOTE:
        snprintf(text, sizeof text, "%.*s", (int)(frame->count < 500 ? frame->count : 500), frame->bytes);
        events->printed(events->context, link->host, text, 1);
        break;
    case FRAME_MASTER:
        snprintf(text, sizeof text, "%.*s", (int)(frame->count < 500 ? frame->count : 500), frame->bytes);
        events->found_master(events->context, text, rank);
        break;
    case FRAME_SAMPLE:
    case FRAME_HOST:
        events->sampled(events->context, link, frame->kind == FRAME_HOST ? -1 : rank, frame->bytes, frame->count);
        break;
    case FRAME_RECORD:
        events->fetched(events->context, rank, frame->bytes, frame->count);
        break;
    default:
        break;
    }
}

/* Finds the greeting's line, whatever precedes it. */
static void look_for_greeting(struct host_link *link)
{
    const struct buffer *from = &link->from;
    const size_t length = sizeof AGENT_GREETING - 1;
    char *line = from->count ? memmem(from->bytes, from->count, AGENT_GREETING, length) : NULL;
    char *end = line ? memchr(line, '\n', from->count - (size_t)(line - from->bytes)) : NULL;
    char text[256];

    if (!end) {
        if (from->count > GREETING_BYTES) {
            keep_reason(link, "its output is not an agent's greeting");
            close_fd(&link->in);
        }
        return;
    }
    int digits = (int)(end - line - (ptrdiff_t)length);
    if (digits != (int)strlen(halay_version()) || strncmp(line + length, halay_version(), (size_t)digits) != 0) {
        snprintf(text, sizeof text, "halay %.*s is installed there, and %s here: install the same version on both",
                 digits < 64 ? digits : 64, line + length, halay_version());
        keep_reason(link, text);
        close_fd(&link->in);
        return;
    }
    buffer_remove_front(&link->from, (size_t)(end - from->bytes) + 1);
    link->state = LINK_READY;
}

static void take_frames(struct host_link *link)
{
    enum frame_found found;
    struct frame frame;
    size_t used = 0;

    while ((found = frame_take(&link->from, &used, &frame)) == FRAME_FOUND) {
        link->has_begun = 1;
        deliver_frame(link, &frame);
    }
    buffer_remove_front(&link->from, used);
    if (found == FRAME_INVALID && link->in >= 0) {
        keep_reason(link, "its output is not understood");
        close_fd(&link->in);
        link->from.count = 0;
    }
}

static void take_what_came(struct host_link *link, int is_open)
{
    if (read_available(&link->err, &link->errors, TO_MAX))
        link->received_us = halay_now_us();
    take_lines(link);
    /* Frames are taken out below; a partial one has FRAME_MAX at most. */
    if (read_available(&link->out, &link->from, is_open ? link->from.count + TO_MAX : TO_MAX))
        link->received_us = halay_now_us();
    if (link->state == LINK_CALLING && link->in >= 0)
        look_for_greeting(link);
    if (link->state == LINK_RUNNING && is_open)
        take_frames(link);
}

/* ---- the loop's part --------------------------------------------------------------------------------------------- */

void link_watch(const struct host_link *link, int is_open, struct halay_loop *loop)
{
    if (link->state == LINK_ENDED)
        return;
    halay_loop_watch(loop, link->to.count ? link->in : -1, POLLOUT, NULL, NULL);
    halay_loop_watch(loop, is_open ? link->out : -1, POLLIN, NULL, NULL);
    halay_loop_watch(loop, link->err, POLLIN, NULL, NULL);
}

/* How long it may be silent. */
static int silence_limit_ms(const struct host_link *link)
{
    if (link->doubted_us)
        return DOUBT_MS;
    return link->has_begun || link->silence_ms > DEFAULT_SILENCE_MS ? link->silence_ms : DEFAULT_SILENCE_MS;
}

static int is_silent(const struct host_link *link, int64_t now_us)
{
    return now_us - link->received_us > (int64_t)silence_limit_ms(link) * 1000 &&
           (!link->doubted_us || now_us - link->doubted_us > (int64_t)DOUBT_MIN_MS * 1000);
}

void link_progress(struct host_link *link, int is_open)
{
    if (link->state == LINK_ENDED)
        return;
    take_what_came(link, is_open);
    int64_t now_us = halay_now_us();
    if (link->state != LINK_CALLING && now_us - link->sent_us >= (int64_t)ALIVE_MS * 1000 && !link->to.count &&
        !link_send(link, FRAME_ALIVE, 0, NULL, 0))
        close_fd(&link->in);
    flush_to(link);
    if (link->state != LINK_RUNNING || !is_open)
        return;
    if (link->received_us > link->doubted_us)
        link->doubted_us = 0;
    link->is_silent |= is_silent(link, now_us);
}

void link_reaped(struct host_link *link, int status)
{
    take_what_came(link, 1);
    close_pipes(link);
    take_lines(link);
    link->state = LINK_ENDED;
    link->status = status;
}

void link_explain(const struct host_link *link, char *text, size_t size)
{
    int code = WIFEXITED(link->status) ? WEXITSTATUS(link->status) : -1;

    if (link->is_silent)
        snprintf(text, size, "it has been silent for %g s%s", silence_limit_ms(link) / 1000.0,
                 link->doubted_us ? ", and ranks elsewhere have lost it" : "");
    else if (link->state == LINK_CALLING)
        snprintf(text, size, "it does not answer%s%s", link->reason ? "; its last line: " : "",
                 link->reason ? link->reason : "");
    else if (link->reason)
        snprintf(text, size, "%s", link->reason);
    else if (code >= 0)
        snprintf(text, size, "the connection ended (exit code %d)", code);
    else
        snprintf(text, size, "%s was killed by %s",
                 link->tunnels ? "halayrun-relay, which has its connections," : "its ssh",
                 signal_name(WTERMSIG(link->status)));
}

void link_fini(struct host_link *link)
{
    if (link->ssh)
        close_pipes(link);
    buffer_fini(&link->to);
    buffer_fini(&link->from);
    buffer_fini(&link->errors);
    free(link->reason);
    link->reason = NULL;
}
