/* SPDX-License-Identifier: Apache-2.0
 *
 * The tcp transport, with ranks as processes: it conforms; both connect at once, a thousand times (TEST_LONG=1: ten
 * thousand); a star of the engine's messages; one that is killed while all sleep, one that leaves, one whose connection
 * is reset; strangers at the port; a rank that is dropped behind its proof; a job with another secret; several streams,
 * of which one is lost; one port for the ranks of a host, of which the first one is idle, or one has ended; another
 * host with the same address; lengths that disagree. And one pair of peers in this process, over a connection that is
 * cut at every byte, in clear and sealed; sealed also with any byte changed, and with someone who listens.
 */
#include "../test.h"
#include "base/clock.h"
#include "collectives/transport/tcp/tcp.h"
#include "collectives/transport/tcp/tcp_mesh.h"
#include "conformance.h"
#include "peers_of_boot.h"
#include "shared_boot.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGERS = 300, TIMEOUT_MS = 60000, ABSENT_SILENCE_MS = 1000 };

struct job {
    void (*run)(struct conformance *c);
    int size, killed; /* the rank that ends by SIGKILL, or -1 */
    int connects;     /* all are connected with rank 0 before it begins */
    int opens;        /* the transport is opened that often, and each time both ranks connect at once; 0: once */
    int is_quiet;     /* error lines are what is wanted */
    int has_strangers, other_secret;
    int is_sealed;   /* connections are encrypted */
    int is_mixed;    /* rank 1 has no AES */
    int is_refused;  /* the start fails: rank 0 has too few descriptors */
    int descriptors; /* how many more rank 0 may open at most; 0: not limited */
    int family;      /* other addresses are hidden; 0: none */
    int streams;     /* connections with each rank of another host; 0: 1 */
    int second_host; /* ranks from this one on are on another host; 0: all are on one */
};

static struct halay_address *shown; /* rank 0's port, for the test's process */

/* ---- a bootstrap with a secret, and a moment at which the port is known and open ---- */

struct test_boot {
    struct halay_boot base;
    struct halay_boot *under;
    const struct job *job;
    struct halay_address port; /* rank 0's */
    int held[STRANGERS];
};

/* Some say nothing, some rubbish, some a hello without the key; all hold on. */
static void send_strangers(struct test_boot *b)
{
    struct store_handshake h;
    unsigned char wrong[HALAY_SECRET_BYTES] = { 9 };
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(&b->port, &to);

    for (int i = 0; i < STRANGERS; i++) {
        b->held[i] = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(b->held[i] >= 0);
        if (!CHECK(connect(b->held[i], (struct sockaddr *)&to, length) == 0, "%s", strerror(errno)))
            return;
        store_make_hello(&h, wrong, HALAY_TCP_VERSION, 1);
        if (i % 3)
            (void)!send(b->held[i], i % 3 == 1 ? (void *)&h : (void *)"GET / HTTP/1.1\r\n\r\n",
                        i % 3 == 1 ? STORE_HELLO_BYTES : 18, MSG_NOSIGNAL);
    }
}

static void keep_family(struct halay_tcp_record *record, uint16_t family)
{
    int kept = 0;

    for (int i = 0; i < HALAY_ADDRESSES_MAX; i++)
        if (record->addresses[i].family == family)
            record->addresses[kept++] = record->addresses[i];
    while (kept < HALAY_ADDRESSES_MAX)
        record->addresses[kept++].family = 0;
}

/* Of 40 addresses, most of them bridges', the likely ones are kept, and the loopback. */
static void check_order_of_addresses(void)
{
    struct halay_own_address own[40];
    struct halay_address chosen[HALAY_ADDRESSES_MAX];

    for (int i = 0; i < 40; i++)
        own[i] = (struct halay_own_address){ .kind = HALAY_INTERFACE_BRIDGE, .address.port = (uint16_t)i };
    own[3].kind = HALAY_INTERFACE_LOOPBACK;
    own[20].kind = HALAY_INTERFACE_OTHER;
    own[30].kind = own[31].kind = HALAY_INTERFACE_PHYSICAL;
    own[39].kind = HALAY_INTERFACE_DEFAULT;
    for (int max = 5; max <= HALAY_ADDRESSES_MAX; max++) {
        CHECK(halay_addresses_choose(own, 40, max, chosen) == max);
        CHECK(chosen[0].port == 39 && chosen[1].port == 30 && chosen[2].port == 31 && chosen[3].port == 20);
        CHECK(chosen[max - 1].port == 3 && (max == 5 || chosen[4].port == 0));
    }
    CHECK(halay_addresses_choose(own, 4, 16, chosen) == 4 && chosen[0].port == 0 && chosen[3].port == 3);
    own[17].kind = HALAY_INTERFACE_LOOPBACK; /* 15 before it */
    CHECK(halay_addresses_choose(own, 18, 16, chosen) == 16 && chosen[15].port == 3);
    own[3].kind = own[17].kind = HALAY_INTERFACE_BRIDGE;
    CHECK(halay_addresses_choose(own, 40, 16, chosen) == 16 && chosen[15].port == 11);
    CHECK(halay_addresses_choose(own, 0, 16, chosen) == 0);
}

/* Of Amazon's and Google's interfaces, and of another one. */
static void check_flows(void)
{
    CHECK(halay_flows_of(0x1d0f, 25000) == 5 && halay_flows_of(0x1d0f, 100000) == 8 && halay_flows_of(0x1d0f, -1) == 4);
    CHECK(halay_flows_of(0x1d0f, 5000) == 1 && halay_flows_of(0x1ae0, 16000) == 2 &&
          halay_flows_of(0x15b3, 100000) == 1);
    CHECK(halay_flows_of(-1, 10000) == 1 && halay_interface_flows("lo") == 1 && halay_interface_flows("") == 1);
}

static int has_family(int family)
{
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    int count = 0, found = 0;

    CHECK(halay_own_addresses(NULL, NULL, 1, HALAY_ADDRESSES_MAX, addresses, &count) == HALAY_OK);
    const int all = count;
    CHECK(halay_own_addresses(NULL, "lo", 1, HALAY_ADDRESSES_MAX, addresses, &count) == HALAY_OK && count > 0 &&
          count <= all);
    CHECK(halay_own_addresses(NULL, "nothing", 1, HALAY_ADDRESSES_MAX, addresses, &count) == HALAY_OK && !count);
    while (count-- > 0)
        found |= addresses[count].family == family;
    return found;
}

static enum halay_status test_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                        int timeout_ms)
{
    struct test_boot *b = (struct test_boot *)boot;

    enum halay_status status = b->under->ops->allgather(b->under, mine, bytes, all, timeout_ms);
    if (status != HALAY_OK || bytes != sizeof(struct halay_tcp_record))
        return status;
    struct halay_tcp_record *place = all; /* rank 0's */
    for (int r = 0; b->job->family && r < boot->size; r++)
        keep_family(&place[r], (uint16_t)b->job->family);
    for (int i = 0; i < HALAY_ADDRESSES_MAX && place->addresses[i].family; i++)
        b->port = place->addresses[i]; /* the last one is a loopback */
    if (b->job->is_mixed)
        place[1].has_aes = 0;
    if (b->job->has_strangers && boot->rank == 1)
        send_strangers(b);
    return status;
}

static void test_secret(struct halay_boot *boot, unsigned char *secret)
{
    const struct test_boot *b = (struct test_boot *)boot;

    memset(secret, b->job->other_secret && boot->rank ? 2 : 1, HALAY_SECRET_BYTES);
}

static const struct halay_boot_ops test_ops = { .name = "test", .allgather = test_allgather, .secret = test_secret };

/* ---- ranks ---- */

static char last_line[512];
static int lines;

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg, (void)level;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static struct ifaddrs *interfaces; /* instead of this host's (the linker has these called); NULL: this host's */

int __real_getifaddrs(struct ifaddrs **all);
int __wrap_getifaddrs(struct ifaddrs **all);
void __real_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all);

int __wrap_getifaddrs(struct ifaddrs **all)
{
    *all = interfaces;
    return interfaces ? 0 : __real_getifaddrs(all);
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
    if (all != interfaces)
        __real_freeifaddrs(all);
}

