/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's start: the store, the links to other hosts, the ranks and what they write to. job.c ends whatever was begun here.
 */
#include "base/config.h"
#include "launcher/call_hosts.h"
#include "launcher/environment.h"
#include "launcher/job_impl.h"
#include "launcher/plan.h"
#include "launcher/say.h"
#include "launcher/start.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkdir -p; 0 if it cannot be. */
static int make_folders(char *path)
{
    for (char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        int failed = mkdir(path, 0777) < 0 && errno != EEXIST;
        if (failed) {
            say("cannot create folder '%s': %s", path, strerror(errno));
            return 0;
        }
        if (slash)
            *slash = '/';
    }
    return 1;
}

static int open_streams(struct job *job, int r, const int fds[2])
{
    static const char *const names[] = { "stdout", "stderr" };
    const char *folder = job->setting->options->output_folder;
    char path[PATH_MAX];
    int ok = 1;

    if (folder) {
        if (snprintf(path, sizeof path, "%s/rank.%d", folder, r) >= (int)sizeof path - 8) {
            say("the name of folder '%.60s...' is too long", folder);
            ok = 0;
        } else {
            ok = make_folders(path);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (ok && folder)
            snprintf(path, sizeof path, "%s/rank.%d/%s", folder, r, names[i]);
        ok &= stream_init(&job->ranks[r].streams[i], &job->output, r, i, fds[i], ok && folder ? path : NULL);
    }
    return ok;
}

static int start_one(struct job *job, int r)
{
    const struct job_setting *s = job->setting;
    struct start start = { .rank = r,
                           .size = job->size,
                           .local_rank = layout_local_rank(s->layout, r),
                           .local_size = s->layout->here,
                           .command = s->options->command,
                           .folder = s->options->folder,
                           .map = s->map,
                           .store_address = job->store_address,
                           .secret_fd = job->secret_fd,
                           .stdin_fd = r == 0 ? s->rank0_stdin : -1,
                           .signals = s->rank_signals };
    struct rank *rank = &job->ranks[r];
    char cores[256];
    int fds[2];

    int code = start_rank(&start, &rank->pid, fds);
    if (code)
        return code;
    crew_add(&job->crew, r, rank->pid);
    rank->is_running = 1;
    job->running++;
    if (s->options->verbose) {
        binding_text(s->map, start.local_rank, cores, sizeof cores);
        output_say(&job->output, "rank %d: pid %d, processors %s", r, (int)rank->pid, cores);
    }
    return open_streams(job, r, fds) ? 0 : 1;
}

/* Addresses by which the store may be reached from elsewhere, as texts; by all if the interface has none. */
static int list_addresses(struct job *job, char texts[][HALAY_ADDRESS_TEXT], char **list)
{
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    const char *port = strrchr(halay_store_server_address(job->store), ':');
    const char *interface = job->setting->interface;
    int count = 0;

    if (!port)
        return 0;
    if (interface && halay_own_addresses(job->setting->log, interface, atoi(port + 1), addresses, &count) != HALAY_OK)
        return 0;
    if (!count && halay_own_addresses(job->setting->log, NULL, atoi(port + 1), addresses, &count) != HALAY_OK)
        return 0;
    for (int i = 0; i < count; i++) {
        halay_address_text(&addresses[i], texts[i], HALAY_ADDRESS_TEXT);
        list[i] = texts[i];
    }
    list[count] = NULL;
    return 1;
}

static int start_remote(struct job *job)
{
    const struct options *options = job->setting->options;
    char texts[HALAY_ADDRESSES_MAX][HALAY_ADDRESS_TEXT], *addresses[HALAY_ADDRESSES_MAX + 1], folder[PATH_MAX];
    struct plan plan = { .size = job->size,
                         .binding = (int)options->binding,
                         .grace_ms = options->grace_ms,
                         .folder = folder,
                         .addresses = addresses,
                         .environment = NULL,
                         .command = options->command };
    int code = 0;

    if (!job->link_count)
        return 0;
    if (options->folder) {
        snprintf(folder, sizeof folder, "%s", options->folder);
    } else if (!getcwd(folder, sizeof folder)) {
        say("cannot name the folder that we are in: %s", strerror(errno));
        return 1;
    }
    if (!list_addresses(job, texts, addresses))
        return 1;
    plan.environment = passed_on_environment(options);
    if (!plan.environment)
        return say_no_memory();
    memcpy(plan.secret, job->secret, sizeof plan.secret);
    for (size_t i = 0; !code && i < job->link_count; i++) {
        struct host_link *link = &job->links[i];
        const int none[2] = { -1, -1 };
        plan.first = link->first;
        plan.count = link->count;
        if (!link_start(link, &plan))
            code = say_no_memory();
        for (int r = link->first; !code && r < link->first + link->count; r++) {
            job->ranks[r].is_running = 1;
            job->running++;
            code = open_streams(job, r, none) ? 0 : 1;
        }
    }
    explicit_bzero(plan.secret, sizeof plan.secret);
    free(plan.environment);
    if (job->ranks[0].link)
        job->input_fd = job->setting->rank0_stdin;
    return code;
}

int job_call_others(struct job *job)
{
    const struct job_setting *s = job->setting;
    struct call_setting call = { .options = s->options,
                                 .events = &job->events,
                                 .timeout_ms = s->peer_start_ms,
                                 .signal_fd = job->signal_fd,
                                 .lifeline = s->lifeline,
                                 .cause_fd = s->cause_fd };

    if (!job->link_count)
        return 0;
    int code = call_hosts(&call, job->links, job->link_count);
    output_flush(&job->output);
    return code;
}

int job_start_all(struct job *job)
{
    if (job->setting->options->verbose && job->setting->layout->here && !job->setting->map->is_bound)
        output_say(&job->output, "ranks are not bound: %s", job->setting->map->why_not);
    int code = start_remote(job);
    for (int r = 0; !code && r < job->size; r++)
        if (!job->ranks[r].link)
            code = start_one(job, r);
    if (!code && !job->ranks[0].link && job->setting->rank0_stdin > STDERR_FILENO)
        close(job->setting->rank0_stdin); /* rank 0 alone reads it */
    return code;
}

int job_make_links(struct job *job)
{
    const struct layout *layout = job->setting->layout;
    size_t link = 0;

    for (size_t i = 0; i < layout->count; i++)
        job->link_count += !layout->at[i].is_here;
    job->links = calloc(job->link_count + 1, sizeof *job->links);
    if (!job->links)
        return say_no_memory();
    for (size_t i = 0; i < layout->count; i++) {
        const struct place *place = &layout->at[i];
        if (place->is_here)
            continue;
        job->links[link] = (struct host_link){
            .host = place->host, .first = place->first, .count = place->count, .in = -1, .out = -1, .err = -1
        };
        for (int r = place->first; r < place->first + place->count; r++)
            job->ranks[r].link = &job->links[link];
        link++;
    }
    return 0;
}

int job_open_store(struct job *job)
{
    struct halay_log *log = job->setting->log;
    const char *host = job->link_count ? "*" : NULL, *port;

    if (halay_store_create_secret(log, job->secret, &job->secret_fd) != HALAY_OK ||
        halay_store_server_create(log, host, job->secret, &job->store) != HALAY_OK)
        return 1;
    port = strrchr(halay_store_server_address(job->store), ':');
    snprintf(job->store_address, sizeof job->store_address, "127.0.0.1%s", port ? port : "");
    return 0;
}
