/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands for a network that limits each flow: a TCP socket sends at most LAB_FLOW_RATE bytes a second. A socket that is
 * accepted inherits the rate of its listener. `tc qdisc add ... fq maxrate` does the same, where the kernel has fq.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    const char *text = getenv("LAB_FLOW_RATE");
    unsigned rate = text ? (unsigned)strtoul(text, NULL, 10) : 0;
    int fd = (int)syscall(SYS_socket, domain, type, protocol);

    if (fd >= 0 && rate && (domain == AF_INET || domain == AF_INET6) &&
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate))
        abort();
    return fd;
}
