/* SPDX-License-Identifier: Apache-2.0
 *
 * Listen for tunnels: every caller has to prove the secret (strangers.h); others are dropped without effect.
 *
 * The agent reads and writes plain bytes on pipes, in place of this process's standard streams, which it gets back
 * afterwards. A child of this process, the relay, holds the connections and encrypts (relay.h):
 *
 *     first host === tunnels === relay --- pipes --- front, agent, ranks
 *
 * The relay ends when the agent's streams do, or with this process. If it ends earlier, the agent's standard input
 * ends, and the agent knows what that means. The result comes through a tunnel of its own, open from the start: it
 * arrives when the ranks of all hosts have ended, however long after those of this one. If that tunnel ends without a
 * result, the first host is lost. A result may also come before the agent's tunnels, if the job could not start.
 */
#include "launcher/remote/tunnel_listen.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/cipher.h"
#include "launcher/common/say.h"
#include "launcher/local/front.h"
#include "launcher/remote/agent.h"
#include "launcher/remote/frame.h"
#include "launcher/remote/relay.h"
#include "launcher/remote/strangers.h"
#include "launcher/remote/tunnel.h"
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
enum { FRAMES, ERRORS, RESULT, TUNNELS };

/* What came of the wait for the first host. */
enum arrival {
    ARRIVED,       /* all its tunnels are open */
    RESULT_FIRST,  /* there is news on the result's tunnel: the job could not start, or the first host is gone */
    NOT_ARRIVED,   /* in time */
    CANNOT_LISTEN, /* reported */
};

static int listen_on(int fd, int family, int port)
{
    const struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
    const struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1, none = 0, failed;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none);
        failed = bind(fd, (const struct sockaddr *)&six, sizeof six);
    } else {
        failed = bind(fd, (const struct sockaddr *)&four, sizeof four);
    }
    return !failed && listen(fd, SOMAXCONN) == 0;
}

/* On all addresses; -1 (reported). */
static int open_port(int port)
{
    int family = AF_INET6, fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        family = AF_INET;
        fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd >= 0 && listen_on(fd, family, port))
        return fd;
    say("cannot listen on port %d: %s", port, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Once the agent has ended, nothing else would notice that the first host's machine is gone. */
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

/* The one record that the tunnel carries. Read a byte at a time, since it comes once a job. Returns its length, 0 if it
 * is cut short or was altered. */
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

/* Blocks until the result has come (1) or the first host is lost (0). */
static int take_result(const struct tunnel *tunnel, struct tunnel_result *result)
{
    unsigned char bytes[HALAY_CIPHER_BYTES_MAX];
    struct halay_cipher *cipher;

    if (halay_cipher_create(&tunnel->session, &cipher) != HALAY_OK)
        return 0;
    size_t count = take_record(tunnel->fd, cipher, bytes);
    halay_cipher_destroy(cipher);
    if (!count || count - 1 > TUNNEL_TEXT_MAX)
        return 0;
    memcpy(result->text, bytes + 1, count - 1);
    result->text[count - 1] = 0;
    result->code = bytes[0];
    return 1;
}

static int slot_of_purpose(unsigned char purpose)
{
    static const unsigned char purposes[TUNNELS] = {
        [FRAMES] = TUNNEL_AGENT, [ERRORS] = TUNNEL_ERRORS, [RESULT] = TUNNEL_RESULT
    };

    for (int slot = 0; slot < TUNNELS; slot++)
        if (purposes[slot] == purpose)
            return slot;
    return -1;
}

/* A later one replaces an earlier one, whose other end has given up waiting for us. */
static void keep_tunnel(struct tunnel tunnels[TUNNELS], unsigned char purpose, const struct tunnel *tunnel)
{
    int slot = slot_of_purpose(purpose);

    if (slot < 0) {
        close(tunnel->fd);
        return;
    }
    if (tunnels[slot].fd >= 0)
        close(tunnels[slot].fd);
    tunnels[slot] = *tunnel;
    if (slot == RESULT)
        keep_alive(tunnel->fd);
}

static int is_readable(int fd)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) > 0;
}

static enum arrival await_tunnels(struct strangers *strangers, const char *first, int timeout_ms,
                                  struct tunnel tunnels[TUNNELS])
{
    int64_t deadline_us = halay_deadline_us(timeout_ms), began_us = halay_now_us(), say_us = halay_deadline_us(SAY_MS);

