#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# CONTRIBUTING's recipes for a kernel and a layer of the model: a kernel that subtracts a row from rows, and a layer
# with a learned offset that uses it in front of the output, are added to a copy of the tree in the places that the
# recipes list, but for the layer's ONNX form. The model is compiled in double, and runs on the processor and in memory
# that the host cannot touch.
. "${top_srcdir:?}/tests/build/build.sh"
plain_make base/libbase.la >/dev/null
top_builddir=$(cd "$top_builddir" && pwd -P)
tree=$scratch/tree
mkdir "$tree"
for folder in base include perf tests tft; do
    cp -r "$top_srcdir/$folder" "$tree/"
done
compiler=$(make_variable CC)
cxx=$(make_variable CXX)
cd "$tree"

# after FILE LINE: adds the standard input after the first line that has this text.
after() {
    grep -qF -- "$2" "$1" || wrong "$1 has no line '$2'"
    AT=$2 awk 'FNR == NR { text = text $0 "\n"; next }
        { print }
        !done && index($0, ENVIRON["AT"]) { printf "%s", text; done = 1 }' - "$1" >"$scratch/changed"
    cp "$scratch/changed" "$1"
}

# ---- a kernel: its row, its loop, its twin ----
after tft/core/kernels/kernels.def '/* y (R, W) += b (W) */' <<'END'
KERNEL(rows_subtract, (const real *b, size_t R, size_t W, real *y), (b, R, W, y),
       R && W && apart(b, W, y, R * W),
       MOVES(2 * R * W))
END
cat >>tft/core/kernels/cpu_rows.c <<'END'

void cpu_rows_subtract(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    for (size_t i = 0; i < R * W; i++)
        y[i] -= b[i % W];
}
END
cat >>tft/core/kernels/cuda/rows.cu <<'END'

struct subtract_row {
    size_t W;
    const float *b;
    float *y;

    __device__ void operator()(size_t i) const
    {
        y[i] -= b[i % W];
    }
};

void cuda_rows_subtract(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    run_each(queue, subtract_row{ W, b, y }, R * W);
}
END

# ---- a layer: its header, its functions, the build's list, and four places of the model ----
cat >tft/core/layers/shift.h <<'END'
/* y = x - offset (W), in place; d_x = d_y. */
#ifndef HALAY_TFT_SHIFT_H
#define HALAY_TFT_SHIFT_H

#include "tft/core/layers/pass.h"

struct shift {
    size_t W, offset;
};

void shift_forward(const struct pass *pass, const struct shift *layer, size_t R, real *x);
/* Writes the gradient of offset. */
void shift_backward(const struct pass *pass, const struct shift *layer, const real *d_y, size_t R);

#endif
END
cat >tft/core/layers/shift.c <<'END'
#include "tft/core/layers/shift.h"

void shift_forward(const struct pass *pass, const struct shift *layer, size_t R, real *x)
{
    kernel_rows_subtract(pass->queue, pass->p + layer->offset, R, layer->W, x);
}

void shift_backward(const struct pass *pass, const struct shift *layer, const real *d_y, size_t R)
{
    kernel_zero(pass->queue, layer->W, pass->g + layer->offset);
    for (size_t r = 0; r < R; r++)
        kernel_rows_subtract(pass->queue, d_y + r * layer->W, 1, layer->W, pass->g + layer->offset);
}
END
echo "	tft/core/layers/shift.c tft/core/layers/shift.h \\" | after tft/core/model.am 'TFT_MODEL_SOURCES ='
echo '#include "tft/core/layers/shift.h"' | after tft/core/model/model_impl.h '#include "tft/core/layers/lstm.h"'
printf '    struct shift shift;\n    struct span shift_params;\n' |
    after tft/core/model/model_impl.h '    struct linear output;'
after tft/core/model/network.c 'model->output_gate = add_gate(' <<'END'
    model->shift = (struct shift){ .W = H, .offset = add_tensor(builder, "shift", "offset", 0, H, TFT_INIT_ZERO) };
    model->shift_params = take_span(builder);
