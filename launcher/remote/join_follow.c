/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, the other nodes: call node 0, wait for the order to begin, and serve the job as an agent, each time in a child.
 *
 * The agent reads and writes plain bytes on pipes, in place of standard streams. A child of its supervisor, the relay,
 * holds the connections and encrypts (relay.h):
 *
 *     node 0 === tunnels ============== relay --- pipes --- supervisor, agent, ranks
 *        ======= talk === this process --- fork ----^
 *
 * The relay ends when the agent's streams do, or with the supervisor. If it ends earlier, the agent's standard input
 * ends, and the agent knows what that means. The end of the job arrives through the talk's tunnel, when the ranks of
 * all nodes have ended, however long after those of this one. If that tunnel ends without it, node 0 is lost.
 *
 * Signals that ask this node to stop are passed on to the agent, and then to its ranks. A node that was asked does not
 * begin again: it leaves, and its place is free for another.
 */
#include "base/clock.h"
#include "base/secure/cipher.h"
#include "halay_types.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/local/supervisor.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/join.h"
#include "launcher/remote/join_secret.h"
#include "launcher/remote/relay.h"
#include "launcher/where/reach.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_MS = 30000 };

struct follow {
    const struct join *join;    /* borrowed */
    struct join_result *result; /* borrowed */
    struct talk talk;
    int signal_fd;
    sigset_t before;           /* the mask that the agent starts with */
    pid_t server;              /* the child that serves as agent; 0: none */
    char begin[TALK_TEXT_MAX]; /* what to begin when that has ended; "": nothing */
    int has_begun;
    int stop_signal; /* the first signal that asked this node to stop; 0: none */
    int is_over;     /* the result is there, or will not come */
};

/* ---- the agent --------------------------------------------------------------------------------------------------- */

/* Pipes between the relay and the agent, indexed by the agent's descriptors: standard input, output, error. */
struct pipes {
    int relay[3], agent[3];
};

static int open_pipes(struct pipes *pipes)
{
    int failed = 0;

    for (int i = 0; i < 3; i++) {
        int ends[2] = { -1, -1 };
        failed |= pipe2(ends, O_CLOEXEC) < 0;
        pipes->agent[i] = ends[i != STDIN_FILENO];
        pipes->relay[i] = ends[i == STDIN_FILENO];
    }
    return !failed;
}

static void close_all(const int fds[3])
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static enum halay_status relay_all(const struct tunnel_pair *pair, const int streams[3])
{
    struct halay_cipher *frames = NULL, *errors = NULL;

    enum halay_status status = halay_cipher_create(&pair->frames.session, &frames);
    if (status == HALAY_OK)
        status = halay_cipher_create(&pair->errors.session, &errors);
    const struct relay_line lines[RELAY_LINES] = {
        { .stream = streams[0], .socket = pair->frames.fd, .cipher = frames },
        { .stream = streams[1], .socket = pair->frames.fd, .cipher = frames, .is_outgoing = 1, .is_leading = 1 },
        { .stream = streams[2], .socket = pair->errors.fd, .cipher = errors, .is_outgoing = 1, .is_leading = 1 }
    };
    if (status == HALAY_OK)
        status = relay_run(lines, DEFAULT_SILENCE_MS);
    halay_cipher_destroy(frames);
    halay_cipher_destroy(errors);
    return status;
}

/* In the relay's process. It ignores signals: the agent gets them, and then ends its streams. */
__attribute__((noreturn)) static void be_relay(const struct tunnel_pair *pair, const struct pipes *pipes, pid_t parent)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0); /* nor does the terminal signal it */
    prctl(PR_SET_NAME, "halayrun-relay");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close_all(pipes->agent);
    enum halay_status status = relay_all(pair, pipes->relay);
    if (status != HALAY_OK)
        relay_report(status);
    _exit(status != HALAY_OK);
}

/* Runs the agent with these pipe ends as its standard streams; they are closed afterwards. */
static void be_agent(struct halay_log *log, const int ends[3])
{
    int saved[3], failed = 0;

    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        failed |= saved[i] < 0 || dup2(ends[i], i) < 0;
        close(ends[i]);
    }
    int code =
        failed ? 1 : supervisor_run(&(struct job_setting){ .log = log, .stopped_ms = DEFAULT_SILENCE_MS }, agent_run);
    const unsigned char end[2] = { 0, (unsigned char)code };
    signal(SIGPIPE, SIG_IGN); /* not earlier: the ranks would inherit it */
    int is_sent = write(STDERR_FILENO, end, sizeof end) == (ssize_t)sizeof end;
    for (int i = 0; i < 3; i++) {
        if (saved[i] < 0) {
            close(i);
            continue;
        }
        dup2(saved[i], i);
        close(saved[i]);
    }
    if (!is_sent)
        report("cannot tell node 0 how the ranks of this one ended: %s", strerror(errno));
}

