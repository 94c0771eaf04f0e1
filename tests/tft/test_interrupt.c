/* SPDX-License-Identifier: Apache-2.0
 *
 * A signal that comes twice at once is one event, as when a batch system tells all processes and the launcher tells its
 * ranks; a later one ends the process. The clock is the test's own.
 */
#include "tests/test.h"
#include "tft/tools/cli/session.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct timespec now = { .tv_sec = 1000 };

/* The linker gives it to everything here in place of the system's; libraries that a sanitizer brings want to see it. */
__attribute__((visibility("default"))) int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = now;
    return 0;
}

/* The signal that the session was asked to stop by: its next call says so. */
static int asked(struct halay_tft *tft)
{
    const struct halay_tft_windows windows = { .struct_size = sizeof windows, .page = "/dev/null" };

    halay_tft_report(tft, "/no/such/run", NULL, &windows);
    return halay_tft_stopped(tft);
}

/* Writes a byte to `to` when it is still there after the second signal. */
static int child(int to)
{
    struct halay_tft *tft;

    if (halay_tft_init(NULL, &tft))
        return 4;
    tft_interrupt_watch(tft);
    raise(SIGTERM);
    now.tv_nsec = 999999000;
    raise(SIGTERM);
    if (asked(tft) != SIGTERM || raise(SIGUSR1) || asked(tft) != SIGUSR1)
        return 1;
    if (write(to, "x", 1) != 1)
        return 3;
    now = (struct timespec){ .tv_sec = 1001 };
    raise(SIGTERM);
    return 2;
}

int main(void)
{
    int status = 0, ends[2];
    char byte;

    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    if (!pid)
        _exit(child(ends[1]));
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1, "the second signal at once ends it");
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status 0x%x: 1 is not noted, 2 outlives it", status);
    return test_end();
}