/* Other hosts are told some of 40 addresses, with a warning. Each of them is known to be this host's, without one. */
static void check_many_addresses(void)
{
    enum { MANY = 40 };
    char name[] = "bridge", text[128];
    struct sockaddr_in at[MANY];
    struct ifaddrs list[MANY];
    struct halay_address addresses[HALAY_ADDRESSES_ALL];
    struct halay_log log;
    int count, all, listener;

    for (int i = 0; i < MANY; i++) {
        at[i] = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001 + (unsigned)i) };
        list[i] = (struct ifaddrs){ .ifa_next = i + 1 < MANY ? &list[i + 1] : NULL,
                                    .ifa_name = name,
                                    .ifa_flags = IFF_UP,
                                    .ifa_addr = (struct sockaddr *)&at[i] };
    }
    halay_log_init(&log, HALAY_LOG_WARNING);
    log.write = drop_line;
    interfaces = list;
    CHECK(halay_addresses_list(&log, NULL, addresses, &all) == HALAY_OK && all == MANY);
    for (int i = 0; i < MANY; i++)
        CHECK(halay_address_is_among((struct sockaddr *)&at[i], addresses, all), "address %d", i);
    CHECK(halay_listen(&log, NULL, 0, &listener, NULL, NULL) == HALAY_OK && !close(listener)); /* nobody is told */
    CHECK(!lines, "'%s'", last_line);
    for (int max = HALAY_ADDRESSES_MAX; max > 0; max -= 6, lines = 0) {
        CHECK(halay_listen(&log, NULL, max, &listener, addresses, &count) == HALAY_OK && count == max);
        snprintf(text, sizeof text, "this host has 40 addresses; other hosts get %d of them", max);
        CHECK(lines == 1 && strstr(last_line, text), "%d lines: '%s'", lines, last_line);
        close(listener);
    }
    CHECK(halay_addresses_list(&log, "10.0.0.16/28", addresses, &all) == HALAY_OK && all == 16 &&
          addresses[0].bytes[3] == 16 && addresses[15].bytes[3] == 31);
    CHECK(halay_addresses_list(&log, "10.0.0.40/32", addresses, &all) == HALAY_OK && all == 1);
    CHECK(halay_addresses_list(&log, "0.0.0.0/0", addresses, &all) == HALAY_OK && all == MANY);
    CHECK(halay_addresses_list(&log, "::/0", addresses, &all) == HALAY_OK && !all);
    const struct halay_network elsewhere = { .interface = "eth9,192.168.0.0/16" };
    CHECK(halay_listen(&log, &elsewhere, 1, &listener, addresses, &count) == HALAY_ERR_CONFIG && lines == 1 &&
              strstr(last_line, "this host has no address in network 'eth9,192.168.0.0/16'; it has: bridge 10.0.0.1, "
                                "bridge 10.0.0.2, "),
          "'%s'", last_line);
    lines = 0;
    *last_line = 0;
    interfaces = NULL;
    halay_log_fini(&log);
}

/* The next descriptor and this number after it are the last; a few may be opened before more are asked for. */
static void limit_descriptors(int most)
{
    int next = dup(STDERR_FILENO);
    struct rlimit limit = { .rlim_cur = (rlim_t)(next + 8), .rlim_max = (rlim_t)(next + most) };

    REQUIRE(next >= 0 && !close(next) && !setrlimit(RLIMIT_NOFILE, &limit));
}

/* Returns nonzero if no socket of this process listens for other hosts but at this port. */
static int has_no_other_port(uint16_t port)
{
    int is_right = 1;

    for (int fd = 0; fd < 1000; fd++) {
        struct sockaddr_storage at;
        struct halay_address address;
        int listens = 0;
        socklen_t length = sizeof listens, other = sizeof at;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) < 0 || !listens ||
            getsockname(fd, (struct sockaddr *)&at, &other) < 0 || at.ss_family == AF_UNIX)
            continue;
        (void)halay_address_take((struct sockaddr *)&at, 0, &address);
        is_right &= ntohs(((struct sockaddr_in *)&at)->sin_port) == port; /* at one place in both families */
    }
    return is_right;
}

/* How many connections give their other end up after so much silence. */
static int count_patient(int silence_ms)
{
    int count = 0;

    for (int fd = 0; fd < 1000; fd++) {
        int has = 0, asks = 0;
        socklen_t length = sizeof has, other = sizeof asks;
        count += getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &has, &length) == 0 && has == silence_ms &&
                 getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &asks, &other) == 0 && asks;
    }
    return count;
}

/* Rank 0 has too few: all know it at once, and by whom. */
static void check_too_few(enum halay_status status, int rank)
{
    CHECK(status == HALAY_ERR_SYSTEM, "rank %d: %s", rank, halay_status_string(status));
    CHECK(strstr(last_line,
                 rank ? "has opened no port for the other ranks" : "are needed for connections of rank 0 with 4 ranks"),
          "rank %d: '%s'", rank, last_line);
}

static enum halay_status finish(struct conformance *c, struct halay_transfer *x)
{
    struct halay_link *link = c->link;
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && !halay_transfer_is_done(x)) {
        uint32_t token = halay_bell_arm(c->bell);
        status = link->ops->progress(link);
        if (status == HALAY_OK && !halay_transfer_is_done(x))
            conformance_sleep(link, c->bell, token, -1);
        else
            halay_bell_disarm(c->bell);
    }
    return status;
}

static void bell_open(struct halay_bell *bell, struct halay_link *link)
{
    halay_bell_init(bell, NULL);
    CHECK(halay_bell_watch(bell, link->ops->event_fd(link)) == HALAY_OK);
}

/* Each sends to the next at once, and so connects with it. */
static void open_often(const struct job *job, const struct halay_tcp_how *how, struct halay_boot *boot,
                       struct halay_peers *peers)
{
    struct halay_bell bell;
    struct conformance opened = { .bell = &bell }, *c = &opened;

    for (int i = 0; i < job->opens && !test_failed; i++) {
        struct halay_transfer in = { 0 }, out = { 0 };
        int word = 0, mine = boot->rank * 100000 + i, from = (boot->rank + job->size - 1) % job->size;
        if (!CHECK(halay_tcp_open(boot->log, how, boot, peers, &c->link) == HALAY_OK, "open %d", i))
            return;
        struct halay_link *link = c->link;
        bell_open(&bell, link);
        link->ops->send(link, (boot->rank + 1) % job->size, 1, &mine, sizeof mine, &out);
        link->ops->recv(link, from, 1, &word, sizeof word, &in);
        CHECK(finish(c, &in) == HALAY_OK && finish(c, &out) == HALAY_OK && word == from * 100000 + i, "open %d", i);
        link->ops->close(link);
        halay_bell_fini(&bell);
    }
}

static int is_open(const struct halay_address *address)
{
    struct sockaddr_storage to;
    socklen_t length = halay_address_sockaddr(address, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0);
    int is_there = connect(fd, (struct sockaddr *)&to, length) == 0;
    close(fd);
    return is_there;
}

static void run_open(const struct job *job, const struct halay_tcp_how *how, struct test_boot *boot,
                     struct halay_peers *peers)
{
    struct halay_bell bell;
    struct conformance c = { .bell = &bell, .seed = 1, .large = 1 << 20, .iterations = 500, .boot = &boot->base };
    int rank = boot->base.rank;

    enum halay_status status = halay_tcp_open(boot->base.log, how, &boot->base, peers, &c.link);
    if (job->is_refused) {
        check_too_few(status, rank);
    } else if (job->other_secret) {
        CHECK(status == HALAY_ERR_TIMEOUT, "rank %d: %s", rank, halay_status_string(status));
    } else if (CHECK(status == HALAY_OK, "%s", halay_status_string(status))) {
        int streams = job->streams ? job->streams : 1, others = rank ? 1 : job->size - 1;
        int wanted = job->connects ? streams * others : 0, has = count_patient(how->silence_ms);
        CHECK(has == wanted, "rank %d: %d connections", rank, has);
        CHECK(rank || is_open(&boot->port), "the port stays open");
        CHECK(job->second_host || has_no_other_port(boot->port.port), "rank %d has a port of its own", rank);
        *shown = boot->port;
        bell_open(&bell, c.link);
        job->run(&c);
        if (c.link)
            c.link->ops->close(c.link);
        halay_bell_fini(&bell);
    }
}

static void job_absent(struct conformance *c);

