/* SPDX-License-Identifier: Apache-2.0
 *
 * Job's elastic side: carries out what elastic_policy.h decides, and reports events to it. A rank of struct job is a
 * worker here, and keeps its number while one process replaces another.
 */
#include "base/clock.h"
#include "base/store/elastic_keys.h"
#include "launcher/common/report.h"
#include "launcher/job/job_impl.h"
#include "launcher/where/discover.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct job_elastic {
    struct elastic logic;
    struct discover discover;
    struct halay_worker *waits; /* owned: [worker] its newest request for a place */
    int starts;                 /* batches of processes started so far */
    int exit_code;              /* of the newest failure */
    int64_t due_us;             /* when something is due; 0: now */
};

/* ---- keys of the store ------------------------------------------------------------------------------------------- */

static void take_ready(void *arg, const char *key, const void *value, size_t bytes)
{
    struct job *job = arg;
    struct job_elastic *e = job->elastic;
    struct halay_worker who;
    struct halay_ready ready;

    if (!halay_elastic_read_key(key, &who) || !halay_ready_read(value, bytes, &ready) || who.worker >= job->size ||
        job->ranks[who.worker].start != who.start || !job->ranks[who.worker].is_running)
        return; /* of a process that has ended in the meantime */
    e->waits[who.worker] = who;
    elastic_ready(&e->logic, who.worker, &ready, halay_now_us());
    int accused = e->logic.workers[who.worker].accuses;
    if (accused >= 0 && job->ranks[accused].link && job->ranks[accused].link != job->ranks[who.worker].link)
        link_doubt(job->ranks[accused].link);
}

static void set_key(struct job *job, const char *key, const void *value, size_t bytes)
{
    if (halay_store_server_set(job->store, key, value, bytes) != HALAY_OK)
        job->has_given_up = 1; /* reported */
}

static void answer_worker(struct job *job, int worker, enum halay_verdict verdict)
{
    const struct elastic *logic = &job->elastic->logic;
    const struct halay_place place = { verdict, logic->generation, logic->workers[worker].rank, logic->members };
    unsigned char bytes[HALAY_PLACE_BYTES];
    char key[HALAY_STORE_KEY_MAX];

    halay_place_write(&place, bytes);
    halay_elastic_place_key(&job->elastic->waits[worker], key);
    set_key(job, key, bytes, sizeof bytes);
}

static void set_generation_key(struct job *job, void (*make_key)(unsigned generation, char *key))
{
    char key[HALAY_STORE_KEY_MAX];

    make_key(job->elastic->logic.generation, key);
    set_key(job, key, "", 0);
}

/* ---- acts -------------------------------------------------------------------------------------------------------- */

/* Every process that gets a place now has read all messages to it. */
static void forget_generation(struct job *job)
{
    static const char *const prefixes[] = { HALAY_ELASTIC_READY, HALAY_ELASTIC_GENERATION, HALAY_ELASTIC_CHANGE,
                                            HALAY_ELASTIC_OVER };
    char places[HALAY_STORE_KEY_MAX];

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        halay_store_server_remove(job->store, prefixes[i]);
    for (int s = 0; s < job->size; s++) {
        halay_elastic_places_prefix(s, places);
        if (job->elastic->logic.workers[s].state == WORKER_MEMBER)
            halay_store_server_remove(job->store, places);
    }
}

static void do_form(struct job *job)
{
    struct elastic *logic = &job->elastic->logic;
    char map[512] = "";
    size_t used = 0;

    for (int rank = 0; rank < logic->members && used < sizeof map; rank++)
        for (int s = 0; s < job->size && used < sizeof map; s++)
            if (logic->workers[s].state == WORKER_MEMBER && logic->workers[s].rank == rank)
                used += (size_t)snprintf(map + used, sizeof map - used, "%s%d", rank ? "," : "", s);
    if (logic->generation > 1)
        output_report(&job->output, "re-formed, generation %u: %d rank%s, workers %s", logic->generation,
                      logic->members, logic->members == 1 ? "" : "s", map);
    forget_generation(job);
    for (int s = 0; s < job->size; s++)
        if (logic->workers[s].state == WORKER_MEMBER)
            answer_worker(job, s, HALAY_VERDICT_PLACE);
}

