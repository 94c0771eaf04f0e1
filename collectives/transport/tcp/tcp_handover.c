/* SPDX-License-Identifier: Apache-2.0
 *
 * Handover: one message a connection. References: unix(7) (abstract names, SCM_RIGHTS, SO_PEERCRED).
 */
#include "collectives/transport/tcp/tcp_handover.h"
#include "base/store/store_protocol.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union control { /* of one descriptor */
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* The system closes any further descriptors of a message that has more. */
static const size_t control_bytes = CMSG_LEN(sizeof(int));

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path + 1, name, HALAY_TCP_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + HALAY_TCP_NAME_BYTES);
}

enum halay_status halay_tcp_local_open(struct halay_log *log, char name[HALAY_TCP_NAME_BYTES], int *fd)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char drawn[HALAY_TCP_NAME_BYTES];
    struct sockaddr_un address;

    store_draw(drawn, sizeof drawn);
    memcpy(name, "halay-tcp-", 10);
    for (int i = 10; i < HALAY_TCP_NAME_BYTES; i++)
        name[i] = digits[drawn[i] % 16];
    socklen_t length = address_of(name, &address);
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&address, length) == 0 && listen(*fd, SOMAXCONN) == 0)
        return HALAY_OK;
    halay_error(log, "cannot open a local socket for connections of this host: %s", strerror(errno));
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return HALAY_ERR_SYSTEM;
}

int halay_tcp_is_own_user(int fd)
{
    struct ucred who;
    socklen_t length = sizeof who;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) && who.uid == geteuid();
}

static int send_descriptor(int to, int fd, const void *bytes, size_t count)
{
    union control control = { 0 };
    struct iovec data = { (void *)bytes, count };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };

    control.header =
        (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd) };
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_NOSIGNAL) == (ssize_t)count;
}

int halay_tcp_hand_over(const char name[HALAY_TCP_NAME_BYTES], int fd, const void *bytes, size_t count)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (to < 0)
        return 0;
    int is_sent = connect(to, (struct sockaddr *)&address, length) == 0 && halay_tcp_is_own_user(to) &&
                  send_descriptor(to, fd, bytes, count);
    int error = errno;
    close(to);
    errno = error;
    return is_sent;
}

int halay_tcp_take_over(int local, void *bytes, size_t room, size_t *count)
{
    union control control = { 0 };
    struct iovec data = { bytes, room };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = control_bytes
    };
    int fd;

    ssize_t n = recvmsg(local, &message, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -1;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    *count = (size_t)n;
    errno = EPROTO;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof fd))
        return -1;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}
