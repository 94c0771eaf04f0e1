/* SPDX-License-Identifier: Apache-2.0
 *
 * Every layer alone, built in double: gradients against central differences of sum(c * outputs), for sizes that divide
 * by nothing and rows that take several blocks; results against the formula where it is short.
 */
#include "tests/tft/model_helpers.h"
#include "tft/core/layers/attention.h"
#include "tft/core/layers/embedding.h"
#include "tft/core/model/model_impl.h"

enum { MOST = 100000, BLOCKS = 23 };

/* A layer under test: parameters, one or two inputs, the weights of its outputs, gradients of all. */
struct bench {
    struct queue *queue;
    struct pass pass;
    struct arena arena;
    real *p, *g, *x, *d_x, *context, *d_context, *c, *y, *scratch;
    void *layer, *state;
    size_t params, inputs, outputs, R;
    void (*forward)(struct bench *);
    void (*backward)(struct bench *); /* d_y is a copy of c in y */
};

static real *reals(size_t n)
{
    real *x = calloc(n ? n : 1, sizeof *x);

    REQUIRE(x);
    return x;
}

static void bench_init(struct bench *b, size_t B, size_t R, double dropout)
{
    memset(b, 0, sizeof *b);
    b->p = reals(MOST);
    b->g = reals(MOST);
    b->x = reals(MOST);
    b->d_x = reals(MOST);
    b->context = reals(MOST);
    b->d_context = reals(MOST);
    b->c = reals(MOST);
    b->y = reals(MOST);
    b->scratch = reals(20 * MOST);
    b->arena.base = calloc(40 * MOST, sizeof(real));
    REQUIRE(b->arena.base);
    fill_values(b->p, MOST, 1);
    fill_values(b->x, MOST, 2);
    fill_values(b->context, MOST, 3);
    fill_values(b->c, MOST, 4);
    REQUIRE(tft_kernels_cpu()->open(&(struct queue_needs){ 0 }, &b->queue) == HALAY_OK);
    b->pass =
        (struct pass){ .queue = b->queue, .p = b->p, .g = b->g, .B = B, .dropout = dropout_of(dropout, 7, 2, 40) };
    b->R = R;
}

static void bench_fini(struct bench *b)
{
    free(b->p);
    free(b->g);
    free(b->x);
    free(b->d_x);
    free(b->context);
    free(b->d_context);
    free(b->c);
    free(b->y);
    free(b->scratch);
    free(b->arena.base);
    tft_kernels_cpu()->close(b->queue);
}

static double bench_loss(void *arg)
{
    struct bench *b = arg;

    b->forward(b);
    return weighted(b->c, b->y, b->outputs);
}

/* contexts: elements of the second input, 0 for none. */
static void bench_check(struct bench *b, const char *name, size_t contexts)
{
    double error;

    for (size_t i = 0; i < b->params; i++)
        b->g[i] = 999; /* gradients are written */
    b->forward(b);
    memcpy(b->y, b->c, b->outputs * sizeof(real));
    memset(b->d_context, 0, contexts * sizeof(real));
    b->backward(b);
    error = gradient_error(b->p, b->g, b->params, 60, bench_loss, b);
    CHECK(error < 1e-7, "%s: gradients of parameters are off by %g", name, error);
    error = gradient_error(b->x, b->d_x, b->inputs, 60, bench_loss, b);
    CHECK(error < 1e-7, "%s: gradients of inputs are off by %g", name, error);
    if (contexts) {
        error = gradient_error(b->context, b->d_context, contexts, 60, bench_loss, b);
        CHECK(error < 1e-7, "%s: gradients of the context are off by %g", name, error);
    }
}

/* ---- linear ----------------------------------------------------------------------------------------------------- */

static void linear_run(struct bench *b)
{
    linear_forward(&b->pass, b->layer, b->x, b->R, b->y);
}

static void linear_back(struct bench *b)
{
    linear_backward(&b->pass, b->layer, b->x, b->y, b->R, 0, b->d_x, 0);
}

