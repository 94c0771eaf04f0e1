/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: columns and keys. A column is there if its operation has it: a barrier has no bandwidth, and the roofline
 * alone has no algorithm.
 */
#include "perf/src/cli/report.h"
#include "halay_tools.h"
#include "perf/src/cli/perf.h"
#include "perf/src/stats.h"
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static int is_roofline(const struct perf_report *report)
{
    return !report->bench->measures[PERF_HALAY];
}

/* The time that a row is about. */
static double seconds_of(const struct perf_report *report, const struct perf_result *r)
{
    return r->seconds[is_roofline(report) ? PERF_MEMORY : PERF_HALAY];
}

static double algbw(const struct perf_report *report, const struct perf_result *r)
{
    return perf_bandwidth_gbs(r->bytes, seconds_of(report, r));
}

static double busbw(const struct perf_report *report, const struct perf_result *r)
{
    return algbw(report, r) * report->bench->operation->bus_factor(halay_group_size(report->bench->group));
}

static double roofline_percent(const struct perf_result *r)
{
    return r->seconds[PERF_HALAY] > 0 ? 100 * r->seconds[PERF_MEMORY] / r->seconds[PERF_HALAY] : 0;
}

static double ratio(const struct perf_result *r, enum perf_row other)
{
    return r->seconds[PERF_HALAY] > 0 ? r->seconds[other] / r->seconds[PERF_HALAY] : 0;
}

static const char *name_of(const struct perf_report *report, enum perf_row other)
{
    return other == PERF_NAIVE ? "naive" : report->mpi;
}

/* Other measurements, in the order of their columns; PERF_ROWS ends them. */
static const enum perf_row others[] = { PERF_MPI, PERF_NAIVE, PERF_ROWS };

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void print_title(const struct perf_report *report)
{
    const struct perf_bench *bench = report->bench;
    char ranks[32], hosts[32];

    printf("# %s%s%s", report->command, is_roofline(report) ? " of " : "",
           is_roofline(report) ? bench->operation->command : "");
    if (bench->operation->has_data)
        printf(" %s", halay_dtype_name(bench->dtype));
    if (bench->operation->reduces && !is_roofline(report))
        printf(" %s", halay_reduction_name(bench->op));
    if (bench->operation->is_rooted)
        printf(" root %d", bench->root);
    printf(", %s, %s", perf_plural(ranks, sizeof ranks, halay_group_size(bench->group), "rank"),
           perf_plural(hosts, sizeof hosts, report->hosts, "host"));
    if (bench->operation->has_data)
        printf(", %s buffers", report->buffers);
    printf(", transport %s\n", halay_group_transport(bench->group));
}

void perf_report_header(const struct perf_report *report)
{
    const int has_data = report->bench->operation->has_data;

    print_title(report);
    if (is_roofline(report))
        printf("# each rank reads and writes its own memory, all at once; bandwidths in 10^9 bytes/s\n");
    else
        printf("# time of the slowest rank, median%s\n",
               has_data ? "; bandwidths in 10^9 bytes/s; roof%: time of memory alone in percent" : "");
    if (report->mpi)
        printf("# %s in turn on private buffers; ratio: its time / halay's\n", report->library);
    if (report->bench->measures[PERF_NAIVE])
        printf("# naive: a loop between two barriers, over shared memory, in turn; ratio: its time / halay's\n");
    printf("#%10s", "bytes");
    if (!is_roofline(report))
        printf("  %-20s", "algorithm");
    printf(" %12s", "time_us");
    if (has_data)
        printf(" %9s %9s", "algbw", "busbw");
    if (has_data && !is_roofline(report))
        printf(" %6s %7s", "roof%", "wrong");
    for (const enum perf_row *other = others; *other < PERF_ROWS; other++)
        if (report->bench->measures[*other])
            printf(" %12s %7s", name_of(report, *other), "ratio");
    printf("\n");
    fflush(stdout);
}

void perf_report_row(const struct perf_report *report, const struct perf_result *r)
{
    const int has_data = report->bench->operation->has_data;

    printf("%11zu", r->bytes);
    if (!is_roofline(report))
        printf("  %-20s", r->algorithm);
    printf(" %12.2f", seconds_of(report, r) * 1e6);
    if (has_data)
        printf(" %9.3f %9.3f", algbw(report, r), busbw(report, r));
    if (has_data && !is_roofline(report))
        printf(" %6.1f %7.0f", roofline_percent(r), r->wrong[PERF_HALAY]);
    for (const enum perf_row *other = others; *other < PERF_ROWS; other++)
        if (report->bench->measures[*other])
            printf(" %12.2f %7.2f", r->seconds[*other] * 1e6, ratio(r, *other));
    printf("\n");
    fflush(stdout);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* NULL: nothing was compared, or no memory. */
static json_t *versus(const struct perf_report *report, const struct perf_result *r)
{
    json_t *list = NULL;

    for (const enum perf_row *other = others; *other < PERF_ROWS; other++) {
        if (!report->bench->measures[*other])
            continue;
        list = list ? list : json_array();
        json_array_append_new(list, json_pack("{s:s, s:f, s:f, s:I}", "name", name_of(report, *other), "time_us",
                                              r->seconds[*other] * 1e6, "ratio", ratio(r, *other), "wrong",
                                              (json_int_t)r->wrong[*other]));
    }
    return list;
}

json_t *perf_report_result(const struct perf_report *report, const struct perf_result *r)
{
    const struct perf_bench *bench = report->bench;
    json_t *row =
        json_pack("{s:I, s:s*, s:s*, s:s, s:f, s:f, s:f}", "bytes", (json_int_t)r->bytes, "dtype",
                  bench->operation->has_data ? halay_dtype_name(bench->dtype) : NULL, "algorithm",
                  is_roofline(report) ? NULL : r->algorithm, "transport", halay_group_transport(bench->group),
                  "time_us", seconds_of(report, r) * 1e6, "algbw_gbs", algbw(report, r), "busbw_gbs", busbw(report, r));

    if (!row || is_roofline(report))
        return row;
    json_object_set_new(row, "wrong", json_integer((json_int_t)r->wrong[PERF_HALAY]));
    if (bench->measures[PERF_MEMORY])
        json_object_set_new(row, "roofline_percent", json_real(roofline_percent(r)));
    json_t *list = versus(report, r);
    if (list)
        json_object_set_new(row, "versus", list);
    return row;
}

static json_t *versions(const struct perf_report *report)
{
    struct utsname system = { .release = "" };
    json_t *object = json_pack("{s:s}", "halay", halay_version());

    if (object && report->mpi)
        json_object_set_new(object, report->mpi, json_string(report->library));
    if (object && !uname(&system))
        json_object_set_new(object, "kernel", json_string(system.release));
    return object;
}

json_t *perf_report_object(const struct perf_report *report, json_t *results)
{
    const struct perf_bench *bench = report->bench;
    const struct perf_operation *operation = bench->operation;
    json_t *object =
        json_pack("{s:s, s:s*, s:s*, s:i, s:i, s:s*, s:o, s:O}", "op", report->command, "of",
                  is_roofline(report) ? operation->command : NULL, "reduction",
                  operation->reduces && !is_roofline(report) ? halay_reduction_name(bench->op) : NULL, "ranks",
                  halay_group_size(bench->group), "hosts", report->hosts, "buffers",
                  operation->has_data ? report->buffers : NULL, "versions", versions(report), "results", results);

    if (object && operation->is_rooted)
        json_object_set_new(object, "root", json_integer(bench->root));
    return object;
}