/* Agent and relay, until both have ended. */
static void serve_as_agent(struct halay_log *log, struct tunnel_pair *pair)
{
    struct pipes pipes;
    pid_t self = getpid(), relay = open_pipes(&pipes) ? fork() : -1;

    if (relay == 0)
        be_relay(pair, &pipes, self);
    if (relay < 0)
        report("cannot start the agent: %s", strerror(errno));
    close_all(pipes.relay);
    tunnel_close(pair);
    if (relay < 0) {
        close_all(pipes.agent);
        return;
    }
    be_agent(log, pipes.agent);
    while (waitpid(relay, NULL, 0) < 0 && errno == EINTR) /* unless the supervisor has reaped it */
        ;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

/* text: "TICKET NODE NODES". Returns 0, or an exit code (reported). */
static int take_part(const struct join *join, const char *leader, const char *text)
{
    const struct tunnel_end end = { leader, join->interface, join->port, join->secret };
    struct tunnel_pair pair = { { .fd = -1 }, { .fd = -1 } };
    int64_t deadline_us = halay_deadline_us(OPEN_MS);
    unsigned ticket;
    int node, nodes;
    char why[512];

    if (sscanf(text, "%u %d %d", &ticket, &node, &nodes) != 3)
        return EXIT_FAILURE;
    if (tunnel_open(&end, ticket * TUNNEL_TICKET + TUNNEL_AGENT, deadline_us, &pair.frames, why, sizeof why) ||
        tunnel_open(&end, ticket * TUNNEL_TICKET + TUNNEL_ERRORS, deadline_us, &pair.errors, why, sizeof why)) {
        tunnel_close(&pair);
        return EXIT_FAILURE;
    }
    report("this is node %d of %d: '%s', node 0, has the output of its ranks", node, nodes, join->leader);
    serve_as_agent(join->log, &pair);
    return 0;
}

__attribute__((noreturn)) static void be_server(struct follow *f, pid_t parent)
{
    char address[HALAY_ADDRESS_TEXT];

    setpgid(0, 0); /* signals of the terminal come from the parent */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    close(f->signal_fd);
    /* Not the name again: name servers do not always answer. */
    const char *leader = reach_peer(f->talk.fd, address) ? address : f->join->leader;
    talk_close(&f->talk);
    sigprocmask(SIG_SETMASK, &f->before, NULL);
    int code = take_part(f->join, leader, f->begin);
    kill(parent, SIGCONT); /* if it was stopped, it could not take the end of the job */
    _exit(code);
}

static void begin_to_serve(struct follow *f)
{
    pid_t parent = getpid();

    f->has_begun = 1;
    f->server = fork();
    if (f->server == 0)
        be_server(f, parent);
    if (f->server < 0) {
        report("cannot start the agent: %s", strerror(errno));
        f->server = 0;
        talk_close(&f->talk);
        f->is_over = 1;
    }
    *f->begin = 0;
}

/* Node 0 learns why from the note. */
static void leave_job(struct follow *f)
{
    char text[64];

    int n = snprintf(text, sizeof text, "it was stopped by %s", signal_name(f->stop_signal));
    if (f->has_begun) {
        report("%s: this node leaves the job", signal_name(f->stop_signal));
        talk_send(&f->talk, TALK_NOTE, text, (size_t)n);
    }
    talk_close(&f->talk);
    f->result->code = EXIT_SIGNAL + f->stop_signal;
    f->is_over = 1;
}

/* Returns the lines after the first one, which has the host. */
static void report_cause(const char *text)
{
    const char *at = strchr(text, '\n');

    while (at && at[1]) {
        int length = (int)strcspn(at + 1, "\n");
        report("%.*s", length, at + 1);
        at = strchr(at + 1, '\n');
    }
}

static void take_end(const char *bytes, struct join_result *result)
{
    result->code = (unsigned char)bytes[0];
    snprintf(result->text, sizeof result->text, "%s", bytes + 1);
    if (result->code)
        report_cause(result->text);
}

static void lose_leader(struct follow *f)
{
    const char *leader = f->join->leader;

    snprintf(f->result->text, sizeof f->result->text, "%s\nnode 0, '%s', is lost\n", leader, leader);
    report("node 0, '%s', is lost", leader);
    talk_close(&f->talk);
    f->is_over = 1;
    if (f->server) /* the agent may still wait for its plan; it ends when its supervisor has died */
        kill(f->server, SIGKILL);
}

static void take_record(struct follow *f)
{
    char bytes[TALK_TEXT_MAX];
    enum talk_kind kind;

    if (!talk_receive(&f->talk, HALAY_NEVER, &kind, bytes)) {
        lose_leader(f);
    } else if (kind == TALK_NOTE) {
        report("%s", bytes);
    } else if (kind == TALK_BEGIN) {
        memcpy(f->begin, bytes, sizeof f->begin);
    } else if (kind == TALK_END) {
        take_end(bytes, f->result);
        talk_close(&f->talk);
        f->is_over = 1;
    }
}

static void reap_server(struct follow *f)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != f->server)
            continue;
        f->server = 0;
        if (!WIFEXITED(status) || !WEXITSTATUS(status) || f->is_over)
            continue;
        snprintf(f->result->text, sizeof f->result->text, "%s\nit cannot take part in the job\n", f->join->name);
        talk_close(&f->talk);
        f->is_over = 1;
    }
}

