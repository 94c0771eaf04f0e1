/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers: forecasts as CSV, JSON or JSON lines, and refusals, each with its headers.
 *
 *     text/csv                what `halay-tft predict -o` writes
 *     application/jsonlines   for each instance a line {"forecasts": [ROW, ...], "explanations": [ROW, ...]}
 *     application/json        {"predictions": [what is a line of these, ...]}
 *
 * with rows as `halay-tft predict` writes them into a .jsonl.
 */
#ifndef HALAY_TFT_SERVE_ANSWER_H
#define HALAY_TFT_SERVE_ANSWER_H

#include "base/http/http.h"
#include "tft/tools/serve/request.h"

/* Forecasts of `count` queries of one request, made as CSV for SERVE_CSV and as JSON lines for the others; step: of the
 * model, as text. Returns the code: 200, or that of a refusal: no memory, or a limit of answers. */
int serve_answer(struct halay_http_exchange *exchange, enum serve_form form, const struct halay_tft_query *queries,
                 size_t count, const char *step);
/* Returns the error's code. */
int serve_answer_error(struct halay_http_exchange *exchange, const struct serve_error *error);
/* The same of one without a field. */
int serve_answer_refusal(struct halay_http_exchange *exchange, int code, const char *reason);

#endif
