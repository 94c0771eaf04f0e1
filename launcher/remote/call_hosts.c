/* SPDX-License-Identifier: Apache-2.0
 *
 * Call hosts: all at once, since each takes a good part of a second; and all their errors are reported, so that they
 * can be mended together.
 */
#include "launcher/remote/call_hosts.h"
#include "base/clock.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/remote/ssh.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct calls {
    const struct call_setting *setting;
    struct host_link *links;
    struct halay_loop loop;
    size_t count, called;
    int is_orphaned; /* the supervisor has died */
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
    struct args args = { 0 };
    int ok = link->tunnels || ssh_args(calls->setting->options, link->host, &args);
    int code = ok ? 0 : report_no_memory();

    if (!code) {
        calls->called++;
        code = link_call(link, args.at, calls->setting->events);
    }
    args_fini(&args);
    return code;
}

static void reap_calls(struct calls *calls)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < calls->called; i++)
            if (calls->links[i].state != LINK_ENDED && calls->links[i].ssh == pid)
                link_reaped(&calls->links[i], status);
}

/* Returns 0, or the exit code after a signal to stop. */
static int take_stop_signal(struct calls *calls)
{
    struct signalfd_siginfo info;

    while (halay_signals_take(calls->setting->signal_fd, &info)) {
        int signal = (int)info.ssi_signo;
        if (signal == SIGCHLD)
            reap_calls(calls);
        else if (signal_is_stop(signal))
            return EXIT_SIGNAL + signal;
    }
    return 0;
}

static void lose_supervisor(void *context)
{
    ((struct calls *)context)->is_orphaned = 1;
}

static int calls_turn(struct calls *calls, int64_t deadline_us)
{
    halay_loop_watch(&calls->loop, calls->setting->signal_fd, POLLIN, NULL, NULL);
    halay_loop_watch(&calls->loop, calls->setting->lifeline, POLLIN, lose_supervisor, calls);
    for (size_t i = 0; i < calls->called; i++)
        link_watch(&calls->links[i], 1, &calls->loop);
    halay_loop_until(&calls->loop, deadline_us);
    halay_loop_until(&calls->loop, halay_deadline_us(1000));
    if (halay_loop_turn(&calls->loop, HALAY_NEVER) != HALAY_OK) {
        report("cannot wait for the hosts: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < calls->called; i++)
        link_progress(&calls->links[i], 1);
    return calls->is_orphaned ? EXIT_FAILURE : take_stop_signal(calls);
}

/* Advice, where there is some. */
static const char *find_advice(const struct host_link *link)
{
    static const struct {
        const char *reason, *advice;
    } known[] = {
        { "Host key verification failed", " (is its key known here, and unchanged? try 'ssh HOST')" },
        { "Permission denied (",
          " (it accepts no key of ours: install one with ssh-copy-id, or name another with -i)" },
    };
    int code = link->state == LINK_ENDED && WIFEXITED(link->status) ? WEXITSTATUS(link->status) : 0;

    for (size_t i = 0; link->reason && i < sizeof known / sizeof *known; i++)
        if (strstr(link->reason, known[i].reason))
            return known[i].advice;
    return code == EXIT_CANNOT_RUN || code == EXIT_NOT_FOUND
               ? "; --remote-halayrun PATH names halayrun on the other hosts"
               : "";
}

static int report_failed_hosts(const struct calls *calls)
{
    size_t failed = 0;
    char why[1024];

    for (size_t i = 0; i < calls->count; i++) {
        const struct host_link *link = &calls->links[i];
        if (i < calls->called && link->state == LINK_READY)
            continue;
        if (i < calls->called)
            link_explain(link, why, sizeof why);
        else
            snprintf(why, sizeof why, "the start timeout passed before it was called");
        report("host '%s': %s%s", link->host, why, find_advice(link));
        if (calls->setting->cause_fd)
            dprintf(calls->setting->cause_fd, "%s%shost '%s': %s\n", failed ? "" : link->host, failed ? "" : "\n",
                    link->host, why);
        failed++;
    }
    if (failed)
        report("%zu of %zu hosts cannot be started: no rank was started", failed, calls->count);
    return failed ? EXIT_FAILURE : 0;
}

int call_hosts(const struct call_setting *setting, struct host_link *links, size_t count)
{
    struct calls calls = { .setting = setting, .links = links, .count = count };
    int64_t deadline_us = halay_deadline_us(setting->timeout_ms);
    int code = 0;

    halay_loop_init(&calls.loop);
    while (!code && !halay_deadline_passed(deadline_us)) {
        while (!code && calls.called < count && calls.called - count_settled(&calls) < CALLS_MAX)
            code = call_next(&calls);
        if (code || count_settled(&calls) == count)
            break;
        code = calls_turn(&calls, deadline_us);
    }
    if (!code)
        code = report_failed_hosts(&calls);
    halay_loop_fini(&calls.loop);
    return code;
}
