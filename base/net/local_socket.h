/* SPDX-License-Identifier: Apache-2.0
 *
 * Local sockets: abstract ones of one message a packet, over which processes of this host pass descriptors. A name does
 * not identify who connects; the credentials that the kernel attaches do.
 *
 * References: unix(7) (abstract names, SCM_RIGHTS, SO_PEERCRED).
 */
#ifndef HALAY_LOCAL_SOCKET_H
#define HALAY_LOCAL_SOCKET_H

#include "base/log.h"
#include <stddef.h>
#include <sys/types.h>

enum {
    HALAY_LOCAL_NAME_BYTES = 16,
    HALAY_LOCAL_FDS_MAX = 253, /* of a message: the kernel's limit */
};

/* Listens at a random name and writes it, all bytes of it, without a terminating zero. *fd is the caller's, closed on
 * exec, not blocking; -1 after an error. what: completes "cannot open a local socket ". HALAY_ERR_SYSTEM, logged. */
enum halay_status halay_local_listen(struct halay_log *log, const char *what, int queue,
                                     char name[HALAY_LOCAL_NAME_BYTES], int *fd);
/* Connects to a listener. Returns a descriptor, which is the caller's, not blocking; -1 with errno, EAGAIN while the
 * listener's queue is full. */
int halay_local_connect(const char name[HALAY_LOCAL_NAME_BYTES]);
/* Returns nonzero if the other end of a local connection belongs to this process's user. *pid, if not NULL: its process
 * when the connection was made, 0 if it is in a namespace that this one does not see. */
int halay_local_is_own_user(int fd, pid_t *pid);

/* Sends one message with copies of up to HALAY_LOCAL_FDS_MAX descriptors, which stay the caller's. Returns nonzero if
 * it was sent; otherwise errno is set. */
int halay_local_send(int fd, const void *bytes, size_t size, const int *fds, size_t count);
/* Receives one message without blocking: at most `room` bytes, and its descriptors, which are the caller's. With fewer
 * than `count` the rest of fds is -1; further ones are closed. Returns the number of bytes, 0 at the end, or -1 with
 * errno, EAGAIN without a message. */
ssize_t halay_local_receive(int fd, void *bytes, size_t room, int *fds, size_t count);

#endif
