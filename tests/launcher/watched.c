/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks to be watched: they sum a tensor, say a gauge and sum another one three times; then rank 0 sums the first one
 * again, for which rank 1 comes when there is a file of that name. usage: watched FILE
 */
#include "halay.h"
#include "halay_tools.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static int sum(struct halay_context *ctx, const char *name)
{
    float values[100] = { 0 };

    return halay_allreduce(ctx, name, values, values, 100, HALAY_F32, HALAY_SUM);
}

int main(int argc, char **argv)
{
    const struct timespec moment = { .tv_nsec = 10000000 };
    struct halay_context *ctx;
    int failed = argc != 2 || halay_init(NULL, &ctx);

    if (failed)
        return 1;
    failed |= sum(ctx, "late") != HALAY_OK;
    failed |= halay_gauge_set(ctx, "loss", 0.5) != HALAY_OK;
    for (int i = 0; i < 3; i++)
        failed |= sum(ctx, "first") != HALAY_OK;
    failed |= halay_gauge_set(ctx, "step", 3) != HALAY_OK;
    while (halay_rank(ctx) == 1 && access(argv[1], F_OK))
        nanosleep(&moment, NULL);
    failed |= sum(ctx, "late") != HALAY_OK;
    halay_fini(ctx);
    return failed;
}
