/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's watch. Samples of this host's ranks are taken when a request needs them; those of other hosts are the newest
 * that have arrived. Nothing here waits: the job's loop drives the server.
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/http/http.h"
#include "base/parse.h"
#include "base/record.h"
#include "launcher/common/exit_codes.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include "launcher/local/writer.h"
#include "launcher/remote/frame.h"
#include "launcher/watch/job_view.h"
#include "launcher/watch/token.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EVENT_BYTES = 1 << 23, EVENT_MS = 60000 }; /* that may wait to be written; how long the last ones may take */
enum { FRESH_US = 200000, CONNECTIONS = 32, BODY_BYTES = 4096, IDLE_S = 30, REQUEST_S = 10 };

struct remote_host {
    const char *host; /* owned */
    struct host_sample sample;
};

struct job_watch {
    const struct job_setting *setting; /* borrowed */
    const struct job *job;             /* borrowed; NULL: none runs */
    struct halay_http_server *server;  /* owned; NULL: no metrics */
    struct writer *writer;             /* owned: of the events; NULL: none are written */
    struct outlet *events;             /* borrowed from writer; NULL: no more are written */
    json_t *first_failure;             /* owned: its event; NULL: none yet */
    int size;
    int64_t begun_us;
    char pattern[PATH_MAX];
    struct rank_view *ranks; /* owned: (size) */
    int64_t *taken_us;       /* owned: (size) when each sample was taken; 0: never */
    int asked, fetched;      /* of another host: the rank that was asked for its record, and whose the record is; -1 */
    struct buffer record;    /* owned */
    struct remote_host *hosts;
    size_t host_count;
};

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static const char this_host[] = "localhost";

static int exit_code_of(const struct rank *rank)
{
    return WIFSIGNALED(rank->status) ? EXIT_SIGNAL + WTERMSIG(rank->status) : WEXITSTATUS(rank->status);
}

/* In an elastic job ranks are numbered anew, and a process's record names it; else rank and worker are the same. */
static void view_rank(struct job_watch *w, int r)
{
    const struct rank *worker = w->job ? &w->job->ranks[r] : NULL;
    struct rank_view *view = &w->ranks[r];
    int64_t now = halay_now_us();

    if ((!worker || !worker->link) && now - w->taken_us[r] > FRESH_US) {
        rank_sample_take(w->pattern, r, worker && worker->is_running ? worker->pid : view->sample.pid, &view->sample);
        w->taken_us[r] = now;
        view->host = this_host;
    } else if (worker && worker->link && !w->taken_us[r]) {
        view->host = worker->link->host;
    }
    view->sample.rank = r;
    view->age_s = w->taken_us[r] ? (double)(now - w->taken_us[r]) / 1e6 : 0;
    if (w->setting->options->mpi)
        view->end = view->sample.state == SAMPLE_NONE ? RANK_IS_NOT_HERE
                    : view->sample.cpu_s < 0          ? RANK_HAS_ENDED
                                                      : RANK_RUNS;
    else if (w->job && w->job->elastic)
        view->end = view->sample.state == SAMPLE_NONE ? RANK_IS_NOT_STARTED
                    : view->sample.cpu_s < 0          ? RANK_HAS_ENDED
                                                      : RANK_RUNS;
    else if (worker)
        view->end = worker->is_running ? RANK_RUNS
                    : worker->is_lost  ? RANK_IS_LOST
                    : worker->pid      ? RANK_HAS_ENDED
                                       : RANK_IS_NOT_STARTED;
    view->exit_code = !worker ? -1 : worker->is_running ? 0 : exit_code_of(worker);
}

static int is_running(const struct job_watch *w)
{
    return w->setting->options->mpi || (w->job && w->job->stage == JOB_RUNNING);
}

