/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-perf engine: what the background engine costs: the latency of one small tensor that it knows, the processor
 * time it takes while there is nothing to do, and with --model the time of a step with a model's gradients, beside
 * MPI's.
 *
 * A struct run is zero-initialised and engine_run_fini takes any state. Ranks stay in step by the engine's own
 * operations; rank 0 alone prints. The measurements are in engine_latency.c, engine_model.c.
 */
#include "base/transports.h"
#include "perf/src/cli/perf.h"
#include "perf/src/engine/engine.h"
#include "perf/src/output.h"
#include "perf/src/stats.h"
#include "perf/src/versus/versus.h"
#include <stdlib.h>
#include <string.h>

static const char *const buffers_names[] = { "shared", "private", "device", "registered",
                                             NULL };                     /* as enum perf_memory */
static const char *const wire_names[] = { "none", "f16", "bf16", NULL }; /* as enum halay_wire */
static const char *const versus_names[] = { "none", "mpi", "nccl", NULL };

enum { VERSUS_NCCL = 2 };

struct options {
    int model, buffers, versus, wire, is_apart; /* model: of perf_model_names */
    long iterations, period_us, steps;
    double idle_seconds, compute_ms;
    const char *transport, *json;
};

struct run {
    struct options options;
    struct perf_environment environment;
    int has_environment;
    struct perf_engine engine;     /* owned */
    struct perf_versus versus;     /* owned */
    struct perf_progress progress; /* owned; of rank 0 */
    struct halay_output json;      /* owned; of rank 0 */
    json_t *report;                /* owned; of rank 0 with --json */
    int prints;                    /* rank 0, unless the JSON goes to standard output */
    int is_open, is_measured;
    char text[512]; /* the cause, where the status does not tell it */
};

#define SETS(member) HALAY_OPTION_SETS(options, member)

static const struct halay_option table[] = {
    { "--model", NULL, NULL, "also time a step of a model (none)", HALAY_OPTION_CHOICE, SETS(model),
      .choices = perf_model_names },
    { "--buffers", NULL, NULL,
      "memory that ranks of a host share, the program's own, the same registered, or a CUDA device's (shared)",
      HALAY_OPTION_CHOICE, SETS(buffers), .choices = buffers_names },
    { "--apart", NULL, NULL, "the model's gradients and their sums are apart in memory", HALAY_OPTION_FLAG,
      SETS(is_apart) },
    { "--wire", NULL, NULL, "type of the model's gradients while they travel (none: unchanged)", HALAY_OPTION_CHOICE,
      SETS(wire), .choices = wire_names },
    { "--iterations", "-n", "N", "submissions of the small tensor (500)", HALAY_OPTION_NUMBER, SETS(iterations),
      .min = 1, .max = 1000000 },
    { "--every", NULL, "US", "microseconds from one to the next (4000)", HALAY_OPTION_NUMBER, SETS(period_us),
      .min = 300, .max = 10000000 },
    { "--steps", "-s", "N", "steps of the model (200, fewer for a large one)", HALAY_OPTION_NUMBER, SETS(steps),
      .min = 1, .max = 1000000 },
    { "--compute", NULL, "MS", "in turn, also compute that long in each step (0)", HALAY_OPTION_REAL, SETS(compute_ms),
      .max = 3600000 },
    { "--idle", NULL, "SECONDS", "how long to count idle processor time (3)", HALAY_OPTION_REAL, SETS(idle_seconds),
      .max = 3600 },
    { "--versus", NULL, NULL, "reduce the model's tensors by MPI or NCCL, too: mpi, nccl (none)", HALAY_OPTION_CHOICE,
      SETS(versus), .choices = versus_names },
    { "--transport", NULL, "NAME", halay_transport_help, HALAY_OPTION_TEXT, SETS(transport) },
    { "--json", NULL, "FILE", "write the results as JSON ('-': to standard output, instead of the text)",
      HALAY_OPTION_TEXT, SETS(json) },
    { .name = NULL },
};

static enum halay_status start_engine(struct run *run)
{
    const struct options *o = &run->options;
    const char *transport = o->transport ? o->transport : run->environment.config.transport;
    int failed = 0;

    const char *peer = versus_names[o->versus];

