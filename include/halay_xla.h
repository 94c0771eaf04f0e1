/* SPDX-License-Identifier: Apache-2.0
 *
 * halay: collectives within programs that XLA has compiled for CPUs, for example by JAX.
 *
 * halay_xla_call, `call` of halay_xla_calls, is a handler of XLA's foreign function interface (C ABI version 0.1 or
 * later). It submits by name and returns a future, which a thread of its own completes; so no thread of XLA waits, and
 * calls may run in any order. python/halay/jax.py registers the handler. Its attributes:
 *
 *     context  u64  the address of a struct halay_xla
 *     info     u64  the address of a struct halay_tensor_info, which stays as it is as long as the context is open;
 *                   dtype, dimensions, shape, in, out and out_bytes are taken from the call's one argument and one
 *                   result
 *
 * A broadcast takes its data from the argument on the root. In an all-gather and an all-to-all the rows of all ranks
 * must fill the result exactly: otherwise this rank's call ends with an error. Every other error of a submission ends
 * the call, too, with the submission's text.
 */
#ifndef HALAY_XLA_H
#define HALAY_XLA_H

#include "halay.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The handle of a context in compiled programs. */
struct halay_xla;

/* The library's functions for XLA, as pointers: the three functions below. Later versions add members at the end;
 * struct_size is that of the running version. */
struct halay_xla_calls {
    size_t struct_size;
    enum halay_status (*open)(struct halay_context *ctx, struct halay_xla **xla);
    void (*close)(struct halay_xla *xla);
    void *(*call)(void *frame);
};

/* Returns the functions for XLA; static storage. For languages that load the library; C programs use the functions
 * below. */
HALAY_API const struct halay_xla_calls *halay_xla_calls(void);

/* Creates a handle, with its thread. It is never freed (some hundred bytes), because a compiled program may hold its
 * address until the process ends. Errors: HALAY_ERR_ARGUMENT, HALAY_ERR_NO_MEMORY, HALAY_ERR_SYSTEM (no thread). */
static inline enum halay_status halay_xla_open(struct halay_context *ctx, struct halay_xla **xla)
{
    return halay_xla_calls()->open(ctx, xla);
}

/* Detaches the handle from its context; call it before halay_fini. Later calls end with an error; those in flight end
 * with the context at the latest, and then the thread ends. Never blocks for long. NULL is allowed. */
static inline void halay_xla_close(struct halay_xla *xla)
{
    halay_xla_calls()->close(xla);
}

/* Handles a call: frame is an XLA_FFI_CallFrame, the result an XLA_FFI_Error or NULL. Any thread. */
static inline void *halay_xla_call(void *frame)
{
    return halay_xla_calls()->call(frame);
}

#ifdef __cplusplus
}
#endif
#endif
