/* SPDX-License-Identifier: Apache-2.0
 *
 * Every rank says hello, and all of them add up their numbers.
 *     cc hello.c $(pkg-config --cflags --libs halay) -o hello && halayrun -np 4 ./hello
 */
#include <halay.h>
#include <stdio.h>

int main(void)
{
    struct halay_context *ctx;
    enum halay_status status = halay_init(NULL, &ctx);

    if (status != HALAY_OK) {
        fprintf(stderr, "halay_init: %s\n", halay_status_string(status));
        return 1;
    }
    float sum = (float)halay_rank(ctx);
    status = halay_allreduce(ctx, "sum of ranks", NULL, &sum, 1, HALAY_F32, HALAY_SUM);
    if (status == HALAY_OK)
        printf("hello from rank %d of %d: the numbers of all ranks add up to %g\n", halay_rank(ctx), halay_size(ctx),
               (double)sum);
    else
        fprintf(stderr, "halay_allreduce: %s\n", halay_status_string(status));
    halay_fini(ctx);
    return status != HALAY_OK;
}
