/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun's own lines, and signals by their names.
 */
#include "launcher/common/report.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void report(const char *format, ...)
{
    char line[2048] = "halayrun: ";
    size_t head = strlen(line);
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line + head, sizeof line - head - 1, format, args);
    va_end(args);
    size_t length = head + (n < 0 ? 0 : (size_t)n);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length] = '\n';
    if (write(STDERR_FILENO, line, length + 1) < 0)
        return; /* it has no reader */
}

int report_no_memory(void)
{
    report("no memory");
    return 1;
}

int signal_is_stop(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

const char *signal_name(int signal)
{
    static const struct {
        int number;
        const char *name;
    } names[] = { { SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },   { SIGQUIT, "SIGQUIT" }, { SIGILL, "SIGILL" },
                  { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" }, { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },
                  { SIGKILL, "SIGKILL" }, { SIGUSR1, "SIGUSR1" }, { SIGSEGV, "SIGSEGV" }, { SIGUSR2, "SIGUSR2" },
                  { SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" }, { SIGTERM, "SIGTERM" }, { SIGXCPU, "SIGXCPU" },
                  { SIGXFSZ, "SIGXFSZ" }, { SIGSYS, "SIGSYS" } };
    static _Thread_local char other[32];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == signal)
            return names[i].name;
    snprintf(other, sizeof other, "signal %d", signal);
    return other;
}
