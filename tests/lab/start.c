/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts ranks on the hosts of a lab (tests/lab/lab), with a store on the machine's own address there: what halayrun
 * does for
 * one host. usage: start LAB HOST,HOST,... COMMAND...      a rank for each HOST (numbers of the lab's)
 *
 * Output goes where this program's goes. The status is that of the first rank that failed; ranks that ended by SIGKILL
 * count as lost, not as failed. $top_srcdir/tests/lab/lab enters the hosts.
 */
#include "base/net/listen.h"
#include "base/store/store.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 64, BROKEN = 99 };

__attribute__((noreturn)) static void die(const char *what)
{
    perror(what);
    exit(BROKEN);
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    if (setenv(name, text, 1))
        die(name);
}

/* "1,1,2" into hosts; how many. */
static int parse_hosts(const char *text, int *hosts)
{
    int count = 0;

    for (const char *at = text; at && count < RANKS_MAX; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        hosts[count++] = atoi(at);
    return count;
}

__attribute__((noreturn)) static void be_rank(const char *lab, int host, char **command, int args)
{
    const char *top = getenv("top_srcdir");
    char script[4096], number[16];
    char **line = calloc((size_t)args + 6, sizeof *line);

    if (!line)
        die("start");
    snprintf(script, sizeof script, "%s/tests/lab/lab", top ? top : ".");
    snprintf(number, sizeof number, "%d", host);
    line[0] = (char *)"sh";
    line[1] = script;
    line[2] = (char *)"enter";
    line[3] = (char *)lab;
    line[4] = number;
    memcpy(line + 5, command, (size_t)args * sizeof *line);
    execvp(line[0], line);
    die("sh");
}

int main(int argc, char **argv)
{
    static struct halay_log log;
    unsigned char secret[HALAY_SECRET_BYTES];
    struct halay_store_server *server;
    int hosts[RANKS_MAX], fd, listener, result = 0, status;

    if (argc < 4) {
        fprintf(stderr, "usage: start LAB HOST,HOST,... COMMAND...\n");
        return BROKEN;
    }
    int size = parse_hosts(argv[2], hosts), left = size;
    const struct halay_address address = { .family = AF_INET, .bytes = { 10, 77, (unsigned char)atoi(argv[1]), 254 } };
    halay_log_init(&log, HALAY_LOG_WARNING);
    if (halay_store_create_secret(&log, secret, &fd) != HALAY_OK ||
        halay_listen_at(&log, &address, &listener) != HALAY_OK ||
        halay_store_server_adopt(&log, listener, secret, &server) != HALAY_OK)
        return BROKEN;
    set_number("HALAY_SIZE", size);
    if (setenv("HALAY_STORE_ADDRESS", halay_store_server_address(server), 1))
        die("HALAY_STORE_ADDRESS");
    for (int r = 0; r < size; r++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork");
        if (pid)
            continue;
        int passed = dup(fd); /* not closed by exec */
        if (passed < 0)
            die("dup");
        set_number("HALAY_RANK", r);
        set_number("HALAY_STORE_SECRET_FD", passed);
        be_rank(argv[1], hosts[r], argv + 3, argc - 3);
    }
    while (left) {
        struct pollfd p = { .fd = halay_store_server_fd(server), .events = POLLIN };
        poll(&p, 1, 5);
        if (halay_store_server_progress(server) != HALAY_OK)
            return BROKEN;
        while (left && waitpid(-1, &status, WNOHANG) > 0) {
            int failed = WIFEXITED(status)             ? WEXITSTATUS(status)
                         : WTERMSIG(status) == SIGKILL ? 0
                                                       : 128 + WTERMSIG(status);
            left--;
            result = result ? result : failed;
        }
    }
    halay_store_server_destroy(server);
    halay_log_fini(&log);
    close(fd);
    return result;
}