static void test_linear(void)
{
    struct bench b;
    struct linear layer = { .in = 5, .out = 7, .w = 0, .b = 35 };

    bench_init(&b, 1, 11, 0);
    b.layer = &layer;
    b.forward = linear_run;
    b.backward = linear_back;
    b.params = 42;
    b.inputs = 55;
    b.outputs = 77;
    bench_check(&b, "linear", 0);
    bench_fini(&b);
}

/* ---- layer norm ------------------------------------------------------------------------------------------------- */

static void norm_run(struct bench *b)
{
    real *xhat = b->scratch, *inverse = b->scratch + 1000;

    memcpy(xhat, b->x, b->inputs * sizeof(real));
    layernorm_forward(&b->pass, b->layer, xhat, b->R, inverse, b->y);
}

static void norm_back(struct bench *b)
{
    layernorm_backward(&b->pass, b->layer, b->scratch, b->scratch + 1000, b->R, 0, b->y);
    memcpy(b->d_x, b->y, b->inputs * sizeof(real));
}

static void test_layernorm(void)
{
    struct bench b;
    struct layernorm layer = { .W = 9, .gamma = 0, .beta = 9, .epsilon = 1e-3 };
    double mean = 0, variance = 0;

    bench_init(&b, 1, 13, 0);
    b.layer = &layer;
    b.forward = norm_run;
    b.backward = norm_back;
    b.params = 18;
    b.inputs = b.outputs = 9 * 13;
    bench_check(&b, "layernorm", 0);
    norm_run(&b);
    for (size_t i = 0; i < 9; i++)
        mean += b.x[i] / 9;
    for (size_t i = 0; i < 9; i++)
        variance += (b.x[i] - mean) * (b.x[i] - mean) / 9;
    for (size_t i = 0; i < 9; i++)
        CHECK(fabs(b.y[i] - (b.p[i] * (b.x[i] - mean) / sqrt(variance + 1e-3) + b.p[9 + i])) < 1e-12);
    bench_fini(&b);
}

/* ---- gated linear unit, and GRN --------------------------------------------------------------------------------- */

static struct linear linear_at(size_t *place, size_t in, size_t out, int bias)
{
    struct linear linear = { .in = in, .out = out, .w = *place, .b = bias ? *place + in * out : TFT_NONE };

    *place += in * out + (bias ? out : 0);
    return linear;
}

static struct glu glu_at(size_t *place, size_t in, size_t out, size_t V, size_t v)
{
    struct glu glu = { .dropped = 1, .site = { .name = 99, .stride = V * in, .first = v * in } };

    glu.value = linear_at(place, in, out, 1);
    glu.gate = linear_at(place, in, out, 1);
    glu.norm = (struct layernorm){ .W = out, .gamma = *place, .beta = *place + out, .epsilon = 1e-3 };
    *place += 2 * out;
    return glu;
}

static struct grn grn_at(size_t *place, size_t in, size_t H, size_t out, int context, size_t V, size_t v)
{
    struct grn grn = {
        .in = in, .H = H, .out = out, .skip.w = TFT_NONE, .resample.mask = TFT_NONE, .context.w = TFT_NONE
    };

    if (in != out)
        grn.skip = linear_at(place, in, out, 1);
    grn.dense1 = linear_at(place, in, H, 1);
    if (context)
        grn.context = linear_at(place, H, H, 0);
    grn.dense2 = linear_at(place, H, H, 1);
    grn.glu = glu_at(place, H, out, V, v);
    return grn;
}

static void glu_run(struct bench *b)
{
    gate_rows_forward(&b->pass, b->layer, b->state, 3 * b->pass.B, b->x, b->context, b->R, b->y);
}

static void glu_back(struct bench *b)
{
    const struct glu *glu = b->layer;

    gate_rows_backward(&b->pass, glu, b->state, b->R, b->y, b->d_x, b->scratch);
    memcpy(b->d_context, b->y, b->R * glu->value.out * sizeof(real)); /* the skip connection's */
}

