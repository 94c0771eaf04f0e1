/* SPDX-License-Identifier: Apache-2.0
 *
 * Join, the other nodes: call node 0, wait to be told to begin, be the agent.
 *
 * The agent reads and writes plain bytes on pipes, in place of this process's standard streams, which it gets back
 * afterwards. A child of this process, the relay, holds the connections and encrypts (relay.h):
 *
 *     node 0 === tunnels === relay --- pipes --- front, agent, ranks
 *
 * The relay ends when the agent's streams do, or with this process. If it ends earlier, the agent's standard input
 * ends, and the agent knows what that means. The end of the job comes through the talk's tunnel, when the ranks of all
 * nodes have ended, however long after those of this one. If that tunnel ends without it, node 0 is lost.
 */
#include "base/clock.h"
#include "base/secure/cipher.h"
#include "halay_types.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/say.h"
#include "launcher/local/front.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/join.h"
#include "launcher/remote/join_secret.h"
#include "launcher/remote/relay.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_MS = 30000 };

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
__attribute__((noreturn)) static void be_relay(const struct tunnel_pair *pair, struct talk *talk,
                                               const struct pipes *pipes, pid_t parent)
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
    talk_close(talk);
    enum halay_status status = relay_all(pair, pipes->relay);
    if (status != HALAY_OK)
        relay_say(status);
    _exit(status != HALAY_OK);
}

/* The ranks of this host have ended, and the job may not have. */
static void wait_on(int number)
{
    static const char text[] = "halayrun: the ranks of this host have ended; it waits for the end of the job (the same "
                               "signal again ends it at once)\n";

    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        return; /* nobody reads it */
}

/* From now on the first signal that asks this host to stop has nobody to be passed on to. */
static void outlive_one_stop(void)
{
    static const int stops[] = { SIGINT, SIGTERM, SIGHUP };
    const struct sigaction action = { .sa_handler = wait_on, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };
    struct sigaction before;

    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++)
        if (sigaction(stops[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stops[i], &action, NULL);
}

/* Run the agent with these pipe ends as its standard streams; they are closed afterwards. */
static void be_agent(struct halay_log *log, const int ends[3])
{
    int saved[3], failed = 0;
    sigset_t before;

    sigprocmask(SIG_SETMASK, NULL, &before);
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        failed |= saved[i] < 0 || dup2(ends[i], i) < 0;
        close(ends[i]);
    }
    int code = failed ? 1 : front_run(&(struct job_setting){ .log = log, .stopped_ms = DEFAULT_SILENCE_MS }, agent_run);
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
    outlive_one_stop();
    sigprocmask(SIG_SETMASK, &before, NULL); /* the front has blocked all of them */
    if (!is_sent)
        say("cannot tell node 0 how the ranks of this one ended: %s", strerror(errno));
}

/* Agent and relay, until both have ended. */
static void serve_as_agent(struct halay_log *log, struct tunnel_pair *pair, struct talk *talk)
{
    struct pipes pipes;
    pid_t self = getpid(), relay = open_pipes(&pipes) ? fork() : -1;

    if (relay == 0)
        be_relay(pair, talk, &pipes, self);
    if (relay < 0)
        say("cannot start the agent: %s", strerror(errno));
    close_all(pipes.relay);
    tunnel_close(pair);
    if (relay < 0) {
        close_all(pipes.agent);
        return;
    }
    be_agent(log, pipes.agent);
    while (waitpid(relay, NULL, 0) < 0 && errno == EINTR) /* unless the front has reaped it */
        ;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static struct tunnel_end end_of(const struct join *join)
{
    return (struct tunnel_end){ join->leader, join->interface, join->port, join->secret };
}

/* "TICKET NODE NODES". 0, or an exit code. */
static int take_part(const struct join *join, struct talk *talk, const char *text, struct join_result *result)
{
    const struct tunnel_end end = end_of(join);
    struct tunnel_pair pair = { { .fd = -1 }, { .fd = -1 } };
    int64_t deadline_us = halay_deadline_us(OPEN_MS);
    unsigned ticket;
    int node, nodes;
    char why[512] = "node 0 does not say what to begin";

    if (sscanf(text, "%u %d %d", &ticket, &node, &nodes) != 3 ||
        tunnel_open(&end, ticket * TUNNEL_TICKET + TUNNEL_AGENT, deadline_us, &pair.frames, why, sizeof why) ||
        tunnel_open(&end, ticket * TUNNEL_TICKET + TUNNEL_ERRORS, deadline_us, &pair.errors, why, sizeof why)) {
        snprintf(result->text, sizeof result->text, "%s\n%s\n", join->name, why);
        tunnel_close(&pair);
        return EXIT_FAILURE;
    }
    say("this is node %d of %d: '%s', node 0, has the output of its ranks", node, nodes, join->leader);
    serve_as_agent(join->log, &pair, talk);
    return 0;
}

/* The lines behind the first one's host. */
static void say_cause(const char *text)
{
    const char *at = strchr(text, '\n');

    while (at && at[1]) {
        int length = (int)strcspn(at + 1, "\n");
        say("%.*s", length, at + 1);
        at = strchr(at + 1, '\n');
    }
}

static void take_end(const char *bytes, struct join_result *result)
{
    result->code = (unsigned char)bytes[0];
    snprintf(result->text, sizeof result->text, "%s", bytes + 1);
    if (result->code)
        say_cause(result->text);
}

/* What node 0 says, until the end. */
static void listen_to(const struct join *join, struct talk *talk, struct join_result *result)
{
    char bytes[TALK_TEXT_MAX];
    enum talk_kind kind;

    while (talk_receive(talk, HALAY_NEVER, &kind, bytes)) {
        if (kind == TALK_NOTE)
            say("%s", bytes);
        else if (kind == TALK_BEGIN && take_part(join, talk, bytes, result))
            return; /* reported */
        else if (kind == TALK_END) {
            take_end(bytes, result);
            return;
        }
    }
    snprintf(result->text, sizeof result->text, "%s\nnode 0, '%s', is lost\n", join->leader, join->leader);
    say("node 0, '%s', is lost", join->leader);
}

void join_follow(const struct join *join, struct join_result *result)
{
    struct talk_hello hello = {
        .nodes = join->nodes, .node = join->node, .ranks = join->ranks, .is_chosen = join->is_chosen
    };
    const struct tunnel_end end = end_of(join);
    struct talk talk = { .fd = -1 };
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
    if (!talk_open(&talk, &tunnel))
        say_no_memory();
    else if (!talk_send_hello(&talk, &hello))
        say("node 0, '%s', is lost", join->leader);
    else
        listen_to(join, &talk, result);
    explicit_bzero(&tunnel, sizeof tunnel);
    talk_close(&talk);
}
