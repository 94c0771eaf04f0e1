/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated program: all-reduces of several lengths by several algorithms, in simulated time, or with their sums
 * checked. perf/bench/simulate writes the platform, runs this under smpirun and reads what it prints, a line a fact:
 *
 *     network ALPHA BETA              seconds of a message, seconds of a byte, between the first rank and the last
 *     choice BYTES ALGORITHM          what halay would take by itself (algorithm "auto")
 *     time BYTES ALGORITHM SECONDS    from the first rank's start to the last one's end
 *     absent ALGORITHM                this build has none of that name, or not over messages
 *     checked N / wrong ALGORITHM ...
 *
 * Arguments are words: node=RANKS-A-NODE, memory=NS-A-BYTE (a neighbour's), message=NS (what sending one costs the
 * sender), tuning=FILE (written), check=1, ALGORITHM:BYTES,BYTES,... Ranks are contexts of one process: getopt, which
 * keeps its place in a global, would be shared by them.
 *
 * Halay chooses by what the network costs, as after halay-perf tune: the tuning table, which HALAY_TUNING names too, is
 * written with what was measured in the simulation before halay starts.
 */
#include "base/parse.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/schedule/coll.h"
#include "halay_tools.h"
#include "perf/simulated/simulated.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MOST = 256, NAME_BYTES = 32, PATIENCE = 2 };

enum { SMALL_MESSAGE = sizeof(float), LARGE_MESSAGE = 16 << 20 }; /* bytes; for alpha, for beta */

struct a_case {
    char algorithm[NAME_BYTES];
    size_t bytes;
};

struct options {
    int node;
    double memory_ns, message_ns;
    const char *tuning; /* borrowed from argv; NULL: no table is written */
    int is_check;
    struct a_case cases[CASES_MOST];
    int count;
};

struct job {
    struct options options;
    struct halay_world *world;
    struct halay_group *group;
    int rank, size;
};

/* ---- arguments ---- */

/* ALGORITHM:BYTES,BYTES,... */
static int cases_read(struct options *options, const char *word)
{
    size_t name = strcspn(word, ":");

    if (!word[name] || name >= NAME_BYTES)
        return 0;
    for (const char *list = word + name + 1; *list;) {
        size_t length = strcspn(list, ",");
        char bytes[NAME_BYTES];
        if (options->count == CASES_MOST || length >= sizeof bytes)
            return 0;
        struct a_case *a = &options->cases[options->count++];
        snprintf(a->algorithm, sizeof a->algorithm, "%.*s", (int)name, word);
        snprintf(bytes, sizeof bytes, "%.*s", (int)length, list);
        if (halay_parse_size(bytes, &a->bytes) != HALAY_OK)
            return 0;
        list += length + (list[length] == ',');
    }
    return 1;
}

static int options_read(struct options *options, int argc, char **argv, int rank)
{
    options->node = 1;
    for (int i = 1; i < argc; i++) {
        long value = 1;
        int is_good = 1;
        if (!strncmp(argv[i], "node=", 5)) {
            is_good = halay_parse_long(argv[i] + 5, 1, SIMULATED_RANKS_MAX, &value) == HALAY_OK;
            options->node = (int)value;
        } else if (!strncmp(argv[i], "memory=", 7)) {
            is_good = halay_parse_double(argv[i] + 7, 0, 1e9, &options->memory_ns) == HALAY_OK;
        } else if (!strncmp(argv[i], "message=", 8)) {
            is_good = halay_parse_double(argv[i] + 8, 0, 1e9, &options->message_ns) == HALAY_OK;
        } else if (!strncmp(argv[i], "tuning=", 7)) {
            options->tuning = argv[i] + 7;
        } else if (!strcmp(argv[i], "check=1")) {
            options->is_check = 1;
        } else {
            is_good = cases_read(options, argv[i]);
        }
        if (!is_good && rank == 0)
            fprintf(stderr, "simulated: '%s' is no argument of this program; perf/bench/simulate runs it\n", argv[i]);
        if (!is_good)
            return 0;
    }
    return 1;
}

/* ---- driving ---- */

/* A round without progress may still have made room for the next (parts handed out, transfers posted): waiting is safe
 * after PATIENCE such rounds in a row. */
static enum halay_status finish(struct job *job, struct halay_coll *coll)
{
    unsigned long seen = halay_group_work(job->group) + simulated_node_rings();
    enum halay_status status;
    int in_vain = 0;

    while ((status = halay_coll_progress(coll)) == HALAY_IN_PROGRESS) {
        unsigned long now = halay_group_work(job->group) + simulated_node_rings();
        in_vain = now == seen ? in_vain + 1 : 0;
        seen = now;
        if (in_vain >= PATIENCE)
            simulated_block_next_look();
    }
    halay_coll_end(coll);
    return status;
}