static void test_glu(double dropout)
{
    struct bench b;
    struct glu_state state;
    struct glu layer;
    size_t B = 3, R = B * BLOCKS * 5;

    bench_init(&b, B, R, dropout);
    layer = glu_at(&b.params, 5, 7, 1, 0);
    glu_layout(&b.arena, &layer, R, &state);
    b.layer = &layer;
    b.state = &state;
    b.forward = glu_run;
    b.backward = glu_back;
    b.inputs = R * 5;
    b.outputs = R * 7;
    bench_check(&b, dropout > 0 ? "glu with dropout" : "glu", R * 7);
    glu_run(&b);
    if (dropout > 0)
        return bench_fini(&b);
    for (size_t o = 0; o < 7; o++) {
        double v = b.p[35 + o], g = b.p[77 + o];

        for (size_t i = 0; i < 5; i++) {
            v += b.x[i] * b.p[i * 7 + o];
            g += b.x[i] * b.p[42 + i * 7 + o];
        }
        CHECK(fabs(state.v[o] * state.s[o] - v / (1 + exp(-g))) < 1e-12, "gated value %zu", o);
    }
    bench_fini(&b);
}

static int with_context;

static void grn_run(struct bench *b)
{
    grn_forward(&b->pass, b->layer, b->state, 0, b->x, with_context ? b->context : NULL, b->R, b->y);
}

static void grn_back(struct bench *b)
{
    grn_backward(&b->pass, b->layer, b->state, b->R,
                 &(struct grn_backward){ .x = b->x,
                                         .context = with_context ? b->context : NULL,
                                         .d_z = b->y,
                                         .d_x = b->d_x,
                                         .d_context = b->d_context,
                                         .scratch = b->scratch });
}

static void test_grn(size_t in, size_t out, int context, double dropout)
{
    struct bench b;
    struct grn_state state;
    struct grn layer;
    size_t B = 5, R = B * BLOCKS, H = 7;

    bench_init(&b, B, R, dropout);
    with_context = context;
    layer = grn_at(&b.params, in, H, out, context, 1, 0);
    grn_layout(&b.arena, &layer, R, B, &state);
    b.layer = &layer;
    b.state = &state;
    b.forward = grn_run;
    b.backward = grn_back;
    b.inputs = R * in;
    b.outputs = R * out;
    bench_check(&b, "grn", context ? B * H : 0);
    bench_fini(&b);
}

/* ---- variable selection ----------------------------------------------------------------------------------------- */

struct selection {
    struct vsn vsn;
    struct vsn_state state;
    struct grn networks[3];
    struct grn_state states[3];
    struct embedding embeddings[3];
    int32_t codes[1000];
    real *xi[3], *d_xi[3];
    int rank1;
};

/* x holds two reals' columns, then nothing; the third variable is a category. Embeddings are parameters, too. */
static void vsn_inputs(struct bench *b, struct vsn_input *inputs)
{
    struct selection *s = b->layer;

    for (size_t j = 0; j < s->vsn.V; j++) {
        int real_one = j < 2;

        inputs[j] = (struct vsn_input){ .w = s->embeddings[j].w };
        if (real_one && s->rank1) {
            inputs[j].x = b->x + j * b->R;
        } else {
            embedding_forward(&b->pass, &s->embeddings[j], b->x + j * b->R, s->codes, b->R, s->xi[j]);
            inputs[j].xi = s->xi[j];
            inputs[j].d_xi = s->d_xi[j];
        }
    }
}

static struct vsn_rows vsn_rows(const struct bench *b, const struct vsn_input *inputs)
{
    const struct selection *s = b->layer;

    return (struct vsn_rows){ inputs, s->vsn.single ? NULL : b->context, 2 * b->pass.B, b->R };
}

static void vsn_run(struct bench *b)
{
    struct selection *s = b->layer;
    struct vsn_input inputs[3];

    vsn_inputs(b, inputs);
    vsn_forward(&b->pass, &s->vsn, &s->state, vsn_rows(b, inputs), b->y, b->scratch);
}

