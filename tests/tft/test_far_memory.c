/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose memory the host cannot touch: the processor's kernels on pages that are open only while one of them
 * runs, so that anybody else's look is a fault. It takes all rows as one block and finds no equal ones. Loss,
 * gradients, an update and forecasts are the processor's.
 */
#include "tests/tft/device_step.h"
#include <sys/mman.h>

enum { FAR_BYTES = 64 << 20 };

/* One block for all, handed out from its beginning and given back at the end. */
static char *far;
static size_t far_used;

static void far_open_pages(void)
{
    REQUIRE(mprotect(far, FAR_BYTES, PROT_READ | PROT_WRITE) == 0);
}

static void far_close_pages(void)
{
    REQUIRE(mprotect(far, FAR_BYTES, PROT_NONE) == 0);
}

static void *far_alloc(size_t bytes)
{
    void *memory = far + far_used;

    far_used += (bytes + 4095) / 4096 * 4096;
    return far_used <= FAR_BYTES ? memory : NULL;
}

static void far_release(void *memory)
{
    (void)memory;
}

#define FAR(member, params, args)       \
    static void far_##member params     \
    {                                   \
        far_open_pages();               \
        tft_kernels_cpu()->member args; \
        far_close_pages();              \
    }

FAR(begin, (struct queue * queue, const real *params, const real *folded), (queue, params, folded))
FAR(to_device, (struct queue * queue, const void *host, size_t bytes, void *memory), (queue, host, bytes, memory))
FAR(to_host, (struct queue * queue, const void *memory, size_t bytes, void *host), (queue, memory, bytes, host))
FAR(copy, (struct queue * queue, const void *from, size_t bytes, void *to), (queue, from, bytes, to))
FAR(fill, (struct queue * queue, double value, size_t n, real *y), (queue, value, n, y))
FAR(product, (struct queue * queue, const struct product *product), (queue, product))
FAR(add, (struct queue * queue, const real *x, size_t n, real *y), (queue, x, n, y))
FAR(rows_add, (struct queue * queue, const real *b, size_t R, size_t W, real *y), (queue, b, R, W, y))
FAR(rows_fill, (struct queue * queue, const real *row, size_t R, size_t W, real *y), (queue, row, R, W, y))
FAR(rows_sum, (struct queue * queue, const real *x, size_t R, size_t W, int add, real *sum), (queue, x, R, W, add, sum))
FAR(samples_sum, (struct queue * queue, const real *x, size_t R, size_t B, size_t W, real *sum),
    (queue, x, R, B, W, sum))
FAR(swap, (struct queue * queue, const real *x, size_t A, size_t B, size_t C, real *y), (queue, x, A, B, C, y))
FAR(windows_take, (struct queue * queue, const struct windows_run *run), (queue, run))
FAR(take_reals, (struct queue * queue, const struct column *column, const real *x, real *y), (queue, column, x, y))
FAR(take_codes, (struct queue * queue, const struct column *column, const int32_t *x, int32_t *y),
    (queue, column, x, y))
FAR(rows_take, (struct queue * queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y),
    (queue, table, codes, R, W, y))
FAR(rows_put, (struct queue * queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table),
    (queue, x, codes, R, W, table))
FAR(sparse_put, (struct queue * queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to),
    (queue, x, codes, R, shape, to))
FAR(sparse_add, (struct queue * queue, const real *x, struct sparse shape, real *to), (queue, x, shape, to))
FAR(sparse_squares, (struct queue * queue, const real *x, struct sparse shape, double *sum), (queue, x, shape, sum))
FAR(sparse_adam,
    (struct queue * queue, const struct adam_run *run, const real *gradient, struct sparse shape, real *m, real *v,
     real *p),
    (queue, run, gradient, shape, m, v, p))
