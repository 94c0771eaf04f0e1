/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport through a proxy, which stands for what is between hosts: one that delays and cuts into odd pieces,
 * one that holds everything for half of the silence that is allowed, one that resets or closes the connection, in the
 * handshake and in any frame. What can go on does; else both ranks name the other one, and why, and none hangs. In
 * clear and sealed, when the proxy sees nothing of what is sent.
 */
#include "../test.h"
#include "base/clock.h"
#include "collectives/transport/bell.h"
#include "collectives/transport/tcp/tcp.h"
#include "collectives/transport/tcp/tcp_start.h"
#include "conformance.h"
#include "peers_of_boot.h"
#include "shared_boot.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT_MS = 60000, ROUNDS = 6, HANDSHAKE_BYTES = 112, LARGE = 300000, SAME = 32 };

/* TEST_LONG=1: as users have it, so that what is held is held for 5 s. */
static int silence_ms(void)
{
    return getenv("TEST_LONG") ? 10000 : 2000;
}

/* What the proxy does, once, when it has forwarded this number of bytes from rank 1 to rank 0. */
struct trouble {
    enum { DELAY, HOLD, RESET, CLOSE } what; /* DELAY: always, from the beginning */
    size_t after;
    int is_sealed;
};

/* Shared by the processes. */
struct place {
    struct halay_address rank_0, proxy;
    int was_clear; /* what came by the proxy had SAME times the same byte, as all messages of this test do */
};

/* ---- proxy ---- */

static int connect_to(const struct halay_address *address)
{
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(address, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&to, length) == 0);
    return fd;
}

static int is_clear(const char *bytes, size_t count)
{
    for (size_t i = 0, same = 1; i + 1 < count; i++) {
        same = bytes[i] == bytes[i + 1] ? same + 1 : 1;
        if (same == SAME)
            return 1;
    }
    return 0;
}

/* Forwards what has come, a piece at most. Zero at the end. */
static size_t forward(int from, int to, const struct trouble *trouble, size_t piece, struct place *place)
{
    static char bytes[1 << 16];
    ssize_t n = recv(from, bytes, piece < sizeof bytes ? piece : sizeof bytes, 0);

    if (n <= 0)
        return 0;
    place->was_clear |= is_clear(bytes, (size_t)n);
    if (trouble->what == DELAY)
        (void)poll(NULL, 0, 2);
    for (ssize_t sent = 0, some; sent < n; sent += some)
        if ((some = send(to, bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL)) < 0)
            return 0;
    return (size_t)n;
}

