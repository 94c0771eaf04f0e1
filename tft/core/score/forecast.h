/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts of many windows, by all ranks together, in bounded memory.
 *
 * Windows are forecast in chunks. Each rank computes its share of a chunk; a sum joins the shares (a rank's buffer is
 * zero outside its own, so no bit depends on who computed what). Every rank gets all forecasts in order of window.
 */
#ifndef HALAY_TFT_FORECAST_H
#define HALAY_TFT_FORECAST_H

#include "halay.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/blend.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/resident.h"
#include "tft/core/score/calibration.h"

/* A granule that was forecast, while its workspace still holds it. */
struct tft_forecast_granule {
    int thread;
    const struct tft_workspace *workspace;
    const struct tft_batch *batch;
    const struct tft_gather *gather; /* sample b's window is that at position batch->position + b */
    float *more;                     /* to write: sample b's numbers are at more + b * stride */
    size_t stride;
};
/* Called on the workers' threads, in any order. */
typedef void (*tft_forecast_look)(void *arg, const struct tft_forecast_granule *granule);

struct tft_forecaster {
    struct halay_log *log;     /* borrowed, as all pointers of the first group */
    struct halay_context *ctx; /* NULL: this process alone */
    struct tft_stop *stop;     /* NULL: it is not asked to stop */
    const struct tft_model *model;
    struct tft_workers *workers;
    struct tft_gather gather;            /* which windows */
    const struct tft_resident *resident; /* the data's rows on the workers' device; NULL: the host fills batches */
    const float *params;
    const struct tft_members *members; /* whose quantiles are averaged with those of params; NULL: none */
    const struct tft_blend *blend;     /* NULL: not blended */
    struct tft_calibrator *calibrator; /* NULL: forecasts stay as the model makes them */
    tft_forecast_look look;            /* of params' granules alone; NULL: none */
    void *look_arg;
    void (*between)(void *arg); /* NULL: none; called on the caller's thread between two chunks, of which none is left
                                   on the workers: they may be used for other forecasts */
    void *between_arg;
    size_t more;          /* numbers of each window that it writes */
    size_t chunk_windows; /* forecast at a time; 0: TFT_FORECAST_CHUNK, the most */
    float *chunk;  /* owned: (windows of a chunk), for each (D, O, Q), (more) and, of distributions, the loss; and
                             a number that is summed with them. With members as much again, for one's */
    int has_begun; /* params and the members' are those of the first chunk */
    size_t count, first, next, end; /* of tft_forecast_next: positions in all; where the chunk begins, which is the next
                                       one, where the chunk ends */
};

/* Called on the caller's thread with each window's forecast, in order: p is (D, O, Q), scaled as
 * tft_data_target_scaler has it, and then (more). */
typedef enum halay_status (*tft_forecast_take)(void *arg, size_t position, const struct tft_window *window,
                                               const float *p);

/* A distribution's loss, of p as `take` gets it: that of all windows of a granule is with the granule's first one.
 * It is the model's (the mean of its members'), whatever is done with its forecasts. 0 of other losses, which follow
 * from forecasts. */
double tft_forecast_loss(const struct tft_forecaster *forecaster, const float *p);

enum { TFT_FORECAST_CHUNK = 2048 };
/* The most granules that a rank's workers compute at once, for tft_workers_create. */
size_t tft_forecast_granules(const struct tft_model *model);

/* The fields before `chunk` are set by the caller. */
enum halay_status tft_forecaster_init(struct tft_forecaster *forecaster);
void tft_forecaster_fini(struct tft_forecaster *forecaster);

/*
 * Forecast positions [0, count) of the gather. HALAY_ERR_CANCELED (not logged), on all ranks at the same chunk: one of
 * them was asked to stop. It stops computing within a granule, and all ranks know the reason afterwards.
 */
enum halay_status tft_forecast(struct tft_forecaster *forecaster, size_t count, tft_forecast_take take, void *arg);

/* Forecast one by one: begin with `count` positions, then get each of them with its window and its forecast, which is
 * valid until the next call. *p is NULL after the last one. failed: HALAY_OK, or why this rank gives up; it is sent to
 * the others and returned. */
void tft_forecast_begin(struct tft_forecaster *forecaster, size_t count);
enum halay_status tft_forecast_next(struct tft_forecaster *forecaster, enum halay_status failed, size_t *position,
                                    struct tft_window *window, const float **p);

#endif