FAR(outer, (struct queue * queue, const real *x, const real *wb, size_t R, size_t W, real *y), (queue, x, wb, R, W, y))
FAR(outer_add, (struct queue * queue, const real *x, const real *w, size_t R, size_t W, real *y),
    (queue, x, w, R, W, y))
FAR(outer_sum, (struct queue * queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w),
    (queue, d_y, x, R, W, d_w))
FAR(norm, (struct queue * queue, const struct norm *norm, real *y, real *inverse, real *z),
    (queue, norm, y, inverse, z))
FAR(norm_output, (struct queue * queue, const struct norm *norm, const real *xhat, real *z), (queue, norm, xhat, z))
FAR(norm_backward, (struct queue * queue, const struct norm_backward *backward), (queue, backward))
FAR(elu, (struct queue * queue, size_t n, real *x), (queue, n, x))
FAR(elu_backward, (struct queue * queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum),
    (queue, e, R, W, add, d_e, sum))
FAR(dropout,
    (struct queue * queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep, real *u),
    (queue, rows, x, bias, keep, u))
FAR(dropout_backward, (struct queue * queue, const struct dropout *dropout, const uint8_t *keep, size_t n, real *d),
    (queue, dropout, keep, n, d))
FAR(gate, (struct queue * queue, const struct gate *gate), (queue, gate))
FAR(gate_backward, (struct queue * queue, const struct gate_backward *backward), (queue, backward))
FAR(softmax, (struct queue * queue, size_t R, size_t V, real *z), (queue, R, V, z))
FAR(softmax_backward, (struct queue * queue, const real *w, size_t R, size_t V, real *d_w), (queue, w, R, V, d_w))
FAR(weigh, (struct queue * queue, const struct weigh *weigh, int add, real *out), (queue, weigh, add, out))
FAR(weigh_backward, (struct queue * queue, const struct weigh *weigh, const real *d_out, real *d_z, real *d_weights),
    (queue, weigh, d_out, d_z, d_weights))
FAR(resample, (struct queue * queue, const real *mask, size_t in, size_t out, real *s), (queue, mask, in, out, s))
FAR(resample_backward, (struct queue * queue, const real *mask, const real *d_s, size_t in, size_t out, real *d_mask),
    (queue, mask, d_s, in, out, d_mask))
FAR(lstm, (struct queue * queue, const struct lstm_run *run), (queue, run))
FAR(lstm_backward, (struct queue * queue, const struct lstm_run *run, const struct lstm_gradient *gradient),
    (queue, run, gradient))
FAR(attention, (struct queue * queue, const struct attention_run *run, real *mean), (queue, run, mean))
FAR(attention_backward,
    (struct queue * queue, const struct attention_run *run, const struct attention_gradient *gradient),
    (queue, run, gradient))
FAR(ascending, (struct queue * queue, size_t R, size_t Q, size_t O, real *o), (queue, R, Q, O, o))
FAR(ascending_backward, (struct queue * queue, const real *p, size_t R, size_t Q, size_t O, real *d_p),
    (queue, p, R, Q, O, d_p))
FAR(loss, (struct queue * queue, const struct outputs_run *run, double *loss, real *d_p), (queue, run, loss, d_p))
FAR(samples_first, (struct queue * queue, const struct outputs_run *run, real *y), (queue, run, y))
FAR(average, (struct queue * queue, double share, const real *x, size_t n, real *y), (queue, share, x, n, y))
FAR(squares, (struct queue * queue, const real *x, size_t n, double *sum), (queue, x, n, sum))
FAR(adam, (struct queue * queue, const struct adam_run *run, const real *gradient, size_t n, real *m, real *v, real *p),
    (queue, run, gradient, n, m, v, p))

static struct kernels table;

static enum halay_status far_open(const struct queue_needs *needs, struct queue **queue)
{
    enum halay_status status = tft_kernels_cpu()->open(needs, queue);

    if (!status)
        ((struct queue_head *)(void *)*queue)->kernels = &table;
    return status;
}

