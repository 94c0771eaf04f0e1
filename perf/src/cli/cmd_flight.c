/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf flight: what the flight recorders' files of a job say: of each rank what it did last, and where the ranks
 * differ, the earliest first; or one file's records as text. It joins no job.
 */
#include "perf/src/cli/perf.h"
#include "perf/src/records/flight.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct perf_arguments arguments;
    long most;
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

static void print_ranks(const struct perf_flight *flights, size_t count)
{
    int64_t newest = 0;
    char last[512];

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

/* Whose files are not here: they may be the ranks that matter. Nonzero: the files are not of one job. */
static int check_ranks(const struct perf_flight *flights, size_t count)
{
    int size = flights[0].head.size, given = 0;

    for (size_t f = 0; f < count; f++) {
        if (flights[f].head.size != size || (f && flights[f].head.rank == flights[f - 1].head.rank)) {
            fprintf(stderr, "halay-perf flight: these files are of several jobs: rank %d of %d, rank %d of %d\n",
                    flights[f ? f - 1 : 0].head.rank, flights[f ? f - 1 : 0].head.size, flights[f].head.rank,
                    flights[f].head.size);
            return 1;
        }
        given++;
    }
    if (given < size)
        printf("%d of %d ranks: what the others did is not known\n", given, size);
    return 0;
}

static int show(const struct options *o, struct perf_flight *flights, size_t count)
{
    struct perf_difference *found;
    size_t differences;

    qsort(flights, count, sizeof *flights, compare_ranks);
    if (check_ranks(flights, count))
        return PERF_EXIT_USAGE;
    perf_flight_align(flights, count);
    print_ranks(flights, count);
    if (perf_flight_compare(flights, count, &found, &differences) != HALAY_OK) {
        fprintf(stderr, "halay-perf flight: no memory\n");
        return PERF_EXIT_FAILED;
    }
    if (!differences)
        printf("no difference: what one rank submitted and ran, all did\n");
    for (size_t i = 0; i < differences && i < (size_t)o->most; i++)
        printf("%s%s\n", i ? "then: " : "first difference: ", found[i].text);
    if (differences > (size_t)o->most)
        printf("and %zu more (--count)\n", differences - (size_t)o->most);
    free(found);
    return differences ? PERF_EXIT_FAILED : PERF_EXIT_OK;
}

static int dump(const struct perf_flight *flight)
{
    int64_t origin = flight->count ? flight->records[0].time_ns : 0;

    for (size_t i = 0; i < flight->count; i++)
        perf_flight_print(&flight->records[i], origin, stdout);
    return PERF_EXIT_OK;
}

static int run_files(struct halay_log *log, const struct options *o, int is_dump, char **paths, size_t count)
{
    struct perf_flight *flights = calloc(count, sizeof *flights);
    enum halay_status status = flights ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    int exit_status = PERF_EXIT_FAILED;

    for (size_t f = 0; f < count && status == HALAY_OK; f++)
        status = perf_flight_read(log, paths[f], &flights[f]);
    if (status == HALAY_OK)
        exit_status = is_dump ? dump(&flights[0]) : show(o, flights, count);
    for (size_t f = 0; flights && f < count; f++)
        perf_flight_fini(&flights[f]);
    free(flights);
    return exit_status;
}

static int run_flight(int argc, char **argv)
{
    struct perf_environment environment;
    struct options o = { .most = 10 };
    const struct perf_option table[] = {
        { 'n', "count", PERF_LONG, &o.most, "differences to print (10)", "N", 1, 1000000, NULL },
        { 0, "FILE...", PERF_ARGUMENTS, &o.arguments, "show or dump, then what the recorders wrote", NULL, 0, 0, NULL },
        { 0, NULL, PERF_FLAG, NULL, NULL, NULL, 0, 0, NULL },
    };
    int exit_status;

    if (perf_environment_init(&environment) != HALAY_OK)
        return PERF_EXIT_USAGE;
    if (!perf_parse(&environment, &perf_flight_command, table, argc, argv, &exit_status)) {
        int files = o.arguments.count - 1, is_dump = files >= 0 && !strcmp(o.arguments.at[0], "dump");
        if (files < 1 || (!is_dump && strcmp(o.arguments.at[0], "show") != 0) || (is_dump && files > 1)) {
            fprintf(stderr,
                    "halay-perf flight: write 'halay-perf flight show FILE...' or 'halay-perf flight dump FILE'\n");
            exit_status = PERF_EXIT_USAGE;
        } else {
            exit_status = run_files(&environment.log, &o, is_dump, o.arguments.at + 1, (size_t)files);
        }
    }
    perf_environment_fini(&environment);
    return exit_status;
}

const struct perf_command perf_flight_command = {
    .name = "flight",
    .summary = "what the flight recorders' files say: where the ranks of a job differ",
    .synopsis = "show [OPTION]... FILE...\n       halay-perf flight dump FILE",
    .notes = "The ranks of a job with HALAY_FLIGHT=PATH write these files, and what is in them stays however the ranks "
             "end.\n"
             "Exit status 1: the ranks differ.\n",
    .run = run_flight,
};
