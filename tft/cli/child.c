/* SPDX-License-Identifier: Apache-2.0
 *
 * Children. A signal from the terminal reaches them, too; one that is sent to this process alone is passed on.
 */
#include "tft/cli/child.h"
#include "base/clock.h"
#include "base/config.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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

/* Signals that end a program go to the child, which ends by them. */
static volatile sig_atomic_t child;

static void pass_on(int signal)
{
    if (child > 0)
        kill((pid_t)child, signal);
}

static enum halay_status start(struct halay_log *log, char *const *command, const char *output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int error;

    if (posix_spawn_file_actions_init(&actions))
        return HALAY_ERR_NO_MEMORY;
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (!error)
        error = posix_spawn(pid, command[0], &actions, NULL, command, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!error)
        return HALAY_OK;
    halay_error(log, "cannot start '%s' with its output in '%s': %s", command[0], output, strerror(error));
    return HALAY_ERR_SYSTEM;
}

enum halay_status tft_child_run(struct halay_log *log, char *const *command, const char *output,
                                struct tft_child_end *end)
{
    const struct sigaction pass = { .sa_handler = pass_on };
    struct sigaction before[2];
    int64_t begun_us = halay_now_us();
    struct rusage used = { 0 };
    pid_t pid;
    enum halay_status status = start(log, command, output, &pid);

    if (status)
        return status;
    child = (sig_atomic_t)pid;
    sigaction(SIGTERM, &pass, &before[0]);
    sigaction(SIGINT, &pass, &before[1]);
    while (wait4(pid, &end->status, 0, &used) < 0 && errno == EINTR)
        ;
    child = 0;
    sigaction(SIGTERM, &before[0], NULL);
    sigaction(SIGINT, &before[1], NULL);
    end->seconds = (double)(halay_now_us() - begun_us) / 1e6;
    end->peak_bytes = (size_t)used.ru_maxrss << 10;
    return HALAY_OK;
}