static int run_rank(const struct job *job, struct shared_board *board, int rank)
{
    struct halay_log log;
    struct halay_peers *peers;
    struct test_boot boot = { .job = job };

    alarm(200);
    halay_log_init(&log, HALAY_LOG_ERROR);
    log.rank = rank;
    log.write = job->is_quiet ? drop_line : NULL;
    boot.under = shared_boot_create(board, rank, &log);
    boot.base = (struct halay_boot){ .ops = &test_ops, .rank = rank, .size = job->size, .log = &log };
    const char *node = job->second_host && rank >= job->second_host ? "second" : NULL;
    if (!CHECK(peers_of_boot(&log, &boot.base, node, TIMEOUT_MS, &peers) == HALAY_OK))
        return 1;
    halay_peers_set_grace(peers, 200000); /* close notices come by message */
    if (job->descriptors && rank == 0)
        limit_descriptors(job->descriptors);
    const struct halay_tcp_how how = { .timeout_ms = job->other_secret  ? 1000
                                                     : job->second_host ? 10 * TIMEOUT_MS
                                                                        : TIMEOUT_MS,
                                       .silence_ms = job->run == job_absent ? ABSENT_SILENCE_MS : 2500,
                                       .streams = job->streams ? job->streams : 1,
                                       .is_sealed = job->is_sealed,
                                       .connects = job->connects };
    if (job->opens)
        open_often(job, &how, &boot.base, peers);
    else
        run_open(job, &how, &boot, peers);
    halay_peers_destroy(peers);
    boot.under->ops->destroy(boot.under);
    halay_log_fini(&log);
    return conformance_failed() || test_failed;
}

static void run(const struct job *job)
{
    struct shared_board *board = shared_board_create(job->size);
    pid_t pids[8];
    int status;

    fflush(stdout);
    *shown = (struct halay_address){ 0 };
    for (int r = 0; r < job->size; r++) {
        REQUIRE((pids[r] = fork()) >= 0);
        if (!pids[r]) {
            test_failed = 0; /* a rank answers for itself */
            int failed = run_rank(job, board, r);
            fflush(stdout);
            _exit(failed);
        }
    }
    for (int r = 0; r < job->size; r++) {
        REQUIRE(waitpid(pids[r], &status, 0) == pids[r]);
        if (r == job->killed)
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "rank %d of %d", r, job->size);
        else
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d of %d ended with %#x", r, job->size, status);
    }
    CHECK(!shown->family || !is_open(shown), "the port is closed with the last transport");
    shared_board_destroy(board);
}

/* ---- jobs ---- */

#define CONTROL halay_tag(HALAY_CONTROL_GROUP, 0, 0)

/* Everybody to rank 0, and back. */
static void job_star(struct conformance *c)
{
    struct halay_link *link = c->link;
    struct halay_transfer x = { 0 };

    for (int round = 0; round < 50; round++)
        for (int r = 1; r < link->size; r++) {
            int32_t word = link->rank ? 100 * link->rank + round : -1;
            if (link->rank == 0) {
                link->ops->recv(link, r, CONTROL + 1, &word, sizeof word, &x);
                CHECK(finish(c, &x) == HALAY_OK && word == 100 * r + round);
                link->ops->send(link, r, CONTROL + 2, &word, sizeof word, &x);
                CHECK(finish(c, &x) == HALAY_OK);
            } else if (r == link->rank) {
                link->ops->send(link, 0, CONTROL + 1, &word, sizeof word, &x);
                CHECK(finish(c, &x) == HALAY_OK);
                word = 0;
                link->ops->recv(link, 0, CONTROL + 2, &word, sizeof word, &x);
                CHECK(finish(c, &x) == HALAY_OK && word == 100 * r + round);
            }
        }
}

static void kill_self(void *arg)
{
    (void)arg;
    raise(SIGKILL);
}

static void job_death(struct conformance *c)
{
    conformance_death(c, 1, kill_self, NULL);
}

/* Rank 0 sleeps with a receive from each; the last rank dies, the others leave when rank 0 says so. */
static void job_death_asleep(struct conformance *c)
{
    struct halay_link *link = c->link;
    struct halay_transfer x[8] = { { 0 } };
    int last = link->size - 1;
    char byte = 0, bytes[8];

    if (link->rank == last)
        raise(SIGKILL);
    if (link->rank) {
        link->ops->recv(link, 0, 3, &byte, 1, &x[0]);
        while (!halay_transfer_is_done(&x[0])) /* processes of this host are watched: it may have heard of the death */
            if (finish(c, &x[0]) != HALAY_OK)
                CHECK(link->failed_peer == last && !link->lost[0]);
        return;
    }
    for (int r = 1; r < link->size; r++)
        link->ops->recv(link, r, 4, &bytes[r], 1, &x[r]);
    CHECK(finish(c, &x[last]) == HALAY_ERR_PEER && link->failed_peer == last && link->lost[last]);
    for (int r = 1; r < link->size; r++)
        link->ops->cancel(link, &x[r]);
    for (int r = 1; r < last; r++) {
        link->ops->send(link, r, 3, &byte, 1, &x[r]);
        while (!halay_transfer_is_done(&x[r]) && link->ops->progress(link) == HALAY_ERR_PEER)
            ;
        CHECK(halay_transfer_is_done(&x[r]), "who is not lost is still reached");
    }
}

/* Rank 1 computes for longer than a host may be silent, while more is on its way than the systems buffer. */
static void job_absent(struct conformance *c)
{
    enum { BYTES = 32 << 20 };
    struct halay_link *link = c->link;
    struct halay_transfer x = { 0 };
    char *buf = malloc(BYTES);

    REQUIRE(buf);
    memset(buf, link->rank ? 0 : 5, BYTES);
    if (link->rank == 0) {
        link->ops->send(link, 1, 5, buf, BYTES, &x);
    } else {
        link->ops->recv(link, 0, 5, buf, BYTES, &x);
        CHECK(link->ops->progress(link) == HALAY_OK); /* the CTS goes out */
        (void)poll(NULL, 0, 3 * ABSENT_SILENCE_MS);
    }
    CHECK(finish(c, &x) == HALAY_OK, "rank %d", link->rank);
    CHECK(buf[0] == 5 && buf[BYTES - 1] == 5);
    free(buf);
}

static void job_leave(struct conformance *c)
{
    conformance_leave(c);
}

/* One byte from a rank to another; this rank is one of them. */
static enum halay_status give(struct conformance *c, int from, int to)
{
    struct halay_transfer x = { 0 };
    char byte = 'x';

    if (c->link->rank == from)
        c->link->ops->send(c->link, to, 7, &byte, 1, &x);
    else
        c->link->ops->recv(c->link, from, 7, &byte, 1, &x);
    enum halay_status status = finish(c, &x);
    c->link->ops->cancel(c->link, &x);
    return status;
}

static void lose_stream(struct conformance *c, int fd)
{
    struct halay_transfer x = { 0 };
    char byte;

    if (c->link->rank == 0) {
        CHECK(shutdown(fd, SHUT_RDWR) == 0);
        return;
    }
    c->link->ops->recv(c->link, 0, 8, &byte, 1, &x);
    while (finish(c, &x) == HALAY_OK)
        ;
    CHECK(c->link->failed_peer == 0 && c->link->lost[0], "the rank of the lost stream");
    c->link->ops->cancel(c->link, &x);
}

/* Messages of one tag between two ranks with several streams: short ones between large ones, all in order; then one
 * stream is lost, which the other rank takes for the end of rank 0. */
