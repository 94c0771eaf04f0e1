/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexed Job: names only. Pod 0's address may not be known yet: each attempt to connect looks it up again.
 */
#include "launcher/remote/indexed_job.h"
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 256 };

const char *indexed_job_first(const char *own_name, int index, char *first, size_t size)
{
    char ending[16];
    size_t host = strcspn(own_name, "."), length = (size_t)snprintf(ending, sizeof ending, "-%d", index);

    if (host <= length || strncmp(own_name + host - length, ending, length) != 0)
        return "this host is not named as the Job's pods are (JOB-INDEX; hostNetwork takes their names from them)";
    if (!own_name[host])
        return "the pods have no domain name: let 'subdomain' in the pod template name a headless Service";
    if (snprintf(first, size, "%.*s-0%s", (int)(host - length), own_name, own_name + host) >= (int)size)
        return "this pod's domain name is too long";
    return NULL;
}

const char *indexed_job_first_of_this(int index, char *first, size_t size)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_CANONNAME };
    char name[NAME_MAX_BYTES] = "", whole[NAME_MAX_BYTES];
    struct addrinfo *found = NULL;

    gethostname(name, sizeof name - 1); /* "" is refused below */
    snprintf(whole, sizeof whole, "%s", name);
    if (!strchr(name, '.') && getaddrinfo(name, NULL, &hints, &found) == 0) {
        if (found->ai_canonname)
            snprintf(whole, sizeof whole, "%s", found->ai_canonname);
        freeaddrinfo(found);
    }
    return indexed_job_first(whole, index, first, size);
}
