/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: whoever calls is asked who he is (strangers.h); a stranger is let go and nothing else happens.
 *
 * The agent speaks plain words on pipes, in the place of this process's streams, which it gets back afterwards; a child
 * of its own, the relay, holds the connections and encrypts (relay.h):
 *
 *     first host === connections === relay --- pipes --- front, agent, ranks
 *
 * The relay ends when the agent's streams have, or with this process; if it ends before, the agent's standard input
 * does, and the agent knows what that means. The result comes through a connection of its own, which is there from the
 * beginning, when all hosts' ranks have ended, however long after those of this one; if it ends without a result the
 * first host is lost. It may also come in place of the agent's, if the job could not begin.
 */
#include "launcher/remote/listen.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/cipher.h"
#include "launcher/common/say.h"
#include "launcher/local/front.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/call.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/relay.h"
#include "launcher/remote/strangers.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MS = 5000, SAY_MS = 30000 };
enum { FRAMES, ERRORS, RESULT, CALLS };
enum { NO_PORT = -2 };

/* On all addresses; -1 (said). */
static int open_port(int port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1, none = 0, fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), failed;
    const int is_six = fd >= 0;

    if (!is_six)
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (is_six)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    failed = fd < 0 ||
             (is_six ? bind(fd, (struct sockaddr *)&six, sizeof six)
                     : bind(fd, (struct sockaddr *)&four, sizeof four)) < 0 ||
             listen(fd, SOMAXCONN) < 0;
    if (!failed)
        return fd;
    say("cannot listen on port %d: %s", port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* That the first host's machine is gone would else be seen by nobody, once the agent has ended. */
static void keep_alive(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = { { SOL_SOCKET, SO_KEEPALIVE, 1 },
                    { IPPROTO_TCP, TCP_KEEPIDLE, 10 },
                    { IPPROTO_TCP, TCP_KEEPINTVL, 5 },
                    { IPPROTO_TCP, TCP_KEEPCNT, 4 } };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

/* The one record that the connection is for, a byte at a time, since it comes once a job; its bytes' number, 0 if it is
 * cut or was changed. */
static size_t take_record(int fd, struct halay_cipher *cipher, unsigned char *bytes)
{
    unsigned char wire[HALAY_CIPHER_RECORD_MAX];
    size_t have = 0, at = 0, used, opened;
    int64_t deadline_us = HALAY_NEVER;

    while (have < sizeof wire && !halay_socket_receive(fd, wire, have + 1, &have, deadline_us)) {
        deadline_us = deadline_us == HALAY_NEVER ? halay_deadline_us(TEXT_MS) : deadline_us;
        do {
            if (halay_cipher_open(cipher, wire + at, have - at, &used, bytes, &opened) != HALAY_OK)
                return 0;
            at += used;
        } while (used && !halay_cipher_has_ended(cipher));
        if (halay_cipher_has_ended(cipher))
            return opened;
    }
    return 0;
}

/* Blocks until it has come (1) or the first host is lost (0). */
static int take_result(const struct call *call, struct listen_result *result)
{
    unsigned char bytes[HALAY_CIPHER_BYTES_MAX];
    struct halay_cipher *cipher;

    if (halay_cipher_create(&call->session, &cipher) != HALAY_OK)
        return 0;
    size_t count = take_record(call->fd, cipher, bytes);
    halay_cipher_destroy(cipher);
    if (!count || count - 1 > CALL_TEXT_MAX)
        return 0;
    memcpy(result->text, bytes + 1, count - 1);
    result->text[count - 1] = 0;
    result->code = bytes[0];
    return 1;
}

/* Which of a host's three connections it is. */
static int place_of(unsigned char purpose)
{
    return purpose == CALL_AGENT ? FRAMES : purpose == CALL_ERRORS ? ERRORS : purpose == CALL_RESULT ? RESULT : -1;
}

/* A later one overrides an earlier one: its caller did not wait for us. */
static void keep(struct call calls[CALLS], int place, const struct call *call)
{
    if (calls[place].fd >= 0)
        close(calls[place].fd);
    calls[place] = *call;
    if (place == RESULT)
        keep_alive(call->fd);
}

/* Wait for callers until all connections are there (1), there is news on the result's (0), or the time is over (-1). */
static int hear_callers(struct strangers *strangers, const char *first, int timeout_ms, struct call calls[CALLS])
{
    int64_t deadline_us = halay_deadline_us(timeout_ms), began_us = halay_now_us(), say_us = halay_deadline_us(SAY_MS);

    while (!halay_deadline_passed(deadline_us)) {
        struct call call;
        unsigned char purpose = 0;
        int ms = halay_deadline_left_ms(deadline_us);
        int came = strangers_next(strangers, ms < 1000 ? ms : 1000, &call, &purpose);
        int place = came ? place_of(purpose) : -1;
        if (place >= 0)
            keep(calls, place, &call);
        else if (came)
            close(call.fd);
        if (calls[FRAMES].fd >= 0 && calls[ERRORS].fd >= 0 && calls[RESULT].fd >= 0)
            return 1;
        strangers_watch(strangers, calls[RESULT].fd);
        if (poll(&(struct pollfd){ .fd = calls[RESULT].fd, .events = POLLIN }, 1, 0) > 0)
            return 0;
        if (halay_deadline_passed(say_us)) {
            say("waiting for '%s' (%d s so far)", first, (int)((halay_now_us() - began_us) / 1000000));
            say_us = halay_deadline_us(SAY_MS);
        }
    }
    return -1;
}

/* Likewise; NO_PORT (said). Nobody listens afterwards. */
static int await_calls(int port, const char *first, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                       struct call calls[CALLS])
{
    int listener = open_port(port);
    struct strangers strangers;

    if (listener < 0)
        return NO_PORT;
    strangers_init(&strangers, listener, secret);
    int came = hear_callers(&strangers, first, timeout_ms, calls);
    strangers_fini(&strangers); /* no child of ours holds them */
    close(listener);
    return came;
}

/* ---- the agent --------------------------------------------------------------------------------------------------- */

/* Pipes between the relay and the agent, by the agent's descriptors: what it reads, writes, and complains to. */
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

static enum halay_status relay_all(const struct call calls[CALLS], const int streams[3])
{
    struct halay_cipher *frames = NULL, *errors = NULL;

    enum halay_status status = halay_cipher_create(&calls[FRAMES].session, &frames);
    if (status == HALAY_OK)
        status = halay_cipher_create(&calls[ERRORS].session, &errors);
    const struct relay_line lines[RELAY_LINES] = {
        { .stream = streams[0], .socket = calls[FRAMES].fd, .cipher = frames },
        { .stream = streams[1], .socket = calls[FRAMES].fd, .cipher = frames, .is_outgoing = 1, .is_leading = 1 },
        { .stream = streams[2], .socket = calls[ERRORS].fd, .cipher = errors, .is_outgoing = 1, .is_leading = 1 }
    };
    if (status == HALAY_OK)
        status = relay_run(lines, SILENCE_MS);
    halay_cipher_destroy(frames);
    halay_cipher_destroy(errors);
    return status;
}

/* In the relay's process: signals are for the agent, which then ends its streams. */
__attribute__((noreturn)) static void be_relay(const struct call calls[CALLS], const struct pipes *pipes, pid_t parent)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0); /* nor are those of the terminal for us */
    prctl(PR_SET_NAME, "halayrun-relay");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close_all(pipes->agent);
    close(calls[RESULT].fd);
    enum halay_status status = relay_all(calls, pipes->relay);
    if (status != HALAY_OK)
        relay_say(status);
    _exit(status != HALAY_OK);
}

