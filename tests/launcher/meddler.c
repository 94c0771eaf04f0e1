/* SPDX-License-Identifier: Apache-2.0
 *
 * Meddler: somebody on the network between two hosts of a job.
 *
 *   meddler pass ADDRESS PORT TO RECORD         connects callers of the port with port TO; records all data in the
 *                                               file, and the first bytes from callers in RECORD.hello
 *   meddler flip ADDRESS PORT TO RECORD P AT    the same, but flips a bit of byte AT of what callers with purpose P
 *                                               send; AT below 0: of what they receive, counted from -1
 *   meddler cut ADDRESS PORT TO RECORD P AT     the same, but the connection ends before that byte
 *   meddler flood ADDRESS PORT HELLOS           connects without end: silent, with nonsense, with each hello of the
 *                                               file
 *
 * It prints a line when it has begun.
 */
#include "tests/test.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 64, HELLO = 80, PURPOSE_AT = 12, OPEN = 600, HELLOS = 64 };

struct pair {
    int fds[2]; /* the caller's, the listener's */
    long passed[2];
    unsigned char purpose;
};

static struct sockaddr_in address_of(const char *address, const char *port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

    REQUIRE(inet_pton(AF_INET, address, &to.sin_addr) == 1);
    return to;
}

static int call(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- between ----------------------------------------------------------------------------------------------------- */

struct meddling {
    const char *what;
    FILE *record, *hellos;
    unsigned char purpose;
    int way; /* 0: what callers send */
    long at;
};

static void end(struct pair *pair)
{
    for (int i = 0; i < 2; i++)
        close(pair->fds[i]);
    pair->fds[0] = pair->fds[1] = -1;
}

static void pass(struct pair *pair, int way, const struct meddling *m)
{
    char bytes[4096];
    ssize_t n = recv(pair->fds[way], bytes, sizeof bytes, 0);

    if (n > PURPOSE_AT && !way && !pair->passed[0]) {
        pair->purpose = (unsigned char)bytes[PURPOSE_AT];
        REQUIRE(n >= HELLO && fwrite(bytes, 1, HELLO, m->hellos) == HELLO && !fflush(m->hellos));
    }
    long at = m->at - pair->passed[way];
    int is_meant = n > 0 && way == m->way && pair->purpose == m->purpose && at >= 0 && at < n;
    if (is_meant && !strcmp(m->what, "flip"))
        bytes[at] ^= 1;
    if (is_meant && !strcmp(m->what, "cut"))
        n = at;
    if (n <= 0 || send(pair->fds[!way], bytes, (size_t)n, MSG_NOSIGNAL) != n) {
        end(pair);
        return;
    }
    pair->passed[way] += n;
    REQUIRE(fwrite(bytes, 1, (size_t)n, m->record) == (size_t)n && !fflush(m->record));
}

static void stand_between(int listener, const struct sockaddr_in *to, const struct meddling *m)
{
    static struct pair pairs[PAIRS];

    for (int i = 0; i < PAIRS; i++)
        pairs[i].fds[0] = pairs[i].fds[1] = -1;
    for (;;) {
        struct pollfd fds[1 + 2 * PAIRS] = { { .fd = listener, .events = POLLIN } };
        for (int i = 0; i < 2 * PAIRS; i++)
            fds[1 + i] = (struct pollfd){ .fd = pairs[i / 2].fds[i % 2], .events = POLLIN };
        REQUIRE(poll(fds, 1 + 2 * PAIRS, -1) > 0 || errno == EINTR);
        for (int i = 0; i < 2 * PAIRS; i++)
            if (fds[1 + i].revents && pairs[i / 2].fds[i % 2] == fds[1 + i].fd)
                pass(&pairs[i / 2], i % 2, m);
        struct pair *free_pair = pairs;
        while (free_pair->fds[0] >= 0)
            REQUIRE(++free_pair < pairs + PAIRS);
        if (!fds[0].revents)
            continue;
        *free_pair = (struct pair){ .fds = { accept(listener, NULL, NULL), call(to) } };
        if (free_pair->fds[0] < 0 || free_pair->fds[1] < 0)
            end(free_pair);
    }
}

/* ---- flood ------------------------------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void flood(const struct sockaddr_in *to, const char *file)
{
    static unsigned char hellos[HELLOS][HELLO];
    int open_fds[OPEN];
    FILE *from = fopen(file, "re");

    REQUIRE(from);
    size_t count = fread(hellos, HELLO, HELLOS, from);
    REQUIRE(count > 0);
    fclose(from);
    for (int i = 0; i < OPEN; i++)
        open_fds[i] = -1;
    printf("floods\n");
    fflush(stdout);
    for (size_t i = 0;; i = (i + 1) % OPEN) {
        if (open_fds[i] >= 0)
            close(open_fds[i]);
        open_fds[i] = call(to);
        if (open_fds[i] >= 0 && i % 3)
            send(open_fds[i], i % 3 == 1 ? hellos[i / 3 % count] : (const unsigned char *)to,
                 i % 3 == 1 ? HELLO : sizeof *to, MSG_NOSIGNAL);
    }
}

int main(int argc, char **argv)
{
    struct meddling m = { .at = -1 };
    char name[4096];
    int one = 1;

    REQUIRE(argc >= 5);
    struct sockaddr_in here = address_of(argv[2], argv[3]), to = address_of(argv[2], argv[4]);
    if (!strcmp(argv[1], "flood"))
        flood(&here, argv[4]);
    REQUIRE(argc >= 6);
    m.what = argv[1];
    if (argc >= 8) {
        m.purpose = (unsigned char)*argv[6];
        m.at = atol(argv[7]);
        m.way = m.at < 0;
        m.at = m.way ? -m.at - 1 : m.at;
    }
    snprintf(name, sizeof name, "%s.hello", argv[5]);
    m.record = fopen(argv[5], "we");
    m.hellos = fopen(name, "we");
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(m.record && m.hellos && listener >= 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    REQUIRE(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, PAIRS) == 0);
    printf("passes\n");
    fflush(stdout);
    stand_between(listener, &to, &m);
}