static void take_leave_signal(struct follow *f, int signal)
{
    if (f->server) {
        f->stop_signal = f->stop_signal ? f->stop_signal : signal;
        kill(f->server, signal);
    } else if (f->stop_signal || !f->has_begun) {
        f->stop_signal = signal;
        leave_job(f);
    } else {
        f->stop_signal = signal;
        report("the ranks of this host have ended; it waits for the end of the job (the same signal again ends it at "
               "once)");
    }
}

static void take_signals(struct follow *f)
{
    struct signalfd_siginfo info;

    while (read(f->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            reap_server(f);
        else if (signal_is_stop(signal))
            take_leave_signal(f, signal);
        else if (f->server)
            kill(f->server, signal);
        if (signal == SIGTSTP)
            raise(SIGSTOP);
    }
}

/* Those that are passed on, unless what started this process has them ignored; and SIGCHLD. */
static int open_signals(struct follow *f)
{
    static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };
    struct sigaction action;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, no child could be waited for */
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (sigaction(passed[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, passed[i]);
    sigprocmask(SIG_BLOCK, &set, &f->before);
    f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return f->signal_fd >= 0;
}

/* Takes what node 0 sends, until the end of the job and of the agent. */
static void follow_leader(struct follow *f)
{
    if (!open_signals(f)) {
        report("cannot receive signals: %s", strerror(errno));
        return;
    }
    while (!f->is_over || f->server) {
        struct pollfd fds[] = { { .fd = f->talk.fd, .events = POLLIN }, { .fd = f->signal_fd, .events = POLLIN } };
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents)
            take_signals(f);
        if (fds[0].revents && f->talk.fd >= 0)
            take_record(f);
        if (!*f->begin || f->is_over)
            continue;
        if (f->stop_signal)
            leave_job(f);
        else if (!f->server)
            begin_to_serve(f);
    }
    close(f->signal_fd);
    sigprocmask(SIG_SETMASK, &f->before, NULL);
}

void join_follow(const struct join *join, struct join_result *result)
{
    struct talk_hello hello = {
        .nodes = join->nodes, .node = join->node, .ranks = join->ranks, .is_chosen = join->is_chosen
    };
    const struct tunnel_end end = { join->leader, join->interface, join->port, join->secret };
    struct follow follow = { .join = join, .result = result, .talk.fd = -1 };
    struct tunnel tunnel;
    char why[512];

    *result = (struct join_result){ .code = EXIT_FAILURE };
    snprintf(hello.version, sizeof hello.version, "%s", halay_version());
    snprintf(hello.name, sizeof hello.name, "%s", join->name);
    snprintf(hello.command, sizeof hello.command, "%s", join->command);
    enum halay_status status =
        tunnel_open(&end, TUNNEL_TALK, halay_deadline_us(join->start_ms), &tunnel, why, sizeof why);
    if (status == HALAY_ERR_AUTH)
        join_secret_explain(join->own_secret);
    if (status != HALAY_OK) {
        snprintf(result->text, sizeof result->text, "%s\n%s\n", join->name, why);
        return;
    }
    if (!talk_open(&follow.talk, &tunnel))
        report_no_memory();
    else if (!talk_send_hello(&follow.talk, &hello))
        report("node 0, '%s', is lost", join->leader);
    else
        follow_leader(&follow);
    explicit_bzero(&tunnel, sizeof tunnel);
    talk_close(&follow.talk);
}
