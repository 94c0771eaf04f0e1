/* SPDX-License-Identifier: Apache-2.0
 *
 * Batcher: requests that wait, and the thread that forecasts for them. It takes all that wait and agree in their
 * options, forecasts their windows in one call, and answers each; no request waits for a batch to fill. It also reads
 * the bodies, so that the thread that serves HTTP answers others meanwhile, and reads no more of them than the next
 * batch needs: a JSON body takes thirty times its length once it is read. A long request is read and forecast in
 * slices; between two of them the thread takes a batch of requests whose bodies are far shorter than its own, so that
 * none waits for the longest.
 *
 * A model is a session's, and so this thread's alone. The thread that loads a newer one leaves it here; the batcher's
 * thread takes it between two batches, so that each request is answered by one model.
 */
#ifndef HALAY_TFT_SERVE_BATCHER_H
#define HALAY_TFT_SERVE_BATCHER_H

#include "base/http/http.h"
#include "tft/tools/serve/metrics.h"
#include "tft/tools/serve/model.h"
#include "tft/tools/serve/request.h"

/* A request that waits. */
struct serve_waiting {
    struct halay_http_exchange *exchange; /* to be answered; has the body */
    enum serve_form asked;                /* of the body */
    struct serve_words words;             /* the exchange's */
    int is_read;                          /* the thread's, as the request */
    struct serve_request request;         /* owned */
    enum serve_form form;                 /* of the answer */
    int64_t begun_us;
    size_t bytes; /* of the body; serve_batcher_add sets it */
    struct serve_waiting *next;
};

struct serve_batcher;

/* most: requests that may wait; batch: tables that are forecast together; calibrate: of requests that do not say, NULL:
 * as the model was trained; borrowed. Takes the model over, also on error. */
enum halay_status serve_batcher_start(struct halay_log *log, struct serve_metrics *metrics, struct serve_model *model,
                                      size_t most, size_t batch, const char *calibrate, int64_t timeout_us,
                                      struct serve_batcher **batcher);

/* Let a request wait, which is taken over then. Returns 0 if there are too many, or it has been stopped. */
int serve_batcher_add(struct serve_batcher *batcher, struct serve_waiting *waiting);

/* Use another model from the next batch on; takes it over. */
void serve_batcher_swap(struct serve_batcher *batcher, struct serve_model *model);

/* Take no more requests. refuses: what waits is refused, not forecast. Blocks until all have been answered. */
void serve_batcher_stop(struct serve_batcher *batcher, int refuses);
void serve_batcher_destroy(struct serve_batcher *batcher);

#endif