/* One connection, until it ends. Nonzero if the trouble was made. */
static int serve(int caller, int callee, const struct trouble *trouble, int is_made, struct place *place)
{
    const struct linger at_once = { .l_onoff = 1 };
    struct pollfd fds[2] = { { .fd = caller, .events = POLLIN }, { .fd = callee, .events = POLLIN } };
    size_t moved = 0;

    while (poll(fds, 2, TIMEOUT_MS) > 0) {
        size_t rest = is_made || trouble->what == DELAY ? SIZE_MAX : trouble->after - moved, n = 1;
        if (fds[0].revents) {
            n = forward(caller, callee, trouble, trouble->what == DELAY ? 7001 : rest, place);
            moved += n;
        }
        if (n && fds[1].revents)
            n = forward(callee, caller, trouble, trouble->what == DELAY ? 5003 : SIZE_MAX, place);
        if (!n)
            break;
        if (is_made || trouble->what == DELAY || moved < trouble->after)
            continue;
        is_made = 1;
        if (trouble->what == HOLD)
            (void)poll(NULL, 0, silence_ms() / 2);
        if (trouble->what == RESET) {
            REQUIRE(!setsockopt(caller, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
            REQUIRE(!setsockopt(callee, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
        }
        if (trouble->what != HOLD)
            break;
    }
    close(caller);
    close(callee);
    return is_made;
}

/* Until it is killed. */
static void run_proxy(int listener, struct place *place, const struct trouble *trouble)
{
    int is_made = 0;

    for (;;) {
        struct pollfd p = { .fd = listener, .events = POLLIN };
        REQUIRE(poll(&p, 1, -1) == 1);
        int caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (caller >= 0)
            is_made = serve(caller, connect_to(&place->rank_0), trouble, is_made, place);
    }
}

/* ---- ranks ---- */

struct proxy_boot {
    struct halay_boot base;
    struct halay_boot *under;
    struct place *place;
};

/* Rank 1 gets the proxy's address for rank 0's. */
static enum halay_status proxy_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                         int timeout_ms)
{
    struct proxy_boot *b = (struct proxy_boot *)boot;
    const struct halay_tcp_record *record = mine;

    if (bytes == sizeof *record && boot->rank == 0)
        b->place->rank_0 = record->addresses[0];
    enum halay_status status = b->under->ops->allgather(b->under, mine, bytes, all, timeout_ms);
    if (bytes == sizeof *record && boot->rank == 1)
        ((struct halay_tcp_record *)all)->addresses[0] = b->place->proxy;
    return status;
}

static void proxy_secret(struct halay_boot *boot, unsigned char *secret)
{
    (void)boot;
    memset(secret, 3, HALAY_SECRET_BYTES);
}

static const struct halay_boot_ops proxy_ops = { .name = "test", .allgather = proxy_allgather, .secret = proxy_secret };

static char line[512];

static void keep_line(void *arg, enum halay_log_level level, const char *text)
{
    (void)arg, (void)level;
    if (!*line)
        snprintf(line, sizeof line, "%s", text);
}

static enum halay_status finish(struct halay_link *link, struct halay_bell *bell, struct halay_transfer *x)
{
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && !halay_transfer_is_done(x)) {
        uint32_t token = halay_bell_arm(bell);
        status = link->ops->progress(link);
        if (status == HALAY_OK && !halay_transfer_is_done(x))
            conformance_sleep(link, bell, token, -1);
        else
            halay_bell_disarm(bell);
    }
    return status;
}

/* Messages of all kinds both ways at once; wrong bytes are counted. */
static enum halay_status exchange(struct halay_link *link, struct halay_bell *bell)
{
    static const size_t sizes[] = { 10, 5000, 65536, LARGE };
    static unsigned char sent[LARGE], got[LARGE];
    enum halay_status status = HALAY_OK;

    for (unsigned i = 0; i < ROUNDS * 4 && status == HALAY_OK; i++) {
        struct halay_transfer in = { 0 }, out = { 0 };
        size_t bytes = sizes[i % 4];
        memset(sent, (int)i + link->rank, bytes);
        memset(got, 255, bytes);
        link->ops->recv(link, 1 - link->rank, i, got, bytes, &in);
        link->ops->send(link, 1 - link->rank, i, sent, bytes, &out);
        status = finish(link, bell, &in);
        if (status == HALAY_OK)
            status = finish(link, bell, &out);
        memset(sent, (int)i + 1 - link->rank, bytes);
        if (status == HALAY_OK)
            CHECK(!memcmp(sent, got, bytes), "rank %d, message %u", link->rank, i);
        link->ops->cancel(link, &in);
        link->ops->cancel(link, &out);
    }
    return status;
}

static void check_end(const struct trouble *trouble, enum halay_status status, int rank)
{
    char want[64];
    int is_lost = trouble->what >= RESET && trouble->after > HANDSHAKE_BYTES;

    if (!is_lost) {
        CHECK(status == HALAY_OK && !*line, "rank %d: %s, '%s'", rank, halay_status_string(status), line);
        return;
    }
    snprintf(want, sizeof want, "connection with rank %d (process ", 1 - rank);
    const char *at = strstr(line, want);
    CHECK(status == HALAY_ERR_PEER && at && strstr(at, ") lost: "), "rank %d: %s, '%s'", rank,
          halay_status_string(status), line);
    if (trouble->what == RESET)
        CHECK(strstr(line, "onnection reset") || strstr(line, "roken pipe"), "'%s'", line);
    else
        CHECK(strstr(line, "close notice") || strstr(line, "onnection reset") || strstr(line, "roken pipe"), "'%s'",
              line);
}

static int run_rank(const struct trouble *trouble, struct shared_board *board, struct place *place, int rank)
{
    struct proxy_boot boot = { .place = place };
    struct halay_peers *peers;
    struct halay_link *link;
    struct halay_bell bell;
    struct halay_log log;
    char byte = 0, bytes[2];

    alarm(100);
    halay_log_init(&log, HALAY_LOG_ERROR);
    log.rank = rank;
    log.write = keep_line;
    boot.under = shared_boot_create(board, rank, &log);
    boot.base = (struct halay_boot){ .ops = &proxy_ops, .rank = rank, .size = 2, .log = &log };
    REQUIRE(peers_of_boot(&log, &boot.base, NULL, TIMEOUT_MS, &peers) == HALAY_OK);
    const struct halay_tcp_how how = { .network.interface = "lo",
                                       .timeout_ms = TIMEOUT_MS,
                                       .silence_ms = silence_ms(),
                                       .is_sealed = trouble->is_sealed,
                                       .connects = 1 };
    REQUIRE(halay_tcp_open(&log, &how, &boot.base, peers, &link) == HALAY_OK);
    halay_bell_init(&bell, NULL);
    REQUIRE(halay_bell_watch(&bell, link->ops->event_fd(link)) == HALAY_OK);
    check_end(trouble, exchange(link, &bell), rank);
    /* Neither ends before both have seen it: the end of a process would be seen, too. */
    CHECK(boot.under->ops->allgather(boot.under, &byte, 1, bytes, TIMEOUT_MS) == HALAY_OK);
    link->ops->close(link);
    halay_bell_fini(&bell);
    halay_peers_destroy(peers);
    boot.under->ops->destroy(boot.under);
    halay_log_fini(&log);
    return test_failed;
}

static void run(const struct trouble *trouble)
{
    struct shared_board *board = shared_board_create(2);
    struct place *place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct halay_network here = { .interface = "lo" };
    struct halay_log log;
    pid_t pids[3];
    int listener, count, status;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(place != MAP_FAILED && halay_listen(&log, &here, 1, &listener, &place->proxy, &count) == HALAY_OK);
    fflush(stdout);
    for (int i = 0; i < 3; i++) {
        REQUIRE((pids[i] = fork()) >= 0);
        if (pids[i])
            continue;
        test_failed = 0;
        if (i == 2)
            run_proxy(listener, place, trouble);
        status = run_rank(trouble, board, place, i);
        fflush(stdout);
        _exit(status != 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && !WEXITSTATUS(status),
              "rank %d, trouble %d after %zu: %#x", i, trouble->what, trouble->after, status);
    CHECK(trouble->what > HOLD || place->was_clear == !trouble->is_sealed, "sealed %d: it listens", trouble->is_sealed);
    REQUIRE(!kill(pids[2], SIGKILL) && waitpid(pids[2], &status, 0) == pids[2]);
    close(listener);
    munmap(place, sizeof *place);
    shared_board_destroy(board);
    halay_log_fini(&log);
}

int main(void)
{
    static const size_t places[] = { 10, 80, 100, 113, 130, 5000, 80000, 300000, 1000000 };

    for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
        run(&(struct trouble){ .what = DELAY, .is_sealed = is_sealed });
        run(&(struct trouble){ .what = HOLD, .after = 5000, .is_sealed = is_sealed });
        run(&(struct trouble){ .what = HOLD, .after = 200000, .is_sealed = is_sealed });
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            for (int what = RESET; what <= CLOSE; what++)
                run(&(struct trouble){ .what = what, .after = places[i], .is_sealed = is_sealed });
    }
    return test_end();
}