static void vsn_back(struct bench *b)
{
    struct selection *s = b->layer;
    struct vsn_input inputs[3];

    vsn_inputs(b, inputs);
    for (size_t j = 0; j < s->vsn.V; j++) {
        embedding_zero(&b->pass, &s->embeddings[j]);
        memset(s->d_xi[j], 0, b->R * s->vsn.H * sizeof(real));
    }
    vsn_backward(&b->pass, &s->vsn, &s->state, vsn_rows(b, inputs), b->y, b->d_context, b->scratch);
    for (size_t j = 0; j < s->vsn.V; j++)
        if (!inputs[j].x)
            embedding_backward(&b->pass, &s->embeddings[j], b->x + j * b->R, s->codes, s->d_xi[j], b->R, b->scratch);
}

/* Leaves outputs and gradients in out (outputs, then parameters), to compare the rank-1 path with the plain one. */
static void test_vsn(size_t V, int rank1, int recompute, double dropout, real *out)
{
    struct bench b;
    struct selection *s = calloc(1, sizeof *s);
    size_t B = 3, R = B * BLOCKS * 2, H = 5;

    REQUIRE(s);
    bench_init(&b, B, R, dropout);
    s->rank1 = rank1;
    s->vsn = (struct vsn){ .V = V, .H = H, .single = V == 1, .recompute = recompute, .variables = s->networks };
    for (size_t j = 0; j < V; j++) {
        s->embeddings[j] = (struct embedding){ .W = H, .categories = j < 2 ? 0 : 4, .w = b.params };
        b.params += (j < 2 ? 2 : 4) * H;
        s->xi[j] = reals(R * H);
        s->d_xi[j] = reals(R * H);
    }
    if (V > 1)
        s->vsn.joint = grn_at(&b.params, V * H, H, V, 1, 1, 0);
    for (size_t j = 0; j < V; j++) {
        s->networks[j] = grn_at(&b.params, H, H, H, 0, V, j);
        s->networks[j].first = j * H;
    }
    for (size_t r = 0; r < R; r++)
        s->codes[r] = (int32_t)(r * 7 % 4);
    s->state.variables = s->states;
    vsn_layout(&b.arena, tft_kernels_cpu(), &s->vsn, R, B, &s->state);
    b.layer = s;
    b.forward = vsn_run;
    b.backward = vsn_back;
    b.outputs = R * H;
    bench_check(&b, rank1 ? "selection, rank 1" : "selection", V > 1 ? B * H : 0);
    vsn_run(&b);
    memcpy(out, b.y, b.outputs * sizeof(real));
    memcpy(out + b.outputs, b.g, b.params * sizeof(real));
    for (size_t r = 0; V > 1 && r < R; r++) {
        double sum = 0;

        for (size_t j = 0; j < V; j++)
            sum += s->state.weights[r * V + j];
        CHECK(fabs(sum - 1) < 1e-12, "weights of row %zu sum to %g", r, sum);
    }
    for (size_t j = 0; j < V; j++) {
        free(s->xi[j]);
        free(s->d_xi[j]);
    }
    free(s);
    bench_fini(&b);
}

static void test_selections(void)
{
    static real rank1[20000], plain[20000], again[20000];

    for (size_t V = 1; V <= 3; V++) {
        double worst = 0;

        memset(rank1, 0, sizeof rank1);
        memset(plain, 0, sizeof plain);
        memset(again, 0, sizeof again);
        test_vsn(V, 1, 0, 0.25, rank1);
        test_vsn(V, 0, 0, 0.25, plain);
        test_vsn(V, 0, 1, 0.25, again);
        CHECK(memcmp(again, plain, sizeof plain) == 0, "%zu variables: what is made again has other bits", V);
        for (size_t i = 0; i < 20000; i++)
            worst = fmax(worst, fabs((double)(rank1[i] - plain[i])));
        CHECK(worst < 1e-11, "%zu variables: rank 1 and plain differ by %g", V, worst);
    }
}

/* ---- LSTM ------------------------------------------------------------------------------------------------------- */