    if (o->versus && (o->versus == VERSUS_NCCL) != (o->buffers == PERF_DEVICE)) {
        snprintf(run->text, sizeof run->text, "'--versus %s' goes with memory of %s", peer,
                 o->versus == VERSUS_NCCL ? "a device: '--buffers device'" : "the host, not '--buffers device'");
        return HALAY_ERR_CONFIG;
    }
    if (o->versus &&
        perf_versus_start(&run->versus, &run->environment.config, peer, transport, run->text, sizeof run->text))
        return HALAY_ERR_CONFIG;
    enum halay_status status = perf_engine_open(&run->engine, o->transport, (enum perf_memory)o->buffers);
    if (status != HALAY_OK)
        return status;
    run->is_open = 1;
    run->engine.is_apart = o->is_apart;
    run->engine.wire = (enum halay_wire)o->wire;
    run->engine.bucket_bytes = run->environment.config.fusion_threshold;
    if (o->versus && perf_versus_join(&run->versus, run->engine.context, run->text, sizeof run->text))
        return HALAY_ERR_CONFIG;
    if (o->versus &&
        perf_versus_check(
            &run->versus, run->engine.rank, run->engine.size,
            &(struct perf_call){ .collective = PERF_ALLREDUCE, .count = 1, .dtype = HALAY_F32, .op = HALAY_SUM },
            run->text, sizeof run->text))
        return HALAY_ERR_CONFIG;
    run->engine.peer = run->versus.peer;
    if (run->engine.rank == 0 && o->json)
        failed = perf_json_open(o->json, &run->json) ||
                 !(run->report = json_pack("{s:s, s:i, s:s, s:{s:s}}", "op", "engine", "ranks", run->engine.size,
                                           "buffers", buffers_names[o->buffers], "versions", "halay", halay_version()));
    if (run->engine.rank == 0) {
        perf_progress_init(&run->progress);
        run->engine.progress = &run->progress;
    }
    run->prints = run->engine.rank == 0 && !(o->json && !strcmp(o->json, "-"));
    /* No rank may wait for one that gave up. */
    double worst = failed;
    status = perf_engine_worst(&run->engine, &worst, 1);
    return status == HALAY_OK && worst > 0 ? HALAY_ERR_SYSTEM : status;
}

static void engine_run_fini(struct run *run)
{
    json_decref(run->report);
    halay_output_abort(&run->json);
    if (run->is_open)
        perf_engine_close(&run->engine);
    perf_versus_end(&run->versus, run->is_measured);
    perf_progress_fini(&run->progress);
    if (run->has_environment)
        perf_environment_fini(&run->environment);
}

/* ---- the measurements, each with its line and its keys ----------------------------------------------------------- */

static void report_latency(struct run *run, const char *key, const char *what, double *seconds)
{
    size_t count = (size_t)run->options.iterations;
    double p50 = perf_percentile(seconds, count, 50) * 1e6, p99 = perf_percentile(seconds, count, 99) * 1e6;

    perf_progress_clear(run->engine.progress);
    if (run->prints)
        printf("%-46s %9.2f us median %9.2f us at 99 %%\n", what, p50, p99);
    if (run->report)
        json_object_set_new(run->report, key, json_pack("{s:f, s:f}", "p50", p50, "p99", p99));
}

static enum halay_status latency(struct run *run)
{
    static const struct {
        enum halay_status (*measure)(struct perf_engine *, enum perf_driver, long, double *);
        enum perf_driver driver;
        int is_apart; /* asleep before each */
        const char *key, *what;
    } rows[] = {
        { perf_engine_latency, PERF_BACKGROUND, 1, "latency_us", "one cached tensor of 4 KB, engine asleep:" },
        { perf_engine_floor, PERF_BACKGROUND, 1, "floor_us", "  two bare threads and a futex:" },
        { perf_engine_latency, PERF_DRIVEN, 1, "driven_latency_us", "the same, driven by the waiting thread:" },
        { perf_engine_floor, PERF_DRIVEN, 1, "driven_floor_us", "  bare threads:" },
        { perf_engine_latency, PERF_DRIVEN, 0, "hot_latency_us", "driven, one right after the other:" },
        { perf_engine_floor, PERF_DRIVEN, 0, "hot_floor_us", "  bare threads:" },
    };
    double *seconds = malloc((size_t)run->options.iterations * sizeof *seconds);
    enum halay_status status = seconds ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == HALAY_OK; i++) {
        run->engine.period_us = rows[i].is_apart ? run->options.period_us : 0;
        status = rows[i].measure(&run->engine, rows[i].driver, run->options.iterations, seconds);
        if (status == HALAY_OK)
            report_latency(run, rows[i].key, rows[i].what, seconds);
        else if (status == HALAY_ERR_UNSUPPORTED && rows[i].measure == perf_engine_floor)
            status = HALAY_OK; /* several hosts have none */
    }
    free(seconds);
    return status;
}

