/* SPDX-License-Identifier: Apache-2.0
 *
 * Call hosts: all at once, since each takes a good part of a second, and all of their reasons, since whoever mends one
 * wants to know of the others.
 */
#include "launcher/remote/call_hosts.h"
#include "base/clock.h"
#include "launcher/common/say.h"
#include "launcher/remote/ssh.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SIGNAL = 128, EXIT_FAILED = 1, FIXED_FDS = 2 };

struct calls {
    const struct call_setting *setting;
    struct host_link *links;
    struct pollfd *fds; /* owned */
    size_t count, called;
};

static int is_settled(const struct host_link *link)
{
    return link->state == LINK_READY || link->state == LINK_ENDED;
}

static size_t count_settled(const struct calls *calls)
{
    size_t settled = 0;

    for (size_t i = 0; i < calls->called; i++)
        settled += is_settled(&calls->links[i]);
    return settled;
}

static int call_next(struct calls *calls)
{
    struct host_link *link = &calls->links[calls->called];
    struct words words = { 0 };
    int code = ssh_words(calls->setting->options, link->host, &words) ? 0 : say_no_memory();

    if (!code) {
        calls->called++;
        code = link_call(link, words.at, calls->setting->events);
    }
    words_fini(&words);
    return code;
}

static void reap(struct calls *calls)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < calls->called; i++)
            if (calls->links[i].state != LINK_ENDED && calls->links[i].ssh == pid)
                link_reaped(&calls->links[i], status);
}

/* 0, or the exit code that a signal to stop means. */
static int take_signals(struct calls *calls)
{
    struct signalfd_siginfo info;

    while (read(calls->setting->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            reap(calls);
        else if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
            return EXIT_SIGNAL + signal;
    }
    return 0;
}

static int wait_a_turn(struct calls *calls, int64_t deadline_us)
{
    struct pollfd *fds = calls->fds;

    fds[0] = (struct pollfd){ .fd = calls->setting->signal_fd, .events = POLLIN };
    fds[1] = (struct pollfd){ .fd = calls->setting->lifeline, .events = POLLIN };
    for (size_t i = 0; i < calls->called; i++)
        link_watch(&calls->links[i], 1, fds + FIXED_FDS + i * LINK_FDS);
    int ms = halay_deadline_left_ms(deadline_us);
    if (poll(fds, (nfds_t)(FIXED_FDS + calls->called * LINK_FDS), ms < 0 || ms > 1000 ? 1000 : ms) < 0 &&
        errno != EINTR) {
        say("cannot wait for the hosts: %s", strerror(errno));
        return EXIT_FAILED;
    }
    for (size_t i = 0; i < calls->called; i++)
        link_progress(&calls->links[i], 1);
    if (fds[1].revents)
        return EXIT_FAILED;
    return fds[0].revents ? take_signals(calls) : 0;
}

/* What helps, where it is known. */
static const char *advice(const struct host_link *link)
{
    static const struct {
        const char *said, *advice;
    } known[] = {
        { "Host key verification failed", " (is its key known here, and still the same? 'ssh HOST' asks)" },
        { "Permission denied (", " (it takes no key of ours: ssh-copy-id gives it one, -i names another)" },
    };
    int code = link->state == LINK_ENDED && WIFEXITED(link->status) ? WEXITSTATUS(link->status) : 0;

    for (size_t i = 0; link->reason && i < sizeof known / sizeof *known; i++)
        if (strstr(link->reason, known[i].said))
            return known[i].advice;
    return code == 126 || code == 127 ? "; --remote-halayrun PATH says where halayrun is on the other hosts" : "";
}

static int judge(const struct calls *calls)
{
    size_t failed = 0;
    char why[1024];

    for (size_t i = 0; i < calls->called; i++) {
        const struct host_link *link = &calls->links[i];
        if (link->state == LINK_READY)
            continue;
        link_explain(link, why, sizeof why);
        say("host '%s': %s%s", link->host, why, advice(link));
        if (calls->setting->cause_fd)
            dprintf(calls->setting->cause_fd, "%s%shost '%s': %s\n", failed ? "" : link->host, failed ? "" : "\n",
                    link->host, why);
        failed++;
    }
    if (failed)
        say("%zu of %zu hosts cannot be started: nothing is", failed, calls->count);
    return failed ? EXIT_FAILED : 0;
}

int call_hosts(const struct call_setting *setting, struct host_link *links, size_t count)
{
    struct calls calls = { .setting = setting, .links = links, .count = count };
    int64_t deadline_us = halay_deadline_us(setting->timeout_ms);
    int code = 0;

    calls.fds = calloc(FIXED_FDS + count * LINK_FDS, sizeof *calls.fds);
    if (!calls.fds)
        return say_no_memory();
    while (!code && !halay_deadline_passed(deadline_us)) {
        while (!code && calls.called < count && calls.called - count_settled(&calls) < CALLS_MAX)
            code = call_next(&calls);
        if (code || count_settled(&calls) == count)
            break;
        code = wait_a_turn(&calls, deadline_us);
    }
    if (!code)
        code = judge(&calls);
    free(calls.fds);
    return code;
}