enum { STEPS = 75 }; /* of three samples: three blocks forward, two backward */

static real *lstm_h, *lstm_c, *lstm_gates;

static struct lstm_steps lstm_steps(struct bench *b)
{
    return (
        struct lstm_steps){ .S = STEPS, .padding = b->state, .x = b->x, .gates = lstm_gates, .h = lstm_h, .c = lstm_c };
}

/* The context holds the initial h and c. Outputs: all h, then the last c. */
static void lstm_run(struct bench *b)
{
    const struct lstm *lstm = b->layer;
    size_t state = b->pass.B * lstm->H;

    memcpy(lstm_h, b->context, state * sizeof(real));
    memcpy(lstm_c, b->context + state, state * sizeof(real));
    lstm_forward(&b->pass, lstm, lstm_steps(b));
    memcpy(b->y, lstm_h + state, STEPS * state * sizeof(real));
    memcpy(b->y + STEPS * state, lstm_c + STEPS * state, state * sizeof(real));
}

static void lstm_back(struct bench *b)
{
    const struct lstm *lstm = b->layer;
    size_t state = b->pass.B * lstm->H;
    real *d_h = b->d_context, *d_c = d_h + state;

    memset(d_h, 0, state * sizeof(real));
    memcpy(d_c, b->y + STEPS * state, state * sizeof(real));
    memset(b->d_x, 0, b->inputs * sizeof(real));
    lstm_backward(
        &b->pass, lstm, lstm_steps(b),
        &(struct lstm_backward){ .d_out = b->y, .d_h = d_h, .d_c = d_c, .d_x = b->d_x, .scratch = b->scratch });
}

