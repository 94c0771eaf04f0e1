/* SPDX-License-Identifier: Apache-2.0
 *
 * What perf/bench/scale prints: the all-reduce that halay chooses for more ranks than a machine can start, and how long
 * it takes by its formula (choose/algorithms.def), whose steps and bytes tests/coll/test_schedules proves.
 *
 * usage: at_scale A_US O_US GBIT RANKS... - BYTES...: the latency of a step, what a message costs its sender, the rate
 * of a host's link; one rank a host. Lines: ranks, bytes, algorithm, seconds, the least seconds for any algorithm.
 */
#include "base/config.h"
#include "collectives/choose/algorithms.h"
#include "collectives/choose/select.h"
#include "collectives/choose/tuning.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The larger of log2(N) latencies and of 2 (N - 1) / N of the bytes. */
static double least(int ranks, double bytes, double a, double b)
{
    double steps = 0, moved = 2 * bytes * (ranks - 1) / ranks * b;

    for (int n = 1; n < ranks; n *= 2)
        steps++;
    return steps * a > moved ? steps * a : moved;
}

static void show(const struct halay_tuning *tuning, int ranks, size_t bytes)
{
    const struct halay_select_query query = { .operation = HALAY_COLL_ALLREDUCE,
                                              .bytes = bytes,
                                              .size = ranks,
                                              .transport = "",
                                              .chunk = 64 << 10,
                                              .tuning = tuning };
    const struct halay_algorithm *chosen = halay_select(&query, NULL, 0);
    const struct halay_tuning_cost *cost = &tuning->rows[0].cost;

    printf("%d %zu %s %.9f %.9f\n", ranks, bytes, chosen->name, halay_select_seconds(&query, chosen),
           least(ranks, (double)bytes, cost->a, cost->b));
}

static int usage(void)
{
    fprintf(stderr, "usage: at_scale A_US O_US GBIT RANKS... - BYTES...\n");
    return 2;
}

int main(int argc, char **argv)
{
    static struct halay_tuning tuning;
    char text[256], why[256];
    int split = 4;

    while (split < argc && strcmp(argv[split], "-") != 0)
        split++;
    if (argc < 7 || split >= argc - 1)
        return usage();
    snprintf(text, sizeof text, "halay-tuning 1\ncost * * latency=%sus message=%sus byte=%gns add=0.1ns\n", argv[1],
             argv[2], 8 / atof(argv[3]));
    if (halay_tuning_parse(text, "the command line", &tuning, why, sizeof why) != HALAY_OK) {
        fprintf(stderr, "at_scale: %s\n", why);
        return 2;
    }
    for (int r = 4; r < split; r++)
        for (int i = split + 1; i < argc; i++)
            show(&tuning, atoi(argv[r]), (size_t)strtoull(argv[i], NULL, 10));
    return 0;
}
