/* SPDX-License-Identifier: Apache-2.0
 *
 * Place: the location of a submission's data, and the sizes of its input and output.
 */
#ifndef HALAY_PLACE_H
#define HALAY_PLACE_H

#include "fusion/requests/carrier.h"

/* halay_carrier_ops.prepare */
enum halay_status halay_place(const struct halay_tensor *tensor, struct halay_cargo **cargo);

#endif
