/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf flight: reads the flight recorders' files of a job: what each rank did last, and where the ranks differ,
 * the earliest first; or one file's records as text. It joins no job.
 */
#include "perf/src/cli/perf.h"
#include "perf/src/records/flight.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct halay_arguments arguments;
    long max;
};

static int compare_ranks(const void *a, const void *b)
{
    const struct perf_flight *x = a, *y = b;

    return (x->head.rank > y->head.rank) - (x->head.rank < y->head.rank);
}

static int64_t last_ns(const struct perf_flight *flight)
{
    int64_t last = 0;

    for (size_t i = 0; i < flight->count; i++)
        if (flight->records[i].time_ns > last)
            last = flight->records[i].time_ns;
    return last;
}

static void print_each_rank(const struct perf_flight *flights, size_t count)
{
    int64_t newest = 0;
    char last[4096]; /* two names and the cause of a failure */

    for (size_t f = 0; f < count; f++)
        newest = last_ns(&flights[f]) > newest ? last_ns(&flights[f]) : newest;
    for (size_t f = 0; f < count; f++) {
        const struct perf_flight *flight = &flights[f];
        printf("rank %d (%s, process %" PRId64 "): ", flight->head.rank, flight->head.host, flight->head.pid);
        if (!flight->count) {
            printf("no records\n");
            continue;
        }
        perf_flight_last(flight, last, sizeof last);
        printf("%s; %zu records%s, the last %.3f s before the newest of all\n", last, flight->count,
               flight->is_whole ? "" : " that are left", (double)(newest - last_ns(flight)) / 1e9);
    }
}

/* Are the files, in order of their ranks, of one job? Says so if not. */
static int are_of_one_job(const struct perf_flight *flights, size_t count)
{
    for (size_t f = 1; f < count; f++) {
        const struct halay_ring_head *a = &flights[f - 1].head, *b = &flights[f].head;
        if (a->size == b->size && a->rank != b->rank)
            continue;
        fprintf(stderr, "halay-perf flight: these files are of several jobs: rank %d of %d, rank %d of %d\n", a->rank,
                a->size, b->rank, b->size);
        return 0;
    }
    return 1;
}

static int show(const struct options *o, struct perf_flight *flights, size_t count)
{
    struct perf_difference *found;
    size_t differences;

    qsort(flights, count, sizeof *flights, compare_ranks);
    if (!are_of_one_job(flights, count))
        return EXIT_USAGE;
    if (count < (size_t)flights[0].head.size)
        printf("%zu of %d ranks: the others' files are missing\n", count, flights[0].head.size);
    perf_flight_align(flights, count);
    print_each_rank(flights, count);
    if (perf_flight_compare(flights, count, &found, &differences) != HALAY_OK) {
        fprintf(stderr, "halay-perf flight: no memory\n");
        return EXIT_FAILURE;
    }
    if (!differences)
        printf("no difference: all ranks submitted and ran the same\n");
    for (size_t i = 0; i < differences && i < (size_t)o->max; i++)
        printf("%s%s\n", i ? "then: " : "first difference: ", found[i].text);
    if (differences > (size_t)o->max)
        printf("and %zu more (--count)\n", differences - (size_t)o->max);
    free(found);
    return differences ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int dump(const struct perf_flight *flight)
{
    int64_t origin = flight->count ? flight->records[0].time_ns : 0;

    for (size_t i = 0; i < flight->count; i++)
        perf_flight_print(&flight->records[i], origin, stdout);
    return EXIT_SUCCESS;
}

static int run_flight_files(struct halay_log *log, const struct options *o, int is_dump, char **paths, size_t count)
{
    struct perf_flight *flights = calloc(count, sizeof *flights);
    enum halay_status status = flights ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    int exit_status = EXIT_FAILURE;

    for (size_t f = 0; f < count && status == HALAY_OK; f++)
        status = perf_flight_read(log, paths[f], &flights[f]);
    if (status == HALAY_OK)
        exit_status = is_dump ? dump(&flights[0]) : show(o, flights, count);
    for (size_t f = 0; flights && f < count; f++)
        perf_flight_fini(&flights[f]);
    free(flights);
    return exit_status;
}

static const struct halay_option table[] = {
    { "FILE...", NULL, NULL, "show or dump, then the recorders' files", HALAY_OPTION_ARGUMENTS,
      HALAY_OPTION_SETS(options, arguments) },
    { "--count", "-n", "N", "differences to print (10)", HALAY_OPTION_NUMBER, HALAY_OPTION_SETS(options, max), .min = 1,
      .max = 1000000 },
    { .name = NULL },
};

static int run_flight(char **argv)
{
    struct perf_environment environment;
    struct options o = { .max = 10 };
    int exit_status;

    if (perf_environment_init(&environment) != HALAY_OK)
        return EXIT_USAGE;
    if (!perf_parse(&environment, &perf_flight_command, argv, &o, &exit_status)) {
        int files = (int)o.arguments.count - 1, is_dump = files >= 0 && !strcmp(o.arguments.at[0], "dump");
        if (files < 1 || (!is_dump && strcmp(o.arguments.at[0], "show") != 0) || (is_dump && files > 1)) {
            fprintf(stderr,
                    "halay-perf flight: write 'halay-perf flight show FILE...' or 'halay-perf flight dump FILE'\n");
            exit_status = EXIT_USAGE;
        } else {
            exit_status = run_flight_files(&environment.log, &o, is_dump, o.arguments.at + 1, (size_t)files);
        }
    }
    perf_environment_fini(&environment);
    return exit_status;
}

const struct perf_command perf_flight_command = {
    .name = "flight",
    .summary = "where the ranks of a job differ, from their flight recorders' files",
    .synopsis = "show [OPTION]... FILE...\ndump FILE",
    .table = table,
    .notes = "Ranks write these files with HALAY_FLIGHT=PATH; the records stay however a rank ends. "
             "Exit status 1: the ranks differ.",
    .run = run_flight,
};
