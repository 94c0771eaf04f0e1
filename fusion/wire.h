/* SPDX-License-Identifier: Apache-2.0
 *
 * Wire types: f32 that travels as f16 or bf16. Conversion and scale factor in one pass, in f32, rounded once.
 */
#ifndef HALAY_WIRE_H
#define HALAY_WIRE_H

#include "halay.h"

/* The type that a wire type is (not HALAY_WIRE_AS_IS). */
enum halay_dtype halay_wire_dtype(enum halay_wire wire);

/* out[i] = factor * in[i], rounded to the wire type; out[i] = factor * in[i] of the wire type. Nothing overlaps. */
void halay_wire_narrow(void *out, const float *in, size_t count, enum halay_wire wire, double factor);
void halay_wire_widen(float *out, const void *in, size_t count, enum halay_wire wire, double factor);

#endif
