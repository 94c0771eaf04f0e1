/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the C ABI of XLA's foreign function interface that halay uses, from version 0.1 on, which JAX 0.5 has:
 * later versions add at the end of a struct. Names are halay's own. The size members of structs are unreliable: JAX 0.5
 * sets them too small.
 */
#ifndef HALAY_XLA_ABI_H
#define HALAY_XLA_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_MAJOR = 0, XLA_MINOR = 1 };
enum { XLA_EXTENSION_METADATA = 1 };
enum { XLA_STAGE_EXECUTE = 3 };
enum { XLA_BUFFER = 1 };
enum { XLA_SCALAR = 3 };
enum { XLA_INVALID_ARGUMENT = 3, XLA_ABORTED = 10 };

enum xla_dtype {
    XLA_PRED = 1,
    XLA_S8 = 2,
    XLA_S16 = 3,
    XLA_S32 = 4,
    XLA_S64 = 5,
    XLA_U8 = 6,
    XLA_U16 = 7,
    XLA_U64 = 9,
    XLA_F16 = 10,
    XLA_F32 = 11,
    XLA_F64 = 12,
    XLA_BF16 = 16,
};

/* The head of each struct. */
struct xla_head {
    size_t struct_size;
    struct xla_extension *extensions;
};

struct xla_extension {
    size_t struct_size;
    int type;
    struct xla_extension *next;
};

struct xla_version {
    struct xla_head head;
    int major, minor;
};

/* XLA's query for metadata: a call with this extension, when the handler is registered. */
struct xla_metadata {
    size_t struct_size;
    struct xla_version version;
    uint32_t traits;
};

struct xla_metadata_extension {
    struct xla_extension base;
    struct xla_metadata *metadata;
};

struct xla_buffer {
    struct xla_head head;
    int dtype;
    void *data;
    int64_t dimensions;
    int64_t *shape;
};

/* Arguments, or results. */
struct xla_values {
    struct xla_head head;
    int64_t count;
    int *types;
    void **values;
};

struct xla_text {
    const char *text; /* no NUL at its end */
    size_t length;
};

struct xla_scalar {
    int dtype;
    void *value;
};

struct xla_attributes {
    struct xla_head head;
    int64_t count;
    int *types;
    struct xla_text **names;
    void **values;
};

struct xla_error;
struct xla_future;

struct xla_error_create {
    struct xla_head head;
    const char *message;
    int code;
};

struct xla_future_create {
    struct xla_head head;
    struct xla_future *future; /* out */
};

struct xla_future_set {
    struct xla_head head;
    struct xla_future *future;
};

struct xla_future_fail {
    struct xla_head head;
    struct xla_future *future;
    struct xla_error *error; /* XLA's from then on */
};

/* XLA's functions that a handler may call. */
struct xla_api {
    struct xla_head head;
    struct xla_version version;
    const void *internal;
    struct xla_error *(*error_create)(struct xla_error_create *);
    void (*unused[12])(void);
    struct xla_error *(*future_create)(struct xla_future_create *);
    struct xla_error *(*future_set)(struct xla_future_set *);
    struct xla_error *(*future_fail)(struct xla_future_fail *);
};

struct xla_frame {
    struct xla_head head;
    const struct xla_api *api;
    void *execution;
    int stage;
    struct xla_values arguments, results;
    struct xla_attributes attributes;
    struct xla_future *future; /* out */
};

#endif
