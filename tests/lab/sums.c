/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up the ranks' numbers without pause for MILLISECONDS (by rank 0's clock), then prints "rank R of N is done".
 * Ends with 1 if a sum fails, with 2 if it is wrong. usage: sums MILLISECONDS
 */
#include "base/clock.h"
#include <halay.h>
#include <stdio.h>
#include <stdlib.h>

static enum halay_status add_up(struct halay_context *ctx, int64_t end_us)
{
    const float size = (float)halay_size(ctx);
    float values[2] = { 0 };

    while (values[1] == 0) {
        values[0] = (float)halay_rank(ctx);
        values[1] = halay_rank(ctx) == 0 && halay_deadline_passed(end_us);
        enum halay_status status = halay_allreduce(ctx, "values", NULL, values, 2, HALAY_F32, HALAY_SUM);
        if (status != HALAY_OK)
            return status;
        if (values[0] != size * (size - 1) / 2) {
            fprintf(stderr, "sums: %g is wrong\n", (double)values[0]);
            exit(2);
        }
    }
    return HALAY_OK;
}

int main(int argc, char **argv)
{
    struct halay_context *ctx;
    enum halay_status status = halay_init(NULL, &ctx);

    if (status != HALAY_OK) {
        fprintf(stderr, "sums: halay_init: %s\n", halay_error_text());
        return 1;
    }
    status = add_up(ctx, halay_deadline_us(argc > 1 ? atoi(argv[1]) : 0));
    if (status == HALAY_OK)
        printf("rank %d of %d is done\n", halay_rank(ctx), halay_size(ctx));
    else
        fprintf(stderr, "sums: %s\n", halay_error_text());
    halay_fini(ctx);
    return status != HALAY_OK;
}
