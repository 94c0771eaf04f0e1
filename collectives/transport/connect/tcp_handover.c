/* SPDX-License-Identifier: Apache-2.0
 *
 * Handover: one message a connection.
 */
#include "collectives/transport/connect/tcp_handover.h"
#include <errno.h>
#include <unistd.h>

int halay_tcp_hand_over(const char name[HALAY_LOCAL_NAME_BYTES], int fd, const void *bytes, size_t count)
{
    int to = halay_local_connect(name);

    if (to < 0)
        return 0;
    int is_sent = halay_local_is_own_user(to, NULL) && halay_local_send(to, bytes, count, &fd, 1);
    int error = errno;
    close(to);
    errno = error;
    return is_sent;
}
