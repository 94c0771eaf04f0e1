/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers: identities exchanged once, then a descriptor for each process of this host.
 *
 * A process id alone proves nothing, since ids are reused. The descriptor is opened between two exchanges of the
 * bootstrap: a peer that takes part in the second one was alive when its descriptor was opened, which refers to that
 * process forever then. It polls readable when the process has ended, reaped or not. Where descriptors of processes are
 * not to be had (Linux before 5.3, some sandboxes), the start time that the peer announced is compared at each look,
 * which is then ten times rarer.
 *
 * Cleanup: zero-initialised, destroy accepts a half-built object.
 * References: pidfd_open(2), proc_pid_stat(5), namespaces(7).
 */
#include "collectives/transport/bootstrap/peers.h"
#include "base/clock.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { LOOK_US = 1000, LOOK_EACH_US = 20, LOOK_SLOWLY_US = 10000 };
enum { DEAD = 1, UNREACHABLE, LOST };

/* The peers of a rank. */
struct halay_peers {
    struct halay_log *log; /* borrowed */
    int rank, size;
    struct halay_identity *who; /* owned: size of them */
    int *local;                 /* owned: [locals], the ranks of this host but this one */
    int *place;                 /* owned: [size], where a rank is among them; -1: it isn't */
    int locals;
    struct pollfd *watch; /* owned: [locals], fd -1 where no descriptor watches; used by the looker only */
    _Atomic int *left;    /* owned: [size], stored by set_left; relaxed: a hint, what was sent is ordered elsewhere */
    const _Atomic uint32_t **left_word; /* owned: [size] of borrowed words or NULL */
    int64_t *ended_us;                  /* owned: [size], when its end was seen, 0: it lives; used by the looker only */
    int has_descriptors;                /* set once */
    int64_t grace_us;
    _Atomic int64_t next_look_us;  /* who moves it on by compare and swap is the looker of this round */
    _Atomic int looking;           /* acquire, release: rounds do not overlap */
    _Atomic int dead;              /* -1, or the first rank found dead; release, acquire */
    _Atomic unsigned char *deaths; /* owned: [size], DEAD, UNREACHABLE, LOST or 0; release, acquire */
};

/* ---- who am I ---- */

static enum halay_status read_line(struct halay_log *log, const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    int error = errno;

    if (fd >= 0)
        close(fd);
    if (n < 0) {
        halay_debug(log, "cannot read '%s': %s", path, strerror(error));
        return HALAY_ERR_SYSTEM;
    }
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    return HALAY_OK;
}

static uint64_t namespace_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? info.st_ino : 0;
}

/* Fields 22 and 3 of /proc/PID/stat. The second field, the name in parentheses, may hold anything. Returns 0 without
 * such a process. */
static uint64_t stat_of(int64_t pid, char *state)
{
    char path[64], text[1024];
    unsigned long long start = 0;

    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (read_line(NULL, path, text, sizeof text) != HALAY_OK)
        return 0;
    const char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state,
                     &start) != 2)
        return 0;
    return start;
}

static uint64_t start_time_of(int64_t pid)
{
    char state;

    return stat_of(pid, &state);
}

void halay_peers_identify(struct halay_log *log, const char *node, struct halay_identity *me)
{
    memset(me, 0, sizeof *me);
    snprintf(me->node, sizeof me->node, "%s", node ? node : "");
    snprintf(me->version, sizeof me->version, "%s", halay_version());
    if (gethostname(me->host, sizeof me->host - 1) < 0)
        snprintf(me->host, sizeof me->host, "?");
    /* Without a boot id the host's name has to do; mapping proves shared memory anyway. */
    if (read_line(log, "/proc/sys/kernel/random/boot_id", me->boot_id, sizeof me->boot_id) != HALAY_OK)
        snprintf(me->boot_id, sizeof me->boot_id, "%.39s", me->host);
    me->pid_namespace = namespace_of("/proc/self/ns/pid");
    me->net_namespace = namespace_of("/proc/self/ns/net");
    me->pid = getpid();
    me->start_time = start_time_of(getpid());
}

