/* SPDX-License-Identifier: Apache-2.0
 *
 * halayrun's own messages: one line on standard error, "halayrun: text".
 */
#ifndef HALAY_LAUNCHER_REPORT_H
#define HALAY_LAUNCHER_REPORT_H

/* Written at once, ahead of ranks' output that is still buffered: use it only before there is any. Afterwards use
 * output_report (output.h), which keeps the order. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports "no memory" and returns the exit code 1. */
int report_no_memory(void);

/* Returns nonzero for the signals by which users and batch systems end a job. */
int signal_is_stop(int signal);

/* "SIGTERM", "signal 35"; valid until the next call in this thread. */
const char *signal_name(int signal);

#endif
