/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of the start: see boot_socket.h. Names are abstract: two hashes of NAME_DIGITS digits, the listener's and
 * what its children's ends begin with.
 */
#include "collectives/transport/bootstrap/boot_socket.h"
#include "base/net/local_socket.h"
#include "base/store/store_protocol.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_DIGITS = 32, NAME_BYTES = offsetof(struct sockaddr_un, sun_path) + 1 + NAME_DIGITS };
enum { QUEUE = 4096 };

static void name_socket(struct sockaddr_un *address, const unsigned char key[NAME_DIGITS / 2])
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    char *at = address->sun_path + 1;
    for (int i = 0; i < NAME_DIGITS / 2; i++)
        at += sprintf(at, "%02x", key[i]);
}

static void name_ends(const unsigned char *secret, const char *what, struct sockaddr_un *listener,
                      struct sockaddr_un *child)
{
    unsigned char key[HALAY_SECRET_BYTES];

    store_derive(secret, "meeting-", (const unsigned char *)what, strlen(what), key);
    name_socket(listener, key);
    name_socket(child, key + NAME_DIGITS / 2);
    explicit_bzero(key, sizeof key);
}

static void close_keeping_errno(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
}

int halay_boot_socket_listen(struct halay_boot_socket *self, const unsigned char *secret, const char *what)
{
    struct sockaddr_un address;

    name_ends(secret, what, &address, &self->child_name);
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0)
        return 0;
    if (bind(self->fd, (struct sockaddr *)&address, NAME_BYTES) == 0 && listen(self->fd, QUEUE) == 0)
        return 1;
    close_keeping_errno(self->fd);
    self->fd = -1;
    return 0;
}

int halay_boot_socket_connect(const unsigned char *secret, const char *what, int rank)
{
    struct sockaddr_un parent, mine;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    name_ends(secret, what, &parent, &mine);
    int digits = sprintf(mine.sun_path + 1 + NAME_DIGITS, "%d", rank);
    if (bind(fd, (struct sockaddr *)&mine, NAME_BYTES + (socklen_t)digits) == 0 &&
        connect(fd, (struct sockaddr *)&parent, NAME_BYTES) == 0 && halay_local_is_own_user(fd, NULL))
        return fd;
    close_keeping_errno(fd);
    return -1;
}

/* The rank at the end of a child's name; -1: it is not a child's. */
static int rank_named(const struct halay_boot_socket *self, const struct sockaddr_un *name, socklen_t bytes)
{
    char digits[sizeof name->sun_path] = "";

    if (bytes <= NAME_BYTES || bytes > sizeof *name || memcmp(name, &self->child_name, NAME_BYTES) != 0)
        return -1;
    memcpy(digits, name->sun_path + 1 + NAME_DIGITS, bytes - NAME_BYTES);
    return (int)strtol(digits, NULL, 10);
}

int halay_boot_socket_accept(struct halay_boot_socket *self, struct halay_log *log, int *rank)
{
    for (int turn = 0; turn < QUEUE; turn++) {
        struct sockaddr_un name = { 0 };
        socklen_t bytes = sizeof name;
        int fd = accept4(self->fd, (struct sockaddr *)&name, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return -1;
        *rank = halay_local_is_own_user(fd, NULL) ? rank_named(self, &name, bytes) : -1;
        if (*rank >= 0)
            return fd;
        halay_debug(log, "a connection during the start that is not a rank's was closed");
        close(fd);
    }
    return -1;
}

void halay_boot_socket_close(struct halay_boot_socket *self)
{
    if (self->fd >= 0)
        close(self->fd);
    *self = (struct halay_boot_socket){ .fd = -1 };
}