/* ---- where is every rank ---- */

static int same_host(const struct halay_identity *a, const struct halay_identity *b)
{
    return !strncmp(a->boot_id, b->boot_id, sizeof a->boot_id) && a->pid_namespace == b->pid_namespace &&
           a->net_namespace == b->net_namespace && !strncmp(a->node, b->node, sizeof a->node);
}

int halay_peers_is_local(const struct halay_peers *peers, int rank)
{
    return same_host(&peers->who[peers->rank], &peers->who[rank]);
}

int halay_peers_pid(const struct halay_peers *peers, int rank)
{
    return (int)peers->who[rank].pid;
}

const char *halay_peers_host(const struct halay_peers *peers, int rank)
{
    return peers->who[rank].host;
}

/* The lowest rank of a rank's host. */
static int host_leader(const struct halay_peers *peers, int rank)
{
    int r = 0;

    while (!same_host(&peers->who[r], &peers->who[rank]))
        r++;
    return r;
}

void halay_peers_nodes(const struct halay_peers *peers, int *node)
{
    int nodes = 0;

    for (int r = 0; r < peers->size; r++) {
        int leader = host_leader(peers, r);
        node[r] = leader == r ? nodes++ : node[leader];
    }
}

/* ---- is it alive ---- */

/* PIDFD_GET_INFO of <linux/pidfd.h> (Linux 6.15 and later), whose header is younger than many systems. */
struct pidfd_exit_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};

/* Writes how the process ended, as far as the kernel reports that to a process that is not its parent. */
static void describe_end(int fd, char *text, size_t size)
{
    struct pidfd_exit_info info = { .mask = 1 << 3 };

    snprintf(text, size, "its process has ended");
    if (fd < 0 || ioctl(fd, _IOWR(0xff, 11, struct pidfd_exit_info), &info) < 0 || !(info.mask & 1 << 3))
        return;
    if (WIFSIGNALED(info.exit_code))
        snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(info.exit_code), strsignal(WTERMSIG(info.exit_code)));
    else if (WIFEXITED(info.exit_code))
        snprintf(text, size, "its process exited with status %d without leaving", WEXITSTATUS(info.exit_code));
}

static int has_left(const struct halay_peers *peers, int rank)
{
    const _Atomic uint32_t *word = peers->left_word[rank];

    return atomic_load_explicit(&peers->left[rank], memory_order_relaxed) ||
           (word && atomic_load_explicit((_Atomic uint32_t *)word, memory_order_acquire));
}

/* A local rank whose process has ended (or whose number another process has now). */
static int has_ended(const struct halay_peers *peers, int rank)
{
    int place = peers->place[rank];

    if (place < 0)
        return 0;
    if (peers->has_descriptors)
        return peers->watch[place].fd >= 0 && peers->watch[place].revents;
    return start_time_of(peers->who[rank].pid) != peers->who[rank].start_time;
}