static void job_streams(struct conformance *c)
{
    enum { COUNT = 40, LARGE = 300000 };
    static unsigned char bytes[COUNT][LARGE];
    static struct halay_transfer x[COUNT];
    int other = 1 - c->link->rank, last = -1, has = 0;

    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 3 ? LARGE - (size_t)i : 100 + (size_t)i;
        if (c->link->rank == 0)
            memset(bytes[i], i + 1, size);
        if (c->link->rank == 0)
            c->link->ops->send(c->link, other, 5, bytes[i], size, &x[i]);
        else
            c->link->ops->recv(c->link, other, 5, bytes[i], size, &x[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t size = i % 3 ? LARGE - (size_t)i : 100 + (size_t)i;
        CHECK(finish(c, &x[i]) == HALAY_OK && bytes[i][0] == i + 1 && bytes[i][size - 1] == i + 1, "message %d", i);
    }
    CHECK(give(c, 1, 0) == HALAY_OK); /* rank 1 has all */
    for (int fd = 0; fd < 1000; fd++) {
        struct sockaddr_storage at;
        socklen_t length = sizeof at;
        if (getpeername(fd, (struct sockaddr *)&at, &length) == 0 && at.ss_family != AF_UNIX) {
            has++;
            last = fd;
        }
    }
    CHECK(has == 4, "%d connections", has);
    lose_stream(c, last);
}

/* Ranks 1 and 2 are on a second host. Rank 1, which has opened its port, does nothing while the others connect. */
static void job_idle_first(struct conformance *c)
{
    char mine = 0, all[3];

    if (c->link->rank != 1)
        CHECK(give(c, 0, 2) == HALAY_OK && give(c, 2, 0) == HALAY_OK);
    CHECK(c->boot->ops->allgather(c->boot, &mine, 1, all, TIMEOUT_MS) == HALAY_OK);
    if (c->link->rank != 2)
        CHECK(give(c, 0, 1) == HALAY_OK);
}

/* Rank 2 dies before rank 0 connects with it. Its host's port is open, and rank 1 answers. */
static void job_ended(struct conformance *c)
{
    struct halay_link *link = c->link;

    if (link->rank == 2)
        raise(SIGKILL);
    if (link->rank == 0) {
        CHECK(give(c, 1, 0) == HALAY_OK);
        CHECK(give(c, 0, 2) == HALAY_ERR_PEER && link->lost[2], "rank 2 has ended");
        while (give(c, 0, 1) == HALAY_ERR_PEER && !link->lost[1])
            ;
        return;
    }
    while (!link->lost[2])
        (void)link->ops->progress(link);
    struct halay_transfer x = { 0 }, end = { 0 };
    char byte = 0;
    link->ops->send(link, 0, 7, &byte, 1, &x);
    link->ops->recv(link, 0, 7, &byte, 1, &end);
    while (!halay_transfer_is_done(&end) && !link->lost[0])
        (void)link->ops->progress(link);
    CHECK(halay_transfer_is_done(&x) && !link->lost[0]);
    link->ops->cancel(link, &x);
    link->ops->cancel(link, &end);
}

/* ---- one pair, over a wire that this test holds in its hands ---- */

enum { GIVEN = 5, WIRETAP_BYTES = 1 << 18 };

/* Bytes that go from one end to the other are taken by forward only. */
struct pair {
    struct halay_link links[2]; /* what the ends know of them */
    struct halay_tcp_peer ends[2];
    int wires[2];
    size_t moved[2], changed; /* so far from each end; the byte from end 0 that is changed, counted from 1; 0: none */
    unsigned char *tapped;    /* what end 0 has written, of WIRETAP_BYTES; borrowed; NULL: not wanted */
};

static void pair_open(struct pair *p, struct halay_log *log, enum halay_tcp_sealing sealing)
{
    int fds[2];

    *p = (struct pair){ 0 };
    for (int i = 0; i < 2; i++) {
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
        p->links[i].log = log;
        halay_tcp_peer_init(&p->ends[i], &p->links[i], 1 - i);
        p->ends[i].connection = malloc(sizeof *p->ends[i].connection);
        REQUIRE(p->ends[i].connection && halay_tcp_connection_init(p->ends[i].connection, fds[0],
                                                                   &halay_tcp_peer_handler, &p->ends[i]) == HALAY_OK);
        p->ends[i].connection->signs.key[0] = p->ends[i].connection->checks.key[1] = (unsigned char)(1 + i);
        p->ends[i].connection->checks.key[0] = p->ends[i].connection->signs.key[1] = (unsigned char)(2 - i);
        REQUIRE(!sealing || halay_tcp_connection_seal(p->ends[i].connection, sealing == HALAY_TCP_AES) == HALAY_OK);
        p->wires[i] = fds[1];
    }
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        halay_tcp_peer_fini(&p->ends[i]);
        close(p->wires[i]);
    }
}

/* At most that many bytes of what end `from` has written. Returns how many. */
static size_t forward(struct pair *p, int from, size_t most)
{
    static unsigned char bytes[1 << 16];
    ssize_t n = recv(p->wires[from], bytes, most < sizeof bytes ? most : sizeof bytes, 0);

    if (n <= 0)
        return 0;
    if (!from && p->changed > p->moved[0] && p->changed <= p->moved[0] + (size_t)n)
        bytes[p->changed - 1 - p->moved[0]] ^= 1;
    if (!from && p->tapped && p->moved[0] + (size_t)n <= WIRETAP_BYTES)
        memcpy(p->tapped + p->moved[0], bytes, (size_t)n);
    p->moved[from] += (size_t)n;
    REQUIRE(send(p->wires[1 - from], bytes, (size_t)n, MSG_NOSIGNAL) == n);
    return (size_t)n;
}

/* What a turn of the mesh does with each end. */
static void serve_ends(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        halay_tcp_connection_flush(p->ends[i].connection);
        halay_tcp_connection_read(p->ends[i].connection);
        halay_tcp_peer_push(&p->ends[i]);
        halay_tcp_connection_flush(p->ends[i].connection);
    }
}

static int pair_is_well(const struct pair *p)
{
    return p->ends[0].status == HALAY_OK && p->ends[1].status == HALAY_OK &&
           p->ends[0].connection->status == HALAY_OK && p->ends[1].connection->status == HALAY_OK;
}

/* Messages of all kinds, of which the receiver has posted the even ones before; the wire is cut after `cut` bytes, and
 * then every `step` bytes. */
static void exchange_cut(struct halay_log *log, size_t cut, size_t step, enum halay_tcp_sealing sealing)
{
    static const size_t sizes[GIVEN] = { 100, 300, 70000, 66000, 5 };
    static unsigned char sent[GIVEN][70000], got[GIVEN][70000];
    struct halay_transfer out[GIVEN] = { { 0 } }, in[GIVEN] = { { 0 } };
    struct pair p;

    pair_open(&p, log, sealing);
    for (uint32_t i = 0; i < GIVEN; i++) {
        uint64_t tag = halay_tag(i == 4 ? HALAY_CONTROL_GROUP : 0, 0, i);
        memset(sent[i], (int)i + 1, sizes[i]);
        memset(got[i], 0, sizes[i]);
        if (i % 2 == 0)
            halay_tcp_peer_receive(&p.ends[1], 0, tag, got[i], sizes[i], &in[i]);
        halay_tcp_peer_send(&p.ends[0], 1, tag, sent[i], sizes[i], &out[i]);
    }
    for (size_t moved = 0, turns = 0; turns < 1000000 && pair_is_well(&p); turns++) {
        serve_ends(&p);
        size_t forth = forward(&p, 0, !moved && cut ? cut : step), back = forward(&p, 1, step);
        moved += forth;
        serve_ends(&p);
        if (!forth && !back && in[1].state == HALAY_TRANSFER_IDLE && halay_transfer_is_done(&in[4])) {
            halay_tcp_peer_receive(&p.ends[1], 0, halay_tag(0, 0, 1), got[1], sizes[1], &in[1]);
            halay_tcp_peer_receive(&p.ends[1], 0, halay_tag(0, 0, 3), got[3], sizes[3], &in[3]);
        } else if (!forth && !back && halay_transfer_is_done(&in[3])) {
            break;
        }
    }
    CHECK(pair_is_well(&p), "cut at %zu, then each %zu, sealing %d", cut, step, sealing);
    CHECK(p.ends[0].in_flight == p.ends[1].owed, "%u units in flight, of which %u are owed", p.ends[0].in_flight,
          p.ends[1].owed);
    for (int i = 0; i < GIVEN; i++)
        CHECK(halay_transfer_is_done(&in[i]) && halay_transfer_is_done(&out[i]) && !memcmp(sent[i], got[i], sizes[i]),
              "message %d, cut at %zu, then each %zu", i, cut, step);
    pair_close(&p);
}

/* Lengths that disagree are an error, whichever kind of frame brings them. */
static void check_lengths(struct halay_log *log)
{
    static const size_t lengths[][2] = { { 100, 101 }, { 100, 70000 }, { 70000, 100 }, { 70000, 70001 } };
    static unsigned char a[70001], b[70001];

    for (int i = 0; i < 8; i++) {
        struct halay_transfer out = { 0 }, in = { 0 };
        struct pair p;
        int is_early = i % 2;
        pair_open(&p, log, HALAY_TCP_CLEAR);
        if (!is_early)
            halay_tcp_peer_receive(&p.ends[1], 0, 1, b, lengths[i / 2][1], &in);
        halay_tcp_peer_send(&p.ends[0], 1, 1, a, lengths[i / 2][0], &out);
        for (int turn = 0; turn < 20 && pair_is_well(&p); turn++) {
            serve_ends(&p);
            forward(&p, 0, SIZE_MAX);
            forward(&p, 1, SIZE_MAX);
            if (is_early && turn == 5)
                halay_tcp_peer_receive(&p.ends[1], 0, 1, b, lengths[i / 2][1], &in);
        }
        CHECK(p.ends[0].status == HALAY_ERR_FORMAT || p.ends[1].status == HALAY_ERR_FORMAT, "%zu and %zu",
              lengths[i / 2][0], lengths[i / 2][1]);
        pair_close(&p);
    }
}

