/* SPDX-License-Identifier: Apache-2.0
 *
 * Socket: try, and wait only if there is nothing to do yet.
 */
#include "base/net/socket.h"
#include "base/clock.h"
#include "base/net/address.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

/* Until the socket is ready for the events. */
static enum halay_status wait_until_ready(int fd, short events, int64_t deadline_us)
{
    struct pollfd p = { .fd = fd, .events = events };

    for (;;) {
        int n = poll(&p, 1, halay_deadline_left_ms(deadline_us));
        if (n > 0)
            return HALAY_OK;
        if (n == 0)
            return HALAY_ERR_TIMEOUT;
        if (errno != EINTR)
            return HALAY_ERR_SYSTEM;
    }
}

static enum halay_status finish_connect(int fd, int64_t deadline_us)
{
    int error = 0;
    socklen_t length = sizeof error;

    enum halay_status status = wait_until_ready(fd, POLLOUT, deadline_us);
    if (status != HALAY_OK)
        return status;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        return HALAY_ERR_SYSTEM;
    errno = error;
    return error ? HALAY_ERR_SYSTEM : HALAY_OK;
}

int halay_socket_bind(int fd, const struct sockaddr *to, const char *network)
{
    struct halay_address address;
    struct sockaddr_storage source;

    if (!network || !halay_address_take(to, 0, &address) || halay_address_is_loopback(&address))
        return 0;
    int found = halay_network_find(network, address.family, &address);
    if (found <= 0)
        return found;
    return bind(fd, (struct sockaddr *)&source, halay_address_sockaddr(&address, &source));
}

enum halay_status halay_socket_connect(const struct sockaddr *to, socklen_t length, const char *network,
                                       int64_t deadline_us, int *fd)
{
    enum halay_status status = HALAY_OK;

    int opened = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (opened < 0)
        return HALAY_ERR_SYSTEM;
    if (halay_socket_bind(opened, to, network) < 0)
        status = HALAY_ERR_SYSTEM;
    else if (connect(opened, to, length) < 0)
        status = errno == EINPROGRESS || errno == EINTR ? finish_connect(opened, deadline_us) : HALAY_ERR_SYSTEM;
    if (status != HALAY_OK) {
        int error = errno;
        close(opened);
        errno = error;
        return status;
    }
    setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)); /* only speed depends on it */
    *fd = opened;
    return HALAY_OK;
}

enum halay_status halay_socket_send(int fd, const void *bytes, size_t count, int64_t deadline_us)
{
    const char *at = bytes;

    while (count) {
        ssize_t n = send(fd, at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            at += n;
            count -= (size_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return HALAY_ERR_PEER;
        enum halay_status status = wait_until_ready(fd, POLLOUT, deadline_us);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

enum halay_status halay_socket_receive(int fd, void *bytes, size_t count, size_t *have, int64_t deadline_us)
{
    while (*have < count) {
        ssize_t n = recv(fd, (char *)bytes + *have, count - *have, MSG_DONTWAIT);
        if (n > 0) {
            *have += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || errno != EAGAIN)
            return HALAY_ERR_PEER;
        enum halay_status status = wait_until_ready(fd, POLLIN, deadline_us);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}
