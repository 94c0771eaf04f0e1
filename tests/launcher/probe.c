/* SPDX-License-Identifier: Apache-2.0
 *
 * What the launcher's tests run as ranks. The first argument selects what it does:
 *   meet            all ranks exchange a value through the store; prints "met N"
 *   hide FILE       start a process in a session of its own, orphaned, that ignores all signals; both write their
 *                   numbers to FILE; then sleep
 *   leave FILE      the same, but end with 0
 *   secret          ends with 1 if the job's secret is in any process's command line or environment
 *   descriptors     prints the open descriptors above 2 except the secret's
 *   pending       ends with 1 if a port is watched although there are no descriptors for its callers, or not later
 *   port            prints a port that no other process is given until the reader of its standard output is gone
 *   squat ADDRESS PORT COUNT FILE   accepts connections on COUNT ports of that address, from PORT on, and stays silent;
 *                                   FILE is created when it is ready
 */
#include "base/config.h"
#include "base/store/store.h"
#include "launcher/remote/pending.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noreturn)) static void die(const char *text)
{
    fprintf(stderr, "probe: %s\n", text);
    exit(99);
}

static void load(struct halay_log *log, struct halay_config *config, unsigned char *secret)
{
    halay_log_init(log, HALAY_LOG_WARNING);
    if (halay_config_load(log, config) != HALAY_OK || config->rank < 0 || !config->store_address)
        die("not started by halayrun");
    if (halay_store_read_secret(log, config->store_secret_fd, secret) != HALAY_OK)
        die("no secret");
}

static int rendezvous(void)
{
    struct halay_log log;
    struct halay_config config;
    struct halay_store_client *client;
    unsigned char secret[HALAY_SECRET_BYTES];
    unsigned reconnects;
    char key[32];
    int sum = 0;

    load(&log, &config, secret);
    if (halay_store_client_open(&log, config.store_address, NULL, secret, config.rank, 30000, &client, &reconnects) !=
        HALAY_OK)
        die("cannot open the store");
    snprintf(key, sizeof key, "rank %d", config.rank);
    if (halay_store_set(client, key, &config.rank, sizeof(int)) != HALAY_OK)
        die("cannot set");
    for (int r = 0; r < config.size; r++) {
        int value;
        snprintf(key, sizeof key, "rank %d", r);
        if (halay_store_get(client, key, &value, sizeof value, 30000) != HALAY_OK)
            die("cannot get");
        sum += value == r;
    }
    printf("met %d\n", sum);
    halay_store_client_close(client);
    halay_config_fini(&config);
    halay_log_fini(&log);
    return 0;
}

static void append_pid(const char *path)
{
    char text[16];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());

    if (fd < 0 || write(fd, text, (size_t)n) != n)
        die("cannot write its number");
    close(fd);
}

static void ignore_signals(void)
{
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP)
            signal(s, SIG_IGN);
}

/* Returns, or stays, only when the hidden process is deaf and has written its number: it may be told to end right
 * then. */
static int hide(const char *path, int stays)
{
    int ready[2], status;
    char byte;

    if (pipe(ready) < 0)
        die("cannot create a pipe");
    pid_t child = fork();
    if (child == 0) {
        ignore_signals();
        if (setsid() < 0 || fork())
            _exit(0);
        append_pid(path);
        close(ready[0]);
        close(ready[1]);
        for (;;)
            pause();
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        die("cannot fork");
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 0)
        die("the hidden process says nothing");
    append_pid(path);
    while (stays)
        pause();
    return 0;
}

/* Is `needle` in the file? */
static int file_has(const char *path, const void *needle, size_t bytes)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    return memmem(text, n, needle, bytes) != NULL;
}