/* Serves both streams of both ends and moves bytes over the second one, and with has_first over the first, until all is
 * quiet. Returns the bytes from end 0 over the second one. */
static size_t run_streams(struct pair *p, const int side[2], int has_first)
{
    static unsigned char bytes[1 << 16];
    size_t second = 0;
    int moved = 1;

    while (moved) {
        moved = 0;
        for (int i = 0; i < 2; i++) {
            for (struct halay_tcp_connection *c = p->ends[i].connection; c; c = c->next) {
                halay_tcp_connection_flush(c);
                moved |= halay_tcp_connection_read(c);
                halay_tcp_peer_push(&p->ends[i]);
                halay_tcp_connection_flush(c);
            }
            ssize_t n = recv(side[i], bytes, sizeof bytes, 0);
            REQUIRE(n <= 0 || send(side[1 - i], bytes, (size_t)n, MSG_NOSIGNAL) == n);
            moved |= n > 0 || (i || has_first ? forward(p, i, SIZE_MAX) > 0 : 0);
            second += !i && n > 0 ? (size_t)n : 0;
        }
    }
    return second;
}

/* With two streams, of which the first is slow, a send is posted before its receive: it takes the second one or, as the
 * next message does, which has another length, the first. */
static void check_overtaken(struct halay_log *log)
{
    static const size_t sizes[] = { 70000, 70001 };
    static unsigned char a[70001], b[70001];
    struct pair p;
    size_t second = 0;
    int side[2], fds[2];

    pair_open(&p, log, HALAY_TCP_CLEAR);
    for (int i = 0; i < 2; i++) {
        struct halay_tcp_connection *c = malloc(sizeof *c);
        REQUIRE(c && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
        REQUIRE(halay_tcp_connection_init(c, fds[0], &halay_tcp_peer_handler, &p.ends[i]) == HALAY_OK);
        p.ends[i].connection->next = c;
        p.ends[i].streams = 2;
        side[i] = fds[1];
    }
    for (int i = 0; i < 2; i++) {
        struct halay_transfer out = { 0 }, in = { 0 };
        memset(a, i + 1, sizes[i]);
        halay_tcp_peer_send(&p.ends[0], 1, 1, a, sizes[i], &out);
        halay_tcp_connection_flush(p.ends[0].connection);
        halay_tcp_peer_receive(&p.ends[1], 0, 1, b, sizes[i], &in);
        second += run_streams(&p, side, 0);
        second += run_streams(&p, side, 1);
        CHECK(pair_is_well(&p) && halay_transfer_is_done(&in) && halay_transfer_is_done(&out), "message %d", i);
        CHECK(b[0] == i + 1 && b[sizes[i] - 1] == i + 1);
    }
    CHECK(second >= sizes[0] && second < sizes[0] + sizes[1], "%zu bytes over the second stream", second);
    pair_close(&p);
    close(side[0]);
    close(side[1]);
}

/* One bit of a signed frame is changed on its way. */
static void check_changed(struct halay_log *log)
{
    enum { WIRE = HALAY_TCP_HEAD_BYTES + 10 + STORE_MAC_BYTES };

    for (int at = 0; at < WIRE; at++) {
        struct halay_transfer out = { 0 }, in = { 0 };
        unsigned char wire[WIRE], got[10];
        struct pair p;
        pair_open(&p, log, HALAY_TCP_CLEAR);
        halay_tcp_peer_receive(&p.ends[1], 0, halay_tag(HALAY_CONTROL_GROUP, 0, 1), got, sizeof got, &in);
        halay_tcp_peer_send(&p.ends[0], 1, halay_tag(HALAY_CONTROL_GROUP, 0, 1), "0123456789", 10, &out);
        serve_ends(&p);
        REQUIRE(recv(p.wires[0], wire, sizeof wire, 0) == WIRE);
        wire[at] ^= 1;
        REQUIRE(send(p.wires[1], wire, sizeof wire, MSG_NOSIGNAL) == WIRE);
        serve_ends(&p);
        CHECK(!halay_transfer_is_done(&in), "byte %d of a signed frame was changed", at);
        pair_close(&p);
    }
}

enum { SHORT_BYTES = 100, LONG_BYTES = 9000, LARGE_BYTES = 70000, KINDS = 3 };

/* Three messages, of which one is gathered, one sealed alone and one large, until nothing moves; then end 0 closes. */
static void exchange_sealed(struct pair *p, struct halay_transfer in[KINDS], struct halay_transfer out[KINDS])
{
    static const size_t sizes[KINDS] = { SHORT_BYTES, LONG_BYTES, LARGE_BYTES };
    static unsigned char sent[LARGE_BYTES], got[KINDS][LARGE_BYTES];

    for (size_t i = 0; i < LARGE_BYTES; i++)
        sent[i] = (unsigned char)(i * i % 251);
    memset(got, 0, sizeof got);
    for (int i = 0; i < KINDS; i++) {
        in[i] = out[i] = (struct halay_transfer){ 0 };
        halay_tcp_peer_receive(&p->ends[1], 0, halay_tag(0, 0, (uint32_t)i), got[i], sizes[i], &in[i]);
    }
    serve_ends(p); /* the CTS is there first, so that what end 0 writes is always the same */
    forward(p, 1, SIZE_MAX);
    for (int i = 0; i < KINDS; i++)
        halay_tcp_peer_send(&p->ends[0], 1, halay_tag(0, 0, (uint32_t)i), sent, sizes[i], &out[i]);
    do
        serve_ends(p);
    while (forward(p, 0, SIZE_MAX));
    REQUIRE(shutdown(p->wires[1], SHUT_WR) == 0);
    serve_ends(p);
    for (int i = 0; i < KINDS; i++)
        CHECK(!halay_transfer_is_done(&in[i]) || !memcmp(sent, got[i], sizes[i]), "what is taken is what was sent");
}

/* Any byte that is changed on its way ends the connection, and nothing that came after it is taken. */
static void check_sealed_change(struct halay_log *log, enum halay_tcp_sealing sealing)
{
    struct halay_transfer in[KINDS], out[KINDS];
    struct pair p;

    pair_open(&p, log, sealing);
    exchange_sealed(&p, in, out);
    CHECK(pair_is_well(&p) && halay_transfer_is_done(&in[0]) && halay_transfer_is_done(&in[1]) &&
          halay_transfer_is_done(&in[2]) && halay_transfer_is_done(&out[2]));
    size_t all = p.moved[0];
    pair_close(&p);
    /* Each byte of heads, short messages and macs, and some of what is between. */
    for (size_t at = 1; at <= all; at += at < 200 || all - at < 100 || (at > 9000 && at < 9300) ? 1 : 137) {
        pair_open(&p, log, sealing);
        p.changed = at;
        exchange_sealed(&p, in, out);
        const struct halay_tcp_connection *c = p.ends[1].connection;
        CHECK(!halay_transfer_is_done(&in[2]), "byte %zu of %zu was changed", at, all);
        CHECK(c->status == HALAY_ERR_AUTH || c->status == HALAY_ERR_FORMAT || c->has_ended, "byte %zu: %s", at,
              halay_status_string(c->status));
        pair_close(&p);
    }
}

/* Nothing of a message is to be seen on the wire, nor twice the same. */
static void check_wiretap(struct halay_log *log)
{
    static unsigned char taps[3][WIRETAP_BYTES], part[16];
    struct halay_transfer in[KINDS], out[KINDS];

    for (size_t i = 0; i < sizeof part; i++)
        part[i] = (unsigned char)(i * i % 251);
    for (int sealing = HALAY_TCP_CLEAR; sealing <= HALAY_TCP_AES; sealing++) {
        struct pair p;
        if (sealing == HALAY_TCP_AES && !halay_seal_has_aes())
            continue;
        pair_open(&p, log, (enum halay_tcp_sealing)sealing);
        p.tapped = taps[sealing];
        exchange_sealed(&p, in, out);
        CHECK(!memmem(taps[sealing], p.moved[0], part, sizeof part) == (sealing != HALAY_TCP_CLEAR), "sealing %d",
              sealing);
        int repeats = 0; /* 251 bytes are sent again and again */
        for (size_t at = LONG_BYTES / 2; at < LONG_BYTES / 2 + 251; at++)
            repeats += !memcmp(taps[sealing] + at, taps[sealing] + at + 251, sizeof part);
        CHECK(!repeats == (sealing != HALAY_TCP_CLEAR), "sealing %d: %d", sealing, repeats);
        pair_close(&p);
    }
}

/* A send is done once the system has its last record, not when that is sealed; until then it can be cancelled. */
static void check_sealed_full(struct halay_log *log, enum halay_tcp_sealing sealing)
{
    static unsigned char sent[1 << 20], got[1 << 20];

    for (int is_cancelled = 0; is_cancelled < 2; is_cancelled++) {
        struct halay_transfer in = { 0 }, out = { 0 };
        struct pair p;
        pair_open(&p, log, sealing);
        memset(sent, 7, sizeof sent);
        halay_tcp_peer_receive(&p.ends[1], 0, 1, got, sizeof got, &in);
        halay_tcp_peer_send(&p.ends[0], 1, 1, sent, sizeof sent, &out);
        serve_ends(&p);
        forward(&p, 1, SIZE_MAX);
        for (int turn = 0; turn < 20; turn++)
            serve_ends(&p); /* nobody takes it */
        struct halay_tcp_connection *c = p.ends[0].connection;
        CHECK(halay_tcp_seal_is_writing(c->seal) && c->is_full && !halay_transfer_is_done(&out));
        if (is_cancelled) {
            halay_tcp_peer_cancel(&p.ends[0], &out);
            memset(sent, 9, sizeof sent); /* its buffer is not looked at any more */
        }
        while (forward(&p, 0, SIZE_MAX))
            serve_ends(&p);
        CHECK(pair_is_well(&p) && !halay_tcp_seal_is_writing(c->seal));
        CHECK(is_cancelled || (halay_transfer_is_done(&out) && halay_transfer_is_done(&in)));
        CHECK(got[0] == 7 &&
              (is_cancelled ? in.moved < sizeof got && !memchr(got, 9, sizeof got) : !memcmp(sent, got, sizeof got)));
        memset(got, 0, sizeof got);
        pair_close(&p);
    }
}

static void check_sealed(struct halay_log *log)
{
    for (int sealing = HALAY_TCP_CHACHA; sealing <= HALAY_TCP_AES; sealing++) {
        if (sealing == HALAY_TCP_AES && !halay_seal_has_aes())
            continue;
        for (size_t cut = 1; cut < 1000; cut++)
            exchange_cut(log, cut, SIZE_MAX, (enum halay_tcp_sealing)sealing);
        for (size_t step = 4; step < 40; step++)
            exchange_cut(log, 0, step * step, (enum halay_tcp_sealing)sealing);
        check_sealed_change(log, (enum halay_tcp_sealing)sealing);
        check_sealed_full(log, (enum halay_tcp_sealing)sealing);
    }
    check_wiretap(log);
}

static void check_pair(void)
{
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = drop_line;
    REQUIRE(store_init(&log) == HALAY_OK);
    for (size_t cut = 1; cut < 700; cut++)
        exchange_cut(&log, cut, SIZE_MAX, HALAY_TCP_CLEAR);
    for (size_t step = 1; step < 40; step++)
        exchange_cut(&log, 0, step * step, HALAY_TCP_CLEAR);
    check_sealed(&log);
    check_overtaken(&log);
    check_lengths(&log);
    check_changed(&log);
    halay_log_fini(&log);
}

/* ---- a rank 0 that drops who has sent its proof, once ---- */

static void serve_one(int listener, const unsigned char *key, int is_taken)
{
    struct store_handshake h;
    struct pollfd p = { .fd = listener, .events = POLLIN };

    REQUIRE(poll(&p, 1, TIMEOUT_MS) == 1);
    int fd = accept(listener, NULL, NULL);
    REQUIRE(fd >= 0 && recv(fd, h.hello, STORE_HELLO_BYTES, MSG_WAITALL) == STORE_HELLO_BYTES);
    CHECK(store_is_hello(&h, key));
    store_make_challenge(&h, key, HALAY_TCP_VERSION);
    REQUIRE(send(fd, h.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) == STORE_HELLO_BYTES);
    REQUIRE(recv(fd, h.proof, STORE_MAC_BYTES, MSG_WAITALL) == STORE_MAC_BYTES);
    CHECK(store_is_proof(&h, key));
    if (is_taken)
        CHECK(send(fd, "", 1, MSG_NOSIGNAL) == 1);
    close(fd);
}

static const struct halay_network here = {
    .interface = "eth99,127.0.0.0/8"
}; /* one address, so that who connects does it once */

static int connects, connects_at_poll; /* so far, and before the first poll (the linker has these called) */

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    connects++;
    return __real_connect(fd, address, length);
}

