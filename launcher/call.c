/* SPDX-License-Identifier: Apache-2.0
 *
 * Call: two connections, so that the agent's complaints do not mix with its frames; one poll, three directions, none of which waits
 * for another.
 */
#include "launcher/call.h"
#include "base/clock.h"
#include "base/handshake.h"
#include "base/socket.h"
#include "launcher/say.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_SSH = 255, OPEN_MS = 30000, RESULT_MS = 3000, PIPE_BYTES = 1 << 16 };

/* ---- connect ----------------------------------------------------------------------------------------------------- */

static int call_connect(const char *host, int port, int timeout_ms, char *why, size_t size)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char service[16];
    int fd = -1;
    enum halay_status status = HALAY_ERR_SYSTEM;

    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code) {
        snprintf(why, size, "the name '%s' is not known: %s", host, gai_strerror(code));
        return -1;
    }
    snprintf(why, size, "it has no address");
    for (const struct addrinfo *at = found; at && status != HALAY_OK; at = at->ai_next) {
        status = halay_socket_connect(at->ai_addr, at->ai_addrlen, halay_deadline_us(timeout_ms), &fd);
        if (status != HALAY_OK)
            snprintf(why, size, "port %d: %s", port, strerror(status == HALAY_ERR_TIMEOUT ? ETIMEDOUT : errno));
    }
    freeaddrinfo(found);
    return fd;
}

enum halay_status call_open(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                            unsigned char purpose, int timeout_ms, int *fd, char *why, size_t size)
{
    *fd = call_connect(host, port, timeout_ms, why, size);
    if (*fd < 0)
        return HALAY_ERR_SYSTEM;
    enum halay_status status = halay_handshake_call(*fd, secret, purpose, timeout_ms);
    if (status == HALAY_OK)
        return status;
    snprintf(why, size,
             status == HALAY_ERR_AUTH ? "who listens there has another secret: another job, or other hyperparameters"
             : status == HALAY_ERR_VERSION ? "halayrun there is of another version: all hosts need one image"
                                           : "who listens on port %d there does not answer as halayrun does",
             port);
    close(*fd);
    *fd = -1;
    return status;
}

/* ---- pass on ----------------------------------------------------------------------------------------------------- */

struct direction {
    int from, to; /* -1: ended */
    size_t first, count;
    char bytes[PIPE_BYTES];
};

/* What can be done without waiting; 0 once it has ended and everything is written. */
static void pass(struct direction *d)
{
    if (d->from >= 0 && !d->count) {
        ssize_t n = read(d->from, d->bytes, sizeof d->bytes);
        d->first = 0;
        d->count = n > 0 ? (size_t)n : 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            d->from = -1;
    }
    while (d->count) {
        ssize_t n = write(d->to, d->bytes + d->first, d->count);
        if (n < 0 && errno != EINTR) {
            if (errno != EAGAIN) { /* nobody reads it any more */
                d->count = 0;
                d->from = -1;
            }
            return;
        }
        d->first += n > 0 ? (size_t)n : 0;
        d->count -= n > 0 ? (size_t)n : 0;
    }
}

static void watch(const struct direction *d, struct pollfd *p)
{
    *p = (struct pollfd){ .fd = d->count ? d->to : d->from, .events = d->count ? POLLOUT : POLLIN };
}

/* The agent's exit code behind the zero in what came last of its complaints; it is taken out of them. */
static void take_code(struct direction *errors, int *code)
{
    char *zero = memchr(errors->bytes + errors->first, 0, errors->count);

    if (!zero)
        return;
    size_t behind = errors->count - (size_t)(zero - (errors->bytes + errors->first)) - 1;
    if (behind)
        *code = (unsigned char)zero[1];
    errors->count -= behind + 1;
}

/* Reads only, so that its code can be taken out before anything is written. */
static void read_errors(struct direction *errors, int *code)
{
    if (errors->from < 0 || errors->count)
        return;
    ssize_t n = read(errors->from, errors->bytes, sizeof errors->bytes);
    errors->first = 0;
    errors->count = n > 0 ? (size_t)n : 0;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        errors->from = -1;
    take_code(errors, code);
}

static int carry(int frames, int errors)
{
    static struct direction in, out, err; /* static for their size: one call a process */
    int code = EXIT_SSH, told = 0;

    in.from = STDIN_FILENO;
    in.to = out.from = frames;
    out.to = STDOUT_FILENO;
    err.from = errors;
    err.to = STDERR_FILENO;
    while (out.from >= 0 || out.count || err.from >= 0 || err.count) {
        struct pollfd fds[3];
        watch(&in, &fds[0]);
        watch(&out, &fds[1]);
        watch(&err, &fds[2]);
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return EXIT_SSH;
        pass(&in);
        pass(&out);
        read_errors(&err, &code);
        pass(&err);
        if (in.from < 0 && !in.count && !told++)
            shutdown(frames, SHUT_WR); /* the agent knows what that means */
    }
    return code;
}

int call_run(const char *host, int port, const unsigned char secret[HALAY_SECRET_BYTES])
{
    const int streams[] = { STDIN_FILENO, STDOUT_FILENO };
    char why[256];
    int frames, errors;

    if (call_open(host, port, secret, CALL_AGENT, OPEN_MS, &frames, why, sizeof why) != HALAY_OK ||
        call_open(host, port, secret, CALL_ERRORS, OPEN_MS, &errors, why, sizeof why) != HALAY_OK) {
        say("%s", why);
        return EXIT_SSH;
    }
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (fcntl(streams[i], F_SETFL, O_NONBLOCK) < 0) {
            say("cannot prepare the connection: %s", strerror(errno));
            return EXIT_SSH;
        }
    return carry(frames, errors);
}

void call_tell_result(int fd, int code, const char *text)
{
    size_t length = strnlen(text, CALL_TEXT_MAX);
    const unsigned char head[3] = { (unsigned char)code, (unsigned char)length, (unsigned char)(length >> 8) };
    int64_t deadline_us = halay_deadline_us(RESULT_MS);

    if (!halay_socket_send(fd, head, sizeof head, deadline_us) && !halay_socket_send(fd, text, length, deadline_us))
        shutdown(fd, SHUT_WR);
}
