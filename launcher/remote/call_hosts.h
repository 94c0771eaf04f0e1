/* SPDX-License-Identifier: Apache-2.0
 *
 * Call hosts: the beginning of a job on several hosts, until an agent on each has answered.
 */
#ifndef HALAY_LAUNCHER_CALL_HOSTS_H
#define HALAY_LAUNCHER_CALL_HOSTS_H

#include "launcher/cli/options.h"
#include "launcher/remote/host_link.h"

struct call_setting {
    const struct options *options;
    const struct link_events *events;
    int timeout_ms;
    int signal_fd; /* a signalfd of all signals */
    int lifeline;  /* at its end, halayrun's supervisor has died */
    int cause_fd;  /* as in struct job_setting */
};

/* Calls all hosts, CALLS_MAX at a time, and waits until each has answered or failed. Returns 0 if all links are
 * READY, otherwise an exit code; each host that failed is reported with its reason. The caller ends whatever was
 * called. */
int call_hosts(const struct call_setting *setting, struct host_link *links, size_t count);

enum { CALLS_MAX = 64 };

#endif
