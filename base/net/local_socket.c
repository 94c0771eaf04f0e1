/* SPDX-License-Identifier: Apache-2.0
 *
 * Local sockets: see local_socket.h.
 */
#include "base/net/local_socket.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(HALAY_LOCAL_FDS_MAX * sizeof(int))];
};

static socklen_t address_of(const char name[HALAY_LOCAL_NAME_BYTES], struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(address->sun_path + 1, name, HALAY_LOCAL_NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + HALAY_LOCAL_NAME_BYTES);
}

static int open_one(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static void close_keeping_errno(int fd)
{
    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
}

enum halay_status halay_local_listen(struct halay_log *log, const char *what, int queue,
                                     char name[HALAY_LOCAL_NAME_BYTES], int *fd)
{
    static const char prefix[] = { 'h', 'a', 'l', 'a', 'y', '-' }, digits[] = "0123456789abcdef";
    unsigned char random[HALAY_LOCAL_NAME_BYTES];
    struct sockaddr_un address;

    *fd = -1;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return halay_fail(log, HALAY_ERR_SYSTEM, "cannot get random bytes: %s", strerror(errno));
    memcpy(name, prefix, sizeof prefix);
    for (size_t i = sizeof prefix; i < sizeof random; i++)
        name[i] = digits[random[i] % 16];
    socklen_t length = address_of(name, &address);
    *fd = open_one();
    if (*fd >= 0 && bind(*fd, (struct sockaddr *)&address, length) == 0 && listen(*fd, queue) == 0)
        return HALAY_OK;
    close_keeping_errno(*fd);
    *fd = -1;
    return halay_fail(log, HALAY_ERR_SYSTEM, "cannot open a local socket %s: %s", what, strerror(errno));
}

int halay_local_connect(const char name[HALAY_LOCAL_NAME_BYTES])
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int fd = open_one();

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0)
        return fd;
    close_keeping_errno(fd);
    return -1;
}

int halay_local_is_own_user(int fd, pid_t *pid)
{
    struct ucred who = { 0 };
    socklen_t length = sizeof who;
    int is_own = !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) && who.uid == geteuid();

    if (pid)
        *pid = who.pid;
    return is_own;
}

int halay_local_send(int fd, const void *bytes, size_t size, const int *fds, size_t count)
{
    union control control = { 0 };
    struct iovec data = { (void *)bytes, size };
    struct msghdr message = { .msg_iov = &data,
                              .msg_iovlen = 1,
                              .msg_control = count ? &control : NULL,
                              .msg_controllen = count ? CMSG_SPACE(count * sizeof *fds) : 0 };

    control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS,
                                       .cmsg_len = CMSG_LEN(count * sizeof *fds) };
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof *fds);
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

static void take_descriptors(struct msghdr *message, int *fds, size_t room)
{
    size_t taken = 0;

    memset(fds, -1, room * sizeof *fds);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int each;
            memcpy(&each, CMSG_DATA(c) + i * sizeof(int), sizeof each);
            if (taken < room)
                fds[taken++] = each;
            else
                close(each);
        }
    }
}

ssize_t halay_local_receive(int fd, void *bytes, size_t room, int *fds, size_t count)
{
    union control control;
    struct iovec data = { bytes, room };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };

    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        message.msg_controllen = 0;
    take_descriptors(&message, fds, count);
    return n;
}
