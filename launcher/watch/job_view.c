/* SPDX-License-Identifier: Apache-2.0
 *
 * Job view: one table of what each rank has, from which the metrics are made, all of one name together, as Prometheus
 * wants it.
 */
#include "launcher/watch/job_view.h"
#include "base/record.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const state_names[] = { "starting", "running", "waiting", "left", "failed" };

/* The rank's state in a word: what its process does, and while it runs what its engine does. */
static const char *state_of(const struct rank_view *rank)
{
    switch (rank->end) {
    case RANK_HAS_ENDED:
        return "ended";
    case RANK_IS_LOST:
        return "lost";
    case RANK_IS_NOT_STARTED:
        return "not started";
    case RANK_IS_NOT_HERE:
        return "elsewhere";
    default:
        return rank->sample.state <= SAMPLE_FAILED ? state_names[rank->sample.state] : "?";
    }
}

static int count_alive(const struct job_view *job)
{
    int count = 0;

    for (size_t i = 0; i < job->rank_count; i++)
        count += job->ranks[i].end == RANK_RUNS;
    return count;
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static void print_head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* A label's value: backslashes, quotes and ends of lines are escaped. */
static void print_label(FILE *f, const char *value)
{
    for (; *value; value++)
        if (*value == '\n')
            fprintf(f, "\\n");
        else
            fprintf(f, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
}

static void print_number(FILE *f, double value)
{
    if (isnan(value))
        fprintf(f, " NaN\n");
    else if (isinf(value))
        fprintf(f, value > 0 ? " +Inf\n" : " -Inf\n");
    else
        fprintf(f, " %.17g\n", value);
}

/* name{rank="0",host="a"[,label="word"]} value */
static void print_sample(FILE *f, const char *name, const struct rank_view *rank, const char *label, const char *word,
                         double value)
{
    fprintf(f, "%s{rank=\"%d\",host=\"", name, (int)rank->sample.rank);
    print_label(f, rank->host);
    if (label) {
        fprintf(f, "\",%s=\"", label);
        print_label(f, word);
    }
    fprintf(f, "\"}");
    print_number(f, value);
}

static void print_of_job(FILE *f, const char *name, const char *type, const char *help, double value)
{
    print_head(f, name, type, help);
    fprintf(f, "%s", name);
    print_number(f, value);
}

static void print_job(FILE *f, const struct job_view *job)
{
    print_of_job(f, "halay_job_seconds", "gauge", "Time since the job's start.", job->seconds);
    print_of_job(f, "halay_job_ranks", "gauge", "Ranks, or workers of an elastic job.", (double)job->rank_count);
    print_of_job(f, "halay_job_ranks_alive", "gauge", "Ranks whose process runs.", count_alive(job));
    print_of_job(f, "halay_job_restarts_total", "counter", "Times that all ranks were started again.", job->restarts);
}

/* Prints what the engines count. */
static void print_meters(FILE *f, const struct job_view *job)
{
    for (int i = 0; i < HALAY_METERS; i++) {
        const struct halay_meter_name *m = &halay_meter_names[i];
        if (i == HALAY_METER_MESSAGES_SENT) /* only the engine itself knows all of them */
            continue;
        print_head(f, m->name, m->type, m->help);
        for (size_t r = 0; r < job->rank_count; r++) {
            double value = (double)job->ranks[r].sample.meters[i];
            if (job->ranks[r].sample.state != SAMPLE_NONE)
                print_sample(f, m->name, &job->ranks[r], NULL, NULL, m->is_ns ? value / 1e9 : value);
        }
    }
    print_head(f, "halay_program_value", "gauge", "Value set by the program (halay_gauge_set).");
    for (size_t r = 0; r < job->rank_count; r++)
        for (size_t i = 0; i < job->ranks[r].sample.gauge_count; i++)
            print_sample(f, "halay_program_value", &job->ranks[r], "name", job->ranks[r].sample.gauges[i].name,
                         job->ranks[r].sample.gauges[i].value);
}

/* The other values of a rank; NaN: absent. */
#define HAS_ENGINE(s, value) ((s)->state == SAMPLE_NONE ? NAN : (double)(value))
#define HAS_PROCESS(s, value) ((s)->cpu_s < 0 || !(s)->pid ? NAN : (double)(value))
static double value_of(const struct rank_view *rank, int which)
{
    const struct rank_sample *s = &rank->sample;

    switch (which) {
    case 0:
        return rank->end == RANK_RUNS;
    case 1:
        return HAS_ENGINE(s, s->errors);
    case 2:
        return *s->last ? s->last_age_s : NAN;
    case 3:
        return s->state == SAMPLE_WAITS ? s->waits_s : NAN;
    case 4:
        return HAS_PROCESS(s, s->cpu_s);
    case 5:
        return HAS_PROCESS(s, s->rss_bytes);
    case 6:
        return HAS_PROCESS(s, s->threads);
    case 7:
        return HAS_PROCESS(s, s->read_bytes);
    default:
        return HAS_PROCESS(s, s->written_bytes);
    }
}

static void print_ranks(FILE *f, const struct job_view *job)
{
    static const struct halay_meter_name kinds[] = {
        { "halay_rank_up", "gauge", "Whether the rank's process runs.", 0 },
        { "halay_errors_all_total", "counter", "Submissions that ended with an error.", 0 },
        { "halay_last_submission_seconds", "gauge", "Time since the rank's last submission.", 0 },
        { "halay_waiting_seconds", "gauge", "How long the program has waited for the tensor that it waits for.", 0 },
        { "halay_process_cpu_seconds_total", "counter", "Processor time of the rank's process.", 0 },
        { "halay_process_resident_bytes", "gauge", "Its memory, shared pages included.", 0 },
        { "halay_process_threads", "gauge", "Its threads.", 0 },
        { "halay_process_read_bytes_total", "counter", "Bytes that it caused to be read from disks.", 0 },
        { "halay_process_written_bytes_total", "counter", "Bytes that it caused to be written to disks.", 0 },
    };

    for (int k = 0; k < (int)(sizeof kinds / sizeof *kinds); k++) {
        print_head(f, kinds[k].name, kinds[k].type, kinds[k].help);
        for (size_t r = 0; r < job->rank_count; r++) {
            double value = value_of(&job->ranks[r], k);
            if (!isnan(value))
                print_sample(f, kinds[k].name, &job->ranks[r], NULL, NULL, value);
        }
    }
}

/* Ranks that are late: by how much the others have submitted more. Ranks that do the same work submit the same. */
static void print_behind(FILE *f, const struct job_view *job)
{
    static const char name[] = "halay_submissions_behind";
    uint64_t most = 0;

    for (size_t r = 0; r < job->rank_count; r++)
        if (job->ranks[r].sample.meters[HALAY_METER_SUBMISSIONS] > most)
            most = job->ranks[r].sample.meters[HALAY_METER_SUBMISSIONS];
    print_head(f, name, "gauge", "Submissions by which the rank trails the one that has most.");
    for (size_t r = 0; r < job->rank_count; r++)
        if (job->ranks[r].sample.state != SAMPLE_NONE)
            print_sample(f, name, &job->ranks[r], NULL, NULL,
                         (double)(most - job->ranks[r].sample.meters[HALAY_METER_SUBMISSIONS]));
}

static void print_hosts(FILE *f, const struct job_view *job)
{
    static const struct halay_meter_name kinds[] = {
        { "halay_host_load", "gauge", "Load of one minute.", 0 },
        { "halay_host_memory_bytes", "gauge", "Memory of the host.", 0 },
        { "halay_host_memory_available_bytes", "gauge", "Memory that programs can still have.", 0 },
        { "halay_host_received_bytes_total", "counter", "Bytes received by all networks but loopback.", 0 },
        { "halay_host_sent_bytes_total", "counter", "Bytes sent by them.", 0 },
        { "halay_host_disk_read_bytes_total", "counter", "Bytes read from all disks.", 0 },
        { "halay_host_disk_written_bytes_total", "counter", "Bytes written to them.", 0 },
    };

    for (int k = 0; k < (int)(sizeof kinds / sizeof *kinds); k++) {
        print_head(f, kinds[k].name, kinds[k].type, kinds[k].help);
        for (size_t i = 0; i < job->host_count; i++) {
            const struct host_sample *s = &job->hosts[i].sample;
            const double values[] = { s->load,
                                      (double)s->memory_bytes,
                                      (double)s->free_bytes,
                                      (double)s->received_bytes,
                                      (double)s->sent_bytes,
                                      (double)s->read_bytes,
                                      (double)s->written_bytes };
            fprintf(f, "%s{host=\"", kinds[k].name);
            print_label(f, job->hosts[i].host);
            fprintf(f, "\"}");
            print_number(f, values[k]);
        }
    }
}

char *job_view_metrics(const struct job_view *job)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    print_job(f, job);
    print_ranks(f, job);
    print_behind(f, job);
    print_meters(f, job);
    print_hosts(f, job);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *job_json(const struct job_view *job)
{
    return json_pack("{s:s, s:f, s:i, s:i, s:i}", "state", job->stage, "seconds", job->seconds, "ranks",
                     (int)job->rank_count, "alive", count_alive(job), "restarts", job->restarts);
}

/* A name of a tensor may be no UTF-8 where its middle was cut out: then it is left out. */
static void set_text(json_t *object, const char *key, const char *text)
{
    if (*text)
        json_object_set_new(object, key, json_string(text)); /* refuses NULL */
}

static json_t *gauges_json(const struct rank_sample *s)
{
    json_t *gauges = json_object();

    for (size_t i = 0; gauges && i < s->gauge_count; i++)
        json_object_set_new(gauges, s->gauges[i].name,
                            isfinite(s->gauges[i].value) ? json_real(s->gauges[i].value) : json_null());
    return gauges;
}

/* Adds the path of its record, on its host. */
static void set_record(json_t *object, const char *pattern, const struct rank_sample *s)
{
    char *path = s->generation ? halay_rank_path(pattern, s->rank, s->generation) : NULL;

    if (path)
        set_text(object, "record", path);
    free(path);
}

static json_t *rank_json(const struct rank_view *rank, const char *pattern)
{
    const struct rank_sample *s = &rank->sample;
    json_t *o = json_pack("{s:i, s:s, s:s, s:i}", "rank", (int)s->rank, "host", rank->host, "state", state_of(rank),
                          "pid", (int)s->pid);

    if (!o)
        return NULL;
    if (rank->end == RANK_HAS_ENDED && rank->exit_code >= 0)
        json_object_set_new(o, "exit_code", json_integer(rank->exit_code));
    if (*s->last) {
        set_text(o, "last", s->last);
        json_object_set_new(o, "last_age_seconds", json_real(s->last_age_s));
    }
    if (s->state == SAMPLE_WAITS) {
        set_text(o, "waits_for", s->waits_for);
        json_object_set_new(o, "waits_seconds", json_real(s->waits_s));
    }
    set_text(o, "cause", s->cause);
    set_record(o, pattern, s);
    if (s->state != SAMPLE_NONE) {
        json_object_set_new(o, "submissions", json_integer((json_int_t)s->meters[HALAY_METER_SUBMISSIONS]));
        json_object_set_new(o, "in_flight", json_integer((json_int_t)s->meters[HALAY_METER_IN_FLIGHT]));
        json_object_set_new(o, "bytes", json_integer((json_int_t)s->meters[HALAY_METER_BYTES]));
        json_object_set_new(o, "communication_seconds",
                            json_real((double)s->meters[HALAY_METER_COMMUNICATION_NS] / 1e9));
        json_object_set_new(o, "errors", json_integer((json_int_t)s->errors));
        json_object_set_new(o, "gauges", gauges_json(s));
    }
    if (s->pid && s->cpu_s >= 0) {
        json_object_set_new(o, "cpu_seconds", json_real(s->cpu_s));
        json_object_set_new(o, "resident_bytes", json_integer((json_int_t)s->rss_bytes));
    }
    json_object_set_new(o, "sample_age_seconds", json_real(rank->age_s));
    return o;
}

static char *text_of(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    return text;
}

char *job_view_ranks(const struct job_view *job)
{
    json_t *ranks = json_array(), *o;

    for (size_t i = 0; ranks && i < job->rank_count; i++)
        json_array_append_new(ranks, rank_json(&job->ranks[i], job->pattern));
    o = ranks ? json_pack("{s:o?, s:o}", "job", job_json(job), "ranks", ranks) : NULL;
    return text_of(o);
}

char *job_view_health(const struct job_view *job)
{
    return text_of(job_json(job));
}
