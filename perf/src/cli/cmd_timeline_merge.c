/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf timeline-merge: the timelines of the ranks of a job as one, on one clock. It joins no job.
 *
 * Files of ranks that share a clock (one host since it was booted) stay as they are among each other. The clock of the
 * first file's host is kept, the others' are brought to it by the collectives that both sides have
 * (perf/src/records/timeline.h), by the time of day where there is none.
 */
#include "perf/src/cli/perf.h"
#include "perf/src/output.h"
#include "perf/src/records/timeline.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct halay_arguments arguments;
    const char *output;
};

/* How one file's times are shifted, and how exact that is. */
struct alignment {
    double theta_us, within_us;
    const char *by;
};

/* File f's clock against file 0's; every pair of files of the two clocks counts. */
static struct alignment align(const struct perf_timeline *timelines, size_t count, size_t f)
{
    double least = -DBL_MAX, most = DBL_MAX;
    size_t both = 0;

    if (!strcmp(timelines[f].boot_id, timelines[0].boot_id))
        return (struct alignment){ 0, 0, "clock" };
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            if (!strcmp(timelines[a].boot_id, timelines[0].boot_id) &&
                !strcmp(timelines[b].boot_id, timelines[f].boot_id))
                both += perf_timeline_bounds(&timelines[a], &timelines[b], &least, &most);
    if (!both)
        return (struct alignment){ timelines[0].wall_us - timelines[f].wall_us, 0, "time of day" };
    /* If clocks drift, the bounds may cross; the middle is still the best guess. */
    return (struct alignment){ (least + most) / 2, (most > least ? most - least : least - most) / 2, "collectives" };
}

/* Move the events of all files into one object; NULL: no memory. */
static json_t *merge(struct perf_timeline *timelines, size_t count, char **paths)
{
    struct alignment *alignments = malloc(count * sizeof *alignments);
    json_t *events = json_array(), *ranks = json_array();
    int failed = !alignments || !events || !ranks;

    for (size_t f = 0; f < count && !failed; f++)
        alignments[f] = align(timelines, count, f);
    for (size_t f = 0; f < count && !failed; f++) {
        json_t *other = json_object_get(timelines[f].root, "otherData");
        const struct alignment *a = &alignments[f];
        if (a->theta_us != 0)
            perf_timeline_shift(&timelines[f], a->theta_us);
        failed = json_array_extend(events, json_object_get(timelines[f].root, "traceEvents")) ||
                 json_array_append_new(ranks, json_pack("{s:s, s:i, s:s, s:O, s:s, s:f, s:f}", "file", paths[f], "rank",
                                                        timelines[f].rank, "host", timelines[f].host, "dropped",
                                                        json_object_get(other, "dropped"), "aligned_by", a->by,
                                                        "shift_us", -a->theta_us, "within_us", a->within_us));
        if (strcmp(a->by, "clock") != 0)
            fprintf(stderr, "halay-perf timeline-merge: '%s' is shifted by %.3f ms, by %s%s\n", paths[f],
                    -a->theta_us / 1e3, a->by,
                    strcmp(a->by, "collectives") != 0 ? ": it shares no collective with the first" : "");
    }
    free(alignments);
    if (!failed)
        return json_pack("{s:s, s:o, s:{s:o}}", "displayTimeUnit", "ms", "traceEvents", events, "otherData", "ranks",
                         ranks);
    json_decref(events);
    json_decref(ranks);
    return NULL;
}

static int check_ranks(const struct perf_timeline *timelines, size_t count, char **paths)
{
    for (size_t f = 0; f < count; f++)
        for (size_t g = 0; g < f; g++)
            if (timelines[f].rank == timelines[g].rank) {
                fprintf(stderr, "halay-perf timeline-merge: '%s' and '%s' are both of rank %d\n", paths[g], paths[f],
                        timelines[f].rank);
                return 1;
            }
    return 0;
}

static int run_merge_files(struct halay_log *log, const char *output, char **paths, size_t count)
{
    struct perf_timeline *timelines = calloc(count, sizeof *timelines);
    struct halay_output json = { 0 };
    enum halay_status status = timelines ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    int exit_status = EXIT_FAILURE;

    for (size_t f = 0; f < count && status == HALAY_OK; f++)
        status = perf_timeline_read(log, paths[f], &timelines[f]);
    if (status == HALAY_OK && check_ranks(timelines, count, paths))
        exit_status = EXIT_USAGE;
    else if (status == HALAY_OK && !perf_json_open(output, &json))
        exit_status = perf_json_finish(output, &json, merge(timelines, count, paths)) ? EXIT_FAILURE : EXIT_SUCCESS;
    for (size_t f = 0; timelines && f < count; f++)
        perf_timeline_fini(&timelines[f]);
    free(timelines);
    return exit_status;
}

static const struct halay_option table[] = {
    { "FILE...", NULL, NULL, "timelines of ranks, or their flight recorders' files", HALAY_OPTION_ARGUMENTS,
      HALAY_OPTION_SETS(options, arguments) },
    { "--output", "-o", "FILE", "the file to write ('-': standard output)", HALAY_OPTION_TEXT,
      HALAY_OPTION_SETS(options, output) },
    { .name = NULL },
};

static int run_merge(char **argv)
{
    struct perf_environment environment;
    struct options o = { .output = "-" };
    int exit_status;

    if (perf_environment_init(&environment) != HALAY_OK)
        return EXIT_USAGE;
    if (!perf_parse(&environment, &perf_timeline_merge_command, argv, &o, &exit_status)) {
        if (o.arguments.count) {
            exit_status = run_merge_files(&environment.log, o.output, o.arguments.at, o.arguments.count);
        } else {
            fprintf(stderr,
                    "halay-perf timeline-merge: no files: write 'halay-perf timeline-merge -o all.json FILE...'\n");
            exit_status = EXIT_USAGE;
        }
    }
    perf_environment_fini(&environment);
    return exit_status;
}

const struct perf_command perf_timeline_merge_command = {
    .name = "timeline-merge",
    .summary = "join the timelines of a job's ranks, on one clock",
    .synopsis = "[-o FILE] FILE...",
    .table = table,
    .notes = "With HALAY_TIMELINE=PATH each rank writes a file when it ends. The result is for chrome://tracing or "
             "ui.perfetto.dev. For ranks that did not end well, their flight recorders' files "
             "will do.",
    .run = run_merge,
};