/* Found by the looker and by the driver: the first to find it logs it. */
static void declare_lost(struct halay_peers *peers, int rank, unsigned char what, const char *why)
{
    static const char *const texts[][2] = {
        [DEAD] = { "", "is dead" }, [UNREACHABLE] = { "", "cannot be reached" }, [LOST] = { "connection with ", "lost" }
    };
    unsigned char alive = 0;
    int nobody = -1;

    if (!atomic_compare_exchange_strong_explicit(&peers->deaths[rank], &alive, what, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return;
    halay_error_at(peers->log, &HALAY_ERROR_OF_RANK(rank), "%srank %d (process %d on '%s') %s: %s", texts[what][0],
                   rank, halay_peers_pid(peers, rank), halay_peers_host(peers, rank), texts[what][1], why);
    atomic_compare_exchange_strong_explicit(&peers->dead, &nobody, rank, memory_order_release, memory_order_relaxed);
}

static void declare_dead(struct halay_peers *peers, int rank)
{
    char how[128];

    describe_end(peers->watch[peers->place[rank]].fd, how, sizeof how);
    declare_lost(peers, rank, DEAD, how);
}

/* Closes the descriptor of a process that has ended, so that poll has less to look at. */
static void watch_no_more(struct halay_peers *peers, int rank)
{
    struct pollfd *watch = &peers->watch[peers->place[rank]];

    if (watch->fd >= 0)
        close(watch->fd);
    watch->fd = -1;
}

static void look_at_processes(struct halay_peers *peers, int64_t now_us)
{
    if (peers->has_descriptors && poll(peers->watch, (nfds_t)peers->locals, 0) <= 0)
        return;
    for (int i = 0; i < peers->locals; i++) {
        int r = peers->local[i];
        if (halay_peers_is_dead(peers, r) || !has_ended(peers, r))
            continue;
        if (has_left(peers, r)) {
            watch_no_more(peers, r);
            continue;
        }
        if (!peers->ended_us[r])
            peers->ended_us[r] = now_us;
        if (now_us - peers->ended_us[r] < peers->grace_us)
            continue;
        declare_dead(peers, r);
        watch_no_more(peers, r);
    }
}

enum halay_status halay_peers_check(struct halay_peers *peers, int *rank)
{
    int64_t now_us = halay_now_us();
    int64_t next = atomic_load_explicit(&peers->next_look_us, memory_order_relaxed);
    int64_t period = peers->has_descriptors ? LOOK_US + LOOK_EACH_US * peers->locals : LOOK_SLOWLY_US;
    int nobody = 0;

    int dead = atomic_load_explicit(&peers->dead, memory_order_acquire);
    if (now_us >= next && atomic_compare_exchange_strong_explicit(&peers->looking, &nobody, 1, memory_order_acquire,
                                                                  memory_order_relaxed)) {
        atomic_store_explicit(&peers->next_look_us, now_us + period, memory_order_relaxed);
        look_at_processes(peers, now_us);
        atomic_store_explicit(&peers->looking, 0, memory_order_release);
        dead = atomic_load_explicit(&peers->dead, memory_order_acquire);
    }
    if (dead < 0)
        return HALAY_OK;
    *rank = dead;
    return HALAY_ERR_PEER;
}

int halay_peers_is_dead(const struct halay_peers *peers, int rank)
{
    return atomic_load_explicit(&peers->deaths[rank], memory_order_acquire) != 0;
}

int halay_peers_has_died(const struct halay_peers *peers, int rank)
{
    if (halay_peers_is_dead(peers, rank))
        return 1;
    if (peers->place[rank] < 0)
        return 0;
    struct pollfd watch = peers->watch[peers->place[rank]];
    int ended = peers->has_descriptors ? watch.fd >= 0 && poll(&watch, 1, 0) > 0 : has_ended(peers, rank);

    return ended && !has_left(peers, rank);
}

void halay_peers_set_dead(struct halay_peers *peers, int rank, int is_unreachable, const char *why)
{
    if (!has_left(peers, rank))
        declare_lost(peers, rank, is_unreachable ? UNREACHABLE : LOST, why);
}

int halay_peers_is_unreachable(const struct halay_peers *peers, int rank)
{
    return atomic_load_explicit(&peers->deaths[rank], memory_order_acquire) == UNREACHABLE;
}

int halay_peers_is_stopped(const struct halay_peers *peers, int rank)
{
    const struct halay_identity *who = &peers->who[rank];
    char state = 0;

    return rank != peers->rank && halay_peers_is_local(peers, rank) && stat_of(who->pid, &state) == who->start_time &&
           (state == 'T' || state == 't');
}

void halay_peers_set_left(struct halay_peers *peers, int rank)
{
    atomic_store_explicit(&peers->left[rank], 1, memory_order_relaxed);
}

void halay_peers_set_left_word(struct halay_peers *peers, int rank, const _Atomic uint32_t *word)
{
    peers->left_word[rank] = word;
}

void halay_peers_set_grace(struct halay_peers *peers, int64_t grace_us)
{
    peers->grace_us = grace_us;
}

/* ---- create ---- */

static enum halay_status peers_allocate(struct halay_peers *peers)
{
    size_t n = (size_t)peers->size;

    peers->who = calloc(n, sizeof *peers->who);
    peers->place = calloc(n, sizeof *peers->place);
    peers->left = calloc(n, sizeof *peers->left);
    peers->left_word = calloc(n, sizeof *peers->left_word);
    peers->ended_us = calloc(n, sizeof *peers->ended_us);
    peers->deaths = calloc(n, sizeof *peers->deaths);
    if (!peers->who || !peers->place || !peers->left || !peers->left_word || !peers->ended_us || !peers->deaths)
        return HALAY_ERR_NO_MEMORY;
    return HALAY_OK;
}

/* Once it is known who they are. */
static enum halay_status list_locals(struct halay_peers *peers)
{
    for (int r = 0; r < peers->size; r++)
        peers->place[r] = r != peers->rank && halay_peers_is_local(peers, r) ? peers->locals++ : -1;
    peers->local = calloc((size_t)peers->locals + 1, sizeof *peers->local);
    peers->watch = calloc((size_t)peers->locals + 1, sizeof *peers->watch);
    if (!peers->local || !peers->watch)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < peers->size; r++)
        if (peers->place[r] >= 0)
            peers->local[peers->place[r]] = r;
    for (int i = 0; i < peers->locals; i++)
        peers->watch[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    return HALAY_OK;
}

static void copy_identities(struct halay_peers *peers, const struct halay_identity *first, size_t stride)
{
    for (int r = 0; r < peers->size; r++) {
        struct halay_identity *who = &peers->who[r];
        memcpy(who, (const unsigned char *)first + (size_t)r * stride, sizeof *who);
        who->boot_id[sizeof who->boot_id - 1] = who->host[sizeof who->host - 1] = 0;
    }
}

/* If the kernel refuses it for our own process, no process can be watched here. */
static int can_watch(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd < 0)
        return 0;
    close(fd);
    return 1;
}

static enum halay_status watch_process(struct halay_peers *peers, int rank)
{
    const struct halay_identity *who = &peers->who[rank];
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)who->pid, 0);
    int error = errno;

    if (fd < 0 && error != ESRCH)
        return halay_fail(peers->log, HALAY_ERR_SYSTEM, "cannot watch rank %d (process %d): %s", rank, (int)who->pid,
                          strerror(error));
    peers->watch[peers->place[rank]].fd = fd;
    if (fd < 0) {
        declare_dead(peers, rank);
        return HALAY_ERR_PEER;
    }
    return HALAY_OK;
}