static void do_start(struct job *job, const struct elastic_next *next)
{
    struct job_elastic *e = job->elastic;
    const char *host = e->logic.hosts[next->host].name;

    job->ranks[next->worker].start = e->starts++;
    output_report(&job->output, "starting a process on host '%s' as worker %d", host, next->worker);
    if (job_start_worker(job, next->worker, host) && !job->ranks[next->worker].is_running)
        job_elastic_takes_end(job, next->worker, ELASTIC_FAILED, 1);
}

static void do_kill(struct job *job, int worker)
{
    const struct elastic *logic = &job->elastic->logic;

    output_report(&job->output, "worker %d: SIGKILL: %s", worker, logic->why);
    job_signal_rank(job, worker, SIGKILL);
}

static void do_dismiss(struct job *job, int worker)
{
    output_report(&job->output, "worker %d leaves: host '%s' has left the job, or has fewer slots", worker,
                  job->elastic->logic.hosts[job->elastic->logic.workers[worker].host].name);
    answer_worker(job, worker, HALAY_VERDICT_LEAVE);
}

static void do_end(struct job *job)
{
    struct job_elastic *e = job->elastic;

    output_report(&job->output, "the job ends: %s", e->logic.why);
    job->exit_code = e->exit_code ? e->exit_code : 1;
    job_end_others(job);
}

static void do_act(struct job *job, const struct elastic_next *next)
{
    switch (next->act) {
    case ELASTIC_START:
        do_start(job, next);
        break;
    case ELASTIC_OVER:
        set_generation_key(job, halay_elastic_over_key);
        break;
    case ELASTIC_CALL:
        set_generation_key(job, halay_elastic_change_key);
        break;
    case ELASTIC_KILL:
        do_kill(job, next->worker);
        break;
    case ELASTIC_DISMISS:
        do_dismiss(job, next->worker);
        break;
    case ELASTIC_REFUSE:
        answer_worker(job, next->worker, HALAY_VERDICT_OVER);
        break;
    case ELASTIC_FORM:
        do_form(job);
        break;
    case ELASTIC_END:
        do_end(job);
        break;
    case ELASTIC_WAIT:
        break;
    }
}

void job_elastic_progress(struct job *job)
{
    struct job_elastic *e = job->elastic;
    struct elastic_next next;

    if (job->stage != JOB_RUNNING && job->stage != JOB_STOPPING)
        return;
    if (!e->logic.is_ending)
        discover_progress(&e->discover);
    do {
        next = elastic_next(&e->logic, halay_now_us());
        do_act(job, &next);
    } while (next.act != ELASTIC_WAIT);
    e->due_us = next.act == ELASTIC_WAIT ? next.wake_us : 0;
}

int64_t job_elastic_due(const struct job *job)
{
    const struct job_elastic *e = job->elastic;

    if (!e || job->stage != JOB_RUNNING)
        return INT64_MAX;
    int64_t script_us = e->logic.is_ending ? INT64_MAX : discover_due(&e->discover);
    return e->due_us < script_us ? e->due_us : script_us;
}

int job_elastic_fd(const struct job *job)
{
    return job->elastic->discover.out;
}

int job_elastic_continues(const struct job *job)
{
    return job->elastic && job->stage == JOB_RUNNING && !job->elastic->logic.is_ending;
}

