/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunnel: two connections a host, so that the agent's errors do not mix with its frames.
 */
#include "launcher/remote/tunnel.h"
#include "base/clock.h"
#include "base/net/socket.h"
#include "base/secure/cipher.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/relay.h"
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRY_MS = 5000, PAUSE_US = 500000, REPORT_FIRST_MS = 5000, REPORT_MS = 30000, REFUSALS = 3 };

/* ---- connect ----------------------------------------------------------------------------------------------------- */

static int connect_to(const struct tunnel_end *end, int timeout_ms, char *why, size_t size)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found;
    char service[16];
    int fd = -1;
    enum halay_status status = HALAY_ERR_SYSTEM;

    snprintf(service, sizeof service, "%d", end->port);
    int code = getaddrinfo(end->host, service, &hints, &found);
    if (code) {
        snprintf(why, size, "the name '%s' is not known: %s", end->host, gai_strerror(code));
        return -1;
    }
    snprintf(why, size, "it has no address");
    for (const struct addrinfo *at = found; at && status != HALAY_OK; at = at->ai_next) {
        status = halay_socket_connect(at->ai_addr, at->ai_addrlen, end->network, halay_deadline_us(timeout_ms), &fd);
        if (status != HALAY_OK)
            snprintf(why, size, "port %d: %s", end->port, strerror(status == HALAY_ERR_TIMEOUT ? ETIMEDOUT : errno));
    }
    freeaddrinfo(found);
    return fd;
}

static const char *explain_refusal(enum halay_status status)
{
    switch (status) {
    case HALAY_ERR_AUTH:
        return "the program there has another secret: another job, or another --secret-file, HALAY_SECRET or "
               "hyperparameters";
    case HALAY_ERR_VERSION:
        return "halayrun there has another version: all hosts need the same one";
    case HALAY_ERR_PEER:
        return "the program there closes the connection: it is not halayrun, or it was busy";
    default:
        return "the program there does not answer like halayrun";
    }
}

/* One attempt. */
static enum halay_status try_to_open(const struct tunnel_end *end, uint32_t purpose, struct tunnel *tunnel, char *why,
                                     size_t size)
{
    tunnel->fd = connect_to(end, TRY_MS, why, size);
    if (tunnel->fd < 0)
        return HALAY_ERR_SYSTEM;
    enum halay_status status = halay_handshake_call(tunnel->fd, end->secret, purpose, TRY_MS, &tunnel->session);
    if (status == HALAY_OK)
        return status;
    snprintf(why, size, "port %d: %s", end->port, explain_refusal(status));
    close(tunnel->fd);
    tunnel->fd = -1;
    return status;
}

enum halay_status tunnel_open(const struct tunnel_end *end, uint32_t purpose, int64_t deadline_us,
                              struct tunnel *tunnel, char *why, size_t size)
{
    int64_t began_us = halay_now_us(), report_us = halay_deadline_us(REPORT_FIRST_MS);
    char reason[256];

    for (int refusals = 0;;) {
        enum halay_status status = try_to_open(end, purpose, tunnel, reason, sizeof reason);
        if (status == HALAY_OK)
            return HALAY_OK;
        refusals += status == HALAY_ERR_AUTH || status == HALAY_ERR_VERSION;
        int seconds = (int)((halay_now_us() - began_us) / 1000000);
        if (halay_deadline_passed(deadline_us) || refusals == REFUSALS) {
            snprintf(why, size, "host '%s' cannot be reached after %d s: %s", end->host, seconds, reason);
            report("%s", why);
            return status;
        }
        if (halay_deadline_passed(report_us)) {
            report("waiting for host '%s' (%d s so far): %s; start halayrun on every host of the job", end->host,
                   seconds, reason);
            report_us = halay_deadline_us(REPORT_MS);
        }
        usleep(PAUSE_US);
    }
}

/* ---- in ssh's place ---------------------------------------------------------------------------------------------- */

int tunnel_carry(const struct tunnel_pair *pair)
{
    struct halay_cipher *first = NULL, *second = NULL;
    int code = EXIT_SSH;

    if (halay_cipher_create(&pair->frames.session, &first) != HALAY_OK ||
        halay_cipher_create(&pair->errors.session, &second) != HALAY_OK) {
        report_no_memory();
        halay_cipher_destroy(first);
        return EXIT_SSH;
    }
    const struct relay_line lines[RELAY_LINES] = {
        { .stream = STDIN_FILENO, .socket = pair->frames.fd, .cipher = first, .is_outgoing = 1 },
        { .stream = STDOUT_FILENO, .socket = pair->frames.fd, .cipher = first, .is_leading = 1 },
        { .stream = STDERR_FILENO, .socket = pair->errors.fd, .cipher = second, .is_leading = 1, .code = &code }
    };
    int complaints = dup(STDERR_FILENO); /* the relay closes the stream at its end */
    enum halay_status status = relay_run(lines, -1);
    if (complaints >= 0)
        dup2(complaints, STDERR_FILENO);
    if (status != HALAY_OK) {
        relay_report(status);
        code = EXIT_SSH;
    }
    halay_cipher_destroy(first);
    halay_cipher_destroy(second);
    return code;
}

void tunnel_shut(const struct tunnel_pair *pair)
{
    shutdown(pair->frames.fd, SHUT_RDWR);
    shutdown(pair->errors.fd, SHUT_RDWR);
}

void tunnel_close(struct tunnel_pair *pair)
{
    if (pair->frames.fd >= 0)
        close(pair->frames.fd);
    if (pair->errors.fd >= 0)
        close(pair->errors.fd);
    explicit_bzero(pair, sizeof *pair);
    pair->frames.fd = pair->errors.fd = -1;
}
