/* SPDX-License-Identifier: Apache-2.0
 *
 * The carrier of data on devices (requests/carrier.h).
 */
#ifndef HALAY_DEVICE_CARRIER_H
#define HALAY_DEVICE_CARRIER_H

struct halay_carrier;

/* Creates the carrier, NULL without memory. */
struct halay_carrier *halay_device_carrier_create(void);

#endif
