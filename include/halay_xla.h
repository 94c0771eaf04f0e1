/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: collectives within programs that XLA has compiled for CPUs, as JAX makes them.
 *
 * halay_xla_call, `call` of halay_xla_calls, is a handler of XLA's foreign function interface, of its C ABI of version
 * 0.1 or later: it submits by name, returns a future, and a thread of its own completes that, so no thread of XLA's
 * waits and calls may run in any order. python/halay/jax.py registers it and shows what its attributes are:
 *
 *     context  u64  the address of a struct halay_xla
 *     info     u64  the address of a struct halay_tensor_info, which stays as it is as long as the program may run;
 *                   dtype, dimensions, shape, in, out and out_bytes are taken from the call's one argument and one
 *                   result
 *
 * A broadcast's data are those of the argument on the root. Of an all-gather and an all-to-all the rows of all ranks
 * must fill the result: if they are fewer, or more, this rank's call ends with an error. So it does with every other
 * error of the submission, whose text it has.
 */
#ifndef HALAY_XLA_H
#define HALAY_XLA_H

#include "halay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What compiled programs know of a context. */
struct halay_xla;

/* What the library has for XLA, as pointers: the three functions below. Later versions add members at the end, and
 * struct_size is that of the version that runs. */
struct halay_xla_calls {
    size_t struct_size;
    enum halay_status (*open)(struct halay_context *ctx, struct halay_xla **xla);
    void (*close)(struct halay_xla *xla);
    void *(*call)(void *frame);
};

/* The functions for XLA; static storage. For languages that load the library; C has them below. */
HALAY_API const struct halay_xla_calls *halay_xla_calls(void);

/* Make one, with its thread. It is never freed, as a compiled program may have its address as long as the process
 * lives: some hundred bytes. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM (no thread). */
static inline enum halay_status halay_xla_open(struct halay_context *ctx, struct halay_xla **xla)
{
    return halay_xla_calls()->open(ctx, xla);
}

/* The context is going to end: call it before halay_fini. Later calls end with an error; those under way end with the
 * context at the latest, and then so does the thread. Never blocks for long. NULL is allowed. */
static inline void halay_xla_close(struct halay_xla *xla)
{
    halay_xla_calls()->close(xla);
}

/* The handler: frame is an XLA_FFI_CallFrame, the result an XLA_FFI_Error or NULL. Any thread. */
static inline void *halay_xla_call(void *frame)
{
    return halay_xla_calls()->call(frame);
}

#ifdef __cplusplus
}
#endif
#endif
