/* SPDX-License-Identifier: Apache-2.0
 *
 * Discover: see discover.h.
 *
 * Cleanup: discover_fini accepts any state that began with init.
 */
#include "launcher/where/discover.h"
#include "base/clock.h"
#include "base/loop.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, ASK_MS = 50 }; /* ASK_MS: on kernels without pidfd_open */
#define TEXT_MAX ((size_t)4 << 20)

/* ---- what it prints ---------------------------------------------------------------------------------------------- */

static int is_blank(const char *line)
{
    return !line[strspn(line, " \t\r")];
}

static int is_host_line(const char *line, int slots, char *why, size_t size)
{
    struct host_list one;

    if (hosts_parse(line, slots, &one, why, size) != HALAY_OK)
        return 0;
    hosts_fini(&one);
    return 1;
}

/* Appends the lines to list, separated by commas as -H wants them; each is checked, so that an error names its line. */
static int join_lines(const char *text, int slots, struct buffer *list, char *why, size_t size)
{
    char line[LINE_MAX_BYTES], reason[512];
    int number = 0;

    for (const char *at = text; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        number++;
        if (length >= sizeof line) {
            snprintf(why, size, "line %d of its output is too long", number);
            return 0;
        }
        memcpy(line, at, length);
        line[length] = 0;
        at += length;
        line[strcspn(line, "#")] = 0;
        if (is_blank(line))
            continue;
        line[strcspn(line, "\r")] = 0;
        if (!is_host_line(line, slots, reason, sizeof reason)) {
            snprintf(why, size, "line %d of its output: %s", number, reason);
            return 0;
        }
        if ((list->count && !buffer_append(list, ",", 1)) || !buffer_append(list, line, strlen(line))) {
            snprintf(why, size, "no memory");
            return 0;
        }
    }
    return 1;
}

int discover_read(const char *text, int slots, struct host_list *hosts, char *why, size_t size)
{
    struct buffer list = { 0 };

    *hosts = (struct host_list){ 0 };
    int ok = join_lines(text, slots, &list, why, size);
    if (ok && list.count && !buffer_append(&list, "", 1)) {
        snprintf(why, size, "no memory");
        ok = 0;
    }
    if (ok && list.count)
        ok = hosts_parse(list.bytes, slots, hosts, why, size) == HALAY_OK;
    buffer_fini(&list);
    return ok;
}

/* ---- the script -------------------------------------------------------------------------------------------------- */

void discover_init(struct discover *d, const char *script, int slots)
{
    *d = (struct discover){ .script = script, .slots = slots > 0 ? slots : 1, .out = -1 };
}

static void close_out(struct discover *d)
{
    if (d->out >= 0)
        close(d->out);
    d->out = -1;
}

void discover_fini(struct discover *d)
{
    if (d->pid)
        kill(-d->pid, SIGKILL); /* reaped with everything that is left */
    close_out(d);
    buffer_fini(&d->text);
}

__attribute__((noreturn)) static void be_script(const char *script, pid_t parent, int out)
{
    char *args[] = { (char *)script, NULL };
    sigset_t none;
    int in = open("/dev/null", O_RDONLY);

    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(EXIT_NOT_FOUND);
    execvp(script, args);
    fprintf(stderr, "halayrun: cannot run '%s': %s\n", script, strerror(errno));
    fflush(stderr);
    _exit(EXIT_NOT_FOUND);
}

static void start_script(struct discover *d)
{
    int ends[2];
    pid_t parent = getpid();

    d->due_us = halay_deadline_us(DISCOVER_EVERY_MS);
    d->text.count = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return; /* out of descriptors: try again next time */
    pid_t pid = fork();
    if (pid == 0)
        be_script(d->script, parent, ends[1]);
    close(ends[1]);
    if (pid < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
        close(ends[0]);
        return;
    }
    setpgid(pid, pid); /* the child does it too: either may be first */
    d->pid = pid;
    d->out = ends[0];
    d->due_us = halay_deadline_us(DISCOVER_RUN_MS);
}

static void read_out(struct discover *d)
{
    char bytes[4096];

    while (d->out >= 0) {
        ssize_t n = read(d->out, bytes, sizeof bytes);
        if (n > 0 && d->text.count < TEXT_MAX && buffer_append(&d->text, bytes, (size_t)n))
            continue;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        close_out(d); /* its end; or far too much, and it gets SIGPIPE */
    }
}

void discover_progress(struct discover *d)
{
    if (!d->script)
        return;
    read_out(d);
    if (!halay_deadline_passed(d->due_us))
        return;
    if (!d->pid) {
        start_script(d);
        return;
    }
    kill(-d->pid, SIGKILL);
    d->due_us = halay_deadline_us(DISCOVER_RUN_MS);
}

int64_t discover_due(const struct discover *d)
{
    return d->script ? d->due_us : INT64_MAX;
}

static int take_script_end(struct discover *d, int status, struct host_list *hosts, char *why, size_t size)
{
    char text[600];

    *hosts = (struct host_list){ 0 };
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "it was killed by %s", signal_name(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(text, sizeof text, "it ended with exit code %d", WEXITSTATUS(status));
    else if (buffer_append(&d->text, "", 1) && discover_read(d->text.bytes, d->slots, hosts, text, sizeof text))
        return 1;
    snprintf(why, size, "host discovery script '%s': %s", d->script, text);
    return 0;
}

enum discover_end discover_reaped(struct discover *d, pid_t pid, int status, struct host_list *hosts, char *why,
                                  size_t size)
{
    if (!d->pid || d->pid != pid)
        return DISCOVER_NOT_IT;
    read_out(d);
    close_out(d);
    d->pid = 0;
    d->due_us = halay_deadline_us(DISCOVER_EVERY_MS);
    int ok = take_script_end(d, status, hosts, why, size);
    if (!ok && d->has_failed)
        *why = 0;
    d->has_failed = !ok;
    return ok ? DISCOVER_HOSTS : DISCOVER_FAILED;
}

int discover_wait(struct discover *d, struct host_list *hosts, char *why, size_t size)
{
    struct halay_loop loop;
    int status = 0;

    halay_loop_init(&loop);
    halay_loop_turn(&loop, d->due_us);
    discover_progress(d);
    pid_t pid = d->pid;
    if (!pid) {
        snprintf(why, size, "host discovery script '%s': %s", d->script, strerror(errno));
        return 0;
    }
    /* Neither the end of its output, which it may have closed, nor that of processes it leaves is its end. */
    int ended = (int)syscall(SYS_pidfd_open, pid, 0);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        halay_loop_watch(&loop, d->out, POLLIN, NULL, NULL);
        halay_loop_watch(&loop, ended, POLLIN, NULL, NULL);
        halay_loop_turn(&loop, ended < 0 ? halay_deadline_us(ASK_MS) : d->due_us);
        discover_progress(d);
    }
    halay_loop_fini(&loop);
    if (ended >= 0)
        close(ended);
    return discover_reaped(d, pid, status, hosts, why, size) == DISCOVER_HOSTS;
}
