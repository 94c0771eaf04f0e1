/* SPDX-License-Identifier: Apache-2.0
 *
 * A signal that comes twice at once is one event, as when a batch system tells all processes and the launcher tells its ranks; a
 * later one ends the process.
 */
#include "base/clock.h"
#include "tests/test.h"
#include "tft/interrupt.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(void)
{
    tft_interrupt_watch();
    raise(SIGTERM);
    int64_t told_us = halay_now_us();
    raise(SIGTERM); /* one that is stopped in between for a second dies here, and the test would say so */
    if (tft_interrupt_seen() != SIGTERM || raise(SIGUSR1) || tft_interrupt_seen() != SIGUSR1)
        return 1;
    while (halay_now_us() - told_us < 1100000)
        usleep(10000);
    raise(SIGTERM);
    return 2;
}

int main(void)
{
    int status = 0;
    pid_t pid = fork();

    if (!pid)
        _exit(child());
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status 0x%x: 1 is not noted, 2 outlives the second", status);
    return test_end();
}