/* A child that connects as rank 1 to one of these; is_one: with one of them at first. */
static pid_t connect_child(const unsigned char *key, const struct halay_address *addresses, int count, int is_one,
                           struct halay_log *log)
{
    struct halay_address list[HALAY_ADDRESSES_MAX] = { { 0 } };
    struct halay_tcp_set set;
    struct halay_tcp_route route = { .set = &set, .rank = 1 };
    const struct store_handshake *handshake;
    enum halay_status status;
    int64_t next;

    memcpy(list, addresses, (size_t)count * sizeof *addresses);
    memcpy(route.key, key, sizeof route.key);
    fflush(stdout);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid)
        return pid;
    connects = connects_at_poll = 0;
    REQUIRE(halay_tcp_set_init(log, &set) == HALAY_OK);
    struct halay_tcp_dial *dial = halay_tcp_dial_begin(&route, list, 0, 0, halay_deadline_us(TIMEOUT_MS));
    while ((status = halay_tcp_dial_look(dial, halay_now_us(), &next)) == HALAY_IN_PROGRESS) {
        struct pollfd p = { .fd = set.epoll, .events = POLLIN };
        poll(&p, 1, halay_deadline_left_ms(next));
        halay_tcp_set_turn(&set);
    }
    CHECK(status == HALAY_OK && halay_tcp_dial_take(dial, &handshake) >= 0, "%s", halay_status_string(status));
    CHECK(!is_one || connects_at_poll == 1, "%d of %d at once", connects_at_poll, count);
    fflush(stdout);
    _exit(test_failed != 0);
}

static void check_child(pid_t pid)
{
    int status;

    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", status);
}

static void check_dropped(void)
{
    const unsigned char key[HALAY_SECRET_BYTES] = { 5 };
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    struct halay_log log;
    int listener, count;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(store_init(&log) == HALAY_OK &&
            halay_listen(&log, &here, HALAY_ADDRESSES_MAX, &listener, addresses, &count) == HALAY_OK);
    pid_t pid = connect_child(key, addresses, 1, 1, &log);
    serve_one(listener, key, 0);
    serve_one(listener, key, 1);
    check_child(pid);
    close(listener);
    halay_log_fini(&log);
}

/* ---- who does not know the secret ---- */

/* Answers with a challenge of another secret. Nothing is proved to it. */
static void serve_false(int listener)
{
    const unsigned char wrong[HALAY_SECRET_BYTES] = { 9 };
    struct store_handshake h;
    struct pollfd p = { .fd = listener, .events = POLLIN };

    REQUIRE(poll(&p, 1, TIMEOUT_MS) == 1);
    int fd = accept(listener, NULL, NULL);
    REQUIRE(fd >= 0 && recv(fd, h.hello, STORE_HELLO_BYTES, MSG_WAITALL) == STORE_HELLO_BYTES);
    store_make_challenge(&h, wrong, HALAY_TCP_VERSION);
    REQUIRE(send(fd, h.challenge, STORE_HELLO_BYTES, MSG_NOSIGNAL) == STORE_HELLO_BYTES);
    CHECK(recv(fd, h.proof, STORE_MAC_BYTES, MSG_WAITALL) <= 0, "a false challenge was answered with a proof");
    close(fd);
}

static void check_false_challenge(void)
{
    const unsigned char key[HALAY_SECRET_BYTES] = { 5 };
    struct halay_address addresses[2][HALAY_ADDRESSES_MAX];
    struct halay_log log;
    int listeners[2], count;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(store_init(&log) == HALAY_OK);
    for (int i = 0; i < 2; i++)
        REQUIRE(halay_listen(&log, &here, HALAY_ADDRESSES_MAX, &listeners[i], addresses[i], &count) == HALAY_OK);
    pid_t pid = connect_child(key, (struct halay_address[2]){ addresses[0][0], addresses[1][0] }, 2, 0, &log);
    serve_false(listeners[0]);
    serve_one(listeners[1], key, 1);
    check_child(pid);
    for (int i = 0; i < 2; i++)
        close(listeners[i]);
    halay_log_fini(&log);
}

