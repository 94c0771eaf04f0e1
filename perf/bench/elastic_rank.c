/* SPDX-License-Identifier: Apache-2.0
 *
 * What perf/bench/elastic times: a rank that trains (elastic_rank train) until it is killed, or commits (elastic_rank
 * commit BYTES TIMES).
 *
 * train prints, each time that the job has been re-formed, on the rank that was the lowest, in seconds of
 * CLOCK_MONOTONIC: when the loss was noticed (a function of halay.h returned), when this rank asked for a place, when
 * it had one and had met the others, when it goes on.
 */
#include <halay_elastic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEP_US = 2000, SKIPPED = 5 };

struct moments {
    double left, met; /* of the log's lines */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The library says at these moments what it has done. */
static void take_line(void *arg, enum halay_log_level level, const char *line)
{
    struct moments *moments = arg;

    (void)level;
    if (strstr(line, "asks for a place"))
        moments->left = now();
    else if (strstr(line, "bootstrap store"))
        moments->met = now();
}

static enum halay_status train(struct halay_context *ctx, struct moments *moments)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };
    float gradient[1000] = { 0 };

    enum halay_status status = halay_elastic_begin(ctx, NULL);
    if (status == HALAY_OK) {
        printf("begun %d of %d\n", halay_rank(ctx), halay_size(ctx));
        fflush(stdout);
    }
    while (status == HALAY_OK) {
        usleep(STEP_US);
        status = halay_allreduce(ctx, "gradient", gradient, gradient, 1000, HALAY_F32, HALAY_SUM);
        if (status == HALAY_OK)
            status = halay_elastic_commit(ctx, NULL);
        if (status != HALAY_ERR_PEER)
            continue;
        double noticed = now();
        status = halay_elastic_restore(ctx, &change);
        if (status == HALAY_OK && halay_rank(ctx) == 0)
            printf("reformed %d %.6f %.6f %.6f %.6f\n", halay_size(ctx), noticed, moments->left, moments->met, now());
        fflush(stdout);
    }
    return status;
}

static enum halay_status commit(struct halay_context *ctx, size_t bytes, int times)
{
    enum halay_status status = halay_elastic_begin(ctx, NULL);
    double begun = 0;

    for (int i = 0; i < times + SKIPPED && status == HALAY_OK; i++) {
        if (i == SKIPPED)
            begun = now();
        status = halay_elastic_commit(ctx, NULL);
    }
    if (status == HALAY_OK && halay_rank(ctx) == 0)
        printf("commit %zu %.1f\n", bytes, (now() - begun) * 1e6 / times);
    return status;
}

int main(int argc, char **argv)
{
    int commits = argc == 4 && !strcmp(argv[1], "commit");
    size_t bytes = commits ? strtoull(argv[2], NULL, 10) : 1 << 20;
    struct moments moments = { 0 };
    struct halay_options options = { .struct_size = sizeof options, .log = take_line, .log_arg = &moments };
    struct halay_context *ctx;

    if (!commits && (argc != 2 || strcmp(argv[1], "train") != 0)) {
        fprintf(stderr, "usage: elastic_rank train | commit BYTES TIMES\n");
        return 2;
    }
    unsigned char *state = calloc(1, bytes ? bytes : 1);
    if (!state || halay_init(&options, &ctx) != HALAY_OK)
        return 1;
    enum halay_status status = halay_elastic_add(ctx, state, bytes);
    if (status == HALAY_OK)
        status = commits ? commit(ctx, bytes, atoi(argv[3])) : train(ctx, &moments);
    if (status != HALAY_OK)
        fprintf(stderr, "elastic_rank: %s\n", halay_status_string(status));
    halay_fini(ctx);
    free(state);
    return status != HALAY_OK;
}
