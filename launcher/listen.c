/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: whoever calls is asked who he is (strangers.h); a stranger is let go and nothing else happens.
 *
 * The agent's streams take the place of this process's, which it gets back afterwards, to say how it ended. The result comes through a
 * connection of its own, which is there from the beginning, when all hosts' ranks have ended, however long after those of this one; if it
 * ends without a result the first host is lost. It may also come in place of the agent's, if the job could not begin.
 */
#include "launcher/listen.h"
#include "base/clock.h"
#include "base/socket.h"
#include "launcher/agent.h"
#include "launcher/call.h"
#include "launcher/frame.h"
#include "launcher/front.h"
#include "launcher/say.h"
#include "launcher/strangers.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_MS = 5000, SAY_MS = 30000, BACKLOG = 64 };
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
             listen(fd, BACKLOG) < 0;
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

/* Blocks until it has come (1) or the first host is lost (0). */
static int take_result(int fd, struct listen_result *result)
{
    unsigned char head[3];
    size_t have = 0;

    if (halay_socket_receive(fd, head, sizeof head, &have, HALAY_NEVER))
        return 0;
    size_t length = (size_t)head[1] | (size_t)head[2] << 8;
    have = 0;
    if (length > CALL_TEXT_MAX || halay_socket_receive(fd, result->text, length, &have, halay_deadline_us(TEXT_MS)))
        return 0;
    result->text[length] = 0;
    result->code = head[0];
    return 1;
}

/* Which of a host's three connections it is. */
static int place_of(unsigned char purpose)
{
    return purpose == CALL_AGENT ? FRAMES : purpose == CALL_ERRORS ? ERRORS : purpose == CALL_RESULT ? RESULT : -1;
}

/* A later one goes over an earlier one: its caller did not wait for us. */
static void keep(int calls[CALLS], int place, int fd)
{
    if (calls[place] >= 0)
        close(calls[place]);
    calls[place] = fd;
    if (place == RESULT)
        keep_alive(fd);
}

/* Wait for callers until all connections are there (1), there is news on the result's (0), or the time is over (-1). */
static int hear_callers(struct strangers *strangers, const char *first, int timeout_ms, int calls[CALLS])
{
    int64_t deadline_us = halay_deadline_us(timeout_ms), began_us = halay_now_us(), say_us = halay_deadline_us(SAY_MS);

    while (!halay_deadline_passed(deadline_us)) {
        unsigned char purpose = 0;
        int ms = halay_deadline_left_ms(deadline_us), fd = strangers_next(strangers, ms < 1000 ? ms : 1000, &purpose);
        int place = fd >= 0 ? place_of(purpose) : -1;
        if (place >= 0)
            keep(calls, place, fd);
        else if (fd >= 0)
            close(fd);
        if (calls[FRAMES] >= 0 && calls[ERRORS] >= 0 && calls[RESULT] >= 0)
            return 1;
        strangers_watch(strangers, calls[RESULT]);
        if (poll(&(struct pollfd){ .fd = calls[RESULT], .events = POLLIN }, 1, 0) > 0)
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
                       int calls[CALLS])
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

/* The agent, with the two connections as its streams, which are closed then. */
static void be_agent(struct halay_log *log, const int calls[CALLS])
{
    static const int targets[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
    const int sources[] = { calls[FRAMES], calls[FRAMES], calls[ERRORS] };
    int saved[3], failed = 0;
    sigset_t before;

    sigprocmask(SIG_SETMASK, NULL, &before);
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(targets[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        failed |= saved[i] < 0 || dup2(sources[i], targets[i]) < 0;
    }
    int code = failed ? 1 : front_run(&(struct job_setting){ .log = log, .stopped_ms = SILENCE_MS }, agent_run);
    sigprocmask(SIG_SETMASK, &before, NULL); /* the front lets nothing reach it but by its descriptor */
    const unsigned char end[2] = { 0, (unsigned char)code };
    halay_socket_send(calls[ERRORS], end, sizeof end,
                      halay_deadline_us(TEXT_MS)); /* if it fails the other end has gone */
    for (int i = 0; i < 3; i++)
        if (saved[i] >= 0)
            dup2(saved[i], targets[i]);
    for (int i = FRAMES; i <= ERRORS; i++) {
        shutdown(calls[i], SHUT_RDWR); /* whoever may still hold it */
        close(calls[i]);
    }
}

void listen_run(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                int timeout_ms, struct listen_result *result)
{
    int calls[CALLS] = { -1, -1, -1 }, came = await_calls(port, first, secret, timeout_ms, calls);

    *result = (struct listen_result){ .code = 1 };
    if (came > 0)
        be_agent(log, calls);
    if (came == NO_PORT)
        snprintf(result->text, sizeof result->text, "\ncannot listen on port %d\n", port);
    if (came == -1) {
        snprintf(result->text, sizeof result->text, "%.200s\n'%.200s' has not called within %d s\n", first, first,
                 timeout_ms / 1000);
        say("'%s' has not called within %d s", first, timeout_ms / 1000);
    } else if (came >= 0 && !take_result(calls[RESULT], result)) {
        *result = (struct listen_result){ .code = 1 };
        snprintf(result->text, sizeof result->text, "%.200s\nthe first host, '%.200s', is lost\n", first, first);
        say("the first host, '%s', is lost", first);
    }
    for (int i = came > 0 ? RESULT : 0; i < CALLS; i++)
        if (calls[i] >= 0)
            close(calls[i]);
}