static enum halay_status watch_all(struct halay_peers *peers)
{
    peers->has_descriptors = can_watch();
    enum halay_status status = list_locals(peers);
    for (int i = 0; i < peers->locals && peers->has_descriptors && status == HALAY_OK; i++)
        status = watch_process(peers, peers->local[i]);
    return status;
}

enum halay_status halay_peers_create(struct halay_log *log, int rank, int size, const struct halay_identity *first,
                                     size_t stride, struct halay_peers **out)
{
    struct halay_peers *peers = calloc(1, sizeof *peers);

    if (!peers)
        return HALAY_ERR_NO_MEMORY;
    peers->log = log;
    peers->rank = rank;
    peers->size = size;
    peers->dead = -1;
    enum halay_status status = peers_allocate(peers);
    if (status == HALAY_OK) {
        copy_identities(peers, first, stride);
        status = watch_all(peers);
    }
    if (status != HALAY_OK) {
        halay_peers_destroy(peers);
        return status;
    }
    *out = peers;
    return HALAY_OK;
}

void halay_peers_destroy(struct halay_peers *peers)
{
    if (!peers)
        return;
    for (int i = 0; peers->watch && i < peers->locals; i++)
        if (peers->watch[i].fd >= 0)
            close(peers->watch[i].fd);
    free((void *)peers->deaths);
    free(peers->ended_us);
    free(peers->left_word);
    free(peers->left);
    free(peers->watch);
    free(peers->local);
    free(peers->place);
    free(peers->who);
    free(peers);
}
