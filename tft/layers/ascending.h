/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles that cannot cross: the first one as the last layer gives it, each next one higher by a softplus.
 *
 *   p_0 = o_0,   p_q = p_(q-1) + log(1 + e^(o_q))
 *
 *   o, p (R, Q O): column q O + target
 */
#ifndef HALAY_TFT_ASCENDING_H
#define HALAY_TFT_ASCENDING_H

#include "tft/kernels/real.h"
#include <stddef.h>

/* o becomes p, in place. */
void ascending_forward(real *o, size_t R, size_t Q, size_t O);
/* d_p becomes d_o, in place. p: what forward gave. */
void ascending_backward(const real *p, size_t R, size_t Q, size_t O, real *d_p);

#endif
