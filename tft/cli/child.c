/* SPDX-License-Identifier: Apache-2.0
 *
 * Children. A signal from the terminal reaches them, too.
 */
#include "tft/cli/child.h"
#include "base/clock.h"
#include "base/config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNAL_EXIT = 128 };

static int is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* In PATH, or where it is named. 0: nowhere. */
static int find_in_path(const char *name, char *path)
{
    const char *list = halay_environment_get("PATH");

    if (strchr(name, '/')) {
        snprintf(path, TFT_CHILD_PATH, "%s", name);
        return is_program(path);
    }
    for (; list && *list; list += *list == ':') {
        int length = (int)strcspn(list, ":");
        snprintf(path, TFT_CHILD_PATH, "%.*s/%s", length, list, name);
        if (is_program(path))
            return 1;
        list += length;
    }
    return 0;
}

/* Beside this program; in the folder of a build it is in another one. */
static int find_beside(const char *self, char *path)
{
    static const char *const places[] = { "halayrun", "launcher/halayrun", "../launcher/halayrun" };
    int length = (int)(strrchr(self, '/') - self);

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, TFT_CHILD_PATH, "%.*s/%s", length, self, places[i]);
        if (is_program(path))
            return 1;
    }
    return 0;
}

enum halay_status tft_programs_find(struct halay_log *log, const char *halayrun, struct tft_programs *programs)
{
    ssize_t length = readlink("/proc/self/exe", programs->self, sizeof programs->self - 64);

    if (length < 0) {
        halay_error(log, "cannot find this program: %s", strerror(errno));
        return HALAY_ERR_SYSTEM;
    }
    programs->self[length] = 0;
    if (halayrun ? find_in_path(halayrun, programs->halayrun)
                 : find_beside(programs->self, programs->halayrun) || find_in_path("halayrun", programs->halayrun))
        return HALAY_OK;
    halay_error(log, "no program '%s': --halayrun says where it is", halayrun ? halayrun : "halayrun");
    return HALAY_ERR_CONFIG;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* In the child, between fork and exec: what failed goes to the parent by a pipe that exec closes. */
static void become(char *const *command, const char *output, int appends, const cpu_set_t *cpus, pid_t parent, int pipe)
{
    const int flags = O_WRONLY | O_CREAT | (appends ? O_APPEND : O_TRUNC);
    sigset_t none;
    int in = open("/dev/null", O_RDONLY), out = open(output, flags, 0666);

    sigemptyset(&none);
    if (in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0 && !prctl(PR_SET_PDEATHSIG, SIGTERM) &&
        (!cpus || !sched_setaffinity(0, sizeof *cpus, cpus)) && !sigprocmask(SIG_SETMASK, &none, NULL)) {
        if (getppid() != parent)
            _exit(EXIT_FAILURE); /* it died before it could be known here */
        execv(command[0], command);
    }
    int error = errno;
    while (write(pipe, &error, sizeof error) < 0 && errno == EINTR)
        ;
    _exit(EXIT_FAILURE);
}

enum halay_status tft_child_start(struct halay_log *log, char *const *command, const char *output, int appends,
                                  const cpu_set_t *cpus, struct tft_child *child)
{
    const pid_t parent = getpid();
    int ends[2], error = 0;
    ssize_t got = 0;

    *child = (struct tft_child){ .begun_us = halay_now_us() };
    if (pipe2(ends, O_CLOEXEC)) {
        error = errno;
    } else {
        child->pid = fork();
        if (!child->pid)
            become(command, output, appends, cpus, parent, ends[1]);
        error = child->pid < 0 ? errno : 0;
        close(ends[1]);
        while (!error && (got = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR)
            ;
        close(ends[0]);
    }
    if (!error)
        return HALAY_OK;
    if (child->pid > 0)
        waitpid(child->pid, NULL, 0);
    child->pid = 0;
    halay_error(log, "cannot start '%s' with its output in '%s': %s", command[0], output, strerror(error));
    return HALAY_ERR_SYSTEM;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

static int collect(struct tft_child *child, int options, struct tft_child_end *end)
{
    struct rusage used = { 0 };
    pid_t pid;

    do
        pid = wait4(child->pid, &end->status, options, &used);
    while (pid < 0 && errno == EINTR);
    if (pid != child->pid)
        return 0;
    child->pid = 0;
    end->seconds = (double)(halay_now_us() - child->begun_us) / 1e6;
    end->peak_bytes = (size_t)used.ru_maxrss << 10;
    return 1;
}

int tft_child_has_ended(struct tft_child *child, struct tft_child_end *end)
{
    return collect(child, WNOHANG, end);
}

int tft_child_exit_code(const struct tft_child_end *end)
{
    return WIFEXITED(end->status) ? WEXITSTATUS(end->status) : SIGNAL_EXIT + WTERMSIG(end->status);
}

static volatile sig_atomic_t running; /* whom signals go to */

static void pass_on(int signal)
{
    if (running > 0)
        kill((pid_t)running, signal);
}

enum halay_status tft_child_run(struct halay_log *log, char *const *command, const char *output,
                                struct tft_child_end *end)
{
    const struct sigaction pass = { .sa_handler = pass_on };
    struct sigaction before[2];
    struct tft_child child;
    enum halay_status status = tft_child_start(log, command, output, 0, NULL, &child);

    if (status)
        return status;
    running = (sig_atomic_t)child.pid;
    sigaction(SIGTERM, &pass, &before[0]);
    sigaction(SIGINT, &pass, &before[1]);
    collect(&child, 0, end);
    running = 0;
    sigaction(SIGTERM, &before[0], NULL);
    sigaction(SIGINT, &before[1], NULL);
    return HALAY_OK;
}