    while (!halay_deadline_passed(deadline_us)) {
        struct tunnel tunnel;
        unsigned char purpose = 0;
        int ms = halay_deadline_left_ms(deadline_us);
        if (strangers_next(strangers, ms < 1000 ? ms : 1000, &tunnel, &purpose))
            keep_tunnel(tunnels, purpose, &tunnel);
        if (tunnels[FRAMES].fd >= 0 && tunnels[ERRORS].fd >= 0 && tunnels[RESULT].fd >= 0)
            return ARRIVED;
        strangers_watch(strangers, tunnels[RESULT].fd);
        if (is_readable(tunnels[RESULT].fd))
            return RESULT_FIRST;
        if (halay_deadline_passed(say_us)) {
            say("waiting for '%s' (%d s so far)", first, (int)((halay_now_us() - began_us) / 1000000));
            say_us = halay_deadline_us(SAY_MS);
        }
    }
    return NOT_ARRIVED;
}

/* Listens for that long only. */
static enum arrival accept_tunnels(int port, const char *first, const unsigned char secret[HALAY_SECRET_BYTES],
                                   int timeout_ms, struct tunnel tunnels[TUNNELS])
{
    int listener = open_port(port);
    struct strangers strangers;

    if (listener < 0)
        return CANNOT_LISTEN;
    strangers_init(&strangers, listener, secret);
    enum arrival arrival = await_tunnels(&strangers, first, timeout_ms, tunnels);
    strangers_fini(&strangers); /* no child of ours inherits them */
    close(listener);
    return arrival;
}

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

static enum halay_status relay_all(const struct tunnel tunnels[TUNNELS], const int streams[3])
{
    struct halay_cipher *frames = NULL, *errors = NULL;

    enum halay_status status = halay_cipher_create(&tunnels[FRAMES].session, &frames);
    if (status == HALAY_OK)
        status = halay_cipher_create(&tunnels[ERRORS].session, &errors);
    const struct relay_line lines[RELAY_LINES] = {
        { .stream = streams[0], .socket = tunnels[FRAMES].fd, .cipher = frames },
        { .stream = streams[1], .socket = tunnels[FRAMES].fd, .cipher = frames, .is_outgoing = 1, .is_leading = 1 },
        { .stream = streams[2], .socket = tunnels[ERRORS].fd, .cipher = errors, .is_outgoing = 1, .is_leading = 1 }
    };
    if (status == HALAY_OK)
        status = relay_run(lines, SILENCE_MS);
    halay_cipher_destroy(frames);
    halay_cipher_destroy(errors);
    return status;
}

/* In the relay's process. It ignores signals: the agent gets them, and then ends its streams. */
__attribute__((noreturn)) static void be_relay(const struct tunnel tunnels[TUNNELS], const struct pipes *pipes,
                                               pid_t parent)
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
    close(tunnels[RESULT].fd);
    enum halay_status status = relay_all(tunnels, pipes->relay);
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
    int code = failed ? 1 : front_run(&(struct job_setting){ .log = log, .stopped_ms = SILENCE_MS }, agent_run);
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
        say("cannot tell the first host how the ranks of this one ended: %s", strerror(errno));
}

/* Agent and relay, until both have ended. */
static void serve_as_agent(struct halay_log *log, struct tunnel tunnels[TUNNELS])
{
    struct pipes pipes;
    pid_t self = getpid(), relay = open_pipes(&pipes) ? fork() : -1;

    if (relay == 0)
        be_relay(tunnels, &pipes, self);
    if (relay < 0)
        say("cannot start the agent: %s", strerror(errno));
    close_all(pipes.relay);
    for (int i = FRAMES; i <= ERRORS; i++) {
        close(tunnels[i].fd);
        tunnels[i].fd = -1;
    }
    if (relay < 0) {
        close_all(pipes.agent);
        return;
    }
    be_agent(log, pipes.agent);
    while (waitpid(relay, NULL, 0) < 0 && errno == EINTR) /* unless the front has reaped it */
        ;
}

void tunnel_listen(struct halay_log *log, const char *first, int port, const unsigned char secret[HALAY_SECRET_BYTES],
                   int timeout_ms, struct tunnel_result *result)
{
    struct tunnel tunnels[TUNNELS] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
    enum arrival arrival = accept_tunnels(port, first, secret, timeout_ms, tunnels);

    *result = (struct tunnel_result){ .code = 1 };
    if (arrival == ARRIVED)
        serve_as_agent(log, tunnels);
    if (arrival == CANNOT_LISTEN) {
        snprintf(result->text, sizeof result->text, "\ncannot listen on port %d\n", port);
    } else if (arrival == NOT_ARRIVED) {
        snprintf(result->text, sizeof result->text, "%.200s\n'%.200s' did not connect within %d s\n", first, first,
                 timeout_ms / 1000);
        say("'%s' did not connect within %d s", first, timeout_ms / 1000);
    } else if (!take_result(&tunnels[RESULT], result)) {
        snprintf(result->text, sizeof result->text, "%.200s\nthe first host, '%.200s', is lost\n", first, first);
        say("the first host, '%s', is lost", first);
    }
    for (int i = 0; i < TUNNELS; i++)
        if (tunnels[i].fd >= 0)
            close(tunnels[i].fd);
    explicit_bzero(tunnels, sizeof tunnels);
}
