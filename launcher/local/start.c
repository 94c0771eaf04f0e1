/* SPDX-License-Identifier: Apache-2.0
 *
 * Start: fork, prepare, execute.
 *
 * The child leads a process group of its own, so that a signal also reaches what it starts. It dies with its parent
 * (PDEATHSIG) and inherits its standard streams and the descriptors of the secret and of the host's ranks, nothing
 * else. Errors between fork and exec come back through a pipe that a successful exec closes.
 */
#include "launcher/local/start.h"
#include "base/config.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A failure in the child. */
struct start_failure {
    int code; /* errno */
    char what[32];
};

static void report_and_exit(int report_fd, const char *what)
{
    struct start_failure failure = { .code = errno };

    snprintf(failure.what, sizeof failure.what, "%s", what);
    if (write(report_fd, &failure, sizeof failure) < 0)
        _exit(1);
    _exit(EXIT_NOT_FOUND);
}

static int set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    return setenv(name, text, 1);
}

static int set_variables(const struct start *s)
{
    return set_number("HALAY_RANK", s->rank) || set_number("HALAY_SIZE", s->size) ||
           set_number("HALAY_LOCAL_RANK", s->local_rank) || set_number("HALAY_LOCAL_SIZE", s->local_size) ||
           setenv("HALAY_STORE_ADDRESS", s->store_address, 1) ||
           (s->elastic >= 0 && set_number("HALAY_ELASTIC", s->elastic)) ||
           (s->host_ranks_fd >= 0 && set_number("HALAY_HOST_RANKS_FD", s->host_ranks_fd)) ||
           set_number("HALAY_STORE_SECRET_FD", s->secret_fd);
}

/* Sets what torchrun sets and Python programs read. The user may have given a master. */
static int set_torch_variables(const struct start *s)
{
    char port[16];

    snprintf(port, sizeof port, "%d", s->master->port);
    if (set_number("LOCAL_RANK", s->local_rank) || set_number("LOCAL_WORLD_SIZE", s->local_size) ||
        setenv("MASTER_ADDR", s->master->address, 0) || setenv("MASTER_PORT", port, 0))
        return -1;
    return s->world &&
           (set_number("RANK", s->rank) || set_number("WORLD_SIZE", s->world) || set_number("GROUP_RANK", s->node) ||
            set_number("NODE_RANK", s->node) || set_number("GROUP_WORLD_SIZE", s->nodes));
}