END
echo '    shift_forward(pass, &model->shift, horizon, w->last + unseen * H);' |
    after tft/core/model/forward.c 'gate_rows_forward(pass, &model->output_gate,'
after tft/core/model/backward.c 'pass_final(pass, model->output_params);' <<'END'
    shift_backward(pass, &model->shift, w->d_tail + unseen * H, horizon);
    pass_final(pass, model->shift_params);
END

# Its test: the offset is subtracted from the sum to which the norm of the gate adds its own.
cat >tests/tft/test_shift.c <<'END'
#include "tests/tft/device_step.h"

static const real *gradient_of(const struct tft_param_table *table, const char *name, const real *gradients)
{
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->params[i].name, name))
            return gradients + table->params[i].offset;
    REQUIRE(!name);
    return NULL;
}

int main(void)
{
    struct tft_model_config config;
    struct tft_model *model;
    struct results r;

    device_config(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    run_step(&config, tft_kernels_cpu(), 3, &r);
    REQUIRE(tft_model_create(NULL, &config, &model) == HALAY_OK);
    const real *d_offset = gradient_of(tft_model_params(model), "shift.offset", r.gradients);
    const real *d_beta = gradient_of(tft_model_params(model), "output_gate.norm.beta", r.gradients);
    for (size_t i = 0; i < config.H; i++)
        CHECK(d_beta[i] != 0 && fabs(d_offset[i] + d_beta[i]) < 1e-12, "%zu: %g, not %g", i, d_offset[i], -d_beta[i]);
    tft_model_destroy(model);
    results_free(&r);
    return test_end();
}
END

# ---- what the build would do ----
mkdir "$scratch/objects"
sources=$(sed -n '/^TFT_MODEL_SOURCES/,/[^\\]$/p' tft/core/model.am | grep -o 'tft/[^ ]*\.c')
model_sources=$(printf '%s\n' "$sources" tft/core/kernels/gemm_alone.c perf/trainer/synthetic.c)
cat >"$scratch/compile" <<END
$compiler -std=gnu11 -O1 -w -DTFT_DOUBLE -include "$top_builddir/config.h" -I. -Iinclude \
    -c "\$1" -o "$scratch/objects/\$(echo "\$1" | tr / -).o"
END
printf '%s\n' "$model_sources" tests/tft/test_shift.c tests/tft/test_far_memory.c perf/trainer/counted.c |
    xargs -n 1 -P 2 sh "$scratch/compile" || wrong "a kernel and a layer do not compile"
objects=$(printf '%s\n' "$model_sources" | tr / - | sed "s|.*|$scratch/objects/&.o|")
for name in test_shift test_far_memory; do
    checks=$((checks + 1))
    # shellcheck disable=SC2046,SC2086 # lists of words
    (cd "$top_builddir" && ./libtool --silent --tag=CC --mode=link $compiler -o "$scratch/$name" \
        "$scratch/objects/tests-tft-$name.c.o" $objects $(make_variable BASE_LIBS) -lm -lpthread) \
        >"$scratch/said" 2>&1 && "$scratch/$name" >"$scratch/said" || wrong "$name: $(tail -n 5 "$scratch/said")"
done
# The counting device has the kernel, and so have the GPU's table and its file, compiled as C++.
checks=$((checks + 1))
nm "$scratch/objects/perf-trainer-counted.c.o" | grep -q counted_rows_subtract || wrong "nothing counts the kernel"
if [ -n "$cxx" ] && command -v "${cxx%% *}" >/dev/null; then
    checks=$((checks + 1))
    # shellcheck disable=SC2086 # compilers are lists of words
    { $compiler -std=gnu11 -w -c -I. -Iinclude -Itests/cuda/include tft/core/kernels/cuda/cuda.c \
        -o "$scratch/table.o" &&
        $cxx -std=c++17 -w -x c++ -c -I. -Iinclude -Itests/cuda/include tft/core/kernels/cuda/rows.cu \
            -o "$scratch/rows.o" && nm "$scratch/rows.o" | grep -q ' T cuda_rows_subtract' &&
        nm "$scratch/table.o" | grep -q ' U cuda_rows_subtract'; } || wrong "a GPU does not have the kernel"
fi
build_end
