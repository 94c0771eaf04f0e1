/* SPDX-License-Identifier: Apache-2.0
 *
 * What halayrun itself says: one line on standard error, "halayrun: text".
 */
#ifndef HALAY_LAUNCHER_SAY_H
#define HALAY_LAUNCHER_SAY_H

/* In one write, after what the ranks' output still holds back has not been waited for: use it before there is output to
 * be passed on; then output_say (output.h), which keeps the order. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says so; returns the exit code 1. */
int say_no_memory(void);

/* "SIGTERM", "signal 35"; the text lives until the next call in this thread. */
const char *signal_name(int signal);

#endif