static int connect_streams(const struct start *s, int out, int err)
{
    int in = s->stdin_fd >= 0 ? s->stdin_fd : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (in < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        return 0;
    /* dup2 onto itself would keep close-on-exec. */
    return in == STDIN_FILENO ? fcntl(in, F_SETFD, 0) == 0 : dup2(in, STDIN_FILENO) >= 0;
}

__attribute__((noreturn)) static void run_child(const struct start *s, pid_t parent, int out, int err, int report_fd)
{
    if (setpgid(0, 0) < 0)
        report_and_exit(report_fd, "set a process group");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        report_and_exit(report_fd, "tie it to halayrun");
    if (getppid() != parent) /* halayrun died before the child was tied to it */
        _exit(1);
    if (!connect_streams(s, out, err))
        report_and_exit(report_fd, "connect its streams");
    if (fcntl(s->secret_fd, F_SETFD, 0) < 0)
        report_and_exit(report_fd, "pass the secret on");
    if (s->host_ranks_fd >= 0 && fcntl(s->host_ranks_fd, F_SETFD, 0) < 0)
        report_and_exit(report_fd, "pass the host's ranks on");
    if (!binding_apply(s->map, s->local_rank))
        report_and_exit(report_fd, "bind it to its cores");
    if (set_variables(s) || set_torch_variables(s))
        report_and_exit(report_fd, "set its variables");
    if (s->folder && (chdir(s->folder) < 0 || setenv("PWD", s->folder, 1) < 0))
        report_and_exit(report_fd, "go to its folder");
    sigprocmask(SIG_SETMASK, s->signals, NULL);
    execvp(s->command[0], s->command);
    report_and_exit(report_fd, "");
    _exit(1); /* not reached */
}

/* Waits until the child has executed its program or reported why it cannot. */
static int await_exec(const struct start *s, int report_fd)
{
    struct start_failure failure;
    ssize_t n;

    do
        n = read(report_fd, &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof failure) {
        report("cannot start rank %d", s->rank);
        return 1;
    }
    if (*failure.what) {
        report("cannot start rank %d: cannot %s: %s", s->rank, failure.what, strerror(failure.code));
        return 1;
    }
    report("cannot run '%s': %s", s->command[0], strerror(failure.code));
    return failure.code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

int start_rank(const struct start *start, pid_t *pid, int streams[2])
{
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } }; /* standard output, standard error, report */
    pid_t parent = getpid(), child = -1;
    int code = 1;

    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) < 0) {
            report("cannot start rank %d: cannot create a pipe: %s", start->rank, strerror(errno));
            goto done;
        }
    child = fork();
    if (child < 0) {
        report("cannot start rank %d: cannot fork: %s", start->rank, strerror(errno));
        goto done;
    }
    if (child == 0)
        run_child(start, parent, pipes[0][1], pipes[1][1], pipes[2][1]);
    if (setpgid(child, child) < 0 && errno != EACCES && errno != ESRCH) /* the child does it too: either may be first */
        report("cannot set the process group of rank %d: %s", start->rank, strerror(errno));
    close(pipes[2][1]);
    pipes[2][1] = -1;
    code = await_exec(start, pipes[2][0]);
    if (code)
        goto done; /* the child ends by itself and is reaped with the others */
    *pid = child;
    for (int i = 0; i < 2; i++) {
        streams[i] = pipes[i][0];
        pipes[i][0] = -1;
    }
done:
    for (int i = 0; i < 3; i++)
        close_pair(pipes[i]);
    return code;
}

/* ---- looking for the program ------------------------------------------------------------------------------------- */

static int is_executable(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

int start_find_program(const char *program, char *place, size_t size)
{
    const char *path = halay_environment_get("PATH");

    for (; path && *path; path += *path == ':') {
        int length = (int)strcspn(path, ":");
        int printed = length ? snprintf(place, size, "%.*s/%s", length, path, program)
                             : snprintf(place, size, "./%s", program); /* an empty entry is the current folder */
        if (printed < (int)size && is_executable(place))
            return 1;
        path += length;
    }
    return 0;
}

static int check_path(const char *program, const char *path)
{
    struct stat file;

    if (is_executable(path))
        return 0;
    if (stat(path, &file) < 0) {
        report("program '%s': %s", program, strerror(errno));
        return errno == EACCES ? EXIT_CANNOT_RUN : EXIT_NOT_FOUND;
    }
    report("program '%s' %s", program,
           S_ISDIR(file.st_mode) ? "is a folder" : "is not executable; chmod +x makes it so");
    return EXIT_CANNOT_RUN;
}

int start_check_program(const char *folder, const char *program)
{
    char path[PATH_MAX];
    struct stat file;

    if (folder && stat(folder, &file) < 0) {
        report("folder '%s': %s", folder, strerror(errno));
        return 1;
    }
    if (folder && !S_ISDIR(file.st_mode)) {
        report("'%s' is not a folder", folder);
        return 1;
    }
    if (!strchr(program, '/')) {
        if (*program && start_find_program(program, path, sizeof path))
            return 0;
        if (is_executable(program))
            report("program '%s' is not in PATH; the one in this folder is './%s'", program, program);
        else
            report("program '%s' is not in PATH", program);
        return EXIT_NOT_FOUND;
    }
    const int is_below = folder && *program != '/';
    int printed =
        is_below ? snprintf(path, sizeof path, "%s/%s", folder, program) : snprintf(path, sizeof path, "%s", program);
    if (printed >= (int)sizeof path) {
        report("the name of program '%.60s...' is too long", program);
        return EXIT_NOT_FOUND;
    }
    return check_path(program, path);
}