/* The agent, with the pipes' ends as its streams, which are closed then. */
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
    int code = failed ? 1 : front_run(&(struct job_setting){ .log = log, .stopped_ms = SILENCE_MS }, agent_run);
    sigprocmask(SIG_SETMASK, &before, NULL); /* the front lets nothing reach it but by its descriptor */
    const unsigned char end[2] = { 0, (unsigned char)code };
    signal(SIGPIPE, SIG_IGN); /* not before: the ranks would inherit it */
    int is_told = write(STDERR_FILENO, end, sizeof end) == (ssize_t)sizeof end;
    for (int i = 0; i < 3; i++) {
        if (saved[i] >= 0)
            dup2(saved[i], i);
        else
            close(i);
        close(saved[i]);
    }
    if (!is_told)
        say("the first host does not learn how the ranks of this one ended: %s", strerror(errno));
}

/* Agent and relay, until both have ended. */
static void serve(struct halay_log *log, struct call calls[CALLS])
{
    struct pipes pipes;
    pid_t self = getpid(), relay = open_pipes(&pipes) ? fork() : -1;

    if (relay == 0)
        be_relay(calls, &pipes, self);
    if (relay < 0)
        say("cannot begin as an agent: %s", strerror(errno));
    close_all(pipes.relay);
    for (int i = FRAMES; i <= ERRORS; i++) {
        close(calls[i].fd);
        calls[i].fd = -1;
    }
    if (relay < 0) {
        close_all(pipes.agent);
        return;
    }
    be_agent(log, pipes.agent);
    while (waitpid(relay, NULL, 0) < 0 && errno == EINTR) /* or the front has waited for it */
        ;
}

void listen_run(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                int timeout_ms, struct listen_result *result)
{
    struct call calls[CALLS] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
    int came = await_calls(port, first, secret, timeout_ms, calls);

    *result = (struct listen_result){ .code = 1 };
    if (came > 0)
        serve(log, calls);
    if (came == NO_PORT)
        snprintf(result->text, sizeof result->text, "\ncannot listen on port %d\n", port);
    if (came == -1) {
        snprintf(result->text, sizeof result->text, "%.200s\n'%.200s' has not called within %d s\n", first, first,
                 timeout_ms / 1000);
        say("'%s' has not called within %d s", first, timeout_ms / 1000);
    } else if (came >= 0 && !take_result(&calls[RESULT], result)) {
        *result = (struct listen_result){ .code = 1 };
        snprintf(result->text, sizeof result->text, "%.200s\nthe first host, '%.200s', is lost\n", first, first);
        say("the first host, '%s', is lost", first);
    }
    for (int i = 0; i < CALLS; i++)
        if (calls[i].fd >= 0)
            close(calls[i].fd);
    explicit_bzero(calls, sizeof calls);
}
