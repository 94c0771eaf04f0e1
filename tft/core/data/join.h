/* SPDX-License-Identifier: Apache-2.0
 *
 * Join: the entities of several data of one schema and encoding, one behind the other, as one data. An id may come
 * several times: whose entity it is follows from its number.
 */
#ifndef HALAY_TFT_JOIN_H
#define HALAY_TFT_JOIN_H

#include "tft/core/data/data.h"

/* The parts are copied and stay the caller's; schema and encoding are borrowed from the first of them, so that
 * tft_data_end ends the joined data. HALAY_ERR_NO_MEMORY (logged). */
enum halay_status tft_data_join(struct halay_log *log, const struct tft_data *parts, size_t count,
                                struct tft_data *joined);

/* End data whose schema and encoding are borrowed. */
void tft_data_end(struct tft_data *data);

#endif