static enum halay_status idle(struct run *run)
{
    double percent;

    if (run->options.idle_seconds <= 0)
        return HALAY_OK;
    enum halay_status status = perf_engine_idle(&run->engine, run->options.idle_seconds, &percent);
    if (status != HALAY_OK)
        return status;
    if (run->prints)
        printf("%-46s %9.3f %% of a core, the worst rank's, over %g s\n", "idle engine:", percent,
               run->options.idle_seconds);
    if (run->report)
        json_object_set_new(run->report, "idle_cpu_percent", json_real(percent));
    return HALAY_OK;
}

static void report_versus(struct run *run, const struct perf_step *step)
{
    json_t *list = run->report ? json_array() : NULL;

    for (int row = PERF_STEP_PEER_TENSORS; row <= PERF_STEP_PEER_BUCKETS; row++) {
        char name[64];
        double ratio = step->seconds[row] / step->seconds[PERF_STEP_ENGINE];
        snprintf(name, sizeof name, "%s, one call a %s", run->versus.name,
                 row == PERF_STEP_PEER_TENSORS ? "tensor" : "bucket");
        if (run->prints)
            printf("%-46s %9.3f ms a step, %.2f times halay's\n", name, step->seconds[row] * 1e3, ratio);
        if (list)
            json_array_append_new(
                list, json_pack("{s:s, s:f, s:f}", "name", name, "step_ms", step->seconds[row] * 1e3, "ratio", ratio));
    }
    if (list)
        json_object_set_new(run->report, "versus", list);
}

static void report_overlap(struct run *run, const struct perf_step *step)
{
    double computed = step->seconds[PERF_STEP_COMPUTE] * 1e3, overlapped = step->seconds[PERF_STEP_OVERLAPPED] * 1e3;
    double exposed = step->exposed_seconds[PERF_STEP_OVERLAPPED] * 1e3;

    if (run->prints)
        printf("%-46s %9.3f ms a step, %.3f ms of it after the last submission; %.3f ms without communication: %.1f %% "
               "of it hidden\n",
               "computing between submissions:", overlapped, exposed, computed, step->hidden * 100);
    if (run->report) {
        json_object_set_new(run->report, "compute_ms", json_real(computed));
        json_object_set_new(run->report, "overlapped_step_ms", json_real(overlapped));
        json_object_set_new(run->report, "overlapped_exposed_ms", json_real(exposed));
        json_object_set_new(run->report, "hidden_percent", json_real(step->hidden * 100));
    }
}

static void report_calls(struct run *run, const struct perf_step *step)
{
    static const char *const keys[] = { "submit_us", "complete_us", "named_submit_us", "callback_us" };

    if (run->prints)
        printf("%-46s %9.3f us to submit, %.3f us to test and free\n",
               "a tensor, one call each:", step->calls[PERF_CALL_SUBMIT] * 1e6, step->calls[PERF_CALL_COMPLETE] * 1e6);
    if (run->prints)
        printf("%-46s %9.3f us to submit, %.3f us to be called back\n",
               "by name, elsewhere, with a callback:", step->calls[PERF_CALL_NAMED] * 1e6,
               step->calls[PERF_CALL_CALLBACK] * 1e6);
    for (int row = 0; row < PERF_CALLS && run->report; row++)
        json_object_set_new(run->report, keys[row], json_real(step->calls[row] * 1e6));
}

static void report_registration(struct run *run)
{
    double ms = run->engine.register_seconds * 1e3;

    if (run->prints)
        printf("%-46s %9.3f ms, once, on rank 0\n", "to register this memory", ms);
    if (run->report)
        json_object_set_new(run->report, "register_ms", json_real(ms));
}