static enum halay_status run_allreduce(struct job *job, void *data, size_t count)
{
    struct halay_coll *coll;

    enum halay_status status = halay_group_allreduce_start(job->group, data, data, count, HALAY_F32, HALAY_SUM, &coll);
    return status == HALAY_OK ? finish(job, coll) : status;
}

/* Every rank knows the same algorithms, so all skip the same ones. */
static int has_algorithm(struct job *job, const char *name)
{
    const struct halay_algorithm *algorithm = halay_algorithm_find(HALAY_COLL_ALLREDUCE, name);

    return algorithm && !(algorithm->flags & HALAY_ALGORITHM_SHARED) &&
           (!(algorithm->flags & HALAY_ALGORITHM_NODES) || job->group->sharing == HALAY_SHARES_NODES) &&
           halay_group_set_algorithm(job->group, "allreduce", name) == HALAY_OK;
}

/* ---- measuring ---- */

/* Seconds of half a round trip between the first rank and another one, on both. */
static double round_trip(const struct job *job, int other, void *data, size_t bytes)
{
    int partner = job->rank ? 0 : other, turn = job->rank != 0;
    double start = MPI_Wtime();

    for (int i = 0; i < 2 && (job->rank == 0 || job->rank == other); i++) {
        MPI_Request request;
        if (i == turn)
            MPI_Isend(data, (int)bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request);
        else
            MPI_Irecv(data, (int)bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return (MPI_Wtime() - start) / 2;
}

/* Seconds of a step of exchanges at distance 1, 2, 4, ...: near partners are faster, and halay-perf tune takes this for
 * the latency. On all ranks. */
static double doubling_step(const struct job *job, void *data)
{
    double start, mine, all = 0;
    int steps = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int bit = 1; bit < job->size; bit *= 2, steps++) {
        int partner = job->rank ^ bit;
        MPI_Request both[2];
        if (partner >= job->size)
            continue;
        MPI_Irecv(data, SMALL_MESSAGE, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(data, SMALL_MESSAGE, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    }
    mine = (MPI_Wtime() - start) / (steps ? steps : 1);
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* A flag costs a look and, if the neighbour sleeps, a message inside the node. */
static int tuning_write(const struct job *job, double step, double beta, double exchange)
{
    const char *path = job->options.tuning;
    FILE *out = path ? fopen(path, "w") : NULL;

    if (!out)
        return path == NULL;
    fprintf(out,
            "halay-tuning 1\n"
            "cost mpi * latency=%.9gus message=%.9gns byte=%.9gns exchange=%.9gus memory=%.9gns\n",
            step * 1e6, job->options.message_ns, beta * 1e9, exchange * 1e6, job->options.memory_ns);
    return fclose(out) == 0;
}

static enum halay_status calibrate(const struct job *job)
{
    enum halay_status status = HALAY_OK;
    void *data = simulated_folded(LARGE_MESSAGE);

    if (!data)
        return HALAY_ERR_NO_MEMORY;
    int last = job->size - 1, near = job->options.node > 1 ? 1 : 0;
    round_trip(job, last, data, SMALL_MESSAGE); /* both are there now */
    double alpha = round_trip(job, last, data, SMALL_MESSAGE);
    double beta = (round_trip(job, last, data, LARGE_MESSAGE) - alpha) / (double)(LARGE_MESSAGE - SMALL_MESSAGE);
    double exchange = near ? round_trip(job, near, data, 0) : 0;
    double step = doubling_step(job, data);
    if (job->rank == 0) {
        printf("network %.9g %.9g\n", alpha, beta);
        status = tuning_write(job, step, beta, exchange) ? HALAY_OK : HALAY_ERR_SYSTEM;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
}

static void print_choice(const struct job *job, size_t bytes)
{
    char why[256];
    const char *choice =
        halay_group_explain(job->group, "allreduce", bytes / sizeof(float), HALAY_F32, 0, why, sizeof why);

    if (job->rank == 0)
        printf("choice %zu %s\n", bytes, choice);
}

/* The simulation is deterministic: once is enough. */
static enum halay_status measure_case(struct job *job, const struct a_case *a, void *data)
{
    double mine[2], both[2]; /* the latest end; minus the earliest start */

    if (!strcmp(a->algorithm, "auto")) {
        print_choice(job, a->bytes);
        return HALAY_OK;
    }
    if (!has_algorithm(job, a->algorithm)) {
        if (job->rank == 0)
            printf("absent %s\n", a->algorithm);
        return HALAY_OK;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mine[1] = -MPI_Wtime();
    enum halay_status status = run_allreduce(job, data, a->bytes / sizeof(float));
    if (status != HALAY_OK)
        return status;
    mine[0] = MPI_Wtime();
    MPI_Allreduce(mine, both, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (job->rank == 0)
        printf("time %zu %s %.9g\n", a->bytes, a->algorithm, both[0] + both[1]);
    fflush(stdout);
    return HALAY_OK;
}

/* What an algorithm keeps in its scratch must not be folded: one inside nodes keeps the state of others there, one that
 * has a limit of ranks (direct) the state of all pairs. */
static int may_fold(const struct options *options)
{
    for (int i = 0; i < options->count; i++) {
        const struct halay_algorithm *algorithm =
            halay_algorithm_find(HALAY_COLL_ALLREDUCE, options->cases[i].algorithm);
        if (algorithm && (algorithm->flags & HALAY_ALGORITHM_NODES || algorithm->ops->ranks_max))
            return 0;
    }
    return 1;
}

static enum halay_status measure_cases(struct job *job)
{
    const struct options *options = &job->options;
    size_t most = 1;
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < options->count; i++)
        most = options->cases[i].bytes > most ? options->cases[i].bytes : most;
    if (may_fold(options))
        simulated_fold_memory();
    void *data = simulated_folded(most);
    if (!data)
        return HALAY_ERR_NO_MEMORY;
    for (int i = 0; i < options->count && status == HALAY_OK; i++)
        status = measure_case(job, &options->cases[i], data);
    return status;
}

/* ---- checking ---- */

/* Small whole numbers: their sum is exact in any order. */
static float value_of(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 64);
}

static int is_right(const struct job *job, const float *data, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < job->size; r++)
            sum += value_of(r, i);
        if (data[i] != sum)
            return 0;
    }
    return 1;
}

static enum halay_status check_case(struct job *job, const char *name, size_t count, int *wrong)
{
    float *data = malloc((count + 1) * sizeof *data);

    if (!data)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        data[i] = value_of(job->rank, i);
    enum halay_status status = run_allreduce(job, data, count);
    if (status == HALAY_OK && !is_right(job, data, count)) {
        printf("wrong %s: %zu elements on rank %d of %d\n", name, count, job->rank, job->size);
        ++*wrong;
    }
    free(data);
    return status;
}

static enum halay_status check_cases(struct job *job, int *wrong)
{
    const struct options *options = &job->options;
    enum halay_status status = HALAY_OK;
    int checked = 0;

    for (int i = 0; i < options->count && status == HALAY_OK; i++) {
        const struct a_case *a = &options->cases[i];
        if (!has_algorithm(job, a->algorithm)) {
            if (job->rank == 0)
                printf("absent %s\n", a->algorithm);
            continue;
        }
        status = check_case(job, a->algorithm, a->bytes / sizeof(float), wrong);
        checked++;
    }
    if (job->rank == 0)
        printf("checked %d\n", checked);
    return status;
}

/* ---- the program ---- */

static enum halay_status run(struct job *job, int *wrong)
{
    if (job->size > SIMULATED_RANKS_MAX || job->size % job->options.node)
        return HALAY_ERR_ARGUMENT;
    enum halay_status status = calibrate(job);
    if (status == HALAY_OK)
        status = simulated_world_open(job->options.node, job->options.memory_ns, &job->world);
    if (status != HALAY_OK)
        return status;
    status = halay_group_create(job->world, &job->group);
    if (status == HALAY_OK)
        job->group->reducer = simulated_node_reducer();
    if (status == HALAY_OK)
        status = job->options.is_check ? check_cases(job, wrong) : measure_cases(job);
    MPI_Barrier(MPI_COMM_WORLD);
    /* After a measurement a million close notices among a thousand ranks would only cost time. */
    if (job->options.is_check) {
        halay_group_close(job->group);
        MPI_Barrier(MPI_COMM_WORLD);
        halay_world_close(job->world);
        simulated_node_close();
    }
    return status;
}

__attribute__((visibility("default"))) int main(int argc, char **argv);

int main(int argc, char **argv)
{
    struct job job = { 0 };
    int wrong = 0;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS || MPI_Comm_rank(MPI_COMM_WORLD, &job.rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &job.size) != MPI_SUCCESS || !options_read(&job.options, argc, argv, job.rank))
        return 2;
    enum halay_status status = run(&job, &wrong);
    if (status != HALAY_OK)
        fprintf(stderr, "simulated: rank %d: %s\n", job.rank, halay_status_string(status));
    MPI_Finalize();
    return status != HALAY_OK || wrong;
}
