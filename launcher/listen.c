/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen: whoever calls is asked who he is (strangers.h); a stranger is let go and nothing else happens.
 *
 * The agent's streams take the place of this process's, which it gets back afterwards, to say how it ended. The result comes through a
 * connection of its own when all hosts' ranks have ended; it may also come in place of the agent's, if the job could not begin.
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
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_MS = 5000, SAY_MS = 30000, RESULT_MS = 60000, LOST_MS = 8000, BACKLOG = 64 };

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

static void take_result(int fd, struct listen_result *result)
{
    int64_t deadline_us = halay_deadline_us(TEXT_MS);
    unsigned char head[3];
    size_t have = 0;

    if (halay_socket_receive(fd, head, sizeof head, &have, deadline_us))
        return;
    size_t length = (size_t)head[1] | (size_t)head[2] << 8;
    have = 0;
    if (length > CALL_TEXT_MAX || halay_socket_receive(fd, result->text, length, &have, deadline_us))
        return;
    result->text[length] = 0;
    result->code = head[0];
}

/* Wait for callers until the agent's two connections are there (1), the result has come (0), or the time is over (-1). */
static int hear_callers(struct strangers *strangers, const char *first, int timeout_ms, int calls[2],
                        struct listen_result *result)
{
    int64_t deadline_us = halay_deadline_us(timeout_ms), began_us = halay_now_us(), say_us = halay_deadline_us(SAY_MS);

    while (!halay_deadline_passed(deadline_us)) {
        unsigned char purpose;
        int ms = halay_deadline_left_ms(deadline_us), fd = strangers_next(strangers, ms < 1000 ? ms : 1000, &purpose);
        if (halay_deadline_passed(say_us) && calls) {
            say("waiting for '%s' (%d s so far)", first, (int)((halay_now_us() - began_us) / 1000000));
            say_us = halay_deadline_us(SAY_MS);
        }
        if (fd < 0)
            continue;
        if (calls && (purpose == CALL_AGENT || purpose == CALL_ERRORS)) {
            int *place = &calls[purpose == CALL_ERRORS];
            if (*place >= 0)
                close(*place);
            *place = fd;
        } else {
            if (purpose == CALL_RESULT)
                take_result(fd, result);
            close(fd);
            if (purpose == CALL_RESULT)
                return 0;
        }
        if (calls && calls[0] >= 0 && calls[1] >= 0)
            return 1;
    }
    return -1;
}

static int await_calls(int listener, const char *first, const unsigned char secret[HALAY_SECRET_BYTES], int timeout_ms,
                       int calls[2], struct listen_result *result)
{
    struct strangers strangers;

    strangers_init(&strangers, listener, secret);
    int came = hear_callers(&strangers, first, timeout_ms, calls, result);
    strangers_fini(&strangers); /* no child of ours holds them */
    return came;
}

/* The agent, with the two connections as its streams. Its exit code. */
static int be_agent(struct halay_log *log, const int calls[2])
{
    static const int targets[] = { STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO };
    const int sources[] = { calls[0], calls[0], calls[1] };
    int saved[3], failed = 0;

    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(targets[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        failed |= saved[i] < 0 || dup2(sources[i], targets[i]) < 0;
    }
    int code = failed ? 1 : front_run(&(struct job_setting){ .log = log, .stopped_ms = SILENCE_MS }, agent_run);
    const unsigned char end[2] = { 0, (unsigned char)code };
    halay_socket_send(calls[1], end, sizeof end, halay_deadline_us(TEXT_MS)); /* if it fails the other end has gone */
    for (int i = 0; i < 3; i++)
        if (saved[i] >= 0)
            dup2(saved[i], targets[i]);
    for (int i = 0; i < 2; i++) {
        shutdown(calls[i], SHUT_RDWR); /* whoever may still hold it */
        close(calls[i]);
    }
    return code;
}

void listen_run(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                int timeout_ms, struct listen_result *result)
{
    int calls[2] = { -1, -1 }, listener = open_port(port);

    *result = (struct listen_result){ .code = 1 };
    if (listener < 0)
        return;
    int came = await_calls(listener, first, secret, timeout_ms, calls, result);
    if (came > 0) {
        int code = be_agent(log, calls);
        if (await_calls(listener, first, secret, code ? LOST_MS : RESULT_MS, NULL, result) < 0) {
            result->code = 1;
            snprintf(result->text, sizeof result->text, "%.200s\nthe first host, '%.200s', is lost\n", first, first);
            say("the first host, '%s', is lost", first);
        }
    } else if (came < 0) {
        snprintf(result->text, sizeof result->text, "%.200s\n'%.200s' has not called within %d s\n", first, first,
                 timeout_ms / 1000);
        say("'%s' has not called within %d s", first, timeout_ms / 1000);
    }
    close(listener);
}
