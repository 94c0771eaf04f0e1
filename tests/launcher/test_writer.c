/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that is forked once there is a writer can allocate memory: the writer's thread holds no lock of the
 * allocator. Only a build with the address sanitizer can fail here: its allocator does not wait for other threads when
 * the process forks, as glibc's does.
 */
#include "base/clock.h"
#include "launcher/local/writer.h"
#include "tests/test.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST_US = 400, PATIENCE_S = 30 };

static void allocate_all_sizes(void)
{
    for (size_t size = 16; size < 4096; size += 16) {
        void *volatile bytes = malloc(size);
        if (!bytes)
            _exit(1);
        free(bytes);
    }
}

/* In a process whose allocator is as good as unused, so that the thread's first allocations take time. */
static int fork_after(int pause_us)
{
    struct writer *writer = writer_create(1, -1);
    const int64_t due_us = halay_now_us() + pause_us;
    int status = -1;

    while (halay_now_us() < due_us)
        ;
    const pid_t child = writer ? fork() : -1;
    if (child == 0) {
        alarm(PATIENCE_S);
        allocate_all_sizes();
        _exit(0);
    }
    return child < 0 || waitpid(child, &status, 0) != child || status;
}

int main(void)
{
    for (int pause_us = 0; pause_us < LONGEST_US; pause_us++) {
        int status = -1;
        const pid_t child = fork();

        if (child == 0)
            _exit(fork_after(pause_us));
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(status == 0, "forked %d us after the thread was made", pause_us);
    }
    return test_end();
}