static int look_for_secret(void)
{
    struct halay_log log;
    struct halay_config config;
    unsigned char secret[HALAY_SECRET_BYTES];
    char hex[17], path[300];
    int found = 0, looked = 0;
    DIR *proc = opendir("/proc");

    load(&log, &config, secret);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 2 * i, 3, "%02x", secret[i]);
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        for (int which = 0; which < 2 && entry->d_name[0] >= '1' && entry->d_name[0] <= '9'; which++) {
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, which ? "environ" : "cmdline");
            found += file_has(path, secret, 8) || file_has(path, hex, 16);
            looked++;
        }
    if (proc)
        closedir(proc);
    printf("looked at %s, found %d\n", looked > 2 ? "several" : "too few", found);
    halay_config_fini(&config);
    halay_log_fini(&log);
    return found > 0;
}

static int list_descriptors(void)
{
    const char *secret = halay_environment_get("HALAY_STORE_SECRET_FD");
    const char *ranks = halay_environment_get("HALAY_HOST_RANKS_FD");
    DIR *folder = opendir("/proc/self/fd");

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (atoi(entry->d_name) > 2 && atoi(entry->d_name) != dirfd(folder) && secret &&
            strcmp(entry->d_name, secret) && !(ranks && !strcmp(entry->d_name, ranks)))
            printf("descriptor %s\n", entry->d_name);
    if (folder)
        closedir(folder);
    printf("listed\n");
    return 0;
}

__attribute__((noreturn)) static void squat(const char *address, int port, int count, const char *path)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    int failed = inet_pton(AF_INET, address, &at.sin_addr) != 1;

    for (int i = 0; i < count && !failed; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        at.sin_port = htons((uint16_t)(port + i));
        failed = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 16) < 0;
    }
    if (failed)
        die("cannot listen");
    append_pid(path);
    for (;;)
        pause();
}

/* Bound, but not listening: no other process is given the port, and one that sets SO_REUSEADDR can listen there. */
static int hold_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t length = sizeof at;
    struct pollfd reader = { .fd = STDOUT_FILENO };
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || getsockname(fd, (struct sockaddr *)&at, &length) < 0)
        die("no port");
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    poll(&reader, 1, -1);
    return 0;
}

static int call_own(int listener)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (getsockname(listener, (struct sockaddr *)&at, &length) < 0 || fd < 0 ||
        connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
        die("cannot call");
    return fd;
}

/* A caller waits for whom there is no descriptor: its port must not wake the loop again and again. */
static int starve(void)
{
    static const unsigned char secret[HALAY_SECRET_BYTES];
    static struct pending pending;
    const struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct rlimit before, none;
    struct tunnel tunnel;
    uint32_t purpose;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (listener < 0 || bind(listener, (const struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 4) < 0 ||
        getrlimit(RLIMIT_NOFILE, &before) < 0)
        die("cannot listen");
    pending_init(&pending, listener, secret);
    int caller = call_own(listener), next = dup(caller);
    none = (struct rlimit){ (rlim_t)next, before.rlim_max };
    close(next);
    int ok = setrlimit(RLIMIT_NOFILE, &none) == 0 && !pending_next(&pending, 10000, &tunnel, &purpose);
    ok &= pending.count == PENDING_FIRST && pending.is_paused;
    ok &= !pending_next(&pending, 10, &tunnel, &purpose) && !pending.fds[0].revents; /* a pause */
    ok &= setrlimit(RLIMIT_NOFILE, &before) == 0 && !pending_next(&pending, 10000, &tunnel, &purpose);
    ok &= pending.count == PENDING_FIRST + 1;
    pending_fini(&pending);
    close(caller);
    close(listener);
    return !ok;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "meet"))
        return rendezvous();
    if (!strcmp(what, "hide") && argc > 2)
        return hide(argv[2], 1);
    if (!strcmp(what, "leave") && argc > 2)
        return hide(argv[2], 0);
    if (!strcmp(what, "secret"))
        return look_for_secret();
    if (!strcmp(what, "descriptors"))
        return list_descriptors();
    if (!strcmp(what, "pending"))
        return starve();
    if (!strcmp(what, "port"))
        return hold_port();
    if (!strcmp(what, "squat") && argc > 5)
        squat(argv[2], atoi(argv[3]), atoi(argv[4]), argv[5]);
    die("no such action");
}