/* hosts: host_count + 1 of them. */
static struct job_view view_of(struct job_watch *w, struct host_view *hosts)
{
    for (int r = 0; r < w->size; r++)
        view_rank(w, r);
    hosts[0].host = this_host;
    host_sample_take(&hosts[0].sample);
    for (size_t i = 0; i < w->host_count; i++)
        hosts[i + 1] = (struct host_view){ w->hosts[i].host, w->hosts[i].sample };
    return (struct job_view){ .stage = is_running(w) ? "running" : "stopping",
                              .pattern = w->pattern,
                              .seconds = (double)(halay_now_us() - w->begun_us) / 1e6,
                              .restarts = w->job ? w->job->restarts : 0,
                              .rank_count = (size_t)w->size,
                              .host_count = w->host_count + 1,
                              .ranks = w->ranks,
                              .hosts = hosts };
}

/* NULL: no memory. */
static struct remote_host *find_host(struct job_watch *w, const char *host)
{
    struct remote_host *grown;
    char *copy;

    for (size_t i = 0; i < w->host_count; i++)
        if (!strcmp(w->hosts[i].host, host))
            return &w->hosts[i];
    grown = realloc(w->hosts, (w->host_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    w->hosts = grown;
    copy = strdup(host);
    if (!copy)
        return NULL;
    w->hosts[w->host_count] = (struct remote_host){ .host = copy };
    return &w->hosts[w->host_count++];
}

void job_watch_take(struct job_watch *w, const struct host_link *link, int rank, const void *bytes, size_t count)
{
    struct remote_host *host = w ? find_host(w, link->host) : NULL;
    struct rank_sample sample;

    if (!host)
        return;
    if (rank < 0 && count == sizeof host->sample)
        memcpy(&host->sample, bytes, count);
    if (rank < 0 || rank >= w->size || count != sizeof sample)
        return;
    memcpy(&sample, bytes, sizeof sample);
    if (sample.generation < w->ranks[rank].sample.generation || sample.gauge_count > HALAY_GAUGES)
        return;
    /* Another program sent these texts: they end here. */
    sample.last[SAMPLE_NAME - 1] = sample.waits_for[SAMPLE_NAME - 1] = sample.cause[SAMPLE_CAUSE - 1] = 0;
    for (size_t i = 0; i < sample.gauge_count; i++)
        sample.gauges[i].name[HALAY_GAUGE_NAME] = 0;
    w->ranks[rank].sample = sample;
    w->ranks[rank].host = host->host;
    w->taken_us[rank] = halay_now_us();
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void answer_with(struct job_watch *w, struct halay_http_exchange *exchange, const char *type,
                        char *(*make)(const struct job_view *job))
{
    struct host_view *hosts = calloc(w->host_count + 1, sizeof *hosts);
    char *text = NULL;

    if (hosts) {
        const struct job_view view = view_of(w, hosts);
        text = make(&view);
    }
    free(hosts);
    if (!text) {
        halay_http_refuse(exchange, 503, "out of memory");
        return;
    }
    const struct halay_http_answer whole = { .status = 200, .content_type = type, .body = text, .size = strlen(text) };
    halay_http_answer(exchange, &whole);
    free(text);
}

static void answer_metrics(void *arg, struct halay_http_exchange *exchange)
{
    answer_with(arg, exchange, "text/plain; version=0.0.4; charset=utf-8", job_view_metrics);
}

static void answer_ranks(void *arg, struct halay_http_exchange *exchange)
{
    answer_with(arg, exchange, "application/json", job_view_ranks);
}

static void answer_health(void *arg, struct halay_http_exchange *exchange)
{
    answer_with(arg, exchange, "application/json", job_view_health);
}

static void answer_probe(struct halay_http_exchange *exchange)
{
    static const char text[] = "ok\n";

    halay_http_answer(exchange,
                      &(struct halay_http_answer){
                          .status = 200, .content_type = "text/plain", .body = text, .size = sizeof text - 1 });
}

/* Alive: the job's loop makes turns. */
static void answer_alive(void *arg, struct halay_http_exchange *exchange)
{
    (void)arg;
    answer_probe(exchange);
}

/* Ready: all ranks have been started, and none is lost or has failed. */
static void answer_ready(void *arg, struct halay_http_exchange *exchange)
{
    struct job_watch *w = arg;
    int is_elastic = w->job && w->job->elastic, runs = 0, fails = !is_running(w);

    for (int r = 0; r < w->size; r++) {
        view_rank(w, r);
        enum rank_end end = w->ranks[r].end;
        runs += end == RANK_RUNS;
        fails += end == RANK_IS_LOST || (end == RANK_HAS_ENDED && w->ranks[r].exit_code > 0) ||
                 (end == RANK_IS_NOT_STARTED && !is_elastic);
    }
    if (runs && !fails)
        answer_probe(exchange);
    else
        halay_http_refuse(exchange, 503, "%d of %d ranks run", runs, w->size);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

void job_watch_take_record(struct job_watch *w, int rank, const void *bytes, size_t count)
{
    if (!w || rank != w->asked)
        return;
    w->record.count = 0;
    w->asked = -1;
    w->fetched = buffer_append(&w->record, bytes, count) ? rank : -1;
}

static struct host_link *find_link(const struct job_watch *w, const char *host)
{
    for (size_t i = 0; w->job && i < w->job->link_count; i++)
        if (!strcmp(w->job->links[i].host, host))
            return &w->job->links[i];
    return NULL;
}

/* Returns nonzero if the record is in w->record; otherwise its host is asked for it. */
static int get_record(struct job_watch *w, int rank)
{
    struct host_link *link = find_link(w, w->ranks[rank].host);

    if (!strcmp(w->ranks[rank].host, this_host)) {
        w->record.count = 0;
        return rank_record_read(w->pattern, rank, FRAME_MAX, &w->record);
    }
    if (w->fetched == rank)
        return 1;
    w->asked = rank;
    if (link)
        link_fetch(link, rank);
    return 0;
}

static void answer_record(void *arg, struct halay_http_exchange *exchange)
{
    struct job_watch *w = arg;
    const char *text = halay_http_query(exchange, "rank");
    long rank;

    if (!text || halay_parse_long(text, 0, w->size - 1, &rank) != HALAY_OK) {
        halay_http_refuse(exchange, 400, "rank: expected a number below %d", w->size);
    } else if (!get_record(w, (int)rank)) {
        halay_http_refuse(exchange, 503, "not there yet");
    } else {
        const struct halay_http_answer whole = {
            .status = 200, .content_type = "application/octet-stream", .body = w->record.bytes, .size = w->record.count
        };
        halay_http_answer(exchange, &whole);
        w->fetched = -1;
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int is_failure(const char *event)
{
    return !strcmp(event, "rank_failed") || !strcmp(event, "host_lost") || !strcmp(event, "host_not_started");
}

struct json_t *job_watch_first_failure(const struct job_watch *w)
{
    return w ? w->first_failure : NULL;
}

static void end_events(struct job_watch *w)
{
    if (w->events)
        outlet_close(w->events);
    w->events = NULL;
}

static void report_events(struct job_watch *w)
{
    struct writer_failure failure;

    if (!writer_take_failure(w->writer, &failure))
        return;
    report("cannot write to '%s': %s; no more events", failure.name,
           failure.error ? strerror(failure.error) : "it has taken nothing for a minute");
    end_events(w);
}

void job_watch_event(struct job_watch *w, const char *event, const char *format, ...)
{
    struct timespec now;
    json_t *object, *more;
    va_list args;
    char *line;

    if (!w || !w->events)
        return;
    clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    va_start(args, format);
    more = json_vpack_ex(NULL, 0, format, args);
    va_end(args);
    object = json_pack("{s:f, s:s}", "time", (double)now.tv_sec + (double)now.tv_nsec / 1e9, "event", event);
    if (object && more)
        json_object_update(object, more);
    line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (!w->first_failure && is_failure(event))
        w->first_failure = json_incref(object); /* NULL stays NULL */
    json_decref(more);
    json_decref(object);
    if (!line)
        return;
    size_t length = strlen(line);
    line[length] = '\n'; /* in place of the zero */
    outlet_put(w->events, line, length + 1);
    free(line);
    report_events(w);
    if (w->events && writer_is_full(w->writer)) {
        report("%d bytes of events wait for '%s', which takes nothing; no more events", EVENT_BYTES,
               w->setting->options->events);
        end_events(w);
    }
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* By the text of the place where a server listens. */
static int is_of_this_host(const char *where)
{
    static const char *const local[] = { "unix:", "http://127.", "http://[::1]:" };

    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!strncmp(where, local[i], strlen(local[i])))
            return 1;
    return 0;
}

static int open_server(struct job_watch *w)
{
    static const struct halay_http_route routes[] = {
        { "GET", "/metrics", answer_metrics }, { "GET", "/health", answer_health }, { "GET", "/healthz", answer_alive },
        { "GET", "/readyz", answer_ready },    { "GET", "/ranks", answer_ranks },   { "GET", "/record", answer_record }
    };
    const struct options *options = w->setting->options;
    char token[WATCH_TOKEN_MAX];
    int code = watch_token_read(options->metrics_token_file, token);
    const struct halay_http_config config = { .where = options->metrics,
                                              .token = *token ? token : NULL,
                                              .routes = routes,
                                              .route_count = sizeof routes / sizeof *routes,
                                              .connections = CONNECTIONS,
                                              .body_bytes = BODY_BYTES,
                                              .all_body_bytes = (size_t)CONNECTIONS * BODY_BYTES,
                                              .idle_s = IDLE_S,
                                              .request_s = REQUEST_S,
                                              .arg = w };

    if (code)
        return code;
    enum halay_status status = halay_http_open(w->setting->log, &config, &w->server);
    explicit_bzero(token, sizeof token);
    if (status)
        return status == HALAY_ERR_CONFIG || status == HALAY_ERR_UNSUPPORTED ? EXIT_USAGE : EXIT_FAILURE;
    const char *where = halay_http_where(w->server);
    report("metrics at %s/metrics", where);
    if (!config.token && !is_of_this_host(where))
        report("warning: any process that reaches that address can read the program, its arguments and the hosts: give "
               "--metrics-token-file, or a place that only this host reaches");
    return 0;
}

static int open_events(struct job_watch *w, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

    if (fd < 0) {
        report("cannot open '%s': %s", path, strerror(errno));
        return EXIT_FAILURE;
    }
    w->writer = writer_create(EVENT_BYTES, -1);
    w->events = w->writer ? writer_open(w->writer, fd, 1, path) : NULL;
    if (!w->events)
        close(fd);
    return w->events ? 0 : EXIT_FAILURE;
}

/* Writes the rest. */
static void close_events(struct job_watch *w)
{
    if (!w->writer)
        return;
    end_events(w);
    writer_finish(w->writer, EVENT_MS);
    report_events(w);
    writer_destroy(w->writer);
}

/* The ranks' folder is where a pattern without a slash at its beginning begins. "" if nothing is recorded. */
static void find_pattern(const struct job_setting *setting, char *text, size_t size)
{
    const char *pattern = halay_environment_get("HALAY_FLIGHT"), *folder = setting->options->folder;

    *text = 0;
    if (!pattern)
        pattern = halay_environment_get("HALAY_DEFAULT_FLIGHT");
    if (pattern && *pattern)
        snprintf(text, size, "%s%s%s", *pattern != '/' && folder ? folder : "", *pattern != '/' && folder ? "/" : "",
                 pattern);
}

int job_watch_create(const struct job_setting *setting, struct job_watch **out)
{
    const struct options *options = setting->options;
    struct job_watch *w;
    int code = 0;

    *out = NULL;
    if (!options->metrics && !options->events && !options->removes_record)
        return 0;
    w = calloc(1, sizeof *w);
    if (!w)
        return report_no_memory();
    w->setting = setting;
    w->asked = w->fetched = -1;
    w->begun_us = halay_now_us();
    w->size = options->most_ranks > options->ranks ? options->most_ranks : options->ranks;
    w->ranks = calloc((size_t)w->size, sizeof *w->ranks);
    w->taken_us = calloc((size_t)w->size, sizeof *w->taken_us);
    for (int r = 0; w->ranks && r < w->size; r++)
        w->ranks[r] = (struct rank_view){ .host = this_host, .end = RANK_IS_NOT_STARTED };
    if (options->metrics || options->removes_record)
        find_pattern(setting, w->pattern, sizeof w->pattern);
    rank_samples_sweep();
    if (!w->ranks || !w->taken_us)
        code = report_no_memory();
    if (!code && options->events)
        code = open_events(w, options->events);
    if (!code && options->metrics)
        code = open_server(w);
    if (code)
        job_watch_destroy(w, 0);
    else
        *out = w;
    return code;
}

/* Names the files as the shell does, "/dev/shm/flight-*.dat": the rank is where two of them differ. */
static void report_records(const char *host, const char *pattern)
{
    char *files = halay_rank_path(pattern, 0, 0), *others = halay_rank_path(pattern, 1, 0), there[300] = "";
    size_t before = 0;

    if (host != this_host)
        snprintf(there, sizeof there, ", on host '%s'", host);
    while (files && others && files[before] == others[before])
        before++;
    if (files && others)
        report("what its ranks did last%s: halay-perf flight show %.*s*%s", there, (int)before, files,
               files + before + 1);
    free(files);
    free(others);
}

void job_watch_report_records(const struct job_setting *setting, const struct job_watch *w)
{
    const struct options *options = setting->options;
    int size = options->most_ranks > options->ranks ? options->most_ranks : options->ranks, here = 0;
    char pattern[PATH_MAX];

    find_pattern(setting, pattern, sizeof pattern);
    for (int r = 0; *pattern && r < size && !here; r++) {
        char *path = halay_rank_path(pattern, r, 0);
        here = path && access(path, F_OK) == 0;
        free(path);
    }
    if (here)
        report_records(this_host, pattern);
    for (size_t i = 0; w && i < w->host_count; i++)
        for (int r = 0; r < w->size; r++)
            if (w->ranks[r].host == w->hosts[i].host && w->ranks[r].sample.generation) {
                report_records(w->hosts[i].host, pattern);
                break;
            }
}

int job_watch_resize(struct job_watch *w, int ranks)
{
    if (!w || w->size == ranks)
        return 0;
    struct rank_view *views = calloc((size_t)ranks, sizeof *views);
    int64_t *taken_us = calloc((size_t)ranks, sizeof *taken_us);
    if (!views || !taken_us) {
        free(views);
        free(taken_us);
        return report_no_memory();
    }
    for (int r = 0; r < ranks; r++)
        views[r] = (struct rank_view){ .host = this_host, .end = RANK_IS_NOT_STARTED };
    free(w->ranks);
    free(w->taken_us);
    w->ranks = views;
    w->taken_us = taken_us;
    w->size = ranks;
    w->asked = w->fetched = -1;
    return 0;
}

void job_watch_destroy(struct job_watch *w, int keeps)
{
    if (!w)
        return;
    halay_http_close(w->server);
    json_decref(w->first_failure);
    close_events(w);
    if (w->setting->options->removes_record && !keeps)
        rank_records_remove(w->pattern, 1);
    for (size_t i = 0; i < w->host_count; i++)
        free((char *)(uintptr_t)w->hosts[i].host);
    free(w->hosts);
    buffer_fini(&w->record);
    free(w->ranks);
    free(w->taken_us);
    free(w);
}

void job_watch_follow(struct job_watch *w, const struct job *job)
{
    if (w)
        w->job = job;
}

int job_watch_fd(const struct job_watch *w)
{
    return w && w->server ? halay_http_fd(w->server) : -1;
}

int job_watch_patience_ms(struct job_watch *w)
{
    return w && w->server ? halay_http_timeout_ms(w->server) : -1;
}

void job_watch_turn(struct job_watch *w)
{
    if (w && w->server)
        halay_http_turn(w->server);
}

const char *job_watch_record(const struct job_watch *w, int *keeps)
{
    *keeps = !w || !w->setting->options->removes_record;
    return w ? w->pattern : "";
}
