/* SPDX-License-Identifier: Apache-2.0
 *
 * What perf/bench/tcp --bare compares with: two processes without a library all-reduce f32 over one loopback
 * connection. Each sends the half that the other sums, then the sums of its own; in pieces, and spins.
 *
 * usage: tcp_bare BYTES PIECE ITERATIONS; prints the median in us of the slower one's times.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITERATIONS_MAX = 4096 };

static struct shared {
    _Atomic int met[2];
    double us[2][ITERATIONS_MAX];
} * shared;
static int me;

static void die(const char *what)
{
    fprintf(stderr, "tcp_bare: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void meet(int number)
{
    atomic_store(&shared->met[me], number);
    while (atomic_load(&shared->met[!me]) < number)
        sched_yield();
}

static size_t shorter(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the bytes that went at once. */
static size_t moved(ssize_t bytes, const char *what)
{
    if (bytes == 0 || (bytes < 0 && errno != EAGAIN))
        die(what);
    return bytes < 0 ? 0 : (size_t)bytes;
}

static void allreduce(int fd, char *data, size_t bytes, char *landing, size_t piece)
{
    size_t half = bytes / 2, sent = 0, got = 0, summed = 0, held = 0;
    char *own = data + (me ? half : 0), *other = data + (me ? 0 : half);

    while (sent < bytes || got < bytes) {
        const char *from = sent < half ? other + sent : own + (sent - half);
        size_t ready = sent < half ? half : half + summed;
        if (sent < ready)
            sent += moved(send(fd, from, shorter(ready - sent, piece), MSG_DONTWAIT | MSG_NOSIGNAL), "send");
        if (got >= half) { /* sums, where this rank's elements were sent from */
            if (got < bytes && sent >= half)
                got += moved(recv(fd, other + (got - half), shorter(bytes - got, piece), MSG_DONTWAIT), "recv");
            continue;
        }
        size_t more = moved(recv(fd, landing + held, shorter(half - got, piece - held), MSG_DONTWAIT), "recv");
        got += more;
        held += more;
        if (held < piece && got < half)
            continue;
        float *to = (float *)(void *)(own + summed), *add = (float *)(void *)landing;
        for (size_t i = 0; i < held / sizeof *to; i++)
            to[i] += add[i];
        summed += held;
        held = 0;
    }
}

static int connect_both(pid_t *child)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr *to = (struct sockaddr *)(void *)&address;
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (listener < 0 || bind(listener, to, length) || listen(listener, 1) || getsockname(listener, to, &length))
        die("listen");
    *child = fork();
    if (*child < 0)
        die("fork");
    me = *child == 0;
    int fd = me ? socket(AF_INET, SOCK_STREAM, 0) : accept(listener, NULL, NULL);
    if (fd < 0 || (me && connect(fd, to, length)) || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        die("connect");
    return fd;
}

static void run(int fd, size_t bytes, size_t piece, int iterations)
{
    float *data = malloc(bytes);
    char *landing = malloc(piece);

    if (!data || !landing)
        die("malloc");
    for (int i = 0; i < iterations; i++) {
        for (size_t k = 0; k < bytes / sizeof *data; k++)
            data[k] = (float)(k % 7) + (float)me;
        meet(i + 1);
        double start = now_us();
        allreduce(fd, (char *)data, bytes, landing, piece);
        shared->us[me][i] = now_us() - start;
        for (size_t k = 0; k < bytes / sizeof *data; k++)
            if (data[k] != (float)(2 * (k % 7) + 1))
                die("a wrong sum");
    }
    free(data);
    free(landing);
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
    size_t bytes = argc == 4 ? strtoul(argv[1], NULL, 10) / 8 * 8 : 0;
    size_t piece = argc == 4 ? strtoul(argv[2], NULL, 10) / 4 * 4 : 0;
    int iterations = argc == 4 ? atoi(argv[3]) : 0, status;
    pid_t child;

    if (!bytes || !piece || iterations < 1 || iterations > ITERATIONS_MAX) {
        fprintf(stderr, "usage: tcp_bare BYTES PIECE ITERATIONS\n");
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    run(connect_both(&child), bytes, piece, iterations);
    if (me)
        return 0;
    if (waitpid(child, &status, 0) != child || status)
        die("the other process");
    for (int i = 0; i < iterations; i++)
        shared->us[0][i] = shared->us[me][i] > shared->us[1][i] ? shared->us[me][i] : shared->us[1][i];
    qsort(shared->us[0], (size_t)iterations, sizeof(double), compare);
    printf("%.1f\n", shared->us[0][iterations / 2]);
    return 0;
}