static void wrap_rows(void)
{
    table.begin = far_begin;
    table.to_device = far_to_device;
    table.to_host = far_to_host;
    table.copy = far_copy;
    table.fill = far_fill;
    table.product = far_product;
    table.add = far_add;
    table.rows_add = far_rows_add;
    table.rows_fill = far_rows_fill;
    table.rows_sum = far_rows_sum;
    table.samples_sum = far_samples_sum;
    table.swap = far_swap;
    table.windows_take = far_windows_take;
    table.take_reals = far_take_reals;
    table.take_codes = far_take_codes;
    table.rows_take = far_rows_take;
    table.rows_put = far_rows_put;
    table.sparse_put = far_sparse_put;
    table.sparse_add = far_sparse_add;
    table.sparse_squares = far_sparse_squares;
    table.sparse_adam = far_sparse_adam;
    table.outer = far_outer;
    table.outer_add = far_outer_add;
    table.outer_sum = far_outer_sum;
}

static void wrap_layers(void)
{
    table.norm = far_norm;
    table.norm_output = far_norm_output;
    table.norm_backward = far_norm_backward;
    table.elu = far_elu;
    table.elu_backward = far_elu_backward;
    table.dropout = far_dropout;
    table.dropout_backward = far_dropout_backward;
    table.gate = far_gate;
    table.gate_backward = far_gate_backward;
    table.softmax = far_softmax;
    table.softmax_backward = far_softmax_backward;
    table.weigh = far_weigh;
    table.weigh_backward = far_weigh_backward;
    table.resample = far_resample;
    table.resample_backward = far_resample_backward;
    table.lstm = far_lstm;
    table.lstm_backward = far_lstm_backward;
    table.attention = far_attention;
    table.attention_backward = far_attention_backward;
    table.ascending = far_ascending;
    table.ascending_backward = far_ascending_backward;
    table.loss = far_loss;
    table.samples_first = far_samples_first;
    table.average = far_average;
    table.squares = far_squares;
    table.adam = far_adam;
}

static void make_table(void)
{
    table = *tft_kernels_cpu();
    table.name = "far";
    table.block_rows = SIZE_MAX;
    table.host_memory = 0;
    table.alloc = far_alloc;
    table.release = far_release;
    table.open = far_open;
    table.shared_rows_gather = NULL;
    wrap_rows();
    wrap_layers();
}

static void compare(enum tft_conformance conformance, size_t statics, int ascending, double dropout, enum tft_loss loss)
{
    const size_t B = 3;
    struct tft_model_config config;
    struct results near, there;
    size_t n, outputs;

    device_config(conformance, statics, ascending, dropout, loss, &config);
    config.E = 50; /* several blocks of the processor */
    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &near);
    run_step(&config, &table, B, &there);
    far_used = 0;
    CHECK(fabs(near.loss - there.loss) < 1e-10 * near.loss, "loss %.12g, far %.12g", near.loss, there.loss);
    CHECK(fabs(near.norm - there.norm) < 1e-9 * near.norm, "norm %.12g, far %.12g", near.norm, there.norm);
    CHECK(fabs(near.forecast_loss - there.forecast_loss) < 1e-9 * near.forecast_loss);
    CHECK(difference(near.gradients, there.gradients, n) < 1e-10, "gradients");
    CHECK(difference(near.params, there.params, n) < 1e-6, "updated parameters");
    CHECK(difference(near.forecast, there.forecast, outputs) < 1e-6, "forecasts");
    results_free(&near);
    results_free(&there);
}

int main(void)
{
    far = mmap(NULL, FAR_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(far != MAP_FAILED);
    make_table();
    compare(TFT_PUBLISHED, 3, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 0, 1, 0, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_STUDENT_T);
    compare(TFT_NVIDIA, 1, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PYTORCH_FORECASTING, 2, 0, 0.25, TFT_LOSS_QUANTILES);
    munmap(far, FAR_BYTES);
    return test_end();
}
