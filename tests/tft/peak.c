/* SPDX-License-Identifier: Apache-2.0
 *
 * peak COMMAND...: runs it and prints the most memory that it had resident, in KiB (what /proc calls VmHWM).
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct rusage use;
    int status;
    pid_t child = argc > 1 ? fork() : -1;

    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status || getrusage(RUSAGE_CHILDREN, &use)) {
        fprintf(stderr, "peak: no such command, or it failed\n");
        return 1;
    }
    printf("%ld\n", use.ru_maxrss);
    return 0;
}
