/* SPDX-License-Identifier: Apache-2.0
 *
 * Members: models of one configuration, trained from one seed each, whose forecast is the mean of their quantiles.
 * Their errors are partly each one's own, which a mean evens out.
 */
#ifndef HALAY_TFT_MEMBERS_H
#define HALAY_TFT_MEMBERS_H

#include "halay.h"
#include "tft/core/model/params.h"
#include "tft/core/run/run_config.h"

struct tft_model;

/* Those after the first, whose parameters are the run's. */
struct tft_members {
    size_t count;
    float *params[TFT_RUN_MEMBERS_MAX]; /* owned: a model's block each */
};

struct tft_member_name {
    char text[40];
};

/* "member-2" and an ending: of the first of those. */
struct tft_member_name tft_member_name(size_t member, const char *ending);

/* Memory for a block of a model's weights, zeroed; NULL: there is none (logged). */
float *tft_alloc_params(struct halay_log *log, const struct tft_model *model);
/* Make this number of blocks. On error those made so far are held. */
enum halay_status tft_members_init(struct halay_log *log, const struct tft_model *model, size_t count,
                                   struct tft_members *members);
void tft_members_fini(struct tft_members *members);

#endif
