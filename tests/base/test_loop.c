/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: descriptors, deadlines, signals and children, and what happens to its list meanwhile.
 */
#include "base/clock.h"
#include "base/loop.h"
#include "tests/test.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 400, LONG_MS = 30000 }; /* MANY pipes are within the usual limit of 1024 descriptors */

static struct halay_loop loop;
static char calls[64]; /* the letters of the calls made, in their order */

static void note(void *context)
{
    const size_t n = strlen(calls);

    if (n + 1 < sizeof calls)
        calls[n] = *(const char *)context;
}

/* Returns the letters of the calls that this turn made. */
static const char *turn(enum halay_status expected)
{
    memset(calls, 0, sizeof calls);
    enum halay_status status = halay_loop_turn(&loop, halay_deadline_us(LONG_MS));
    CHECK(status == expected, "(status %d)", (int)status);
    CHECK(!loop.count && loop.due_us == HALAY_NEVER, "the list is not empty after a turn");
    return calls;
}

static void open_pipe(int ends[2], int has_bytes)
{
    REQUIRE(pipe(ends) == 0);
    REQUIRE(!has_bytes || write(ends[1], "x", 1) == 1);
}

static void close_pipe(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void check_descriptors(void)
{
    int full[2], empty[2];
    struct halay_loop none;

    halay_loop_init(&none);
    halay_loop_fini(&none);
    open_pipe(full, 1);
    open_pipe(empty, 0);
    halay_loop_watch(&loop, empty[0], POLLIN, note, "e");
    halay_loop_watch(&loop, empty[1], POLLOUT, note, "w");
    halay_loop_watch(&loop, -1, POLLIN, note, "n");
    halay_loop_watch(&loop, full[0], POLLIN, NULL, NULL);
    halay_loop_watch(&loop, full[0], POLLIN, note, "f");
    CHECK(!strcmp(turn(HALAY_OK), "wf"), "(%s)", calls);
    halay_loop_watch(&loop, empty[0], POLLIN, note, "e");
    halay_loop_until(&loop, halay_deadline_us(0));
    CHECK(!strcmp(turn(HALAY_OK), ""), "a call of an earlier turn: %s", calls);
    close(empty[1]);
    halay_loop_watch(&loop, empty[0], POLLIN, note, "h");
    CHECK(!strcmp(turn(HALAY_OK), "h"), "a pipe without a writer is not ready");
    close(empty[0]);
    halay_loop_watch(&loop, empty[0], POLLIN, note, "c");
    CHECK(!strcmp(turn(HALAY_OK), "c"), "a closed descriptor is not ready");
    close_pipe(full);
}

static void close_both(void *context)
{
    int *fds = context;

    note("x");
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Of two that are ready, the first closes both: the second call is made and finds that; the next turn has neither. */
static void check_closing(void)
{
    int a[2], b[2];

    open_pipe(a, 1);
    open_pipe(b, 1);
    int fds[] = { a[0], b[0] };
    for (int i = 0; i < 2; i++)
        halay_loop_watch(&loop, fds[i], POLLIN, close_both, fds);
    CHECK(!strcmp(turn(HALAY_OK), "xx"), "(%s)", calls);
    for (int i = 0; i < 2; i++)
        halay_loop_watch(&loop, fds[i], POLLIN, close_both, fds);
    halay_loop_until(&loop, halay_deadline_us(0));
    CHECK(!strcmp(turn(HALAY_OK), ""), "(%s)", calls);
    close(a[1]);
    close(b[1]);
}

static void check_deadlines(void)
{
    const int64_t begun_us = halay_now_us();
    int full[2];

    halay_loop_until(&loop, begun_us + LONG_MS * INT64_C(1000));
    halay_loop_until(&loop, begun_us + 20000);
    halay_loop_until(&loop, HALAY_NEVER);
    turn(HALAY_OK);
    CHECK(halay_now_us() >= begun_us + 20000, "a turn ended before its deadline");
    CHECK(halay_now_us() < begun_us + LONG_MS * INT64_C(1000), "a turn waited for the second deadline");
    CHECK(halay_loop_turn(&loop, halay_deadline_us(20)) == HALAY_ERR_TIMEOUT);
    open_pipe(full, 1);
    halay_loop_watch(&loop, full[0], POLLIN, note, "f");
    memset(calls, 0, sizeof calls);
    CHECK(halay_loop_turn(&loop, 0) == HALAY_OK && !strcmp(calls, "f"), "(%s)", calls);
    close_pipe(full);
}

static void count_ready(void *context)
{
    ++*(int *)context;
}

static void check_many(void)
{
    static int pipes[MANY][2];
    int ready = 0;

    for (int i = 0; i < MANY; i++)
        open_pipe(pipes[i], i % 2);
    for (int i = 0; i < MANY; i++)
        halay_loop_watch(&loop, pipes[i][0], POLLIN, count_ready, &ready);
    turn(HALAY_OK);
    CHECK(ready == MANY / 2, "(%d)", ready);
    for (int i = 0; i < MANY; i++)
        close_pipe(pipes[i]);
}

static void ignore_signal(int signal)
{
    (void)signal;
}

/* A handler ends the wait; nothing counts as ready, and no deadline has passed. */
static void check_interrupted(void)
{
    const struct sigaction action = { .sa_handler = ignore_signal };
    const struct itimerval soon = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 }, never = { 0 };
    int empty[2];

    open_pipe(empty, 0);
    REQUIRE(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    halay_loop_watch(&loop, empty[0], POLLIN, note, "e");
    halay_loop_until(&loop, halay_deadline_us(LONG_MS));
    CHECK(!strcmp(turn(HALAY_OK), ""), "(%s)", calls);
    REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
    close_pipe(empty);
}

/* More descriptors than the process may have: poll refuses them, and no call is made. */
static void check_failure(void)
{
    struct rlimit limit;
    int full[2];

    open_pipe(full, 1);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const struct rlimit low = { .rlim_cur = 64, .rlim_max = limit.rlim_max };
    REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
    for (int i = 0; i <= 64; i++)
        halay_loop_watch(&loop, full[0], POLLIN, note, "f");
    CHECK(!strcmp(turn(HALAY_ERR_SYSTEM), "") && errno == EINVAL, "(%s, %s)", calls, strerror(errno));
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    halay_loop_watch(&loop, full[0], POLLIN, note, "f");
    CHECK(!strcmp(turn(HALAY_OK), "f"), "a loop is not as new after a failure");
    close_pipe(full);
}

static void check_signals(void)
{
    struct signalfd_siginfo info = { 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int fd = halay_signals_open(&set, NULL);
    REQUIRE(fd >= 0);
    CHECK(!halay_signals_take(fd, &info), "there is a signal before one was sent");
    REQUIRE(raise(SIGUSR1) == 0);
    halay_loop_watch(&loop, fd, POLLIN, note, "s");
    CHECK(!strcmp(turn(HALAY_OK), "s"));
    CHECK(halay_signals_take(fd, &info) && info.ssi_signo == SIGUSR1 && !halay_signals_take(fd, &info));
    close(fd);
}

/* One that ends while it is watched, and one that has ended before. */
static void check_children(void)
{
    struct signalfd_siginfo info;
    siginfo_t ended;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int fd = halay_signals_open(&set, NULL);
    REQUIRE(fd >= 0);
    for (int is_early = 0; is_early < 2; is_early++) {
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0)
            _exit(7);
        if (is_early)
            REQUIRE(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) == 0);
        halay_loop_watch(&loop, fd, POLLIN, note, "c");
        halay_loop_until(&loop, halay_deadline_us(LONG_MS));
        CHECK(!strcmp(turn(HALAY_OK), "c"), "(%s)", calls);
        int status = 0;
        CHECK(halay_signals_take(fd, &info) && info.ssi_signo == SIGCHLD && (pid_t)info.ssi_pid == pid);
        CHECK(waitpid(pid, &status, WNOHANG) == pid && WEXITSTATUS(status) == 7);
    }
    close(fd);
}

int main(void)
{
    halay_loop_init(&loop);
    check_descriptors();
    check_closing();
    check_deadlines();
    check_many();
    check_interrupted();
    check_failure();
    check_signals();
    check_children();
    halay_loop_fini(&loop);
    return test_end();
}