void job_elastic_stop(struct job *job)
{
    if (job->elastic)
        job->elastic->logic.is_ending = 1;
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

int job_elastic_is_leaving(const struct job *job, int worker)
{
    return job->elastic && job->elastic->logic.workers[worker].state == WORKER_LEAVING;
}

int job_elastic_takes_end(struct job *job, int worker, enum elastic_end how, int code)
{
    struct job_elastic *e = job->elastic;

    if (!e || job->stage != JOB_RUNNING)
        return 0;
    int64_t now_us = halay_now_us();
    const struct elastic_host *host = &e->logic.hosts[e->logic.workers[worker].host];
    int64_t until_us = host->until_us;
    int goes_on = elastic_ended(&e->logic, worker, how, now_us);
    if (goes_on && how != ELASTIC_ENDED_WELL)
        e->exit_code = code;
    if (goes_on && host->until_us > now_us && host->until_us != until_us)
        output_report(&job->output, "host '%s' is left out for %g s: it has failed %d time%s", host->name,
                      (double)(host->until_us - now_us) / 1e6, host->failures, host->failures == 1 ? "" : "s");
    e->due_us = 0;
    return goes_on;
}

int job_elastic_reaped(struct job *job, pid_t pid, int status)
{
    struct job_elastic *e = job->elastic;
    struct host_list hosts;
    char why[800] = "";

    if (!e)
        return 0;
    enum discover_end end = discover_reaped(&e->discover, pid, status, &hosts, why, sizeof why);
    if (end == DISCOVER_HOSTS) {
        if (!elastic_list(&e->logic, &hosts, halay_now_us()))
            report_no_memory();
        hosts_fini(&hosts);
    }
    if (end == DISCOVER_FAILED && *why)
        output_report(&job->output, "%s; the list of hosts stays as it was", why);
    return end != DISCOVER_NOT_IT;
}

int job_elastic_slots(const struct job *job, int worker)
{
    const struct elastic *logic = &job->elastic->logic;

    return logic->hosts[logic->workers[worker].host].slots;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* Without a list there is only this host. */
static int list_elastic_hosts(struct job *job)
{
    struct host here = { .name = (char[]){ "localhost" }, .slots = job->size };
    const struct host_list alone = { &here, 1 }, *hosts = job->setting->hosts;

    return elastic_list(&job->elastic->logic, hosts && hosts->count ? hosts : &alone, halay_now_us());
}

static void take_workers(struct job *job)
{
    const struct layout *layout = job->setting->layout;

    for (int r = 0; r < job->setting->options->ranks; r++)
        elastic_worker_taken(&job->elastic->logic, r,
                             elastic_find_host(&job->elastic->logic, layout_place(layout, r)->host), halay_now_us());
}

int job_elastic_init(struct job *job)
{
    const struct options *options = job->setting->options;
    const struct elastic_setting setting = { .least = options->least_ranks,
                                             .most = job->size,
                                             .timeout_us = (int64_t)options->elastic_timeout_ms * 1000,
                                             .start_us = (int64_t)job->setting->peer_start_ms * 1000,
                                             .cooldown_us = (int64_t)options->cooldown_ms[0] * 1000,
                                             .cooldown_max_us = (int64_t)options->cooldown_ms[1] * 1000,
                                             .reset_limit = options->reset_limit };
    struct job_elastic *e = calloc(1, sizeof *e);

    if (!e)
        return report_no_memory();
    job->elastic = e;
    discover_init(&e->discover, options->discovery_script, options->slots);
    e->discover.due_us = halay_deadline_us(DISCOVER_EVERY_MS);
    e->waits = calloc((size_t)job->size, sizeof *e->waits);
    if (!e->waits || !elastic_init(&e->logic, &setting) || !list_elastic_hosts(job))
        return report_no_memory();
    take_workers(job);
    e->starts = 1;
    halay_store_server_watch(job->store, HALAY_ELASTIC_READY, take_ready, job);
    return 0;
}

void job_elastic_fini(struct job *job)
{
    struct job_elastic *e = job->elastic;

    if (!e)
        return;
    discover_fini(&e->discover);
    elastic_fini(&e->logic);
    free(e->waits);
    free(e);
    job->elastic = NULL;
}