static void test_lstm(void)
{
    struct bench b;
    struct lstm lstm = { .H = 5 };
    size_t B = 3, state = B * lstm.H;

    bench_init(&b, B, STEPS * B, 0);
    lstm.input = linear_at(&b.params, 5, 20, 1);
    lstm.recurrent = linear_at(&b.params, 5, 20, 0);
    lstm_h = reals((STEPS + 1) * state);
    lstm_c = reals((STEPS + 1) * state);
    lstm_gates = reals(4 * STEPS * state);
    b.layer = &lstm;
    b.forward = lstm_run;
    b.backward = lstm_back;
    b.inputs = STEPS * state;
    b.outputs = (STEPS + 1) * state;
    bench_check(&b, "lstm", 2 * state);
    lstm_run(&b);
    for (size_t k = 0; k < 5; k++) { /* the first step by the formula */
        double sums[4];

        for (size_t gate = 0; gate < 4; gate++) {
            sums[gate] = b.p[lstm.input.b + gate * 5 + k];
            for (size_t i = 0; i < 5; i++)
                sums[gate] += b.x[i] * b.p[lstm.input.w + i * 20 + gate * 5 + k] +
                              b.context[i] * b.p[lstm.recurrent.w + i * 20 + gate * 5 + k];
        }
        double c = b.context[state + k] / (1 + exp(-sums[1])) + tanh(sums[2]) / (1 + exp(-sums[0]));

        CHECK(fabs(b.y[k] - tanh(c) / (1 + exp(-sums[3]))) < 1e-12, "h of unit %zu", k);
    }
    free(lstm_h);
    free(lstm_c);
    free(lstm_gates);
    bench_fini(&b);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

static void attention_run(struct bench *b)
{
    attention_forward(&b->pass, b->layer, b->state, b->x, NULL, b->y, b->scratch);
}

static void attention_back(struct bench *b)
{
    memset(b->d_x, 0, b->inputs * sizeof(real));
    attention_backward(&b->pass, b->layer, b->state, b->x, b->y, b->d_x, b->scratch);
}

static void test_attention(size_t N, double dropout, int average_first, real *out)
{
    struct bench b;
    struct attention_state state;
    size_t B = 3, T = 7, H = 6, heads = 3;
    struct attention layer = { .H = H,
                               .heads = heads,
                               .d = 2,
                               .T = T,
                               .N = N,
                               .average_first = average_first,
                               .head_dropped = 1,
                               .query_bias = TFT_NONE,
                               .head_site = { 1, H, 0 },
                               .output_site = { 2, H, 0 } };

    bench_init(&b, B, T * B, dropout);
    layer.query = 0;
    layer.key = heads * H * 2;
    b.params = 2 * heads * H * 2;
    layer.value = linear_at(&b.params, H, 2, 0);
    layer.output = linear_at(&b.params, 2, H, 0);
    attention_layout(&b.arena, &layer, B, &state);
    b.layer = &layer;
    b.state = &state;
    b.forward = attention_run;
    b.backward = attention_back;
    b.inputs = T * B * H;
    b.outputs = N * B * H;
    bench_check(&b, "attention", 0);
    attention_run(&b);
    memcpy(out, b.y + (N - 2) * B * H, 2 * B * H * sizeof(real));
    bench_fini(&b);
}

static void test_attentions(void)
{
    real all[100], some[100], averaged[100];

    test_attention(7, 0.3, 0, all);
    test_attention(2, 0.3, 1, some);
    for (size_t i = 0; i < 36; i++)
        CHECK(fabs(all[i] - some[i]) < 1e-13, "queries for some steps only: %g instead of %g", some[i], all[i]);
    test_attention(2, 0, 0, some);
    test_attention(2, 0, 1, averaged);
    for (size_t i = 0; i < 36; i++)
        CHECK(fabs(averaged[i] - some[i]) < 1e-13, "heads averaged first: %g instead of %g", averaged[i], some[i]);
}

/* ---- loss ------------------------------------------------------------------------------------------------------- */

struct loss_case {
    struct queue *queue;
    real p[2 * 2 * 6], y[2 * 2 * 2], w[2 * 2 * 2], d_p[2 * 2 * 6];
};

static const double quantiles[] = { 0.1, 0.5, 0.9 };

static double loss_and_gradient(const struct loss_case *c, real *d_p)
{
    const struct outputs_run run = {
        .D = 2, .B = 2, .P = 3, .O = 2, .quantiles = quantiles, .scale = 0.25, .p = c->p, .y = c->y, .w = c->w
    };
    double loss;

    kernel_loss(c->queue, &run, &loss, d_p);
    return loss;
}

static double loss_run(void *arg)
{
    return loss_and_gradient(arg, NULL);
}

static void test_loss(void)
{
    struct loss_case c;
    double expected = 0, error;

    REQUIRE(tft_kernels_cpu()->open(&(struct queue_needs){ 0 }, &c.queue) == HALAY_OK);
    fill_values(c.p, 24, 1);
    fill_values(c.y, 8, 2);
    for (size_t i = 0; i < 8; i++)
        c.w[i] = i != 3;
    c.y[3] = NAN;
    for (size_t t = 0; t < 2; t++)
        for (size_t b = 0; b < 2; b++)
            for (size_t o = 0; o < 2; o++)
                for (size_t q = 0; q < 3; q++) {
                    size_t target = (b * 2 + t) * 2 + o;
                    double d = c.y[target] - c.p[(t * 2 + b) * 6 + q * 2 + o];

                    if (target != 3)
                        expected += 0.25 * (quantiles[q] * fmax(d, 0) + (1 - quantiles[q]) * fmax(-d, 0));
                }
    CHECK(fabs(loss_run(&c) - expected) < 1e-14, "%g instead of %g", loss_run(&c), expected);
    loss_and_gradient(&c, c.d_p);
    error = gradient_error(c.p, c.d_p, 24, 100, loss_run, &c);
    CHECK(error < 1e-9, "the loss's gradient is off by %g", error);
    tft_kernels_cpu()->close(c.queue);
}

int main(void)
{
    test_linear();
    test_layernorm();
    test_glu(0);
    test_glu(0.3);
    test_grn(7, 7, 0, 0);
    test_grn(7, 7, 1, 0.3);
    test_grn(6, 3, 1, 0.3);
    test_selections();
    test_lstm();
    test_attentions();
    test_loss();
    return test_end();
}
