/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress lines.
 */
#include "tft/tools/cli/progress_lines.h"
#include "base/clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { TERMINAL_PACE_US = 200000, PLAIN_PACE_US = 10000000 };

/* What clears the line that is rewritten. */
static const char *clear(void)
{
    return isatty(STDERR_FILENO) ? "\r\033[K" : "";
}

void tft_progress_lines_say(void *arg, const char *text)
{
    char line[1100];

    (void)arg;
    /* In one write: mpirun, which prefixes the lines of many ranks, must not get half of one. */
    int n = snprintf(line, sizeof line, "%s%s\n", clear(), text);
    size_t length = n < (int)sizeof line ? (size_t)n : sizeof line - 1;
    line[length - 1] = '\n';
    fwrite(line, 1, length, stderr);
}

void tft_progress_lines_step(void *arg, const struct halay_tft_progress *p)
{
    struct tft_progress_lines *lines = arg;
    const int64_t now = halay_now_us();
    const int terminal = isatty(STDERR_FILENO);

    if (!lines->said_us)
        lines->said_us = now;
    if (now - lines->said_us < (terminal ? TERMINAL_PACE_US : PLAIN_PACE_US))
        return;
    lines->said_us = now;
    fprintf(stderr,
            "%sstep %" PRIu64 "/%" PRIu64 "  epoch %" PRIu64
            "  loss %.4f  %.0f samples/s  %.0f s, at most %.0f s left%s",
            clear(), p->step, p->steps, p->epoch, p->loss, p->samples_per_second, p->seconds, p->seconds_left,
            terminal ? "" : "\n");
    fflush(stderr);
}
