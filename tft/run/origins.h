/* SPDX-License-Identifier: Apache-2.0
 *
 * Rolling origins: the training span's end, and moments before it up to which one could have trained and from which on
 * one could have validated. One validation span is one season; a choice that holds at several origins is less likely to
 * be that season's.
 *
 *     origin 0   training .................................................. | validation
 *     origin 1   training .................................... | validation
 *     origin 2   training ...................... | validation
 *
 * Origins are as far apart as the validation span is long, at most a sixth of the training span, so that two thirds of
 * it are left. At an earlier one, inputs whose `per` is tried are scaled by their entity's rows before it: the scale of
 * the whole training span would know to which level values are going to move, and flatter `per: entity`. Other inputs
 * keep their scale, the same for all that is tried.
 */
#ifndef HALAY_TFT_ORIGINS_H
#define HALAY_TFT_ORIGINS_H

#include "tft/data/windows.h"

enum { TFT_ORIGINS = 3 };

struct tft_origins {
    struct halay_log *log; /* borrowed, as the next */
    struct tft_data *data;
    int count;                /* origins: TFT_ORIGINS, or 1 where spans are shorter than a horizon */
    int64_t ends[2], apart;   /* of training and validation, as the schema says; steps */
    int levels;               /* what is open in the schema */
    struct tft_level *scales; /* owned: (entities, reals), at the present origin */
};

/* Nothing is held on error. */
enum halay_status tft_origins_init(struct halay_log *log, struct tft_data *data, struct tft_origins *origins);
/* The data's splits are the schema's again. */
void tft_origins_fini(struct tft_origins *origins);
/* Move the data's splits, in the struct of their schema, to an origin, so that windows that are listed then and naive
 * forecasts follow; *levels: what these windows are scaled by (struct tft_windows). HALAY_ERR_FORMAT (logged): damaged
 * data. */
enum halay_status tft_origins_go(struct tft_origins *origins, int number, const struct tft_level **levels);

#endif
