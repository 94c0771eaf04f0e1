/* SPDX-License-Identifier: Apache-2.0
 *
 * Children. A signal from the terminal reaches them, too.
 */
#include "base/config.h"
#include "tft/tools/cli/tuner.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
    halay_error(log, "no program '%s': give its path by --halayrun", halayrun ? halayrun : "halayrun");
    return HALAY_ERR_CONFIG;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

/* In the child, between fork and exec: what failed goes to the parent by a pipe that exec closes. */
static void become(char *const *command, const char *output, const cpu_set_t *cpus, pid_t parent, int pipe)
{
    sigset_t none;
    int in = open("/dev/null", O_RDONLY), out = open(output, O_WRONLY | O_CREAT | O_APPEND, 0666);

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

enum halay_status tft_child_start(struct halay_log *log, char *const *command, const char *output,
                                  const cpu_set_t *cpus, struct tft_child *child)
{
    const pid_t parent = getpid();
    int ends[2], error = 0;
    ssize_t got = 0;

    child->pid = 0;
    if (pipe2(ends, O_CLOEXEC)) {
        error = errno;
    } else {
        child->pid = fork();
        if (!child->pid)
            become(command, output, cpus, parent, ends[1]);
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

int tft_child_has_ended(struct tft_child *child, int *code)
{
    pid_t pid;
    int status;

    do
        pid = waitpid(child->pid, &status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid != child->pid)
        return 0;
    child->pid = 0;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : SIGNAL_EXIT + WTERMSIG(status);
    return 1;
}