/* ---- several addresses of rank 0 ---- */

/* A port of ours. Nobody accepts; it is closed unless it listens. */
static int port_open(int listens, struct halay_address *address)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    REQUIRE(fd >= 0 && !bind(fd, (struct sockaddr *)&in, length));
    REQUIRE(!getsockname(fd, (struct sockaddr *)&in, &length) && (!listens || !listen(fd, 8)));
    REQUIRE(halay_address_take((struct sockaddr *)&in, ntohs(in.sin_port), address));
    return fd;
}

/* The second address is asked only when the first has not answered for a while, or has failed. */
static void check_staggered(void)
{
    const unsigned char key[HALAY_SECRET_BYTES] = { 5 };
    struct halay_address own, silent, closed;
    int silent_fd = port_open(1, &silent), closed_fd = port_open(0, &closed);
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_ERROR);
    for (int i = 0; i < 3; i++) {
        int listener = port_open(1, &own);
        const struct halay_address lists[3][3] = { { own, own, own }, { silent, own }, { closed, closed, own } };
        pid_t pid = connect_child(key, lists[i], i == 1 ? 2 : 3, i < 2, &log);
        serve_one(listener, key, 1);
        check_child(pid);
        close(listener);
    }
    close(silent_fd);
    close(closed_fd);
    halay_log_fini(&log);
}

/* ---- a rank 0 that is out of descriptors for a while (the linker has these called) ---- */

static int refusals;  /* accept4 refuses that often */
static nfds_t polled; /* the most descriptors in one poll */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t bytes);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    if (!refusals)
        return __real_accept4(fd, address, length, flags);
    refusals--;
    errno = EMFILE;
    return -1;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    connects_at_poll = connects_at_poll ? connects_at_poll : connects;
    polled = count > polled ? count : polled;
    return __real_poll(fds, count, timeout);
}

/* What a fortified build calls. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t bytes)
{
    REQUIRE(count * sizeof *fds <= bytes);
    return __wrap_poll(fds, count, timeout);
}

static enum halay_tcp_claim take_any(void *arg, int rank, int stream)
{
    (void)arg, (void)stream;
    return rank == 1 ? HALAY_TCP_CLAIM_TAKE : HALAY_TCP_CLAIM_DROP;
}

static void note_taken(void *arg, int rank, int fd, const struct store_handshake *handshake)
{
    (void)rank, (void)handshake;
    *(int *)arg = fd;
}

/* Returns an acceptor of rank 1 alone, which sets *taken to the descriptor. */
static struct halay_tcp_acceptor acceptor_of(struct halay_log *log, struct halay_tcp_route *route, int size, int *taken)
{
    return (struct halay_tcp_acceptor){ .log = log,
                                        .route = route,
                                        .size = size,
                                        .proof_ms = TIMEOUT_MS,
                                        .claim = take_any,
                                        .taken = note_taken,
                                        .arg = taken };
}

/* Turns the acceptor until it has answered. Returns the bytes received; 0: it has closed the connection. */
static ssize_t acceptor_answer(struct halay_tcp_acceptor *acceptor, struct halay_tcp_set *set, int fd, void *to,
                               size_t bytes)
{
    ssize_t n;

    do {
        struct pollfd p[2] = { { .fd = set->epoll, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
        int64_t next = halay_tcp_acceptor_look(acceptor, halay_now_us());
        REQUIRE(poll(p, 2, halay_deadline_left_ms(next)) >= 0);
        halay_tcp_set_turn(set);
        n = recv(fd, to, bytes, MSG_DONTWAIT);
    } while (n < 0 && errno == EAGAIN);
    return n;
}

/* A hello that was overheard is said again; the proof that belongs to it needs the secret. */
static void check_false_proof(void)
{
    const unsigned char wrong[HALAY_SECRET_BYTES] = { 9 };
    struct halay_tcp_set set;
    struct halay_tcp_route route = { .set = &set, .key = { 5 }, .rank = 0 };
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    struct sockaddr_storage to;
    struct store_handshake h;
    struct halay_log log;
    int listener, count, taken = -1;
    char answer;

    halay_log_init(&log, HALAY_LOG_ERROR);
    struct halay_tcp_acceptor acceptor = acceptor_of(&log, &route, 2, &taken);
    REQUIRE(store_init(&log) == HALAY_OK && halay_tcp_set_init(&log, &set) == HALAY_OK &&
            halay_listen(&log, &here, HALAY_ADDRESSES_MAX, &listener, addresses, &count) == HALAY_OK &&
            halay_tcp_acceptor_open(&acceptor, listener, -1) == HALAY_OK);
    socklen_t length = halay_address_sockaddr(&addresses[0], &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&to, length) == 0);
    halay_tcp_make_hello(&h, route.key, 1, 0, 0);
    REQUIRE(send(fd, h.hello, STORE_HELLO_BYTES, MSG_NOSIGNAL) == STORE_HELLO_BYTES);
    REQUIRE(acceptor_answer(&acceptor, &set, fd, h.challenge, STORE_HELLO_BYTES) == STORE_HELLO_BYTES);
    store_make_proof(&h, wrong);
    REQUIRE(send(fd, h.proof, STORE_MAC_BYTES, MSG_NOSIGNAL) == STORE_MAC_BYTES);
    CHECK(acceptor_answer(&acceptor, &set, fd, &answer, 1) <= 0 && taken < 0, "a false proof was taken");
    close(fd);
    if (taken >= 0)
        close(taken);
    halay_tcp_acceptor_close(&acceptor);
    halay_tcp_set_fini(&set);
    halay_log_fini(&log);
}

static void check_out_of_descriptors(void)
{
    struct halay_tcp_set set;
    struct halay_tcp_route route = { .set = &set, .key = { 5 }, .rank = 0 };
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    struct halay_log log;
    int listener, count, fd = -1;

    halay_log_init(&log, HALAY_LOG_ERROR);
    struct halay_tcp_acceptor acceptor = acceptor_of(&log, &route, 2, &fd);
    REQUIRE(store_init(&log) == HALAY_OK && halay_tcp_set_init(&log, &set) == HALAY_OK &&
            halay_listen(&log, &here, HALAY_ADDRESSES_MAX, &listener, addresses, &count) == HALAY_OK);
    pid_t pid = connect_child(route.key, addresses, 1, 1, &log);
    refusals = 3;
    REQUIRE(halay_tcp_acceptor_open(&acceptor, listener, -1) == HALAY_OK);
    int turns = 0;
    for (int64_t next; fd < 0; turns++) {
        struct pollfd p = { .fd = set.epoll, .events = POLLIN };
        next = halay_tcp_acceptor_look(&acceptor, halay_now_us());
        REQUIRE(poll(&p, 1, halay_deadline_left_ms(next)) >= 0);
        halay_tcp_set_turn(&set);
    }
    CHECK(!refusals && turns < 20, "%d turns", turns);
    check_child(pid);
    close(fd);
    halay_tcp_acceptor_close(&acceptor);
    halay_tcp_set_fini(&set);
    halay_log_fini(&log);
}

/* A port of the same job on this host, where another one's was expected: of two hosts with one address, say that of a
 * bridge, and one port. */
static void check_other_host(void)
{
    struct halay_tcp_set set;
    struct halay_tcp_route route = { .set = &set, .key = { 5 }, .rank = 7 };
    struct halay_address own, other;
    struct halay_log log;
    int other_fd = port_open(1, &other), listener = port_open(1, &own);

    halay_log_init(&log, HALAY_LOG_ERROR);
    struct halay_tcp_acceptor acceptor = acceptor_of(&log, &route, 8, NULL);
    REQUIRE(!fcntl(other_fd, F_SETFL, O_NONBLOCK) && halay_tcp_set_init(&log, &set) == HALAY_OK &&
            halay_tcp_acceptor_open(&acceptor, other_fd, -1) == HALAY_OK);
    const struct halay_address addresses[] = { other, own };
    pid_t pid = connect_child(route.key, addresses, 2, 1, &log);
    struct pollfd p[] = { { .fd = set.epoll, .events = POLLIN }, { .fd = listener, .events = POLLIN } };
    while (!p[1].revents) {
        REQUIRE(poll(p, 2, TIMEOUT_MS) > 0);
        halay_tcp_set_turn(&set);
    }
    serve_one(listener, route.key, 1);
    check_child(pid);
    halay_tcp_acceptor_close(&acceptor);
    halay_tcp_set_fini(&set);
    close(listener);
    halay_log_fini(&log);
}

/* ---- a world of many hosts: a look is at the ranks of this one (of whom here each is this process) ---- */

enum { REMOTE_SIZE = 1000, LOCAL_RANKS = 3 };

/* All are like this rank, but on another node from LOCAL_RANKS on: the last bytes are its name. */
static enum halay_status remote_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                          int timeout_ms)
{
    (void)timeout_ms;
    for (int r = 0; r < boot->size; r++) {
        char *at = (char *)all + (size_t)r * bytes;
        memcpy(at, mine, bytes);
        if (r >= LOCAL_RANKS)
            at[bytes - 64] = 'x';
    }
    return HALAY_OK;
}