static enum halay_status model(struct run *run)
{
    struct perf_step step;

    if (!run->options.model)
        return HALAY_OK;
    const struct perf_model *m = &perf_models[run->options.model - 1];
    enum halay_status status = perf_engine_replay(&run->engine, m, run->options.steps ? run->options.steps : m->steps,
                                                  run->options.compute_ms / 1e3, &step);
    perf_progress_clear(run->engine.progress);
    if (status != HALAY_OK)
        return status;
    if (run->prints)
        printf(
            "%-46s %9.3f ms a step, %.3f ms of it after the last submission; %zu tensors, %zu bytes, %.0f messages\n",
            m->what, step.seconds[PERF_STEP_ENGINE] * 1e3, step.exposed_seconds[PERF_STEP_ENGINE] * 1e3, step.tensors,
            step.bytes, step.messages);
    if (run->report) {
        json_object_set_new(run->report, "model", json_string(m->name));
        json_object_set_new(run->report, "step_ms", json_real(step.seconds[PERF_STEP_ENGINE] * 1e3));
        json_object_set_new(run->report, "exposed_ms", json_real(step.exposed_seconds[PERF_STEP_ENGINE] * 1e3));
        json_object_set_new(run->report, "messages_per_step", json_integer((json_int_t)step.messages));
        json_object_set_new(run->report, "bytes_per_step", json_integer((json_int_t)step.bytes));
    }
    if (step.calls[PERF_CALL_SUBMIT] > 0)
        report_calls(run, &step);
    if (run->options.buffers == PERF_REGISTERED)
        report_registration(run);
    if (run->options.compute_ms > 0)
        report_overlap(run, &step);
    if (run->engine.peer)
        report_versus(run, &step);
    return HALAY_OK;
}

static enum halay_status measure_engine(struct run *run)
{
    char ranks[32];
    enum halay_status status;

    if (run->prints)
        printf("# engine, %s, %s buffers; times of the slowest rank\n",
               perf_plural(ranks, sizeof ranks, run->engine.size, "rank"), buffers_names[run->options.buffers]);
    if ((status = latency(run)) != HALAY_OK || (status = model(run)) != HALAY_OK)
        return status;
    return idle(run);
}

static int finish_engine(struct run *run)
{
    int failed = 0;

    if (run->engine.wrong && run->engine.rank == 0)
        fprintf(stderr, "halay-perf engine: elements were wrong\n");
    if (run->report) {
        failed = perf_json_finish(run->options.json, &run->json, run->report);
        run->report = NULL;
    }
    return failed || run->engine.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int run_engine(char **argv)
{
    struct run run = { .options = { .iterations = 500, .period_us = 4000, .idle_seconds = 3 } };
    enum halay_status status;
    int exit_status;

    if (perf_environment_init(&run.environment) != HALAY_OK)
        return EXIT_USAGE;
    run.has_environment = 1;
    if (!perf_parse(&run.environment, &perf_engine_command, argv, &run.options, &exit_status)) {
        if ((status = start_engine(&run)) != HALAY_OK || (status = measure_engine(&run)) != HALAY_OK) {
            fprintf(stderr, "halay-perf engine: failed: %s\n", *run.text ? run.text : halay_status_string(status));
            exit_status = status == HALAY_ERR_CONFIG ? EXIT_USAGE : EXIT_FAILURE;
        } else {
            run.is_measured = 1;
            exit_status = finish_engine(&run);
        }
    }
    engine_run_fini(&run);
    return exit_status;
}

const struct perf_command perf_engine_command = {
    .name = "engine",
    .summary = "latency of a small tensor, idle processor time, a step of many tensors",
    .synopsis = "[OPTION]...",
    .table = table,
    .notes =
        "Start it with halayrun or mpirun. The small tensor is registered and known to the engine, which sleeps "
        "before each submission; a callback on the engine's thread sees its end, then a thread that waits and "
        "drives the engine. Below each latency is that of bare threads on this machine in the same run. A model's "
        "gradients are submitted together, last layers first, then waited for. MPI reduces them one by one, and "
        "as contiguous buckets. With --compute they are also submitted one by one as a program computes them, "
        "which shows how much of the communication that hides. Of a model up to 16 MiB it also times single calls.",
    .run = run_engine,
};
