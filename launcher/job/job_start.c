/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's start: the store, the links to other hosts, the ranks and their streams. job.c cleans up what was begun here.
 */
#include "base/config.h"
#include "launcher/cli/environment.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include "launcher/local/start.h"
#include "launcher/remote/call_hosts.h"
#include "launcher/remote/host_plan.h"
#include "launcher/remote/ssh.h"
#include "launcher/where/elastic_options.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* mkdir -p; 0 if that fails (reported). */
static int make_folders(char *path)
{
    for (char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        int failed = mkdir(path, 0777) < 0 && errno != EEXIST;
        if (failed) {
            report("cannot create folder '%s': %s", path, strerror(errno));
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
            report("the name of folder '%.60s...' is too long", folder);
            ok = 0;
        } else {
            ok = make_folders(path);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (ok && folder)
            snprintf(path, sizeof path, "%s/rank.%d/%s", folder, r, names[i]);
        ok &= stream_init(&job->ranks[r].streams[i], &job->output, r, i, fds[i], ok && folder ? path : NULL,
                          job->ranks[r].was_used);
    }
    job->ranks[r].was_used = 1;
    return ok;
}

/* More of them may be started than cores were planned for. */
static const struct binding_map *binding_of(struct job *job, int r)
{
    if (!job->elastic || job->ranks[r].local < job->setting->local_workers)
        return job->setting->map;
    job->unbound = (struct binding_map){ .why_not = "it was started later", .gpus = job->setting->map->gpus };
    return &job->unbound;
}

/* Slots of its host where they can be used, in an elastic job; there may be more later. */
static int local_size_of(const struct job *job, int r)
{
    const struct rank *rank = &job->ranks[r];
    int size = rank->link ? rank->link->count : job->setting->local_workers;

    if (job->elastic && size < job_elastic_slots(job, r))
        size = job_elastic_slots(job, r);
    if (size > job->size)
        size = job->size;
    return size > rank->local ? size : rank->local + 1;
}

/* Number of ranks of rank 0's host, where each host's ranks follow each other and stay the same; 0: they do not. */
static int ordered_block(const struct job *job)
{
    const struct layout *layout = job->setting->layout;
    int first = -1, end = 0;

    if (job->elastic)
        return 0;
    for (size_t i = 0; i < layout->count; i++) {
        if (!layout->at[i].is_here)
            continue;
        first = first < 0 ? layout->at[i].first : first;
        end = layout->at[i].first + layout->at[i].count;
    }
    return first < 0 || end - first == layout->ranks_here ? local_size_of(job, 0) : 0;
}

static int start_local_rank(struct job *job, int r)
{
    const struct job_setting *s = job->setting;
    struct start start = { .rank = r,
                           .size = job->size,
                           .local_rank = job->ranks[r].local,
                           .local_size = local_size_of(job, r),
                           .world = job->ranks[r].start ? 0 : s->options->ranks,
                           .master = &job->master,
                           .elastic = job->elastic ? job->ranks[r].start : -1,
                           .command = s->options->command,
                           .folder = s->options->folder,
                           .map = binding_of(job, r),
                           .store_address = job->store_address,
                           .secret_fd = job->secret_fd,
                           .host_ranks_fd = job->host_ranks.fd,
                           .stdin_fd = r == 0 && !job->ranks[r].was_used ? s->rank0_stdin : -1,
                           .signals = s->rank_signals };
    struct rank *rank = &job->ranks[r];
    char cores[256];
    int fds[2];

    start.node = layout_node(s->layout, r, &start.nodes);
    int code = start_rank(&start, &rank->pid, fds);
    if (code)
        return code;
    local_ranks_add(&job->local_ranks, r, rank->pid);
    rank->is_running = 1;
    job->running++;
    job_watch_event(job->watch, "rank_started", "{s:i, s:i, s:s}", "rank", r, "pid", (int)rank->pid, "host",
                    "localhost");
    if (s->options->verbose) {
        binding_text(start.map, start.local_rank, cores, sizeof cores);
        output_report(&job->output, "rank %d: pid %d, processors %s", r, (int)rank->pid, cores);
    }
    return open_streams(job, r, fds) ? 0 : 1;
}

/* Addresses of the store for other hosts, as text: those of the interface that the platform names, unless the user
 * named one. */
static int list_addresses(struct job *job, char texts[][HALAY_ADDRESS_TEXT], char **list)
{
    struct halay_address addresses[HALAY_ADDRESSES_MAX];
    const char *interface = job->setting->network.interface ? NULL : job->setting->interface;
    int count = 0;

    if (interface && halay_own_addresses(job->setting->log, interface, job->addresses[0].port, HALAY_ADDRESSES_MAX,
                                         addresses, &count) != HALAY_OK)
        return 0;
    if (!count) {
        count = job->address_count;
        memcpy(addresses, job->addresses, (size_t)count * sizeof *addresses);
    }
    for (int i = 0; i < count; i++) {
        halay_address_text(&addresses[i], texts[i], HALAY_ADDRESS_TEXT);
        list[i] = texts[i];
    }
    list[count] = NULL;
    return 1;
}

/* For the ranks of other hosts. The list is the caller's to free; word must outlive it. NULL: no memory. */
static char **environment_for_agent(const struct job *job, int start, char word[32])
{
    char **list = passed_on_environment(job->setting->options), **grown;
    size_t count = 0;

    if (!list || !job->elastic)
        return list;
    while (list[count])
        count++;
    grown = realloc(list, (count + 2) * sizeof *list);
    if (!grown) {
        free(list);
        return NULL;
    }
    snprintf(word, 32, "HALAY_ELASTIC=%d", start);
    grown[count] = word;
    grown[count + 1] = NULL;
    return grown;
}

int job_send_plan(struct job *job, struct host_link *link)
{
    const struct options *options = job->setting->options;
    char texts[HALAY_ADDRESSES_MAX][HALAY_ADDRESS_TEXT], *addresses[HALAY_ADDRESSES_MAX + 1], folder[PATH_MAX],
        word[32], here[] = "", record[PATH_MAX]; /* here: where they reach the store */
    struct host_plan plan = { .first = link->first,
                              .count = link->count,
                              .local = job->ranks[link->first].local,
                              .local_size = local_size_of(job, link->first),
                              .block = ordered_block(job),
                              .size = job->size,
                              .world = job->ranks[link->first].start ? 0 : options->ranks,
                              .master_port = job->master.port,
                              .master = job->ranks[0].link ? job->master.address : here,
                              .binding = job->ranks[link->first].start ? (int)BIND_NONE : (int)options->binding,
                              .grace_ms = options->grace_ms,
                              .silence_ms = job->setting->silence_ms,
                              .samples = options->metrics != NULL,
                              .folder = folder,
                              .record = record,
                              .addresses = addresses,
                              .command = options->command };

    snprintf(record, sizeof record, "%s", job_watch_record(job->watch, &plan.keeps_record));
    if (options->folder && !options->has_own_folders) {
        snprintf(folder, sizeof folder, "%s", options->folder);
    } else if (options->joined) {
        *folder = 0; /* each node's own */
    } else if (!getcwd(folder, sizeof folder)) {
        report("cannot find the current folder: %s", strerror(errno));
        return 1;
    }
    plan.node = layout_node(job->setting->layout, link->first, &plan.nodes);
    if (!list_addresses(job, texts, addresses))
        return 1;
    plan.environment = environment_for_agent(job, job->ranks[link->first].start, word);
    if (!plan.environment)
        return report_no_memory();
    memcpy(plan.secret, job->secret, sizeof plan.secret);
    int ok = link_start(link, &plan);
    if (ok && link->first == 0 && (job->restarts || job->ranks[0].start)) /* our input was for the first process */
        link_input(link, NULL, 0);
    explicit_bzero(plan.secret, sizeof plan.secret);
    free(plan.environment);
    return ok ? 0 : report_no_memory();
}

static int start_remote(struct job *job)
{
    const int none[2] = { -1, -1 };
    int code = 0;

    for (size_t i = 0; !code && i < job->link_count; i++) {
        struct host_link *link = &job->links[i];
        if (job->master.port || link == job->ranks[0].link) /* the others follow when rank 0's host has answered */
            code = job_send_plan(job, link);
        for (int r = link->first; !code && r < link->first + link->count; r++) {
            job->ranks[r].is_running = 1;
            job->running++;
            code = open_streams(job, r, none) ? 0 : 1;
        }
    }
    if (job->ranks[0].link && !job->restarts)
        job->input_fd = job->setting->rank0_stdin;
    return code;
}

/* ---- later, in an elastic job ------------------------------------------------------------------------------------ */

/* Passes on what the previous process left in its streams. */
static void clear_worker(struct job *job, int r)
{
    struct rank *rank = &job->ranks[r];

    for (int i = 0; i < 2; i++) {
        stream_read(&rank->streams[i]);
        stream_end_line(&rank->streams[i]);
        stream_fini(&rank->streams[i]);
    }
    if (r == 0 && job->input_fd >= 0) { /* halayrun's standard input was for the previous process */
        close(job->input_fd);
        job->input_fd = -1;
    }
    rank->link = NULL;
    rank->pid = 0;
    rank->status = rank->is_lost = 0;
    rank->local = -1;
}

/* host: NULL for this one. */
static int is_local_taken(const struct job *job, const char *host, int local)
{
    for (int r = 0; r < job->size; r++) {
        const struct rank *rank = &job->ranks[r];
        int is_there = host ? rank->link && !strcmp(rank->link->host, host) : !rank->link;
        if (is_there && rank->is_running && rank->local == local)
            return 1;
    }
    return 0;
}

static int find_free_local(const struct job *job, const char *host)
{
    int local = 0;

    while (is_local_taken(job, host, local))
        local++;
    return local;
}

/* A link that has ended and serves no rank, or a new one; NULL: all are in use. */
static struct host_link *find_free_link(struct job *job)
{
    for (size_t i = 0; i < job->link_count; i++) {
        struct host_link *link = &job->links[i];
        if (link->state != LINK_ENDED)
            continue;
        for (int r = 0; r < job->size; r++)
            if (job->ranks[r].link == link)
                job->ranks[r].link = NULL;
        link_fini(link);
        return link;
    }
    return job->link_count < job->link_room ? &job->links[job->link_count++] : NULL;
}

static int call_host_of_worker(struct job *job, int r, const char *host)
{
    const int none[2] = { -1, -1 };
    struct host_link *link = find_free_link(job);
    struct args args = { 0 };

    if (!link) {
        report("too many connections with other hosts");
        return 1;
    }
    *link = (struct host_link){ .host = host, .first = r, .count = 1, .in = -1, .out = -1, .err = -1 };
    int code = ssh_args(job->setting->options, host, &args) ? 0 : report_no_memory();
    if (!code)
        code = link_call(link, args.at, &job->events);
    args_fini(&args);
    if (code) {
        link->state = LINK_ENDED;
        return code;
    }
    job->ranks[r].local = find_free_local(job, host);
    job->ranks[r].link = link;
    job->ranks[r].is_running = 1;
    job->running++;
    return open_streams(job, r, none) ? 0 : 1;
}

int job_start_worker(struct job *job, int r, const char *host)
{
    clear_worker(job, r);
    if (!layout_is_here(job->setting->log, host))
        return call_host_of_worker(job, r, host);
    job->ranks[r].local = find_free_local(job, NULL);
    return start_local_rank(job, r);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

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

static int start_local(struct job *job)
{
    int code = 0;

    for (int r = 0; !code && r < job->setting->options->ranks; r++)
        if (!job->ranks[r].link)
            code = start_local_rank(job, r);
    return code;
}

int job_take_master(struct job *job, const char *address, int port)
{
    if (job->master.port || job->stage != JOB_RUNNING)
        return 0;
    snprintf(job->master.address, sizeof job->master.address, "%s", address);
    job->master.port = port;
    return start_local(job);
}

/* If rank 0 runs here. Ranks of this host alone need no network. */
static int find_master(struct job *job)
{
    const struct job_setting *s = job->setting;
    char texts[HALAY_ADDRESSES_MAX][HALAY_ADDRESS_TEXT], *list[HALAY_ADDRESSES_MAX + 1];

    if (job->ranks[0].link)
        return 0;
    if (master_find(s->log, &s->network, NULL, &job->master) != HALAY_OK)
        return 1;
    if (!job->link_room)
        snprintf(job->master.address, sizeof job->master.address, "127.0.0.1");
    else if (!list_addresses(job, texts, list))
        return 1;
    else
        master_cut_port(list[0], job->master.address);
    return 0;
}

int job_start_all(struct job *job)
{
    if (job->setting->options->verbose && job->setting->layout->ranks_here && !job->setting->map->is_bound)
        output_report(&job->output, "ranks are not bound: %s", job->setting->map->why_not);
    int code = find_master(job);
    if (!code)
        code = start_remote(job);
    if (!code && job->master.port)
        code = start_local(job);
    if (!code && !job->ranks[0].link && !job->restarts && job->setting->rank0_stdin > STDERR_FILENO)
        close(job->setting->rank0_stdin); /* only rank 0 reads it */
    return code;
}

static size_t job_later_links(const struct job *job)
{
    return elastic_is_wanted(job->setting->options) ? (size_t)job->size : 0;
}

int job_make_links(struct job *job)
{
    const struct layout *layout = job->setting->layout;
    size_t link = 0;

    for (size_t i = 0; i < layout->count; i++)
        job->link_count += !layout->at[i].is_here;
    job->link_room = job->link_count + job_later_links(job);
    job->links = calloc(job->link_room + 1, sizeof *job->links);
    if (!job->links)
        return report_no_memory();
    for (size_t i = 0; i < layout->count; i++) {
        const struct place *place = &layout->at[i];
        if (place->is_here)
            continue;
        job->links[link] = (struct host_link){
            .host = place->host, .first = place->first, .count = place->count, .in = -1, .out = -1, .err = -1
        };
        if (job->setting->options->joined) /* each host of it has one place */
            job->links[link].tunnels = &job->setting->options->tunnels[i];
        for (int r = place->first; r < place->first + place->count; r++)
            job->ranks[r].link = &job->links[link];
        link++;
    }
    for (int r = 0; r < job->size; r++)
        job->ranks[r].local = r >= job->setting->options->ranks ? -1
                              : job->ranks[r].link              ? r - job->ranks[r].link->first
                                                                : layout_local_rank(layout, r);
    return 0;
}

/* Other hosts reach it, too. Ranks of this host use the loopback interface, unless it is bound to another. */
static int open_store_for_all(struct job *job)
{
    const struct halay_network *network = &job->setting->network;
    struct halay_log *log = job->setting->log;
    int listener;

    if (halay_listen(log, network, HALAY_ADDRESSES_MAX, &listener, job->addresses, &job->address_count) != HALAY_OK ||
        halay_store_server_adopt(log, listener, job->secret, &job->store) != HALAY_OK)
        return 1;
    if (network->interface)
        halay_address_text(&job->addresses[0], job->store_address, sizeof job->store_address);
    else
        snprintf(job->store_address, sizeof job->store_address, "127.0.0.1:%d", job->addresses[0].port);
    return 0;
}

/* For a message about a rank that is missing. Ranks of an elastic job change their numbers. */
static int set_host_keys(struct job *job)
{
    const struct layout *layout = job->setting->layout;

    for (int r = 0; layout->count > 1 && r < job->size; r++) {
        const struct place *place = layout_place(layout, r);
        struct halay_store_host host = { .first = place->first, .count = place->count };
        char key[32];
        snprintf(key, sizeof key, "host/%d", r);
        snprintf(host.name, sizeof host.name, "%s", place->host);
        if (halay_store_server_set(job->store, key, &host, sizeof host) != HALAY_OK)
            return 1;
    }
    return 0;
}

/* The file that the ranks of this host share. */
static int open_host_ranks(struct job *job)
{
    int first = 0, block = ordered_block(job);

    if (!block || !job->setting->layout->ranks_here)
        return 0;
    while (!layout_place(job->setting->layout, first)->is_here)
        first++;
    return halay_host_ranks_create(job->setting->log, first, job->setting->layout->ranks_here, block,
                                   &job->host_ranks) != HALAY_OK;
}

int job_open_store(struct job *job)
{
    struct halay_log *log = job->setting->log;

    if (halay_store_create_secret(log, job->secret, &job->secret_fd) != HALAY_OK || open_host_ranks(job))
        return 1;
    if (job->link_room && open_store_for_all(job))
        return 1;
    if (job->link_room)
        return elastic_is_wanted(job->setting->options) ? 0 : set_host_keys(job);
    if (halay_store_server_create(log, job->secret, &job->store) != HALAY_OK)
        return 1;
    snprintf(job->store_address, sizeof job->store_address, "%s", halay_store_server_address(job->store));
    return 0;
}