static void check_many_hosts(void)
{
    static const struct halay_boot_ops ops = { .name = "remote", .allgather = remote_allgather };
    struct halay_log log;
    struct halay_boot boot = { .ops = &ops, .rank = 1, .size = REMOTE_SIZE, .log = &log };
    struct halay_peers *peers;
    int node[REMOTE_SIZE], dead;

    halay_log_init(&log, HALAY_LOG_ERROR);
    REQUIRE(peers_of_boot(&log, &boot, NULL, 1000, &peers) == HALAY_OK);
    halay_peers_nodes(peers, node);
    CHECK(node[LOCAL_RANKS - 1] == 0 && node[LOCAL_RANKS] == 1 && node[REMOTE_SIZE - 1] == 1);
    polled = 0;
    CHECK(halay_peers_check(peers, &dead) == HALAY_OK && !halay_peers_has_died(peers, REMOTE_SIZE - 1));
    CHECK(polled <= LOCAL_RANKS - 1, "%lu descriptors were looked at", (unsigned long)polled);
    halay_peers_destroy(peers);
    halay_log_fini(&log);
}

/* ---- a hundred ranks, and this process may have few descriptors ---- */

enum { MANY_RANKS = 100, FEW = 64 };

/* All are like this rank, but each on a host of its own. */
static enum halay_status alike_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                         int timeout_ms)
{
    (void)timeout_ms;
    for (int r = 0; r < boot->size; r++) {
        char *at = (char *)all + (size_t)r * bytes;
        memcpy(at, mine, bytes);
        if (bytes != sizeof(struct halay_tcp_record) && r != boot->rank)
            snprintf(at + bytes - 64, 64, "host %d", r);
    }
    return HALAY_OK;
}

static void use_all_descriptors(void)
{
    while (dup(STDERR_FILENO) >= 0)
        ;
    CHECK(errno == EMFILE);
}

/* As rank 3. soft, hard: the limits. */
static void open_many(int soft, int hard)
{
    static const struct halay_boot_ops ops = { .name = "alike", .allgather = alike_allgather };
    const struct halay_tcp_how how = { .timeout_ms = TIMEOUT_MS, .silence_ms = 2500 };
    struct halay_log log;
    struct halay_boot boot = { .ops = &ops, .rank = 3, .size = MANY_RANKS, .log = &log };
    struct rlimit limit = { .rlim_cur = (rlim_t)soft, .rlim_max = (rlim_t)hard };
    struct halay_transfer x = { 0 };
    struct halay_peers *peers;
    struct halay_link *link;
    char expected[64];

    halay_log_init(&log, HALAY_LOG_ERROR);
    log.write = drop_line;
    REQUIRE(peers_of_boot(&log, &boot, NULL, 1000, &peers) == HALAY_OK && !setrlimit(RLIMIT_NOFILE, &limit));
    enum halay_status status = halay_tcp_open(&log, &how, &boot, peers, &link);
    snprintf(expected, sizeof expected, "and the limit is %d", hard);
    if (hard == FEW) {
        CHECK(status == HALAY_ERR_SYSTEM && strstr(last_line, expected), "'%s'", last_line);
        return;
    }
    REQUIRE(status == HALAY_OK && !getrlimit(RLIMIT_NOFILE, &limit));
    CHECK(limit.rlim_cur == (rlim_t)hard, "%d", (int)limit.rlim_cur);
    use_all_descriptors();
    lines = 0;
    link->ops->send(link, 50, 1, "x", 1, &x);
    while ((status = link->ops->progress(link)) == HALAY_OK)
        ;
    CHECK(status == HALAY_ERR_SYSTEM && lines == 2 && strstr(last_line, "rank 50: no descriptor is free"), "'%s'",
          last_line);
}

static void check_few_descriptors(void)
{
    static const int limits[][2] = { { FEW, FEW }, { FEW, 256 } };

    for (int i = 0; i < 2; i++) {
        fflush(stdout);
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (!pid) {
            alarm(30);
            open_many(limits[i][0], limits[i][1]);
            fflush(stdout);
            _exit(test_failed != 0);
        }
        check_child(pid);
    }
}

int main(void)
{
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shown != MAP_FAILED);
    check_many_hosts();
    check_order_of_addresses();
    check_flows();
    check_many_addresses();
    check_pair();
    check_dropped();
    check_false_challenge();
    check_false_proof();
    check_staggered();
    check_out_of_descriptors();
    check_other_host();
    check_few_descriptors();
    run(&(struct job){ .run = job_idle_first, .size = 3, .killed = -1, .second_host = 1 });
    run(&(struct job){ .run = job_streams, .size = 2, .killed = -1, .second_host = 1, .streams = 4, .is_quiet = 1 });
    run(&(struct job){ .run = conformance_run, .size = 3, .killed = -1, .second_host = 1, .streams = 4 });
    run(&(struct job){ .run = job_star, .size = 3, .killed = -1, .second_host = 1, .streams = 8, .connects = 1 });
    run(&(struct job){ .run = job_death, .size = 2, .killed = 1, .second_host = 1, .streams = 3, .is_quiet = 1 });
    run(&(struct job){ .run = job_leave, .size = 3, .killed = -1, .second_host = 1, .streams = 3, .is_quiet = 1 });
    run(&(struct job){ .size = 2, .killed = -1, .second_host = 1, .streams = 3, .opens = 200 });
    run(&(struct job){ .run = job_ended, .size = 3, .killed = 2, .second_host = 1, .is_quiet = 1 });
    for (int n = 2; n < 5; n++)
        run(&(struct job){ .run = conformance_run, .size = n, .killed = -1 });
    run(&(struct job){ .run = job_absent, .size = 2, .killed = -1, .connects = 1 });
    run(&(struct job){ .run = job_absent, .size = 2, .killed = -1, .second_host = 1, .streams = 2, .connects = 1 });
    run(&(struct job){ .run = conformance_run, .size = 3, .killed = -1, .is_sealed = 1 });
    run(&(struct job){ .run = job_star, .size = 3, .killed = -1, .is_sealed = 1, .is_mixed = 1, .connects = 1 });
    run(&(struct job){ .run = job_death, .size = 3, .killed = 1, .is_quiet = 1, .is_sealed = 1 });
    run(&(struct job){ .run = job_leave, .size = 3, .killed = -1, .is_quiet = 1, .is_sealed = 1 });
    run(&(struct job){ .size = 2, .killed = -1, .opens = getenv("TEST_LONG") ? 10000 : 1000 });
    run(&(struct job){ .size = 3, .killed = -1, .opens = 100 });
    run(&(struct job){ .run = job_star, .size = 5, .killed = -1, .connects = 1 });
    for (int i = 0; i < 2; i++)
        if (has_family(i ? AF_INET6 : AF_INET))
            run(&(struct job){ .run = job_star, .size = 3, .killed = -1, .family = i ? AF_INET6 : AF_INET });
    for (int n = 2; n < 4; n++)
        run(&(struct job){ .run = job_death, .size = n, .killed = 1, .is_quiet = 1 });
    run(&(struct job){ .run = job_death_asleep, .size = 4, .killed = 3, .is_quiet = 1 });
    for (int n = 2; n < 5; n++)
        run(&(struct job){ .run = job_leave, .size = n, .killed = -1, .is_quiet = 1 });
    run(&(struct job){ .run = job_star, .size = 3, .killed = -1, .has_strangers = 1, .connects = 1 });
    run(&(struct job){ .size = 2, .killed = -1, .is_quiet = 1, .other_secret = 1, .connects = 1 });
    run(&(struct job){ .size = 5, .killed = -1, .is_quiet = 1, .is_refused = 1, .descriptors = 12, .connects = 1 });
    run(&(struct job){ .run = job_star, .size = 5, .killed = -1, .descriptors = 200 });
    return test_end();
}
